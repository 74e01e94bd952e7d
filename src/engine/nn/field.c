/* Reading and writing structs through tables of their fields. */
#include "nn/field.h"

#include "base/memory.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define LARGEST_INTEGER 2147483647.0 /* so that a product of two fits int64_t */

/* --- enumerations ------------------------------------------------------------------------- */

#define WORD_MEMBER(member, text) [TD_##member] = text,
static const char *const activation_names[] = {TD_ACTIVATION_LIST(WORD_MEMBER)};
static const char *const initializer_names[] = {TD_INITIALIZER_LIST(WORD_MEMBER)};
#undef WORD_MEMBER
static const char *const padding_names[] = {"valid", "same", "causal"};
static const char *const interpolation_names[] = {"nearest", "bilinear"};
static const char *const merge_mode_names[] = {"concat", "sum", "mul", "ave"};

const td__words td__activation_words = {"activation", activation_names, TD_ACTIVATION_COUNT, "silu",
                                        "swish"};
const td__words td__initializer_words = {"initializer", initializer_names, TD_INITIALIZER_COUNT,
                                         NULL, NULL};
const td__words td__padding_words = {"padding", padding_names, 3, NULL, NULL};
const td__words td__interpolation_words = {"interpolation", interpolation_names, 2, NULL, NULL};
const td__words td__merge_mode_words = {"merge_mode", merge_mode_names, TD_MERGE_MODE_COUNT, NULL,
                                        NULL};

/* --- access to a field -------------------------------------------------------------------- */

static void *at(void *options, size_t offset) {
    return (char *)options + offset;
}
static const void *at_const(const void *options, size_t offset) {
    return (const char *)options + offset;
}

/* An enumeration may be accessed as an int. */
static_assert(sizeof(td_activation) == sizeof(int) && sizeof(td_fan) == sizeof(int) &&
                  sizeof(td_distribution) == sizeof(int) && sizeof(td_padding) == sizeof(int) &&
                  sizeof(td_interpolation) == sizeof(int),
              "enumerations are ints");

size_t td__field_width(const td__field *field) {
    return field->type == TD__FIELD_TRIPLE ? 3 : field->type == TD__FIELD_PAIR ? 2 : 1;
}

double td__field_number(const td__field *field, const void *options, size_t i) {
    const void *place = at_const(options, field->offset);
    if (field->number) {
        return ((const td_number *)place)[i].value;
    }
    if (field->type == TD__FIELD_NUMBER || field->type == TD__FIELD_SHARE) {
        return *(const double *)place;
    }
    if (field->type == TD__FIELD_WORD) {
        int value;
        memcpy(&value, place, sizeof value);
        return value;
    }
    return (double)((const int64_t *)place)[i];
}

void td__field_set_number(const td__field *field, void *options, size_t i, double value) {
    void *place = at(options, field->offset);
    if (field->number) {
        ((td_number *)place)[i] = TD_SET(value);
    } else if (field->type == TD__FIELD_NUMBER || field->type == TD__FIELD_SHARE) {
        *(double *)place = value;
    } else if (field->type == TD__FIELD_WORD) {
        int word = (int)value;
        memcpy(place, &word, sizeof word);
    } else {
        ((int64_t *)place)[i] = (int64_t)value;
    }
}

static int word_value(const void *options, const td__field *field) {
    return (int)td__field_number(field, options, 0);
}

/* Whether one of its numbers is set. */
static bool is_set(const td__field *field, const void *options) {
    const td_number *numbers = at_const(options, field->offset);
    bool set = false;
    for (size_t i = 0; field->number && i < td__field_width(field); i++) {
        set = set || numbers[i].set;
    }
    return set;
}
/* Whether the i-th number has no value of its own. */
static bool is_left_out(const td__field *field, const void *options, size_t i) {
    const td_number *numbers = at_const(options, field->offset);
    return field->number ? !numbers[i].set : td__field_number(field, options, i) == 0;
}

