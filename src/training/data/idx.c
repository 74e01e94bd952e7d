/* IDX: two zero bytes, type, rank, big-endian 32-bit dimensions, big-endian elements. */
#include "base/little.h"
#include "base/memory.h"
#include "data/npy.h"

#include <string.h>
#include <unistd.h>

td_status td__idx_parse(td__array *array, int64_t *rows, const td__bytes *bytes, const char *what,
                        td_error *error) {
    static const struct {
        uint8_t code;
        td__element_type element;
    } types[] = {{0x08, TD__U8},  {0x09, TD__I8},  {0x0B, TD__I16},
                 {0x0C, TD__I32}, {0x0D, TD__F32}, {0x0E, TD__F64}};
    const uint8_t *b = bytes->data;
    if (bytes->size < 4 || b[0] != 0 || b[1] != 0) {
        return td_error_set(error, TD_FORMAT, "%s: not an IDX file", what);
    }
    size_t t = 0, count = sizeof types / sizeof *types;
    while (t < count && types[t].code != b[2]) {
        t++;
    }
    if (t == count) {
        return td_error_set(error, TD_FORMAT, "%s: 0x%02x is not an IDX element type", what, b[2]);
    }
    td_shape shape = {.rank = b[3]};
    size_t start = 4 + 4 * (size_t)b[3];
    if (shape.rank == 0 || shape.rank > TD_MAX_RANK || bytes->size < start) {
        return td_error_set(error, TD_FORMAT, "%s: IDX header with %d dimensions is damaged", what,
                            shape.rank);
    }
    for (int d = 0; d < shape.rank; d++) {
        const uint8_t *p = b + 4 + 4 * d;
        shape.dims[d] = (int64_t)p[0] << 24 | (int64_t)p[1] << 16 | (int64_t)p[2] << 8 | p[3];
    }
    bool swap = TD__LITTLE_ENDIAN && td__element_size(types[t].element) > 1;
    return td__array_describe(array, rows, b + start, bytes->size - start, types[t].element, swap,
                              false, &shape, what, error);
}

/* Writes `with` over the last `what` in text, both of one length; false when it is not there. */
static bool replace_last(char *text, const char *what, const char *with) {
    char *last = NULL;
    for (char *p = strstr(text, what); p; p = strstr(p + 1, what)) {
        last = p;
    }
    if (last) {
        memcpy(last, with, strlen(with));
    }
    return last != NULL;
}

/* "…images-idx3-ubyte" -> "…labels-idx1-ubyte", if there is such a file; NULL without. */
static td_status find_labels(const char *path, char **labels, td_error *error) {
    char *guess = td__strdup(path);
    if (!guess) {
        return td_error_set(error, TD_MEMORY, "%s: no memory", path);
    }
    char *name = strrchr(guess, '/') ? strrchr(guess, '/') + 1 : guess;
    bool found = replace_last(name, "images", "labels");
    replace_last(name, "idx3", "idx1");
    if (!found || access(guess, F_OK) != 0) {
        td__free(guess);
        guess = NULL;
    }
    *labels = guess;
    return TD_OK;
}

td_status td__idx_read(td__table *table, const td__request *request, td_error *error) {
    int64_t maximum = request->options->memory, rows = 0;
    char *found = NULL;
    td__array label = {0};
    td_status status = td__input_bytes(request->input, &table->bytes[0], maximum, error);
    if (!status) {
        status = td__idx_parse(&table->input, &table->rows, &table->bytes[0], request->path, error);
    }
    if (!status && !request->labels && request->options->label.count == 0) {
        status = find_labels(request->path, &found, error);
    }
    const char *labels = request->labels ? request->labels : found;
    if (!status && labels) {
        status = td__table_get_bytes(table, &table->bytes[1], labels, maximum, error);
        if (!status) {
            status = td__idx_parse(&label, &rows, &table->bytes[1], labels, error);
        }
        if (!status) {
            status = td__table_take_label(table, label, rows, request->path, labels, error);
        }
    }
    td__free(found);
    return status ? status : td__table_split_columns(table, request, error);
}
