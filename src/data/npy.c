/* Reading NPY versions 1 to 3: magic, header length, a Python dictionary with the keys descr,
 * fortran_order and shape in any order, then the elements. */
#include "data/npy.h"
#include "base/memory.h"

#include <stdio.h>
#include <string.h>

enum { HEADER_MAXIMUM = 65536 };

typedef struct header {
    td__element_type element;
    bool swap, fortran;
    td_shape shape;
    unsigned seen; /* keys: bit 0 descr, 1 fortran_order, 2 shape */
} header;

/* A place in the dictionary's text. */
typedef struct cursor {
    const char *start, *p, *end;
    const char *what;
    td_error *error;
} cursor;

static td_status malformed(const cursor *c, const char *expected) {
    return td_error_set(c->error, TD_FORMAT,
                        "%s: damaged NPY header: %s was expected at its byte %lld", c->what,
                        expected, (long long)(c->p - c->start));
}

static void skip_blanks(cursor *c) {
    while (c->p < c->end && (*c->p == ' ' || *c->p == '\n' || *c->p == '\t')) {
        c->p++;
    }
}

static bool take(cursor *c, const char *text) {
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
    if (!take(c, "(")) {
        return malformed(c, "a shape");
    }
    while (!take(c, ")")) {
        if (made.rank == TD_MAX_RANK) {
            return td_error_set(c->error, TD_UNSUPPORTED, "%s: more than %d dimensions", c->what,
                                TD_MAX_RANK);
        }
        if (!take_number(c, &made.dims[made.rank++])) {
            return malformed(c, "a dimension");
        }
        if (!take(c, ",")) {
            if (!take(c, ")")) {
                return malformed(c, "a comma or )");
            }
            break;
        }
    }
    *shape = made;
    return TD_OK;
}

/* descr: byte order, kind, size. */
static td_status take_type(cursor *c, header *h) {
    static const struct {
        const char *code;
        td__element_type element;
    } types[] = {{"u1", TD__U8},  {"i1", TD__I8},  {"b1", TD__U8},  {"u2", TD__U16},
                 {"i2", TD__I16}, {"u4", TD__U32}, {"i4", TD__I32}, {"u8", TD__U64},
                 {"i8", TD__I64}, {"f2", TD__F16}, {"f4", TD__F32}, {"f8", TD__F64}};
    char text[32];
    if (take(c, "[")) {
        return td_error_set(c->error, TD_UNSUPPORTED,
                            "%s: an array of records; save each field as an array of its own",
                            c->what);
    }
    if (!take_string(c, text, sizeof text) || strlen(text) < 2) {
        return malformed(c, "an element type");
    }
    bool ordered = strchr("<>=|", text[0]) != NULL;
    bool little = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strcmp(text + ordered, types[i].code) == 0) {
            h->element = types[i].element;
            h->swap = (text[0] == '<' && !little) || (text[0] == '>' && little);
            return TD_OK;
        }
    }
    if (strchr(text, 'O')) {
        return td_error_set(c->error, TD_UNSUPPORTED,
                            "%s: holds Python objects, which are never read; save it as numbers "
                            "(array.astype('float32'))",
                            c->what);
    }
    return td_error_set(c->error, TD_UNSUPPORTED,
                        "%s: element type '%s' is not a number type that can be read; use float32, "
                        "float64, an integer type or bool",
                        c->what, text);
}

static td_status take_entry(cursor *c, header *h) {
    static const char *const keys[] = {"descr", "fortran_order", "shape"};
    char key[32];
    if (!take_string(c, key, sizeof key) || !take(c, ":")) {
        return malformed(c, "a key");
    }
    unsigned k = 0;
    while (k < 3 && strcmp(key, keys[k]) != 0) {
        k++;
    }
    if (k == 3 || h->seen >> k & 1) {
        return td_error_set(c->error, TD_FORMAT, "%s: damaged NPY header: unexpected key '%s'",
                            c->what, key);
    }
    h->seen |= 1u << k;
    if (k == 0) {
        return take_type(c, h);
    }
    if (k == 2) {
        return take_shape(c, &h->shape);
    }
    h->fortran = take(c, "True");
    return h->fortran || take(c, "False") ? TD_OK : malformed(c, "True or False");
}

