/* A run of MLflow's file store, FOLDER/0/ID: made beside its place and moved there when it is complete. */
#include "run/push.h"

#include "base/memory.h"
#include "base/number.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_PARAMETER = 6000, MAX_NAME = 250 };

typedef struct store {
    td__push *push;
    char folder[TD__PUSH_PATH]; /* of the run, while it is made */
    td_status status;
    td_error error;
    FILE *file; /* the metric that is being written */
    char path[TD__PUSH_PATH];
    double first, last; /* times */
} store;

/* Names as MLflow takes them: letters, digits and _-. :/ ; all else becomes _, which is reported. */
static void clean_name(const store *s, const char *name, char out[MAX_NAME + 1]) {
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-. :/";
    size_t length = 0;
    for (const char *c = name; *c && length < MAX_NAME; c++) {
        bool begins = length == 0 || out[length - 1] == '/';
        bool good = strchr(allowed, *c) && !(begins && (*c == '.' || *c == '/'));
        out[length++] = good ? *c : '_';
    }
    out[length] = 0;
    if (length && out[length - 1] == '/') {
        out[length - 1] = '_';
    }
    if (strcmp(name, out) != 0) {
        td__push_say(s->push, "%s is called %s there", name, out);
    }
}

/* Opens FOLDER/PART/NAME for writing, where NAME may have slashes. */
static FILE *create(store *s, const char *part, const char *name) {
    char relative[MAX_NAME + 32], *slash;
    (void)snprintf(relative, sizeof relative, "%s%s%s", part, *part ? "/" : "", name);
    s->status = s->status ? s->status : td__push_join(s->path, s->folder, relative, &s->error);
    if (!s->status && (slash = strrchr(s->path, '/'))) {
        *slash = 0;
        s->status = td__push_folder(s->path, &s->error);
        *slash = '/';
    }
    FILE *file = s->status ? NULL : fopen(s->path, "wxe");
    if (!file && !s->status) {
        s->status = td_error_set(&s->error, TD_IO, "%s: %s", s->path, strerror(errno));
    }
    return file;
}

static void close_file(store *s, FILE *file) {
    td_status closed = file ? td__push_close(file, s->path, s->status ? NULL : &s->error) : TD_OK;
    s->status = s->status ? s->status : closed;
}

static void write_text(store *s, const char *part, const char *name, const char *text) {
    FILE *file = create(s, part, name);
    if (file) {
        (void)fputs(text, file);
    }
    close_file(s, file);
}

/* ---- Metrics -------------------------------------------------------------------------------- */

static td_status write_value(void *user, const td_record *record, td_error *error) {
    (void)error;
    store *s = user;
    char value[TD__NUMBER_ROOM];
    value[td__format_double(value, record->value)] = 0;
    (void)fprintf(s->file, "%.0f %s %lld\n", 1000 * record->wall_time, value,
                  (long long)record->step);
    s->first = s->first == 0 || record->wall_time < s->first ? record->wall_time : s->first;
    s->last = record->wall_time > s->last ? record->wall_time : s->last;
    s->push->done.written++;
    return TD_OK;
}

/* The name as a glob that means just it. */
static bool escape(const char *name, char *out, size_t room) {
    size_t length = 0;
    for (; *name && length + 2 < room; name++) {
        if (strchr("*?[]\\, ", *name)) {
            out[length++] = '\\';
        }
        out[length++] = *name;
    }
    out[length] = 0;
    return !*name;
}

static void write_metric(store *s, const td_run_signal *signal) {
    char name[MAX_NAME + 1], glob[TD__PUSH_PATH];
    td_run_query query = s->push->query;
    if (!escape(signal->name, glob, sizeof glob)) {
        td__push_say(s->push, "%.100s…: the name is too long", signal->name);
        return;
    }
    clean_name(s, signal->name, name);
    query.what = glob;
    query.forms = TD_SCALAR;
    s->file = create(s, "metrics", name);
    s->status =
        s->status ? s->status : td_run_read(s->push->run, &query, write_value, s, &s->error);
    close_file(s, s->file);
}

/* ---- Settings and tags ---------------------------------------------------------------------- */

static void write_parameter(void *user, const char *key, const char *value) {
    store *s = user;
    char name[MAX_NAME + 1];
    if (strlen(value) > MAX_PARAMETER || strcmp(key, "yaml") == 0) {
        if (strcmp(key, "yaml") != 0) { /* the experiment file, whose settings are the others */
            td__push_say(s->push, "setting %s is longer than MLflow takes and is left out", key);
        }
        return;
    }
    clean_name(s, key, name);
    write_text(s, "params", name, value);
}

static void write_fact(void *user, const char *key, const char *value) {
    static const struct {
        const char *key, *tag;
    } known[] = {{"user", "mlflow.user"},
                 {"command", "mlflow.source.name"},
                 {"git.commit", "mlflow.source.git.commit"},
                 {"git.branch", "mlflow.source.git.branch"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(key, known[i].key) == 0) {
            write_text(user, "tags", known[i].tag, value);
        }
    }
}

/* ---- The run -------------------------------------------------------------------------------- */

static void put_line(FILE *file, const char *key, const char *value) {
    (void)fprintf(file, "%s: '", key);
    for (; *value; value++) {
        unsigned char c = (unsigned char)*value;
        (void)fputs(c == '\'' ? "''" : c < ' ' ? " " : (char[]){*value, 0}, file);
    }
    (void)fputs("'\n", file);
}

