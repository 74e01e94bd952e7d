/* Opening a run: what it is called, how it is doing, which signals it has. */
#include "run/run.h"

#include "base/memory.h"
#include "base/options.h"
#include "base/url.h"
#include "run/events.h"
#include "run/foreign.h"
#include "run/ranks.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

const char *td_run_state_name(td_run_state state) {
    static const char *const names[] = {"unknown",     "running", "finished",
                                        "interrupted", "failed",  "crashed"};
    return (size_t)state < sizeof names / sizeof *names ? names[state] : names[0];
}

/* ---- How it is doing ------------------------------------------------------------------------ */

td_run_state td__run_state_of(const char *folder, const char *noted) {
    char ended[TD__ENDED];
    td__written_by by = td__run_written_by(folder, ended);
    if (by == TD__LOCK_HOLDER || by == TD__OTHER_MACHINE) {
        return TD_RUN_RUNNING;
    }
    /* The heartbeat may be visible here before the end of run.db is. */
    static const td_run_state ends[] = {TD_RUN_FINISHED, TD_RUN_INTERRUPTED, TD_RUN_FAILED};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const char *name = td_run_state_name(ends[i]);
        if (strcmp(noted, name) == 0 || strcmp(ended, name) == 0) {
            return ends[i];
        }
    }
    return by == TD__PERHAPS ? TD_RUN_RUNNING : TD_RUN_CRASHED;
}

td_run_state td__run_state_noted(const char *noted, td_run_state open) {
    for (td_run_state state = TD_RUN_FINISHED; state <= TD_RUN_FAILED; state++) {
        if (strcmp(noted, td_run_state_name(state)) == 0) {
            return state;
        }
    }
    return open;
}

td_run_state td__run_state_there(const td__store *store, const char *noted) {
    return td__run_state_noted(noted, store->remote->writing ? TD_RUN_RUNNING : TD_RUN_CRASHED);
}

static double parse_time(const char *text) {
    struct tm utc = {0};
    return strptime(text, "%Y-%m-%dT%H:%M:%SZ", &utc) ? (double)timegm(&utc) : 0;
}

typedef struct facts {
    char state[32];
    double started;
    int64_t step, epoch; /* that the program has come to, as the deck notes it */
    char *parent;        /* a copy */
    int64_t parent_step;
} facts;

static void keep_fact(void *user, const char *key, const char *value) {
    facts *f = user;
    if (strcmp(key, "state") == 0) {
        (void)snprintf(f->state, sizeof f->state, "%s", value);
    } else if (strcmp(key, "started") == 0) {
        f->started = parse_time(value);
    } else if (strcmp(key, "deck.step") == 0) {
        f->step = strtoll(value, NULL, 10);
    } else if (strcmp(key, "deck.epoch") == 0) {
        f->epoch = strtoll(value, NULL, 10);
    } else if (strcmp(key, "parent") == 0 && !f->parent) {
        f->parent = td__strdup(value);
    } else if (strcmp(key, "parent.step") == 0) {
        f->parent_step = strtoll(value, NULL, 10);
    }
}

static td_status add_losses(void *user, const td_event *event, td_error *error) {
    (void)error;
    td_run_info *info = user;
    int64_t *sum = event->kind == TD_EVENT_DROP      ? &info->dropped
                   : event->kind == TD_EVENT_DEGRADE ? &info->degraded
                                                     : NULL;
    if (sum && event->count > 0 && __builtin_add_overflow(*sum, event->count, sum)) {
        *sum = INT64_MAX;
    }
    return TD_OK;
}

