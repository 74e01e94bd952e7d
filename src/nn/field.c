/* Reading and writing option structs through tables of their fields. */
#include "nn/field.h"

#include "base/memory.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define MAXIMUM_WORDS 64
#define LARGEST_WHOLE 9007199254740992.0 /* 2^53: beyond it doubles skip whole numbers */
#define LARGEST_INTEGER 2147483647.0     /* so that a product of two fits int64_t */

/* --- enumerations ------------------------------------------------------------------------- */

#define WORD_MEMBER(member, text) [TD_##member] = text,
static const char *const activation_names[] = {TD_ACTIVATION_LIST(WORD_MEMBER)};
static const char *const initializer_names[] = {TD_INITIALIZER_LIST(WORD_MEMBER)};
#undef WORD_MEMBER
static const char *const padding_names[] = {"valid", "same", "causal"};
static const char *const interpolation_names[] = {"nearest", "bilinear"};

const td__words td__activation_words = {"activation", activation_names, TD_ACTIVATION_COUNT, "silu",
                                        "swish"};
const td__words td__initializer_words = {"initializer", initializer_names, TD_INITIALIZER_COUNT,
                                         NULL, NULL};
const td__words td__padding_words = {"padding", padding_names, 3, NULL, NULL};
const td__words td__interpolation_words = {"interpolation", interpolation_names, 2, NULL, NULL};

/* "; did you mean 'adam'?", or all there are. */
static void suggest(char *hint, size_t size, const char *word, const char *const *candidates,
                    size_t count) {
    const char *nearest = td_nearest_word(word, candidates, count);
    size_t length = (size_t)(nearest ? snprintf(hint, size, "; did you mean '%s'?", nearest)
                                     : snprintf(hint, size, "; there are "));
    for (size_t i = 0; !nearest && i < count && length < size; i++) {
        length +=
            (size_t)snprintf(hint + length, size - length, "%s%s", i ? ", " : "", candidates[i]);
    }
}

int td__word_find(const td__words *words, const char *word, const char *where, td_error *error) {
    if (words->synonym && strcmp(word, words->synonym) == 0) {
        word = words->synonym_of;
    }
    const char *candidates[MAXIMUM_WORDS] = {0};
    size_t count = 0;
    for (int i = 0; i < words->count; i++) {
        if (words->words[i] && strcmp(word, words->words[i]) == 0) {
            return i;
        }
        if (words->words[i] && count < MAXIMUM_WORDS) {
            candidates[count++] = words->words[i];
        }
    }
    char hint[TD_ERROR_TEXT_SIZE];
    suggest(hint, sizeof hint, word, candidates, count);
    (void)td_error_set(error, TD_NOT_FOUND, "%sthere is no %s '%s'%s", where, words->what, word,
                       hint);
    return -1;
}

/* --- access to a field -------------------------------------------------------------------- */

static void *at(void *options, size_t offset) {
    return (char *)options + offset;
}
static const void *at_const(const void *options, size_t offset) {
    return (const char *)options + offset;
}

static int word_value(const void *options, const td__field *field) {
    int value;
    memcpy(&value, at_const(options, field->offset), sizeof value);
    return value;
}
static void set_word(void *options, const td__field *field, int value) {
    memcpy(at(options, field->offset), &value, sizeof value);
}
/* An enumeration may be accessed as an int, which word_value relies on. */
static_assert(sizeof(td_activation) == sizeof(int) && sizeof(td_fan) == sizeof(int) &&
                  sizeof(td_distribution) == sizeof(int) && sizeof(td_padding) == sizeof(int) &&
                  sizeof(td_interpolation) == sizeof(int),
              "enumerations are ints");

/* Whether a value that can be left out was not. */
static void set_given(const td__field *field, void *options) {
    if (field->given_offset) {
        *(bool *)at(options, field->given_offset) = true;
    }
}
static bool is_given(const td__field *field, const void *options) {
    return field->given_offset && *(const bool *)at_const(options, field->given_offset);
}

/* --- defaults ----------------------------------------------------------------------------- */

