/* Summaries that are given: of tensors that were reduced elsewhere, and of further parts of a tensor.
 *
 * A part is merged into the snapshot that the open step has staged of its signal. When the snapshot was sent on
 * early, because a thread waited for room, or the queue has no room for a larger histogram, the part is lost, and a
 * note reports it. Conditions on the signal's statistics still get it. */
#include "deck/plan.h"
#include "deck/summary.h"

#include "base/clock.h"
#include "base/memory.h"
#include "tensor/stats.h"

#include <stdio.h>
#include <string.h>

#define REDUCED ((uint32_t)(TD_STATS | TD_HISTOGRAM | TD_SCALAR))

/* ---- What is wanted ------------------------------------------------------------------------- */

static uint32_t forms_of_track(const td_deck *deck, int32_t index) {
    td__tracks one = {0};
    td__forms forms;
    uint32_t all = deck->tracks[index]->sample ? (uint32_t)TD_TENSOR : 0;
    td__tracks_put(one, index, true);
    td__forms_of(deck, TD_TENSOR, false, one, forms);
    for (int32_t s = 0; s < deck->outlet_count; s++) {
        all |= forms[s];
    }
    return all & ~REDUCED ? all | TD_TENSOR : all;
}

uint32_t td_signal_forms(const td_signal *signal) {
    td__tracks tracks, probes;
    uint32_t all = 0;
    if (!td_signal_wants(signal)) {
        return 0;
    }
    td_deck *deck = signal->deck;
    td__deck_lock(deck);
    if (td__signal_due(signal, tracks, probes)) {
        for (int32_t i = 0; i < deck->track_count; i++) {
            all |= td__tracks_has(tracks, i) ? forms_of_track(deck, i) : 0;
        }
        all |= td__tracks_any(probes) ? (uint32_t)TD_STATS : 0;
    }
    td__deck_unlock(deck);
    return all | (td__derived_due(signal) ? (uint32_t)TD_TENSOR : 0);
}

/* ---- Merging -------------------------------------------------------------------------------- */

static bool has_sample(const td_deck *deck, const td__snapshot *snapshot) {
    bool found = false;
    for (int32_t i = 0; i < deck->track_count; i++) {
        found = found || (td__tracks_has(snapshot->tracks, i) && deck->tracks[i]->sample);
    }
    return found;
}

static td__snapshot *find_staged(const td_deck *deck, const td_signal *signal) {
    td__snapshot *s = deck->staged_first;
    while (s && !(s->signal == signal && s->kind == TD_TENSOR && (s->has & REDUCED) &&
                  !has_sample(deck, s))) {
        s = s->next;
    }
    return s;
}

/* The same, once the writer has made the pass over it that was left to it: it then has one reference less. */
static td__snapshot *wait_for_staged(td_deck *deck, const td_signal *signal) {
    uint64_t serial = deck->serial;
    td__snapshot *s = find_staged(deck, signal);
    while (s && s->deferred && s->references > 1 && !s->ticket_used) {
        deck->flushers++;
        td__queue_wake(deck);
        pthread_cond_wait(&deck->room, &deck->lock);
        deck->flushers--;
        s = deck->serial == serial ? find_staged(deck, signal) : NULL;
    }
    return s;
}

/* Room for a larger histogram. It does not wait for any: to wait sends the snapshot on, so the part would be lost
 * anyway, and releases the lock, so another thread could merge its part into the snapshot meanwhile. */
static bool find_room(td_deck *deck, td__snapshot *s, size_t bytes) {
    bool queue = s->queue_bytes > 0, history = s->history_bytes > 0;
    if ((queue && deck->queue_used + bytes > deck->queue_limit) ||
        (history && !td__history_acquire(deck, bytes))) {
        return false;
    }
    bool found = !queue || td__queue_acquire(deck, bytes, true); /* there is room */
    s->bytes += bytes;
    s->queue_bytes += queue ? bytes : 0;
    s->history_bytes += history ? bytes : 0;
    return found;
}

/* Whether the snapshot has the bins of both; false when there is no room. */
static bool merge_bins(td_deck *deck, td__snapshot *s, const td_histogram *more, td_bin *bins) {
    td_histogram merged;
    td_histogram_merge(&s->histogram, more, bins, &merged);
    size_t size = td__bins_size(merged.bin_count);
    if (size > s->bins_size) {
        size_t before = td__deck_pool_size(s->bins_size), after = td__deck_pool_size(size);
        bool found = after <= before || find_room(deck, s, after - before);
        void *larger = found ? td__deck_pool_take(&deck->recycler.pool, size) : NULL;
        if (!larger) {
            return false;
        }
        td__deck_pool_give(&deck->recycler.pool, (void *)(uintptr_t)s->histogram.bins,
                           s->bins_size);
        s->histogram.bins = larger;
        s->bins_size = size;
    }
    memcpy((void *)(uintptr_t)s->histogram.bins, bins, (size_t)merged.bin_count * sizeof *bins);
    s->histogram.bin_count = merged.bin_count;
    return true;
}

/* False when the part came too late. */
static bool merge_part(td_deck *deck, td__snapshot *s, const td__summary *part, td_bin *bins) {
    if (s->ticket_used) { /* some sink may be reading it */
        return false;
    }
    if ((s->has & TD_HISTOGRAM) && !merge_bins(deck, s, &part->histogram, bins)) {
        return false;
    }
    td_stats_merge(&s->stats, &part->stats);
    s->value = s->stats.mean;
    return true;
}

/* ---- Recording ------------------------------------------------------------------------------ */

