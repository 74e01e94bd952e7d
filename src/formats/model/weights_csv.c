/* Weights as CSV: layer,parameter,index,value, a row for each element, index as "i,j". Values are
 * the shortest text that reads back to the same float, so writing and reading loses nothing. */
#include "model/weights.h"

#include "base/file.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/parse.h"
#include "data/bytes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define HEADER TD__WEIGHTS_CSV_HEADER
#define MAX_CELL 1024
#define MAX_FILE ((int64_t)16 << 30)

/* ---- Writing --------------------------------------------------------------------------------- */

/* A text cell, in quotes where it needs them, guarded from spreadsheets that would run it. Returns
 * its length; out has room for 2 * length + 4. */
static size_t put_cell(char *out, const char *text) {
    bool guard = *text && strchr("=+-@\t\r", *text);
    bool quote = strpbrk(text, ",\"\r\n") != NULL;
    size_t length = 0;
    if (quote) {
        out[length++] = '"';
    }
    if (guard) {
        out[length++] = '\'';
    }
    for (; *text; text++) {
        if (*text == '"') {
            out[length++] = '"';
        }
        out[length++] = *text;
    }
    if (quote) {
        out[length++] = '"';
    }
    return length;
}

/* The element's index as a cell; the counter moves on to the next element. */
static size_t put_index(char *out, const td_shape *shape, int64_t *index) {
    size_t length = 0;
    bool quote = shape->rank > 1;
    if (quote) {
        out[length++] = '"';
    }
    for (int32_t i = 0; i < shape->rank; i++) {
        if (i > 0) {
            out[length++] = ',';
        }
        length += td__format_int(out + length, index[i]);
    }
    if (quote) {
        out[length++] = '"';
    }
    for (int32_t i = shape->rank - 1; i >= 0 && ++index[i] == shape->dims[i]; i--) {
        index[i] = 0;
    }
    return length;
}

/* Whole numbers keep all of their digits, floats the shortest text that reads back. */
static size_t put_value(char *out, const td_view *view, int64_t i) {
    switch (view->dtype) {
    case TD_FLOAT32:
        return td__format_float(out, ((const float *)view->data)[i]);
    case TD_INT64:
        return td__format_int(out, ((const int64_t *)view->data)[i]);
    case TD_UINT64:
        return td__format_uint(out, ((const uint64_t *)view->data)[i]);
    case TD_FLOAT16:
    case TD_BFLOAT16:
        return td__format_float(out, (float)td_view_element(view, i));
    default:
        return td__format_double(out, td_view_element(view, i));
    }
}

bool td__csv_elements(FILE *stream, const char *prefix, size_t prefix_length, const td_view *view) {
    int64_t count = 0, index[TD_MAX_RANK] = {0};
    bool good = !td_shape_check(&view->shape, view->dtype, &count, NULL);
    for (int64_t i = 0; i < count && good; i++) {
        char row[TD_MAX_RANK * 24 + TD__NUMBER_ROOM + 8];
        size_t length = put_index(row, &view->shape, index);
        row[length++] = ',';
        length += put_value(row + length, view, i);
        row[length++] = '\n';
        good = fwrite(prefix, 1, prefix_length, stream) == prefix_length &&
               fwrite(row, 1, length, stream) == length;
    }
    return good;
}

bool td__weights_csv_rows(FILE *stream, const char *layer, const char *parameter,
                          const td_view *view) {
    size_t room = 2 * (strlen(layer) + strlen(parameter)) + 16;
    char *prefix = td__calloc(room, 1);
    if (!prefix) {
        return false;
    }
    size_t length = put_cell(prefix, layer);
    prefix[length++] = ',';
    length += put_cell(prefix + length, parameter);
    prefix[length++] = ',';
    bool good = td__csv_elements(stream, prefix, length, view);
    td__free(prefix);
    return good;
}

static bool write_parameter(const td_model *model, const td_parameter_info *parameter,
                            FILE *stream) {
    td_view view = td_view_of(parameter->tensor);
    return td__weights_csv_rows(stream, td_model_layer(model, parameter->layer)->name,
                                parameter->parameter, &view);
}

