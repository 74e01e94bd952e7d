/* The signals of a run: what they are, in which forms they were recorded, from when to when. */
#include "run/run.h"

#include "base/memory.h"
#include "deck/glob.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SIGNALS = 1 << 24 };

/* ---- Where they are ------------------------------------------------------------------------- */

static const struct {
    td__source source;
    uint32_t form;
} sources[] = {{TD__SCALARS, TD_SCALAR}, {TD__STATISTICS, TD_STATS}, {TD__HISTOGRAMS, TD_HISTOGRAM},
               {TD__TENSORS, TD_TENSOR}, {TD__HASHES, TD_HASH},      {TD__EXAMPLES, TD_ROWS},
               {TD__TEXTS, TD_TEXT}};
enum { SOURCES = sizeof sources / sizeof *sources };

static void extend_signal(td_run_signal *signal, uint32_t forms, int64_t first, int64_t last) {
    signal->first_step = signal->forms && signal->first_step < first ? signal->first_step : first;
    signal->last_step = signal->forms && signal->last_step > last ? signal->last_step : last;
    signal->forms |= forms;
}

/* Each signal's first and last row of a source, and so which forms it was recorded in. */
static void look_up(td_run *run, td__source source, uint32_t form) {
    td__rows *ends = td__run_select(run, &(td__query){.source = source, .ends = true});
    for (size_t i = 0; ends && i < run->signal_count; i++) {
        td_run_signal *signal = &run->signals[i];
        td__rows_bind(ends, signal->id, 0, 0, 0);
        if (td__run_next(run, ends) && td__rows_text(ends, 0, NULL)) {
            uint32_t forms = form;
            if (form == TD_TENSOR) {
                forms = (td__rows_integer(ends, 2) ? TD_TENSOR : 0U) |
                        (td__rows_integer(ends, 3) ? TD_IMAGE : 0U);
            }
            extend_signal(signal, forms, td__rows_integer(ends, 0), td__rows_integer(ends, 1));
        }
    }
    td__rows_end(ends);
}

/* ---- What they are -------------------------------------------------------------------------- */

/* Frees memory that td_run_signal shows to readers as const. */
static void free_const(const void *pointer) {
    td__free((void *)(uintptr_t)pointer);
}

void td__run_forget_signals(td_run *run) {
    for (size_t i = 0; i < run->signal_count; i++) {
        td_run_signal *signal = &run->signals[i];
        for (size_t k = 0; k < signal->info->unit_count; k++) {
            free_const(signal->info->units[k]);
        }
        free_const(signal->info->units);
        free_const(signal->info->layer);
        free_const(signal->info->parameter);
        free_const(signal->info->placement);
        free_const(signal->info);
        free_const(signal->name);
    }
    run->signal_count = 0;
    td__free(run->by_name);
    run->by_name = NULL;
}

td_run_signal *td__run_add_signal(td_run *run, const char *name, td_signal_info **info) {
    td_run_signal made = {.name = td__strdup(name)};
    made.info = *info = td__calloc(1, sizeof **info);
    if (!made.name || !made.info ||
        !td__grow(&run->signals, &run->signal_capacity, run->signal_count + 1, MAX_SIGNALS,
                  sizeof made)) {
        free_const(made.name);
        free_const(made.info);
        return NULL;
    }
    run->signals[run->signal_count] = made;
    return &run->signals[run->signal_count++];
}

/* ["zero", "one", …] */
static bool read_units(td_signal_info *info, const char *text) {
    json_t *list = json_loads(text, 0, NULL);
    size_t count = json_is_array(list) ? json_array_size(list) : 0;
    const char **units = count ? td__calloc(count, sizeof *units) : NULL;
    bool good = count == 0 || units;
    info->units = units;
    for (size_t i = 0; i < count && good; i++) {
        const char *unit = json_string_value(json_array_get(list, i));
        units[i] = td__strdup(unit ? unit : "");
        good = units[i] != NULL;
        info->unit_count += good;
    }
    json_decref(list);
    return good;
}

