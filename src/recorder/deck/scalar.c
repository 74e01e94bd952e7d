/* Scalars: what a training loop records most often.
 *
 * The thread that recorded the deck's first scalar pushes its scalars to a ring without taking the lock.
 * A thread that takes the lock to record something or to change the tracks (td__deck_enter) empties the
 * ring first, so that everything happens in the order of the calls. All other threads take the lock. The ring
 * stays with its thread: a thread that leaves a scalar while another one takes its right to do so would need
 * a barrier in every call, which is most of what the lock costs. */
#include "deck/deck.h"

#include "base/clock.h"

#include <string.h>

/* ---- The ring ------------------------------------------------------------------------------- */

static uintptr_t this_thread(void) {
    return (uintptr_t)pthread_self();
}

/* False: not this thread's, or full. */
static bool ring_push(td__scalars *ring, td_signal *signal, double value) {
    if (atomic_load_explicit(&ring->owner, memory_order_relaxed) != this_thread()) {
        return false;
    }
    uint32_t left = atomic_load_explicit(&ring->left, memory_order_relaxed);
    if (left - atomic_load_explicit(&ring->taken, memory_order_acquire) == TD__SCALARS) {
        return false;
    }
    ring->scalars[left % TD__SCALARS] = (td__scalar){signal, value};
    atomic_store_explicit(&ring->left, left + 1, memory_order_release);
    return true;
}

/* The sinks that get the signal's scalars in this step for certain; unsure: a condition is yet to decide. */
static void find_sinks(td_deck *deck, td_signal *signal) {
    td__tracks tracks;
    td__values_due(signal, tracks);
    signal->scalar_unsure = false;
    for (int w = 0; w < TD__TRACK_WORDS; w++) {
        signal->scalar_unsure |= (tracks[w] & ~deck->values_sure[w]) != 0;
    }
    signal->scalar_sinks = td__scalar_sinks(deck, tracks);
    signal->scalar_sinks_of = deck->due_version;
    if (!signal->scalar_unsure) {
        td__tracks_add(deck->recorded, tracks);
    }
}

static void record_scalar(td_deck *deck, td_signal *signal, double value) {
    signal->value = value;
    signal->value_serial = deck->serial;
    signal->value_epoch = deck->epochs;
    if (signal->scalar_sinks_of != deck->due_version) {
        find_sinks(deck, signal);
    }
    if (signal->scalar_unsure) {
        td__tracks tracks;
        td__values_due(signal, tracks);
        td__record_value(signal, TD_SCALAR, tracks, value, NULL, 0);
    } else if (signal->scalar_sinks) {
        td__pack_scalar(deck, signal, signal->scalar_sinks, value);
    }
}

static void take_out(td_deck *deck, uint32_t end) {
    td__scalars *ring = &deck->scalars;
    uint32_t taken = atomic_load_explicit(&ring->taken, memory_order_relaxed);
    ring->taking = true;
    while (taken != end) {
        td__scalar scalar = ring->scalars[taken % TD__SCALARS];
        atomic_store_explicit(&ring->taken, ++taken, memory_order_release);
        record_scalar(deck, scalar.signal, scalar.value); /* may wait for room, without the lock */
    }
    ring->taking = false;
    if (deck->flushers) {
        pthread_cond_broadcast(&deck->room);
    }
}

void td__scalars_take(td_deck *deck) {
    td__scalars *ring = &deck->scalars;
    while (
        ring->taking) { /* another thread: what is recorded now comes after what it has in its hands */
        deck->flushers++;
        pthread_cond_wait(&deck->room, &deck->lock);
        deck->flushers--;
    }
    uint32_t left = atomic_load_explicit(&ring->left, memory_order_acquire);
    if (left != atomic_load_explicit(&ring->taken, memory_order_relaxed)) {
        take_out(deck, left);
    }
}

/* ---- Entry points --------------------------------------------------------------------------- */

/* The first of a signal, of a thread that does not own the ring, or when that is full. */
static void record_locked(td_signal *signal, double value) {
    /* Reading the clock costs as much as the rest: one scalar in some is timed for all. */
    enum { ONE_IN = 31 };
    td_deck *deck = signal->deck;
    td__deck_lock(deck);
    uint64_t start = deck->scalar_count++ % ONE_IN == 0 ? td__ticks() : 0;
    td__scalars_take(deck);
    if (!atomic_load_explicit(&deck->scalars.owner, memory_order_relaxed)) {
        atomic_store_explicit(&deck->scalars.owner, this_thread(), memory_order_relaxed);
    }
    if (!signal->value_serial) {
        td__signal_found_to_be(signal, TD_SIGNAL_METRIC);
        atomic_store_explicit(&signal->scalar, true, memory_order_relaxed);
    }
    record_scalar(deck, signal, value);
    if (start) {
        deck->cost += ONE_IN * (td__ticks() - start);
    }
    td__deck_unlock(deck);
}

td_status td_signal_scalar(td_signal *signal, double value) {
    if (!signal) {
        return TD_INVALID;
    }
    if (atomic_load_explicit(&signal->used, memory_order_relaxed) &&
        !(atomic_load_explicit(&signal->scalar, memory_order_relaxed) &&
          ring_push(&signal->deck->scalars, signal, value))) {
        record_locked(signal, value);
    }
    return TD_OK;
}

td_status td_signal_scalar_epoch(td_signal *signal, double value) {
    if (!signal) {
        return TD_INVALID;
    }
    td_deck *deck = signal->deck;
    td__deck_lock(deck);
    signal->epoch_value = value;
    signal->epoch_serial = deck->serial;
    td__deck_unlock(deck);
    return TD_OK;
}

td_status td_deck_scalar(td_deck *deck, const char *name, double value) {
    td_signal *signal = td_deck_signal(deck, name);
    return signal ? td_signal_scalar(signal, value) : td__no_signal(deck, name);
}
