/* Choices and their settings. */
#include "experiment/settings.h"

#include "base/memory.h"
#include "base/number.h"
#include "nn/kind.h"

#include <ctype.h>
#include <string.h>

enum { DEEPEST = 8 }; /* of choices inside of choices */

/* ---- From YAML ------------------------------------------------------------------------------- */

static td_setting *read_settings(td__checker *checker, const td__yaml_node *fields, size_t *count,
                                 int depth);

/* {NAME: {KEY: VALUE}}, {NAME: } */
static bool choice_value(td__checker *checker, const td__yaml_node *node, td_value *value,
                         int depth) {
    if (node->count != 1 || depth == DEEPEST) {
        td__problem(checker, node, "expected a number, a word, a list or {NAME: {KEY: VALUE}}");
        return false;
    }
    const td__yaml_node *fields = node->items[0];
    *value = (td_value){.kind = TD_VALUE_CHOICE, .text = node->keys[0]->text};
    if (td__yaml_is_null(fields)) {
        return true;
    }
    size_t mark = td__path_enter(checker, node->keys[0]->text);
    value->settings = read_settings(checker, fields, &value->count, depth + 1);
    td__path_leave(checker, mark);
    return value->settings;
}

static bool read_value(td__checker *checker, const td__yaml_node *node, td_value *value,
                       int depth) {
    return node->kind == TD__YAML_MAP ? choice_value(checker, node, value, depth)
                                      : td__check_value(checker, node, value);
}

/* NULL, with the problem reported, when one cannot be read. */
static td_setting *read_settings(td__checker *checker, const td__yaml_node *fields, size_t *count,
                                 int depth) {
    bool good = fields->kind == TD__YAML_MAP;
    if (!good) {
        td__problem(checker, fields, "expected a map, {KEY: VALUE, …}");
    }
    td_setting *settings =
        good ? td__check_alloc(checker, fields->count, sizeof(td_setting)) : NULL;
    for (size_t i = 0; settings && i < fields->count; i++) {
        size_t inner = td__path_enter(checker, fields->keys[i]->text);
        settings[i].key = fields->keys[i]->text;
        good &= read_value(checker, fields->items[i], &settings[i].value, depth);
        td__path_leave(checker, inner);
    }
    *count = good && settings ? fields->count : 0;
    return good ? settings : NULL;
}

bool td__choice_read(td__checker *checker, td__yaml_node *node, const char *noun,
                     td__choice *choice) {
    const td__yaml_node *name;
    td__yaml_node *fields;
    if (!td__check_choice(checker, node, noun, &name, &fields)) {
        return false;
    }
    *choice = (td__choice){.name = name->text, .node = node};
    if (!fields || td__yaml_is_null(fields)) {
        return true;
    }
    size_t mark = td__path_enter(checker, name->text);
    choice->settings = read_settings(checker, fields, &choice->count, 0);
    td__path_leave(checker, mark);
    return choice->settings;
}

/* Whether text has word with no letter, digit or underscore on either side. */
static bool has_word(const char *text, const char *word) {
    size_t length = strlen(word);
    for (const char *at = strstr(text, word); length && at; at = strstr(at + 1, word)) {
        bool before = at > text && (isalnum((unsigned char)at[-1]) || at[-1] == '_');
        bool after = isalnum((unsigned char)at[length]) || at[length] == '_';
        if (!before && !after) {
            return true;
        }
    }
    return false;
}

void td__choice_problem(td__checker *checker, const td__choice *choice, const td_error *error) {
    const td__yaml_node *place = choice->node;
    if (place->kind == TD__YAML_MAP && place->count == 1) {
        const td__yaml_node *fields = place->items[0];
        for (size_t i = 0; fields->kind == TD__YAML_MAP && i < fields->count; i++) {
            if (has_word(error->text, fields->keys[i]->text)) {
                place = fields->keys[i];
                break;
            }
        }
    }
    td__problem(checker, place, "%s", error->text);
}

