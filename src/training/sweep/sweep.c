/* A sweep's folder: claimed, described in sweep.json, locked while it is trained. */
#include "sweep/sweep.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/options.h"
#include "deck/folder.h"
#include "experiment/experiment.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_PLAN = 64 << 20, MAX_EXPERIMENT = 4 << 20, MAX_FACTOR = 1000, MAX_THREADS = 1024 };

/* A whole file, ended by a zero; NULL on failure. */
static char *read_whole(const char *path, size_t most, size_t *size, td_error *error) {
    struct stat about;
    int file = td__file_open(AT_FDCWD, path, O_RDONLY);
    if (file < 0) {
        td__file_error(error, path, "read");
        return NULL;
    }
    char *text = NULL;
    if (fstat(file, &about) != 0 || about.st_size < 0 || (size_t)about.st_size > most) {
        td_error_set(error, TD_RANGE, "%s: larger than %zu bytes", path, most);
    } else if (!(text = td__calloc((size_t)about.st_size + 1, 1))) {
        td_error_set(error, TD_MEMORY, "out of memory");
    } else if (!td__read_all(file, text, (size_t)about.st_size, 0)) {
        td__file_error(error, path, "read");
        td__free(text);
        text = NULL;
    } else {
        *size = (size_t)about.st_size;
    }
    close(file);
    return text;
}

static td_status hash_file(const char *path, uint64_t *hash, td_error *error) {
    size_t size;
    char *text = read_whole(path, MAX_EXPERIMENT, &size, error);
    if (!text) {
        return error->status;
    }
    *hash = td__hash_bytes(TD__HASH_START, text, size);
    td__free(text);
    return TD_OK;
}

static td_status make_folders(td_sweep *sweep, td_error *error) {
    for (size_t i = 0; i < sweep->trial_count; i++) {
        td__trial *trial = &sweep->trials[i];
        size_t room = strlen(sweep->folder) + sizeof trial->name + 2;
        if (room + 16 > TD__SWEEP_PATH) {
            return td_error_set(error, TD_INVALID, "%s: too long a path", sweep->folder);
        }
        trial->folder = td__calloc(room, 1);
        if (!trial->folder) {
            return td_error_set(error, TD_MEMORY, "out of memory");
        }
        (void)snprintf(trial->folder, room, "%s/%s", sweep->folder, trial->name);
    }
    return TD_OK;
}

/* ---- Created -------------------------------------------------------------------------------- */

/* Settings that do not go with each other, or are none, are found before anything is written. */
static td_status check_trials(const td_sweep *sweep, td_error *error) {
    for (size_t i = 0; i < sweep->trial_count; i++) {
        size_t count;
        const char **settings = td__trial_settings(sweep, &sweep->trials[i], &count);
        if (!settings) {
            return td_error_set(error, TD_MEMORY, "out of memory");
        }
        td_experiment_options options = {
            .size = sizeof options, .set = settings, .set_count = count - 1};
        td_experiment *experiment = td_experiment_read(sweep->experiment, &options, error);
        td__free((void *)settings);
        if (!experiment) {
            return error->status;
        }
        td_experiment_destroy(experiment);
    }
    return TD_OK;
}

static td_status check_options(const td_sweep_options *options, td_error *error) {
    if (options->random_count && options->draws < 1) {
        return td_error_set(error, TD_INVALID, "--random needs -n N: how often to draw");
    }
    if (!options->random_count && options->draws) {
        return td_error_set(error, TD_INVALID,
                            "-n is how often to draw, and nothing is drawn: --random KEY=log(A,B)");
    }
    if (options->factor && (options->factor < 2 || options->factor > MAX_FACTOR)) {
        return td_error_set(error, TD_INVALID, "--factor: expected 2 to %d", MAX_FACTOR);
    }
    for (size_t i = 0; options->factor && i < options->set_count + options->random_count; i++) {
        const char *key =
            i < options->set_count ? options->set[i] : options->random[i - options->set_count];
        size_t length = strcspn(key, "=");
        bool several = i >= options->set_count || strchr(key + length, ',');
        if (several && ((length == 12 && !strncmp(key, "train.epochs", length)) ||
                        (length == 11 && !strncmp(key, "train.steps", length)))) {
            return td_error_set(error, TD_INVALID,
                                "%.*s cannot differ with --halving: trials are compared after the "
                                "same number of epochs",
                                (int)length, key);
        }
    }
    return TD_OK;
}

/* Links are kept: what an experiment names is relative to the folder that it was called in. */
static char *absolute_path(const char *path) {
    char *folder = *path == '/' ? NULL : getcwd(NULL, 0);
    size_t room = strlen(path) + (folder ? strlen(folder) : 0) + 2;
    char *whole = *path == '/' || folder ? td__calloc(room, 1) : NULL;
    if (whole) {
        (void)snprintf(whole, room, "%s%s%s", folder ? folder : "", folder ? "/" : "", path);
    }
    free(folder);
    return whole;
}

