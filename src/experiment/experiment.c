/* An experiment file: its sections, and what stands beside them. */
#include "experiment/experiment.h"

#include "base/memory.h"
#include "deck/open.h"
#include "experiment/sections.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void read_name(td__checker *checker, td__yaml_node *node, void *member) {
    static const td__map_field field = {.key = "name", .kind = TD__TEXT};
    const char *name = NULL;
    td__check_field(checker, node, &field, &name);
    if (name && (!*name || *name == '.' || strchr(name, '/') || strlen(name) > 100)) {
        td__problem(
            checker, node,
            "a run's folder gets this name: it has no '/', does not begin with '.', and has "
            "at most 100 bytes");
        return;
    }
    *(const char **)member = name;
}

static void read_stop_on(td__checker *checker, td__yaml_node *node, void *member) {
    static const td__map_field field = {.key = "stop_on", .kind = TD__NAMES};
    static const char *const words[] = {"nan", "divergence", NULL};
    td_experiment *experiment = member;
    td_names names = {0};
    experiment->stop_on_nan = experiment->stop_on_divergence = false;
    if (node->kind == TD__YAML_LIST && node->count == 0) {
        return;
    }
    td__check_field(checker, node, &field, &names);
    for (size_t i = 0; i < names.count; i++) {
        bool nan = !strcmp(names.items[i], "nan"), rises = !strcmp(names.items[i], "divergence");
        experiment->stop_on_nan |= nan;
        experiment->stop_on_divergence |= rises;
        if (!nan && !rises) {
            td__problem_word(checker, node->kind == TD__YAML_LIST ? node->items[i] : node, "reason",
                             names.items[i], words);
        }
    }
}

static const char *const policies[] = {"block", "drop", "degrade", NULL};

static const td__map_field fields[] = {
    {.key = "name", .kind = TD__CUSTOM, .offset = offsetof(td_experiment, name), .read = read_name},
    {.key = "seed", .kind = TD__SEED, .offset = offsetof(td_experiment, seed), .fallback = "0"},
    {.key = "threads",
     .kind = TD__INT,
     .offset = offsetof(td_experiment, threads),
     .minimum = 1,
     .maximum = 1024},
    {.key = "data", .kind = TD__CUSTOM, .offset = 0, .read = td__read_data, .required = true},
    {.key = "model", .kind = TD__CUSTOM, .offset = 0, .read = td__read_model, .required = true},
    {.key = "weights", .kind = TD__PATH, .offset = offsetof(td_experiment, weights)},
    {.key = "train",
     .kind = TD__CUSTOM,
     .offset = offsetof(td_experiment, train),
     .read = td__read_train,
     .required = true},
    {.key = "record", .kind = TD__CUSTOM, .offset = 0, .read = td__read_record},
    {.key = "diagnose",
     .kind = TD__BOOL,
     .offset = offsetof(td_experiment, diagnose),
     .fallback = "true"},
    {.key = "stop_on", .kind = TD__CUSTOM, .offset = 0, .read = read_stop_on, .fallback = "nan"},
    {.key = "overhead",
     .kind = TD__SHARE,
     .offset = offsetof(td_experiment, overhead),
     .minimum = 1e-6,
     .maximum = 1},
    {.key = "policy",
     .kind = TD__WORD,
     .offset = offsetof(td_experiment, policy),
     .words = policies,
     .fallback = "block"},
    {.key = "queue",
     .kind = TD__BYTES,
     .offset = offsetof(td_experiment, queue),
     .minimum = TD__SMALLEST_QUEUE,
     .fallback = "256 MiB"},
    {.key = "history",
     .kind = TD__BYTES,
     .offset = offsetof(td_experiment, history),
     .fallback = "64 MiB"},
};

/* "digits" of "…/digits.yaml" */
static const char *name_of_file(td__checker *checker, const char *path) {
    const char *slash = strrchr(path, '/');
    const char *base = slash ? slash + 1 : path;
    const char *dot = strrchr(base, '.');
    size_t length = dot && dot > base ? (size_t)(dot - base) : strlen(base);
    char *name = td__check_alloc(checker, length + 1, 1);
    if (name) {
        memcpy(name, base, length);
    }
    return name;
}

static const char *folder_of_file(td__checker *checker, const char *path) {
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) + 1 : 0;
    char *folder = td__check_alloc(checker, length + 1, 1);
    if (folder) {
        memcpy(folder, path, length);
    }
    return folder;
}

