/* From a snapshot to the queue: which sinks get it in which form, whether there is room, and what
 * happens when there is none.
 *
 * Nobody waits for room while holding some that only the end of the step would free: a waiting
 * recorder first sends on what is staged and certain, and while anybody waits what is certain is
 * not staged at all. */
#include "deck/deck.h"

#include "base/clock.h"
#include "tensor/element.h"
#include "tensor/stats.h"

#include <string.h>

/* Few bits are set, mostly none: without a call into the compiler's library. */
static int count_bits(uint32_t bits) {
    int count = 0;
    for (; bits; bits &= bits - 1) {
        count++;
    }
    return count;
}

/* ---- Room ----------------------------------------------------------------------------------- */

void td__queue_wake(td_deck *deck) {
    if (deck->writer_waits) {
        deck->writer_waits = false;
        pthread_cond_signal(&deck->work);
    }
}

void td__snapshot_label(td__snapshot *snapshot, int64_t epoch, int64_t step, double wall_time) {
    if (!snapshot->ticket_used) { /* otherwise the writer may be reading it */
        snapshot->epoch = epoch;
        snapshot->step = step;
        snapshot->wall_time = wall_time;
    }
}

/* Submits those of the snapshots that are certain and have their room, which does not wait, and
 * returns what is left of the list. */
static td__snapshot *spill_list(td_deck *deck, td__snapshot *list, int64_t epoch, int64_t step) {
    td__snapshot *first = NULL, **end = &first;
    while (list) {
        td__snapshot *snapshot = list;
        list = list->next;
        snapshot->next = NULL;
        td__tracks certain = {0};
        for (int w = 0; snapshot->queue_bytes && w < TD__TRACK_WORDS; w++) {
            certain[w] = snapshot->tracks[w] & snapshot->sure[w];
        }
        if (td__tracks_any(certain)) {
            td__snapshot_label(snapshot, epoch, step, td__wall_time());
            td__submit(deck, snapshot, certain, false);
            for (int w = 0; w < TD__TRACK_WORDS; w++) {
                snapshot->tracks[w] &= ~certain[w];
            }
        }
        if (td__tracks_any(snapshot->tracks)) {
            *end = snapshot;
            end = &snapshot->next;
        } else {
            td__unstage(deck, snapshot);
        }
    }
    return first;
}

/* Sends on what is staged, or being closed, and wanted for certain. */
static void submit_sure_snapshots(td_deck *deck) {
    for (td__closing *closing = deck->closing; closing; closing = closing->next) {
        td__packed_send(deck, closing->packed, closing->epoch, closing->step, td__wall_time());
        closing->packed = NULL;
        closing->snapshots = spill_list(deck, closing->snapshots, closing->epoch, closing->step);
    }
    td__packed_send(deck, td__packed_take(deck), deck->epoch, deck->step, td__wall_time());
    deck->staged_first = spill_list(deck, deck->staged_first, deck->epoch, deck->step);
    deck->staged_last = deck->staged_first;
    while (deck->staged_last && deck->staged_last->next) {
        deck->staged_last = deck->staged_last->next;
    }
}

void td__unstage(td_deck *deck, td__snapshot *snapshot) {
    td__queue_give_back(deck, snapshot->queue_bytes); /* what no entry has taken over */
    snapshot->queue_bytes = 0;
    td__snapshot_unref(&deck->recycler, snapshot);
}

static void wait_for_writer(td_deck *deck) {
    uint64_t start = td__ticks();
    td__queue_wake(deck);
    deck->waiters++;
    pthread_cond_wait(&deck->room, &deck->lock);
    deck->waiters--;
    deck->waited += td__ticks() - start;
}

void td__queue_give_back(td_deck *deck, size_t bytes) {
    deck->queue_used -= bytes;
    if (deck->waiters) {
        pthread_cond_broadcast(&deck->room);
    }
}

bool td__queue_waits(const td_deck *deck, uint32_t kind) {
    return deck->policy == TD_POLICY_BLOCK || kind == TD_SCALAR;
}

bool td__queue_fits(const td_deck *deck, size_t bytes) {
    size_t reserve = deck->queue_limit / 16;
    return deck->queue_used + bytes <= deck->queue_limit - reserve;
}

bool td__queue_acquire(td_deck *deck, size_t bytes, bool wait) {
    if (bytes > deck->queue_limit) {
        return false;
    }
    if (!wait && !td__queue_fits(deck, bytes)) {
        return false;
    }
    while (deck->queue_used + bytes > deck->queue_limit) {
        submit_sure_snapshots(deck);
        if (deck->queue_used + bytes > deck->queue_limit) { /* spilling may have freed enough */
            wait_for_writer(deck);
        }
    }
    deck->queue_used += bytes;
    if ((int64_t)deck->queue_used > deck->counters.queue_bytes_peak) {
        deck->counters.queue_bytes_peak = (int64_t)deck->queue_used;
    }
    return true;
}

