/* NPY files as data; tensor/npy reads their header. */
#include "data/npy.h"
#include "base/little.h"
#include "tensor/npy.h"

#include <string.h>

typedef struct header {
    td__npy_array array;
    td__element_type element;
    bool swap;
} header;

/* descr: byte order, kind, size. */
static td_status find_type(header *h, const char *what, td_error *error) {
    static const struct {
        const char *code;
        td__element_type element;
    } types[] = {{"u1", TD__U8},  {"i1", TD__I8},  {"b1", TD__U8},  {"u2", TD__U16},
                 {"i2", TD__I16}, {"u4", TD__U32}, {"i4", TD__I32}, {"u8", TD__U64},
                 {"i8", TD__I64}, {"f2", TD__F16}, {"f4", TD__F32}, {"f8", TD__F64}};
    const char *text = h->array.type;
    bool ordered = strchr("<>=|", text[0]) != NULL;
    bool little = TD__LITTLE_ENDIAN;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strcmp(text + ordered, types[i].code) == 0) {
            h->element = types[i].element;
            h->swap = (text[0] == '<' && !little) || (text[0] == '>' && little);
            return TD_OK;
        }
    }
    if (strchr(text, 'O')) {
        return td_error_set(error, TD_UNSUPPORTED,
                            "%s: holds Python objects, which are never read; save it as numbers "
                            "(array.astype('float32'))",
                            what);
    }
    return td_error_set(error, TD_UNSUPPORTED,
                        "%s: element type '%s' is not a number type that can be read; use float32, "
                        "float64, an integer type or bool",
                        what, text);
}

static td_status read_header(const td__bytes *bytes, const char *what, header *h, td_error *error) {
    td_status status = td__npy_parse_header(bytes->data, bytes->size, what, &h->array, error);
    return status ? status : find_type(h, what, error);
}

static td_status describe_array(td__array *array, int64_t *rows, const td__bytes *bytes,
                                const header *h, const char *what, td_error *error) {
    const td__npy_array *a = &h->array;
    return td__array_describe(array, rows, bytes->data + a->start, bytes->size - a->start,
                              h->element, h->swap, a->fortran, &a->shape, what, error);
}

td_status td__npy_parse(td__array *array, int64_t *rows, const td__bytes *bytes, const char *what,
                        td_error *error) {
    header h;
    td_status status = read_header(bytes, what, &h, error);
    return status ? status : describe_array(array, rows, bytes, &h, what, error);
}

td_status td__npy_parse_whole(td__array *array, int64_t *rows, td_shape *shape,
                              const td__bytes *bytes, const char *what, td_error *error) {
    header h;
    td_status status = read_header(bytes, what, &h, error);
    if (status) {
        return status;
    }
    *shape = h.array.shape;
    bool empty = false;
    for (int32_t i = 0; i < h.array.shape.rank; i++) {
        empty = empty || h.array.shape.dims[i] == 0;
    }
    if (empty) {
        *array = (td__array){.element = h.element};
        *rows = 0;
        return TD_OK;
    }
    h.array.shape = h.array.shape.rank ? h.array.shape : TD_SHAPE(1);
    return describe_array(array, rows, bytes, &h, what, error);
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
    td_status status = td__input_bytes(request->input, &table->bytes[0], maximum, error);
    if (!status) {
        status = td__npy_parse(&table->input, &table->rows, &table->bytes[0], request->path, error);
    }
    if (!status && request->labels) {
        td__array label = {0};
        int64_t rows = 0;
        status = td__table_get_bytes(table, &table->bytes[1], request->labels, maximum, error);
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
