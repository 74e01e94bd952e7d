/* Recording: a view becomes a snapshot.
 *
 * Under the lock, what the due tracks ask for is worked out. Without the lock, one pass over the
 * tensor yields statistics, histogram and copy together; room for the copy is taken before it, room
 * for what is left when there is no copy after it, when its size is known. Under the lock again the
 * snapshot is staged. */
#include "deck/plan.h"
#include "deck/summary.h"

#include "base/clock.h"
#include "tensor/element.h"
#include "tensor/stats.h"

#include <string.h>

/* ---- Tensors -------------------------------------------------------------------------------- */

static double first_element(const td_view *view, const td_stats *stats) {
    return stats->count == 1 && view->data ? td__element(view, 0) : stats->mean;
}

/* Puts the summary, and the memory if it is taken over, into the snapshot. */
static void fill_snapshot(const td__plan *p, td__snapshot *snapshot, td_view *view,
                          const td__summary *s) {
    snapshot->hash = s->hash;
    if (p->forms & (TD_STATS | TD_HISTOGRAM | TD_SCALAR)) {
        snapshot->stats = s->stats;
        snapshot->value = first_element(view, &s->stats);
    }
    if (p->forms & TD_HISTOGRAM) {
        size_t size = (size_t)s->histogram.bin_count * sizeof(td_bin);
        memcpy((void *)(uintptr_t)snapshot->histogram.bins, s->bins, size);
        snapshot->histogram.bin_count = s->histogram.bin_count;
    }
    const void *copy = snapshot->view.data;
    snapshot->view = (td_view){.dtype = view->dtype, .shape = view->shape, .data = copy};
    if (!(p->forms & TD__DATA_FORMS) || snapshot->data_size) {
        return;
    }
    snapshot->view.data = view->data;
    if (!p->waited_for) {
        snapshot->view.release = view->release;
        snapshot->view.owner = view->owner;
        view->release = NULL;
    }
}

size_t td__bins_size(int64_t count) {
    int64_t max = count < TD_HISTOGRAM_BINS ? count : TD_HISTOGRAM_BINS;
    return (size_t)(max ? max : 1) * sizeof(td_bin);
}

/* Exact instead of the most it could have been. */
static void fit_bins(td_deck *deck, td__snapshot *snapshot, size_t size) {
    void *bins = td__deck_pool_take(&deck->recycler.pool, size);
    if (bins) { /* without it, the larger block serves as well */
        td__plan_shrink(deck, snapshot,
                        td__deck_pool_size(snapshot->bins_size) - td__deck_pool_size(size));
        td__deck_pool_give(&deck->recycler.pool, (void *)(uintptr_t)snapshot->histogram.bins,
                           snapshot->bins_size);
        snapshot->histogram.bins = bins;
        snapshot->bins_size = size;
    }
}

/* Returns true when the writer can make the pass over the tensor: it has a core of its own, the
 * tensor's memory can be kept, every track is certain to write it, and the queue is at most half
 * full. */
static bool can_defer(const td_deck *deck, const td__plan *p, bool probe) {
    const uint32_t expensive = TD_STATS | TD_HISTOGRAM | TD_HASH;
    td__tracks unsure;
    for (int w = 0; w < TD__TRACK_WORDS; w++) {
        unsure[w] = p->tracks[w] & ~p->sure[w];
    }
    return deck->core_to_spare && p->takes_over && !probe && (p->forms & expensive) &&
           !(p->forms & TD_SCALAR) && deck->policy == TD_POLICY_BLOCK && !td__tracks_any(unsure) &&
           deck->queue_used + td__plan_bytes(p) + p->data_bytes <= deck->queue_limit / 2;
}

static void join_batch(td__snapshot *snapshot, td__deck_batch *batch, const td_view *view) {
    if (batch && view->shape.rank > 0 && view->shape.dims[0] == batch->count) {
        snapshot->batch = batch;
        batch->references++;
    }
}

/* Bytes of a tensor for which the writer is woken at once: it reads them while they are still in a cache,
 * and gives memory back before the next step asks for some. */
enum { WORTH_WAKING = 512 << 10 };

/* Queues the writer's pass over the snapshot. The pass releases the room of the elements when nothing
 * else needs them. */
