/* Room for what is recorded: in the queue for tracks that will write it whatever happens, by the
 * deck's policy; in the history for tracks that may want it later. */
#include "deck/plan.h"

#include "base/clock.h"

#include <string.h>

size_t td__plan_bytes(const td__plan *p) {
    size_t bytes = sizeof(td__snapshot);
    if (p->deferred || (p->forms & (TD__DATA_FORMS | TD_TEXT))) {
        bytes += p->takes_over ? p->data_bytes : td__deck_pool_size(p->data_bytes);
    }
    if (p->forms & TD_HISTOGRAM) {
        bytes += td__deck_pool_size(p->bins_bytes);
    }
    return bytes;
}

bool td__plan_has_sure(const td__plan *p) {
    uint64_t any = 0;
    for (int w = 0; w < TD__TRACK_WORDS; w++) {
        any |= p->tracks[w] & p->sure[w];
    }
    return any != 0;
}

static bool has_unsure(const td__plan *p) {
    uint64_t any = 0;
    for (int w = 0; w < TD__TRACK_WORDS; w++) {
        any |= p->tracks[w] & ~p->sure[w];
    }
    return any != 0;
}

/* What the plan's tracks ask for. */
static uint32_t forms_wanted(const td_deck *deck, const td__plan *p) {
    td__forms forms;
    td__forms_of(deck, p->kind, p->single, p->tracks, forms);
    uint32_t all = 0;
    for (int32_t s = 0; s < deck->outlet_count; s++) {
        all |= forms[s];
    }
    return all;
}

static void drop_sure(td_deck *deck, td__plan *p) {
    td__tracks dropped;
    td__forms forms;
    for (int w = 0; w < TD__TRACK_WORDS; w++) {
        dropped[w] = p->tracks[w] & p->sure[w];
        p->tracks[w] &= ~p->sure[w];
    }
    td__count_dropped(deck, td__forms_of(deck, p->kind, p->single, dropped, forms));
}

static void lose_unsure(td_deck *deck, td__plan *p) {
    td__tracks lost;
    for (int w = 0; w < TD__TRACK_WORDS; w++) {
        lost[w] = p->tracks[w] & ~p->sure[w];
        p->tracks[w] &= p->sure[w];
    }
    td__history_lost(deck, lost, p->step);
}

bool td__plan_reduce(td__plan *p) {
    uint32_t data = p->forms & TD__DATA_FORMS;
    uint32_t larger = data ? data : p->forms & TD_HISTOGRAM;
    if (!larger || p->kind != TD_TENSOR) {
        return false;
    }
    p->wanted = p->wanted ? p->wanted : larger & (0 - larger);
    p->forms = (p->forms & ~larger) | (data ? TD_HISTOGRAM : TD_STATS);
    return true;
}

/* What the overhead budget leaves of the forms. */
static void spend_less(td__plan *p, int32_t level) {
    if (level >= 1 && (p->forms & TD__DATA_FORMS)) {
        td__plan_reduce(p);
    }
    while (level >= 2 && td__plan_reduce(p)) {
    }
}

void td__plan_draw_up(const td_deck *deck, td__plan *p) {
    memset(p->sure, 0, sizeof p->sure);
    for (int32_t i = td__tracks_next(p->tracks, 0); i >= 0; i = td__tracks_next(p->tracks, i + 1)) {
        td__tracks_put(p->sure, i, !td__track_undecided(deck->tracks[i]));
    }
    p->serial = deck->serial;
    p->epoch = deck->epoch;
    p->step = deck->step;
    p->forms = forms_wanted(deck, p);
    spend_less(p, deck->budget.level);
}

/* Room in the queue, by the deck's policy; tracks that get none are left out, and counted. */
static void find_queue_room(td_deck *deck, td__plan *p) {
    bool block = td__queue_waits(deck, p->kind);
    bool found = td__queue_acquire(deck, p->bytes, block);
    p->waited_for = !found && block;
    while (!found && deck->policy == TD_POLICY_DEGRADE && td__plan_reduce(p)) {
        p->bytes = td__plan_bytes(p);
        found = td__queue_acquire(deck, p->bytes, false);
    }
    if (!found && !block) {
        drop_sure(deck, p);
        p->wanted = 0;
        p->forms = forms_wanted(deck, p);
        if (p->summed_up && (p->forms & TD__DATA_FORMS)) { /* too late for a copy */
            p->wanted = TD_TENSOR;
            p->forms = (p->forms & ~TD__DATA_FORMS) | TD_STATS;
        }
        p->bytes = td__plan_bytes(p);
    }
}

