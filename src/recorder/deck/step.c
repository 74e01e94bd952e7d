/* The end of a step: which tracks qualify, and what becomes of everything that was staged. */
#include "deck/deck.h"

#include "base/clock.h"
#include "tensor/stats.h"

#include <string.h>

/* Bytes for which the writer is woken at the end of a step: memory that it gives back soon is used
 * again, and does not have to be asked of the system. */
enum { WORTH_WAKING = 4 << 20 };

/* What was decided when the step was closed. */
typedef struct decision {
    td__tracks go;    /* tracks that write this step */
    td__tracks fired; /* of those, the ones whose condition holds */
} decision;

static void decide_tracks(td_deck *deck, const td__moment *now, bool epoch_end, decision *decided) {
    memset(decided, 0, sizeof *decided);
    for (int32_t i = 0; i < deck->track_count; i++) {
        td__track *track = deck->tracks[i];
        bool go = td__track_scheduled(track, now->epoch, now->step, epoch_end);
        track->due_steps += go;
        if (track->condition) {
            td__condition_update(track->condition, now);
            go = go && td__condition_holds(track->condition, now);
            td__tracks_put(decided->fired, i, go);
        }
        td__tracks_put(decided->go, i, go);
    }
}

static void pack_scalar(td_deck *deck, td_signal *signal, uint32_t sinks, double value) {
    if (sinks) {
        td__pack_scalar(deck, signal, sinks, value);
    }
}

/* Gives sinks the step's own value, which a snapshot that a condition may want later has too. */
static void pack_own(td_deck *deck, td_signal *signal, uint32_t sinks) {
    pack_scalar(deck, signal, sinks, signal->value);
    for (td__snapshot *s = deck->staged_first; s && sinks; s = s->next) {
        for (int32_t i = 0; i < deck->outlet_count && s->signal == signal; i++) {
            s->sent[i] |= (sinks >> i) & 1 ? TD_SCALAR : 0;
        }
    }
}

/* due: the tracks that an epoch's end concerns. A sink that some track gives the signal's steps has their
 * own values only, and each once. */
static void carry_values(td_deck *deck, td_signal *signal, const td__tracks due,
                         const decision *decided) {
    td__tracks go, kept, steps, served;
    for (int w = 0; w < TD__TRACK_WORDS; w++) {
        uint64_t tracks = atomic_load_explicit(&signal->tracks[w], memory_order_relaxed);
        go[w] = tracks & due[w] & decided->go[w];
        kept[w] = tracks & due[w] & ~decided->go[w];
        steps[w] = tracks & deck->by_steps[w];
        served[w] = tracks & deck->values_due[w] & decided->go[w];
    }
    bool of_epoch = signal->epoch_serial == deck->serial;
    bool of_step = signal->value_serial == deck->serial;
    double value = of_epoch ? signal->epoch_value : signal->value;
    uint32_t sinks = td__scalar_sinks(deck, go), owned = td__scalar_sinks(deck, steps);
    td__tracks_add(deck->recorded, go);
    pack_scalar(deck, signal, sinks & ~owned, value);
    if (of_step) {
        pack_own(deck, signal, sinks & owned & ~td__scalar_sinks(deck, served));
    }
    bool own = td__scalar_sinks(deck, kept) & owned;
    if (td__tracks_any(kept) && (of_step || !own)) { /* for their history */
        td__record_value(signal, TD_SCALAR, kept, own ? signal->value : value, NULL, 0);
    }
}

/* At the end of an epoch, scalars are written as they last were in it, whether or not they were
 * recorded in its last step; or as the epoch's own. */
