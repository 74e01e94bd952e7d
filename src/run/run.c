/* Opening a run: what it is called, how it is doing, which signals it has. */
#include "run/run.h"

#include "base/memory.h"
#include "deck/glob.h"
#include "run/events.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MOST_SIGNALS = 1 << 24 };

const char *td_run_state_name(td_run_state state) {
    static const char *const names[] = {"unknown",     "running", "finished",
                                        "interrupted", "failed",  "crashed"};
    return (size_t)state < sizeof names / sizeof *names ? names[state] : names[0];
}

/* ---- How it is doing ------------------------------------------------------------------------ */

/* Whether a process holds the lock that a deck takes on its folder. */
static bool is_being_written(const char *folder) {
    int opened = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool locked = opened >= 0 && flock(opened, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (opened >= 0) {
        close(opened);
    }
    return locked;
}

static td_run_state state_of(const char *folder, const char *noted) {
    if (is_being_written(folder)) {
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
    sqlite3_stmt *last =
        td__run_prepare(run, "SELECT step, epoch, wall_time FROM step ORDER BY step DESC LIMIT 1");
    if (td__run_next(run, last)) {
        info->last_step = sqlite3_column_int64(last, 0);
        info->last_epoch = sqlite3_column_int64(last, 1);
        info->last_record = sqlite3_column_double(last, 2);
    }
    sqlite3_finalize(last);
    info->started = f.started;
    if (info->started == 0) {
        sqlite3_stmt *first =
            td__run_prepare(run, "SELECT wall_time FROM step ORDER BY step LIMIT 1");
        info->started = td__run_next(run, first) ? sqlite3_column_double(first, 0) : 0;
        sqlite3_finalize(first);
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
    static const char *const tables[] = {"run", "environment", "experiment"};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        if (strcmp(table, tables[i]) != 0) {
            continue;
        }
        char sql[80];
        (void)snprintf(sql, sizeof sql, "SELECT key, value FROM %s ORDER BY key", tables[i]);
        sqlite3_stmt *notes = td__run_prepare(run, sql);
        while (td__run_next(run, notes)) {
            const char *key = (const char *)sqlite3_column_text(notes, 0);
            const char *value = (const char *)sqlite3_column_text(notes, 1);
            each(user, key ? key : "", value ? value : "");
        }
        sqlite3_finalize(notes);
        return TD_OK;
    }
    return td_error_set(error, TD_INVALID, "a run has no table of notes '%s'", table);
}

/* ---- Signals -------------------------------------------------------------------------------- */

static const struct {
    const char *table;
    uint32_t form;
} tables[] = {{"scalar", TD_SCALAR},        {"stats", TD_STATS},  {"histogram", TD_HISTOGRAM},
              {"tensor_series", TD_TENSOR}, {"example", TD_ROWS}, {"hash", TD_HASH}};
enum { TABLES = sizeof tables / sizeof *tables };

static void extend(td_run_signal *signal, uint32_t forms, int64_t first, int64_t last) {
    signal->first_step = signal->forms && signal->first_step < first ? signal->first_step : first;
    signal->last_step = signal->forms && signal->last_step > last ? signal->last_step : last;
    signal->forms |= forms;
}

/* A signal's first and last row in one table: two look-ups, however many rows there are. */
static void look_up(td_run *run, td_run_signal *signal, sqlite3_stmt *ends, uint32_t form) {
    sqlite3_bind_int64(ends, 1, signal->id);
    if (td__run_next(run, ends) && sqlite3_column_type(ends, 0) != SQLITE_NULL) {
        uint32_t forms = form;
        if (form == TD_TENSOR) {
            forms = (sqlite3_column_int(ends, 2) ? TD_TENSOR : 0U) |
                    (sqlite3_column_int(ends, 3) ? TD_IMAGE : 0U);
        }
        extend(signal, forms, sqlite3_column_int64(ends, 0), sqlite3_column_int64(ends, 1));
    }
    sqlite3_reset(ends);
}

static void look_up_all(td_run *run, const char *table, uint32_t form) {
    char sql[400];
    const char *forms =
        form == TD_TENSOR
            ? ", EXISTS (SELECT 1 FROM tensor_series WHERE signal=?1 AND form='tensor'),"
              " EXISTS (SELECT 1 FROM tensor_series WHERE signal=?1 AND form='image')"
            : "";
    (void)snprintf(sql, sizeof sql,
                   "SELECT (SELECT min(step) FROM %s WHERE signal=?1),"
                   " (SELECT max(%s) FROM %s WHERE signal=?1)%s",
                   table, form == TD_TENSOR ? "last" : "step", table, forms);
    sqlite3_stmt *ends = td__run_prepare(run, sql);
    for (size_t i = 0; ends && i < run->signal_count; i++) {
        look_up(run, &run->signals[i], ends, form);
    }
    sqlite3_finalize(ends);
}

/* Texts are few and have no index. */
static void look_up_texts(td_run *run) {
    sqlite3_stmt *ends =
        td__run_prepare(run, "SELECT signal, min(step), max(step) FROM text GROUP BY signal");
    while (td__run_next(run, ends)) {
        int64_t id = sqlite3_column_int64(ends, 0);
        for (size_t i = 0; i < run->signal_count; i++) {
            if (run->signals[i].id == id) {
                extend(&run->signals[i], TD_TEXT, sqlite3_column_int64(ends, 1),
                       sqlite3_column_int64(ends, 2));
            }
        }
    }
    sqlite3_finalize(ends);
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
}

td_status td_run_refresh(td_run *run, td_error *error) {
    forget_signals(run);
    td_status status = run->events ? td__run_import(run, error) : TD_OK;
    if (status) {
        return status;
    }
    sqlite3_stmt *signals = td__run_prepare(run, "SELECT id, name FROM signal ORDER BY id");
    while (!status && td__run_next(run, signals)) {
        const char *name = (const char *)sqlite3_column_text(signals, 1);
        status = add_signal(run, sqlite3_column_int64(signals, 0), name ? name : "", error);
    }
    sqlite3_finalize(signals);
    for (size_t i = 0; !status && i < TABLES; i++) {
        look_up_all(run, tables[i].table, tables[i].form);
    }
    if (!status) {
        look_up_texts(run);
        read_info(run);
    }
    return status;
}

size_t td_run_signals(const td_run *run, const td_run_signal **signals) {
    *signals = run->signals;
    return run->signal_count;
}

const td_run_signal *td_run_signal_find(const td_run *run, const char *name) {
    for (size_t i = 0; i < run->signal_count; i++) {
        if (strcmp(run->signals[i].name, name) == 0) {
            return &run->signals[i];
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
        return td__run_open_database(run, error);
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
    sqlite3_close_v2(run->database);
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
