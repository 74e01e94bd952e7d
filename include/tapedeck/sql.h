/* Read-only SQL over one or many runs, in SQLite's dialect.
 *
 *     const char *runs[] = {"runs/demo"};
 *     td_sql *sql = td_sql_open(runs, 1, "select signal, min(value) from scalars group by signal",
 *                               NULL, &error);
 *     const td_cell *cells;
 *     while (td_sql_next(sql, &cells, &error) > 0) {
 *         …
 *     }
 *     td_sql_close(sql);
 *
 * A statement sees the tables that docs/sql.md lists: runs, signals, steps, scalars, stats,
 * histograms, tensors, examples, texts, findings, events, config, notes, environment, ranks and spread. Each has a column `run`. (pragma_table_list
 * and pragma_table_info name them, also without any run.) It never sees a run's database itself: rows come through the same checks as everything else that is
 * read of a run, so a hostile run.db stays harmless. A statement that is not a query is refused.
 *
 * Threads: one td_sql, one thread at a time.
 */
#ifndef TAPEDECK_SQL_H
#define TAPEDECK_SQL_H

#include "tapedeck/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct td_sql td_sql;

typedef enum td_cell_kind {
    TD_CELL_NULL, /* NaN too: SQL has none */
    TD_CELL_INTEGER,
    TD_CELL_REAL,
    TD_CELL_TEXT, /* valid UTF-8 as far as the run is */
    TD_CELL_BYTES,
} td_cell_kind;

/* A value of a row. */
typedef struct td_cell {
    td_cell_kind kind;
    int64_t integer;
    double real;      /* of TD_CELL_INTEGER too */
    const char *text; /* of TD_CELL_TEXT, ends in a 0; of TD_CELL_BYTES */
    size_t length;    /* of text, in bytes */
} td_cell;

typedef struct td_sql_options {
    size_t size;    /* sizeof(td_sql_options) */
    double seconds; /* of processor time that the statement may take; default 60 */
} td_sql_options;

/* runs: paths of runs, or of folders that have runs below them; copied, as is the statement. options
 * may be NULL. NULL on failure: TD_NOT_FOUND when a path has no run, TD_INVALID with SQLite's reason
 * when the statement is not one query. */
TD_API td_sql *td_sql_open(const char *const *runs, size_t count, const char *statement,
                           const td_sql_options *options, td_error *error);
/* Accepts NULL. */
TD_API void td_sql_close(td_sql *sql);

/* The names of a row's columns; how many. Valid until td_sql_close. */
TD_API size_t td_sql_columns(const td_sql *sql, const char *const **names);
/* Goes to the next row: 1 with its cells, which are valid until the next call; 0 at the end; -1 with
 * an error (TD_RANGE: it took longer than it may), which is the end too. */
TD_API int td_sql_next(td_sql *sql, const td_cell **cells, td_error *error);
/* What could not be read of the runs so far, one sentence each; how many. Valid until the next call. */
TD_API size_t td_sql_problems(const td_sql *sql, const char *const **texts);

#ifdef __cplusplus
}
#endif
#endif
