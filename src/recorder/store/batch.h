/* Rows on their way into a store.
 *
 * They wait in memory, as a table's number (a byte) and its values one after another (8 bytes for a
 * number; the length and the bytes of a text, a length of -1 for none), until a transaction takes
 * them all; TD__TABLES more than a table's number, and nothing behind it, empties the table. Only
 * when it has been committed are they forgotten; one that fails (disk full) is rolled back and
 * tried again with what has come since. */
#ifndef TAPEDECK_STORE_BATCH_H
#define TAPEDECK_STORE_BATCH_H

#include "store/store.h"

typedef struct td__batch {
    td__store *store; /* set it; all else is zero at first */
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

void td__batch_release(td__batch *batch);

/* A row: begin, a put for each value, end. */
void td__batch_begin(td__batch *batch, td__store_table table);
void td__batch_int(td__batch *batch, int64_t value);
void td__batch_real(td__batch *batch, double value);                    /* NaN becomes NULL */
void td__batch_text(td__batch *batch, const char *text, size_t length); /* text may be NULL */
/* Cleaned to UTF-8, as readers expect of TEXT. */
void td__batch_clean(td__batch *batch, const char *text, size_t length);
/* Likewise of a C string, or NULL. */
void td__batch_words(td__batch *batch, const char *text);
/* TD_MEMORY when the row did not fit; it is then as if it had not been begun. */
TD_NODISCARD td_status td__batch_end(td__batch *batch, td_error *error);

/* All rows of the table go. */
TD_NODISCARD td_status td__batch_clear(td__batch *batch, td__store_table table, td_error *error);

/* Everything pending is lost. */
void td__batch_discard(td__batch *batch);

/* One transaction of everything pending. */
td_status td__batch_commit(td__batch *batch, td_error *error);
/* After a record: commits when there is much; an error only when nothing more can wait. */
td_status td__batch_commit_if_full(td__batch *batch, td_error *error);
/* After a step: commits when that was last tried a moment ago. */
td_status td__batch_commit_if_old(td__batch *batch, td_error *error);
/* Commits, and waits until that is on disk. */
td_status td__batch_sync(td__batch *batch, td_error *error);

#endif