/* --- defaults ----------------------------------------------------------------------------- */

/* Of several numbers, those after the first are by default as the first. */
static void fill_numbers(const td__field *field, void *options, bool always) {
    td_number *numbers = at(options, field->offset);
    bool none = field->no_default && (always || !is_set(field, options));
    for (size_t i = 0; i < td__field_width(field); i++) {
        if (none) {
            numbers[i] = (td_number){.value = field->by_default};
        } else if (always || is_left_out(field, options, i)) {
            double value = i == 0 ? field->by_default : td__field_number(field, options, 0);
            td__field_set_number(field, options, i, value);
        }
    }
}

static void fill_field(const td__field *field, void *options, bool always) {
    switch (field->type) {
    case TD__FIELD_INTEGER:
    case TD__FIELD_PAIR:
    case TD__FIELD_TRIPLE:
    case TD__FIELD_NUMBER:
    case TD__FIELD_WORD:
        fill_numbers(field, options, always);
        break;
    case TD__FIELD_INITIALIZER:
        td__initializer_fill(at(options, field->offset), (td_initializer_kind)field->by_default,
                             always);
        break;
    default: /* zero is the default of the others */
        break;
    }
}

void td__fields_fill(const td__field *fields, size_t count, void *options, bool everywhere) {
    for (size_t i = 0; i < count; i++) {
        fill_field(&fields[i], options, everywhere);
    }
}

/* --- ranges ------------------------------------------------------------------------------- */

/* The smallest and the largest number of a field; false for one that has none. */
static bool extremes(const td__field *field, const void *options, double *min, double *max) {
    const td_shape *shape = at_const(options, field->offset);
    size_t count = td__field_width(field);
    switch (field->type) {
    case TD__FIELD_NUMBER:
    case TD__FIELD_SHARE:
    case TD__FIELD_INTEGER:
    case TD__FIELD_BYTES:
    case TD__FIELD_PAIR:
    case TD__FIELD_TRIPLE:
        count = field->no_default && !is_set(field, options) ? 0 : count;
        break;
    case TD__FIELD_SHAPE:
        count = (size_t)shape->rank;
        break;
    default:
        return false;
    }
    for (size_t i = 0; i < count && i < TD_MAX_RANK; i++) {
        double value = field->type == TD__FIELD_SHAPE ? (double)shape->dims[i]
                                                      : td__field_number(field, options, i);
        *min = i == 0 || value < *min ? value : *min;
        *max = i == 0 || value > *max ? value : *max;
    }
    return count > 0;
}

td_status td__field_check(const td__field *field, const void *options, td_error *error) {
    double min, max;
    bool whole = field->type == TD__FIELD_INTEGER || field->type == TD__FIELD_PAIR ||
                 field->type == TD__FIELD_TRIPLE;
    if (!extremes(field, options, &min, &max)) {
        return TD_OK;
    }
    for (size_t i = 0; whole && i < td__field_width(field); i++) {
        double value = td__field_number(field, options, i);
        if (value != trunc(value)) {
            return td_error_set(error, TD_INVALID, "is %g, it must be a whole number", value);
        }
    }
    if (!(min >= field->minimum) || isinf(min)) {
        return td_error_set(error, TD_RANGE, "is %g, it must be %.12g or more", min,
                            field->minimum);
    }
    if (field->maximum != 0 && max > field->maximum) {
        return td_error_set(error, TD_RANGE, "is %.12g, it must be %.12g or less", max,
                            field->maximum);
    }
    if (field->maximum == 0 && whole && max > LARGEST_INTEGER) {
        return td_error_set(error, TD_RANGE, "is %.0f, it must be less than 2^31", max);
    }
    return TD_OK;
}

