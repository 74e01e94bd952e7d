/* SQL over relations: tables whose rows their owner makes while a statement asks for them.
 *
 * A statement runs in a database of its own that has nothing but these tables, in memory. It can
 * read them and nothing else: an authorizer refuses every other action, and its time is limited. */
#ifndef TAPEDECK_STORE_RELATIONS_H
#define TAPEDECK_STORE_RELATIONS_H

#include "tapedeck/sql.h"

enum { TD__RELATION_COLUMNS = 16 };

/* What a statement compares columns run TEXT, signal TEXT and step INTEGER with. Rows that do not match may be left out;
 * SQLite checks those that come. */
typedef struct td__filter {
    const char *run, *signal; /* NULL: any */
    int64_t first, last;      /* steps */
} td__filter;

typedef struct td__relation {
    const char *name;
    const char *columns[TD__RELATION_COLUMNS]; /* "step INTEGER", …, up to the first NULL */
} td__relation;

typedef struct td__relations {
    const td__relation *relations;
    size_t count;
    /* A cursor over a relation; NULL when memory is exhausted. */
    void *(*open)(void *context, const td__relation *relation);
    /* Starts (again), before the first row. */
    td_status (*begin)(void *cursor, const td__filter *filter, td_error *error);
    /* Goes to the next row: 1, or 0 at the end, or -1 with an error. */
    int (*next)(void *cursor, td_error *error);
    /* A column of the row; texts are valid until next. The cell is TD_CELL_NULL before. */
    void (*cell)(void *cursor, int column, td_cell *cell);
    void (*close)(void *cursor);
} td__relations;

typedef struct td__statement td__statement;

/* The relations are borrowed. seconds: of processor time, from now on. */
TD_NODISCARD td_status td__statement_open(const td__relations *relations, void *context,
                                          const char *sql, double seconds, td__statement **opened,
                                          td_error *error);
void td__statement_close(td__statement *statement);
size_t td__statement_columns(const td__statement *statement, const char *const **names);
/* Until when it may run, as td__cpu_seconds counts. */
double td__statement_until(const td__statement *statement);
int td__statement_next(td__statement *statement, const td_cell **cells, td_error *error);

#endif
