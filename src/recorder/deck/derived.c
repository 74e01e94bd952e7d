/* Numbers that are computed of a tensor when it is recorded, each a signal of its own: SOURCE.WORD. Such a
 * signal is made when a track or a condition names its word for a signal that there is; until then it
 * costs nothing. A source is wanted in the steps in which something derived from it is. */
#include "deck/derived.h"
#include "deck/deck.h"
#include "deck/glob.h"

#include "base/clock.h"
#include "base/memory.h"
#include "tensor/stats.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const td__derivation derivations[] = {
    {"spectral_norm", td__derive_norms, 0},
    {"stable_rank", td__derive_norms, 1},
    {"effective_rank", td__derive_rank, 0},
    {"float16_underflow", td__derive_precision, 0},
    {"float16_overflow", td__derive_precision, 1},
    {"bfloat16_underflow", td__derive_precision, 2},
    {"bfloat16_overflow", td__derive_precision, 3},
    {"float8_e4m3_underflow", td__derive_precision, 4},
    {"float8_e4m3_overflow", td__derive_precision, 5},
    {"float8_e5m2_underflow", td__derive_precision, 6},
    {"float8_e5m2_overflow", td__derive_precision, 7},
};
enum { DERIVATIONS = sizeof derivations / sizeof *derivations };

const td__derivation *td__derivations(size_t *count) {
    *count = DERIVATIONS;
    return derivations;
}

bool td__pattern_derives(const char *pattern, const char *source, bool derived) {
    for (size_t i = 0; i < DERIVATIONS; i++) {
        if (td__glob_derives(pattern, source, derived, derivations[i].word)) {
            return true;
        }
    }
    return false;
}

/* ---- Making signals -------------------------------------------------------------------------- */

/* Sorted as the table is, so that those of one computation follow each other. */
static void link(td_signal *source, td_signal *derived) {
    td_signal *before = NULL, *after = atomic_load_explicit(&source->derived, memory_order_relaxed);
    while (after && after->derivation < derived->derivation) {
        before = after;
        after = after->next_derived;
    }
    derived->source = source;
    derived->next_derived = after;
    if (before) {
        before->next_derived = derived;
    } else {
        atomic_store_explicit(&source->derived, derived, memory_order_release);
    }
    for (int w = 0; w < TD__TRACK_WORDS; w++) {
        uint64_t uses = atomic_load_explicit(&derived->uses[w], memory_order_relaxed) |
                        atomic_load_explicit(&source->uses[w], memory_order_relaxed);
        atomic_store_explicit(&source->uses[w], uses, memory_order_relaxed);
    }
}

static bool make(td_signal *source, const td__derivation *derivation) {
    for (const td_signal *there = atomic_load_explicit(&source->derived, memory_order_relaxed);
         there; there = there->next_derived) {
        if (there->derivation == derivation) {
            return true;
        }
    }
    size_t room = strlen(source->name) + strlen(derivation->word) + 2;
    char *name = td__calloc(room, 1);
    if (!name) {
        return false;
    }
    (void)snprintf(name, room, "%s.%s", source->name, derivation->word);
    td_signal_info about = *td_signal_about(source);
    bool parted = about.batched && !*about.placement;
    td_signal_info info = {.size = sizeof info,
                           .kind = TD_SIGNAL_DERIVED,
                           .layer = about.layer,
                           .parameter = about.parameter,
                           .order = about.order,
                           .rank = about.rank,
                           .sequence = about.sequence,
                           .placement = parted ? "partial" : about.placement};
    td_signal *derived = td__signal_derive(source->deck, name, &info, derivation);
    td__free(name);
    /* The program may record a signal of that name itself. */
    if (derived && derived->derivation == derivation && !derived->source) {
        link(source, derived);
    }
    return derived != NULL;
}

/* Numbers and texts have nothing to derive. */
static bool is_source(const td_signal *signal) {
    td_signal_kind kind = td_signal_about(signal)->kind;
    return !signal->derivation && kind != TD_SIGNAL_METRIC && kind != TD_SIGNAL_TEXT &&
           kind != TD_SIGNAL_SYSTEM;
}

bool td__derived_meet(td_signal *signal, td__track *track) {
    bool derived = td__signal_is_derived(signal), good = true;
    if (!is_source(signal)) {
        return true;
    }
    for (size_t i = 0; i < DERIVATIONS; i++) {
        const char *word = derivations[i].word;
        bool wanted = track->condition &&
                      td__condition_derives(track->condition, signal->name, derived, word);
        for (size_t k = 0; !wanted && k < track->pattern_count; k++) {
            wanted = td__glob_derives(track->patterns[k], signal->name, derived, word);
        }
        good = good && (!wanted || make(signal, &derivations[i]));
    }
    return good;
}

/* ---- Recording ------------------------------------------------------------------------------- */

static bool is_due(const td_signal *signal) {
    uint64_t any = 0;
    for (int w = 0; w < TD__TRACK_WORDS; w++) {
        any |= atomic_load_explicit(&signal->uses[w], memory_order_relaxed) &
               atomic_load_explicit(&signal->deck->due[w], memory_order_relaxed);
    }
    return any != 0;
}

bool td__derived_due(const td_signal *signal) {
    const td_signal *each = atomic_load_explicit(&signal->derived, memory_order_acquire);
    while (each && !is_due(each)) {
        each = each->next_derived;
    }
    return each != NULL;
}

/* Once for each signal: what is derived from it is not recorded. */
static void refuse(td_signal *signal, const td_error *reason) {
    char key[TD_SIGNAL_TEXT_SIZE + 16];
    td__deck_lock(signal->deck);
    bool said = signal->refused;
    signal->refused = true;
    td__deck_unlock(signal->deck);
    if (!said) {
        (void)snprintf(key, sizeof key, "not_recorded.%s", signal->name);
        (void)td_deck_note(signal->deck, key, reason->text);
    }
}

void td__derived_record(td_signal *signal, const td_view *view) {
    td_deck *deck = signal->deck;
    int64_t count;
    if (td__view_check(view, &count, NULL) || count == 0) {
        return; /* what records the tensor itself reports it */
    }
    uint64_t start = td__ticks();
    td__derive *done = NULL;
    double values[TD__DERIVED_MAX] = {0};
    td_error error = {0};
    td_status status = TD_OK;
    for (td_signal *each = atomic_load_explicit(&signal->derived, memory_order_acquire); each;
         each = each->next_derived) {
        const td__derivation *derivation = each->derivation;
        if (!is_due(each)) {
            continue;
        }
        if (derivation->compute != done) {
            status = derivation->compute(view, td_signal_about(signal), values, &error);
            done = derivation->compute;
        }
        if (status == TD_OK && !isnan(values[derivation->index])) {
            (void)td_signal_scalar(each, values[derivation->index]);
        } else if (status && status != TD_NOT_FOUND) {
            refuse(each, &error);
        }
    }
    td__deck_lock(deck);
    deck->cost += td__ticks() - start;
    td__deck_unlock(deck);
}
