/* The `data:` section. */
#include "data/date.h"
#include "data/text.h"
#include "experiment/sections.h"
#include "experiment/settings.h"

#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define AT(member) .offset = offsetof(td_data_options, member)
#define KEY(kind, member, key, fallback, ...)                                                      \
    TD__KEY(kind, td_data_options, member, key, fallback, __VA_ARGS__)

/* {NAME: COLUMN, [COLUMN, …], ARRAY or FILE, …}. Which of these it is, the file behind `train` says: a
 * file that is there, where none of the others can be meant, is made absolute in the document. */
static void read_pieces(td__checker *checker, td__yaml_node *node, td_pieces *pieces) {
    td_piece *items = td__check_alloc(checker, node->count + 1, sizeof *items);
    for (size_t i = 0; items && i < node->count; i++) {
        td__yaml_node *item = node->items[i];
        size_t mark = td__path_enter(checker, node->keys[i]->text);
        items[i].name = node->keys[i]->text;
        td__read_names(checker, item, &items[i].from);
        td__path_leave(checker, mark);
    }
    *pieces = (td_pieces){items, items ? node->count : 0};
    if (node->count == 0) {
        td__problem(checker, node, "expected {NAME: …}");
    }
}

/* Files of pieces must be there, and stay what they are wherever the document is read again. */
static void settle_files(td__checker *checker, td__yaml_node *node, td_pieces *pieces) {
    td_piece *items = (td_piece *)(uintptr_t)pieces->items;
    for (size_t i = 0; i < pieces->count; i++) {
        size_t mark = td__path_enter(checker, node->keys[i]->text);
        td__read_path(checker, node->items[i], &items[i].path);
        td__path_leave(checker, mark);
    }
}

static void read_inputs(td__checker *checker, td__yaml_node *node, void *member) {
    td_data_options *data = member;
    if (node->kind != TD__YAML_MAP) {
        td__problem(checker, node,
                    "expected {INPUT: FILE, …}; or, of `train`, {INPUT: COLUMNS or "
                    "ARRAY, …}");
        return;
    }
    read_pieces(checker, node, &data->input_pieces);
}

/* A file, or {OUTPUT: …} as inputs have it. */
static void read_labels(td__checker *checker, td__yaml_node *node, void *member) {
    td_data_options *data = member;
    if (node->kind == TD__YAML_MAP) {
        read_pieces(checker, node, &data->label_pieces);
    } else {
        td__read_path(checker, node, &data->labels);
    }
}

static void read_validation_labels(td__checker *checker, td__yaml_node *node, void *member) {
    td_data_options *data = member;
    if (node->kind == TD__YAML_MAP) {
        read_pieces(checker, node, &data->validation_label_pieces);
    } else {
        td__read_path(checker, node, &data->validation_labels);
    }
}

/* 0.2, or 20 %. */
static bool is_share(const td__yaml_node *node) {
    size_t length = node->kind == TD__YAML_SCALAR ? strlen(node->text) : 0;
    char number[32];
    double value;
    if (length == 0 || length >= sizeof number) {
        return false;
    }
    memcpy(number, node->text, length + 1);
    if (number[length - 1] == '%') {
        number[--length] = 0;
        while (length && number[length - 1] == ' ') {
            number[--length] = 0;
        }
    }
    return td__text_number(number, &value);
}

/* Puts the files that a pattern means into the list, by name. */
static void expand(td__checker *checker, td__yaml_node *node, td__yaml_node *list) {
    glob_t found = {0};
    size_t room = strlen(checker->folder) + strlen(node->text) + 1;
    char *pattern = td__check_alloc(checker, room, 1);
    if (!pattern) {
        return;
    }
    (void)snprintf(pattern, room, "%s%s", *node->text == '/' ? "" : checker->folder, node->text);
    if (glob(pattern, 0, NULL, &found)) {
        td__problem(checker, node, "no file fits '%s'", pattern);
    }
    for (size_t i = 0; i < found.gl_pathc; i++) {
        char *path = td__check_alloc(checker, strlen(found.gl_pathv[i]) + 1, 1);
        td__yaml_node *item = path ? td__yaml_scalar(checker->yaml, path, true) : NULL;
        if (item) {
            (void)strcpy(path, found.gl_pathv[i]);
            item->text = path;
            item->file = node->file;
            item->line = node->line;
        }
        if (!item || td__yaml_append(checker->yaml, list, item)) {
            checker->exhausted = TD_MEMORY;
        }
    }
    globfree(&found);
}

