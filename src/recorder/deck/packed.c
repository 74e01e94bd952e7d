/* Scalars and small tensors, packed: they are copied one after another into blocks that the open
 * step owns, and the writer gets a block as one entry. Only what will be written for certain goes
 * this way, and of tensors only the elements. */
#include "deck/deck.h"

#include "base/clock.h"

#include <string.h>

enum { SMALLEST_BLOCK = 256, LARGEST_BLOCK = 65536 };

/* ---- Blocks --------------------------------------------------------------------------------- */

static td__item *next_item(td__packed *block) {
    return (td__item *)(block->items + block->used);
}

static bool fits_block(const td__packed *block, size_t bytes, const td__deck_batch *batch) {
    return block && sizeof *block + block->used + bytes <= block->size &&
           (!batch || !block->batch || block->batch == batch);
}

static size_t block_size(const td_deck *deck, size_t bytes) {
    const td__packed *last = deck->packed_last;
    size_t wanted = last ? 2 * last->size : deck->packed_before;
    size_t max = deck->queue_limit / 4 < LARGEST_BLOCK ? deck->queue_limit / 4 : LARGEST_BLOCK;
    wanted = wanted < max ? wanted : max;
    wanted = wanted > SMALLEST_BLOCK ? wanted : SMALLEST_BLOCK;
    bytes += sizeof(td__packed);
    return td__deck_pool_size(wanted > bytes ? wanted : bytes);
}

/* A block with room for an item; NULL when none is available. May wait. */
static td__packed *room_for(td_deck *deck, uint32_t kind, size_t bytes, td__deck_batch *batch) {
    if (fits_block(deck->packed_last, bytes, batch)) {
        return deck->packed_last;
    }
    uint64_t serial = deck->serial;
    int64_t epoch = deck->epoch, step = deck->step;
    size_t size = block_size(deck, bytes);
    if (!td__queue_acquire(deck, size, td__queue_waits(deck, kind))) {
        return NULL;
    }
    td__packed *block = td__packed_create(&deck->recycler, size);
    if (!block) {
        td__queue_give_back(deck, size);
        (void)td__deck_fail(deck, TD_MEMORY, "out of memory for what a step recorded");
        return NULL;
    }
    if (deck->serial != serial) {               /* its step was closed while this thread waited */
        bool last = deck->serial == serial + 1; /* by now it has its number */
        block->detached = true;
        block->epoch = last ? deck->closing_epoch : epoch;
        block->step = last ? deck->closing_step : step;
        return block;
    }
    if (deck->packed_last) {
        deck->packed_last->entry.next = &block->entry;
    } else {
        deck->packed_first = block;
    }
    deck->packed_last = block;
    deck->fresh = false;
    return block;
}

/* The writer's core has had the next step's block last. A step is like the one before it: the lines come, a few
 * with each item, before they are needed. */
static void fetch_ahead(const td__packed *block, size_t bytes) {
    size_t begin = sizeof *block + block->used;
    for (size_t at = block->used ? begin : 0; block->ahead && at < begin + bytes; at += 64) {
        __builtin_prefetch(block->ahead + at, 1);
    }
}

/* Counts the item that was just written. */
static void take_in(td_deck *deck, td__packed *block, size_t bytes, int64_t deliveries) {
    fetch_ahead(block, bytes);
    next_item(block)->bytes = (uint32_t)bytes;
    block->used += bytes;
    block->entry.deliveries += deliveries;
    if (block->detached) {
        td__packed_send(deck, block, block->epoch, block->step, td__wall_time());
    }
}

td__packed *td__packed_take(td_deck *deck) {
    td__packed *first = deck->packed_first;
    deck->packed_first = deck->packed_last = NULL;
    return first;
}

void td__packed_send(td_deck *deck, td__packed *first, int64_t epoch, int64_t step,
                     double wall_time) {
    size_t bytes = 0;
    for (td__packed *block = first, *next; block; block = next) {
        next = (td__packed *)block->entry.next;
        block->epoch = epoch;
        block->step = step;
        block->wall_time = wall_time;
        bytes += sizeof *block + block->used;
        deck->counters.submitted += block->entry.deliveries;
        deck->counters.pending += block->entry.deliveries;
        td__queue_push(deck, &block->entry);
    }
    deck->packed_before = first ? bytes : deck->packed_before;
}

/* ---- Items ---------------------------------------------------------------------------------- */

