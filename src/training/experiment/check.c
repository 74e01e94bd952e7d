/* Problems, paths, and the reading of maps by tables of their keys. */
#include "experiment/check.h"

#include "base/memory.h"
#include "base/parse.h"
#include "data/bytes.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_KEYS = 64 };

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

static const char *describe_node(const td__yaml_node *node, char out[80]) {
    static const char *const kinds[] = {"", "a list", "a map"};
    if (node->kind != TD__YAML_SCALAR) {
        return kinds[node->kind];
    }
    (void)snprintf(out, 80, "'%.70s'", node->text);
    return td__yaml_is_null(node) ? "nothing" : out;
}

static td_value scalar_value(const td__yaml_node *node) {
    static const char *const words[] = {"false", "False", "FALSE", "no",  "off",
                                        "true",  "True",  "TRUE",  "yes", "on"};
    td_value value = {.kind = TD_VALUE_TEXT, .text = node->text};
    if (node->quoted) {
        return value;
    }
    if (td__text_number(node->text, &value.number)) {
        value.kind = TD_VALUE_NUMBER;
    }
    for (size_t i = 0; i < TD__COUNT(words); i++) {
        if (!strcmp(node->text, words[i])) {
            value.kind = TD_VALUE_BOOL;
            value.boolean = i >= TD__COUNT(words) / 2;
        }
    }
    return value;
}

/* Numbers when all items are, otherwise texts. */
static bool list_value(td__checker *checker, const td__yaml_node *node, td_value *value) {
    double *numbers = td__check_alloc(checker, node->count, sizeof *numbers);
    const char **texts = td__check_alloc(checker, node->count, sizeof *texts);
    if (!numbers || !texts) {
        return false;
    }
    size_t numeric = 0;
    for (size_t i = 0; i < node->count; i++) {
        if (node->items[i]->kind != TD__YAML_SCALAR) {
            td__problem(checker, node->items[i], "expected a list of numbers or of names");
            return false;
        }
        td_value item = scalar_value(node->items[i]);
        numeric += item.kind == TD_VALUE_NUMBER;
        numbers[i] = item.number;
        texts[i] = item.text;
    }
    *value = (td_value){.kind = numeric == node->count ? TD_VALUE_NUMBERS : TD_VALUE_TEXTS,
                        .numbers = numbers,
                        .texts = texts,
                        .count = node->count};
    return true;
}

bool td__check_value(td__checker *checker, const td__yaml_node *node, td_value *value) {
    if (node->kind == TD__YAML_MAP || td__yaml_is_null(node)) {
        char found[80];
        td__problem(checker, node, "expected a number, a word or a list, not %s",
                    describe_node(node, found));
        return false;
    }
    if (node->kind == TD__YAML_LIST) {
        return list_value(checker, node, value);
    }
    *value = scalar_value(node);
    return true;
}

bool td__is_text(const td__yaml_node *node) {
    return !td__yaml_is_null(node) && scalar_value(node).kind == TD_VALUE_TEXT;
}

void td__read_path(td__checker *checker, td__yaml_node *node, void *member) {
    if (node->kind != TD__YAML_SCALAR || td__yaml_is_null(node)) {
        char found[80];
        td__problem(checker, node, "must be a file's name, not %s", describe_node(node, found));
        return;
    }
    size_t room = strlen(checker->folder) + strlen(node->text) + 1;
    char *path = td__check_alloc(checker, room, 1);
    if (!path) {
        return;
    }
    (void)snprintf(path, room, "%s%s", *node->text == '/' ? "" : checker->folder, node->text);
    size_t archive = td__archive_length(path); /* ARCHIVE.zip/MEMBER: the archive is the file */
    char behind = archive ? path[archive] : 0;
    if (archive) {
        path[archive] = 0;
    }
    if (access(path, R_OK)) {
        if (errno == ENOENT) {
            td__problem(checker, node, "no file '%s' that can be read", path);
        } else {
            td__problem(checker, node, "'%s' cannot be read: %s", path, strerror(errno));
        }
        return;
    }
    char *absolute = realpath(path, NULL);
    if (archive) {
        path[archive] = behind;
    }
    if (absolute) {
        const char *inner = archive ? path + archive : "";
        char *copy = td__check_alloc(checker, strlen(absolute) + strlen(inner) + 1, 1);
        if (copy) {
            memcpy(copy, absolute, strlen(absolute));
            memcpy(copy + strlen(absolute), inner, strlen(inner));
            node->text = copy;
        }
        free(absolute); // NOLINT: realpath's own
    }
    *(const char **)member = path;
}

