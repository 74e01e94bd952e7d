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

#define HEADER "layer,parameter,index,value"
#define MAX_CELL 1024
#define MAX_FILE ((int64_t)16 << 30)

/* ---- Writing ----------------------------------------------------------------------------------
 */

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

static bool write_parameter(const td_model *model, const td_parameter_info *parameter,
                            FILE *stream) {
    const char *layer = td_model_layer(model, parameter->layer)->name;
    size_t room = 2 * (strlen(layer) + strlen(parameter->parameter)) + 16;
    char *prefix = td__calloc(room, 1);
    if (!prefix) {
        return false;
    }
    size_t prefix_length = put_cell(prefix, layer);
    prefix[prefix_length++] = ',';
    prefix_length += put_cell(prefix + prefix_length, parameter->parameter);
    prefix[prefix_length++] = ',';
    td_shape shape = td_tensor_shape(parameter->tensor);
    const float *values = td_tensor_data(parameter->tensor);
    int64_t count = td_tensor_count(parameter->tensor), index[TD_MAX_RANK] = {0};
    bool good = true;
    for (int64_t i = 0; i < count && good; i++) {
        char row[TD_MAX_RANK * 24 + TD__NUMBER_ROOM + 8];
        size_t length = put_index(row, &shape, index);
        row[length++] = ',';
        length += td__format_float(row + length, values[i]);
        row[length++] = '\n';
        good = fwrite(prefix, 1, prefix_length, stream) == prefix_length &&
               fwrite(row, 1, length, stream) == length;
    }
    td__free(prefix);
    return good;
}

td_status td__weights_csv_write(const td_model *model, const char *path, td_error *error) {
    size_t room = strlen(path) + 8;
    char *draft = td__calloc(room, 1);
    if (!draft) {
        return td_error_set(error, TD_MEMORY, "%s: out of memory", path);
    }
    (void)snprintf(draft, room, "%s.new", path);
    FILE *stream = fopen(draft, "wb");
    bool good = stream && fputs(HEADER "\n", stream) >= 0;
    for (size_t i = 0; good && i < td_model_parameter_count(model); i++) {
        good = write_parameter(model, td_model_parameter_at(model, i), stream);
    }
    if (stream && fclose(stream) != 0) {
        good = false;
    }
    good = good && rename(draft, path) == 0;
    td_status status = good ? TD_OK : td__file_error(error, path, "write");
    if (!good && stream) {
        (void)remove(draft);
    }
    td__free(draft);
    return status;
}

/* ---- Reading ----------------------------------------------------------------------------------
 */

typedef struct reader {
    td__weights *weights;
    const char *at, *end;
    int64_t line; /* of the current row */
    char cells[4][MAX_CELL];
    ptrdiff_t parameter; /* of the row before, which is mostly this one's too */
    uint8_t **given;     /* which elements of each parameter have been given */
    td_error *error;
} reader;

static td_status malformed(const reader *r, const char *what) {
    return td_error_set(r->error, TD_FORMAT, "%s:%" PRId64 ": %s", r->weights->path, r->line, what);
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
            return malformed(r, "a quote is never closed");
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
            return malformed(r, "a cell is too long, or has a NUL byte");
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
            return malformed(r, "expected four cells: " HEADER);
        }
        td_status status = read_cell(r, r->cells[i]);
        if (status) {
            return status;
        }
    }
    if (!at_line_end(r)) {
        return malformed(r, "expected four cells: " HEADER);
    }
    r->at += r->at < r->end && *r->at == '\r';
    r->at += r->at < r->end;
    return TD_OK;
}

static td_status find_parameter(reader *r) {
    char name[2 * MAX_CELL + 2];
    (void)snprintf(name, sizeof name, "%s.%s", r->cells[0], r->cells[1]);
    if (r->parameter >= 0 &&
        !strcmp(td_model_parameter_at(r->weights->model, (size_t)r->parameter)->name, name)) {
        return TD_OK;
    }
    r->parameter = td__weights_find(r->weights, name, r->error);
    return r->parameter < 0 ? TD_NOT_FOUND : TD_OK;
}

/* "2,0" within the shape, as a flat index. */
static td_status read_index(const reader *r, const td_shape *shape, int64_t *flat) {
    const char *at = r->cells[2];
    *flat = 0;
    for (int32_t i = 0; i < shape->rank; i++) {
        int64_t index = 0;
        if (i > 0 && *at++ != ',') {
            return malformed(r, "the index has too few numbers for the parameter's shape");
        }
        if (*at < '0' || *at > '9') {
            return malformed(r, "the index is not made of whole numbers and commas");
        }
        for (; *at >= '0' && *at <= '9' && index < shape->dims[i]; at++) {
            index = index * 10 + (*at - '0');
        }
        if (index >= shape->dims[i]) {
            return malformed(r, "the index lies outside the parameter");
        }
        *flat = *flat * shape->dims[i] + index;
    }
    return *at ? malformed(r, "the index has too many numbers for the parameter's shape") : TD_OK;
}

static td_status take_row(reader *r) {
    td_status status = find_parameter(r);
    if (status) {
        return status;
    }
    const td_tensor *tensor =
        td_model_parameter_at(r->weights->model, (size_t)r->parameter)->tensor;
    td_shape shape = td_tensor_shape(tensor);
    int64_t flat;
    status = read_index(r, &shape, &flat);
    if (status) {
        return status;
    }
    float value;
    const char *end = td__parse_float32(r->cells[3], &value);
    if (!end || *end) {
        return malformed(r, "the value is not a number");
    }
    uint8_t **given = &r->given[r->parameter];
    if (!*given) {
        *given = td__calloc((size_t)td_tensor_count(tensor), 1);
    }
    if (!*given) {
        return td_error_set(r->error, TD_MEMORY, "%s: out of memory", r->weights->path);
    }
    if ((*given)[flat]) {
        return malformed(r, "this element is there twice");
    }
    (*given)[flat] = 1;
    r->weights->values[r->parameter][flat] = value;
    r->weights->filled[r->parameter]++;
    return TD_OK;
}

static td_status read_rows(reader *r) {
    td_status status = read_row(r);
    static const char *const names[] = {"layer", "parameter", "index", "value"};
    for (int i = 0; !status && i < 4; i++) {
        if (strcmp(r->cells[i], names[i]) != 0) {
            status = malformed(r, "expected the header " HEADER);
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

td_status td__weights_csv_read(td__weights *weights, td_error *error) {
    td__bytes bytes = {0};
    td_status status = td__bytes_load(&bytes, weights->path, MAX_FILE, error);
    uint8_t **given = status ? NULL : td__calloc(weights->count + 1, sizeof *given);
    if (!status && !given) {
        status = td_error_set(error, TD_MEMORY, "%s: out of memory", weights->path);
    }
    if (!status) {
        const char *start = (const char *)bytes.data;
        reader r = {.weights = weights,
                    .at = start,
                    .end = start + bytes.size,
                    .line = 1,
                    .parameter = -1,
                    .given = given,
                    .error = error};
        status = read_rows(&r);
    }
    for (size_t i = 0; given && i < weights->count; i++) {
        td__free(given[i]);
    }
    td__free(given);
    td__bytes_release(&bytes);
    return status;
}