/* A file or folder; a pattern of CSV files, or a list of them: rows one after the other. The document gets their paths. */
static void read_train(td__checker *checker, td__yaml_node *node, void *member) {
    td_data_options *data = member;
    bool pattern = node->kind == TD__YAML_SCALAR && node->text[strcspn(node->text, "*?[")];
    size_t room = strlen(checker->folder) + strlen(node->text) + 1;
    char *literal = pattern ? td__check_alloc(checker, room, 1) : NULL;
    if (literal) { /* a name with such a character in it */
        (void)snprintf(literal, room, "%s%s", *node->text == '/' ? "" : checker->folder,
                       node->text);
        pattern = access(literal, F_OK) != 0;
    }
    if (node->kind == TD__YAML_MAP || (node->kind == TD__YAML_SCALAR && !pattern)) {
        td__read_path(checker, node, &data->train);
        return;
    }
    if (pattern) {
        td__yaml_node *list = td__yaml_list(checker->yaml);
        if (list) {
            list->file = node->file;
            list->line = node->line;
            expand(checker, node, list);
            *node = *list;
        }
    }
    const char **paths = td__check_alloc(checker, node->count + 1, sizeof *paths);
    if (node->count == 0 && !pattern) {
        td__problem(checker, node, "expected a file's name, or a list of them");
    }
    for (size_t i = 0; paths && i < node->count; i++) {
        td__read_path(checker, node->items[i], &paths[i]);
    }
    if (paths && node->count) {
        data->train = paths[0];
        data->more = (td_names){paths + 1, node->count - 1};
    }
}

static void read_stratified(td__checker *checker, td__yaml_node *node, void *member) {
    static const td__field field = {.type = TD__FIELD_BOOL};
    bool stratified = false;
    td_value value;
    td_error reason = {0};
    if (!td__check_value(checker, node, &value)) {
        return;
    }
    if (td__field_set(&field, &stratified, &value, &reason)) {
        td__problem(checker, node, "%s", reason.text);
    } else {
        *(td_split *)member = stratified ? TD_SPLIT_STRATIFIED : TD_SPLIT_RANDOM;
    }
}

/* {share: 0.2, stratified: true}, {folds: 5}: how it is drawn. */
static const td__key drawn_keys[] = {
    {.field = {.key = "share", .type = TD__FIELD_SHARE, AT(validation_share), .maximum = 0.999}},
    {.field = {.key = "stratified", AT(split)}, .read = read_stratified},
    {.field =
         {.key = "folds", .type = TD__FIELD_INTEGER, AT(folds), .minimum = 2, .maximum = 1000}},
    {.field = {.key = "fold", .type = TD__FIELD_INTEGER, AT(fold), .minimum = 1, .maximum = 1000}},
};

static bool is_drawn(const td__yaml_node *node) {
    size_t known = 0;
    for (size_t i = 0; i < node->count; i++) {
        for (size_t k = 0; k < TD__COUNT(drawn_keys); k++) {
            known += !strcmp(node->keys[i]->text, drawn_keys[k].field.key);
        }
    }
    return node->count && known == node->count;
}

static void read_drawn(td__checker *checker, td__yaml_node *node, td_data_options *data) {
    td__check_map(checker, node, drawn_keys, TD__COUNT(drawn_keys), data);
    if ((data->folds > 0) == (data->validation_share > 0)) {
        td__problem(checker, node, "expected share or folds");
    } else if (data->fold > data->folds) {
        td__problem(checker, node,
                    data->folds ? "fold is one of folds, from 1" : "fold goes with folds");
    }
}

