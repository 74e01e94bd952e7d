#include "base/json.h"

#include <math.h>
#include <string.h>

/* What jansson takes for a list, a map, and an element of either with its number or the head of its
 * text, rounded up. */
enum { LIST_BYTES = 144, MAP_BYTES = 320, ELEMENT_BYTES = 96 };
#define BASE_BUDGET ((size_t)40 << 20)

size_t td__json_budget(size_t file_size) {
    return BASE_BUDGET + (file_size < SIZE_MAX / 2 ? 2 * file_size : file_size);
}

/* An upper bound of the tree's size in bytes. Malformed text may give any number: it has no tree. */
static size_t estimate_tree_bytes(const char *text, size_t length) {
    size_t bytes = ELEMENT_BYTES + length;
    bool quoted = false;
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        if (quoted) {
            i += c == '\\';
            quoted = c != '"';
            continue;
        }
        quoted = c == '"';
        bytes += c == '[' ? LIST_BYTES : c == '{' ? MAP_BYTES : c == ',' ? ELEMENT_BYTES : 0;
    }
    return bytes;
}

static json_t *read_tree(const char *path, const char *text, size_t length, size_t budget,
                         size_t flags, td_error *error) {
    if (estimate_tree_bytes(text, length) > budget) {
        td_error_set(error, TD_RANGE, "%s: its JSON takes more memory than the file justifies",
                     path);
        return NULL;
    }
    json_error_t reason;
    json_t *value = json_loadb(text, length, JSON_REJECT_DUPLICATES | flags, &reason);
    if (!value) {
        td_error_set(error, TD_FORMAT, "%s: not sound JSON: %s", path, reason.text);
    }
    return value;
}

json_t *td__json_read(const char *path, const char *text, size_t length, size_t budget,
                      td_error *error) {
    return read_tree(path, text, length, budget, 0, error);
}

json_t *td__json_read_zeros(const char *path, const char *text, size_t length, size_t budget,
                            td_error *error) {
    return read_tree(path, text, length, budget, JSON_ALLOW_NUL, error);
}

bool td__json_has_zero(const json_t *text) {
    return json_is_string(text) && strlen(json_string_value(text)) != json_string_length(text);
}

json_t *td__json_number(double number) {
    bool whole = number == floor(number) && fabs(number) < 0x1p53;
    return whole ? json_integer((json_int_t)number) : json_real(number);
}
