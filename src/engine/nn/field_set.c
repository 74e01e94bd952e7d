/* Setting fields of structs from keys and values. */
#include "nn/field.h"

#include "base/memory.h"
#include "base/parse.h"
#include "nn/keras_words.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define MAX_FIELDS 64
#define LARGEST_WHOLE 9007199254740992.0 /* 2^53: beyond it doubles skip whole numbers */

static void *at(void *options, size_t offset) {
    return (char *)options + offset;
}

static const char *const wanted_texts[] = {
    [TD__FIELD_INTEGER] = "a whole number",
    [TD__FIELD_PAIR] = "one or two whole numbers",
    [TD__FIELD_TRIPLE] = "one or three whole numbers",
    [TD__FIELD_NUMBER] = "a number",
    [TD__FIELD_SHARE] = "a share such as 0.05 or 5%",
    [TD__FIELD_BYTES] = "a size such as 256 MiB",
    [TD__FIELD_BOOL] = "true or false",
    [TD__FIELD_NOT] = "true or false",
    [TD__FIELD_WORD] = "a word",
    [TD__FIELD_TEXT] = "text",
    [TD__FIELD_TEXTS] = "a name or a list of 1 to 16 names",
    [TD__FIELD_SHAPE] = "a list of 1 to 7 whole numbers",
    [TD__FIELD_NUMBERS] = "a list of numbers",
    [TD__FIELD_INITIALIZER] = "an initializer, NAME or {NAME: {…}}",
};

static const char *const kind_texts[] = {
    [TD_VALUE_NUMBER] = "a number",       [TD_VALUE_TEXT] = "text",
    [TD_VALUE_BOOL] = "true or false",    [TD_VALUE_NUMBERS] = "a list of numbers",
    [TD_VALUE_TEXTS] = "a list of texts", [TD_VALUE_CHOICE] = "a map"};

/* "must be a whole number from 1 to 100, not 'x'" */
static td_status refuse_value(const td__field *field, const td_value *value, td_error *error) {
    char range[80] = "", found[TD_ERROR_TEXT_SIZE];
    bool has_range = field->type <= TD__FIELD_SHARE || field->type == TD__FIELD_SHAPE;
    if (has_range && field->maximum != 0 && field->maximum < TD__FIELD_MANY) {
        (void)snprintf(range, sizeof range, " from %.12g to %.12g", field->minimum, field->maximum);
    } else if (has_range && field->minimum > -TD__FIELD_MANY) {
        (void)snprintf(range, sizeof range, " of at least %.12g", field->minimum);
    }
    if (value->kind == TD_VALUE_NUMBER) {
        (void)snprintf(found, sizeof found, "%g", value->number);
    } else if (value->kind == TD_VALUE_TEXT) {
        (void)snprintf(found, sizeof found, "'%s'", value->text);
    } else {
        (void)snprintf(found, sizeof found, "%s", kind_texts[value->kind]);
    }
    return td_error_set(error, TD_INVALID, "must be %s%s, not %s", wanted_texts[field->type], range,
                        found);
}

/* The numbers of a value that is a number or a list of them; NULL for another kind. */
static const double *value_numbers(const td_value *value, size_t *count) {
    if (value->kind == TD_VALUE_NUMBER) {
        *count = 1;
        return &value->number;
    }
    *count = value->count;
    return value->kind == TD_VALUE_NUMBERS ? value->numbers : NULL;
}

static bool is_whole(double number) {
    return fabs(number) <= LARGEST_WHOLE && number == trunc(number);
}

/* The value's whole numbers, 1 to most of them; how many, 0 when it has none. */
static size_t whole_numbers(const td_value *value, size_t max, int64_t *integers) {
    size_t count;
    const double *numbers = value_numbers(value, &count);
    bool good = numbers && count >= 1 && count <= max;
    for (size_t i = 0; good && i < count; i++) {
        good = is_whole(numbers[i]);
        integers[i] = good ? (int64_t)numbers[i] : 0;
    }
    return good ? count : 0;
}

