/* The `train:` section. */
#include "experiment/sections.h"
#include "experiment/settings.h"

#include <stdio.h>
#include <string.h>

#define AT(member) .offset = offsetof(td__train_spec, member)
#define KEY(kind, member, key, fallback, ...)                                                      \
    TD__KEY(kind, td__train_spec, member, key, fallback, __VA_ARGS__)
/* A whole number from 1 on. */
#define COUNTED(member, key, fallback)                                                             \
    KEY(INTEGER, member, key, fallback, .minimum = 1, .maximum = TD__FIELD_MANY)

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

static void read_one_loss(td__checker *checker, td__yaml_node *node, td__objective *objective) {
    td__choice choice;
    td_error error = {0};
    if (td__choice_read(checker, node, "a loss", &choice) &&
        td_loss_configure(&objective->loss, &objective->options, choice.name, choice.settings,
                          choice.count, &error)) {
        td__choice_problem(checker, &choice, &error);
    }
}

/* Whether a node names a loss: NAME, or {NAME: {…}}. */
static bool is_loss(const td__yaml_node *node) {
    td_loss loss;
    const char *name = node->kind == TD__YAML_SCALAR                    ? node->text
                       : node->kind == TD__YAML_MAP && node->count == 1 ? node->keys[0]->text
                                                                        : "";
    return !td_loss_find(name, &loss, NULL);
}

/* A loss, or {OUTPUT: LOSS, …}. */
static void read_loss(td__checker *checker, td__yaml_node *node, void *member) {
    td__train_spec *train = member;
    bool by_output =
        node->kind == TD__YAML_MAP &&
        (node->count > 1 || (node->count == 1 && !is_loss(node) && is_loss(node->items[0])));
    if (!by_output) {
        read_one_loss(checker, node, &train->objective);
        return;
    }
    train->output_losses = td__check_alloc(checker, node->count, sizeof *train->output_losses);
    for (size_t i = 0; train->output_losses && i < node->count; i++) {
        size_t mark = td__path_enter(checker, node->keys[i]->text);
        td__output_loss *loss = &train->output_losses[train->output_loss_count++];
        *loss = (td__output_loss){.output = node->keys[i]->text, .node = node->keys[i]};
        loss->objective.options.size = sizeof loss->objective.options;
        read_one_loss(checker, node->items[i], &loss->objective);
        td__path_leave(checker, mark);
    }
}

/* {OUTPUT: WEIGHT, …} */
static void read_loss_weights(td__checker *checker, td__yaml_node *node, void *member) {
    td__train_spec *train = member;
    if (node->kind != TD__YAML_MAP) {
        td__problem(checker, node, "expected {OUTPUT: WEIGHT, …}");
        return;
    }
    train->output_weights =
        td__check_alloc(checker, node->count + 1, sizeof *train->output_weights);
    for (size_t i = 0; train->output_weights && i < node->count; i++) {
        const td__yaml_node *item = node->items[i];
        td__output_weight *weight = &train->output_weights[train->output_weight_count++];
        *weight = (td__output_weight){.output = node->keys[i]->text, .node = node->keys[i]};
        if (item->kind != TD__YAML_SCALAR || !td__text_number(item->text, &weight->weight) ||
            !(weight->weight >= 0 && weight->weight <= 1e30)) {
            td__problem(checker, item, "%s: expected a number of at least 0", weight->output);
        }
    }
}

