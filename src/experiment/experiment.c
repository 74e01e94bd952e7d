/* The sections of an experiment file, as tables of their keys. */
#include "experiment/experiment.h"

#include "base/memory.h"
#include "deck/open.h"
#include "experiment/record.h"
#include "experiment/settings.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define COUNT(table) (sizeof(table) / sizeof *(table))
#define MANY 1e15 /* an upper bound that means: none */

/* ---- data ------------------------------------------------------------------------------------ */

/* A share, or a file of its own. */
static void read_validation(td__checker *checker, td__yaml_node *node, void *member) {
    td_data_options *data = member;
    double share;
    if (node->kind == TD__YAML_SCALAR && td__text_number(node->text, &share)) {
        static const td__map_field field = {.key = "validation",
                                            .kind = TD__NUMBER,
                                            .offset = offsetof(td_data_options, validation_share),
                                            .minimum = 0,
                                            .maximum = 0.999};
        td__check_field(checker, node, &field, data);
        return;
    }
    static const td__map_field file = {
        .key = "validation", .kind = TD__PATH, .offset = offsetof(td_data_options, validation)};
    td__check_field(checker, node, &file, data);
}

/* A column's name, a list of them, or {x: NAME, y: NAME} of an .npz. */
static void read_label(td__checker *checker, td__yaml_node *node, void *member) {
    static const td__map_field arrays[] = {
        {.key = "x", .kind = TD__TEXT, .offset = offsetof(td_data_options, x)},
        {.key = "y", .kind = TD__TEXT, .offset = offsetof(td_data_options, y)},
    };
    static const td__map_field columns = {
        .key = "label", .kind = TD__NAMES, .offset = offsetof(td_data_options, label)};
    if (node->kind == TD__YAML_MAP) {
        td__check_map(checker, node, arrays, COUNT(arrays), member);
    } else {
        td__check_field(checker, node, &columns, member);
    }
}

static void read_generate(td__checker *checker, td__yaml_node *node, void *member) {
    td_generate_options *generate = member;
    td__choice choice;
    if (!td__choice_read(checker, node, "a generator", &choice)) {
        return;
    }
    generate->name = choice.name;
    for (size_t i = 0; i < choice.count; i++) {
        td_error error = {0};
        const td_setting *setting = &choice.settings[i];
        if (setting->value.kind != TD_VALUE_NUMBER) {
            td_error_set(&error, TD_INVALID, "%s: expected a number", setting->key);
        } else if (td_generate_set(generate, setting->key, setting->value.number, &error) ==
                   TD_OK) {
            continue;
        }
        td__choice_problem(checker, &choice, &error);
    }
}

static void read_header(td__checker *checker, td__yaml_node *node, void *member) {
    static const td__map_field field = {.key = "header", .kind = TD__BOOL};
    bool header = false;
    size_t problems = checker->problems;
    td__check_field(checker, node, &field, &header);
    if (checker->problems == problems) {
        *(td_header *)member = header ? TD_HEADER_YES : TD_HEADER_NO;
    }
}

/* mean, drop, or the number that stands for a missing value. */
static void read_missing(td__checker *checker, td__yaml_node *node, void *member) {
    static const struct {
        const char *word;
        td_missing missing;
    } words[] = {{"mean", TD_MISSING_MEAN}, {"drop", TD_MISSING_DROP}};
    td_data_options *data = member;
    bool scalar = node->kind == TD__YAML_SCALAR;
    if (scalar && td__text_number(node->text, &data->missing_value)) {
        data->missing = TD_MISSING_VALUE;
        return;
    }
    for (size_t i = 0; scalar && i < COUNT(words); i++) {
        if (!strcmp(node->text, words[i].word)) {
            data->missing = words[i].missing;
            return;
        }
    }
    td__problem(checker, node,
                "expected mean, drop, or a number to put in the place of missing values");
}

/* One character, or the word tab. */
static void read_separator(td__checker *checker, td__yaml_node *node, void *member) {
    bool scalar = node->kind == TD__YAML_SCALAR;
    const char *text = scalar && !strcmp(node->text, "tab") ? "\t" : scalar ? node->text : "";
    if (strlen(text) == 1 && strchr(",;\t|", *text)) {
        *(char *)member = *text;
    } else {
        td__problem(checker, node, "expected \",\", \";\", \"|\" or tab");
    }
}

