/* A run that is open for reading. */
#ifndef TAPEDECK_RUN_RUN_H
#define TAPEDECK_RUN_RUN_H

#include "run/problems.h"
#include "tapedeck/run.h"

#include <sqlite3.h>

struct td_run {
    char *folder, *name;
    sqlite3 *database; /* run.db, or what was read from event files */
    bool events;
    char **event_files; /* when events */
    size_t event_file_count;
    td_run_info info;
    td_run_signal *signals;
    size_t signal_count, signal_capacity;
    td__problems problems;
    /* Of the record that is being handed on. */
    td_range *ranges;
    size_t range_capacity;
    uint8_t *bytes;
    size_t bytes_capacity;
    int64_t *samples;
    size_t sample_capacity;
};

/* ---- The database (database.c) -------------------------------------------------------------- */

/* Opens FOLDER/run.db for reading: in place, or where that is not possible (a folder that cannot be
 * written to has no place for a log's index) as it is, or with its log as a copy. */
td_status td__run_open_database(td_run *run, td_error *error);
/* NULL, and a problem, when it cannot be prepared. */
sqlite3_stmt *td__run_prepare(td_run *run, const char *sql);
/* Whether there is another row; damage is a problem and the end. */
bool td__run_next(td_run *run, sqlite3_stmt *statement);
/* NULL is NaN. */
double td__column_number(sqlite3_stmt *statement, int column);

/* ---- Files beside it (files.c) -------------------------------------------------------------- */

/* Record number `index` of an NPY file in the run's folder, into run->bytes. */
td_status td__run_load_tensor(td_run *run, const char *file, int64_t index, td_view *view,
                              td_error *error);
/* All of a file in the run's folder, into run->bytes. */
td_status td__run_load_file(td_run *run, const char *file, size_t *size, td_error *error);
/* The rows of the data set that record `index` of an NPY file is about; NULL when not known. */
const int64_t *td__run_load_samples(td_run *run, const char *file, int64_t index, int64_t count);
/* Bytes of all files below. */
int64_t td__folder_bytes(const char *folder);

/* ---- Event files (import.c) ----------------------------------------------------------------- */

/* Reads all event files into a database of run.db's form, which is the run's own and temporary. */
td_status td__run_import(td_run *run, td_error *error);
td_status td__run_read_events(td_run *run, const td_run_query *query, td_record_function *each,
                              void *user, td_error *error);

#endif