static td_status parse_dictionary(cursor *c, header *h) {
    if (!take(c, "{")) {
        return malformed(c, "{");
    }
    while (!take(c, "}")) {
        td_status status = take_entry(c, h);
        if (status) {
            return status;
        }
        if (!take(c, ",")) {
            if (!take(c, "}")) {
                return malformed(c, "a comma or }");
            }
            break;
        }
    }
    skip_blanks(c);
    if (c->p < c->end) {
        return malformed(c, "nothing more");
    }
    return h->seen == 7 ? TD_OK : malformed(c, "descr, fortran_order and shape");
}

/* start: of the elements. */
static td_status read_header(const td__bytes *bytes, const char *what, header *h, size_t *start,
                             td_error *error) {
    const uint8_t *b = bytes->data;
    size_t prefix = bytes->size >= 8 && b[6] > 1 ? 12 : 10;
    if (bytes->size < prefix || memcmp(b, "\x93NUMPY", 6) != 0 || b[6] < 1 || b[6] > 3) {
        return td_error_set(error, TD_FORMAT, "%s: not an NPY file of version 1 to 3", what);
    }
    size_t length = (size_t)b[8] | (size_t)b[9] << 8;
    if (prefix == 12) {
        length |= (size_t)b[10] << 16 | (size_t)b[11] << 24;
    }
    if (length > HEADER_MAXIMUM || length > bytes->size - prefix) {
        return td_error_set(error, TD_FORMAT,
                            "%s: its header is said to have %zu bytes; the file is cut short or "
                            "damaged",
                            what, length);
    }
    const char *text = (const char *)b + prefix;
    cursor c = {text, text, text + length, what, error};
    *h = (header){0};
    *start = prefix + length;
    return parse_dictionary(&c, h);
}

static td_status describe(td__array *array, int64_t *rows, const td__bytes *bytes, const header *h,
                          size_t start, const char *what, td_error *error) {
    return td__array_describe(array, rows, bytes->data + start, bytes->size - start, h->element,
                              h->swap, h->fortran, &h->shape, what, error);
}

td_status td__npy_parse(td__array *array, int64_t *rows, const td__bytes *bytes, const char *what,
                        td_error *error) {
    header h;
    size_t start = 0;
    td_status status = read_header(bytes, what, &h, &start, error);
    return status ? status : describe(array, rows, bytes, &h, start, what, error);
}

td_status td__npy_parse_whole(td__array *array, int64_t *rows, td_shape *shape,
                              const td__bytes *bytes, const char *what, td_error *error) {
    header h;
    size_t start = 0;
    td_status status = read_header(bytes, what, &h, &start, error);
    if (status) {
        return status;
    }
    *shape = h.shape;
    bool empty = false;
    for (int32_t i = 0; i < h.shape.rank; i++) {
        empty = empty || h.shape.dims[i] == 0;
    }
    if (empty) {
        *array = (td__array){.element = h.element};
        *rows = 0;
        return TD_OK;
    }
    h.shape = h.shape.rank ? h.shape : TD_SHAPE(1);
    return describe(array, rows, bytes, &h, start, what, error);
}

td_status td__table_take_label(td__table *table, td__array label, int64_t rows, const char *path,
                               const char *what, td_error *error) {
    table->label = label;
    if (rows != table->rows) {
        return td_error_set(error, TD_BAD_SHAPE, "%s has %lld examples, but %s has %lld labels",
                            path, (long long)table->rows, what, (long long)rows);
    }
    return TD_OK;
}

td_status td__npy_read(td__table *table, const td__request *request, td_error *error) {
    int64_t maximum = request->options->memory;
    td_status status = td__bytes_get(&table->bytes[0], request->path, maximum, error);
    if (!status) {
        status = td__npy_parse(&table->input, &table->rows, &table->bytes[0], request->path, error);
    }
    if (!status && request->labels) {
        td__array label = {0};
        int64_t rows = 0;
        status = td__bytes_get(&table->bytes[1], request->labels, maximum, error);
        if (!status) {
            status = td__npy_parse(&label, &rows, &table->bytes[1], request->labels, error);
        }
        if (!status) {
            status =
                td__table_take_label(table, label, rows, request->path, request->labels, error);
        }
    }
    return status ? status : td__table_split_columns(table, request, error);
}
