/* What conditions hold back: each track's history is a list of snapshots, oldest first; all of them
 * together, and what the open step has yet to decide on, stay within history_bytes. The oldest
 * snapshot of all goes when room is needed. */
#include "deck/deck.h"

bool td__track_undecided(const td__track *track) {
    return track->condition || (track->due_maybe && !track->due_step);
}

void td__history_release(td_deck *deck, td__snapshot *snapshot) {
    if (--snapshot->holds == 0) {
        deck->history_used -= snapshot->history_bytes;
        snapshot->history_bytes = 0;
    }
}

static td__snapshot *take_first(td_deck *deck, td__track *track) {
    td__kept *kept = track->kept_first;
    td__snapshot *snapshot = kept->snapshot;
    track->kept_first = kept->next;
    if (!kept->next) {
        track->kept_last = NULL;
    }
    td__kept_release(&deck->recycler, kept);
    return snapshot;
}

static void put_out_first(td_deck *deck, td__track *track) {
    td__snapshot *snapshot = take_first(deck, track);
    td__history_release(deck, snapshot);
    td__snapshot_unref(&deck->recycler, snapshot);
}

static td__track *track_with_oldest_snapshot(const td_deck *deck) {
    td__track *found = NULL;
    for (int32_t i = 0; i < deck->track_count; i++) {
        td__track *track = deck->tracks[i];
        if (track->kept_first &&
            (!found || track->kept_first->snapshot->step < found->kept_first->snapshot->step)) {
            found = track;
        }
    }
    return found;
}

static void mark_lost(td_deck *deck, td__track *track, int64_t step) {
    track->lost = true;
    track->lost_step = step;
    deck->counters.history_lost++;
}

bool td__history_acquire(td_deck *deck, size_t bytes) {
    if (bytes > deck->history_limit) {
        return false;
    }
    while (deck->history_used + bytes > deck->history_limit) {
        td__track *track = track_with_oldest_snapshot(deck);
        if (!track) {
            return false;
        }
        mark_lost(deck, track, track->kept_first->snapshot->step);
        put_out_first(deck, track);
    }
    deck->history_used += bytes;
    return true;
}

void td__history_lost(td_deck *deck, const td__tracks tracks, int64_t step) {
    for (int32_t i = 0; i < deck->track_count; i++) {
        if (td__tracks_has(tracks, i)) {
            mark_lost(deck, deck->tracks[i], step);
        }
    }
}

bool td__history_keep(td_deck *deck, td__track *track, td__snapshot *snapshot) {
    td__kept *kept = td__kept_create(&deck->recycler, snapshot);
    if (!kept) {
        mark_lost(deck, track, snapshot->step);
        return false;
    }
    snapshot->references++;
    snapshot->holds++;
    if (track->kept_last) {
        track->kept_last->next = kept;
    } else {
        track->kept_first = kept;
    }
    track->kept_last = kept;
    return true;
}

void td__history_trim(td_deck *deck, td__track *track, int64_t step) {
    while (track->kept_first && track->kept_first->snapshot->step < step - track->history) {
        put_out_first(deck, track);
    }
}

void td__history_clear(td_deck *deck, td__track *track) {
    while (track->kept_first) {
        put_out_first(deck, track);
    }
}

void td__history_submit(td_deck *deck, int32_t index, int64_t step) {
    td__track *track = deck->tracks[index];
    td__tracks only = {0};
    td__tracks_put(only, index, true);
    td__history_trim(deck, track, step);
    /* Submitting may wait, and others then make room by putting out the oldest: this one at a time,
     * so that both always see a list that is right. */
    while (track->kept_first) {
        td__snapshot *snapshot = take_first(deck, track);
        td__submit(deck, snapshot, only, true);
        td__history_release(deck, snapshot);
        td__snapshot_unref(&deck->recycler, snapshot);
    }
    int64_t first = step - track->history > 1 ? step - track->history : 1;
    if (track->lost && track->lost_step >= first) {
        td__deck_event(deck, TD_EVENT_HISTORY, NULL, track->lost_step - first + 1,
                       "of the %lld steps before step %lld, steps %lld to %lld did not fit %zu "
                       "bytes of history",
                       (long long)track->history, (long long)step, (long long)first,
                       (long long)track->lost_step, deck->history_limit);
    }
    track->lost = false;
}
