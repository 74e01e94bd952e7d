/* Problems, paths, and the reading of fields by their kind. */
#include "experiment/check.h"

#include "base/memory.h"
#include "base/parse.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Problems -------------------------------------------------------------------------------- */

void td__problem(td__checker *checker, const td__yaml_node *node, const char *format, ...) {
    char what[TD_ERROR_TEXT_SIZE];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    td_error error = {0};
    const char *colon = *checker->path ? ": " : "";
    if (node->line > 0) {
        td_error_set(&error, TD_INVALID, "%s:%d: %s%s%s", node->file, node->line, checker->path,
                     colon, what);
    } else {
        td_error_set(&error, TD_INVALID, "%s: %s%s%s", node->file, checker->path, colon, what);
    }
    if (checker->problems++ == 0) {
        checker->first = error;
    }
    if (checker->problem) {
        checker->problem(checker->user, error.text);
    }
}

static size_t word_count(const char *const *words) {
    size_t count = 0;
    while (words[count]) {
        count++;
    }
    return count;
}

void td__problem_word(td__checker *checker, const td__yaml_node *node, const char *noun,
                      const char *word, const char *const *words) {
    size_t count = word_count(words);
    const char *nearest = td_nearest_word(word, words, count);
    if (nearest) {
        td__problem(checker, node, "no %s '%s'; did you mean '%s'?", noun, word, nearest);
        return;
    }
    char all[700] = "";
    size_t length = 0;
    for (size_t i = 0; i < count && length < sizeof all; i++) {
        length +=
            (size_t)snprintf(all + length, sizeof all - length, "%s%s", i ? ", " : "", words[i]);
    }
    td__problem(checker, node, "no %s '%s'; expected one of %s", noun, word, all);
}

void *td__check_alloc(td__checker *checker, size_t count, size_t size) {
    size_t bytes;
    void *memory = __builtin_mul_overflow(count, size, &bytes)
                       ? NULL
                       : td__yaml_alloc(checker->yaml, bytes ? bytes : 1);
    if (!memory) {
        checker->exhausted = TD_MEMORY;
    }
    return memory;
}

/* ---- Paths ----------------------------------------------------------------------------------- */

size_t td__path_enter(td__checker *checker, const char *part) {
    size_t mark = strlen(checker->path);
    (void)snprintf(checker->path + mark, sizeof checker->path - mark, "%s%s", mark ? "." : "",
                   part);
    return mark;
}

size_t td__path_enter_index(td__checker *checker, size_t index) {
    size_t mark = strlen(checker->path);
    (void)snprintf(checker->path + mark, sizeof checker->path - mark, "[%zu]", index);
    return mark;
}

void td__path_leave(td__checker *checker, size_t mark) {
    checker->path[mark] = 0;
}

/* ---- Values ---------------------------------------------------------------------------------- */

bool td__text_int(const char *text, int64_t *value) {
    const char *digit = text + (*text == '-' || *text == '+');
    int64_t number = 0;
    if (!*digit) {
        return false;
    }
    for (; *digit; digit++) {
        if (*digit == '_' && digit[1] >= '0' && digit[1] <= '9') {
            continue; /* 10_000, as YAML allows */
        }
        if (*digit < '0' || *digit > '9' || __builtin_mul_overflow(number, 10, &number) ||
            __builtin_sub_overflow(number, *digit - '0', &number)) {
            return false;
        }
    }
    /* Gathered as a negative number, of which there is one more. */
    if (*text != '-' && number == INT64_MIN) {
        return false;
    }
    *value = *text == '-' ? number : -number;
    return true;
}

bool td__text_number(const char *text, double *value) {
    int64_t whole;
    if (td__text_int(text, &whole)) {
        *value = (double)whole;
        return true;
    }
    const char *end = td__parse_float64(text, value);
    return end && !*end;
}

static const char *describe(const td__yaml_node *node, char out[80]) {
    static const char *const kinds[] = {"", "a list", "a map"};
    if (node->kind != TD__YAML_SCALAR) {
        return kinds[node->kind];
    }
    (void)snprintf(out, 80, "'%.70s'", node->text);
    return td__yaml_is_null(node) ? "nothing" : out;
}

