/* NPY versions 1 to 3: magic, header length, a Python dictionary with the keys descr, fortran_order
 * and shape in any order, then the elements. */
#include "base/memory.h"
#include "tensor/npy.h"

#include <string.h>

enum { HEADER_MAXIMUM = 65536 };

/* A place in the dictionary's text. */
typedef struct cursor {
    const char *start, *p, *end;
    const char *what;
    td_error *error;
} cursor;

static td_status npy_malformed(const cursor *c, const char *expected) {
    return td_error_set(c->error, TD_FORMAT,
                        "%s: damaged NPY header: %s was expected at its byte %lld", c->what,
                        expected, (long long)(c->p - c->start));
}

static void skip_blanks(cursor *c) {
    while (c->p < c->end && (*c->p == ' ' || *c->p == '\n' || *c->p == '\t')) {
        c->p++;
    }
}

static bool take_text(cursor *c, const char *text) {
    size_t length = strlen(text);
    skip_blanks(c);
    if ((size_t)(c->end - c->p) < length || memcmp(c->p, text, length) != 0) {
        return false;
    }
    c->p += length;
    return true;
}

/* A quoted text without escapes. */
static bool take_string(cursor *c, char *text, size_t size) {
    skip_blanks(c);
    if (c->p == c->end || (*c->p != '\'' && *c->p != '"')) {
        return false;
    }
    const char *start = c->p + 1;
    const char *close = memchr(start, *c->p, (size_t)(c->end - start));
    if (!close || (size_t)(close - start) >= size) {
        return false;
    }
    memcpy(text, start, (size_t)(close - start));
    text[close - start] = 0;
    c->p = close + 1;
    return true;
}

static bool take_number(cursor *c, int64_t *number) {
    skip_blanks(c);
    const char *start = c->p;
    int64_t value = 0;
    for (; c->p < c->end && *c->p >= '0' && *c->p <= '9'; c->p++) {
        if (!td__multiply(value, 10, &value) ||
            __builtin_add_overflow(value, (int64_t)(*c->p - '0'), &value)) {
            return false;
        }
    }
    bool any = c->p > start;
    if (any && c->p < c->end && *c->p == 'L') { /* Python 2 wrote longs so */
        c->p++;
    }
    *number = value;
    return any;
}

static td_status take_shape(cursor *c, td_shape *shape) {
    td_shape made = {0};
    if (!take_text(c, "(")) {
        return npy_malformed(c, "a shape");
    }
    while (!take_text(c, ")")) {
        if (made.rank == TD_MAX_RANK) {
            return td_error_set(c->error, TD_UNSUPPORTED, "%s: more than %d dimensions", c->what,
                                TD_MAX_RANK);
        }
        if (!take_number(c, &made.dims[made.rank++])) {
            return npy_malformed(c, "a dimension");
        }
        if (!take_text(c, ",")) {
            if (!take_text(c, ")")) {
                return npy_malformed(c, "a comma or )");
            }
            break;
        }
    }
    *shape = made;
    return TD_OK;
}

static td_status take_type(cursor *c, char *type, size_t size) {
    if (take_text(c, "[")) {
        return td_error_set(c->error, TD_UNSUPPORTED,
                            "%s: an array of records; save each field as an array of its own",
                            c->what);
    }
    return take_string(c, type, size) && strlen(type) >= 2 ? TD_OK
                                                           : npy_malformed(c, "an element type");
}

/* seen: keys so far; bit 0 descr, 1 fortran_order, 2 shape. */
static td_status take_entry(cursor *c, td__npy_array *array, unsigned *seen) {
    static const char *const keys[] = {"descr", "fortran_order", "shape"};
    char key[32];
    if (!take_string(c, key, sizeof key) || !take_text(c, ":")) {
        return npy_malformed(c, "a key");
    }
    unsigned k = 0;
    while (k < 3 && strcmp(key, keys[k]) != 0) {
        k++;
    }
    if (k == 3 || *seen >> k & 1) {
        return td_error_set(c->error, TD_FORMAT, "%s: damaged NPY header: unexpected key '%s'",
                            c->what, key);
    }
    *seen |= 1u << k;
    if (k == 0) {
        return take_type(c, array->type, sizeof array->type);
    }
    if (k == 2) {
        return take_shape(c, &array->shape);
    }
    array->fortran = take_text(c, "True");
    return array->fortran || take_text(c, "False") ? TD_OK : npy_malformed(c, "True or False");
}

static td_status parse_dictionary(cursor *c, td__npy_array *array) {
    unsigned seen = 0;
    if (!take_text(c, "{")) {
        return npy_malformed(c, "{");
    }
    while (!take_text(c, "}")) {
        td_status status = take_entry(c, array, &seen);
        if (status) {
            return status;
        }
        if (!take_text(c, ",")) {
            if (!take_text(c, "}")) {
                return npy_malformed(c, "a comma or }");
            }
            break;
        }
    }
    skip_blanks(c);
    if (c->p < c->end) {
        return npy_malformed(c, "nothing more");
    }
    return seen == 7 ? TD_OK : npy_malformed(c, "descr, fortran_order and shape");
}

td_status td__npy_parse_header(const void *bytes, size_t size, const char *what,
                               td__npy_array *array, td_error *error) {
    const uint8_t *b = bytes;
    size_t prefix = size >= 8 && b[6] > 1 ? 12 : 10;
    if (size < prefix || memcmp(b, "\x93NUMPY", 6) != 0 || b[6] < 1 || b[6] > 3) {
        return td_error_set(error, TD_FORMAT, "%s: not an NPY file of version 1 to 3", what);
    }
    size_t length = (size_t)b[8] | (size_t)b[9] << 8;
    if (prefix == 12) {
        length |= (size_t)b[10] << 16 | (size_t)b[11] << 24;
    }
    if (length > HEADER_MAXIMUM || length > size - prefix) {
        return td_error_set(error, TD_FORMAT,
                            "%s: its header is said to have %zu bytes; the file is cut short or "
                            "damaged",
                            what, length);
    }
    const char *text = (const char *)b + prefix;
    cursor c = {text, text, text + length, what, error};
    *array = (td__npy_array){.start = prefix + length};
    return parse_dictionary(&c, array);
}