/* A share, a file of its own, or the files of several inputs. */
static void read_validation(td__checker *checker, td__yaml_node *node, void *member) {
    static const td__field field = {
        .type = TD__FIELD_SHARE, AT(validation_share), .maximum = 0.999};
    td_data_options *data = member;
    td_value value = {.kind = TD_VALUE_TEXT, .text = node->text};
    td_error reason = {0};
    if (node->kind == TD__YAML_MAP && is_drawn(node)) {
        read_drawn(checker, node, data);
    } else if (node->kind == TD__YAML_MAP) {
        read_pieces(checker, node, &data->validation_input_pieces);
    } else if (!is_share(node)) {
        td__read_path(checker, node, &data->validation);
    } else if (td__field_set(&field, data, &value, &reason)) {
        td__problem(checker, node, "%s", reason.text);
    }
}

/* A column's name, a list of them, or {x: NAME, y: NAME} of an .npz. */
static void read_label(td__checker *checker, td__yaml_node *node, void *member) {
    static const td__key arrays[] = {
        KEY(TEXT, x, "x", NULL),
        KEY(TEXT, y, "y", NULL),
    };
    td_data_options *data = member;
    if (node->kind == TD__YAML_MAP) {
        td__check_map(checker, node, arrays, TD__COUNT(arrays), data);
    } else {
        td__read_names(checker, node, &data->label);
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
    static const td__field field = {.type = TD__FIELD_BOOL};
    bool header = false;
    td_value value;
    td_error reason = {0};
    if (!td__check_value(checker, node, &value)) {
        return;
    }
    if (td__field_set(&field, &header, &value, &reason)) {
        td__problem(checker, node, "%s", reason.text);
    } else {
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

/* true, false or ascii. */
static void read_lower(td__checker *checker, td__yaml_node *node, void *member) {
    static const char *const words[] = {
        [TD_LOWER_UNICODE] = "true", [TD_LOWER_ASCII] = "ascii", [TD_LOWER_NONE] = "false"};
    for (size_t i = 0; node->kind == TD__YAML_SCALAR && i < TD__COUNT(words); i++) {
        if (!strcmp(node->text, words[i])) {
            *(td_lower *)member = (td_lower)i;
            return;
        }
    }
    td__problem(checker, node, "expected true, false, or ascii: letters from A to Z alone");
}

static const char *const token_words[] = {"words", "characters", "bytes"};
static const td__words token_kinds = {"kind of tokens", token_words, TD__COUNT(token_words), NULL,
                                      NULL};
#define TEXT_KEY(kind, member, ...) TD__KEY(kind, td_text, member, #member, __VA_ARGS__)
static const td__key text_keys[] = {
    TEXT_KEY(WORD, tokens, "words", .words = &token_kinds),
    TEXT_KEY(INTEGER, length, NULL, .minimum = 1, .maximum = TD__TEXT_LENGTH_MAXIMUM),
    TEXT_KEY(INTEGER, vocabulary, NULL, .minimum = TD__TEXT_FIRST + 1,
             .maximum = TD__TEXT_WORDS_MAXIMUM),
    TEXT_KEY(INTEGER, min_count, NULL, .minimum = 1, .maximum = TD__FIELD_MANY),
    {.field = {.key = "lower", .offset = offsetof(td_text, lower)}, .read = read_lower},
    TEXT_KEY(BOOL, punctuation, NULL),
};

/* COLUMN, [COLUMN, …], or {COLUMN: {tokens: words, length: 40, …}, …}. */
static void read_text(td__checker *checker, td__yaml_node *node, void *member) {
    td_texts *texts = member;
    bool map = node->kind == TD__YAML_MAP;
    td_names names = {0};
    if (!map) {
        td__read_names(checker, node, &names);
    }
    size_t count = map ? node->count : names.count;
    td_text *items = td__check_alloc(checker, count + 1, sizeof *items);
    for (size_t i = 0; items && i < count; i++) {
        items[i].column = map ? node->keys[i]->text : names.items[i];
        if (map && !td__yaml_is_null(node->items[i])) {
            size_t mark = td__path_enter(checker, items[i].column);
            td__check_map(checker, node->items[i], text_keys, TD__COUNT(text_keys), &items[i]);
            td__path_leave(checker, mark);
        }
    }
    if (count == 0 || count > TD__TEXTS_MAXIMUM) {
        td__problem(checker, node, "expected 1 to %d columns: COLUMN, or {COLUMN: {length: 40}}",
                    TD__TEXTS_MAXIMUM);
    }
    *texts = (td_texts){items, items ? count : 0};
}

/* A date: where days begin. */
static void read_since(td__checker *checker, td__yaml_node *node, void *member) {
    td_date *date = member;
    td__date since = {0};
    if (node->kind != TD__YAML_SCALAR || !td__date_read(&since, node->text) || since.open ||
        !td__date_settle(&since, TD_DATE_ORDER_AUTO)) {
        td__problem(checker, node, "expected a date as 2024-05-31");
        return;
    }
    date->since = (int64_t)td__date_seconds(&since);
    date->has_since = true;
}

static const char *const order_words[] = {"auto", "day_first", "month_first"};
static const td__words orders = {"order of dates", order_words, TD__COUNT(order_words), NULL, NULL};
static const td__key date_keys[] = {
    {.field = {.key = "parts", .offset = offsetof(td_date, parts)}, .read = td__read_names},
    TD__KEY(WORD, td_date, order, "order", NULL, .words = &orders),
    {.field = {.key = "since"}, .read = read_since},
};

/* COLUMN, [COLUMN, …], or {COLUMN: {parts: [year, …], order: day_first, since: 2024-05-31}, COLUMN: [year, …]}. */
static void read_dates(td__checker *checker, td__yaml_node *node, void *member) {
    td_dates *dates = member;
    bool map = node->kind == TD__YAML_MAP;
    td_names names = {0};
    if (!map) {
        td__read_names(checker, node, &names);
    }
    size_t count = map ? node->count : names.count;
    td_date *items = td__check_alloc(checker, count + 1, sizeof *items);
    for (size_t i = 0; items && i < count; i++) {
        items[i].column = map ? node->keys[i]->text : names.items[i];
        size_t mark = td__path_enter(checker, items[i].column);
        td__yaml_node *item = map ? node->items[i] : NULL;
        if (item && item->kind == TD__YAML_LIST) {
            td__read_names(checker, item, &items[i].parts);
        } else if (item && !td__yaml_is_null(item)) {
            td__check_map(checker, item, date_keys, TD__COUNT(date_keys), &items[i]);
        }
        for (size_t k = 0; k < items[i].parts.count; k++) {
            if (td__date_part(items[i].parts.items[k]) < 0) {
                td__problem(checker, item,
                            "'%s' is no part of a date; parts are year, month, day, weekday, "
                            "day_of_year, hour, minute, second, days, and month_sin, month_cos, …",
                            items[i].parts.items[k]);
            }
        }
        td__path_leave(checker, mark);
    }
    if (count == 0 || count > TD__DATES_MAXIMUM) {
        td__problem(checker, node, "expected 1 to %d columns of dates", TD__DATES_MAXIMUM);
    }
    *dates = (td_dates){items, items ? count : 0};
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
    static const char *const flip_words[] = {"none", "horizontal", "vertical",
                                             "horizontal_and_vertical"};
    static const char *const fill_words[] = {"reflect", "nearest", "constant", "wrap"};
    static const td__words flips = {"flip", flip_words, TD__COUNT(flip_words), NULL, NULL};
    static const td__words fills = {"fill", fill_words, TD__COUNT(fill_words), NULL, NULL};
#define ROW(member, kind, ...)                                                                     \
    {                                                                                              \
        .field = {                                                                                 \
            .key = #member,                                                                        \
            .type = TD__FIELD_##kind,                                                              \
            .offset = offsetof(td_augment, member),                                                \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
    static const td__key keys[] = {
        ROW(flip, WORD, .words = &flips),
        ROW(shift, SHARE, .maximum = 1),
        ROW(rotate, SHARE, .maximum = 1),
        ROW(zoom, SHARE, .maximum = 0.99),
        ROW(crop, INTEGER, .maximum = TD__FIELD_MANY),
        ROW(brightness, NUMBER, .maximum = TD__FIELD_MANY),
        ROW(contrast, SHARE, .maximum = 1),
        ROW(fill, WORD, .words = &fills),
    };
#undef ROW
    td__check_map(checker, node, keys, TD__COUNT(keys), member);
}

/* 24, or {length: 24, horizon: 1, stride: 1}. */
static void read_window(td__checker *checker, td__yaml_node *node, void *member) {
#define ROW(member, least)                                                                         \
    {                                                                                              \
        .field = {                                                                                 \
            .key = #member,                                                                        \
            .type = TD__FIELD_INTEGER,                                                             \
            .offset = offsetof(td_window, member),                                                 \
            .minimum = least,                                                                      \
            .maximum = 1 << 24                                                                     \
        }                                                                                          \
    }
    static const td__key keys[] = {ROW(length, 1), ROW(horizon, 0), ROW(stride, 1)};
#undef ROW
    td_window *window = member;
    window->horizon = 1;
    if (node->kind == TD__YAML_SCALAR && td__text_int(node->text, &window->length) &&
        window->length >= 1 && window->length <= 1 << 24) {
        return;
    }
    td__check_map(checker, node, keys, TD__COUNT(keys), window);
    if (node->kind == TD__YAML_MAP && !window->length) {
        td__problem(checker, node, "expected {length: N}: how many rows an example has");
    }
}

/* [HEIGHT, WIDTH], or {size: [HEIGHT, WIDTH], crop: true}. */
static void read_resize(td__checker *checker, td__yaml_node *node, void *member) {
    typedef struct resize_settings {
        td_shape size;
        bool crop;
    } resize_settings;
    static const td__key keys[] = {
        TD__KEY(SHAPE, resize_settings, size, "size", NULL, .minimum = 1, .maximum = 32768),
        TD__KEY(BOOL, resize_settings, crop, "crop", "false"),
    };
    resize_settings settings = {0};
    if (node->kind == TD__YAML_MAP) {
        td__check_map(checker, node, keys, TD__COUNT(keys), &settings);
    } else {
        td_value value;
        td_error reason = {0};
        if (!td__check_value(checker, node, &value)) {
            return;
        }
        if (td__field_set(&keys[0].field, &settings, &value, &reason)) {
            td__problem(checker, node, "%s", reason.text);
            return;
        }
    }
    if (settings.size.rank != 2) {
        td__problem(checker, node, "expected [HEIGHT, WIDTH]");
    }
    *(td_resize *)member = (td_resize){settings.size.dims[0], settings.size.dims[1], settings.crop};
}

static const char *const layout_words[] = {"as_is", "channels_last", "channels_first"};
static const td__words layouts = {"layout", layout_words, TD__COUNT(layout_words), NULL, NULL};
static const char *const label_words[] = {"auto", "class", "values", "one_hot", "none"};
static const td__words label_kinds = {"kind of labels", label_words, TD__COUNT(label_words), NULL,
                                      NULL};

static const td__key data_keys[] = {
    {.field = {.key = "train"}, .read = read_train},
    {.field = {.key = "generate", AT(generate)}, .read = read_generate},
    {.field = {.key = "inputs"}, .read = read_inputs},
    {.field = {.key = "labels"}, .read = read_labels},
    {.field = {.key = "validation"}, .read = read_validation},
    {.field = {.key = "validation_labels"}, .read = read_validation_labels},
    KEY(SHAPE, input, "input", NULL, .minimum = 1, .maximum = TD__FIELD_MANY),
    {.field = {.key = "label"}, .read = read_label},
    KEY(WORD, label_kind, "label_kind", NULL, .words = &label_kinds),
    KEY(WORD, layout, "layout", NULL, .words = &layouts),
    {.field = {.key = "ignore", AT(ignore)}, .read = td__read_names},
    {.field = {.key = "categories", AT(categories)}, .read = td__read_names},
    {.field = {.key = "text", AT(text)}, .read = read_text},
    KEY(TEXT, weight, "weight", NULL),
    KEY(TEXT, groups, "groups", NULL),
    KEY(TEXT, images, "images", NULL),
    {.field = {.key = "dates", AT(dates)}, .read = read_dates},
    {.field = {.key = "class_weight"}, .read = read_class_weight},
    {.field = {.key = "missing"}, .read = read_missing},
    {.field = {.key = "separator", AT(separator)}, .read = read_separator},
    {.field = {.key = "header", AT(header)}, .read = read_header},
    KEY(NUMBER, scale, "scale", "1", .minimum = -TD__FIELD_MANY),
    KEY(BOOL, standardize, "standardize", "false"),
    KEY(BOOL, standardize_labels, "standardize_labels", "false"),
    KEY(INTEGER, batch, "batch", "32", .minimum = 1, .maximum = TD__FIELD_MANY),
    KEY(NOT, in_order, "shuffle", "true"),
    KEY(BYTES, memory, "memory", NULL),
    {.field = {.key = "window", AT(window)}, .read = read_window},
    {.field = {.key = "resize", AT(resize)}, .read = read_resize},
    {.field = {.key = "augment", AT(augment)}, .read = read_augment},
};

/* Columns of a CSV file and arrays of an NPZ file are named as they are; all else are files. */
static bool has_pieces_inside(const char *path) {
    td__reader *reader = NULL;
    return path && !td__reader_choose(path, &reader, NULL) &&
           (reader == td__csv_read || reader == td__npz_read);
}

static void settle_pieces(td__checker *checker, td__yaml_node *node, td_data_options *data) {
    const struct {
        const char *key;
        td_pieces *pieces;
        const char *file;
    } all[] = {{"inputs", &data->input_pieces, data->train},
               {"labels", &data->label_pieces, data->train},
               {"validation", &data->validation_input_pieces, NULL},
               {"validation_labels", &data->validation_label_pieces, data->validation}};
    for (size_t i = 0; i < TD__COUNT(all); i++) {
        if (all[i].pieces->count && !has_pieces_inside(all[i].file)) {
            size_t mark = td__path_enter(checker, all[i].key);
            settle_files(checker, td__yaml_get(node, all[i].key), all[i].pieces);
            td__path_leave(checker, mark);
        }
    }
}

/* A C program's 0 is the default; one in a document is a mistake. */
static void check_scale(td__checker *checker, const td__yaml_node *node) {
    const td__yaml_node *scale = td__yaml_get(node, "scale");
    double number;
    if (scale && scale->kind == TD__YAML_SCALAR && td__text_number(scale->text, &number) &&
        number == 0) {
        size_t mark = td__path_enter(checker, "scale");
        td__problem(checker, scale, "0 would make every input 0; to change nothing, leave it out");
        td__path_leave(checker, mark);
    }
}

void td__read_data(td__checker *checker, td__yaml_node *node, void *member) {
    td_data_options *data = member;
    td__check_map(checker, node, data_keys, TD__COUNT(data_keys), member);
    if (node->kind != TD__YAML_MAP) {
        return;
    }
    bool has_train = td__yaml_get(node, "train") || td__yaml_get(node, "inputs");
    bool has_generate = td__yaml_get(node, "generate");
    if (has_train == has_generate) {
        td__problem(checker, node,
                    has_train ? "train and generate exclude each other"
                              : "train: FILE, inputs: {…}, or generate: {…}, is missing");
    }
    check_scale(checker, node);
    if (data->label.count && data->y) {
        td__problem(checker, node, "label: columns, or {x, y} of an .npz, not both");
    }
    settle_pieces(checker, node, data);
}
