/* Runs in a PostgreSQL database (docs/team.md): the connection, and what its files share.
 *
 * A run of a database is its run.db in another shape. Whatever grows with the steps is kept in chunks (chunk.h), all
 * else row by row. The local run.db is always written first; what the server has is made to be what run.db has,
 * signal by signal from a step on, so sending something again changes nothing. */
#ifndef TAPEDECK_STORE_POSTGRESQL_H
#define TAPEDECK_STORE_POSTGRESQL_H

#include "base/url.h"
#include "store/driver.h"
#include "store/store.h"

#include <pthread.h>

enum { TD__PG_VERSION = 2, TD__PG_NUMBER = 24 };

/* ---- The connection (postgresql.c) ---------------------------------------------------------- */

typedef struct td__pg {
    const td__pg_driver *driver;
    void *connection; /* NULL: it has to be opened (again) */
    char url[TD__URL_ROOM];
    bool writes, tensors; /* tensors: files of tensors are wanted there, too */
    double seconds;       /* that a statement may take */
    /* Of connections that readers share (td__pg_share): */
    pthread_mutex_t lock;
    int users;
    struct td__pg *next;
} td__pg;

/* Connects; writes: makes the tables where there are none, and brings them up to date. Otherwise the session can
 * only read. TD_UNSUPPORTED without the plugin, TD_IO when the server cannot be reached, TD_NOT_FOUND when the
 * database has no runs, TD_INVALID when the server refuses the user. */
TD_NODISCARD td_status td__pg_open(const char *url, bool writes, td__pg **pg, td_error *error);
void td__pg_close(td__pg *pg); /* accepts NULL */
/* TD_UNSUPPORTED without the plugin. */
TD_NODISCARD td_status td__pg_available(td_error *error);
/* Connects again after the connection has failed. */
TD_NODISCARD td_status td__pg_reopen(td__pg *pg, td_error *error);
/* The process's connection for reading from this URL, to be given back. It is used under its lock. */
TD_NODISCARD td_status td__pg_share(const char *url, td__pg **pg, td_error *error);
void td__pg_unshare(td__pg *pg);

/* A statement with parameters, all as text ("" may be NULL). each may be NULL. */
TD_NODISCARD td_status td__pg_run(td__pg *pg, const char *sql, int count, const char *const *values,
                                  td__pg_row_function *each, void *user, td_error *error);
/* Statements without parameters, separated by semicolons. */
TD_NODISCARD td_status td__pg_script(td__pg *pg, const char *sql, td_error *error);
TD_NODISCARD td_status td__pg_put(td__pg *pg, const void *bytes, size_t size, td_error *error);
TD_NODISCARD td_status td__pg_finish(td__pg *pg, td_error *error);
/* What was notified since LISTEN: a row with the payload each. */
TD_NODISCARD td_status td__pg_notified(td__pg *pg, td__pg_row_function *each, void *user,
                                       td_error *error);
/* An integer as a parameter; returns out. */
const char *td__pg_number(char out[TD__PG_NUMBER], int64_t value);

/* ---- Answers (pg_answer.c) ------------------------------------------------------------------ */

/* Numbers in PostgreSQL's order of bytes; what has another length is 0 or NaN. */
int64_t td__pg_integer(const td__pg_cell *cell);
double td__pg_real(const td__pg_cell *cell);
/* The elements of an array of one dimension, into elements; false unless there are exactly `count`. */
bool td__pg_elements(const td__pg_cell *array, td__pg_cell *elements, size_t count);

/* Rows of an answer, kept. All zero at first. */
typedef struct td__pg_answer {
    char *bytes; /* of cells, each with a zero behind it */
    size_t size, capacity;
    struct {
        size_t start;
        int length;
    } * cells;
    size_t cell_count, cell_capacity;
    int columns;
    size_t count; /* rows */
} td__pg_answer;
/* A td__pg_row_function; user is the answer. False when it has become larger than any that is asked for. */
bool td__pg_keep(void *user, const td__pg_cell *cells, int count);
td__pg_cell td__pg_cell_of(const td__pg_answer *answer, size_t row, int column);
void td__pg_forget(td__pg_answer *answer); /* its rows; the memory stays */
void td__pg_answer_release(td__pg_answer *answer);
/* Asks on a shared connection, connecting again where that was lost; the answer has these rows alone. */
TD_NODISCARD td_status td__pg_ask(td__pg *pg, const char *sql, int count, const char *const *values,
                                  td__pg_answer *answer, td_error *error);
/* A row's text; "" for NULL. */
const char *td__pg_word(const td__pg_answer *answer, size_t row, int column);

/* ---- Tables (pg_schema.c) ------------------------------------------------------------------- */

/* Makes the tables, or brings them up to date; one connection at a time. */
TD_NODISCARD td_status td__pg_migrate(td__pg *pg, td_error *error);
/* TD_NOT_FOUND where there are none, TD_UNSUPPORTED when they are of a later version. */
TD_NODISCARD td_status td__pg_check(td__pg *pg, td_error *error);

/* A source that is kept in chunks: rows with a step, of a signal (or of none: steps). */
typedef struct td__pg_series {
    td__source source;
    td__store_table table; /* of run.db */
    const char *name;      /* the table of chunks */
    const char *view;      /* the same row by row */
    int columns;           /* beside the step */
    const char *names[10]; /* in TD__…'s order; arrays */
    const char *types;     /* i, d, t or b, each */
} td__pg_series;
enum { TD__PG_SERIES = 7 };
extern const td__pg_series td__pg_all_series[TD__PG_SERIES];
/* NULL: it is kept row by row. */
const td__pg_series *td__pg_series_of(td__source source);

/* A table that is kept row by row: the columns behind `run`, and where they come from. */
typedef struct td__pg_table {
    td__source source;
    td__store_table table; /* of run.db */
    const char *name, *columns, *types;
    const char *kind;  /* a column of this value is in front of the others: notes */
    const char *order; /* of its rows */
    bool numbered;     /* a column with the number of the row is in front */
} td__pg_table;
enum { TD__PG_TABLES = 9 };
extern const td__pg_table td__pg_tables[TD__PG_TABLES];

/* ---- Reading (pg_rows.c, pg_open.c, pg_listing.c) ------------------------------------------- */

typedef struct td__pg_store {
    td__store store;
    td__remote about;
    td__pg *pg; /* shared */
    char *folder;
    char number[TD__PG_NUMBER]; /* of the run, as text */
    const td__listing *listing; /* that it comes from, and its place there */
    size_t listed;
} td__pg_store;
extern const td__store_class td__pg_class;

/* td__store_read of URL#NAME. */
TD_NODISCARD td_status td__pg_read(const char *place, td__store **store, td_error *error);

#endif
