/* What the recording will take: how many records of how many bytes each track makes at most.
 * Each sink estimates its own, on the high side. */
#include "train/trainer.h"

#include "base/memory.h"
#include "deck/derived.h"
#include "deck/glob.h"
#include "experiment/record.h"

#include <stdio.h>
#include <string.h>

enum { TEXT_SIZE = 400 };

static int64_t records_of(const td_trainer *trainer, const td__track_spec *track) {
    int64_t first = track->start ? track->start : 1;
    int64_t last =
        track->end && track->end < trainer->feed.steps ? track->end : trainer->feed.steps;
    if (track->at.count) {
        int64_t count = 0;
        for (size_t i = 0; i < track->at.count; i++) {
            count += track->at.steps[i] >= first && track->at.steps[i] <= last;
        }
        return count;
    }
    if (track->every.epochs) {
        return trainer->feed.epochs / track->every.epochs;
    }
    int64_t every = track->every.steps ? track->every.steps : 1;
    if (last < first) {
        return 0;
    }
    return track->start ? (last - first) / every + 1 : last / every;
}

/* Bytes of one record, over the sinks that it goes to: elements 0 for a number. run.db has all but
 * rows of what goes elsewhere. */
static int64_t bytes_of(const td__track_spec *track, int64_t rows, int64_t elements) {
    const td_sink_class *const *classes = td_sinks();
    bool chosen[TD__SINKS] = {false};
    uint32_t all = 0;
    int64_t bytes = 0;
    if (td__track_route(track, chosen, NULL)) {
        return 0; /* refused long before */
    }
    for (size_t i = 0; classes[i]; i++) {
        all |= chosen[i] ? td__route_forms(classes[i], track->form) : 0;
    }
    all = elements ? all : TD_SCALAR;
    for (size_t i = 0; classes[i]; i++) {
        uint32_t forms = all & classes[i]->always;
        forms |= !chosen[i] ? 0
                 : elements ? td__route_forms(classes[i], track->form)
                            : classes[i]->forms & TD_SCALAR;
        for (; forms && classes[i]->estimate; forms &= forms - 1) {
            bytes += classes[i]->estimate((td_form)(forms & (0 - forms)), rows, elements);
        }
    }
    return bytes;
}

static int64_t record_bytes(const td_trainer *trainer, const td__track_spec *track,
                            const td__signal_entry *entry) {
    if (entry->elements == 0) {
        return bytes_of(track, 1, 0);
    }
    int64_t rows = entry->batched ? trainer->feed.info->batch : 1;
    if (entry->kind == TD_SIGNAL_PREDICTION) {
        rows = trainer->feed.validation ? trainer->feed.info->validation
                                        : trainer->feed.info->training;
    }
    if (track->sample && entry->batched && track->sample < rows) {
        rows = track->sample;
    }
    return bytes_of(track, rows, rows * entry->elements);
}

/* ---- Texts ----------------------------------------------------------------------------------- */

static void join_names(char *text, const td_names *names, const char *otherwise) {
    size_t length = 0;
    (void)snprintf(text, TEXT_SIZE, "%s", names->count ? "" : otherwise);
    for (size_t i = 0; i < names->count && length < TEXT_SIZE - 1; i++) {
        length += (size_t)snprintf(text + length, TEXT_SIZE - length, "%s%s", i ? ", " : "",
                                   names->items[i]);
    }
}

static void list_sinks(char *text, const td__track_spec *track) {
    const td_sink_class *const *classes = td_sinks();
    const char *names[TD__SINKS];
    bool chosen[TD__SINKS] = {false};
    size_t count = 0;
    (void)!td__track_route(track, chosen, NULL); /* was checked with the experiment */
    for (size_t i = 0; classes[i]; i++) {
        if (chosen[i]) {
            names[count++] = classes[i]->name;
        }
    }
    join_names(text, &(td_names){names, count}, "no sink");
}