static td_status check_field(const td__field *field, const void *options, td_error *error) {
    double min, max;
    if (field->type == TD__FIELD_WORD) {
        double value = td__field_number(field, options, 0);
        bool word = value >= 0 && value < field->words->count && value == trunc(value) &&
                    field->words->words[(int)value];
        return word ? TD_OK
                    : td_error_set(error, TD_INVALID, "is %g, which is no %s", value,
                                   field->words->what);
    }
    if (field->type == TD__FIELD_INITIALIZER) {
        return td__initializer_check(at_const(options, field->offset), error);
    }
    if (field->minimum > 0 && field->by_default == 0 && extremes(field, options, &min, &max) &&
        min == 0) {
        return td_error_set(error, TD_INVALID, "must be given");
    }
    return td__field_check(field, options, error);
}

td_status td__field_explain(const td__field *field, const char *where, const td_error *reason,
                            td_error *error) {
    if (reason->status == TD_NOT_FOUND && field->type == TD__FIELD_WORD) {
        return td_error_set(error, reason->status, "%s%s", where, reason->text);
    }
    return td_error_set(error, reason->status, "%s'%s'%s %s", where, field->key,
                        field->type == TD__FIELD_INITIALIZER ? ":" : "", reason->text);
}

td_status td__fields_check(const td__field *fields, size_t count, const void *options,
                           const char *where, td_error *error) {
    for (size_t i = 0; i < count; i++) {
        td_error reason = {0};
        if (check_field(&fields[i], options, &reason)) {
            return td__field_explain(&fields[i], where, &reason, error);
        }
    }
    return TD_OK;
}

/* --- looking for them ---------------------------------------------------------------------- */

const td_setting *td__setting_find(const td_setting *settings, size_t count, const char *key) {
    for (size_t i = 0; i < count; i++) {
        if (strcmp(settings[i].key, key) == 0) {
            return &settings[i];
        }
    }
    return NULL;
}

static bool same_text(const char *a, const char *b) {
    return a == b || (a && b && strcmp(a, b) == 0);
}

bool td__values_equal(const td_value *a, const td_value *b) {
    bool same = a->kind == b->kind && a->boolean == b->boolean && a->number == b->number &&
                a->count == b->count;
    if (a->kind == TD_VALUE_TEXT || a->kind == TD_VALUE_CHOICE) {
        same = same && same_text(a->text, b->text);
    }
    for (size_t i = 0; same && i < a->count; i++) {
        same = a->kind == TD_VALUE_NUMBERS ? a->numbers[i] == b->numbers[i]
               : a->kind == TD_VALUE_TEXTS
                   ? same_text(a->texts[i], b->texts[i])
                   : same_text(a->settings[i].key, b->settings[i].key) &&
                         td__values_equal(&a->settings[i].value, &b->settings[i].value);
    }
    return same;
}

bool td__fields_have(const td__field *fields, size_t count, const char *key) {
    for (size_t i = 0; i < count; i++) {
        if (!strcmp(key, fields[i].key) || (fields[i].alias && !strcmp(key, fields[i].alias))) {
            return true;
        }
    }
    return false;
}

/* --- keys and values out ------------------------------------------------------------------ */

static size_t numbers_of(const td__field *field) {
    switch (field->type) {
    case TD__FIELD_PAIR:
    case TD__FIELD_TRIPLE:
        return td__field_width(field);
    case TD__FIELD_SHAPE:
        return TD_MAX_RANK;
    case TD__FIELD_NUMBERS:
        return field->room;
    default:
        return 0;
    }
}

static td_value number_value(double number) {
    return (td_value){.kind = TD_VALUE_NUMBER, .number = number};
}

static td_value list_value(size_t count, const double *numbers) {
    return (td_value){.kind = TD_VALUE_NUMBERS, .numbers = numbers, .count = count};
}