static td_status create(td_sweep *sweep, const char *path, const td_sweep_options *options,
                        td_error *error) {
    td_status status = check_options(options, error);
    td_experiment *first = status ? NULL : td_experiment_read(path, NULL, error);
    if (!first) {
        return error->status;
    }
    sweep->experiment = absolute_path(path);
    sweep->name = td__strdup(td_experiment_name(first));
    sweep->out = td__strdup(options->out ? options->out : "runs");
    sweep->factor = options->factor;
    sweep->facts.threads = options->threads > 0 ? options->threads : 1;
    if (!sweep->experiment || !sweep->name || !sweep->out) {
        status = td_error_set(error, TD_MEMORY, "%s: out of memory", path);
    } else if (options->metric && strlen(options->metric) >= sizeof sweep->facts.metric) {
        status = td_error_set(error, TD_INVALID, "--metric %.100s…: too long", options->metric);
    } else if (options->metric) {
        (void)snprintf(sweep->facts.metric, sizeof sweep->facts.metric, "%s", options->metric);
    }
    if (!status && td_experiment_folds(first)) {
        bool chosen = false;
        for (size_t i = 0; i < options->set_count; i++) {
            chosen |= !strncmp(options->set[i], "data.validation.fold=", 21);
        }
        status = chosen ? TD_OK
                        : td_error_set(error, TD_INVALID,
                                       "%s: a trial is one fold: --set data.validation.fold=1, or "
                                       "several for a trial of each",
                                       path);
    }
    status = status ? status : hash_file(sweep->experiment, &sweep->hash, error);
    status = status ? status : td__sweep_span(sweep, options, first->seed, error);
    td_experiment_destroy(first);
    return status ? status : check_trials(sweep, error);
}

td_sweep *td_sweep_create(const char *experiment, const td_sweep_options *options,
                          td_error *error) {
    td_error own = {0};
    error = error ? error : &own;
    td_sweep_options given;
    options = td__options(&given, sizeof given, options);
    td_sweep *sweep = td__calloc(1, sizeof *sweep);
    if (!sweep) {
        td_error_set(error, TD_MEMORY, "out of memory");
        return NULL;
    }
    sweep->lock = -1;
    if (create(sweep, experiment, options, error)) {
        td_sweep_destroy(sweep);
        return NULL;
    }
    return sweep;
}

void td_sweep_destroy(td_sweep *sweep) {
    if (!sweep) {
        return;
    }
    for (size_t i = 0; i < sweep->trial_count; i++) {
        td__trial *trial = &sweep->trials[i];
        for (size_t k = 0; trial->values && k < sweep->key_count; k++) {
            td__free(trial->values[k]);
        }
        td__free(trial->values);
        td__free(trial->folder);
        td__free(trial->metric);
    }
    for (size_t i = 0; i < sweep->fixed_count; i++) {
        td__free(sweep->fixed[i]);
    }
    for (size_t i = 0; i < sweep->key_count; i++) {
        td__free(sweep->keys[i]);
    }
    if (sweep->lock >= 0) {
        close(sweep->lock);
    }
    td__free(sweep->trials);
    td__free(sweep->standings);
    td__free(sweep->fixed);
    td__free(sweep->keys);
    td__free(sweep->experiment);
    td__free(sweep->name);
    td__free(sweep->out);
    td__free(sweep->folder);
    td__free(sweep);
}

/* ---- Begun ---------------------------------------------------------------------------------- */

static json_t *text_list(char *const *texts, size_t count) {
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        json_array_append_new(list, json_string(texts[i]));
    }
    return list;
}

static json_t *plan_of(const td_sweep *sweep) {
    char hash[24];
    (void)snprintf(hash, sizeof hash, "%016llx", (unsigned long long)sweep->hash);
    json_t *trials = json_array();
    for (size_t i = 0; i < sweep->trial_count; i++) {
        json_array_append_new(trials, text_list(sweep->trials[i].values, sweep->key_count));
    }
    return json_pack("{s:i, s:s, s:s, s:s, s:b, s:I, s:I, s:I, s:o, s:o, s:o}", "version", 1,
                     "experiment", sweep->experiment, "hash", hash, "metric", sweep->facts.metric,
                     "larger", sweep->facts.larger, "epochs", (json_int_t)sweep->facts.epochs,
                     "factor", (json_int_t)sweep->factor, "threads",
                     (json_int_t)sweep->facts.threads, "fixed",
                     text_list(sweep->fixed, sweep->fixed_count), "keys",
                     text_list(sweep->keys, sweep->key_count), "trials", trials);
}