static void read_optimizer(td__checker *checker, td__yaml_node *node, void *member) {
    td__choice *choice = member;
    td_optimizer_options options = {.size = sizeof options};
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

/* OUTPUT_NAME, as Keras has it; NULL when memory is exhausted. */
static const char *name_metric(td__checker *checker, const char *output, const char *name) {
    size_t room = strlen(output) + strlen(name) + 2;
    char *both = td__check_alloc(checker, room, 1);
    if (both) {
        (void)snprintf(both, room, "%s_%s", output, name);
    }
    return both;
}

static void read_metric(td__checker *checker, td__yaml_node *node, const char *output,
                        td__train_spec *train) {
    td__choice choice;
    td__metric_spec *spec = &train->metrics[train->metric_count];
    td_error error = {0};
    if (!td__choice_read(checker, node, "a metric", &choice)) {
        return;
    }
    if (td_metric_configure(&spec->options, choice.name, choice.settings, choice.count, &error)) {
        td__choice_problem(checker, &choice, &error);
        return;
    }
    spec->name = spec->options.name ? spec->options.name : choice.name;
    spec->output = output;
    spec->node = node;
    if (!is_metric_name(spec->name)) {
        td__problem(checker, node,
                    "a metric cannot be called '%.70s': letters, digits, _ and -, at most 64, and "
                    "not loss or learning_rate",
                    spec->name);
    }
    spec->name = output ? name_metric(checker, output, spec->name) : spec->name;
    for (size_t i = 0; spec->name && i < train->metric_count; i++) {
        if (!strcmp(train->metrics[i].name, spec->name)) {
            td__problem(checker, node,
                        "two metrics are called '%s': give this one another name, {%s: {name: …}}",
                        spec->name, choice.name);
        }
    }
    train->metric_count += spec->name != NULL;
}

/* A metric, NAME or {NAME: {…}}, or a list of them; train->metrics has room. */
static void read_metrics_of(td__checker *checker, td__yaml_node *node, const char *output,
                            td__train_spec *train) {
    td__yaml_node *const *items = node->kind == TD__YAML_LIST ? node->items : &node;
    size_t count = node->kind == TD__YAML_LIST ? node->count : 1;
    for (size_t i = 0; i < count; i++) {
        size_t mark = td__path_enter_index(checker, i);
        read_metric(checker, items[i], output, train);
        td__path_leave(checker, mark);
    }
}

/* How many metrics a node can be. */
static size_t count_metrics(const td__yaml_node *node) {
    return node->kind == TD__YAML_LIST ? node->count : 1;
}

/* Metrics, or {OUTPUT: METRICS, …}. */
static void read_metrics(td__checker *checker, td__yaml_node *node, void *member) {
    td__train_spec *train = member;
    td_metric_kind kind;
    bool by_output = node->kind == TD__YAML_MAP &&
                     (node->count > 1 ||
                      (node->count == 1 && td_metric_kind_find(node->keys[0]->text, &kind, NULL) &&
                       (node->items[0]->kind == TD__YAML_LIST || train->output_losses)));
    size_t count = by_output ? 0 : count_metrics(node);
    for (size_t i = 0; by_output && i < node->count; i++) {
        count += count_metrics(node->items[i]);
    }
    train->metrics = td__check_alloc(checker, count, sizeof *train->metrics);
    if (train->metrics && !by_output) {
        read_metrics_of(checker, node, NULL, train);
    }
    for (size_t i = 0; train->metrics && by_output && i < node->count; i++) {
        size_t mark = td__path_enter(checker, node->keys[i]->text);
        read_metrics_of(checker, node->items[i], node->keys[i]->text, train);
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
    static const td__key keys[] = {
        {.field = {.key = "every"}, .read = read_checkpoint_every, .fallback = "auto"},
        COUNTED(checkpoint_keep, "keep", "2"),
        KEY(BYTES, checkpoint_budget, "budget", "1 GiB"),
        KEY(TEXT, checkpoint_best, "best", NULL),
    };
    if (node->kind == TD__YAML_SCALAR && !strcmp(node->text, "auto")) {
        node->kind = TD__YAML_MAP; /* without keys: the defaults of each */
        node->text = "";
    }
    td__check_map(checker, node, keys, TD__COUNT(keys), member);
}

static const char *const mode_words[] = {"auto", "min", "max"};
static const td__words modes = {"mode", mode_words, TD__COUNT(mode_words), NULL, NULL};

static void read_plateau(td__checker *checker, td__yaml_node *node, void *member) {
    static const td__key keys[] = {
        KEY(TEXT, plateau.monitor, "monitor", "val_loss"),
        KEY(NUMBER, plateau.factor, "factor", "0.1", .maximum = 0.999999),
        KEY(INTEGER, plateau.patience, "patience", "10"),
        KEY(WORD, plateau.mode, "mode", "auto", .words = &modes),
        KEY(NUMBER, plateau.min_delta, "min_delta", "0.0001"),
        KEY(INTEGER, plateau.cooldown, "cooldown", "0"),
        KEY(NUMBER, plateau.min_rate, "min_lr", "0"),
    };
    td__check_map(checker, node, keys, TD__COUNT(keys), member);
}

static void read_early_stopping(td__checker *checker, td__yaml_node *node, void *member) {
    static const td__key keys[] = {
        KEY(TEXT, stop_monitor, "monitor", "val_loss"),
        KEY(WORD, stop_mode, "mode", "auto", .words = &modes),
        COUNTED(stop_patience, "patience", "5"),
        KEY(NUMBER, stop_min_delta, "min_delta", "0"),
        KEY(BOOL, stop_restore_best, "restore_best", "false"),
    };
    td__check_map(checker, node, keys, TD__COUNT(keys), member);
}

/* {LAYER: {target: FILE, weight: 0.5}, …} */
static void read_layer_losses(td__checker *checker, td__yaml_node *node, void *member) {
    static const td__key keys[] = {
        {.field = {.key = "target", .offset = offsetof(td__layer_loss, target)},
         .read = td__read_path,
         .required = true},
        {.field = {.key = "weight",
                   .type = TD__FIELD_NUMBER,
                   .offset = offsetof(td__layer_loss, weight),
                   .maximum = 1e30},
         .fallback = "1"},
    };
    td__train_spec *train = member;
    if (node->kind != TD__YAML_MAP) {
        td__problem(checker, node, "expected {LAYER: {target: FILE, weight: 1}, …}");
        return;
    }
    train->layer_losses = td__check_alloc(checker, node->count + 1, sizeof *train->layer_losses);
    for (size_t i = 0; train->layer_losses && i < node->count; i++) {
        size_t mark = td__path_enter(checker, node->keys[i]->text);
        td__layer_loss *loss = &train->layer_losses[train->layer_loss_count++];
        *loss = (td__layer_loss){.layer = node->keys[i]->text, .node = node->items[i]};
        td__check_map(checker, node->items[i], keys, TD__COUNT(keys), loss);
        td__path_leave(checker, mark);
    }
}

static const char *const target_words[] = {"label", "input"};
static const td__words targets = {"target", target_words, TD__COUNT(target_words), NULL, NULL};

static const td__key train_keys[] = {
    {.field = {.key = "loss"}, .read = read_loss, .required = true},
    {.field = {.key = "loss_weights"}, .read = read_loss_weights},
    KEY(BOOL, from_logits, "from_logits", "false"),
    KEY(WORD, objective.target, "target", "label", .words = &targets),
    {.field = {.key = "optimizer", AT(optimizer)}, .read = read_optimizer, .fallback = "adam"},
    {.field = {.key = "learning_rate_schedule", AT(schedule)}, .read = read_schedule},
    KEY(NUMBER, clip_norm, "clip_norm", NULL, .minimum = 1e-30, .maximum = 1e30),
    KEY(NUMBER, clip_value, "clip_value", NULL, .minimum = 1e-30, .maximum = 1e30),
    {.field = {.key = "metrics"}, .read = read_metrics},
    {.field = {.key = "layer_losses"}, .read = read_layer_losses},
    COUNTED(epochs, "epochs", NULL),
    COUNTED(steps, "steps", NULL),
    COUNTED(verify_every, "verify_every", NULL),
    KEY(INTEGER, shards, "shards", NULL, .minimum = 1, .maximum = TD__MAX_SHARDS),
    {.field = {.key = "checkpoint"}, .read = read_checkpoint, .fallback = "auto"},
    {.field = {.key = "early_stopping"}, .read = read_early_stopping},
    {.field = {.key = "reduce_on_plateau"}, .read = read_plateau},
    {.field = {.key = "learning_rate"},
     .elsewhere = "it is the optimizer's: optimizer: {adam: "
                  "{learning_rate: 0.001}}"},
    {.field = {.key = "lr"},
     .elsewhere = "it is the optimizer's: optimizer: {adam: "
                  "{learning_rate: 0.001}}"},
    {.field = {.key = "batch"}, .elsewhere = "it is data.batch"},
    {.field = {.key = "batch_size"}, .elsewhere = "it is data.batch"},
    {.field = {.key = "validation"}, .elsewhere = "it is data.validation"},
    {.field = {.key = "validation_split"}, .elsewhere = "it is data.validation: 0.2"},
    {.field = {.key = "shuffle"}, .elsewhere = "it is data.shuffle"},
    {.field = {.key = "seed"}, .elsewhere = "it stands beside data, model and train: seed: 7"},
};

/* An option of all losses applies to each loss that has it. */
static void share_settings(td__checker *checker, td__yaml_node *node, td__train_spec *train) {
    for (size_t i = 0; i < train->output_loss_count; i++) {
        td__objective *objective = &train->output_losses[i].objective;
        objective->options.from_logits |=
            train->from_logits && td__probabilities_by(objective->loss);
    }
    train->objective.options.from_logits |= train->from_logits;
    if (train->output_loss_count) {
        if (train->objective.target == TD__TARGET_INPUT) {
            td__problem(checker, td__yaml_get(node, "target"),
                        "target: input is for a model of one output");
        }
        train->objective = train->output_losses[0].objective;
    }
}

void td__read_train(td__checker *checker, td__yaml_node *node, void *member) {
    td__train_spec *train = member;
    train->objective.options.size = sizeof train->objective.options;
    td__check_map(checker, node, train_keys, TD__COUNT(train_keys), train);
    share_settings(checker, node, train);
    if (node->kind == TD__YAML_MAP && !td__yaml_get(node, "epochs") &&
        !td__yaml_get(node, "steps")) {
        td__problem(checker, node, "epochs: N, or steps: N, is missing");
    }
    if (train->plateau.monitor && train->schedule.name) {
        td__problem(checker, node,
                    "learning_rate_schedule and reduce_on_plateau exclude each other");
    }
}
