/* The CSV files of signals: which one a record's lines go into, and what it is called. */
#ifndef TAPEDECK_SINK_CSV_TABLES_H
#define TAPEDECK_SINK_CSV_TABLES_H

#include "sink/append.h"

typedef struct td__csv_table {
    struct td__csv_table *next;
    td_form form;
    int64_t columns;  /* ROWS, BATCH: values in a row; otherwise 0 */
    int64_t labels;   /* ROWS of predictions: label columns */
    bool scores;      /* of classes; then a column has the predicted class */
    size_t name_room; /* bytes of a class's name */
    td__append *file;
} td__csv_table;

typedef struct td__csv_tables {
    td__append_set *set;     /* set it; all else is zero at first */
    struct claim *claims;    /* forms that SIGNAL.csv is kept for */
    td__csv_table **signals; /* by signal index: the tables of each */
    size_t signal_count;
} td__csv_tables;

/* The signal's list of tables; NULL when memory is exhausted. */
td__csv_table **td__csv_tables_of(td__csv_tables *tables, const td_record *record, td_error *error);
/* One of them with this form and these columns; NULL when there is none. */
td__csv_table *td__csv_table_find(td__csv_table *list, const td__csv_table *wanted);
/* Opens a file for a table like wanted, which begins with this header. */
TD_NODISCARD td_status td__csv_table_add(td__csv_tables *tables, const td_record *record,
                                         td__csv_table **signal, const td__csv_table *wanted,
                                         const char *header, size_t size, td__csv_table **found,
                                         td_error *error);
/* A track names the signal. The first track to do so decides the form of SIGNAL.csv; of several forms
 * the most detailed one is used. */
TD_NODISCARD td_status td__csv_claim(td__csv_tables *tables, const char *signal, uint32_t forms,
                                     td_error *error);
/* Whether a track has named it so. */
bool td__csv_is_claimed(const td__csv_tables *tables, const char *signal);
void td__csv_tables_release(td__csv_tables *tables);

#endif