static td_status write_plan(const td_sweep *sweep, td_error *error) {
    json_t *plan = plan_of(sweep);
    char *text = plan ? json_dumps(plan, JSON_INDENT(1)) : NULL;
    json_decref(plan);
    int folder = text ? td__folder_open(sweep->folder, error) : -1;
    td_status status =
        !text        ? td_error_set(error, TD_MEMORY, "out of memory")
        : folder < 0 ? error->status
                     : td__file_publish(folder, "sweep.json", text, strlen(text), true, error);
    if (folder >= 0) {
        close(folder);
    }
    free(text);
    return status;
}

td_status td_sweep_begin(td_sweep *sweep, const td_sweep_facts *facts, td_error *error) {
    td_error own = {0};
    error = error ? error : &own;
    td_sweep_facts found;
    td_status status = TD_OK;
    if (!facts) {
        status = td_sweep_look(sweep, &found, error);
        facts = &found;
    }
    char path[TD__SWEEP_PATH];
    int length = snprintf(path, sizeof path, "%s/%s-sweep", sweep->out, sweep->name);
    if (!status && (length < 0 || (size_t)length >= sizeof path)) {
        status = td_error_set(error, TD_INVALID, "%s: too long a path", sweep->out);
    }
    if (!status) {
        sweep->facts = *facts;
        status = td__sweep_make_rungs(sweep, error);
    }
    status = status ? status : td__folder_claim(path, false, &sweep->folder, error);
    status = status ? status : td__folder_lock(sweep->folder, &sweep->lock, error);
    status = status ? status : make_folders(sweep, error);
    return status ? status : write_plan(sweep, error);
}

/* ---- Opened --------------------------------------------------------------------------------- */

static td_status damaged(const td_sweep *sweep, const char *what, td_error *error) {
    return td_error_set(error, TD_FORMAT, "%s/sweep.json: %s", sweep->folder, what);
}

/* The texts of a list, as many as it has; NULL when one is none, or memory ends. */
static char **read_texts(const json_t *list, size_t most, size_t *count) {
    size_t length = json_array_size(list);
    char **texts =
        json_is_array(list) && length <= most ? td__calloc(length + 1, sizeof *texts) : NULL;
    bool good = texts;
    for (*count = 0; good && *count < length; *count += good) {
        const char *text = json_string_value(json_array_get(list, *count));
        texts[*count] = text ? td__strdup(text) : NULL;
        good = texts[*count];
    }
    for (size_t i = 0; texts && !good && i < *count; i++) {
        td__free(texts[i]);
    }
    if (!good) {
        td__free(texts);
        *count = 0;
    }
    return good ? texts : NULL;
}

static td_status read_trials(td_sweep *sweep, const json_t *list, td_error *error) {
    size_t count = json_array_size(list);
    if (count < 1 || count > TD__SWEEP_MAX_TRIALS) {
        return damaged(sweep, "'trials' is no list of trials", error);
    }
    td_status status = td__sweep_make_trials(sweep, count, error);
    for (size_t i = 0; !status && i < count; i++) {
        size_t values;
        char **texts = read_texts(json_array_get(list, i), TD__SWEEP_MAX_KEYS, &values);
        td__free(sweep->trials[i].values);
        sweep->trials[i].values = values == sweep->key_count ? texts : NULL;
        if (!sweep->trials[i].values) {
            for (size_t k = 0; texts && k < values; k++) {
                td__free(texts[k]);
            }
            td__free(texts);
            status = damaged(sweep, "a trial of 'trials' has not a text for each key", error);
        }
    }
    return status;
}

static td_status take_plan(td_sweep *sweep, const json_t *plan, td_error *error) {
    json_int_t version = json_integer_value(json_object_get(plan, "version"));
    const char *experiment = json_string_value(json_object_get(plan, "experiment"));
    const char *hash = json_string_value(json_object_get(plan, "hash"));
    const char *metric = json_string_value(json_object_get(plan, "metric"));
    if (version != 1) {
        return damaged(sweep, "written by another version of tapedeck, or by another program",
                       error);
    }
    sweep->facts.epochs = json_integer_value(json_object_get(plan, "epochs"));
    sweep->facts.larger = json_is_true(json_object_get(plan, "larger"));
    sweep->factor = json_integer_value(json_object_get(plan, "factor"));
    sweep->facts.threads = json_integer_value(json_object_get(plan, "threads"));
    if (!experiment || !hash || !metric || strlen(metric) >= sizeof sweep->facts.metric ||
        sweep->facts.epochs < 1 || sweep->factor < 0 || sweep->factor == 1 ||
        sweep->factor > MAX_FACTOR || sweep->facts.threads < 1 ||
        sweep->facts.threads > MAX_THREADS) {
        return damaged(sweep, "a member is missing or makes no sense", error);
    }
    (void)snprintf(sweep->facts.metric, sizeof sweep->facts.metric, "%s", metric);
    sweep->hash = strtoull(hash, NULL, 16);
    sweep->experiment = td__strdup(experiment);
    sweep->keys = read_texts(json_object_get(plan, "keys"), TD__SWEEP_MAX_KEYS, &sweep->key_count);
    sweep->fixed =
        read_texts(json_object_get(plan, "fixed"), TD__SWEEP_MAX_KEYS, &sweep->fixed_count);
    if (!sweep->experiment || !sweep->keys || !sweep->fixed) {
        return damaged(sweep, "'keys' or 'fixed' is no list of texts", error);
    }
    return read_trials(sweep, json_object_get(plan, "trials"), error);
}