/* "expected a whole number from 1 to 100, not 'x'" */
static void expected(td__checker *checker, const td__yaml_node *node, const td__map_field *field,
                     const char *what) {
    char range[80] = "", found[80];
    if (field->minimum != 0 || field->maximum != 0) {
        bool open = field->maximum >= 1e15;
        int length = snprintf(range, sizeof range, open ? " of at least %.12g" : " from %.12g",
                              field->minimum);
        if (!open) {
            (void)snprintf(range + length, sizeof range - (size_t)length, " to %.12g",
                           field->maximum);
        }
    }
    td__problem(checker, node, "expected %s%s, not %s", what, range, describe(node, found));
}

static bool in_range(const td__map_field *field, double value) {
    return (field->minimum == 0 && field->maximum == 0) ||
           (value >= field->minimum && value <= field->maximum);
}

static bool is_plain(const td__yaml_node *node) {
    return node->kind == TD__YAML_SCALAR && !node->quoted && !td__yaml_is_null(node);
}

static void read_text(td__checker *checker, td__yaml_node *node, const td__map_field *field,
                      void *member) {
    if (node->kind != TD__YAML_SCALAR || td__yaml_is_null(node)) {
        expected(checker, node, field, "a text");
        return;
    }
    *(const char **)member = node->text;
}

static void read_path(td__checker *checker, td__yaml_node *node, const td__map_field *field,
                      void *member) {
    if (node->kind != TD__YAML_SCALAR || td__yaml_is_null(node)) {
        expected(checker, node, field, "a file's name");
        return;
    }
    size_t room = strlen(checker->folder) + strlen(node->text) + 1;
    char *path = td__check_alloc(checker, room, 1);
    if (!path) {
        return;
    }
    (void)snprintf(path, room, "%s%s", *node->text == '/' ? "" : checker->folder, node->text);
    if (access(path, R_OK)) {
        td__problem(checker, node, "no file '%s' that can be read", path);
        return;
    }
    char *absolute = realpath(path, NULL);
    if (absolute) {
        char *copy = td__check_alloc(checker, strlen(absolute) + 1, 1);
        if (copy) {
            memcpy(copy, absolute, strlen(absolute));
            node->text = copy;
        }
        free(absolute); // NOLINT: realpath's own
    }
    *(const char **)member = path;
}

static void read_bool(td__checker *checker, td__yaml_node *node, const td__map_field *field,
                      void *member) {
    static const char *const words[] = {"false", "no", "off", "true", "yes", "on"};
    for (size_t i = 0; is_plain(node) && i < 6; i++) {
        if (!strcmp(node->text, words[i])) {
            *(bool *)member = i >= 3;
            return;
        }
    }
    expected(checker, node, field, "true or false");
}

static void read_int(td__checker *checker, td__yaml_node *node, const td__map_field *field,
                     void *member) {
    int64_t value;
    if (!is_plain(node) || !td__text_int(node->text, &value) || !in_range(field, (double)value)) {
        expected(checker, node, field, "a whole number");
        return;
    }
    *(int64_t *)member = value;
}

static void read_seed(td__checker *checker, td__yaml_node *node, const td__map_field *field,
                      void *member) {
    int64_t value;
    if (!is_plain(node) || !td__text_int(node->text, &value) || value < 0) {
        expected(checker, node, field, "a whole number of at least 0");
        return;
    }
    *(uint64_t *)member = (uint64_t)value;
}

static bool number_of(td__checker *checker, td__yaml_node *node, const td__map_field *field,
                      double *value) {
    if (!is_plain(node) || !td__text_number(node->text, value) || !isfinite(*value) ||
        !in_range(field, *value)) {
        expected(checker, node, field, "a number");
        return false;
    }
    return true;
}

static void read_number(td__checker *checker, td__yaml_node *node, const td__map_field *field,
                        void *member) {
    double value;
    if (number_of(checker, node, field, &value)) {
        *(double *)member = value;
    }
}

static void read_float(td__checker *checker, td__yaml_node *node, const td__map_field *field,
                       void *member) {
    double value;
    if (number_of(checker, node, field, &value)) {
        *(float *)member = (float)value;
    }
}

static void read_share(td__checker *checker, td__yaml_node *node, const td__map_field *field,
                       void *member) {
    double value;
    const char *end = is_plain(node) ? td__parse_float64(node->text, &value) : NULL;
    bool percent = end && !strcmp(end, "%");
    if (!end || (*end && !percent) || !in_range(field, percent ? value / 100 : value)) {
        expected(checker, node, field, "a share such as 0.05 or 5%");
        return;
    }
    *(double *)member = percent ? value / 100 : value;
}

