/* Folders of MLflow's file store, mlruns/EXPERIMENT/RUN: meta.yaml, and metrics/NAME, params/NAME, tags/NAME, where a
 * name may have slashes. A line of a metric is "MILLISECONDS VALUE STEP", of older ones without the step. */
#include "run/foreign.h"

#include "base/memory.h"
#include "base/parse.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_PATH = 4096, DEEPEST = 8, MAX_TEXT = 1 << 20 };
static const size_t max_metric = (size_t)1 << 30;

/* What is done with a file below metrics, params or tags. */
typedef td_status file_function(td__intake *intake, const char *path, const char *name,
                                td_error *error);

/* ---- Metrics -------------------------------------------------------------------------------- */

typedef struct line {
    double milliseconds, value, step;
} line;

/* Reads a line that ends with a newline or the text; false when it is none. *next: behind it. */
static bool read_line(const char *text, line *out, const char **next) {
    const char *end = strchr(text, '\n');
    *next = end ? end + 1 : text + strlen(text);
    *out = (line){0};
    const char *at = td__parse_float64(text, &out->milliseconds);
    at = at && *at == ' ' ? td__parse_float64(at + 1, &out->value) : NULL;
    if (at && *at == ' ') {
        at = td__parse_float64(at + 1, &out->step);
    }
    return at && (*at == '\n' || *at == '\r' || *at == ' ' || !*at) && out->step >= -9e15 &&
           out->step <= 9e15;
}

/* Whether all of several values are at step 0, as those are that were logged without one. */
static bool has_no_steps(const char *text) {
    size_t count = 0;
    bool steps = false;
    for (line l; *text; count++) {
        steps |= read_line(text, &l, &text) && l.step != 0;
    }
    return count > 1 && !steps;
}

static td_status read_metric(td__intake *intake, const char *path, const char *name,
                             td_error *error) {
    size_t length = 0, bad = 0;
    char *text = td__foreign_load(path, max_metric, &length, error);
    if (!text) {
        return error->status;
    }
    bool numbered = has_no_steps(text);
    if (numbered) {
        td__run_problem(intake->problems,
                        "%s: logged without steps; its values are numbered from 0 on", name);
    }
    td_status status = TD_OK;
    int64_t count = 0;
    for (const char *at = text; *at && !status;) {
        line l;
        if (!read_line(at, &l, &at)) {
            bad++;
            continue;
        }
        td__moment_of when = {.step = numbered ? count : (int64_t)l.step,
                              .wall_time = l.milliseconds / 1000};
        status = td__intake_number(intake, name, &when, l.value, error);
        count++;
    }
    if (bad) {
        td__run_problem(intake->problems, "metrics/%s: lines that are none are left out: %zu", name,
                        bad);
    }
    td__free(text);
    return status;
}

/* ---- Settings and tags ---------------------------------------------------------------------- */

static td_status note_file(td__intake *intake, const char *path, const char *key, td_error *error) {
    size_t length = 0;
    char *text = td__foreign_load(path, MAX_TEXT, &length, error);
    td_status status = text ? td__intake_note(intake, key, text, error) : error->status;
    td__free(text);
    return status;
}

static td_status read_parameter(td__intake *intake, const char *path, const char *name,
                                td_error *error) {
    char key[MAX_PATH];
    (void)snprintf(key, sizeof key, "experiment.%s", name);
    return note_file(intake, path, key, error);
}

static td_status read_tag(td__intake *intake, const char *path, const char *name, td_error *error) {
    static const struct {
        const char *name, *key;
    } known[] = {{"mlflow.runName", "title"},
                 {"mlflow.user", "environment.user"},
                 {"mlflow.source.name", "environment.program"},
                 {"mlflow.source.git.commit", "environment.git.commit"},
                 {"mlflow.source.git.branch", "environment.git.branch"},
                 {"mlflow.note.content", "notes"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(name, known[i].name) == 0) {
            return note_file(intake, path, known[i].key, error);
        }
    }
    char key[MAX_PATH];
    (void)snprintf(key, sizeof key, "tag.%s", name);
    return note_file(intake, path, key, error);
}

/* ---- Folders -------------------------------------------------------------------------------- */