static void carry_scalars(td_deck *deck, int64_t epoch, int64_t step, const decision *decided) {
    td__tracks due = {0};
    for (int32_t i = 0; i < deck->track_count; i++) {
        const td__track *track = deck->tracks[i];
        bool in = !track->due_step && td__track_scheduled(track, epoch, step, true);
        td__tracks_put(due, i, in && (track->history || td__tracks_has(decided->go, i)));
    }
    for (size_t k = 0; k < deck->signal_count && td__tracks_any(due); k++) {
        td_signal *signal = deck->signals[k];
        if (signal->value_serial && signal->value_epoch == deck->epochs) {
            carry_values(deck, signal, due, decided);
        }
    }
}

static void submit_triggered(td_deck *deck, const decision *decided, int64_t step) {
    for (int32_t i = 0; i < deck->track_count; i++) {
        if (!td__tracks_has(decided->fired, i)) {
            continue;
        }
        td__track *track = deck->tracks[i];
        if (track->alert) {
            td__alert_raise(deck, track->alert, td__condition_text(track->condition));
            continue;
        }
        deck->counters.triggers++;
        td__deck_event(deck, TD_EVENT_TRIGGER, NULL, 1, "%s", td__condition_text(track->condition));
        td__history_submit(deck, i, step);
    }
}

/* Tracks that keep the snapshot because their condition may hold later. */
static void keep_in_history(td_deck *deck, td__snapshot *snapshot, const decision *decided) {
    for (int32_t i = 0; i < deck->track_count; i++) {
        td__track *track = deck->tracks[i];
        if (track->history && td__tracks_has(snapshot->tracks, i) &&
            !td__tracks_has(decided->go, i)) {
            td__history_trim(deck, track, snapshot->step);
            (void)td__history_keep(deck, track, snapshot); /* a failure is counted as lost */
        }
    }
}

/* Takes from the deck everything that was staged in the step. */
static void begin_closing(td_deck *deck, td__closing *closing, int64_t epoch, int64_t step) {
    *closing = (td__closing){.next = deck->closing,
                             .snapshots = deck->staged_first,
                             .packed = td__packed_take(deck),
                             .epoch = epoch,
                             .step = step};
    deck->staged_first = deck->staged_last = NULL;
    deck->closing = closing;
}

static void end_closing(td_deck *deck, const td__closing *closing) {
    td__closing **link = &deck->closing;
    while (*link != closing) {
        link = &(*link)->next;
    }
    *link = closing->next;
}

/* One after the other, so that a thread that waits for room can submit the remaining ones. */
static void settle_snapshots(td_deck *deck, td__closing *closing, const decision *decided) {
    if (!closing->snapshots && !closing->packed) {
        return;
    }
    const td__entry *before = deck->last;
    double wall_time = td__wall_time();
    /* A signal's packed tensors are older than its staged ones. */
    td__packed_send(deck, closing->packed, closing->epoch, closing->step, wall_time);
    closing->packed = NULL;
    for (td__snapshot *snapshot; (snapshot = closing->snapshots);) {
        closing->snapshots = snapshot->next;
        snapshot->next = NULL;
        td__snapshot_label(snapshot, closing->epoch, closing->step, wall_time);
        td__tracks go;
        for (int w = 0; w < TD__TRACK_WORDS; w++) {
            go[w] = snapshot->tracks[w] & decided->go[w];
        }
        td__submit(deck, snapshot, go, false);
        if (snapshot->holds) {
            keep_in_history(deck, snapshot, decided);
            td__history_release(deck, snapshot);
        }
        td__unstage(deck, snapshot);
    }
    if (deck->last && deck->last != before) {
        deck->last->ends_step = true;
    }
}

static void open_next(td_deck *deck, int64_t epoch, int64_t step, bool epoch_end) {
    deck->serial++;
    deck->epochs += epoch_end;
    deck->epoch = epoch + epoch_end;
    deck->step = step + 1;
    deck->announced = deck->epoch_end = false;
    deck->fresh = true;
    td__deck_batch_unref(&deck->recycler, deck->batch);
    deck->batch = NULL;
    td__tracks_open_step(deck);
}

