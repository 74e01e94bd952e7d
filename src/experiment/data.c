/* The `data:` section. */
#include "experiment/sections.h"
#include "experiment/settings.h"

#include <string.h>

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
        td__check_map(checker, node, arrays, TD__COUNT(arrays), member);
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
    for (size_t i = 0; scalar && i < TD__COUNT(words); i++) {
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

/* Which way images may be mirrored, how far moved and turned, … */
static void read_augment(td__checker *checker, td__yaml_node *node, void *member) {
    static const char *const flips[] = {"none", "horizontal", "vertical", "horizontal_and_vertical",
                                        NULL};
    static const char *const fills[] = {"reflect", "nearest", "constant", "wrap", NULL};
    static const td__map_field fields[] = {
        {.key = "flip", .kind = TD__WORD, .offset = offsetof(td_augment, flip), .words = flips},
        {.key = "shift",
         .kind = TD__SHARE,
         .offset = offsetof(td_augment, shift),
         .minimum = 0,
         .maximum = 1},
        {.key = "rotate",
         .kind = TD__SHARE,
         .offset = offsetof(td_augment, rotate),
         .minimum = 0,
         .maximum = 1},
        {.key = "zoom",
         .kind = TD__SHARE,
         .offset = offsetof(td_augment, zoom),
         .minimum = 0,
         .maximum = 0.99},
        {.key = "crop",
         .kind = TD__INT,
         .offset = offsetof(td_augment, crop),
         .minimum = 0,
         .maximum = TD__MANY},
        {.key = "brightness",
         .kind = TD__NUMBER,
         .offset = offsetof(td_augment, brightness),
         .minimum = 0,
         .maximum = TD__MANY},
        {.key = "contrast",
         .kind = TD__SHARE,
         .offset = offsetof(td_augment, contrast),
         .minimum = 0,
         .maximum = 1},
        {.key = "fill", .kind = TD__WORD, .offset = offsetof(td_augment, fill), .words = fills},
    };
    td__check_map(checker, node, fields, TD__COUNT(fields), member);
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
    {.key = "input", .kind = TD__SHAPE, .offset = DATA(input), .minimum = 1, .maximum = TD__MANY},
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
     .maximum = TD__MANY,
     .fallback = "32"},
    {.key = "shuffle",
     .kind = TD__BOOL,
     .offset = offsetof(td_experiment, data_shuffle),
     .fallback = "true"},
    {.key = "memory", .kind = TD__BYTES, .offset = DATA(memory)},
    {.key = "augment", .kind = TD__CUSTOM, .offset = DATA(augment), .read = read_augment},
};

void td__read_data(td__checker *checker, td__yaml_node *node, void *member) {
    td_experiment *experiment = member;
    td__check_map(checker, node, data_fields, TD__COUNT(data_fields), experiment);
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
