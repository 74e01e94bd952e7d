/* Reading a layer's options by the tables; see layer.h. */
#include "keras/class.h"
#include "nn/field.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* --- problems ----------------------------------------------------------------------------- */

void td__keras_settings_refuse(td__keras_settings *settings, const char *format, ...) {
    if (!*settings->reason) {
        va_list arguments;
        va_start(arguments, format);
        (void)vsnprintf(settings->reason, sizeof settings->reason, format, arguments);
        va_end(arguments);
    }
}

/* An option's value as the file has it, for a reason. */
static void refuse_value(td__keras_settings *settings, const char *key, const json_t *value) {
    const char *class_name = json_string_value(json_object_get(value, "class_name"));
    char *text = class_name
                     ? NULL
                     : json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
    td__keras_settings_refuse(settings, "%s is %.60s", key,
                              class_name ? class_name
                              : text     ? text
                                         : "not readable");
    free(text); // NOLINT: jansson's own
}

/* --- values ------------------------------------------------------------------------------- */

void td__keras_settings_add(td__keras_settings *settings, const char *key, td_value value) {
    if (settings->count < TD__KERAS_MAX_SETTINGS) {
        settings->items[settings->count++] = (td_setting){key, value};
    } else {
        td__keras_settings_refuse(settings, "it has too many options");
    }
}

void td__keras_settings_number(td__keras_settings *settings, const char *key, double number) {
    td__keras_settings_add(settings, key, (td_value){.kind = TD_VALUE_NUMBER, .number = number});
}

void td__keras_settings_text(td__keras_settings *settings, const char *key, const char *text) {
    td__keras_settings_add(settings, key, (td_value){.kind = TD_VALUE_TEXT, .text = text});
}

static bool read_numbers(const json_t *value, const char *key, td__keras_settings *settings) {
    size_t count = json_array_size(value);
    if (!json_is_array(value) || count > TD_MAX_RANK ||
        settings->used + count > TD__KERAS_MAX_NUMBERS) {
        return false;
    }
    double *numbers = settings->numbers + settings->used;
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_array_get(value, i);
        if (!json_is_number(item)) {
            return false;
        }
        numbers[i] = json_number_value(item);
    }
    settings->used += count;
    td__keras_settings_add(
        settings, key, (td_value){.kind = TD_VALUE_NUMBERS, .numbers = numbers, .count = count});
    return true;
}

/* The batch's own size must be its own, or 1 would be one mask for all examples. */
static bool read_batch_shape(const json_t *value, const char *key, td__keras_settings *settings) {
    size_t count = json_array_size(value);
    if (count < 2 || count > TD_MAX_RANK || !json_is_null(json_array_get(value, 0)) ||
        settings->used + count > TD__KERAS_MAX_NUMBERS) {
        return false;
    }
    double *numbers = settings->numbers + settings->used;
    for (size_t i = 1; i < count; i++) {
        const json_t *item = json_array_get(value, i);
        numbers[i - 1] = json_is_null(item) ? -1 : json_number_value(item);
        if (!json_is_null(item) && !json_is_integer(item)) {
            return false;
        }
    }
    settings->used += count - 1;
    td__keras_settings_add(
        settings, key,
        (td_value){.kind = TD_VALUE_NUMBERS, .numbers = numbers, .count = count - 1});
    return true;
}

static bool is_word(const td__words *words, const char *text) {
    return text && td__word_find(words, text, "", NULL) >= 0;
}

static bool read_word(const td__words *words, const json_t *value, const char *key,
                      td__keras_settings *settings) {
    const char *text = json_string_value(value);
    if (is_word(words, text)) {
        td__keras_settings_text(settings, key, text);
        return true;
    }
    return false;
}

/* Activations that Keras has no such name for. */
static bool is_ours_alone(const char *text) {
    return !strcmp(text, "gelu_tanh") || !strcmp(text, "hard_sigmoid_keras2");
}

/* "relu", or {"class_name": "function", "config": "relu"} of a module of Keras's own. */
static bool read_activation(const json_t *value, const char *key, td__keras_settings *settings) {
    const char *text = json_string_value(value);
    const char *module = json_string_value(json_object_get(value, "module"));
    const char *class_name = json_string_value(json_object_get(value, "class_name"));
    if (class_name && !strcmp(class_name, "function") &&
        (!module || !strncmp(module, "keras", 5) || !strcmp(module, "builtins"))) {
        text = json_string_value(json_object_get(value, "config"));
    }
    if (!is_word(&td__activation_words, text) || is_ours_alone(text)) {
        return false;
    }
    bool old = settings->keras2 && !strcmp(text, "hard_sigmoid");
    td__keras_settings_text(settings, key, old ? "hard_sigmoid_keras2" : text);
    return true;
}