/* balanced, or {CLASS: WEIGHT, …}. */
static void read_class_weight(td__checker *checker, td__yaml_node *node, void *member) {
    td_data_options *data = member;
    if (node->kind == TD__YAML_SCALAR && !strcmp(node->text, "balanced")) {
        data->balanced = true;
        return;
    }
    if (node->kind != TD__YAML_MAP) {
        td__problem(checker, node, "expected balanced, or {CLASS: WEIGHT, …}");
        return;
    }
    const char **names = td__check_alloc(checker, node->count + 1, sizeof *names);
    double *weights = td__check_alloc(checker, node->count + 1, sizeof *weights);
    for (size_t i = 0; names && weights && i < node->count; i++) {
        names[i] = node->keys[i]->text;
        if (node->items[i]->kind != TD__YAML_SCALAR ||
            !td__text_number(node->items[i]->text, &weights[i]) || !(weights[i] >= 0)) {
            td__problem(checker, node->items[i], "expected a number of at least 0");
        }
    }
    data->weighted_classes = (td_names){names, names && weights ? node->count : 0};
    data->class_weights = weights;
}

static const char *const layouts[] = {"as_is", "channels_last", "channels_first", NULL};
static const char *const label_kinds[] = {"auto", "class", "values", "one_hot", "none", NULL};

#define DATA(member) offsetof(td_experiment, data) + offsetof(td_data_options, member)
static const td__map_field data_fields[] = {
    {.key = "train", .kind = TD__PATH, .offset = DATA(train)},
    {.key = "generate", .kind = TD__CUSTOM, .offset = DATA(generate), .read = read_generate},
    {.key = "labels", .kind = TD__PATH, .offset = DATA(labels)},
    {.key = "validation",
     .kind = TD__CUSTOM,
     .offset = offsetof(td_experiment, data),
     .read = read_validation},
    {.key = "validation_labels", .kind = TD__PATH, .offset = DATA(validation_labels)},
    {.key = "input", .kind = TD__SHAPE, .offset = DATA(input), .minimum = 1, .maximum = MANY},
    {.key = "label",
     .kind = TD__CUSTOM,
     .offset = offsetof(td_experiment, data),
     .read = read_label},
    {.key = "label_kind", .kind = TD__WORD, .offset = DATA(label_kind), .words = label_kinds},
    {.key = "layout", .kind = TD__WORD, .offset = DATA(layout), .words = layouts},
    {.key = "ignore", .kind = TD__NAMES, .offset = DATA(ignore)},
    {.key = "categories", .kind = TD__NAMES, .offset = DATA(categories)},
    {.key = "weight", .kind = TD__TEXT, .offset = DATA(weight)},
    {.key = "class_weight",
     .kind = TD__CUSTOM,
     .offset = offsetof(td_experiment, data),
     .read = read_class_weight},
    {.key = "missing",
     .kind = TD__CUSTOM,
     .offset = offsetof(td_experiment, data),
     .read = read_missing},
    {.key = "separator", .kind = TD__CUSTOM, .offset = DATA(separator), .read = read_separator},
    {.key = "header", .kind = TD__CUSTOM, .offset = DATA(header), .read = read_header},
    {.key = "scale", .kind = TD__NUMBER, .offset = DATA(scale), .fallback = "1"},
    {.key = "standardize", .kind = TD__BOOL, .offset = DATA(standardize), .fallback = "false"},
    {.key = "standardize_labels",
     .kind = TD__BOOL,
     .offset = DATA(standardize_labels),
     .fallback = "false"},
    {.key = "batch",
     .kind = TD__INT,
     .offset = DATA(batch),
     .minimum = 1,
     .maximum = MANY,
     .fallback = "32"},
    {.key = "shuffle",
     .kind = TD__BOOL,
     .offset = offsetof(td_experiment, data_shuffle),
     .fallback = "true"},
    {.key = "memory", .kind = TD__BYTES, .offset = DATA(memory)},
};

static void read_data(td__checker *checker, td__yaml_node *node, void *member) {
    td_experiment *experiment = member;
    td__check_map(checker, node, data_fields, COUNT(data_fields), experiment);
    const td_data_options *data = &experiment->data;
    bool has_train = node->kind == TD__YAML_MAP && td__yaml_get(node, "train");
    bool has_generate = node->kind == TD__YAML_MAP && td__yaml_get(node, "generate");
    if (node->kind == TD__YAML_MAP && has_train == has_generate) {
        td__problem(checker, node,
                    has_train ? "train and generate exclude each other"
                              : "train: FILE, or generate: {…}, is missing");
    }
    if (data->label.count && data->y) {
        td__problem(checker, node, "label: columns, or {x, y} of an .npz, not both");
    }
    experiment->data.in_order = !experiment->data_shuffle;
}