void td__queue_push(td_deck *deck, td__entry *entry) {
    entry->next = NULL;
    if (deck->last) {
        deck->last->next = entry;
    } else {
        deck->first = entry;
    }
    deck->last = entry;
}

/* Larger than the whole queue, and still where it was recorded from: returns when it is written. */
static void hand_through(td_deck *deck, td__snapshot *snapshot) {
    td__tracks certain;
    for (int w = 0; w < TD__TRACK_WORDS; w++) {
        certain[w] = snapshot->tracks[w] & snapshot->sure[w];
    }
    submit_sure_snapshots(deck);
    td__snapshot_label(snapshot, deck->epoch, deck->step, td__wall_time());
    td__submit(deck, snapshot, certain, false);
    td__unstage(deck, snapshot);
}

void td__stage(td_deck *deck, td__snapshot *snapshot) {
    deck->fresh = false;
    snapshot->signal->tensor_serial = deck->serial; /* what comes now is staged too, behind it */
    snapshot->next = NULL;
    if (snapshot->waited_for) {
        hand_through(deck, snapshot);
        return;
    }
    if (deck->staged_last) {
        deck->staged_last->next = snapshot;
    } else {
        deck->staged_first = snapshot;
    }
    deck->staged_last = snapshot;
    if (deck->waiters) {
        submit_sure_snapshots(deck);
        td__queue_wake(deck);
    }
}

/* ---- Forms ---------------------------------------------------------------------------------- */

int64_t td__forms_of(const td_deck *deck, uint32_t kind, bool single, const td__tracks tracks,
                     td__forms forms) {
    int64_t count = 0;
    memset(forms, 0, sizeof(td__forms));
    for (int32_t i = td__tracks_next(tracks, 0); i >= 0; i = td__tracks_next(tracks, i + 1)) {
        const td__track *track = deck->tracks[i];
        bool value = kind != TD_TENSOR || (single && track->form == TD_FORM_DEFAULT);
        const uint16_t *from = value ? track->value_forms : track->forms;
        uint32_t mask = !value ? UINT32_MAX : kind == TD_TENSOR ? TD_SCALAR : kind;
        for (int32_t s = 0; s < deck->outlet_count; s++) {
            forms[s] = (uint16_t)(forms[s] | (from[s] & mask));
        }
    }
    for (int32_t s = 0; s < deck->outlet_count; s++) {
        count += count_bits(forms[s]);
    }
    return count;
}

/* The form that stands in for one that the snapshot no longer has. */
static uint32_t stand_in(const td__snapshot *snapshot) {
    if (!snapshot->wanted) {
        return 0;
    }
    return snapshot->has & TD_HISTOGRAM ? TD_HISTOGRAM : snapshot->has & TD_STATS;
}

typedef enum placement { PLACED, THERE_ALREADY, NOWHERE } placement;

/* Gives the sink that wanted more (or, when it cannot write the form, another open one) the
 * stand-in, once. */
static placement place_form(const td_deck *deck, td__forms forms, int32_t wanted_by,
                            uint32_t form) {
    for (int32_t k = 0; k <= deck->outlet_count; k++) {
        int32_t s = k == 0 ? wanted_by : k - 1;
        const td__outlet *outlet = &deck->outlets[s];
        if (!outlet->sink || !(outlet->class->forms & form)) {
            continue;
        }
        if (forms[s] & form) {
            return THERE_ALREADY;
        }
        forms[s] = (uint16_t)(forms[s] | form);
        return PLACED;
    }
    return NOWHERE;
}

/* What becomes of the records that a snapshot was to be. */
typedef struct fitting {
    int64_t kept;
    int64_t lost;
    uint32_t replaced; /* forms that stand for others */
} fitting;

/* Cuts forms down to what the snapshot has. Several forms with one stand-in become one record. */
static fitting fit_forms(td_deck *deck, const td__snapshot *snapshot, td__forms forms) {
    uint32_t form = stand_in(snapshot);
    fitting result = {0};
    uint32_t missing[TD__SINKS];
    for (int32_t s = 0; s < deck->outlet_count; s++) {
        missing[s] = forms[s] & ~snapshot->has;
        forms[s] = (uint16_t)(forms[s] & snapshot->has);
        result.kept += count_bits(forms[s]);
    }
    for (int32_t s = 0; s < deck->outlet_count; s++) {
        for (int k = count_bits(missing[s]); k > 0; k--) {
            placement placed = form ? place_form(deck, forms, s, form) : NOWHERE;
            result.kept += placed == PLACED;
            result.lost += placed == NOWHERE;
            result.replaced |= placed == PLACED ? form : 0;
            deck->counters.degraded += placed == PLACED;
        }
    }
    return result;
}

/* ---- Submitting ----------------------------------------------------------------------------- */

void td__count_dropped(td_deck *deck, int64_t records) {
    deck->counters.submitted += records;
    deck->counters.dropped += records;
}

