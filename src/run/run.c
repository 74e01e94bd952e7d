/* Opening a run: what it is called, how it is doing, which signals it has. */
#include "run/run.h"

#include "base/memory.h"
#include "deck/glob.h"
#include "run/events.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { MOST_SIGNALS = 1 << 24 };

const char *td_run_state_name(td_run_state state) {
    static const char *const names[] = {"unknown",     "running", "finished",
                                        "interrupted", "failed",  "crashed"};
    return (size_t)state < sizeof names / sizeof *names ? names[state] : names[0];
}

/* ---- How it is doing ------------------------------------------------------------------------ */

static td_run_state state_of(const char *folder, const char *noted) {
    if (td__run_is_written(folder)) {
        return TD_RUN_RUNNING;
    }
    static const td_run_state ends[] = {TD_RUN_FINISHED, TD_RUN_INTERRUPTED, TD_RUN_FAILED};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        if (strcmp(noted, td_run_state_name(ends[i])) == 0) {
            return ends[i];
        }
    }
    return TD_RUN_CRASHED;
}

static double parse_time(const char *text) {
    struct tm utc = {0};
    return strptime(text, "%Y-%m-%dT%H:%M:%SZ", &utc) ? (double)timegm(&utc) : 0;
}

typedef struct facts {
    char state[32];
    double started;
} facts;

static void keep_fact(void *user, const char *key, const char *value) {
    facts *f = user;
    if (strcmp(key, "state") == 0) {
        (void)snprintf(f->state, sizeof f->state, "%s", value);
    } else if (strcmp(key, "started") == 0) {
        f->started = parse_time(value);
    }
}

static void read_info(td_run *run) {
    facts f = {0};
    (void)td_run_notes(run, "run", keep_fact, &f, NULL);
    td_run_info *info = &run->info;
    info->state = run->events ? TD_RUN_UNKNOWN : state_of(run->folder, f.state);
    td__rows *last = td__run_select(run, &(td__query){.source = TD__STEPS, .backwards = true});
    info->started = f.started;
    info->last_step = info->last_epoch = 0;
    info->last_record = 0;
    if (last) {
        td__rows_bind(last, 0, INT64_MIN, INT64_MAX, 1);
    }
    if (td__run_next(run, last)) {
        info->last_step = td__rows_integer(last, 0);
        info->last_epoch = td__rows_integer(last, 1);
        info->last_record = td__rows_real(last, 2);
    }
    td__rows_end(last);
    if (info->started == 0) {
        td__rows *first = td__run_select_all(run, TD__STEPS);
        info->started = td__run_next(run, first) ? td__rows_real(first, 2) : 0;
        td__rows_end(first);
    }
}

void td_run_about(const td_run *run, td_run_info *info) {
    td_run_info now = run->info;
    now.name = run->name;
    now.folder = run->folder;
    now.events = run->events;
    now.bytes = td__folder_bytes(run->folder);
    size_t size = info->size < sizeof now ? info->size : sizeof now;
    now.size = info->size;
    memcpy(info, &now, size);
}

td_status td_run_notes(td_run *run, const char *table, td_note_function *each, void *user,
                       td_error *error) {
    static const struct {
        const char *name;
        td__source source;
    } sources[] = {
        {"run", TD__RUN_NOTES}, {"environment", TD__ENVIRONMENT}, {"experiment", TD__EXPERIMENT}};
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        if (strcmp(table, sources[i].name) != 0) {
            continue;
        }
        td__rows *notes = td__run_select_all(run, sources[i].source);
        while (td__run_next(run, notes)) {
            each(user, td__run_text(notes, 0), td__run_text(notes, 1));
        }
        td__rows_end(notes);
        return TD_OK;
    }
    return td_error_set(error, TD_INVALID, "a run has no table of notes '%s'", table);
}

/* ---- Signals -------------------------------------------------------------------------------- */

static const struct {
    td__source source;
    uint32_t form;
} sources[] = {{TD__SCALARS, TD_SCALAR}, {TD__STATISTICS, TD_STATS}, {TD__HISTOGRAMS, TD_HISTOGRAM},
               {TD__TENSORS, TD_TENSOR}, {TD__HASHES, TD_HASH},      {TD__EXAMPLES, TD_ROWS},
               {TD__TEXTS, TD_TEXT}};
enum { SOURCES = sizeof sources / sizeof *sources };

static void extend(td_run_signal *signal, uint32_t forms, int64_t first, int64_t last) {
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
            extend(signal, forms, td__rows_integer(ends, 0), td__rows_integer(ends, 1));
        }
    }
    td__rows_end(ends);
}

