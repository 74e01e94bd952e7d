/* Rows on their way into a store; see batch.h. */
#include "store/batch.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"

#include <string.h>

enum { BATCH = 20000, BATCH_BYTES = 4 << 20 };
static const size_t pending_maximum = (size_t)64 << 20;
static const double commit_seconds = 0.25, slow_seconds = 1;

/* --- gathering -------------------------------------------------------------------------------- */

static void put_bytes(td__batch *batch, const void *data, size_t size) {
    batch->full |=
        !td__grow(&batch->pending, &batch->capacity, batch->size + size, pending_maximum, 1);
    if (!batch->full) {
        memcpy(batch->pending + batch->size, data, size);
        batch->size += size;
    }
}

void td__batch_begin(td__batch *batch, td__store_table table) {
    batch->start = batch->size;
    batch->full = false;
    put_bytes(batch, &(uint8_t){(uint8_t)table}, 1);
}

void td__batch_int(td__batch *batch, int64_t value) {
    put_bytes(batch, &value, sizeof value);
}
void td__batch_real(td__batch *batch, double value) {
    put_bytes(batch, &value, sizeof value);
}

/* text may be NULL. */
void td__batch_text(td__batch *batch, const char *text, size_t length) {
    td__batch_int(batch, text ? (int64_t)length : -1);
    put_bytes(batch, text ? text : "", text ? length : 0);
}

/* Cleaned to UTF-8, as readers expect of TEXT. */
void td__batch_clean(td__batch *batch, const char *text, size_t length) {
    td__batch_int(batch, 0);
    size_t start = batch->size;
    batch->full |=
        !td__grow(&batch->pending, &batch->capacity, start + 3 * length, pending_maximum, 1);
    if (!batch->full) {
        int64_t size = (int64_t)td__clean_text((char *)batch->pending + start, text, length);
        memcpy(batch->pending + start - sizeof size, &size, sizeof size);
        batch->size += (size_t)size;
    }
}

void td__batch_words(td__batch *batch, const char *text) {
    if (text) {
        td__batch_clean(batch, text, strlen(text));
    } else {
        td__batch_text(batch, NULL, 0);
    }
}

td_status td__batch_end(td__batch *batch, td_error *error) {
    if (batch->full) {
        batch->size = batch->start;
        return td_error_set(error, TD_MEMORY,
                            "run.db: no room for a record; %zu wait to be written", batch->rows);
    }
    batch->rows++;
    return TD_OK;
}

td_status td__batch_clear(td__batch *batch, td__store_table table, td_error *error) {
    td__batch_begin(batch, (td__store_table)(TD__TABLES + table));
    return td__batch_end(batch, error);
}

/* --- transactions ----------------------------------------------------------------------------- */

void td__batch_discard(td__batch *batch) {
    batch->size = batch->rows = batch->start = 0;
    batch->gather = NULL;
    batch->more = false;
}

td_status td__batch_commit(td__batch *batch, td_error *error) {
    td_status status;
    do { /* again when what is pending left no room for all that was to be gathered */
        status = batch->more ? batch->gather(batch->owner, batch, error) : TD_OK;
        if (batch->rows == 0) {
            return status;
        }
        batch->tried_at = td__seconds();
        status = batch->store->class->insert(batch->store, batch->pending, batch->size, error);
        batch->failing = status != TD_OK;
        if (status) {
            return status;
        }
        batch->size = batch->rows = 0;
        batch->dirty = true;
    } while (batch->more);
    return TD_OK;
}

/* After a record: an error only when nothing more can wait. */
td_status td__batch_commit_if_full(td__batch *batch, td_error *error) {
    bool much = batch->rows >= BATCH || batch->size >= BATCH_BYTES;
    if (!much || (batch->failing && td__seconds() - batch->tried_at < commit_seconds)) {
        return TD_OK;
    }
    td_status status = td__batch_commit(batch, error);
    return status && batch->size >= pending_maximum / 2 ? status : TD_OK;
}

td_status td__batch_commit_if_old(td__batch *batch, td_error *error) {
    double wait = batch->store->slow ? slow_seconds : commit_seconds;
    return (batch->rows > 0 || batch->more) && td__seconds() - batch->tried_at >= wait
               ? td__batch_commit(batch, error)
               : TD_OK;
}

td_status td__batch_sync(td__batch *batch, td_error *error) {
    td_status status = td__batch_commit(batch, error);
    if (!status && batch->dirty) {
        status = batch->store->class->sync(batch->store, error);
        batch->dirty = status != TD_OK;
    }
    return status;
}

void td__batch_release(td__batch *batch) {
    td__free(batch->pending);
}