/* One option of an initialiser, of a kind that its field takes; others are left out. */
static bool read_initializer_option(const td__field *field, const json_t *value,
                                    td_setting *setting) {
    const char *text = json_string_value(value);
    *setting = (td_setting){.key = field->key};
    if (field->type == TD__FIELD_WORD && is_word(field->words, text)) {
        setting->value = (td_value){.kind = TD_VALUE_TEXT, .text = text};
        return true;
    }
    setting->value = (td_value){.kind = TD_VALUE_NUMBER, .number = json_number_value(value)};
    return field->type == TD__FIELD_INTEGER
               ? json_is_integer(value) && json_integer_value(value) >= 0 &&
                     json_integer_value(value) <= INT32_MAX
               : field->type == TD__FIELD_NUMBER && json_is_number(value);
}

/* Initialisers do not change loaded weights: one that we lack is left to the layer. */
static void read_initializer(const json_t *value, const char *key, td__keras_settings *settings) {
    char snake[TD__KERAS_SNAKE_SIZE];
    const char *class_name = json_string_value(json_object_get(value, "class_name"));
    const json_t *config = json_object_get(value, "config");
    if (json_is_string(value)) { /* "he_normal", "HeNormal" */
        class_name = json_string_value(value);
    }
    td__keras_snake(class_name ? class_name : "", snake);
    int word = td__word_find(&td__initializer_words, snake, "", NULL);
    if (word < 0) {
        return;
    }
    size_t count, used = 0;
    const td__field *fields = td__initializer_fields((td_initializer_kind)word, &count);
    td_setting *inner = settings->inner + settings->inner_count;
    for (size_t i = 0; i < count && settings->inner_count + used < TD__KERAS_MAX_INNER; i++) {
        used += read_initializer_option(&fields[i], json_object_get(config, fields[i].key),
                                        &inner[used]);
    }
    settings->inner_count += used;
    td__keras_settings_add(settings, key,
                           (td_value){.kind = TD_VALUE_CHOICE,
                                      .text = td__initializer_words.words[word],
                                      .settings = inner,
                                      .count = used});
}

static bool read_regularizer(const json_t *value, const char *ours, td__keras_settings *settings) {
    const char *class_name = json_string_value(json_object_get(value, "class_name"));
    const json_t *config = json_object_get(value, "config");
    const json_t *l1 = json_object_get(config, "l1"), *l2 = json_object_get(config, "l2");
    if (!class_name || (strcasecmp(class_name, "L1") != 0 && strcasecmp(class_name, "L2") != 0 &&
                        strcasecmp(class_name, "L1L2") != 0)) {
        return false;
    }
    td__keras_penalty keys = td__keras_penalty_of(ours);
    if (json_number_value(l1) != 0) {
        td__keras_settings_number(settings, keys.l1, json_number_value(l1));
    }
    if (json_number_value(l2) != 0) {
        td__keras_settings_number(settings, keys.l2, json_number_value(l2));
    }
    return true;
}

/* null, false, 0, "", [] and {} say nothing. */
static bool is_unset(const json_t *value) {
    return !value || json_is_null(value) || json_is_false(value) ||
           (json_is_number(value) && json_number_value(value) == 0) ||
           (json_is_string(value) && json_string_length(value) == 0) ||
           (json_is_array(value) && json_array_size(value) == 0) ||
           (json_is_object(value) && json_object_size(value) == 0);
}

/* The number that a value is, or that the only element of a list is; NaN otherwise. */
static double only_number(const json_t *value) {
    value = json_array_size(value) == 1 ? json_array_get(value, 0) : value;
    return json_is_number(value) ? json_number_value(value) : NAN;
}

/* n, [height, width] or [[top, bottom], [left, right]]; of steps there is one pair, not a list. */
static void read_borders(const json_t *borders, const char *first, td__keras_settings *settings) {
    const char *const *sides = td__keras_sides(first);
    for (size_t i = 0; sides[i]; i++) {
        const json_t *axis =
            json_is_array(borders) && sides[2] ? json_array_get(borders, i / 2) : borders;
        const json_t *side = json_is_array(axis) ? json_array_get(axis, i % 2) : axis;
        if (!json_is_integer(side)) {
            td__keras_settings_refuse(settings, "its borders are no numbers of rows and columns");
        }
        td__keras_settings_number(settings, sides[i], json_number_value(side));
    }
}