static void write_experiment(store *s, const char *folder, const char *whole) {
    char path[TD__PUSH_PATH], place[TD__PUSH_PATH + 16];
    if (s->status || (s->status = td__push_join(path, folder, "meta.yaml", &s->error)) ||
        access(path, F_OK) == 0) {
        return;
    }
    FILE *file = fopen(path, "wxe");
    if (!file) {
        s->status = td_error_set(&s->error, TD_IO, "%s: %s", path, strerror(errno));
        return;
    }
    (void)snprintf(place, sizeof place, "file://%s", whole);
    put_line(file, "artifact_location", place);
    put_line(file, "experiment_id", "0");
    (void)fputs("lifecycle_stage: active\nname: Default\n", file);
    s->status = td__push_close(file, path, &s->error);
}

static void write_meta(store *s, const char *id, const char *whole) {
    static const int statuses[] = {[TD_RUN_RUNNING] = 1,
                                   [TD_RUN_FINISHED] = 3,
                                   [TD_RUN_INTERRUPTED] = 5,
                                   [TD_RUN_FAILED] = 4,
                                   [TD_RUN_CRASHED] = 4};
    td_run_state state = s->push->info.state;
    int status = state > TD_RUN_UNKNOWN && state <= TD_RUN_CRASHED ? statuses[state] : 3;
    char place[TD__PUSH_PATH + 64];
    FILE *file = create(s, "", "meta.yaml");
    if (file) {
        (void)snprintf(place, sizeof place, "file://%s/%s/artifacts", whole, id);
        put_line(file, "artifact_uri", place);
        double started = s->push->info.started > 0 ? s->push->info.started : s->first;
        (void)fprintf(file,
                      "end_time: %.0f\nentry_point_name: ''\nexperiment_id: '0'\n"
                      "lifecycle_stage: active\nrun_id: %s\nrun_uuid: %s\n",
                      1000 * s->last, id, id);
        put_line(file, "run_name", s->push->title);
        (void)fprintf(file,
                      "source_name: ''\nsource_type: 4\nsource_version: ''\nstart_time: %.0f\n"
                      "status: %d\ntags: []\nuser_id: tapedeck\n",
                      1000 * started, status);
    }
    close_file(s, file);
}

static td_status count_record(void *user, const td_record *record, td_error *error) {
    (void)record;
    (void)error;
    ++*(int64_t *)user;
    return TD_OK;
}

static void write_signals(store *s) {
    td_run *run = s->push->run;
    size_t count = td_run_signal_count(run);
    for (size_t i = 0; i < count && !s->status; i++) {
        const td_run_signal *signal = td_run_signal_at(run, i);
        bool wanted = td_run_matches(s->push->query.what, signal->name);
        if (wanted && signal->forms & TD_SCALAR) {
            write_metric(s, signal);
        }
    }
    td_run_query others = s->push->query;
    others.forms = ~(uint32_t)TD_SCALAR;
    s->status = s->status
                    ? s->status
                    : td_run_read(run, &others, count_record, &s->push->done.left_out, &s->error);
}

/* MLflow takes no folder for a run's that has not all of these. */
static void make_folders(store *s) {
    static const char *const names[] = {"metrics", "params", "tags", "artifacts"};
    for (size_t i = 0; i < sizeof names / sizeof *names && !s->status; i++) {
        s->status = td__push_join(s->path, s->folder, names[i], &s->error);
        s->status = s->status ? s->status : td__push_folder(s->path, &s->error);
    }
}

td_status td__push_mlflow(td__push *push, td_error *error) {
    char id[TD__PUSH_ID], experiment[TD__PUSH_PATH], final[TD__PUSH_PATH], part[TD__PUSH_ID + 8];
    store *s = td__calloc(1, sizeof *s);
    if (!s) {
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    s->push = push;
    td__push_id(id, TD__PUSH_ID - 1);
    (void)snprintf(part, sizeof part, ".%s.part", id);
    s->status = td__push_join(experiment, push->folder, "0", &s->error);
    s->status = s->status ? s->status : td__push_folder(experiment, &s->error);
    char *whole = s->status ? NULL : realpath(experiment, NULL);
    if (whole) {
        write_experiment(s, experiment, whole);
        s->status = s->status ? s->status : td__push_join(s->folder, experiment, part, &s->error);
        s->status = s->status ? s->status : td__push_join(final, experiment, id, &s->error);
        make_folders(s);
        write_signals(s);
        if (!s->status) {
            (void)td_run_settings(push->run, write_parameter, s, NULL);
            (void)td_run_notes(push->run, "environment", write_fact, s, NULL);
            write_text(s, "tags", "mlflow.runName", push->title);
            write_meta(s, id, whole);
        }
        if (!s->status && rename(s->folder, final) != 0) {
            s->status = td_error_set(&s->error, TD_IO, "%s: %s", final, strerror(errno));
        }
        (void)snprintf(push->done.out, sizeof push->done.out, "%s", final);
    } else if (!s->status) {
        s->status = td_error_set(&s->error, TD_IO, "%s: %s", experiment, strerror(errno));
    }
    free(whole); // NOLINT: realpath's own
    td_status status = s->status;
    if (status) {
        *error = s->error;
    }
    td__free(s);
    return status;
}
