/* Rows on their way into run.db.
 *
 * They wait in memory, as a statement's number and its values one after another, until a
 * transaction takes them all. Only when it has been committed are they forgotten; one that fails
 * (disk full) is rolled back and tried again with what has come since. */
#ifndef TAPEDECK_SINK_BATCH_H
#define TAPEDECK_SINK_BATCH_H

#include "tapedeck/base.h"

#include <sqlite3.h>

/* What can be written; batch.c has their SQL and the types of their values, in the same order. */
typedef enum td__statement {
    TD__SIGNAL_ROW,
    TD__STEP_ROW,
    TD__SCALAR_ROW,
    TD__STATS_ROW,
    TD__HISTOGRAM_ROW,
    TD__TENSORS_ROW,
    TD__EXAMPLE_ROW,
    TD__HASH_ROW,
    TD__TEXT_ROW,
    TD__EVENT_ROW,
    TD__RUN_ROW,
    TD__ENVIRONMENT_ROW,
    TD__EXPERIMENT_ROW,
    TD__STATEMENTS
} td__statement;

typedef struct td__batch {
    sqlite3 *database; /* set it; all else is zero at first */
    sqlite3_stmt *prepared[TD__STATEMENTS];
    uint8_t *pending;
    size_t size, capacity;
    size_t rows;  /* pending */
    size_t start; /* where the row being built begins */
    bool full;    /* it did not fit */
    /* Puts what else there is to write, before a transaction; more: there may be something. */
    td_status (*gather)(void *owner, struct td__batch *batch, td_error *error);
    void *owner;
    bool more;
    bool failing;    /* the last transaction failed */
    bool dirty;      /* committed since the last sync */
    double tried_at; /* seconds: the last transaction */
} td__batch;

TD_NODISCARD td_status td__batch_prepare(td__batch *batch, td_error *error);
void td__batch_release(td__batch *batch);
/* "run.db: cannot VERB: …" of an SQLite error. */
td_status td__batch_error(const td__batch *batch, int code, const char *verb, td_error *error);

/* A row: begin, a put for each value, end. */
void td__batch_begin(td__batch *batch, td__statement statement);
void td__batch_int(td__batch *batch, int64_t value);
void td__batch_real(td__batch *batch, double value);                    /* NaN becomes NULL */
void td__batch_text(td__batch *batch, const char *text, size_t length); /* text may be NULL */
/* Cleaned to UTF-8, as readers expect of TEXT. */
void td__batch_clean(td__batch *batch, const char *text, size_t length);
/* TD_MEMORY when the row did not fit; it is then as if it had not been begun. */
TD_NODISCARD td_status td__batch_end(td__batch *batch, td_error *error);

/* One transaction of everything pending. */
td_status td__batch_commit(td__batch *batch, td_error *error);
/* After a record: commits when there is much; an error only when nothing more can wait. */
td_status td__batch_commit_if_full(td__batch *batch, td_error *error);
/* After a step: commits when that was last tried a moment ago. */
td_status td__batch_commit_if_old(td__batch *batch, td_error *error);
/* Commits, and waits until that is on disk. */
td_status td__batch_sync(td__batch *batch, td_error *error);

#endif