/* ---- model ----------------------------------------------------------------------------------- */

/* `from: [a, b]` as a layer alone can have it: the model's input, as often. */
static td_setting from_input(const td_setting *from) {
    static const char *const inputs[] = {"input", "input", "input", "input"};
    size_t count = from->value.kind == TD_VALUE_TEXTS ? from->value.count : 1;
    size_t most = sizeof inputs / sizeof *inputs;
    return (td_setting){
        from->key, {.kind = TD_VALUE_TEXTS, .texts = inputs, .count = count < most ? count : most}};
}

/* Tries the layer alone: what nn says of its kind, keys and values. Shapes, and the names of other
 * layers, come later, when the data is known. */
static void check_layer(td__checker *checker, const td__choice *layer) {
    td_model *alone = td_model_create("", TD_SHAPE(-1));
    td_setting *settings = td__check_alloc(checker, layer->count, sizeof *settings);
    for (size_t i = 0; settings && i < layer->count; i++) {
        const td_setting *setting = &layer->settings[i];
        settings[i] = strcmp(setting->key, "from") ? *setting : from_input(setting);
    }
    td_error error = {0};
    td_status status = settings && alone
                           ? td_model_add(alone, layer->name, settings, layer->count, &error)
                           : TD_OK;
    if (status && status != TD_BAD_SHAPE && status != TD_STATE && status != TD_MEMORY &&
        status != TD_DTYPE) {
        td__choice_problem(checker, layer, &error);
    }
    td_model_destroy(alone);
}

static void read_layers(td__checker *checker, td__yaml_node *node, td_experiment *experiment) {
    experiment->layers = td__check_alloc(checker, node->count, sizeof(td__choice));
    for (size_t i = 0; experiment->layers && i < node->count; i++) {
        size_t mark = td__path_enter_index(checker, i);
        td__choice *layer = &experiment->layers[experiment->layer_count];
        if (td__choice_read(checker, node->items[i], "a layer", layer)) {
            check_layer(checker, layer);
            experiment->layer_count++;
        }
        td__path_leave(checker, mark);
    }
    if (node->count == 0) {
        td__problem(checker, node, "expected at least one layer");
    }
}

static void read_model(td__checker *checker, td__yaml_node *node, void *member) {
    static const td__map_field fields[] = {
        {.key = "file",
         .kind = TD__PATH,
         .offset = offsetof(td_experiment, model_file),
         .required = true},
        {.key = "frozen", .kind = TD__NAMES, .offset = offsetof(td_experiment, frozen)}};
    if (node->kind == TD__YAML_LIST) {
        read_layers(checker, node, member);
    } else if (node->kind == TD__YAML_MAP) {
        td__check_map(checker, node, fields, COUNT(fields), member);
    } else {
        td__problem(checker, node,
                    "expected a list of layers, or {file: MODEL, frozen: [LAYER, …]}");
    }
}

/* ---- train ----------------------------------------------------------------------------------- */

void td__read_interval(td__checker *checker, td__yaml_node *node, void *member) {
    td__interval *interval = member;
    char unit[16] = "steps";
    long long number = 0;
    int used = 0;
    bool good = node->kind == TD__YAML_SCALAR && *node->text >= '0' && *node->text <= '9' &&
                sscanf(node->text, "%18lld%n %15s%n", &number, &used, unit, &used) >= 1 &&
                !node->text[used] && number >= 1;
    bool epochs = good && (!strcmp(unit, "epoch") || !strcmp(unit, "epochs"));
    bool steps = good && (!strcmp(unit, "step") || !strcmp(unit, "steps"));
    if (!epochs && !steps) {
        td__problem(checker, node, "expected 'N steps' or 'N epochs'%s%s%s",
                    node->kind == TD__YAML_SCALAR ? ", not '" : "",
                    node->kind == TD__YAML_SCALAR ? node->text : "",
                    node->kind == TD__YAML_SCALAR ? "'" : "");
        return;
    }
    *interval = epochs ? (td__interval){.epochs = number} : (td__interval){.steps = number};
}