td_value td__field_value(const td__field *field, const void *options, double *numbers) {
    const void *place = at_const(options, field->offset);
    switch (field->type) {
    case TD__FIELD_INTEGER:
    case TD__FIELD_BYTES:
    case TD__FIELD_NUMBER:
    case TD__FIELD_SHARE:
        return number_value(td__field_number(field, options, 0));
    case TD__FIELD_PAIR:
    case TD__FIELD_TRIPLE:
        for (size_t i = 0; i < td__field_width(field); i++) {
            numbers[i] = td__field_number(field, options, i);
        }
        return list_value(td__field_width(field), numbers);
    case TD__FIELD_SHAPE: {
        const td_shape *shape = place;
        for (int32_t i = 0; i < shape->rank; i++) {
            numbers[i] = (double)shape->dims[i];
        }
        return list_value((size_t)shape->rank, numbers);
    }
    case TD__FIELD_NUMBERS: {
        int64_t used = *(const int64_t *)at_const(options, field->count_offset);
        memcpy(numbers, place, (size_t)used * sizeof *numbers);
        return (td_value){.kind = TD_VALUE_NUMBERS, .numbers = numbers, .count = (size_t)used};
    }
    case TD__FIELD_BOOL:
    case TD__FIELD_NOT:
        return (td_value){.kind = TD_VALUE_BOOL,
                          .boolean = *(const bool *)place == (field->type == TD__FIELD_BOOL)};
    case TD__FIELD_WORD:
        return (td_value){.kind = TD_VALUE_TEXT,
                          .text = field->words->words[word_value(options, field)]};
    case TD__FIELD_TEXT:
        return (td_value){.kind = TD_VALUE_TEXT, .text = *(const char *const *)place};
    case TD__FIELD_INITIALIZER: /* written by itself: it has settings of its own */
    case TD__FIELD_TEXTS:
        break;
    }
    const char *const *texts = place;
    size_t count = 0;
    while (count < TD_MAX_FROM && texts[count]) {
        count++;
    }
    return (td_value){.kind = TD_VALUE_TEXTS, .texts = texts, .count = count};
}

static bool all_zero(const td_value *value) {
    for (size_t i = 0; i < value->count; i++) {
        if (value->numbers[i] != 0) {
            return false;
        }
    }
    return true;
}

static bool is_empty(const td_value *value) {
    return (value->kind == TD_VALUE_NUMBER && value->number == 0) ||
           (value->kind == TD_VALUE_BOOL && !value->boolean) ||
           (value->kind == TD_VALUE_TEXT && !value->text) ||
           (value->kind == TD_VALUE_TEXTS && value->count == 0) ||
           (value->kind == TD_VALUE_NUMBERS && all_zero(value));
}

static bool is_default_initializer(const td__field *field, const td_value *value) {
    return value->kind == TD_VALUE_TEXT &&
           strcmp(value->text, initializer_names[(int)field->by_default]) == 0;
}

td_status td__fields_write(const td__field *fields, size_t count, const void *options,
                           td_setting **settings, size_t *setting_count, td_error *error) {
    size_t number_count = 0, setting_room = count;
    for (size_t i = 0; i < count; i++) {
        number_count += numbers_of(&fields[i]);
        setting_room += fields[i].type == TD__FIELD_INITIALIZER ? TD__INITIALIZER_MAX_SETTINGS : 0;
    }
    td_setting *list =
        td__calloc(1, setting_room * sizeof(td_setting) + number_count * sizeof(double) + 1);
    if (!list) {
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    double *numbers = (double *)(list + setting_room);
    td_setting *inner = list + count;
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        bool initializer = fields[i].type == TD__FIELD_INITIALIZER;
        td_value value = initializer
                             ? td__initializer_value(at_const(options, fields[i].offset), inner)
                             : td__field_value(&fields[i], options, numbers);
        bool empty = initializer ? is_default_initializer(&fields[i], &value) : is_empty(&value);
        inner += initializer ? TD__INITIALIZER_MAX_SETTINGS : 0;
        if (!fields[i].quiet || !empty || is_set(&fields[i], options)) {
            list[used++] = (td_setting){.key = fields[i].key, .value = value};
            numbers += numbers_of(&fields[i]);
        }
    }
    *settings = list;
    *setting_count = used;
    return TD_OK;
}
