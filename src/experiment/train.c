/* The `train:` section. */
#include "experiment/sections.h"
#include "experiment/settings.h"

#include <stdio.h>
#include <string.h>

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
        td__check_map(checker, options, fields, TD__COUNT(fields), &train->objective.options);
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

/* A metric's name is a column's and a file's. */
static bool is_metric_name(const char *name) {
    static const char *const taken[] = {"loss", "learning_rate", "gradient_norm"};
    size_t length =
        strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
    bool free = true;
    for (size_t i = 0; i < TD__COUNT(taken); i++) {
        free = free && strcmp(name, taken[i]) != 0;
    }
    return free && length > 0 && length <= 64 && !name[length];
}

static void read_metric(td__checker *checker, td__yaml_node *node, td__train_spec *train) {
    td__choice choice;
    td__metric_spec *spec = &train->metrics[train->metric_count];
    td_error error = {0};
    td_metric_kind kind;
    if (!td__choice_read(checker, node, "a metric", &choice)) {
        return;
    }
    if (td_metric_kind_find(choice.name, &kind, &error)) {
        const char *words[TD_METRIC_KIND_COUNT + 1] = {NULL};
        for (int i = 0; i < TD_METRIC_KIND_COUNT; i++) {
            words[i] = td_metric_kind_name((td_metric_kind)i);
        }
        td__problem_word(checker, node, "metric", choice.name, words);
        return;
    }
    if (td_metric_configure(&spec->options, choice.name, choice.settings, choice.count, &error)) {
        td__choice_problem(checker, &choice, &error);
        return;
    }
    spec->name = spec->options.name ? spec->options.name : choice.name;
    if (!is_metric_name(spec->name)) {
        td__problem(checker, node,
                    "a metric cannot be called '%.70s': letters, digits, _ and -, at most 64, and "
                    "not loss or learning_rate",
                    spec->name);
    }
    for (size_t i = 0; i < train->metric_count; i++) {
        if (!strcmp(train->metrics[i].name, spec->name)) {
            td__problem(checker, node,
                        "two metrics are called '%s': give this one another name, {%s: {name: …}}",
                        spec->name, choice.name);
        }
    }
    train->metric_count++;
}

/* A metric, NAME or {NAME: {…}}, or a list of them. */
static void read_metrics(td__checker *checker, td__yaml_node *node, void *member) {
    td__train_spec *train = member;
    td__yaml_node *const *items = node->kind == TD__YAML_LIST ? node->items : &node;
    size_t count = node->kind == TD__YAML_LIST ? node->count : 1;
    train->metrics = td__check_alloc(checker, count, sizeof *train->metrics);
    for (size_t i = 0; train->metrics && i < count; i++) {
        size_t mark = td__path_enter_index(checker, i);
        read_metric(checker, items[i], train);
        td__path_leave(checker, mark);
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
         .maximum = TD__MANY,
         .fallback = "2"},
        {.key = "best", .kind = TD__TEXT, .offset = offsetof(td__train_spec, checkpoint_best)},
    };
    if (node->kind == TD__YAML_SCALAR && !strcmp(node->text, "auto")) {
        node->kind = TD__YAML_MAP; /* with nothing said: the defaults of each */
        node->text = "";
    }
    td__check_map(checker, node, fields, TD__COUNT(fields), member);
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
         .maximum = TD__MANY,
         .fallback = "5"},
        {.key = "min_delta",
         .kind = TD__NUMBER,
         .offset = offsetof(td__train_spec, stop_min_delta),
         .minimum = 0,
         .maximum = TD__MANY,
         .fallback = "0"},
        {.key = "restore_best",
         .kind = TD__BOOL,
         .offset = offsetof(td__train_spec, stop_restore_best),
         .fallback = "false"},
    };
    td__check_map(checker, node, fields, TD__COUNT(fields), member);
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
    {.key = "metrics", .kind = TD__CUSTOM, .offset = 0, .read = read_metrics},
    {.key = "epochs",
     .kind = TD__INT,
     .offset = offsetof(td__train_spec, epochs),
     .minimum = 1,
     .maximum = TD__MANY},
    {.key = "steps",
     .kind = TD__INT,
     .offset = offsetof(td__train_spec, steps),
     .minimum = 1,
     .maximum = TD__MANY},
    {.key = "checkpoint",
     .kind = TD__CUSTOM,
     .offset = 0,
     .read = read_checkpoint,
     .fallback = "auto"},
    {.key = "early_stopping", .kind = TD__CUSTOM, .offset = 0, .read = read_early_stopping},
};

void td__read_train(td__checker *checker, td__yaml_node *node, void *member) {
    td__train_spec *train = member;
    train->objective.options.size = sizeof train->objective.options;
    td__check_map(checker, node, train_fields, TD__COUNT(train_fields), train);
    if (node->kind == TD__YAML_MAP && !td__yaml_get(node, "epochs") &&
        !td__yaml_get(node, "steps")) {
        td__problem(checker, node, "epochs: N, or steps: N, is missing");
    }
}