static void read_loss(td__checker *checker, td__yaml_node *node, void *member) {
    static const td__map_field fields[] = {
        {.key = "delta",
         .kind = TD__FLOAT,
         .offset = offsetof(td_loss_options, delta),
         .minimum = 1e-30,
         .maximum = 1e30},
        {.key = "label_smoothing",
         .kind = TD__FLOAT,
         .offset = offsetof(td_loss_options, label_smoothing),
         .minimum = 0,
         .maximum = 1},
        {.key = "gamma",
         .kind = TD__FLOAT,
         .offset = offsetof(td_loss_options, gamma),
         .minimum = 1e-6,
         .maximum = 100},
        {.key = "alpha",
         .kind = TD__FLOAT,
         .offset = offsetof(td_loss_options, alpha),
         .minimum = 1e-6,
         .maximum = 1},
        {.key = "balanced", .kind = TD__BOOL, .offset = offsetof(td_loss_options, balanced)},
    };
    td__train_spec *train = member;
    const td__yaml_node *name;
    td__yaml_node *options;
    if (!td__check_choice(checker, node, "a loss", &name, &options)) {
        return;
    }
    td_error error = {0};
    if (td_loss_find(name->text, &train->objective.loss, &error)) {
        const char *words[TD_LOSS_COUNT + 1] = {NULL};
        for (int i = 0; i < TD_LOSS_COUNT; i++) {
            words[i] = td_loss_name((td_loss)i);
        }
        td__problem_word(checker, name, "loss", name->text, words);
    } else if (options && !td__yaml_is_null(options)) {
        td__check_map(checker, options, fields, COUNT(fields), &train->objective.options);
        if (td_loss_check(train->objective.loss, &train->objective.options, &error)) {
            td__problem(checker, options, "%s", error.text);
        }
    }
}

static void read_optimizer(td__checker *checker, td__yaml_node *node, void *member) {
    td__choice *choice = member;
    td_optimizer_options options = {.struct_size = sizeof options};
    td_error error = {0};
    if (td__choice_read(checker, node, "an optimizer", choice) &&
        td_optimizer_configure(&options, choice->name, choice->settings, choice->count, &error)) {
        td__choice_problem(checker, choice, &error);
    }
}

static void read_schedule(td__checker *checker, td__yaml_node *node, void *member) {
    td__choice *choice = member;
    td_schedule schedule = {0};
    td_error error = {0};
    if (td__choice_read(checker, node, "a schedule", choice) &&
        td_schedule_configure(&schedule, choice->name, choice->settings, choice->count, &error)) {
        td__choice_problem(checker, choice, &error);
    }
}

static void read_metrics(td__checker *checker, td__yaml_node *node, void *member) {
    static const td__map_field field = {.key = "metrics", .kind = TD__NAMES};
    td_names *metrics = member;
    if (node->kind == TD__YAML_LIST && node->count == 0) {
        return;
    }
    td__check_field(checker, node, &field, metrics);
    const char *words[TD_METRIC_KIND_COUNT + 1] = {NULL};
    for (int i = 0; i < TD_METRIC_KIND_COUNT; i++) {
        words[i] = td_metric_kind_name((td_metric_kind)i);
    }
    for (size_t i = 0; i < metrics->count; i++) {
        td_metric_kind kind;
        td_error error = {0};
        if (td_metric_kind_find(metrics->items[i], &kind, &error)) {
            td__problem_word(checker, node->kind == TD__YAML_LIST ? node->items[i] : node, "metric",
                             metrics->items[i], words);
        }
    }
}

/* auto: after each epoch, as long as that costs next to nothing. */
static void read_checkpoint_every(td__checker *checker, td__yaml_node *node, void *member) {
    td__train_spec *train = member;
    train->checkpoint_sparing = node->kind == TD__YAML_SCALAR && !strcmp(node->text, "auto");
    if (train->checkpoint_sparing) {
        train->checkpoint_every = (td__interval){.epochs = 1};
    } else {
        td__read_interval(checker, node, &train->checkpoint_every);
    }
}

static void read_checkpoint(td__checker *checker, td__yaml_node *node, void *member) {
    static const td__map_field fields[] = {
        {.key = "every",
         .kind = TD__CUSTOM,
         .offset = 0,
         .read = read_checkpoint_every,
         .fallback = "auto"},
        {.key = "keep",
         .kind = TD__INT,
         .offset = offsetof(td__train_spec, checkpoint_keep),
         .minimum = 1,
         .maximum = MANY,
         .fallback = "2"},
        {.key = "best", .kind = TD__TEXT, .offset = offsetof(td__train_spec, checkpoint_best)},
    };
    if (node->kind == TD__YAML_SCALAR && !strcmp(node->text, "auto")) {
        node->kind = TD__YAML_MAP; /* with nothing said: the defaults of each */
        node->text = "";
    }
    td__check_map(checker, node, fields, COUNT(fields), member);
}