void td__run_read_info(td_run *run) {
    facts f = {0};
    (void)td_run_notes(run, "run", keep_fact, &f, NULL);
    td_run_info *info = &run->info;
    td__free(run->parent);
    info->parent = run->parent = f.parent;
    info->parent_step = f.parent_step;
    info->dropped = info->degraded = 0;
    if (!run->events) {
        (void)!td_run_events(run, add_losses, info, NULL); /* what cannot be read is a problem */
    }
    info->state = run->events    ? td__run_state_noted(f.state, TD_RUN_UNKNOWN)
                  : run->ranks   ? td__ranks_state(run)
                  : !run->remote ? td__run_state_of(run->folder, f.state)
                  : run->store   ? td__run_state_there(run->store, f.state)
                                 : TD_RUN_UNKNOWN;
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
    if (f.step > info->last_step) { /* not every step is recorded */
        info->last_step = f.step;
        info->last_epoch = f.epoch;
    }
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
    now.format = run->foreign ? run->foreign->name : run->events ? "events" : "tapedeck";
    bool counted = run->remote && run->store && run->store->remote;
    now.bytes = counted ? run->store->remote->bytes : td__folder_bytes(run->folder);
    td__options_give(info, &now, sizeof now);
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

td_status td_run_refresh(td_run *run, td_error *error) {
    td__run_forget_signals(run);
    td_status status = run->events ? td__run_import(run, error) : td__run_open_store(run, error);
    status = status ? status : td__run_read_signals(run, error);
    if (!status) {
        td__run_read_info(run);
    }
    return status;
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

/* Takes over the path of a foreign run, which may be that of a file. */
static td_status open_foreign(td_run *run, const td__foreign *foreign, const char *path,
                              td_error *error) {
    char *copy = td__strdup(path), *name = NULL;
    for (size_t length = copy ? strlen(copy) : 0; length > 1 && copy[length - 1] == '/';) {
        copy[--length] = 0;
    }
    name = copy ? name_of(copy) : NULL;
    if (!name) {
        td__free(copy);
        return td_error_set(error, TD_MEMORY, "out of memory for a run");
    }
    td__free(run->folder);
    td__free(run->name);
    run->folder = copy;
    run->name = name;
    run->foreign = foreign;
    run->events = true;
    return TD_OK;
}

static td_status open_kind(td_run *run, const char *given, td_error *error) {
    char path[PATH_MAX];
    struct stat about;
    (void)snprintf(path, sizeof path, "%s/run.db", run->folder);
    bool file = stat(given, &about) == 0 && S_ISREG(about.st_mode);
    if (stat(path, &about) == 0) {
        return TD_OK;
    }
    if (td__ranks_are_in(run->folder)) {
        run->ranks = true;
        return TD_OK;
    }
    const td__foreign *foreign = file && td__events_is_name(given) ? NULL : td__foreign_of(given);
    bool folder = stat(run->folder, &about) == 0;
    if (folder || !foreign) {
        td_status status =
            td__events_list(run->folder, &run->event_files, &run->event_file_count, error);
        if (status) {
            return status;
        }
    }
    if (foreign && (file || run->event_file_count == 0)) {
        return open_foreign(run, foreign, given, error);
    }
    if (run->event_file_count == 0) {
        return td_error_set(
            error, TD_NOT_FOUND,
            "%s is no run: %s has neither a run.db nor TensorBoard event files, and it "
            "is nothing of wandb, MLflow, trackio or a CSV logger",
            file ? given : run->folder, file ? "its folder" : "it");
    }
    run->events = true;
    return TD_OK;
}

/* Of URL#NAME: without a password, and the name alone. */
static td_status begin_remote(td_run *run, const char *place, td_error *error) {
    char url[TD__URL_ROOM], name[TD__URL_ROOM];
    td_status status = td__url_take(place, url, name, error);
    if (!status && !*name) {
        return td_error_set(
            error, TD_NOT_FOUND,
            "%s is a database: a run in it is %s#NAME; `tapedeck runs %s` lists them", url, url,
            url);
    }
    const char *slash = strrchr(name, '/'), *hash = strchr(place, '#');
    run->remote = true;
    run->folder = status ? NULL : td__calloc(strlen(url) + strlen(hash) + 1, 1);
    run->name = status ? NULL : td__strdup(slash ? slash + 1 : name);
    if (!status && run->folder && run->name) {
        (void)sprintf(run->folder, "%s%s", url, hash); // NOLINT: it has the room
        return td__ranks_select_remote(run, error);
    }
    return status ? status : td_error_set(error, TD_MEMORY, "out of memory for a run");
}

td_run *td__run_begin(const char *path, td_error *error) {
    td_run *run = td__calloc(1, sizeof *run);
    if (!run) {
        td_error_set(error, TD_MEMORY, "out of memory for a run");
        return NULL;
    }
    if (td__url_is(path)) {
        if (begin_remote(run, path, error)) {
            td_run_close(run);
            return NULL;
        }
        return run;
    }
    run->folder = folder_of(path);
    run->name = run->folder ? name_of(run->folder) : NULL;
    td_status status =
        run->name ? td__ranks_select(run, error) : td_error_set(error, TD_MEMORY, "out of memory");
    status = status || run->one_rank ? status : open_kind(run, path, error);
    if (status) {
        td_run_close(run);
        return NULL;
    }
    return run;
}

td_run *td_run_open(const char *path, td_error *error) {
    td_error reason = {0};
    td_run *run = td__run_begin(path, error);
    if (run && !run->events && td_run_refresh(run, &reason) != TD_OK) {
        bool short_name = strncmp(reason.text, "run.db", strlen("run.db")) == 0;
        (void)td_error_set(error, reason.status, "%s%s%s", short_name ? run->folder : "",
                           short_name ? "/" : "", reason.text);
        td_run_close(run);
        return NULL;
    }
    return run;
}

void td_run_close(td_run *run) {
    if (!run) {
        return;
    }
    td__run_forget_signals(run);
    td__store_close(run->store);
    for (size_t i = 0; i < run->event_file_count; i++) {
        td__free(run->event_files[i]);
    }
    td__free(run->event_files);
    td__problems_release(&run->problems);
    td__free(run->signals);
    td__bins_release(&run->bins);
    td__free(run->bytes);
    td__free(run->samples);
    td__free(run->folder);
    td__free(run->name);
    td__free(run->parent);
    td__free(run);
}