static td_status set_integers(const td__field *field, void *options, const td_value *value,
                              td_error *error) {
    size_t max = td__field_width(field);
    int64_t given[3];
    size_t count = whole_numbers(value, max, given);
    if (count != 1 && count != max) {
        return refuse_value(field, value, error);
    }
    for (size_t i = 0; i < max; i++) {
        td__field_set_number(field, options, i, (double)given[count == 1 ? 0 : i]);
    }
    return TD_OK;
}

static td_status set_number(const td__field *field, void *options, const td_value *value,
                            td_error *error) {
    if (value->kind != TD_VALUE_NUMBER) {
        return refuse_value(field, value, error);
    }
    td__field_set_number(field, options, 0, value->number);
    return TD_OK;
}

static td_status set_share(const td__field *field, void *options, const td_value *value,
                           td_error *error) {
    double share = value->number;
    if (value->kind == TD_VALUE_TEXT) {
        const char *unit = td__parse_float64(value->text, &share);
        unit = unit ? unit + strspn(unit, " ") : "?";
        share = !*unit ? share : !strcmp(unit, "%") ? share * 0.01 : (double)NAN;
    } else if (value->kind != TD_VALUE_NUMBER) {
        share = (double)NAN;
    }
    if (isnan(share)) {
        return refuse_value(field, value, error);
    }
    *(double *)at(options, field->offset) = share;
    return TD_OK;
}

static td_status set_bytes(const td__field *field, void *options, const td_value *value,
                           td_error *error) {
    int64_t *bytes = at(options, field->offset);
    if (value->kind == TD_VALUE_TEXT) {
        return td_parse_bytes(value->text, bytes) ? TD_OK : refuse_value(field, value, error);
    }
    if (value->kind != TD_VALUE_NUMBER || !(value->number >= 1 && value->number < 0x1p62)) {
        return refuse_value(field, value, error);
    }
    *bytes = (int64_t)value->number;
    return TD_OK;
}

static td_status set_bool(const td__field *field, void *options, const td_value *value,
                          td_error *error) {
    if (value->kind != TD_VALUE_BOOL) {
        return refuse_value(field, value, error);
    }
    *(bool *)at(options, field->offset) = value->boolean == (field->type == TD__FIELD_BOOL);
    return TD_OK;
}

static td_status set_word_of(const td__field *field, void *options, const td_value *value,
                             td_error *error) {
    if (value->kind != TD_VALUE_TEXT) {
        return refuse_value(field, value, error);
    }
    int word = td__word_find(field->words, value->text, "", error);
    if (word < 0) {
        return TD_NOT_FOUND;
    }
    td__field_set_number(field, options, 0, word);
    return TD_OK;
}

static td_status set_text(const td__field *field, void *options, const td_value *value,
                          td_error *error) {
    if (!value->text || value->kind == TD_VALUE_CHOICE) {
        return refuse_value(field, value, error);
    }
    *(const char **)at(options, field->offset) = value->text;
    return TD_OK;
}

static td_status set_texts(const td__field *field, void *options, const td_value *value,
                           td_error *error) {
    const char **texts = at(options, field->offset);
    if (value->kind == TD_VALUE_TEXT) {
        texts[0] = value->text;
        return TD_OK;
    }
    if (value->kind != TD_VALUE_TEXTS || value->count < 1 || value->count > TD_MAX_FROM) {
        return refuse_value(field, value, error);
    }
    for (size_t i = 0; i < value->count; i++) {
        texts[i] = value->texts[i];
    }
    return TD_OK;
}

static td_status set_shape(const td__field *field, void *options, const td_value *value,
                           td_error *error) {
    td_shape shape = {0};
    shape.rank = (int32_t)whole_numbers(value, TD_MAX_RANK - 1, shape.dims);
    if (shape.rank == 0) {
        return refuse_value(field, value, error);
    }
    *(td_shape *)at(options, field->offset) = shape;
    return TD_OK;
}

