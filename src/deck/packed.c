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

static bool fits(const td__packed *block, size_t bytes, const td__batch *batch) {
    return block && sizeof *block + block->used + bytes <= block->size &&
           (!batch || !block->batch || block->batch == batch);
}

static size_t block_size(const td_deck *deck, size_t bytes) {
    const td__packed *last = deck->packed_last;
    size_t wanted = last ? 2 * last->size : deck->packed_before;
    size_t most = deck->queue_limit / 4 < LARGEST_BLOCK ? deck->queue_limit / 4 : LARGEST_BLOCK;
    wanted = wanted < most ? wanted : most;
    wanted = wanted > SMALLEST_BLOCK ? wanted : SMALLEST_BLOCK;
    bytes += sizeof(td__packed);
    return td__pool_size(wanted > bytes ? wanted : bytes);
}

/* Asks for the memory that comes next: it is in another core's cache, or in none, and is here by
 * the time something is copied into it. */
static void call_ahead(const td__packed *block) {
    enum { LINE = 64, AHEAD = 1536 };
    size_t at = sizeof *block + block->used;
    size_t end = at + AHEAD < block->size ? at + AHEAD : block->size;
    for (; at < end; at += LINE) {
        __builtin_prefetch((const char *)block + at, 1);
    }
}

/* A block with room for an item; NULL when there is none to be had. May wait. */
static td__packed *room_for(td_deck *deck, size_t bytes, td__batch *batch) {
    if (fits(deck->packed_last, bytes, batch)) {
        return deck->packed_last;
    }
    uint64_t serial = deck->serial;
    int64_t epoch = deck->epoch, step = deck->step;
    size_t size = block_size(deck, bytes);
    if (!td__queue_acquire(deck, size, deck->policy == TD_POLICY_BLOCK)) {
        return NULL;
    }
    td__packed *block = td__packed_create(&deck->recycler, size);
    if (!block) {
        deck->queue_used -= size;
        (void)td__deck_fail(deck, TD_MEMORY, "out of memory for what a step recorded");
        return NULL;
    }
    call_ahead(block);
    if (deck->serial != serial) { /* its step was closed while this thread waited */
        block->detached = true;
        block->epoch = epoch;
        block->step = step;
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

/* Counts the item that was just written. */
static void take_in(td_deck *deck, td__packed *block, size_t bytes, int64_t deliveries) {
    next_item(block)->bytes = (uint32_t)bytes;
    block->used += bytes;
    block->entry.deliveries += deliveries;
    call_ahead(block);
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

void td__pack_scalar(td_deck *deck, td_signal *signal, const td__tracks tracks) {
    uint32_t sinks = 0;
    for (int w = 0; w < TD__TRACK_WORDS; w++) {
        for (uint64_t rest = tracks[w]; rest; rest &= rest - 1) {
            sinks |= deck->tracks[64 * w + __builtin_ctzll(rest)]->scalar_sinks;
        }
    }
    int deliveries = __builtin_popcount(sinks);
    double value = signal->value; /* another thread may set it while this one waits */
    td__packed *block = sinks ? room_for(deck, sizeof(td__item), NULL) : NULL;
    if (!block) {
        td__count_dropped(deck, deliveries);
        return;
    }
    *next_item(block) = (td__item){.signal = signal, .sinks = sinks, .value = value};
    take_in(deck, block, sizeof(td__item), deliveries);
}

/* What these tracks want of a tensor of several elements; NULL when there are too many sets. */
static const td__form_set *form_set(td_deck *deck, td_signal *signal, const td__tracks tracks) {
    const td__form_set *last = signal->form_set;
    if (last && memcmp(last->tracks, tracks, sizeof last->tracks) == 0) {
        return last;
    }
    for (int32_t i = 0; i < deck->form_set_count; i++) {
        if (memcmp(deck->form_sets[i].tracks, tracks, sizeof last->tracks) == 0) {
            return signal->form_set = &deck->form_sets[i];
        }
    }
    if (deck->form_set_count == TD__FORM_SETS) {
        return NULL;
    }
    td__form_set *made = &deck->form_sets[deck->form_set_count++];
    memcpy(made->tracks, tracks, sizeof made->tracks);
    made->deliveries = td__forms_of(deck, TD_TENSOR, false, tracks, made->forms);
    for (int32_t i = 0; i < deck->outlet_count; i++) {
        if (made->forms[i] & ~TD__DATA_FORMS) {
            made->deliveries = 0;
        }
    }
    return signal->form_set = made;
}

static bool all_sure(const td_deck *deck, const td__tracks tracks) {
    uint64_t unsure = 0;
    for (int w = 0; w < TD__TRACK_WORDS; w++) {
        unsure |= tracks[w] & ~deck->tensors_sure[w];
    }
    return unsure == 0;
}

bool td__pack_tensor(td_deck *deck, td_signal *signal, const td_view *view, size_t bytes,
                     const td__tracks tracks) {
    if (deck->budget.level > 0 || signal->tensor_serial == deck->serial ||
        !all_sure(deck, tracks)) {
        return false;
    }
    const td__form_set *set = form_set(deck, signal, tracks);
    if (!set || set->deliveries == 0) {
        return false;
    }
    td__batch *batch =
        atomic_load_explicit(&signal->batched, memory_order_relaxed) ? deck->batch : NULL;
    batch = batch && view->shape.rank > 0 && view->shape.dims[0] == batch->count ? batch : NULL;
    size_t dims = (size_t)view->shape.rank * sizeof(int64_t);
    size_t size = (sizeof(td__tensor_item) + dims + bytes + 7) / 8 * 8;
    uint64_t serial = deck->serial;
    if (batch) {
        batch->references++;
    }
    td__packed *block = room_for(deck, size, batch);
    if (!block || !batch || block->batch) {
        td__batch_unref(&deck->recycler, batch);
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
    memcpy(tensor->dims, view->shape.dims, dims);
    memcpy((char *)tensor->dims + dims, view->data, bytes);
    signal->packed_serial = serial;
    take_in(deck, block, size, set->deliveries);
    return true;
}