static void read_bytes(td__checker *checker, td__yaml_node *node, const td__map_field *field,
                       void *member) {
    static const struct {
        const char *name;
        double bytes;
    } units[] = {{"", 1},         {"B", 1},    {"KiB", 0x1p10}, {"MiB", 0x1p20},
                 {"GiB", 0x1p30}, {"kB", 1e3}, {"MB", 1e6},     {"GB", 1e9}};
    double value;
    const char *end = is_plain(node) ? td__parse_float64(node->text, &value) : NULL;
    while (end && *end == ' ') {
        end++;
    }
    for (size_t i = 0; end && value > 0 && i < sizeof units / sizeof *units; i++) {
        if (!strcmp(end, units[i].name) && value * units[i].bytes < 0x1p62) {
            *(int64_t *)member = (int64_t)(value * units[i].bytes);
            if (value * units[i].bytes < field->minimum) {
                td__problem(checker, node, "at least %.0f B", field->minimum);
            }
            return;
        }
    }
    expected(checker, node, field, "a size such as 256 MiB");
}

/* Whole numbers in a list, or one alone; returns how many, -1 after a problem. */
static int read_dims(td__checker *checker, td__yaml_node *node, const td__map_field *field,
                     int most, int64_t *dims, const char *what) {
    td__yaml_node *const *items = node->kind == TD__YAML_LIST ? node->items : &node;
    size_t count = node->kind == TD__YAML_LIST ? node->count : 1;
    bool good = node->kind != TD__YAML_MAP && count >= 1 && count <= (size_t)most;
    for (size_t i = 0; good && i < count; i++) {
        good = is_plain(items[i]) && td__text_int(items[i]->text, &dims[i]) &&
               in_range(field, (double)dims[i]);
    }
    if (!good) {
        expected(checker, node, field, what);
        return -1;
    }
    return (int)count;
}

static void read_shape(td__checker *checker, td__yaml_node *node, const td__map_field *field,
                       void *member) {
    td_shape shape = {0};
    shape.rank = read_dims(checker, node, field, TD_MAX_RANK - 1, shape.dims,
                           "a shape such as [28, 28, 1], with whole numbers");
    if (shape.rank > 0) {
        *(td_shape *)member = shape;
    }
}

static void read_pair(td__checker *checker, td__yaml_node *node, const td__map_field *field,
                      void *member) {
    int64_t dims[2];
    int count = read_dims(checker, node, field, 2, dims, "one or two whole numbers");
    if (count > 0) {
        ((int64_t *)member)[0] = dims[0];
        ((int64_t *)member)[1] = dims[count - 1];
    }
}

static void read_names(td__checker *checker, td__yaml_node *node, const td__map_field *field,
                       void *member) {
    td__yaml_node *const *items = node->kind == TD__YAML_LIST ? node->items : &node;
    size_t count = node->kind == TD__YAML_LIST ? node->count : 1;
    const char **names = td__check_alloc(checker, count, sizeof *names);
    for (size_t i = 0; names && i < count; i++) {
        if (items[i]->kind != TD__YAML_SCALAR || td__yaml_is_null(items[i])) {
            expected(checker, items[i], field, "a name or a list of names");
            return;
        }
        names[i] = items[i]->text;
    }
    *(td_names *)member = (td_names){names, names ? count : 0};
}

static void read_word(td__checker *checker, td__yaml_node *node, const td__map_field *field,
                      void *member) {
    if (node->kind != TD__YAML_SCALAR) {
        expected(checker, node, field, "a word");
        return;
    }
    for (int i = 0; field->words[i]; i++) {
        if (!strcmp(field->words[i], node->text)) {
            *(int *)member = i;
            return;
        }
    }
    td__problem_word(checker, node, field->key, node->text, field->words);
}

static void (*const readers[])(td__checker *, td__yaml_node *, const td__map_field *, void *) = {
    [TD__TEXT] = read_text,   [TD__PATH] = read_path,   [TD__BOOL] = read_bool,
    [TD__INT] = read_int,     [TD__SEED] = read_seed,   [TD__NUMBER] = read_number,
    [TD__FLOAT] = read_float, [TD__SHARE] = read_share, [TD__BYTES] = read_bytes,
    [TD__SHAPE] = read_shape, [TD__PAIR] = read_pair,   [TD__NAMES] = read_names,
    [TD__WORD] = read_word,
};