static td_status set_numbers(const td__field *field, void *options, const td_value *value,
                             td_error *error) {
    size_t count;
    const double *numbers = value_numbers(value, &count);
    if (!numbers) {
        return refuse_value(field, value, error);
    }
    if (count > field->room) {
        return td_error_set(error, TD_RANGE, "has %zu numbers, at most %zu fit", count,
                            field->room);
    }
    memcpy(at(options, field->offset), numbers, count * sizeof *numbers);
    *(int64_t *)at(options, field->count_offset) = (int64_t)count;
    return TD_OK;
}

static td_status set_initializer(const td__field *field, void *options, const td_value *value,
                                 td_error *error) {
    return value->kind == TD_VALUE_TEXT || value->kind == TD_VALUE_CHOICE
               ? td__initializer_set(at(options, field->offset), value, error)
               : refuse_value(field, value, error);
}

static td_status (*const setters[])(const td__field *, void *, const td_value *, td_error *) = {
    [TD__FIELD_INTEGER] = set_integers, [TD__FIELD_PAIR] = set_integers,
    [TD__FIELD_TRIPLE] = set_integers,  [TD__FIELD_NUMBER] = set_number,
    [TD__FIELD_SHARE] = set_share,      [TD__FIELD_BYTES] = set_bytes,
    [TD__FIELD_BOOL] = set_bool,        [TD__FIELD_NOT] = set_bool,
    [TD__FIELD_WORD] = set_word_of,     [TD__FIELD_TEXT] = set_text,
    [TD__FIELD_TEXTS] = set_texts,      [TD__FIELD_SHAPE] = set_shape,
    [TD__FIELD_NUMBERS] = set_numbers,  [TD__FIELD_INITIALIZER] = set_initializer,
};

td_status td__field_set(const td__field *field, void *options, const td_value *value,
                        td_error *error) {
    if (value->kind == TD_VALUE_TEXT && !value->text) {
        return td_error_set(error, TD_INVALID, "has no value");
    }
    td_status status = setters[field->type](field, options, value, error);
    return status ? status : td__field_check(field, options, error);
}

const td__field *td__field_find(const td__field *fields, size_t count, const char *key,
                                const char *where, td_error *error) {
    const char *keys[MAX_FIELDS] = {0};
    for (size_t i = 0; i < count; i++) {
        if (strcmp(key, fields[i].key) == 0 ||
            (fields[i].alias && strcmp(key, fields[i].alias) == 0)) {
            return &fields[i];
        }
        keys[i] = fields[i].key;
    }
    char hint[TD__HINT_ROOM];
    const char *ours = td__keras_option_hint(key, fields, count);
    (void)td_error_set(error, TD_NOT_FOUND, "%sthere is no '%s'%s%s", where, key, ours ? ": " : "",
                       ours ? ours : td__word_hint(hint, key, keys, count));
    return NULL;
}

td_status td__fields_set(const td__field *fields, size_t count, void *options,
                         const td_setting *settings, size_t setting_count, const char *where,
                         td_error *error) {
    assert(count <= MAX_FIELDS);
    uint64_t seen = 0;
    for (size_t i = 0; i < setting_count; i++) {
        const td__field *field = td__field_find(fields, count, settings[i].key, where, error);
        if (!field) {
            return TD_NOT_FOUND;
        }
        uint64_t bit = UINT64_C(1) << (field - fields);
        if (seen & bit) {
            return td_error_set(error, TD_INVALID, "%s'%s' is given twice", where, field->key);
        }
        seen |= bit;
        td_error reason = {0};
        if (td__field_set(field, options, &settings[i].value, &reason)) {
            return td__field_explain(field, where, &reason, error);
        }
    }
    return TD_OK;
}