static void account_step_cost(td_deck *deck, uint64_t start) {
    uint64_t end = td__ticks();
    deck->cost += end - start;
    if (deck->counters.steps++ > 0) {
        td__overhead_step(deck, deck->cost - deck->cost_at_step, end - deck->step_ticks);
    } else {
        deck->first_step_ticks = end;
    }
    deck->step_ticks = end;
    deck->cost_at_step = deck->cost;
}

td_status td_deck_step_with(td_deck *deck, int64_t epoch, int64_t step, bool epoch_end) {
    if (!deck) {
        return TD_INVALID;
    }
    uint64_t start = td__ticks();
    decision decided;
    td__deck_enter(deck);
    epoch_end = epoch_end || (deck->announced && deck->epoch_end);
    td__moment now = {epoch, step, deck->serial};
    deck->epoch = deck->closing_epoch = epoch;
    deck->step = deck->closing_step = step;
    decide_tracks(deck, &now, epoch_end, &decided);
    if (epoch_end) {
        carry_scalars(deck, epoch, step, &decided);
    }
    td__closing closing;
    begin_closing(deck, &closing, epoch, step);
    /* From here on submitting may wait; what others record meanwhile belongs to the next step. */
    open_next(deck, epoch, step, epoch_end);
    submit_triggered(deck, &decided, step);
    settle_snapshots(deck, &closing, &decided);
    end_closing(deck, &closing);
    if (deck->changes) {
        td__requests_apply(deck);
    }
    td__deck_report_losses(deck, false);
    if (deck->queue_used > WORTH_WAKING || deck->queue_used > deck->queue_limit / 2) {
        td__queue_wake(deck);
    }
    account_step_cost(deck, start);
    td_status status = deck->stop_on_error ? deck->sink_status : TD_OK;
    td__deck_unlock(deck);
    return status;
}

td_status td_deck_step(td_deck *deck, int64_t epoch, int64_t step) {
    return td_deck_step_with(deck, epoch, step, false);
}

td_status td_deck_begin(td_deck *deck, int64_t epoch, int64_t step, bool epoch_end) {
    if (!deck) {
        return TD_INVALID;
    }
    td__deck_enter(deck);
    deck->epoch = epoch;
    deck->step = step;
    deck->announced = true;
    deck->epoch_end = epoch_end;
    td__tracks_open_step(deck);
    td__deck_unlock(deck);
    return TD_OK;
}

td_status td_deck_batch_labels(td_deck *deck, const int64_t *rows, int64_t count,
                               const td_view *labels) {
    td_error error = {0};
    td_status status = TD_OK;
    if (!deck) {
        return TD_INVALID;
    }
    if (count < 0 || (count > 0 && !rows)) {
        status = td_error_set(&error, TD_INVALID, "batch: %lld rows", (long long)count);
    } else if (labels && (labels->shape.rank < 1 || labels->shape.dims[0] != count)) {
        status = td_error_set(&error, TD_BAD_SHAPE, "batch: %lld rows, but labels for %lld",
                              (long long)count,
                              (long long)(labels->shape.rank < 1 ? 1 : labels->shape.dims[0]));
    } else if (labels) {
        int64_t elements;
        status = td__view_check(labels, &elements, &error);
    }
    td__deck_lock(deck);
    td__deck_batch *batch = NULL;
    if (status == TD_OK) {
        batch = td__deck_batch_create(&deck->recycler, rows, count, labels);
        status = batch ? TD_OK : td_error_set(&error, TD_MEMORY, "batch: out of memory");
    }
    if (status == TD_OK) {
        td__deck_batch_unref(&deck->recycler, deck->batch);
        deck->batch = batch;
    } else {
        (void)td__deck_fail(deck, status, "%s", error.text);
    }
    td__deck_unlock(deck);
    return status;
}

td_status td_deck_batch(td_deck *deck, const int64_t *rows, int64_t count) {
    return td_deck_batch_labels(deck, rows, count, NULL);
}