td_status td__weights_csv_write(const td_model *model, const char *path, td_error *error) {
    td__draft draft;
    FILE *stream = td__draft_open(&draft, path, error);
    if (!stream) {
        return TD_IO;
    }
    bool good = fputs(HEADER "\n", stream) >= 0;
    for (size_t i = 0; good && i < td_model_parameter_count(model); i++) {
        good = write_parameter(model, td_model_parameter_at(model, i), stream);
    }
    return td__draft_close(&draft, stream, good) ? TD_OK : td__file_error(error, path, "write");
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* A parameter's values, aside until all are there. */
typedef struct column {
    float *values;  /* NULL before the first */
    uint8_t *given; /* which elements have been given; behind the values, in the same block */
    int64_t count;  /* how many */
} column;

typedef struct reader {
    const char *path;
    const char *at, *end;
    int64_t line; /* of the current row */
    char cells[4][MAX_CELL];
    td__parameter_index index;
    column *columns;     /* of each parameter in the index */
    ptrdiff_t parameter; /* of the row before, which is mostly this one's too */
    td_error *error;
} reader;

static td_status csv_malformed(const reader *r, const char *what) {
    return td_error_set(r->error, TD_FORMAT, "%s:%" PRId64 ": %s", r->path, r->line, what);
}

static bool at_line_end(const reader *r) {
    return r->at == r->end || *r->at == '\n' ||
           (*r->at == '\r' && r->at + 1 < r->end && r->at[1] == '\n');
}

static td_status read_cell(reader *r, char cell[MAX_CELL]) {
    size_t length = 0;
    bool quoted = r->at < r->end && *r->at == '"';
    r->at += quoted;
    for (;; r->at++) {
        if (quoted && r->at == r->end) {
            return csv_malformed(r, "a quote is never closed");
        }
        if (quoted && *r->at == '"') {
            r->at++;
            if (r->at == r->end || *r->at != '"') {
                break;
            }
        } else if (!quoted && (at_line_end(r) || *r->at == ',')) {
            break;
        }
        if (length == MAX_CELL - 1 || !*r->at) {
            return csv_malformed(r, "a cell is too long, or has a NUL byte");
        }
        cell[length++] = *r->at;
    }
    cell[length] = 0;
    if (cell[0] == '\'' && cell[1] && strchr("=+-@\t\r", cell[1])) {
        memmove(cell, cell + 1, length);
    }
    return TD_OK;
}

static td_status read_row(reader *r) {
    for (int i = 0; i < 4; i++) {
        if (i > 0 && (at_line_end(r) || *r->at++ != ',')) {
            return csv_malformed(r, "expected four cells: " HEADER);
        }
        td_status status = read_cell(r, r->cells[i]);
        if (status) {
            return status;
        }
    }
    if (!at_line_end(r)) {
        return csv_malformed(r, "expected four cells: " HEADER);
    }
    r->at += r->at < r->end && *r->at == '\r';
    r->at += r->at < r->end;
    return TD_OK;
}

static td_status find_parameter(reader *r) {
    char name[2 * MAX_CELL + 2];
    (void)snprintf(name, sizeof name, "%s.%s", r->cells[0], r->cells[1]);
    if (r->parameter >= 0 && !strcmp(r->index.sorted[r->parameter]->name, name)) {
        return TD_OK;
    }
    r->parameter = td__parameter_index_find(&r->index, name);
    if (r->parameter >= 0) {
        return TD_OK;
    }
    const char *nearest = td__parameter_index_nearest(&r->index, name);
    return td_error_set(r->error, TD_NOT_FOUND,
                        "%s:%" PRId64 ": the model has no parameter %.200s%s%s%s", r->path, r->line,
                        name, nearest ? "; the nearest is '" : "", nearest ? nearest : "",
                        nearest ? "'" : "");
}

/* "2,0" within the shape, as a flat index. */
static td_status read_index(const reader *r, const td_shape *shape, int64_t *flat) {
    const char *at = r->cells[2];
    *flat = 0;
    for (int32_t i = 0; i < shape->rank; i++) {
        int64_t index = 0;
        if (i > 0 && *at++ != ',') {
            return csv_malformed(r, "the index has too few numbers for the parameter's shape");
        }
        if (*at < '0' || *at > '9') {
            return csv_malformed(r, "the index is not made of whole numbers and commas");
        }
        for (; *at >= '0' && *at <= '9' && index < shape->dims[i]; at++) {
            index = index * 10 + (*at - '0');
        }
        if (index >= shape->dims[i]) {
            return csv_malformed(r, "the index lies outside the parameter");
        }
        *flat = *flat * shape->dims[i] + index;
    }
    return *at ? csv_malformed(r, "the index has too many numbers for the parameter's shape")
               : TD_OK;
}

static bool make_column(column *to, int64_t count) {
    to->values = td__calloc((size_t)count, sizeof *to->values + 1);
    to->given = (uint8_t *)(to->values + count);
    return to->values;
}

static td_status take_row(reader *r) {
    td_status status = find_parameter(r);
    if (status) {
        return status;
    }
    const td_tensor *tensor = r->index.sorted[r->parameter]->tensor;
    td_shape shape = td_tensor_shape(tensor);
    int64_t flat;
    status = read_index(r, &shape, &flat);
    if (status) {
        return status;
    }
    float value;
    const char *end = td__parse_float32(r->cells[3], &value);
    if (!end || *end) {
        return csv_malformed(r, "the value is not a number");
    }
    column *to = &r->columns[r->parameter];
    if (!to->values && !make_column(to, td_tensor_count(tensor))) {
        return td_error_set(r->error, TD_MEMORY, "%s: out of memory", r->path);
    }
    if (to->given[flat]) {
        return csv_malformed(r, "this element is there twice");
    }
    to->given[flat] = 1;
    to->values[flat] = value;
    to->count++;
    return TD_OK;
}

static td_status read_weight_rows(reader *r) {
    td_status status = read_row(r);
    static const char *const names[] = {"layer", "parameter", "index", "value"};
    for (int i = 0; !status && i < 4; i++) {
        if (strcmp(r->cells[i], names[i]) != 0) {
            status = csv_malformed(r, "expected the header " HEADER);
        }
    }
    while (!status && r->at < r->end) {
        r->line++;
        status = read_row(r);
        if (!status) {
            status = take_row(r);
        }
    }
    return status;
}

static td_status check_complete(const reader *r) {
    td__reasons problems = {0};
    for (size_t i = 0; i < r->index.count; i++) {
        const td_parameter_info *parameter = r->index.sorted[i];
        int64_t count = td_tensor_count(parameter->tensor);
        if (r->columns[i].count != count) {
            td__reasons_add(&problems, TD_NOT_FOUND, "%s is missing%s", parameter->name,
                            r->columns[i].count ? " some elements" : "");
        }
    }
    return td__reasons_report(&problems, r->path, r->error);
}

static void put_columns(const reader *r) {
    for (size_t i = 0; i < r->index.count; i++) {
        const td_tensor *tensor = r->index.sorted[i]->tensor;
        if (r->columns[i].values) {
            memcpy(td_tensor_data(tensor), r->columns[i].values,
                   (size_t)td_tensor_count(tensor) * sizeof(float));
        }
    }
}

td_status td__weights_csv_parse(td_model *model, const char *path, const void *bytes, size_t size,
                                td_error *error) {
    reader r = {.path = path,
                .at = bytes,
                .end = (const char *)bytes + size,
                .line = 1,
                .parameter = -1,
                .error = error};
    td_status status = td__parameter_index_init(&r.index, model, error);
    r.columns = status ? NULL : td__calloc(r.index.count + 1, sizeof *r.columns);
    if (!status && !r.columns) {
        status = td_error_set(error, TD_MEMORY, "%s: out of memory", path);
    }
    if (!status) {
        status = read_weight_rows(&r);
    }
    if (!status) {
        status = check_complete(&r);
    }
    if (!status) {
        put_columns(&r);
    }
    for (size_t i = 0; r.columns && i < r.index.count; i++) {
        td__free(r.columns[i].values);
    }
    td__free(r.columns);
    td__parameter_index_release(&r.index);
    return status;
}

td_status td__weights_csv_read(td_model *model, const char *path, td_error *error) {
    td__bytes bytes = {0};
    td_status status = td__bytes_get(&bytes, path, MAX_FILE, error);
    if (!status) {
        status = td__weights_csv_parse(model, path, bytes.data, bytes.size, error);
    }
    td__bytes_release(&bytes);
    return status;
}
