/* trackio's databases, PROJECT.db: several runs in a file. A run is PROJECT.db/NAME, or the file where it has one run
 * only. */
#include "run/foreign.h"

#include "base/folder.h"
#include "base/memory.h"
#include "store/tracker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_PATH = 4096 };

/* Takes PROJECT.db/NAME apart: the file's path, and the name or "". False: there is no such file. */
static bool split_path(const char *path, char file[MAX_PATH], const char **name) {
    struct stat about;
    for (const char *at = strstr(path, ".db"); at; at = strstr(at + 1, ".db")) {
        size_t length = (size_t)(at + 3 - path);
        if ((at[3] != '/' && at[3]) || length >= MAX_PATH) {
            continue;
        }
        memcpy(file, path, length);
        file[length] = 0;
        if (stat(file, &about) == 0 && S_ISREG(about.st_mode)) {
            *name = at[3] && at[4] ? at + 4 : "";
            return true;
        }
    }
    return false;
}

/* ---- Which run ------------------------------------------------------------------------------ */

typedef struct chosen {
    const char *wanted; /* "": the only one */
    char name[MAX_PATH];
    size_t count, matching;
    char names[512]; /* for a message */
} chosen;

static td_status look_at_name(void *user, const char *const texts[TD__TRACKER_COLUMNS],
                              td_error *error) {
    (void)error;
    chosen *c = user;
    size_t used = strlen(c->names);
    c->count++;
    if (!*c->wanted || strcmp(c->wanted, texts[0]) == 0) {
        (void)snprintf(c->name, sizeof c->name, "%s", texts[0]);
        c->matching++;
    }
    (void)snprintf(c->names + used, sizeof c->names - used, "%s%s", used ? ", " : "", texts[0]);
    return TD_OK;
}

static td_status choose_run(const char *file, const char *wanted, chosen *c, td_error *error) {
    c->wanted = wanted;
    td_status status = td__tracker_read(file, TD__TRACKIO_RUNS, NULL, look_at_name, c, error);
    if (!status && c->matching != 1) {
        return td_error_set(
            error, TD_NOT_FOUND, "%s has %s; it has: %s", file,
            *wanted ? "no such run, or several" : "not just one run: name one, FILE/RUN", c->names);
    }
    return status;
}

static bool is_run(const char *path) {
    char file[MAX_PATH];
    const char *name;
    return split_path(path, file, &name) && td__tracker_is_trackio(file);
}

/* ---- Reading -------------------------------------------------------------------------------- */

static td_status take_metrics(void *user, const char *const texts[TD__TRACKER_COLUMNS],
                              td_error *error) {
    td__moment_of at = {.step = strtoll(texts[0], NULL, 10),
                        .wall_time = td__foreign_time(texts[1])};
    return td__intake_json(user, "", &at, texts[2], strlen(texts[2]), error);
}

static td_status take_load(void *user, const char *const texts[TD__TRACKER_COLUMNS],
                           td_error *error) {
    td__moment_of at = {.step = strtoll(texts[0], NULL, 10),
                        .wall_time = td__foreign_time(texts[1])};
    return td__intake_json(user, "system", &at, texts[2], strlen(texts[2]), error);
}

static td_status take_config(void *user, const char *const texts[TD__TRACKER_COLUMNS],
                             td_error *error) {
    return td__intake_settings(user, "", texts[0], strlen(texts[0]), error);
}

static td_status read_run(td__intake *intake, const char *path, td_error *error) {
    static const struct {
        td__tracker_query query;
        td__tracker_function *take;
    } parts[] = {{TD__TRACKIO_METRICS, take_metrics},
                 {TD__TRACKIO_LOAD, take_load},
                 {TD__TRACKIO_CONFIG, take_config}};
    char file[MAX_PATH];
    const char *name = "";
    chosen *c = td__calloc(1, sizeof *c);
    td_status status = !c ? td_error_set(error, TD_MEMORY, "out of memory")
                       : split_path(path, file, &name)
                           ? choose_run(file, name, c, error)
                           : td_error_set(error, TD_NOT_FOUND, "%s: there is no such file", path);
    for (size_t i = 0; i < sizeof parts / sizeof *parts && !status; i++) {
        status = td__tracker_read(file, parts[i].query, c->name, parts[i].take, intake, error);
    }
    status = status ? status : td__intake_note(intake, "title", c->name, error);
    td__free(c);
    return status;
}

/* ---- Finding -------------------------------------------------------------------------------- */

typedef struct finding {
    const char *file;
    td_folder_function *each;
    void *user;
} finding;

static td_status hand_on_name(void *user, const char *const texts[TD__TRACKER_COLUMNS],
                              td_error *error) {
    const finding *f = user;
    char path[2 * MAX_PATH];
    int length = snprintf(path, sizeof path, "%s/%s", f->file, texts[0]);
    return length > 0 && (size_t)length < sizeof path ? f->each(f->user, path, error) : TD_OK;
}

static td_status find_runs(const char *file, td_folder_function *each, void *user,
                           td_error *error) {
    if (!td__ends_in(file, ".db") || !td__tracker_is_trackio(file)) {
        return TD_OK;
    }
    return td__tracker_read(file, TD__TRACKIO_RUNS, NULL, hand_on_name,
                            &(finding){file, each, user}, error);
}

const td__foreign td__foreign_trackio = {.name = "trackio",
                                         .what = "a database of trackio",
                                         .is_run = is_run,
                                         .read = read_run,
                                         .find = find_runs};