static bool read_option(const td__keras_option *rule, const json_t *value, const td_shape *input,
                        td__keras_settings *settings) {
    const char *ours = rule->ours;
    if (json_is_null(value)) {
        return true;
    }
    switch (rule->meaning) {
    case TD__KERAS_IGNORED:
    case TD__KERAS_ABSENT:
    case TD__KERAS_BORDERS: /* read when all are there */
        return true;
    case TD__KERAS_AXIS:
        if (json_is_number(value) && json_number_value(value) == 0) {
            td__keras_settings_refuse(settings, "its axis is the batch");
        }
        /* fall through */
    case TD__KERAS_NUMBER:
        if (json_is_number(value)) {
            td__keras_settings_number(settings, ours, json_number_value(value));
        }
        return json_is_number(value);
    case TD__KERAS_NUMBERS:
        if (json_is_number(value)) {
            td__keras_settings_number(settings, ours, json_number_value(value));
            return true;
        }
        return read_numbers(value, ours, settings);
    case TD__KERAS_SWITCH:
        td__keras_settings_add(settings, ours,
                               (td_value){.kind = TD_VALUE_BOOL, .boolean = json_is_true(value)});
        return json_is_boolean(value);
    case TD__KERAS_PADDING:
        return read_word(&td__padding_words, value, ours, settings);
    case TD__KERAS_INTERPOLATION:
        return read_word(&td__interpolation_words, value, ours, settings);
    case TD__KERAS_MERGE:
        return read_word(&td__merge_mode_words, value, ours, settings);
    case TD__KERAS_BATCH_SHAPE:
        return read_batch_shape(value, ours, settings);
    case TD__KERAS_ACTIVATION:
        return read_activation(value, ours, settings);
    case TD__KERAS_INITIALIZER:
        read_initializer(value, ours, settings);
        return true;
    case TD__KERAS_REGULARIZER:
        return read_regularizer(value, ours, settings);
    case TD__KERAS_LAST_AXIS:
        return only_number(value) == -1 ||
               (input ? only_number(value) == input->rank : only_number(value) > 0);
    case TD__KERAS_CHANNELS_LAST:
        return json_is_string(value) && !strcmp(json_string_value(value), "channels_last");
    case TD__KERAS_ONE:
        return only_number(value) == 1;
    case TD__KERAS_WORD:
        td__keras_settings_text(settings, ours, json_string_value(value));
        return json_is_string(value);
    }
    return false;
}

/* --- a layer ------------------------------------------------------------------------------ */

/* Layers compute in float32; what computed in float64 is near enough, in 16 bits is not. */
static void check_policy(const json_t *config, td__keras_settings *settings) {
    const json_t *dtype = json_object_get(config, "dtype");
    const char *name = json_string_value(dtype);
    if (json_is_object(dtype)) {
        name = json_string_value(json_object_get(json_object_get(dtype, "config"), "name"));
    }
    if (dtype && !json_is_null(dtype) &&
        (!name || (strcmp(name, "float32") != 0 && strcmp(name, "float64") != 0))) {
        td__keras_settings_refuse(settings, "it computes in %.60s",
                                  name ? name : "a dtype policy of its own");
    }
}

void td__keras_layer_read(const td__keras_class *class, const json_t *config, const td_shape *input,
                          bool keras2, td__keras_settings *settings) {
    const td__keras_side *keras = &class->kind->keras;
    settings->kind = class->word;
    settings->keras2 = keras2;
    settings->count = settings->used = settings->inner_count = 0;
    settings->reason[0] = 0;
    check_policy(config, settings);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)config, key, value) {
        const td__keras_option *found = td__keras_option_find(class, key);
        if (found ? !read_option(found, value, input, settings) : !is_unset(value)) {
            refuse_value(settings, key, value);
        }
    }
    for (size_t i = 0; i < keras->option_count; i++) {
        if (keras->options[i].meaning == TD__KERAS_BORDERS) {
            read_borders(json_object_get(config, keras->options[i].key), keras->options[i].ours,
                         settings);
        }
    }
    if (class->adapt) {
        class->adapt(config, input, settings);
    }
}
