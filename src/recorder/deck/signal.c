/* The signals of a deck, by name. */
#include "deck/deck.h"

#include "base/memory.h"
#include "deck/glob.h"
#include "tensor/hash.h"

#include <string.h>

static size_t slot_of(const td_deck *deck, uint64_t hash) {
    return (size_t)hash & (deck->table_size - 1);
}

static void insert_in_table(td_deck *deck, const td_signal *signal) {
    size_t slot = slot_of(deck, signal->hash);
    while (deck->table[slot]) {
        slot = (slot + 1) & (deck->table_size - 1);
    }
    deck->table[slot] = (uint32_t)signal->index + 1;
}

static td_signal *find_in_table(const td_deck *deck, const char *name, uint64_t hash) {
    if (!deck->table_size) {
        return NULL;
    }
    for (size_t slot = slot_of(deck, hash); deck->table[slot];
         slot = (slot + 1) & (deck->table_size - 1)) {
        td_signal *signal = deck->signals[deck->table[slot] - 1];
        if (signal->hash == hash && strcmp(signal->name, name) == 0) {
            return signal;
        }
    }
    return NULL;
}

static bool grow_table(td_deck *deck) {
    if (2 * (deck->signal_count + 1) <= deck->table_size) {
        return true;
    }
    size_t size = deck->table_size ? 2 * deck->table_size : 256;
    uint32_t *table = td__calloc(size, sizeof *table);
    if (!table) {
        return false;
    }
    td__free(deck->table);
    deck->table = table;
    deck->table_size = size;
    for (size_t i = 0; i < deck->signal_count; i++) {
        insert_in_table(deck, deck->signals[i]);
    }
    return true;
}

static bool wants_name(const td__track *track, const char *name, bool derived) {
    for (size_t i = 0; i < track->pattern_count; i++) {
        if (td__glob_match_signal(track->patterns[i], name, derived)) {
            return true;
        }
    }
    return false;
}

static void add_bit(_Atomic uint64_t *words, int32_t track) {
    uint64_t old = atomic_load_explicit(&words[track / 64], memory_order_relaxed);
    atomic_store_explicit(&words[track / 64], old | (uint64_t)1 << (track % 64),
                          memory_order_relaxed);
}

/* A track, or its condition, has to do with the signal. Something derived is wanted then, and so is what it is
 * derived from. */
static void add_use(td_signal *signal, int32_t track) {
    atomic_store_explicit(&signal->used, true, memory_order_relaxed);
    if (td__signal_is_derived(signal)) {
        add_bit(signal->uses, track);
    }
    if (signal->source) {
        add_bit(signal->source->uses, track);
    }
}

td_status td__signal_meet(td_signal *signal, int32_t index) {
    td_deck *deck = signal->deck;
    td__track *track = deck->tracks[index];
    bool uses = wants_name(track, signal->name, td__signal_is_derived(signal));
    bool stats = false, met = true;
    if (uses) {
        add_bit(signal->tracks, index);
    }
    if (track->condition) {
        met = td__condition_meet(track->condition, signal, &uses, &stats);
    }
    if (stats) {
        add_bit(signal->probes, index);
    }
    if (uses) {
        add_use(signal, index);
    }
    met = td__derived_meet(signal, track) && met;
    return met ? TD_OK : td__deck_fail(deck, TD_MEMORY, "out of memory for a condition's signals");
}

static td_signal *create_signal(td_deck *deck, const char *name, uint64_t hash,
                                const td_signal_info *info, const td__derivation *derivation) {
    if (!td__grow(&deck->signals, &deck->signal_capacity, deck->signal_count + 1, TD__MAX_SIGNALS,
                  sizeof *deck->signals) ||
        !grow_table(deck)) {
        return NULL;
    }
    td_signal *signal = td__calloc(1, sizeof *signal);
    char *copy = signal ? td__strdup(name) : NULL;
    if (!copy || !td__signal_know(signal, name, info)) {
        td__free(copy);
        td__free(signal);
        return NULL;
    }
    signal->deck = deck;
    signal->name = copy;
    signal->hash = hash;
    signal->declared = info != NULL;
    signal->derivation = derivation;
    signal->index = (int32_t)deck->signal_count;
    deck->signals[deck->signal_count++] = signal;
    insert_in_table(deck, signal);
    for (int32_t i = 0; i < deck->track_count; i++) {
        (void)td__signal_meet(signal, i); /* a failure is kept by the deck */
    }
    return signal;
}