static td_status check_summary(const td_signal *signal, const td_summary *given, uint32_t forms,
                               td_error *error) {
    int64_t count, in_bins = 0;
    const td_histogram *h = &given->histogram;
    td_status status = td_shape_check(&given->shape, given->dtype, &count, error);
    if (status) {
        return status;
    }
    if (!given->more && (forms & TD_TENSOR)) {
        return td_error_set(error, TD_INVALID, "%s: a track needs elements, not a summary",
                            signal->name);
    }
    if ((forms & TD_HISTOGRAM) && !h->bins && given->stats.count <= (int64_t)UINT32_MAX) {
        return td_error_set(error, TD_INVALID, "%s: a track needs a histogram", signal->name);
    }
    for (int32_t i = 0; h->bins && i < h->bin_count; i++) {
        td_bin bin = h->bins[i];
        if (bin.count <= 0 || bin.index >= TD_HISTOGRAM_BINS ||
            bin.index <= (i ? h->bins[i - 1].index : -1)) {
            return td_error_set(error, TD_INVALID, "%s: bin %d is no bin", signal->name, (int)i);
        }
        in_bins += bin.count;
    }
    int64_t finite = given->stats.count - given->stats.nan - given->stats.inf;
    if (h->ranges || (h->bins && in_bins != finite)) {
        return td_error_set(error, TD_INVALID,
                            "%s: the histogram has %lld values, the statistics %lld", signal->name,
                            (long long)in_bins, (long long)finite);
    }
    return TD_OK;
}

/* The lock is held. */
static void record_whole(td_signal *signal, const td_summary *given, const td__summary *summary,
                         const td__tracks tracks, bool probe) {
    td_deck *deck = signal->deck;
    td__plan p = {.signal = signal, .kind = TD_TENSOR, .given = summary};
    td_view view = {.dtype = given->dtype, .shape = given->shape};
    p.count = given->stats.count;
    for (int32_t i = 0; i < deck->track_count; i++) {
        if (td__tracks_has(tracks, i) && !(forms_of_track(deck, i) & TD_TENSOR)) {
            td__tracks_put(p.tracks, i, true);
        }
    }
    if (td__tracks_any(p.tracks) || probe) {
        td__record_planned(deck, &p, &view, probe, NULL);
    }
}

/* The lock is held. Whether everything was recorded. */
static bool record_part(td_signal *signal, const td_summary *given, const td__summary *summary,
                        td_bin *bins) {
    td_deck *deck = signal->deck;
    td__tracks tracks, probes;
    bool whole = true;
    if (!td__signal_due(signal, tracks, probes)) {
        return true;
    }
    bool probe = td__tracks_any(probes);
    if (given->more && signal->tensor_serial == deck->serial) {
        uint64_t serial = deck->serial;
        td__snapshot *staged = wait_for_staged(deck, signal);
        if (deck->serial != serial) { /* another thread has closed the step */
            return false;
        }
        whole = staged && merge_part(deck, staged, summary, bins);
        if (!staged) { /* of elements alone, which stay those of the first part */
            whole = true;
            for (int32_t i = 0; i < deck->track_count; i++) {
                whole =
                    whole && (!td__tracks_has(tracks, i) || (forms_of_track(deck, i) & TD_TENSOR));
            }
        }
        memset(tracks, 0, sizeof tracks);
    }
    /* Read after the wait, in which other threads may have added their parts. */
    if (given->more && probe && signal->stats_serial == deck->serial) {
        td_stats_merge(&signal->stats, &summary->stats);
        probe = false;
    }
    record_whole(signal, given, summary, tracks, probe);
    return whole;
}

static void note_lost(td_signal *signal) {
    char key[TD_SIGNAL_TEXT_SIZE + 16];
    (void)snprintf(key, sizeof key, "not_recorded.%s", signal->name);
    (void)td_deck_note(signal->deck, key,
                       "of a step's parts those that came after the queue was full");
}

td_status td_signal_record_summary(td_signal *signal, const td_summary *given) {
    td_error error = {0};
    uint32_t forms = signal && given ? td_signal_forms(signal) : 0;
    if (!forms) {
        return signal && given ? TD_OK : TD_INVALID;
    }
    td_summary own = {0}; /* the caller's may be of an older header */
    memcpy(&own, given, given->size && given->size < sizeof own ? given->size : sizeof own);
    const td_summary *summary = &own;
    td_deck *deck = signal->deck;
    uint64_t start = td__ticks();
    td_status status = check_summary(signal, summary, forms, &error);
    td__summary *copy = status ? NULL : td__calloc(1, sizeof *copy);
    td_bin *bins = copy ? td__calloc(1, sizeof copy->bins) : NULL;
    bool whole = true;
    td__deck_enter(deck);
    if (bins) {
        copy->stats = summary->stats;
        copy->histogram.bin_count = summary->histogram.bins ? summary->histogram.bin_count : 0;
        copy->histogram.bins = copy->bins;
        memcpy(copy->bins, summary->histogram.bins ? summary->histogram.bins : copy->bins,
               (size_t)copy->histogram.bin_count * sizeof *bins);
        whole = record_part(signal, summary, copy, bins);
    } else {
        status = status ? status : TD_MEMORY;
        (void)td__deck_fail(deck, status, "%s",
                            error.text[0] ? error.text : "out of memory for a summary");
    }
    deck->cost += td__ticks() - start;
    td__deck_unlock(deck);
    td__free(bins);
    td__free(copy);
    if (!whole) {
        note_lost(signal);
    }
    return status;
}