/* ---- Back to YAML ---------------------------------------------------------------------------- */

static td__yaml_node *number_node(td__yaml *yaml, double number) {
    char text[TD__NUMBER_ROOM];
    text[td__format_value(text, number)] = 0;
    return td__yaml_scalar(yaml, text, false);
}

/* Text that would read back as something else gets quotes. */
static td__yaml_node *text_node(td__yaml *yaml, const char *text) {
    td__yaml_node *node = td__yaml_scalar(yaml, text, false);
    if (node) {
        node->quoted = !td__is_text(node);
    }
    return node;
}

static td__yaml_node *settings_node(td__yaml *yaml, const td_setting *settings, size_t count);

static td__yaml_node *value_node(td__yaml *yaml, const td_value *value) {
    switch (value->kind) {
    case TD_VALUE_CHOICE: {
        td__yaml_node *choice = td__yaml_map(yaml);
        td__yaml_node *fields = settings_node(yaml, value->settings, value->count);
        bool made = choice && fields && !td__yaml_put(yaml, choice, value->text, fields);
        return made ? choice : NULL;
    }
    case TD_VALUE_NUMBER:
        return number_node(yaml, value->number);
    case TD_VALUE_BOOL:
        return td__yaml_scalar(yaml, value->boolean ? "true" : "false", false);
    case TD_VALUE_TEXT:
        return text_node(yaml, value->text);
    case TD_VALUE_NUMBERS:
    case TD_VALUE_TEXTS:
        break;
    }
    td__yaml_node *list = td__yaml_list(yaml);
    for (size_t i = 0; list && i < value->count; i++) {
        td__yaml_node *item = value->kind == TD_VALUE_NUMBERS ? number_node(yaml, value->numbers[i])
                                                              : text_node(yaml, value->texts[i]);
        if (td__yaml_append(yaml, list, item)) {
            return NULL;
        }
    }
    return list;
}

/* NULL when memory is exhausted. */
static td__yaml_node *settings_node(td__yaml *yaml, const td_setting *settings, size_t count) {
    td__yaml_node *fields = td__yaml_map(yaml);
    for (size_t i = 0; fields && i < count; i++) {
        if (td__yaml_put(yaml, fields, settings[i].key, value_node(yaml, &settings[i].value))) {
            return NULL;
        }
    }
    return fields;
}

td_status td__choice_settle(td__yaml *yaml, td__choice *choice, const td_setting *settings,
                            size_t count) {
    td__yaml_node *fields = settings_node(yaml, settings, count), *made = td__yaml_map(yaml);
    if (!fields || !made || td__yaml_put(yaml, made, choice->name, fields)) {
        return TD_MEMORY;
    }
    /* In place, so that the list or map that holds the choice has it. Line and file stay. */
    td__yaml_node *node = choice->node;
    node->kind = TD__YAML_MAP;
    node->text = "";
    node->quoted = false;
    node->count = made->count;
    node->capacity = made->capacity;
    node->keys = made->keys;
    node->items = made->items;
    return TD_OK;
}

bool td__choice_add_ids(const td__choice *layer, const td_texts *texts, int64_t ids,
                        td_setting *settings) {
    td_layer_kind found;
    bool may = texts->count && !td_layer_kind_find(layer->name, &found, NULL);
    const td__layer_kind *kind = may ? td__layer_kind_of(found) : NULL;
    const char *option = kind ? kind->index_count : NULL;
    for (size_t i = 0; i < layer->count; i++) {
        settings[i] = layer->settings[i];
        const td__field *field =
            kind ? td__field_find(kind->fields, kind->field_count, settings[i].key, "", NULL)
                 : NULL;
        option = option && field && !strcmp(field->key, option) ? NULL : option;
    }
    if (option) {
        settings[layer->count] =
            (td_setting){option, {.kind = TD_VALUE_NUMBER, .number = (double)ids}};
    }
    return option;
}