static td_status read_plan(td_sweep *sweep, td_error *error) {
    char path[TD__SWEEP_PATH + 16];
    size_t size;
    (void)snprintf(path, sizeof path, "%s/sweep.json", sweep->folder);
    if (access(path, F_OK) != 0) {
        return td_error_set(error, TD_NOT_FOUND,
                            "%s: not the folder of a sweep; expected %s, which `tapedeck sweep` "
                            "writes",
                            sweep->folder, path);
    }
    char *text = read_whole(path, MAX_PLAN, &size, error);
    json_t *plan = text ? td__json_read(path, text, size, td__json_budget(size), error) : NULL;
    td_status status = plan ? take_plan(sweep, plan, error) : error->status;
    json_decref(plan);
    td__free(text);
    return status;
}

static td_status check_experiment(const td_sweep *sweep, td_error *error) {
    uint64_t hash = 0;
    td_status status = hash_file(sweep->experiment, &hash, error);
    return status                ? status
           : hash == sweep->hash ? TD_OK
                                 : td_error_set(error, TD_STATE,
                                                "%s has changed since the sweep began: its trials "
                                                "could not be compared; begin another sweep",
                                                sweep->experiment);
}

/* After the program was killed, the processes that it started finish their step first. */
static td_status lock_folder(td_sweep *sweep, td_error *error) {
    enum { TRIES = 30 };
    td_status status = TD_BUSY;
    for (int i = 0; status == TD_BUSY && i < TRIES; i++) {
        status = td__folder_lock(sweep->folder, &sweep->lock, error);
        if (status == TD_BUSY) {
            usleep(100000);
        }
    }
    return status;
}

static td_status open_sweep(td_sweep *sweep, const char *folder, td_error *error) {
    td_status status = td__folder_find(folder, &sweep->folder, error);
    status = status ? status : read_plan(sweep, error);
    status = status ? status : check_experiment(sweep, error);
    status = status ? status : td__sweep_make_rungs(sweep, error);
    status = status ? status : make_folders(sweep, error);
    status = status ? status : lock_folder(sweep, error);
    for (size_t i = 0; !status && i < sweep->trial_count; i++) {
        status = td__trial_read(sweep, &sweep->trials[i], error);
    }
    return status;
}

td_sweep *td_sweep_open(const char *folder, td_error *error) {
    td_error own = {0};
    error = error ? error : &own;
    td_sweep *sweep = td__calloc(1, sizeof *sweep);
    if (!sweep) {
        td_error_set(error, TD_MEMORY, "out of memory");
        return NULL;
    }
    sweep->lock = -1;
    if (open_sweep(sweep, folder, error)) {
        td_sweep_destroy(sweep);
        return NULL;
    }
    return sweep;
}

/* ---- Asked ---------------------------------------------------------------------------------- */

const char *td_sweep_folder(const td_sweep *sweep) {
    return sweep->folder;
}

const td_sweep_facts *td_sweep_known(const td_sweep *sweep) {
    return &sweep->facts;
}

size_t td_sweep_keys(const td_sweep *sweep, const char *const **keys) {
    *keys = (const char *const *)sweep->keys;
    return sweep->key_count;
}

size_t td_sweep_trial_count(const td_sweep *sweep) {
    return sweep->trial_count;
}

static const char *state_of(const td_sweep *sweep, const td__trial *trial) {
    int64_t first = sweep->rung_count ? sweep->rungs[0].epochs : 1;
    return trial->end == TD__TRIAL_FINISHED   ? "finished"
           : trial->end == TD__TRIAL_DIVERGED ? "diverged"
           : trial->failed                    ? "failed"
           : trial->epochs < first            ? "waiting"
                                              : "stopped";
}

bool td_sweep_trial_at(const td_sweep *sweep, size_t index, td_sweep_trial *trial) {
    if (index >= sweep->trial_count) {
        return false;
    }
    const td__trial *from = &sweep->trials[index];
    *trial = (td_sweep_trial){.name = from->name,
                              .folder = from->folder,
                              .state = state_of(sweep, from),
                              .values = (const char *const *)from->values,
                              .epochs = from->epochs};
    trial->best = td__trial_best(sweep, from, INT64_MAX, &trial->best_epoch);
    return true;
}