static void find_room(td_deck *deck, td__plan *p) {
    p->bytes = td__plan_bytes(p);
    if (td__plan_has_sure(p)) {
        find_queue_room(deck, p);
    }
    if (has_unsure(p) && (p->waited_for || !td__history_acquire(deck, p->bytes))) {
        lose_unsure(deck, p);
    }
}

static void give_room_back(td_deck *deck, const td__plan *p) {
    td__queue_give_back(deck, td__plan_has_sure(p) && !p->waited_for ? p->bytes : 0);
    deck->history_used -= has_unsure(p) ? p->bytes : 0;
}

/* Memory of that size when it is needed; false when there is none. */
static bool take_if(td_deck *deck, bool needed, size_t size, void **memory, size_t *taken) {
    if (needed) {
        *memory = td__deck_pool_take(&deck->recycler.pool, size);
        *taken = *memory ? size : 0;
    }
    return !needed || *memory;
}

td__snapshot *td__plan_admit(td_deck *deck, td__plan *p) {
    find_room(deck, p);
    if (!td__tracks_any(p->tracks)) {
        return NULL;
    }
    td__snapshot *snapshot = td__snapshot_create(&deck->recycler, p->signal, p->kind);
    void *data = NULL, *bins = NULL, *text = NULL;
    bool brought = p->kind == TD_TEXT || p->kind == TD_IMAGE; /* bytes, kept as they are */
    bool copies = !brought && (p->forms & TD__DATA_FORMS) && p->data_bytes && !p->takes_over &&
                  !p->waited_for;
    if (!snapshot || !take_if(deck, copies, p->data_bytes, &data, &snapshot->data_size) ||
        !take_if(deck, p->forms & TD_HISTOGRAM, p->bins_bytes, &bins, &snapshot->bins_size) ||
        !take_if(deck, brought, p->data_bytes, &text, &snapshot->text_size)) {
        if (snapshot) {
            snapshot->view.data = data;
            snapshot->histogram.bins = bins;
            td__snapshot_unref(&deck->recycler, snapshot);
        }
        give_room_back(deck, p);
        drop_sure(deck, p);
        lose_unsure(deck, p);
        (void)td__deck_fail(deck, TD_MEMORY, "out of memory for a record of %s", p->signal->name);
        return NULL;
    }
    snapshot->view.data = data;
    snapshot->histogram.bins = bins;
    snapshot->text = text;
    snapshot->single = p->single;
    snapshot->wanted = p->wanted;
    snapshot->has = p->forms;
    snapshot->bytes = p->bytes;
    snapshot->waited_for = p->waited_for;
    snapshot->queue_bytes = td__plan_has_sure(p) && !p->waited_for ? p->bytes : 0;
    snapshot->history_bytes = has_unsure(p) ? p->bytes : 0;
    snapshot->holds = has_unsure(p);
    memcpy(snapshot->tracks, p->tracks, sizeof p->tracks);
    memcpy(snapshot->sure, p->sure, sizeof p->sure);
    return snapshot;
}

void td__plan_shrink(td_deck *deck, td__snapshot *snapshot, size_t spare) {
    snapshot->bytes -= spare;
    if (snapshot->queue_bytes) {
        snapshot->queue_bytes -= spare;
        td__queue_give_back(deck, spare);
    }
    if (snapshot->history_bytes) {
        snapshot->history_bytes -= spare;
        deck->history_used -= spare;
    }
}

void td__plan_stage(td_deck *deck, td__plan *p, td__snapshot *snapshot) {
    if (deck->serial == p->serial) {
        td__stage(deck, snapshot);
        return;
    }
    td__tracks sure;
    for (int w = 0; w < TD__TRACK_WORDS; w++) {
        sure[w] = p->tracks[w] & p->sure[w];
    }
    td__snapshot_label(snapshot, p->epoch, p->step, td__wall_time());
    if (td__tracks_any(sure)) {
        td__submit(deck, snapshot, sure, false);
    }
    if (snapshot->holds) {
        lose_unsure(deck, p);
        td__history_release(deck, snapshot);
    }
    td__unstage(deck, snapshot);
}