static void ask_to_sum_up(td_deck *deck, td__snapshot *snapshot, size_t bytes) {
    td__summing *summing = &snapshot->summing;
    summing->entry = (td__entry){.kind = TD__ENTRY_SUM_UP};
    summing->snapshot = snapshot;
    snapshot->references++;
    if (!(snapshot->has & TD__DATA_FORMS)) {
        summing->entry.bytes = bytes;
        snapshot->bytes -= bytes;
        snapshot->queue_bytes -= bytes;
    }
    td__queue_push(deck, &summing->entry);
    if (bytes >= WORTH_WAKING) {
        td__queue_wake(deck);
    }
}

/* Keeps the tensor itself; the writer computes its summary. */
static void defer_summary(td_deck *deck, td__plan *p, td_view *view, td__deck_batch *batch) {
    p->deferred = true;
    td__snapshot *snapshot = td__plan_admit(deck, p);
    if (snapshot) {
        join_batch(snapshot, batch, view);
        snapshot->deferred = true;
        snapshot->view = *view;
        view->release = NULL;
        ask_to_sum_up(deck, snapshot, p->data_bytes);
        td__plan_stage(deck, p, snapshot);
    }
}

void td__record_planned(td_deck *deck, td__plan *p, td_view *view, bool probe,
                        td__deck_batch *batch) {
    td__summary s;
    s.hash = 0;
    td__plan_draw_up(deck, p);
    if (p->count > (int64_t)UINT32_MAX) {
        p->forms &= ~(uint32_t)TD_HISTOGRAM; /* counted as dropped when it is submitted */
    }
    p->bins_bytes = td__bins_size(p->count);
    if (can_defer(deck, p, probe)) {
        defer_summary(deck, p, view, batch);
        return;
    }
    td__snapshot *snapshot = NULL;
    bool copies = p->forms & TD__DATA_FORMS;
    if (copies && deck->policy == TD_POLICY_DEGRADE && td__plan_has_sure(p) &&
        !td__queue_fits(deck, td__plan_bytes(p))) {
        copies = !td__plan_reduce(p);
    }
    if (copies) {
        snapshot = td__plan_admit(deck, p);
    }
    bool asked = !copies && td__tracks_any(p->tracks);
    if (snapshot || probe || asked) {
        void *copy = snapshot ? (void *)(uintptr_t)snapshot->view.data : NULL;
        td__summary_take(deck, p, view, probe, copy, &s);
    }
    if (probe) {
        if (p->serial >= p->signal->stats_serial) { /* the step may have been closed meanwhile */
            p->signal->stats = s.stats;
            p->signal->stats_serial = p->serial;
        }
    }
    size_t exact = p->forms & TD_HISTOGRAM ? td__bins_size(s.histogram.bin_count) : 0;
    if (asked) {
        p->bins_bytes = exact;
        p->summed_up = true;
        snapshot = td__plan_admit(deck, p);
    }
    if (!snapshot) {
        return;
    }
    if (snapshot->bins_size > exact) {
        fit_bins(deck, snapshot, exact);
    }
    join_batch(snapshot, batch, view);
    fill_snapshot(p, snapshot, view, &s);
    td__plan_stage(deck, p, snapshot);
}

/* ---- Samples -------------------------------------------------------------------------------- */

/* Picks count of rows rows, in order (Knuth's selection sampling). A function of seed, step and
 * track alone: the signals of a track have the same rows in a step, and a run that was resumed has
 * those that it would have had. */
static void pick_rows(const td_deck *deck, int32_t track, int64_t rows, int64_t count,
                      int64_t *picked) {
    td__random random;
    td__random_seed(&random, deck->seed ^ (uint64_t)deck->step << 20, (uint64_t)track);
    int64_t found = 0;
    for (int64_t row = 0; found < count; row++) {
        uint64_t left = (uint64_t)(rows - row);
        if (td__random_below(&random, left) < (uint64_t)(count - found)) {
            picked[found++] = row;
        }
    }
}

static void gather_rows(const td_view *from, const int64_t *rows, int64_t count, char *to) {
    size_t row_bytes = td_dtype_size(from->dtype) * (size_t)td__elements_from(&from->shape, 1);
    for (int64_t i = 0; i < count; i++) {
        const char *row = (const char *)from->data + (size_t)rows[i] * row_bytes;
        memcpy(to + (size_t)i * row_bytes, row, row_bytes);
    }
}