uint32_t td__scalar_sinks(const td_deck *deck, const td__tracks tracks) {
    uint32_t sinks = 0;
    for (int w = 0; w < TD__TRACK_WORDS; w++) {
        for (uint64_t rest = tracks[w]; rest; rest &= rest - 1) {
            sinks |= deck->tracks[64 * w + __builtin_ctzll(rest)]->scalar_sinks;
        }
    }
    return sinks;
}

void td__pack_scalar(td_deck *deck, td_signal *signal, uint32_t sinks, double value) {
    int deliveries = __builtin_popcount(sinks);
    td__packed *block = sinks ? room_for(deck, TD_SCALAR, sizeof(td__item), NULL) : NULL;
    if (!block) {
        td__count_dropped(deck, deliveries);
        return;
    }
    *next_item(block) = (td__item){.signal = signal, .sinks = sinks, .value = value};
    take_in(deck, block, sizeof(td__item), deliveries);
}

/* What these tracks want of a tensor of several elements; NULL when it is not its elements alone,
 * or when there are too many sets. */
static const td__form_set *form_set(td_deck *deck, const td__tracks tracks) {
    td__form_set *set = deck->form_sets;
    td__form_set *end = set + deck->form_set_count;
    while (set < end && memcmp(set->tracks, tracks, sizeof set->tracks) != 0) {
        set++;
    }
    if (set == end && deck->form_set_count < TD__FORM_SETS) {
        deck->form_set_count++;
        memcpy(set->tracks, tracks, sizeof set->tracks);
        set->deliveries = td__forms_of(deck, TD_TENSOR, false, tracks, set->forms);
        for (int32_t i = 0; i < deck->outlet_count; i++) {
            set->deliveries = set->forms[i] & ~TD__DATA_FORMS ? 0 : set->deliveries;
        }
        end++;
    }
    return set < end && set->deliveries ? set : NULL;
}

/* The same for the tracks that are due, when all of them will write it whatever happens. */
static const td__form_set *due_set(td_deck *deck, const td_signal *signal) {
    td__tracks tracks, probes;
    if (!td__signal_due(signal, tracks, probes) || td__tracks_any(probes)) {
        return NULL;
    }
    for (int w = 0; w < TD__TRACK_WORDS; w++) {
        if (tracks[w] & ~deck->tensors_sure[w]) {
            return NULL;
        }
    }
    return form_set(deck, tracks);
}

static td__deck_batch *batch_of(const td_deck *deck, const td_signal *signal,
                                const td_shape *shape) {
    td__deck_batch *batch = deck->batch;
    bool its = batch && shape->rank > 0 && shape->dims[0] == batch->count &&
               atomic_load_explicit(&signal->batched, memory_order_relaxed);
    return its ? batch : NULL;
}

bool td__pack_tensor(td_deck *deck, td_signal *signal, const td_view *view, size_t bytes) {
    if (signal->form_set_of != deck->due_version) {
        signal->form_set = due_set(deck, signal);
        signal->form_set_of = deck->due_version;
    }
    const td__form_set *set = signal->form_set;
    if (!set || deck->budget.level > 0 || signal->tensor_serial == deck->serial) {
        return false;
    }
    td__deck_batch *batch = batch_of(deck, signal, &view->shape);
    size_t dims = (size_t)view->shape.rank * sizeof(int64_t);
    size_t size = (sizeof(td__tensor_item) + dims + bytes + 7) / 8 * 8;
    if (batch) {
        batch->references++;
    }
    td__packed *block = room_for(deck, TD_TENSOR, size, batch);
    if (!block || !batch || block->batch) {
        td__deck_batch_unref(&deck->recycler, batch);
    } else {
        block->batch = batch;
    }
    if (!block) {
        return false;
    }
    td__tensor_item *tensor = (td__tensor_item *)next_item(block);
    *tensor = (td__tensor_item){.item = {.signal = signal, .set = set},
                                .dtype = view->dtype,
                                .rank = (int16_t)view->shape.rank,
                                .batched = batch != NULL};
    for (int32_t i = 0; i < view->shape.rank; i++) {
        tensor->dims[i] = view->shape.dims[i];
    }
    memcpy((char *)tensor->dims + dims, view->data, bytes);
    take_in(deck, block, size, set->deliveries);
    td__tracks_add(deck->recorded, set->tracks);
    return true;
}