static int is_visible(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

static td_status read_below(td__intake *intake, const char *folder, const char *prefix, int depth,
                            file_function *read, td_error *error);

static td_status read_entry(td__intake *intake, const char *folder, const char *prefix,
                            const char *entry, int depth, file_function *read, td_error *error) {
    char path[MAX_PATH], name[MAX_PATH];
    struct stat about;
    int length = snprintf(path, sizeof path, "%s/%s", folder, entry);
    if (length < 0 || (size_t)length >= sizeof path || lstat(path, &about) != 0) {
        return TD_OK;
    }
    (void)snprintf(name, sizeof name, "%s%s%s", prefix, *prefix ? "/" : "", entry);
    if (S_ISDIR(about.st_mode)) {
        return depth < DEEPEST ? read_below(intake, path, name, depth + 1, read, error) : TD_OK;
    }
    td_error reason = {0};
    td_status status = read(intake, path, name, &reason);
    if (status && status != TD_MEMORY) { /* the others are read */
        td__run_problem(intake->problems, "%s", reason.text);
        status = TD_OK;
    }
    return status ? td_error_set(error, status, "%s", reason.text) : TD_OK;
}

static td_status read_below(td__intake *intake, const char *folder, const char *prefix, int depth,
                            file_function *read, td_error *error) {
    struct dirent **entries = NULL;
    td_status status = TD_OK;
    int count = scandir(folder, &entries, is_visible, alphasort);
    for (int i = 0; i < count; i++) {
        status = status
                     ? status
                     : read_entry(intake, folder, prefix, entries[i]->d_name, depth, read, error);
        free(entries[i]); // NOLINT: scandir's own
    }
    free(entries); // NOLINT
    return status;
}

/* ---- The run -------------------------------------------------------------------------------- */

typedef struct meta {
    char run[256], name[1024], status[32];
    double start;
} meta;

static void keep_meta(void *user, const char *key, const char *value) {
    meta *m = user;
    if (strcmp(key, "run_id") == 0 || strcmp(key, "run_uuid") == 0) {
        (void)snprintf(m->run, sizeof m->run, "%s", value);
    } else if (strcmp(key, "run_name") == 0) {
        (void)snprintf(m->name, sizeof m->name, "%s", value);
    } else if (strcmp(key, "status") == 0) {
        (void)snprintf(m->status, sizeof m->status, "%s", value);
    } else if (strcmp(key, "start_time") == 0) {
        (void)!td__parse_float64(value, &m->start);
    }
}

static bool is_run(const char *path) {
    char file[MAX_PATH];
    meta m = {0};
    int length = snprintf(file, sizeof file, "%s/meta.yaml", path);
    return length > 0 && (size_t)length < sizeof file &&
           td__foreign_yaml(file, keep_meta, &m, NULL) == TD_OK && *m.run;
}

static td_status read_run(td__intake *intake, const char *path, td_error *error) {
    static const struct {
        const char *folder;
        file_function *read;
    } parts[] = {{"metrics", read_metric}, {"params", read_parameter}, {"tags", read_tag}};
    char below[MAX_PATH];
    meta m = {0};
    (void)snprintf(below, sizeof below, "%s/meta.yaml", path);
    td_status status = td__foreign_yaml(below, keep_meta, &m, error);
    if (!status && *m.name) {
        status = td__intake_note(intake, "title", m.name, error);
    }
    status = status ? status : td__intake_started(intake, m.start / 1000, error);
    static const char *const states[] = {"", "", "", "finished", "failed", "interrupted"};
    long number = strtol(m.status, NULL, 10);
    if (!status && number >= 3 && number <= 5) {
        status = td__intake_note(intake, "state", states[number], error);
    }
    for (size_t i = 0; i < sizeof parts / sizeof *parts && !status; i++) {
        (void)snprintf(below, sizeof below, "%s/%s", path, parts[i].folder);
        status = read_below(intake, below, "", 0, parts[i].read, error);
    }
    return status;
}

const td__foreign td__foreign_mlflow = {.name = "mlflow",
                                        .what = "a run of MLflow's mlruns",
                                        .mark = "meta.yaml",
                                        .is_run = is_run,
                                        .read = read_run};