static void describe_schedule(char *text, const td__track_spec *track) {
    int64_t every = track->every.epochs ? track->every.epochs : track->every.steps;
    const char *unit = track->every.epochs ? "epoch" : "step";
    if (track->at.count) {
        (void)snprintf(text, TEXT_SIZE, "at %zu step%s", track->at.count,
                       track->at.count == 1 ? "" : "s");
    } else if (every > 1) {
        (void)snprintf(text, TEXT_SIZE, "every %lld %ss", (long long)every, unit);
    } else {
        (void)snprintf(text, TEXT_SIZE, "every %s", unit);
    }
    size_t length = strlen(text);
    if (track->when) {
        (void)snprintf(text + length, TEXT_SIZE - length, " when %.200s", track->when);
    }
}

/* How many numbers a track derives from a signal. */
static int64_t count_derived(const td__track_spec *track, const char *source, bool derived) {
    size_t count;
    const td__derivation *derivations = td__derivations(&count);
    int64_t found = 0;
    for (size_t i = 0; i < count; i++) {
        bool names = false;
        for (size_t k = 0; !names && k < track->what.count; k++) {
            names = td__glob_derives(track->what.items[k], source, derived, derivations[i].word);
        }
        found += names;
    }
    return found;
}

static void plan_track(const td_trainer *trainer, const td__track_spec *track, char *texts,
                       td_plan_entry *entry) {
    char *what = texts, *schedule = texts + TEXT_SIZE, *forms = texts + (size_t)2 * TEXT_SIZE,
         *sinks = texts + (size_t)3 * TEXT_SIZE;
    join_names(what, &track->what, "");
    join_names(forms, &track->forms, "each sink likes");
    list_sinks(sinks, track);
    describe_schedule(schedule, track);
    *entry = (td_plan_entry){.what = what, .schedule = schedule, .forms = forms, .sinks = sinks};
    int64_t records = records_of(trainer, track);
    const td__signal_entry number = {.kind = TD_SIGNAL_DERIVED};
    for (size_t i = 0; i < trainer->signals.count; i++) {
        const td__signal_entry *signal = &trainer->signals.entries[i];
        int64_t each =
            signal->epochs_only && records > trainer->feed.epochs ? trainer->feed.epochs : records;
        bool derived = signal->kind == TD_SIGNAL_DERIVED;
        if (td__track_names(track, signal->name, derived)) {
            entry->signals++;
            entry->records += each;
            entry->bytes += each * record_bytes(trainer, track, signal);
        }
        int64_t numbers = signal->elements ? count_derived(track, signal->name, derived) : 0;
        entry->signals += numbers;
        entry->records += numbers * each;
        entry->bytes += numbers * each * record_bytes(trainer, track, &number);
    }
}

/* The most rows that a track wants of a prediction; 0 when one wants them all. */
static int64_t largest_sample(const td_experiment *experiment) {
    int64_t largest = 0;
    for (size_t i = 0; i < experiment->track_count; i++) {
        const td__track_spec *track = &experiment->tracks[i];
        if (!td__track_names(track, "prediction", false)) {
            continue;
        }
        if (!track->sample) {
            return 0;
        }
        largest = track->sample > largest ? track->sample : largest;
    }
    return largest;
}

td_status td__plan_make(td_trainer *trainer, td_error *error) {
    const td_experiment *experiment = trainer->experiment;
    size_t count = experiment->track_count;
    /* The texts stand behind the entries, in the same block. */
    trainer->plan = td__calloc(count + 1, sizeof *trainer->plan + (size_t)4 * TEXT_SIZE);
    if (!trainer->plan) {
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    char *texts = (char *)(trainer->plan + count + 1);
    for (size_t i = 0; i < count; i++) {
        plan_track(trainer, &experiment->tracks[i], texts + i * 4 * TEXT_SIZE, &trainer->plan[i]);
    }
    trainer->sample = largest_sample(experiment);
    return TD_OK;
}

size_t td_trainer_plan(td_trainer *trainer, const td_plan_entry **entries) {
    *entries = trainer->plan;
    return trainer->experiment->track_count;
}