td_signal *td__signal_derive(td_deck *deck, const char *name, const td_signal_info *info,
                             const td__derivation *derivation) {
    uint64_t hash = td__xxh64(name, strlen(name), 0);
    td_signal *signal = find_in_table(deck, name, hash);
    return signal ? signal : create_signal(deck, name, hash, info, derivation);
}

/* info: where it is made; NULL: guessed. */
static td_signal *find_or_create(td_deck *deck, const char *name, const td_signal_info *info) {
    uint64_t hash = td__xxh64(name, strlen(name), 0);
    td__deck_lock(deck);
    td_signal *signal = find_in_table(deck, name, hash);
    if (!signal) {
        signal = create_signal(deck, name, hash, info, NULL);
    }
    if (!signal) {
        (void)td__deck_fail(deck, TD_MEMORY, "out of memory for a signal, after %zu",
                            deck->signal_count);
    }
    td__deck_unlock(deck);
    return signal;
}

td_signal *td__deck_signal(td_deck *deck, const char *name, const td_signal_info *info) {
    if (!deck || !name) {
        (void)td__deck_refuse(deck, "the name of a signal");
        return NULL;
    }
    /* Programs pass the same literals again and again: their address finds the signal, and the
     * comparison makes sure of it. */
    uint64_t address = (uint64_t)(uintptr_t)name;
    size_t place = (size_t)((address * 0x9E3779B97F4A7C15u) >> 55);
    td_signal *signal = atomic_load_explicit(&deck->names[place], memory_order_acquire);
    if (signal && strcmp(signal->name, name) == 0) {
        return signal;
    }
    signal = find_or_create(deck, name, info);
    if (signal) {
        atomic_store_explicit(&deck->names[place], signal, memory_order_release);
    }
    return signal;
}

td_signal *td_deck_signal(td_deck *deck, const char *name) {
    return td__deck_signal(deck, name, NULL);
}

bool td_signal_wants(const td_signal *signal) {
    if (!signal) {
        return false;
    }
    uint64_t any = 0;
    int words = atomic_load_explicit(&signal->deck->words, memory_order_relaxed);
    for (int w = 0; w < words; w++) {
        any |= (atomic_load_explicit(&signal->tracks[w], memory_order_relaxed) |
                atomic_load_explicit(&signal->probes[w], memory_order_relaxed) |
                atomic_load_explicit(&signal->uses[w], memory_order_relaxed)) &
               atomic_load_explicit(&signal->deck->due[w], memory_order_relaxed);
    }
    return any != 0;
}

bool td_deck_wants(td_deck *deck, const char *name) {
    const td_signal *signal = td_deck_signal(deck, name);
    return td_signal_wants(signal);
}

bool td__signal_due(const td_signal *signal, td__tracks tracks, td__tracks probes) {
    for (int w = 0; w < TD__TRACK_WORDS; w++) {
        uint64_t due = atomic_load_explicit(&signal->deck->due[w], memory_order_relaxed);
        tracks[w] = atomic_load_explicit(&signal->tracks[w], memory_order_relaxed) & due;
        probes[w] = atomic_load_explicit(&signal->probes[w], memory_order_relaxed) & due;
    }
    return td__tracks_any(tracks) || td__tracks_any(probes);
}

void td__signals_release(td_deck *deck) {
    for (size_t i = 0; i < deck->signal_count; i++) {
        td__signal_forget(deck->signals[i]);
        td__free(deck->signals[i]->name);
        td__free(deck->signals[i]);
    }
    td__free(deck->signals);
    td__free(deck->table);
}