const td__yaml_node *td__name_node(const td__yaml_node *node, size_t i) {
    return node->kind == TD__YAML_LIST ? node->items[i] : node;
}

void td__read_names(td__checker *checker, td__yaml_node *node, void *member) {
    size_t count = node->kind == TD__YAML_LIST ? node->count : 1;
    const char **names = td__check_alloc(checker, count, sizeof *names);
    for (size_t i = 0; names && i < count; i++) {
        const td__yaml_node *item = td__name_node(node, i);
        if (item->kind != TD__YAML_SCALAR || td__yaml_is_null(item)) {
            char found[80];
            td__problem(checker, item, "must be a name or a list of names, not %s",
                        describe_node(item, found));
            return;
        }
        names[i] = item->text;
    }
    *(td_names *)member = (td_names){names, names ? count : 0};
}

/* ---- Maps ------------------------------------------------------------------------------------ */

static void check_keys(td__checker *checker, const td__yaml_node *node, const td__key *keys,
                       size_t count) {
    for (size_t k = 0; k < node->count; k++) {
        const char *words[MAX_KEYS] = {0};
        size_t i = 0;
        while (i < count && strcmp(keys[i].field.key, node->keys[k]->text) != 0) {
            words[i] = keys[i].elsewhere ? NULL : keys[i].field.key;
            i++;
        }
        if (i < count && keys[i].elsewhere) {
            td__problem(checker, node->keys[k], "there is no '%s' here: %s", node->keys[k]->text,
                        keys[i].elsewhere);
        } else if (i == count) {
            char hint[TD__HINT_ROOM];
            td__problem(checker, node->keys[k], "there is no '%s'%s", node->keys[k]->text,
                        td__word_hint(hint, node->keys[k]->text, words, count));
        }
    }
}

static void read_key(td__checker *checker, td__yaml_node *node, const td__key *key, void *into) {
    td_value value;
    td_error reason = {0};
    if (key->read) {
        key->read(checker, node, (char *)into + key->field.offset);
    } else if (td__check_value(checker, node, &value) &&
               td__field_set(&key->field, into, &value, &reason)) {
        td__problem(checker, node, "%s", reason.text);
    }
}

void td__check_map(td__checker *checker, td__yaml_node *node, const td__key *keys, size_t count,
                   void *into) {
    assert(count <= MAX_KEYS);
    if (node->kind != TD__YAML_MAP) {
        char found[80];
        td__problem(checker, node, "expected a map (KEY: VALUE), not %s",
                    describe_node(node, found));
        return;
    }
    check_keys(checker, node, keys, count);
    for (size_t i = 0; i < count; i++) {
        const td__key *key = &keys[i];
        td__yaml_node *value = td__yaml_get(node, key->field.key);
        if (key->elsewhere) {
            continue;
        }
        if (value && td__yaml_is_null(value) && key->fallback && !key->read) {
            value = NULL; /* `scale:` with nothing behind it is the default */
        }
        if (!value && key->fallback) {
            value = td__yaml_scalar(checker->yaml, key->fallback, false);
            if (!value || td__yaml_put(checker->yaml, node, key->field.key, value)) {
                checker->exhausted = TD_MEMORY;
                return;
            }
        }
        size_t mark = td__path_enter(checker, key->field.key);
        if (value) {
            read_key(checker, value, key, into);
        } else if (key->required) {
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
                node->kind == TD__YAML_MAP ? "a map with several names"
                                           : describe_node(node, found));
    return false;
}