/* The snapshot without its elements: its histogram if that fits, otherwise its statistics, both
 * worked out with the lock free. NULL when nothing fits. */
static td__snapshot *make_reduced_snapshot(td_deck *deck, const td__snapshot *from) {
    size_t bins_size = sizeof(td_bin) * TD_HISTOGRAM_BINS;
    size_t with_bins = sizeof *from + td__deck_pool_size(bins_size);
    bool histogram = td__queue_acquire(deck, with_bins, false);
    if (!histogram && !td__queue_acquire(deck, sizeof *from, false)) {
        return NULL;
    }
    size_t bytes = histogram ? with_bins : sizeof *from;
    td__snapshot *to = td__snapshot_create(&deck->recycler, from->signal, from->kind);
    td_bin *bins = to && histogram ? td__deck_pool_take(&deck->recycler.pool, bins_size) : NULL;
    if (!to) {
        td__queue_give_back(deck, bytes);
        return NULL;
    }
    to->epoch = from->epoch;
    to->step = from->step;
    to->wall_time = from->wall_time;
    to->wanted = TD_TENSOR;
    to->has = TD_STATS | (bins ? TD_HISTOGRAM : 0) | (from->has & (TD_SCALAR | TD_HASH));
    to->value = from->value;
    to->hash = from->hash;
    to->single = from->single;
    to->bytes = to->queue_bytes = bytes;
    to->bins_size = bins ? bins_size : 0;
    td__deck_unlock(deck);
    int64_t count = td__elements_from(&from->view.shape, 0);
    td__reduce(&from->view, count, &(td__reduction){&to->stats, bins, &to->histogram, NULL});
    td__deck_lock(deck);
    return to;
}

static bool enqueue_snapshot(td_deck *deck, td__snapshot *snapshot, const td__forms forms,
                             uint32_t replaced, int64_t deliveries, bool history) {
    td__ticket *ticket =
        snapshot->ticket_used ? td__ticket_create(&deck->recycler) : &snapshot->ticket;
    size_t bytes = snapshot->queue_bytes;
    snapshot->queue_bytes = 0;
    if (!ticket) {
        td__queue_give_back(deck, bytes);
        deck->counters.dropped += deliveries;
        (void)td__deck_fail(deck, TD_MEMORY, "out of memory for a record of %s",
                            snapshot->signal->name);
        return false;
    }
    *ticket = (td__ticket){
        .entry = {.kind = TD__ENTRY_RECORD, .bytes = bytes, .deliveries = deliveries},
        .snapshot = snapshot,
        .replaced = replaced,
        .history = history,
        .own = !snapshot->ticket_used,
    };
    memcpy(ticket->forms, forms, sizeof ticket->forms);
    for (int32_t s = 0; s < deck->outlet_count; s++) {
        snapshot->sent[s] = (uint16_t)(snapshot->sent[s] | forms[s]);
    }
    snapshot->ticket_used = true;
    snapshot->references++;
    snapshot->delivered = false;
    deck->counters.pending += deliveries;
    td__queue_push(deck, &ticket->entry);
    return true;
}

void td__submit(td_deck *deck, td__snapshot *snapshot, const td__tracks tracks, bool history) {
    td__forms forms;
    int64_t records = td__forms_of(deck, snapshot->kind, snapshot->single, tracks, forms);
    for (int32_t s = 0; s < deck->outlet_count; s++) {
        records -= count_bits((uint32_t)(forms[s] & snapshot->sent[s]));
        forms[s] = (uint16_t)(forms[s] & ~snapshot->sent[s]);
    }
    if (records == 0) {
        return;
    }
    td__tracks_add(deck->recorded, tracks);
    td__snapshot *made = NULL;
    if (!snapshot->queue_bytes && !snapshot->waited_for) {
        bool block = td__queue_waits(deck, snapshot->kind);
        if (td__queue_acquire(deck, snapshot->bytes, block)) {
            snapshot->queue_bytes = snapshot->bytes;
        } else if (block) { /* larger than the whole queue: it stays where it is until written */
            snapshot->waited_for = true;
        } else if (deck->policy == TD_POLICY_DEGRADE && (snapshot->has & TD__DATA_FORMS)) {
            snapshot = made = make_reduced_snapshot(deck, snapshot);
        } else {
            snapshot = NULL;
        }
    }
    if (!snapshot) {
        td__count_dropped(deck, records);
        return;
    }
    fitting fits = fit_forms(deck, snapshot, forms);
    deck->counters.submitted += fits.kept + fits.lost;
    deck->counters.dropped += fits.lost;
    bool queued =
        fits.kept && enqueue_snapshot(deck, snapshot, forms, fits.replaced, fits.kept, history);
    while (queued && snapshot->waited_for && !snapshot->delivered) {
        wait_for_writer(deck);
    }
    if (made) {
        td__unstage(deck, made);
    }
}