static void read_early_stopping(td__checker *checker, td__yaml_node *node, void *member) {
    static const char *const modes[] = {"auto", "min", "max", NULL};
    static const td__map_field fields[] = {
        {.key = "monitor",
         .kind = TD__TEXT,
         .offset = offsetof(td__train_spec, stop_monitor),
         .fallback = "val_loss"},
        {.key = "mode",
         .kind = TD__WORD,
         .offset = offsetof(td__train_spec, stop_mode),
         .words = modes,
         .fallback = "auto"},
        {.key = "patience",
         .kind = TD__INT,
         .offset = offsetof(td__train_spec, stop_patience),
         .minimum = 1,
         .maximum = MANY,
         .fallback = "5"},
        {.key = "min_delta",
         .kind = TD__NUMBER,
         .offset = offsetof(td__train_spec, stop_min_delta),
         .minimum = 0,
         .maximum = MANY,
         .fallback = "0"},
        {.key = "restore_best",
         .kind = TD__BOOL,
         .offset = offsetof(td__train_spec, stop_restore_best),
         .fallback = "false"},
    };
    td__check_map(checker, node, fields, COUNT(fields), member);
}

static const char *const targets[] = {"label", "input", NULL};

static const td__map_field train_fields[] = {
    {.key = "loss", .kind = TD__CUSTOM, .offset = 0, .read = read_loss, .required = true},
    {.key = "from_logits",
     .kind = TD__BOOL,
     .offset = offsetof(td__train_spec, objective.options.from_logits),
     .fallback = "false"},
    {.key = "target",
     .kind = TD__WORD,
     .offset = offsetof(td__train_spec, objective.target),
     .words = targets,
     .fallback = "label"},
    {.key = "optimizer",
     .kind = TD__CUSTOM,
     .offset = offsetof(td__train_spec, optimizer),
     .read = read_optimizer,
     .fallback = "adam"},
    {.key = "learning_rate_schedule",
     .kind = TD__CUSTOM,
     .offset = offsetof(td__train_spec, schedule),
     .read = read_schedule},
    {.key = "clip_norm",
     .kind = TD__NUMBER,
     .offset = offsetof(td__train_spec, clip_norm),
     .minimum = 1e-30,
     .maximum = 1e30},
    {.key = "clip_value",
     .kind = TD__NUMBER,
     .offset = offsetof(td__train_spec, clip_value),
     .minimum = 1e-30,
     .maximum = 1e30},
    {.key = "metrics",
     .kind = TD__CUSTOM,
     .offset = offsetof(td__train_spec, metrics),
     .read = read_metrics},
    {.key = "epochs",
     .kind = TD__INT,
     .offset = offsetof(td__train_spec, epochs),
     .minimum = 1,
     .maximum = MANY},
    {.key = "steps",
     .kind = TD__INT,
     .offset = offsetof(td__train_spec, steps),
     .minimum = 1,
     .maximum = MANY},
    {.key = "checkpoint",
     .kind = TD__CUSTOM,
     .offset = 0,
     .read = read_checkpoint,
     .fallback = "auto"},
    {.key = "early_stopping", .kind = TD__CUSTOM, .offset = 0, .read = read_early_stopping},
};

static void read_train(td__checker *checker, td__yaml_node *node, void *member) {
    td__train_spec *train = member;
    train->objective.options.size = sizeof train->objective.options;
    td__check_map(checker, node, train_fields, COUNT(train_fields), train);
    if (node->kind == TD__YAML_MAP && !td__yaml_get(node, "epochs") &&
        !td__yaml_get(node, "steps")) {
        td__problem(checker, node, "epochs: N, or steps: N, is missing");
    }
}

/* ---- the file -------------------------------------------------------------------------------- */

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
    {.key = "data", .kind = TD__CUSTOM, .offset = 0, .read = read_data, .required = true},
    {.key = "model", .kind = TD__CUSTOM, .offset = 0, .read = read_model, .required = true},
    {.key = "weights", .kind = TD__PATH, .offset = offsetof(td_experiment, weights)},
    {.key = "train",
     .kind = TD__CUSTOM,
     .offset = offsetof(td_experiment, train),
     .read = read_train,
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
    td__check_map(&checker, td__yaml_root(experiment->yaml), fields, COUNT(fields), experiment);
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
