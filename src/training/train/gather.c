#include "train/shards.h"

#include "group/group.h"

#include "train/trainer.h"

#include "base/memory.h"
#include "tensor/element.h"

#include <string.h>

#define MOST_BYTES ((size_t)1 << 40)

/* What stands before each tensor on its way to rank 0. */
typedef struct header {
    uint64_t entry, size;
    int32_t dtype;
    td_shape shape;
} header;

/* ---- Taking ---------------------------------------------------------------------------------- */

static bool wants(void *user, size_t entry) {
    const td_trainer *trainer = user;
    return trainer->shards.wanted[entry] && !trainer->shards.idle;
}

/* Rows behind those that are there. */
static void append_view(td__shards *s, size_t entry, const td_view *view) {
    td__gathered *g = &s->gathered[entry];
    size_t bytes = (size_t)td__elements_from(&view->shape, 0) * td_dtype_size(view->dtype);
    if (!td__grow(&g->data, &g->room, g->size + bytes, MOST_BYTES, 1)) {
        s->out_of_memory = true;
        return;
    }
    int64_t rows = g->size ? g->shape.dims[0] : 0;
    g->dtype = view->dtype;
    g->shape = view->shape;
    g->shape.dims[0] += rows;
    if (bytes) {
        memcpy(g->data + g->size, view->data, bytes);
    }
    g->size += bytes;
}

static void take_view(void *user, size_t entry, td_view view) {
    td_trainer *trainer = user;
    if (view.shape.rank > 0) {
        append_view(&trainer->shards, entry, &view);
    }
    if (view.release) {
        view.release(view.owner);
    }
}

/* The labels of the whole batch are recorded with the rest. */
static void take_labels(void *user, const td_batch *batch) {
    (void)user;
    (void)batch;
}

td_status td__gather_begin(td_trainer *trainer, td_error *error) {
    td__shards *s = &trainer->shards;
    const td__signal_entry *entries = trainer->signals.entries;
    for (size_t i = 0; i < s->entry_count; i++) {
        s->wanted[i] = entries[i].batched && td_signal_wants(entries[i].signal);
        s->gathered[i].size = 0;
    }
    s->out_of_memory = false;
    s->tap = (td__signal_tap){
        .wants = wants, .record = take_view, .labels = take_labels, .user = trainer};
    trainer->signals.tap = &s->tap;
    return s->group ? td_group_broadcast(s->group, s->wanted, s->entry_count, 0, error) : TD_OK;
}

/* ---- Sending --------------------------------------------------------------------------------- */

static bool pack(td__shards *s) {
    s->packed_size = 0;
    for (size_t i = 0; i < s->entry_count; i++) {
        const td__gathered *g = &s->gathered[i];
        header head;
        if (!s->wanted[i] || !g->size) {
            continue;
        }
        memset(&head, 0, sizeof head);
        head.entry = i;
        head.size = g->size;
        head.dtype = (int32_t)g->dtype;
        head.shape = g->shape;
        size_t size = s->packed_size + sizeof head + g->size;
        if (!td__grow(&s->packed, &s->packed_room, size, MOST_BYTES, 1)) {
            return false;
        }
        memcpy(s->packed + s->packed_size, &head, sizeof head);
        memcpy(s->packed + s->packed_size + sizeof head, g->data, g->size);
        s->packed_size = size;
    }
    return true;
}

/* What the other processes have, by rank: their parts are behind those of rank 0. */
static void unpack(td__shards *s, const uint8_t *all, size_t size) {
    for (size_t at = 0; at + sizeof(header) <= size;) {
        header head;
        memcpy(&head, all + at, sizeof head);
        at += sizeof head;
        if (head.entry >= s->entry_count || head.size > size - at) {
            return;
        }
        td_view view = {.dtype = (td_dtype)head.dtype, .shape = head.shape, .data = all + at};
        append_view(s, head.entry, &view);
        at += head.size;
    }
}

static td_status collect(td__shards *s, td_error *error) {
    void *all = NULL;
    size_t *sizes = td__calloc((size_t)s->size, sizeof *sizes);
    bool first = s->rank == 0;
    td_status status = sizes && (first || pack(s)) ? TD_OK : TD_MEMORY;
    if (status) {
        s->out_of_memory = true; /* the others wait for what there is: nothing */
        s->packed_size = 0;
    }
    status = td__group_collect(s->group, s->packed, first ? 0 : s->packed_size, &all, sizes, error);
    size_t at = 0;
    for (int i = 1; !status && first && i < s->size; i++) {
        unpack(s, (const uint8_t *)all + at, sizes[i]);
        at += sizes[i];
    }
    td__free(all);
    td__free(sizes);
    return status;
}

static void record(td_trainer *trainer, const td_batch *batch) {
    td__shards *s = &trainer->shards;
    td__pass_signals_label(&trainer->signals, batch);
    for (size_t i = 0; i < s->entry_count; i++) {
        const td__gathered *g = &s->gathered[i];
        if (s->wanted[i] && g->size) {
            td_view view = {.dtype = g->dtype, .shape = g->shape, .data = g->data};
            td__pass_signals_record(&trainer->signals, &trainer->signals.entries[i], view);
        }
    }
}

td_status td__gather_end(td_trainer *trainer, const td_batch *batch, td_error *error) {
    td__shards *s = &trainer->shards;
    bool any = s->entry_count && memchr(s->wanted, 1, s->entry_count);
    td_status status = any && s->group ? collect(s, error) : TD_OK;
    if (!status && s->out_of_memory) {
        td_error reason = {0};
        td_error_set(&reason, TD_MEMORY, "out of memory for what the shards of step %lld have",
                     (long long)trainer->at.step + 1);
        td__trainer_unrecorded(trainer, &reason);
    } else if (!status && td__trainer_writes(trainer)) {
        record(trainer, batch);
    }
    return status;
}
