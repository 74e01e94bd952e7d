/* Snapshots, entries and batches, recycled through free lists. */
#include "deck/snapshot.h"

#include "base/memory.h"

#include <string.h>

td__snapshot *td__snapshot_create(td__recycler *recycler, td_signal *signal, uint32_t kind) {
    td__snapshot *snapshot = recycler->snapshots;
    if (snapshot) {
        recycler->snapshots = snapshot->next;
        memset(snapshot, 0, sizeof *snapshot);
    } else {
        snapshot = td__calloc(1, sizeof *snapshot);
    }
    if (snapshot) {
        snapshot->references = 1;
        snapshot->signal = signal;
        snapshot->kind = kind;
    }
    return snapshot;
}

static void recycle(td__recycler *recycler, td__snapshot *snapshot) {
    snapshot->next = recycler->snapshots;
    recycler->snapshots = snapshot;
}

void td__snapshot_unref(td__recycler *recycler, td__snapshot *snapshot) {
    if (--snapshot->references > 0) {
        return;
    }
    td__pool *pool = &recycler->pool;
    if (snapshot->data_size) {
        td__pool_give(pool, (void *)(uintptr_t)snapshot->view.data, snapshot->data_size);
    }
    if (snapshot->bins_size) {
        td__pool_give(pool, (void *)(uintptr_t)snapshot->histogram.bins, snapshot->bins_size);
    }
    td__pool_give(pool, snapshot->text, snapshot->text_size);
    td__batch_unref(recycler, snapshot->batch);
    if (snapshot->view.release) {
        snapshot->next = recycler->borrowed;
        recycler->borrowed = snapshot;
    } else {
        recycle(recycler, snapshot);
    }
}

void td__borrowed_tell(const td__snapshot *borrowed) {
    for (; borrowed; borrowed = borrowed->next) {
        borrowed->view.release(borrowed->view.owner);
    }
}

void td__borrowed_recycle(td__recycler *recycler, td__snapshot *borrowed) {
    while (borrowed) {
        td__snapshot *next = borrowed->next;
        recycle(recycler, borrowed);
        borrowed = next;
    }
}

td__entry *td__entry_create(td__recycler *recycler, td__entry_kind kind) {
    td__entry *entry = recycler->entries;
    if (entry) {
        recycler->entries = entry->next;
        memset(entry, 0, sizeof *entry);
    } else {
        entry = td__calloc(1, sizeof *entry);
    }
    if (entry) {
        entry->kind = kind;
    }
    return entry;
}

void td__entry_release(td__recycler *recycler, td__entry *entry) {
    td__snapshot *snapshot = entry->snapshot;
    td__pool_give(&recycler->pool, entry->text, entry->text_size);
    if (!entry->own) {
        entry->next = recycler->entries;
        recycler->entries = entry;
    }
    if (snapshot) { /* last: the entry may be part of it */
        td__snapshot_unref(recycler, snapshot);
    }
}

td__batch *td__batch_create(td__recycler *recycler, const int64_t *rows, int64_t count,
                            const td_view *labels) {
    size_t label_bytes = 0;
    int64_t label_count;
    if (labels && td_shape_check(&labels->shape, labels->dtype, &label_count, NULL) == TD_OK) {
        label_bytes = (size_t)label_count * td_dtype_size(labels->dtype);
    }
    size_t row_bytes = (size_t)count * sizeof *rows;
    size_t size = sizeof(td__batch) + row_bytes + label_bytes;
    td__batch *batch = td__pool_take(&recycler->pool, size);
    if (!batch) {
        return NULL;
    }
    *batch = (td__batch){.references = 1, .size = size, .count = count};
    batch->rows = (int64_t *)(batch + 1);
    memcpy(batch->rows, rows, row_bytes);
    if (label_bytes) {
        void *copy = batch->rows + count;
        memcpy(copy, labels->data, label_bytes);
        batch->labels = (td_view){labels->dtype, labels->shape, copy, NULL, NULL};
    }
    return batch;
}

void td__batch_unref(td__recycler *recycler, td__batch *batch) {
    if (batch && --batch->references == 0) {
        td__pool_give(&recycler->pool, batch, batch->size);
    }
}

td__kept *td__kept_create(td__recycler *recycler, td__snapshot *snapshot) {
    td__kept *kept = recycler->kept;
    if (kept) {
        recycler->kept = kept->next;
    } else {
        kept = td__calloc(1, sizeof *kept);
    }
    if (kept) {
        *kept = (td__kept){.snapshot = snapshot};
    }
    return kept;
}

void td__kept_release(td__recycler *recycler, td__kept *kept) {
    kept->next = recycler->kept;
    recycler->kept = kept;
}

#define FREE_LIST(type, list)                                                                      \
    while (list) {                                                                                 \
        type *next = (list)->next;                                                                 \
        td__free(list);                                                                            \
        (list) = next;                                                                             \
    }

void td__recycler_release(td__recycler *recycler) {
    FREE_LIST(td__snapshot, recycler->snapshots)
    FREE_LIST(td__entry, recycler->entries)
    FREE_LIST(td__kept, recycler->kept)
    td__pool_release(&recycler->pool);
}
