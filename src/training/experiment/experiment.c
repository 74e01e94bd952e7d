/* An experiment file: its sections, and what stands beside them. */
#include "experiment/experiment.h"

#include "base/memory.h"
#include "base/options.h"
#include "base/url.h"
#include "deck/open.h"
#include "experiment/sections.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void read_name(td__checker *checker, td__yaml_node *node, void *member) {
    bool scalar = node->kind == TD__YAML_SCALAR && !td__yaml_is_null(node);
    const char *name = scalar ? node->text : "";
    if ((!*name || *name == '.' || strchr(name, '/') || strlen(name) > 100)) {
        td__problem(
            checker, node,
            "a run's folder gets this name: it has no '/', does not begin with '.', and has "
            "at most 100 bytes");
        return;
    }
    *(const char **)member = name;
}

/* Seeds are compared to the last digit: more than a double holds. */
static void read_seed(td__checker *checker, td__yaml_node *node, void *member) {
    int64_t value;
    if (node->kind == TD__YAML_SCALAR && !node->quoted && td__text_int(node->text, &value) &&
        value >= 0) {
        *(uint64_t *)member = (uint64_t)value;
    } else {
        td__problem(checker, node, "must be a whole number of at least 0%s%s%s",
                    *node->text ? ", not '" : "", node->text, *node->text ? "'" : "");
    }
}

static void read_stop_on(td__checker *checker, td__yaml_node *node, void *member) {
    static const char *const reasons[] = {"nan", "divergence"};
    static const td__words words = {"reason", reasons, TD__COUNT(reasons), NULL, NULL};
    td_experiment *experiment = member;
    td_names names = {0};
    experiment->stop_on_nan = experiment->stop_on_divergence = false;
    if (node->kind == TD__YAML_LIST && node->count == 0) {
        return;
    }
    td__read_names(checker, node, &names);
    for (size_t i = 0; i < names.count; i++) {
        td_error reason = {0};
        int word = td__word_find(&words, names.items[i], "", &reason);
        experiment->stop_on_nan |= word == 0;
        experiment->stop_on_divergence |= word == 1;
        if (word < 0) {
            td__problem(checker, td__name_node(node, i), "%s", reason.text);
        }
    }
}

static const char *const policy_words[] = {"block", "drop", "degrade"};
static const td__words policies = {"policy", policy_words, TD__COUNT(policy_words), NULL, NULL};

/* A password in it is in the document no more. */
static void read_store(td__checker *checker, td__yaml_node *node, void *member) {
    if (node->kind != TD__YAML_SCALAR || !td__url_is(node->text)) {
        td__problem(checker, node, "must be the URL of a database: postgresql://HOST/DATABASE");
        return;
    }
    td_error reason = {0};
    char plain[TD__URL_ROOM], shown[TD__URL_ROOM];
    bool tensors;
    if (td__url_take(node->text, shown, NULL, &reason) ||
        td__url_tensors(shown, plain, &tensors, &reason)) {
        td__problem(checker, node, "%s", reason.text);
        return;
    }
    size_t size = strlen(node->text) + 1;
    char *url = td__check_alloc(checker, size, 1);
    if (url) {
        memcpy(url, node->text, size);
        (void)td_url_hide_password(url);
        node->text = url;
        *(const char **)member = url;
    }
}

#define AT(member) .offset = offsetof(td_experiment, member)
#define KEY(kind, member, key, fallback, ...)                                                      \
    TD__KEY(kind, td_experiment, member, key, fallback, __VA_ARGS__)

static const td__key keys[] = {
    {.field = {.key = "name", AT(name)}, .read = read_name},
    {.field = {.key = "seed", AT(seed)}, .read = read_seed, .fallback = "0"},
    KEY(INTEGER, threads, "threads", NULL, .minimum = 1, .maximum = 1024),
    {.field = {.key = "data", AT(data)}, .read = td__read_data, .required = true},
    {.field = {.key = "model"}, .read = td__read_model, .required = true},
    {.field = {.key = "weights", AT(weights)}, .read = td__read_path},
    {.field = {.key = "train", AT(train)}, .read = td__read_train, .required = true},
    {.field = {.key = "record"}, .read = td__read_record},
    {.field = {.key = "store", AT(store)}, .read = read_store},
    {.field = {.key = "alert"}, .read = td__read_alerts},
    KEY(BOOL, diagnose, "diagnose", "true"),
    {.field = {.key = "stop_on"}, .read = read_stop_on, .fallback = "nan"},
    KEY(SHARE, overhead, "overhead", NULL, .minimum = 1e-6, .maximum = 1),
    KEY(WORD, policy, "policy", "block", .words = &policies),
    KEY(BYTES, queue, "queue", "256 MiB", .minimum = TD__SMALLEST_QUEUE),
    KEY(BYTES, history, "history", "64 MiB"),
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

static td_status check_experiment(td_experiment *experiment, const td_experiment_options *options,
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
    checker.problem = options->problem;
    checker.user = options->user;
    td__check_map(&checker, td__yaml_root(experiment->yaml), keys, TD__COUNT(keys), experiment);
    fill_name(&checker, experiment);
    experiment->unrecorded = !td__yaml_get(td__yaml_root(experiment->yaml), "record");
    experiment->data.size = sizeof experiment->data;
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
static void report_problem(const td_experiment_options *options, const td_error *error) {
    if (options->problem) {
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
    td_experiment_options given;
    options = td__options(&given, sizeof given, options);
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
    for (size_t i = 0; !status && i < options->set_count; i++) {
        status = td__yaml_set(experiment->yaml, options->set[i], &reason);
    }
    if (status) {
        report_problem(options, &reason);
    } else {
        status = check_experiment(experiment, options, &reason);
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

int64_t td_experiment_folds(const td_experiment *experiment) {
    return experiment->data.fold ? 0 : experiment->data.folds;
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