static void fill_field(const td__field *field, void *options, bool always) {
    void *place = at(options, field->offset);
    switch (field->type) {
    case TD__FIELD_INTEGER: {
        int64_t *integer = place;
        *integer = always || *integer == 0 ? (int64_t)field->standard : *integer;
        break;
    }
    case TD__FIELD_PAIR: {
        int64_t *pair = place;
        if (is_given(field, options)) {
            break;
        }
        pair[0] = always || pair[0] == 0 ? (int64_t)field->standard : pair[0];
        pair[1] = always || pair[1] == 0 ? pair[0] : pair[1];
        if (pair[0] || pair[1]) {
            set_given(field, options);
        }
        break;
    }
    case TD__FIELD_NUMBER: {
        double *number = place;
        bool unset = *number == 0 && !signbit(*number);
        if (!unset) {
            set_given(field, options);
        }
        *number = always || unset ? field->standard : *number;
        *number = *number == 0 ? 0 : *number; /* TD_ZERO has served */
        break;
    }
    case TD__FIELD_WORD:
        if (always || word_value(options, field) == 0) {
            set_word(options, field, (int)field->standard);
        }
        break;
    case TD__FIELD_INITIALIZER:
        td__initializer_fill(place, (td_initializer_kind)field->standard, always);
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

void td__fields_protect(const td__field *fields, size_t count, void *options) {
    for (size_t i = 0; i < count; i++) {
        if (fields[i].type == TD__FIELD_NUMBER) {
            double *number = at(options, fields[i].offset);
            *number = *number == 0 ? TD_ZERO : *number;
        }
    }
}

/* --- keys and values in ------------------------------------------------------------------- */

static const char *const kind_texts[] = {
    [TD_VALUE_NUMBER] = "a number",       [TD_VALUE_TEXT] = "text",
    [TD_VALUE_BOOL] = "true or false",    [TD_VALUE_NUMBERS] = "a list of numbers",
    [TD_VALUE_TEXTS] = "a list of texts", [TD_VALUE_CHOICE] = "a map"};

static td_status refuse(const td_setting *setting, const char *wanted, const char *where,
                        td_error *error) {
    const td_value *value = &setting->value;
    if (value->kind == TD_VALUE_NUMBER) {
        return td_error_set(error, TD_INVALID, "%s'%s' must be %s, not %g", where, setting->key,
                            wanted, value->number);
    }
    if (value->kind == TD_VALUE_TEXT) {
        return td_error_set(error, TD_INVALID, "%s'%s' must be %s, not '%s'", where, setting->key,
                            wanted, value->text);
    }
    return td_error_set(error, TD_INVALID, "%s'%s' must be %s, not %s", where, setting->key, wanted,
                        kind_texts[value->kind]);
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

static bool all_whole(const double *numbers, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (!is_whole(numbers[i])) {
            return false;
        }
    }
    return true;
}

static td_status set_integers(const td__field *field, void *options, const td_setting *setting,
                              const char *where, td_error *error) {
    size_t count;
    const double *numbers = value_numbers(&setting->value, &count);
    size_t most = field->type == TD__FIELD_PAIR ? 2 : 1;
    if (!numbers || count < 1 || count > most || !all_whole(numbers, count)) {
        return refuse(setting, most == 2 ? "a whole number or a list of two" : "a whole number",
                      where, error);
    }
    int64_t *integers = at(options, field->offset);
    for (size_t i = 0; i < most; i++) {
        integers[i] = (int64_t)numbers[i < count ? i : 0];
    }
    set_given(field, options);
    return TD_OK;
}

static td_status set_numbers(const td__field *field, void *options, const td_setting *setting,
                             const char *where, td_error *error) {
    size_t count;
    const double *numbers = value_numbers(&setting->value, &count);
    if (!numbers) {
        return refuse(setting, "a list of numbers", where, error);
    }
    if (count > field->room) {
        return td_error_set(error, TD_RANGE, "%s'%s' has %zu numbers, at most %zu fit", where,
                            setting->key, count, field->room);
    }
    memcpy(at(options, field->offset), numbers, count * sizeof *numbers);
    int64_t *used = at(options, field->count_offset);
    *used = (int64_t)count;
    return TD_OK;
}

static td_status set_shape(const td__field *field, void *options, const td_setting *setting,
                           const char *where, td_error *error) {
    size_t count;
    const double *numbers = value_numbers(&setting->value, &count);
    if (!numbers || count < 1 || count >= TD_MAX_RANK || !all_whole(numbers, count)) {
        return refuse(setting, "a list of 1 to 7 whole numbers", where, error);
    }
    td_shape *shape = at(options, field->offset);
    shape->rank = (int32_t)count;
    for (size_t i = 0; i < count; i++) {
        shape->dims[i] = (int64_t)numbers[i];
    }
    return TD_OK;
}

static td_status set_texts(const td__field *field, void *options, const td_setting *setting,
                           const char *where, td_error *error) {
    const td_value *value = &setting->value;
    const char **texts = at(options, field->offset);
    if (value->kind == TD_VALUE_TEXT) {
        texts[0] = value->text;
        return TD_OK;
    }
    if (value->kind != TD_VALUE_TEXTS || value->count < 1 || value->count > TD_MAX_FROM) {
        return refuse(setting, "a name or a list of 1 to 16 names", where, error);
    }
    for (size_t i = 0; i < value->count; i++) {
        texts[i] = value->texts[i];
    }
    return TD_OK;
}

static td_status set_field(const td__field *field, void *options, const td_setting *setting,
                           const char *where, td_error *error) {
    const td_value *value = &setting->value;
    void *place = at(options, field->offset);
    switch (field->type) {
    case TD__FIELD_INTEGER:
    case TD__FIELD_PAIR:
        return set_integers(field, options, setting, where, error);
    case TD__FIELD_NUMBERS:
        return set_numbers(field, options, setting, where, error);
    case TD__FIELD_SHAPE:
        return set_shape(field, options, setting, where, error);
    case TD__FIELD_TEXTS:
        return set_texts(field, options, setting, where, error);
    case TD__FIELD_NUMBER:
        if (value->kind != TD_VALUE_NUMBER) {
            return refuse(setting, "a number", where, error);
        }
        *(double *)place = value->number;
        set_given(field, options);
        return TD_OK;
    case TD__FIELD_BOOL:
    case TD__FIELD_NOT:
        if (value->kind != TD_VALUE_BOOL) {
            return refuse(setting, "true or false", where, error);
        }
        *(bool *)place = value->boolean == (field->type == TD__FIELD_BOOL);
        return TD_OK;
    case TD__FIELD_TEXT:
        if (value->kind != TD_VALUE_TEXT) {
            return refuse(setting, "text", where, error);
        }
        *(const char **)place = value->text;
        return TD_OK;
    case TD__FIELD_INITIALIZER:
        return value->kind == TD_VALUE_TEXT || value->kind == TD_VALUE_CHOICE
                   ? td__initializer_set(place, setting, where, error)
                   : refuse(setting, "an initializer, NAME or {NAME: {…}}", where, error);
    case TD__FIELD_WORD:
        break;
    }
    if (value->kind != TD_VALUE_TEXT) {
        return refuse(setting, "a word", where, error);
    }
    int word = td__word_find(field->words, value->text, where, error);
    if (word < 0) {
        return TD_NOT_FOUND;
    }
    set_word(options, field, word);
    return TD_OK;
}

static const td__field *find_field(const td__field *fields, size_t count, const char *key,
                                   const char *where, td_error *error) {
    const char *keys[MAXIMUM_WORDS] = {0};
    for (size_t i = 0; i < count; i++) {
        if (strcmp(key, fields[i].key) == 0 ||
            (fields[i].alias && strcmp(key, fields[i].alias) == 0)) {
            return &fields[i];
        }
        keys[i] = fields[i].key;
    }
    const char *nearest = td_nearest_word(key, keys, count);
    if (nearest) {
        (void)td_error_set(error, TD_NOT_FOUND, "%sthere is no '%s'; did you mean '%s'?", where,
                           key, nearest);
        return NULL;
    }
    char list[512] = "";
    for (size_t i = 0, used = 0; i < count && used < sizeof list; i++) {
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", keys[i]);
    }
    (void)td_error_set(error, TD_NOT_FOUND, "%sthere is no '%s', only %s", where, key, list);
    return NULL;
}

td_status td__fields_set(const td__field *fields, size_t count, void *options,
                         const td_setting *settings, size_t setting_count, const char *where,
                         td_error *error) {
    assert(count <= MAXIMUM_WORDS);
    uint64_t seen = 0;
    for (size_t i = 0; i < setting_count; i++) {
        const td__field *field = find_field(fields, count, settings[i].key, where, error);
        if (!field) {
            return TD_NOT_FOUND;
        }
        uint64_t bit = UINT64_C(1) << (field - fields);
        if (seen & bit) {
            return td_error_set(error, TD_INVALID, "%s'%s' is given twice", where, field->key);
        }
        seen |= bit;
        if (settings[i].value.kind == TD_VALUE_TEXT && !settings[i].value.text) {
            return td_error_set(error, TD_INVALID, "%s'%s' has no value", where, field->key);
        }
        td_status status = set_field(field, options, &settings[i], where, error);
        if (status) {
            return status;
        }
    }
    return TD_OK;
}

/* --- ranges ------------------------------------------------------------------------------- */

static td_status check_field(const td__field *field, const void *options, const char *where,
                             td_error *error) {
    const void *place = at_const(options, field->offset);
    double least = 0, most = 0;
    switch (field->type) {
    case TD__FIELD_INTEGER:
        least = most = (double)*(const int64_t *)place;
        break;
    case TD__FIELD_PAIR: {
        const int64_t *pair = place;
        least = (double)(pair[0] < pair[1] ? pair[0] : pair[1]);
        most = (double)(pair[0] < pair[1] ? pair[1] : pair[0]);
        break;
    }
    case TD__FIELD_NUMBER:
        least = *(const double *)place;
        break;
    case TD__FIELD_WORD: {
        int value = word_value(options, field);
        if (value < 0 || value >= field->words->count || !field->words->words[value]) {
            return td_error_set(error, TD_INVALID, "%s'%s' is %d, which is no %s", where,
                                field->key, value, field->words->what);
        }
        return TD_OK;
    }
    case TD__FIELD_INITIALIZER:
        return td__initializer_check(place, field->key, where, error);
    default:
        return TD_OK;
    }
    if (least == 0 && field->minimum > 0 && field->standard == 0) {
        return td_error_set(error, TD_INVALID, "%s'%s' must be given", where, field->key);
    }
    if (!(least >= field->minimum) || isinf(least)) {
        return td_error_set(error, TD_RANGE, "%s'%s' is %g, it must be %g or more", where,
                            field->key, least, field->minimum);
    }
    if (most > LARGEST_INTEGER) {
        return td_error_set(error, TD_RANGE, "%s'%s' is %.0f, it must be less than 2^31", where,
                            field->key, most);
    }
    return TD_OK;
}

td_status td__fields_check(const td__field *fields, size_t count, const void *options,
                           const char *where, td_error *error) {
    for (size_t i = 0; i < count; i++) {
        td_status status = check_field(&fields[i], options, where, error);
        if (status) {
            return status;
        }
    }
    return TD_OK;
}

/* --- keys and values out ------------------------------------------------------------------ */

static size_t numbers_of(const td__field *field) {
    switch (field->type) {
    case TD__FIELD_PAIR:
        return 2;
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

static td_value list_value(const int64_t *integers, size_t count, double *numbers) {
    for (size_t i = 0; i < count; i++) {
        numbers[i] = (double)integers[i];
    }
    return (td_value){.kind = TD_VALUE_NUMBERS, .numbers = numbers, .count = count};
}

td_value td__field_value(const td__field *field, const void *options, double *numbers) {
    const void *place = at_const(options, field->offset);
    switch (field->type) {
    case TD__FIELD_INTEGER:
        return number_value((double)*(const int64_t *)place);
    case TD__FIELD_NUMBER:
        return number_value(*(const double *)place);
    case TD__FIELD_PAIR:
        return list_value(place, 2, numbers);
    case TD__FIELD_SHAPE: {
        const td_shape *shape = place;
        return list_value(shape->dims, (size_t)shape->rank, numbers);
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

static bool is_empty(const td_value *value) {
    return (value->kind == TD_VALUE_NUMBER && value->number == 0) ||
           (value->kind == TD_VALUE_BOOL && !value->boolean) ||
           (value->kind == TD_VALUE_TEXT && !value->text) ||
           (value->kind == TD_VALUE_TEXTS && value->count == 0) ||
           (value->kind == TD_VALUE_NUMBERS && value->count == 2 && value->numbers[0] == 0 &&
            value->numbers[1] == 0);
}

static bool is_standard(const td__field *field, const td_value *value) {
    return value->kind == TD_VALUE_TEXT &&
           strcmp(value->text, initializer_names[(int)field->standard]) == 0;
}

td_status td__fields_write(const td__field *fields, size_t count, const void *options,
                           td_setting **settings, size_t *setting_count, td_error *error) {
    size_t number_count = 0, setting_room = count;
    for (size_t i = 0; i < count; i++) {
        number_count += numbers_of(&fields[i]);
        setting_room += fields[i].type == TD__FIELD_INITIALIZER ? TD__INITIALIZER_MOST_SETTINGS : 0;
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
        bool empty = initializer ? is_standard(&fields[i], &value) : is_empty(&value);
        inner += initializer ? TD__INITIALIZER_MOST_SETTINGS : 0;
        if (!fields[i].quiet || !empty || is_given(&fields[i], options)) {
            list[used++] = (td_setting){.key = fields[i].key, .value = value};
            numbers += numbers_of(&fields[i]);
        }
    }
    *settings = list;
    *setting_count = used;
    return TD_OK;
}