static td_status add_signal(td_run *run, int64_t id, const char *name, td_error *error) {
    char *copy = td__strdup(name);
    if (!copy || !td__grow(&run->signals, &run->signal_capacity, run->signal_count + 1,
                           MOST_SIGNALS, sizeof *run->signals)) {
        td__free(copy);
        return td_error_set(error, TD_MEMORY, "%s: out of memory for its signals", run->folder);
    }
    run->signals[run->signal_count++] = (td_run_signal){.name = copy, .id = id};
    return TD_OK;
}

static void forget_signals(td_run *run) {
    for (size_t i = 0; i < run->signal_count; i++) {
        td__free((void *)(uintptr_t)run->signals[i].name);
    }
    run->signal_count = 0;
    td__free(run->by_name);
    run->by_name = NULL;
}

static int compare_names(const void *a, const void *b, void *user) {
    const td_run_signal *signals = user;
    return strcmp(signals[*(const uint32_t *)a].name, signals[*(const uint32_t *)b].name);
}

static td_status sort_signals(td_run *run, td_error *error) {
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

static td_status read_signals(td_run *run, td_error *error) {
    td__rows *signals = td__run_select_all(run, TD__SIGNALS);
    td_status status = TD_OK;
    while (!status && td__run_next(run, signals)) {
        status = add_signal(run, td__rows_integer(signals, 0), td__run_text(signals, 1), error);
    }
    td__rows_end(signals);
    return status ? status : sort_signals(run, error);
}

td_status td_run_refresh(td_run *run, td_error *error) {
    forget_signals(run);
    td_status status = run->events ? td__run_import(run, error) : td__run_open_store(run, error);
    status = status ? status : read_signals(run, error);
    if (status) {
        return status;
    }
    for (size_t i = 0; i < SOURCES; i++) {
        look_up(run, sources[i].source, sources[i].form);
    }
    read_info(run);
    return TD_OK;
}

size_t td_run_signals(const td_run *run, const td_run_signal **signals) {
    *signals = run->signals;
    return run->signal_count;
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

size_t td_run_problems(const td_run *run, const char *const **texts) {
    *texts = (const char *const *)run->problems.texts;
    return run->problems.count;
}

/* ---- Opening and closing -------------------------------------------------------------------- */

/* The run's folder of a path to it or to a file in it, without a slash at its end. */
static char *folder_of(const char *path) {
    char *folder = td__strdup(path);
    struct stat about;
    if (folder && stat(folder, &about) == 0 && !S_ISDIR(about.st_mode)) {
        char *slash = strrchr(folder, '/');
        if (!slash) {
            td__free(folder);
            return td__strdup(".");
        }
        slash[slash == folder] = 0;
    }
    for (size_t length = folder ? strlen(folder) : 0; length > 1 && folder[length - 1] == '/';) {
        folder[--length] = 0;
    }
    return folder;
}

/* The folder's own name, also of "." and "..". */
static char *name_of(const char *folder) {
    char *full = realpath(folder, NULL);
    const char *whole = full ? full : folder, *slash = strrchr(whole, '/');
    char *name = td__strdup(slash && slash[1] ? slash + 1 : whole);
    free(full); // NOLINT: realpath's own
    return name;
}

static td_status open_kind(td_run *run, td_error *error) {
    char path[PATH_MAX];
    struct stat about;
    (void)snprintf(path, sizeof path, "%s/run.db", run->folder);
    if (stat(path, &about) == 0) {
        return TD_OK;
    }
    td_status status =
        td__events_list(run->folder, &run->event_files, &run->event_file_count, error);
    if (status) {
        return status;
    }
    if (run->event_file_count == 0) {
        return td_error_set(error, TD_NOT_FOUND,
                            "%s is no run: it has neither a run.db nor TensorBoard event files",
                            run->folder);
    }
    run->events = true;
    return TD_OK;
}

td_run *td_run_open(const char *path, td_error *error) {
    td_run *run = td__calloc(1, sizeof *run);
    if (!run) {
        td_error_set(error, TD_MEMORY, "out of memory for a run");
        return NULL;
    }
    run->folder = folder_of(path);
    run->name = run->folder ? name_of(run->folder) : NULL;
    td_status status =
        run->name ? open_kind(run, error) : td_error_set(error, TD_MEMORY, "out of memory");
    if (!status && !run->events) {
        status = td_run_refresh(run, error);
    }
    if (status) {
        td_run_close(run);
        return NULL;
    }
    return run;
}

void td_run_close(td_run *run) {
    if (!run) {
        return;
    }
    forget_signals(run);
    td__store_close(run->store);
    for (size_t i = 0; i < run->event_file_count; i++) {
        td__free(run->event_files[i]);
    }
    td__free(run->event_files);
    td__problems_release(&run->problems);
    td__free(run->signals);
    td__free(run->ranges);
    td__free(run->bytes);
    td__free(run->samples);
    td__free(run->folder);
    td__free(run->name);
    td__free(run);
}