void td__check_field(td__checker *checker, td__yaml_node *node, const td__map_field *field,
                     void *into) {
    void *member = (char *)into + field->offset;
    if (field->kind == TD__CUSTOM) {
        field->read(checker, node, member);
    } else {
        readers[field->kind](checker, node, field, member);
    }
}

/* ---- Maps ------------------------------------------------------------------------------------ */

static void unknown_key(td__checker *checker, const td__yaml_node *key, const td__map_field *fields,
                        size_t count) {
    const char *words[64];
    for (size_t i = 0; i < count && i < 63; i++) {
        words[i] = fields[i].key;
    }
    words[count < 63 ? count : 63] = NULL;
    size_t mark = td__path_enter(checker, key->text);
    const char *nearest = td_nearest_word(key->text, words, word_count(words));
    if (nearest) {
        td__problem(checker, key, "unknown key; did you mean '%s'?", nearest);
    } else {
        td__path_leave(checker, mark);
        td__problem_word(checker, key, "key", key->text, words);
    }
    td__path_leave(checker, mark);
}

static void check_keys(td__checker *checker, const td__yaml_node *node, const td__map_field *fields,
                       size_t count) {
    for (size_t k = 0; k < node->count; k++) {
        size_t i = 0;
        while (i < count && strcmp(fields[i].key, node->keys[k]->text) != 0) {
            i++;
        }
        if (i == count) {
            unknown_key(checker, node->keys[k], fields, count);
        }
    }
}

void td__check_map(td__checker *checker, td__yaml_node *node, const td__map_field *fields,
                   size_t count, void *into) {
    if (node->kind != TD__YAML_MAP) {
        char found[80];
        td__problem(checker, node, "expected a map (KEY: VALUE), not %s", describe(node, found));
        return;
    }
    check_keys(checker, node, fields, count);
    for (size_t i = 0; i < count; i++) {
        const td__map_field *field = &fields[i];
        td__yaml_node *value = td__yaml_get(node, field->key);
        if (value && td__yaml_is_null(value) && field->fallback && field->kind != TD__CUSTOM) {
            value = NULL; /* `scale:` with nothing behind it is the default */
        }
        if (!value && field->fallback) {
            value = td__yaml_scalar(checker->yaml, field->fallback, false);
            if (!value || td__yaml_put(checker->yaml, node, field->key, value)) {
                checker->exhausted = TD_MEMORY;
                return;
            }
        }
        size_t mark = td__path_enter(checker, field->key);
        if (value) {
            td__check_field(checker, value, field, into);
        } else if (field->required) {
            td__problem(checker, node, "is missing");
        }
        td__path_leave(checker, mark);
    }
}

bool td__check_choice(td__checker *checker, const td__yaml_node *node, const char *noun,
                      const td__yaml_node **name, td__yaml_node **fields) {
    if (node->kind == TD__YAML_SCALAR && !td__yaml_is_null(node)) {
        *name = node;
        *fields = NULL;
        return true;
    }
    if (node->kind == TD__YAML_MAP && node->count == 1) {
        *name = node->keys[0];
        *fields = node->items[0];
        return true;
    }
    char found[80];
    td__problem(checker, node, "expected %s, NAME or {NAME: {…}}, not %s", noun,
                node->kind == TD__YAML_MAP ? "a map with several names" : describe(node, found));
    return false;
}

td__yaml_node *td__choice_fields(td__checker *checker, td__yaml_node *choice) {
    if (choice->kind == TD__YAML_MAP && choice->items[0]->kind != TD__YAML_SCALAR) {
        return choice->items[0];
    }
    if (choice->kind == TD__YAML_MAP && !td__yaml_is_null(choice->items[0])) {
        return choice->items[0];
    }
    td__yaml_node *map = td__yaml_map(checker->yaml);
    if (!map) {
        checker->exhausted = TD_MEMORY;
        return NULL;
    }
    map->line = choice->line;
    map->column = choice->column;
    map->file = choice->file;
    if (choice->kind == TD__YAML_MAP) {
        choice->items[0] = map;
        return map;
    }
    const char *name = choice->text;
    choice->kind = TD__YAML_MAP;
    choice->text = "";
    choice->quoted = false;
    if (td__yaml_put(checker->yaml, choice, name, map)) {
        checker->exhausted = TD_MEMORY;
        return NULL;
    }
    return map;
}