/* Records some rows of the view for one track; lock held. */
static void record_sample(td_deck *deck, const td__plan *whole, int32_t index, const td_view *view,
                          td__deck_batch *batch) {
    const td__track *track = deck->tracks[index];
    int64_t rows = view->shape.dims[0];
    int64_t count = track->sample < rows ? track->sample : rows;
    size_t row_bytes = rows ? whole->data_bytes / (size_t)rows : 0;
    bool labelled = batch && batch->count == rows && batch->labels.data;
    size_t label_bytes = labelled ? td_dtype_size(batch->labels.dtype) *
                                        (size_t)td__elements_from(&batch->labels.shape, 1)
                                  : 0;
    size_t index_bytes = 2 * (size_t)count * sizeof(int64_t);
    size_t size = index_bytes + (size_t)count * (row_bytes + label_bytes);
    int64_t *picked = td__deck_pool_take(&deck->recycler.pool, size);
    if (!picked) {
        (void)td__deck_fail(deck, TD_MEMORY, "out of memory for a sample of %s",
                            whole->signal->name);
        return;
    }
    int64_t *samples = picked + count;
    char *elements = (char *)(samples + count), *labels = elements + (size_t)count * row_bytes;
    pick_rows(deck, index, rows, count, picked);
    gather_rows(view, picked, count, elements);
    td_view sample = {view->dtype, view->shape, elements, NULL, NULL};
    sample.shape.dims[0] = count;
    td__deck_batch *part = NULL;
    if (batch && batch->count == rows) {
        for (int64_t i = 0; i < count; i++) {
            samples[i] = batch->rows[picked[i]];
        }
        td_view part_labels = batch->labels;
        if (labelled) {
            gather_rows(&batch->labels, picked, count, labels);
            part_labels.data = labels;
            part_labels.shape.dims[0] = count;
        }
        part =
            td__deck_batch_create(&deck->recycler, samples, count, labelled ? &part_labels : NULL);
    }
    td__plan p = {.signal = whole->signal, .kind = TD_TENSOR};
    td__tracks_put(p.tracks, index, true);
    p.count = td__elements_from(&sample.shape, 0);
    p.data_bytes = (size_t)count * row_bytes;
    td__record_planned(deck, &p, &sample, false, part);
    td__deck_batch_unref(&deck->recycler, part);
    td__deck_pool_give(&deck->recycler.pool, picked, size);
}

/* ---- Entry points --------------------------------------------------------------------------- */

static td_status record_checked(td_signal *signal, td_view *view, int64_t count, td__tracks tracks,
                                bool probe) {
    td_deck *deck = signal->deck;
    td__plan p = {.signal = signal,
                  .kind = TD_TENSOR,
                  .single = count == 1,
                  .count = count,
                  .data_bytes = (size_t)count * td_dtype_size(view->dtype),
                  .takes_over = view->release != NULL};
    uint64_t start = td__ticks();
    td__deck_enter(deck);
    td__deck_batch *batch =
        atomic_load_explicit(&signal->batched, memory_order_relaxed) ? deck->batch : NULL;
    if (batch) {
        batch->references++;
    }
    for (int32_t i = 0; i < deck->track_count; i++) {
        if (td__tracks_has(tracks, i) && deck->tracks[i]->sample && view->shape.rank > 0) {
            td__tracks_put(tracks, i, false);
            record_sample(deck, &p, i, view, batch);
        }
    }
    memcpy(p.tracks, tracks, sizeof p.tracks);
    if (td__tracks_any(tracks) || probe) {
        td__record_planned(deck, &p, view, probe, batch);
    }
    td__deck_batch_unref(&deck->recycler, batch);
    deck->cost += td__ticks() - start;
    td__deck_unlock(deck);
    return TD_OK;
}

/* Bytes of a view that is valid, small and has several elements; otherwise 0. */
static size_t small_bytes(const td_view *view) {
    if ((size_t)view->dtype >= TD_DTYPE_COUNT || (uint32_t)view->shape.rank > TD_MAX_RANK ||
        !view->data || view->release) {
        return 0;
    }
    uint64_t bytes = td_dtype_size(view->dtype), element = bytes;
    for (int32_t i = 0; i < view->shape.rank && bytes; i++) {
        uint64_t size = (uint64_t)view->shape.dims[i];
        bytes = size <= TD__SMALL_TENSOR && bytes * size <= TD__SMALL_TENSOR ? bytes * size : 0;
    }
    return bytes > element ? bytes : 0;
}