/* A name that was not given becomes part of the document, first of all. */
static void fill_name(td__checker *checker, td_experiment *experiment) {
    td__yaml_node *root = td__yaml_root(experiment->yaml);
    if (experiment->name || td__yaml_get(root, "name")) {
        return;
    }
    experiment->name = name_of_file(checker, experiment->path);
    td__yaml_node *node =
        experiment->name ? td__yaml_scalar(experiment->yaml, experiment->name, false) : NULL;
    if (!node || td__yaml_put(experiment->yaml, root, "name", node)) {
        checker->exhausted = TD_MEMORY;
    }
}

static td_status check(td_experiment *experiment, const td_experiment_options *options,
                       td_error *error) {
    td__checker checker = {.yaml = experiment->yaml};
    char *path = td__check_alloc(&checker, strlen(experiment->path) + 1, 1);
    experiment->folder = folder_of_file(&checker, experiment->path);
    if (!path || !experiment->folder) {
        return td_error_set(error, TD_MEMORY, "%s: out of memory", experiment->path);
    }
    memcpy(path, experiment->path, strlen(experiment->path));
    experiment->path = path;
    checker.folder = experiment->folder;
    checker.problem = options ? options->problem : NULL;
    checker.user = options ? options->user : NULL;
    td__check_map(&checker, td__yaml_root(experiment->yaml), fields, TD__COUNT(fields), experiment);
    fill_name(&checker, experiment);
    experiment->data.struct_size = sizeof experiment->data;
    experiment->data.seed = experiment->seed;
    if (checker.exhausted) {
        return td_error_set(error, TD_MEMORY, "%s: out of memory", experiment->path);
    }
    if (checker.problems > 1) {
        return td_error_set(error, TD_INVALID, "%s (and %zu more)", checker.first.text,
                            checker.problems - 1);
    }
    return checker.problems ? td_error_set(error, TD_INVALID, "%s", checker.first.text) : TD_OK;
}

/* A document that cannot be read at all is one problem. */
static void tell(const td_experiment_options *options, const td_error *error) {
    if (options && options->problem) {
        options->problem(options->user, error->text);
    }
}

static td_status check_root(const td_experiment *experiment, td_error *error) {
    const td__yaml_node *root = td__yaml_root(experiment->yaml);
    return root->kind == TD__YAML_MAP
               ? TD_OK
               : td__experiment_problem(experiment, root, TD_FORMAT, error,
                                        "not an experiment: that is a map, with `data: …`, "
                                        "`model: …` and `train: …`");
}

td_experiment *td_experiment_read(const char *path, const td_experiment_options *options,
                                  td_error *error) {
    td_error reason = {0};
    td_experiment *experiment = td__calloc(1, sizeof *experiment);
    td_status status = experiment ? TD_OK : td_error_set(&reason, TD_MEMORY, "out of memory");
    if (!status) {
        experiment->path = path;
        experiment->yaml = td__yaml_read(path, &reason);
        status = reason.status;
    }
    if (!status) {
        status = check_root(experiment, &reason);
    }
    for (size_t i = 0; !status && options && i < options->set_count; i++) {
        status = td__yaml_set(experiment->yaml, options->set[i], &reason);
    }
    if (status) {
        tell(options, &reason);
    } else {
        status = check(experiment, options, &reason);
    }
    if (status) {
        td_error_set(error, status, "%s", reason.text);
        td_experiment_destroy(experiment);
        return NULL;
    }
    return experiment;
}

void td_experiment_destroy(td_experiment *experiment) {
    if (experiment) {
        td__yaml_destroy(experiment->yaml);
        td__free(experiment);
    }
}

const char *td_experiment_name(const td_experiment *experiment) {
    return experiment->name;
}

td_status td__experiment_problem(const td_experiment *experiment, const td__yaml_node *node,
                                 td_status status, td_error *error, const char *format, ...) {
    char what[TD_ERROR_TEXT_SIZE];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    if (!node) {
        return td_error_set(error, status, "%s: %s", experiment->path, what);
    }
    if (node->line == 0) {
        return td_error_set(error, status, "%s: %s", node->file, what);
    }
    return td_error_set(error, status, "%s:%d: %s", node->file, node->line, what);
}

char *td__experiment_write(const td_experiment *experiment, size_t *size) {
    return td__yaml_write(experiment->yaml, size);
}
