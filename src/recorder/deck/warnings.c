/* What a program should know of while it records: wishes that come to nothing, sinks that fail. */
#include "deck/deck.h"

#include "base/memory.h"
#include "base/text.h"
#include "deck/glob.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WARNINGS = 64, WARNING_SIZE = 600 };

typedef struct warnings {
    char (*texts)[WARNING_SIZE];
    size_t count;
} warnings;

static void add_warning(warnings *w, const char *format, ...) TD_PRINTF(2, 3);
static void add_warning(warnings *w, const char *format, ...) {
    if (w->count < MAX_WARNINGS) {
        va_list arguments;
        va_start(arguments, format);
        (void)vsnprintf(w->texts[w->count++], WARNING_SIZE, format, arguments);
        va_end(arguments);
    }
}

/* The names of all signals, in order. */
typedef struct known {
    const char **names;
    td__expected *signals;
    size_t count;
} known;

static bool list_signals(const td_deck *deck, known *k) {
    k->names = td__calloc(deck->signal_count + 1, sizeof *k->names);
    k->signals = td__calloc(deck->signal_count + 1, sizeof *k->signals);
    if (!k->names || !k->signals) {
        return false;
    }
    k->count = deck->signal_count;
    for (size_t i = 0; i < k->count; i++) {
        const td_signal *signal = deck->signals[i];
        bool scalar = atomic_load_explicit(&signal->scalar, memory_order_relaxed) ||
                      td_signal_about(signal)->kind == TD_SIGNAL_METRIC;
        k->names[i] = signal->name;
        k->signals[i] = (td__expected){
            .name = signal->name, .tensor = !scalar, .derived = td__signal_is_derived(signal)};
    }
    qsort(k->names, k->count, sizeof *k->names, td__compare_texts);
    return true;
}

/* There may be thousands of plain names, and of signals. */
static bool is_met(const known *k, const char *pattern) {
    if (!td__glob_is_pattern(pattern)) {
        char *name = td__strdup(pattern);
        if (name) {
            td__glob_unescape(name);
        }
        const char *key = name;
        bool found =
            !name || bsearch(&key, k->names, k->count, sizeof *k->names, td__compare_texts);
        td__free(name);
        return found;
    }
    for (size_t i = 0; i < k->count; i++) {
        if (td__glob_match(pattern, k->names[i])) {
            return true;
        }
    }
    return strcmp(pattern, "*") == 0;
}

static void check_names(td__track *track, const known *k, warnings *w) {
    track->names_known = true;
    for (size_t i = 0; i < track->pattern_count; i++) {
        const char *pattern = track->patterns[i];
        if (is_met(k, pattern)) {
            continue;
        }
        const char *near = td_nearest_word(pattern, k->names, k->count);
        add_warning(w, "track \"%.200s\": no signal has such a name%s%.200s%s", pattern,
                    near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
        track->names_known = false;
    }
}

static void check_condition(td__track *track, const known *k, warnings *w) {
    td_error error = {0};
    const char *idle = NULL;
    td_status status = td__condition_check(track->condition, k->signals, k->count, &idle, &error);
    if (status) {
        add_warning(w, "%s", error.text);
    } else if (idle) {
        add_warning(w, "condition \"%.200s\": no signal has a name such as %.200s",
                    td__condition_text(track->condition), idle);
    }
    track->condition_known = !status && !idle;
}

static void check_schedule(const td_deck *deck, const td__track *track, warnings *w) {
    const char *what = track->patterns[0], *more = track->pattern_count > 1 ? ", …" : "";
    bool epochs = track->every_epochs > 0;
    add_warning(
        w,
        "track \"%.200s%s\", every %lld %s: nothing was recorded, because none of the run's %lld "
        "steps %s",
        what, more, (long long)(epochs ? track->every_epochs : track->every),
        epochs ? "epochs" : "steps", (long long)deck->counters.steps,
        epochs ? "was the last of such an epoch" : "was due");
}

static bool needs_check(const td__track *track) {
    return !track->metrics && !track->off &&
           (!track->due_steps || !track->names_known ||
            (track->condition && !track->condition_known));
}

static void check_track(const td_deck *deck, td__track *track, bool ending, const known *k,
                        warnings *w) {
    enum { ENOUGH = 2 }; /* due steps: in the first one some signals are not known yet */
    bool late = track->due_steps >= ENOUGH || (ending && track->due_steps);
    if (late && !track->names_known) {
        check_names(track, k, w);
    } else if (!track->due_steps && ending && deck->counters.steps > 0 && !track->at_count) {
        check_schedule(deck, track, w);
    }
    if (track->condition && !track->condition_known && (late || ending)) {
        check_condition(track, k, w);
    }
}

static void check_tracks(td_deck *deck, bool ending, warnings *w) {
    known k = {0};
    bool needed = false;
    for (int32_t i = 0; i < deck->track_count; i++) {
        needed |= needs_check(deck->tracks[i]);
    }
    if (needed && list_signals(deck, &k)) {
        for (int32_t i = 0; i < deck->track_count; i++) {
            if (needs_check(deck->tracks[i])) {
                check_track(deck, deck->tracks[i], ending, &k, w);
            }
        }
    }
    td__free(k.names);
    td__free(k.signals);
}

void td_deck_warnings(td_deck *deck, bool ending, td_warning_function *each, void *user) {
    warnings w = {.texts = td__calloc(MAX_WARNINGS, sizeof *w.texts)};
    if (!w.texts) {
        return;
    }
    td__deck_enter(deck);
    if (deck->error.status) {
        add_warning(&w, "%s", deck->error.text);
    }
    check_tracks(deck, ending, &w);
    td__deck_unlock(deck);
    for (size_t i = 0; i < w.count; i++) {
        each(user, w.texts[i]);
    }
    td__free(w.texts);
}