/* Most tensors of a small network: the whole way in one go. False: not this one. */
static bool record_small(td_signal *signal, const td_view *view) {
    /* Reading the clock costs as much as the rest: one in some is timed for all. */
    enum { ONE_IN = 31 };
    size_t bytes = small_bytes(view);
    if (bytes == 0) {
        return false;
    }
    td_deck *deck = signal->deck;
    td__deck_lock(deck);
    uint64_t start = deck->smalls++ % ONE_IN == 0 ? td__ticks() : 0;
    td__scalars_take(deck);
    bool packed = td__pack_tensor(deck, signal, view, bytes);
    if (start) {
        deck->cost += ONE_IN * (td__ticks() - start);
    }
    td__deck_unlock(deck);
    return packed;
}

static td_status record_any(td_signal *signal, td_view *view) {
    td__tracks tracks, probes;
    if (!td__signal_due(signal, tracks, probes)) {
        return TD_OK;
    }
    int64_t count;
    td_error error = {0};
    td_status status = td__view_check(view, &count, &error);
    if (status == TD_OK) {
        return record_checked(signal, view, count, tracks, td__tracks_any(probes));
    }
    td__deck_lock(signal->deck);
    (void)td__deck_fail(signal->deck, status, "%s: %s", signal->name, error.text);
    td__deck_unlock(signal->deck);
    return status;
}

td_status td_signal_record(td_signal *signal, td_view view) {
    td_status status = signal ? TD_OK : TD_INVALID;
    bool wanted = td_signal_wants(signal);
    if (wanted && atomic_load_explicit(&signal->derived, memory_order_acquire)) {
        td__derived_record(signal, &view);
    }
    if (wanted && !record_small(signal, &view)) {
        status = record_any(signal, &view);
    }
    if (view.release) {
        view.release(view.owner);
    }
    return status;
}

td_status td_deck_record(td_deck *deck, const char *name, td_view view) {
    td_signal *signal = td_deck_signal(deck, name);
    if (signal) {
        return td_signal_record(signal, view);
    }
    if (view.release) {
        view.release(view.owner);
    }
    return td__no_signal(deck, name);
}

void td__record_value(td_signal *signal, uint32_t kind, const td__tracks tracks, double value,
                      const void *bytes, size_t size) {
    td_deck *deck = signal->deck;
    td__plan p = {.signal = signal, .kind = kind, .single = true, .count = 1};
    p.data_bytes = size;
    memcpy(p.tracks, tracks, sizeof p.tracks);
    td__plan_draw_up(deck, &p);
    td__snapshot *snapshot = td__plan_admit(deck, &p);
    if (!snapshot) {
        return;
    }
    snapshot->value = value;
    if (size) {
        memcpy(snapshot->text, bytes, size);
        snapshot->text_length = kind == TD_TEXT ? size - 1 : size;
    }
    td__plan_stage(deck, &p, snapshot);
}

void td__values_due(const td_signal *signal, td__tracks tracks) {
    for (int w = 0; w < TD__TRACK_WORDS; w++) {
        tracks[w] = atomic_load_explicit(&signal->tracks[w], memory_order_relaxed) &
                    signal->deck->values_due[w];
    }
}

static td_status record_bytes(td_deck *deck, const char *name, uint32_t kind, const void *bytes,
                              size_t size) {
    td_signal *signal = td_deck_signal(deck, name);
    if (!signal) {
        return td__no_signal(deck, name);
    }
    td__tracks tracks;
    td__deck_enter(deck);
    if (kind == TD_TEXT) {
        td__signal_found_to_be(signal, TD_SIGNAL_TEXT);
    }
    td__values_due(signal, tracks);
    if (td__tracks_any(tracks)) {
        td__record_value(signal, kind, tracks, 0, bytes, size);
    }
    td__deck_unlock(deck);
    return TD_OK;
}

td_status td_deck_text(td_deck *deck, const char *name, const char *text) {
    if (!text) {
        return td__deck_refuse(deck, "the text of a signal");
    }
    return record_bytes(deck, name, TD_TEXT, text, strlen(text) + 1);
}

td_status td_deck_picture(td_deck *deck, const char *name, const void *png, size_t size) {
    static const char head[8] = "\x89PNG\r\n\x1a\n";
    if (!png) {
        return td__deck_refuse(deck, "the picture of a signal");
    }
    if (size < sizeof head || memcmp(png, head, sizeof head) != 0) {
        td__deck_lock(deck);
        (void)td__deck_fail(deck, TD_FORMAT, "%s: its picture is no PNG", name);
        td__deck_unlock(deck);
        return TD_FORMAT;
    }
    return record_bytes(deck, name, TD_IMAGE, png, size);
}