/* A row of TD__SIGNALS; what an older run does not store is guessed from the name. */
static bool read_signal(td_run *run, td__rows *row) {
    static const char *const betters[] = {
        [TD_BETTER_SMALLER] = "smaller", [TD_BETTER_LARGER] = "larger"};
    td_signal_info info = {.size = sizeof info}, *kept = NULL;
    char text[TD_SIGNAL_TEXT_SIZE];
    const char *name = td__run_text(row, 1), *kind = td__rows_text(row, 3, NULL);
    td_run_signal *signal = td__run_add_signal(run, name, &kept);
    if (!signal) {
        return false;
    }
    signal->id = td__rows_integer(row, 0);
    if (kind) {
        info.kind = td_signal_kind_find(kind);
        info.layer = td__rows_text(row, 4, NULL);
        info.parameter = td__rows_text(row, 5, NULL);
        info.order = td__rows_integer(row, 6);
        info.batched = td__rows_integer(row, 7) != 0;
        for (int i = TD_BETTER_SMALLER; i <= TD_BETTER_LARGER; i++) {
            info.better =
                strcmp(td__run_text(row, 8), betters[i]) == 0 ? (td_better)i : info.better;
        }
        info.rank = (int32_t)td__rows_integer(row, 10);
        info.channels_first = strcmp(td__run_text(row, 11), "channels_first") == 0;
        info.sequence = td__rows_integer(row, 12);
        info.placement = td__rows_text(row, 13, NULL);
    } else {
        td_signal_guess(name, &info, text);
    }
    info.layer = td__strdup(info.layer ? info.layer : "");
    info.parameter = td__strdup(info.parameter ? info.parameter : "");
    info.placement = td__strdup(info.placement ? info.placement : "");
    info.units = NULL;
    info.unit_count = 0;
    bool good = !kind || !td__rows_text(row, 9, NULL) || read_units(&info, td__run_text(row, 9));
    *kept = info;
    return good && info.layer && info.parameter && info.placement;
}

static int compare_names(const void *a, const void *b, void *user) {
    const td_run_signal *signals = user;
    return strcmp(signals[*(const uint32_t *)a].name, signals[*(const uint32_t *)b].name);
}

td_status td__run_sort_signals(td_run *run, td_error *error) {
    run->by_name = td__calloc(run->signal_count + 1, sizeof *run->by_name);
    if (!run->by_name) {
        return td_error_set(error, TD_MEMORY, "%s: out of memory for its signals", run->folder);
    }
    for (size_t i = 0; i < run->signal_count; i++) {
        run->by_name[i] = (uint32_t)i;
    }
    qsort_r(run->by_name, run->signal_count, sizeof *run->by_name, compare_names, run->signals);
    return TD_OK;
}

td_status td__run_read_signals(td_run *run, td_error *error) {
    td__rows *signals = td__run_select_all(run, TD__SIGNALS);
    td_status status = TD_OK;
    while (!status && td__run_next(run, signals)) {
        if (!read_signal(run, signals)) {
            status =
                td_error_set(error, TD_MEMORY, "%s: out of memory for its signals", run->folder);
        }
    }
    td__rows_end(signals);
    for (size_t i = 0; !status && i < SOURCES; i++) {
        look_up(run, sources[i].source, sources[i].form);
    }
    return status ? status : td__run_sort_signals(run, error);
}

size_t td_run_signal_count(const td_run *run) {
    return run->signal_count;
}

const td_run_signal *td_run_signal_at(const td_run *run, size_t index) {
    return index < run->signal_count ? &run->signals[index] : NULL;
}

const td_run_signal *td_run_signal_find(const td_run *run, const char *name) {
    size_t low = 0, high = run->by_name ? run->signal_count : 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const td_run_signal *signal = &run->signals[run->by_name[middle]];
        int order = strcmp(name, signal->name);
        if (order == 0) {
            return signal;
        }
        if (order < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return NULL;
}

bool td_run_matches(const char *globs, const char *name) {
    size_t count = 0;
    char **items = globs ? td__glob_split(globs, &count) : NULL;
    bool matches = !globs;
    for (size_t i = 0; items && i < count && !matches; i++) {
        matches = td__glob_match(items[i], name);
    }
    td__free(items);
    return matches;
}
