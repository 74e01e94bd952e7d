/* Snapshots, entries and batches, recycled through free lists. */
#include "deck/snapshot.h"

#include "base/memory.h"
#include "tensor/element.h"
#include "tensor/stats.h"

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

static void recycle_snapshot(td__recycler *recycler, td__snapshot *snapshot) {
    snapshot->next = recycler->snapshots;
    recycler->snapshots = snapshot;
}

void td__snapshot_unref(td__recycler *recycler, td__snapshot *snapshot) {
    if (--snapshot->references > 0) {
        return;
    }
    td__deck_pool *pool = &recycler->pool;
    if (snapshot->data_size) {
        td__deck_pool_give(pool, (void *)(uintptr_t)snapshot->view.data, snapshot->data_size);
    }
    if (snapshot->bins_size) {
        td__deck_pool_give(pool, (void *)(uintptr_t)snapshot->histogram.bins, snapshot->bins_size);
    }
    td__deck_pool_give(pool, snapshot->text, snapshot->text_size);
    td__deck_batch_unref(recycler, snapshot->batch);
    if (snapshot->view.release) {
        snapshot->next = recycler->borrowed;
        recycler->borrowed = snapshot;
    } else {
        recycle_snapshot(recycler, snapshot);
    }
}

void td__snapshot_sum_up(td__snapshot *snapshot) {
    int64_t count = td__elements_from(&snapshot->view.shape, 0);
    td_bin *bins = (td_bin *)(uintptr_t)snapshot->histogram.bins; /* its own, pooled */
    td__reduction to = {&snapshot->stats, bins, &snapshot->histogram, NULL};
    td__reduce(&snapshot->view, count, &to);
    if (snapshot->has & TD_HASH) {
        (void)!td_hash_of(&snapshot->view, &snapshot->hash, NULL); /* the view was checked */
    }
    if (!(snapshot->has & TD__DATA_FORMS)) {
        snapshot->view.release(snapshot->view.owner);
        snapshot->view.release = NULL;
        snapshot->view.data = NULL;
    }
}

void td__borrowed_notify(const td__snapshot *borrowed) {
    for (; borrowed; borrowed = borrowed->next) {
        borrowed->view.release(borrowed->view.owner);
    }
}

void td__borrowed_recycle(td__recycler *recycler, td__snapshot *borrowed) {
    while (borrowed) {
        td__snapshot *next = borrowed->next;
        recycle_snapshot(recycler, borrowed);
        borrowed = next;
    }
}

/* Free tickets and messages are linked through their entries. */
td__ticket *td__ticket_create(td__recycler *recycler) {
    td__ticket *ticket = recycler->tickets;
    if (ticket) {
        recycler->tickets = (td__ticket *)ticket->entry.next;
        return ticket;
    }
    return td__calloc(1, sizeof *ticket);
}

td__message *td__message_create(td__recycler *recycler, td__entry_kind kind) {
    td__message *message = recycler->messages;
    if (message) {
        recycler->messages = (td__message *)message->entry.next;
    } else {
        message = td__calloc(1, sizeof *message);
    }
    if (message) {
        *message = (td__message){.entry.kind = kind};
    }
    return message;
}

td__packed *td__packed_create(td__recycler *recycler, size_t size) {
    td__packed *packed = td__deck_pool_take(&recycler->pool, size);
    if (packed) {
        *packed = (td__packed){.entry = {.kind = TD__ENTRY_PACKED, .bytes = size}, .size = size};
        packed->ahead = td__deck_pool_peek(&recycler->pool, size);
    }
    return packed;
}

static void release_packed(td__recycler *recycler, td__packed *packed) {
    td__deck_batch_unref(recycler, packed->batch);
    td__deck_pool_give(&recycler->pool, packed, packed->size);
}

static void release_ticket(td__recycler *recycler, td__ticket *ticket) {
    td__snapshot *snapshot = ticket->snapshot;
    if (!ticket->own) {
        ticket->entry.next = (td__entry *)recycler->tickets;
        recycler->tickets = ticket;
    }
    td__snapshot_unref(recycler, snapshot); /* last: the ticket may be part of it */
}

void td__entry_release(td__recycler *recycler, td__entry *entry) {
    switch (entry->kind) {
    case TD__ENTRY_RECORD:
        release_ticket(recycler, (td__ticket *)entry);
        break;
    case TD__ENTRY_SUM_UP:
        td__snapshot_unref(recycler, ((td__summing *)entry)->snapshot);
        break;
    case TD__ENTRY_PACKED:
        release_packed(recycler, (td__packed *)entry);
        break;
    case TD__ENTRY_EXPECT:
    case TD__ENTRY_EVENT:
    case TD__ENTRY_ALERT:
    case TD__ENTRY_NOTE: {
        td__message *message = (td__message *)entry;
        td__deck_pool_give(&recycler->pool, message->text, message->text_size);
        entry->next = (td__entry *)recycler->messages;
        recycler->messages = message;
        break;
    }
    case TD__ENTRY_FLUSH:
        break;
    }
}

td__deck_batch *td__deck_batch_create(td__recycler *recycler, const int64_t *rows, int64_t count,
                                      const td_view *labels) {
    size_t label_bytes = 0;
    int64_t label_count;
    if (labels && td_shape_check(&labels->shape, labels->dtype, &label_count, NULL) == TD_OK) {
        label_bytes = (size_t)label_count * td_dtype_size(labels->dtype);
    }
    size_t row_bytes = (size_t)count * sizeof *rows;
    size_t size = sizeof(td__deck_batch) + row_bytes + label_bytes;
    td__deck_batch *batch = td__deck_pool_take(&recycler->pool, size);
    if (!batch) {
        return NULL;
    }
    *batch = (td__deck_batch){.references = 1, .size = size, .count = count};
    batch->rows = (int64_t *)(batch + 1);
    memcpy(batch->rows, rows, row_bytes);
    if (label_bytes) {
        void *copy = batch->rows + count;
        memcpy(copy, labels->data, label_bytes);
        batch->labels = (td_view){labels->dtype, labels->shape, copy, NULL, NULL};
    }
    return batch;
}

void td__deck_batch_unref(td__recycler *recycler, td__deck_batch *batch) {
    if (batch && --batch->references == 0) {
        td__deck_pool_give(&recycler->pool, batch, batch->size);
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

static void free_entries(td__entry *entry) {
    while (entry) {
        td__entry *next = entry->next;
        td__free(entry); /* the entry is the first member of what was allocated */
        entry = next;
    }
}

void td__recycler_release(td__recycler *recycler) {
    free_entries((td__entry *)recycler->tickets);
    free_entries((td__entry *)recycler->messages);
    while (recycler->snapshots) {
        td__snapshot *next = recycler->snapshots->next;
        td__free(recycler->snapshots);
        recycler->snapshots = next;
    }
    while (recycler->kept) {
        td__kept *next = recycler->kept->next;
        td__free(recycler->kept);
        recycler->kept = next;
    }
    td__deck_pool_release(&recycler->pool);
}
