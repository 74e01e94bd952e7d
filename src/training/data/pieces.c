/* Examples of several inputs or labels: each is columns of a CSV file, an array of an NPZ file, or a
 * file of its own. In the table they are one row, one after the other; what each is called, and where it
 * lies, is kept. Arrays stay where they are, mapped or not: a row is put together when it is read. */
#include "base/memory.h"
#include "data/csv.h"
#include "data/npy.h"

#include <string.h>

void td__pieces_release(td__pieces *pieces) {
    for (size_t i = 0; i < pieces->count; i++) {
        td__free((char *)(uintptr_t)pieces->items[i].name);
    }
    td__free(pieces->items);
    *pieces = (td__pieces){0};
}

static td_status no_memory(const char *what, td_error *error) {
    return td_error_set(error, TD_MEMORY, "%s: no memory", what);
}

/* Adds one behind those that are there; pieces has room. */
static td_status add_piece(td__pieces *pieces, const char *name, const td_shape *shape,
                           int64_t count, td_error *error) {
    const td_data_piece *last = pieces->count ? &pieces->items[pieces->count - 1] : NULL;
    char *copy = td__strdup(name);
    if (!copy) {
        return no_memory(name, error);
    }
    pieces->items[pieces->count++] = (td_data_piece){.name = copy,
                                                     .shape = *shape,
                                                     .first = last ? last->first + last->count : 0,
                                                     .count = count};
    return TD_OK;
}

/* ---- Columns --------------------------------------------------------------------------------- */

/* All columns of all pieces; the list is the caller's to free. */
static td_names flatten(const td_pieces *pieces) {
    size_t count = 0;
    for (size_t i = 0; i < pieces->count; i++) {
        count += pieces->items[i].from.count;
    }
    const char **all = td__calloc(count + 1, sizeof *all);
    td_names names = {all, 0};
    for (size_t i = 0; all && i < pieces->count; i++) {
        const td_names *from = &pieces->items[i].from;
        for (size_t k = 0; k < from->count; k++) {
            all[names.count++] = from->items[k];
        }
    }
    return names;
}

/* How many values a piece has in a row. */
static int64_t count_values(const td__table *table, const td__request *request,
                            const td_piece *piece, bool inputs) {
    const td__names *names = &table->input_names;
    int64_t count = 0;
    for (size_t k = 0; k < piece->from.count && inputs; k++) {
        for (size_t i = 0; i < names->count; i++) {
            count += !strcmp(td__csv_base(request->options, names->items[i]), piece->from.items[k]);
        }
    }
    return inputs ? count : (int64_t)piece->from.count;
}

static td_status keep_columns(const td__table *table, const td__request *request, td__pieces *kept,
                              const td_pieces *pieces, td_error *error) {
    bool inputs = kept == &table->input_pieces;
    kept->items = td__calloc(pieces->count + 1, sizeof *kept->items);
    td_status status = kept->items ? TD_OK : no_memory("columns", error);
    for (size_t i = 0; !status && i < pieces->count; i++) {
        int64_t count = count_values(table, request, &pieces->items[i], inputs);
        status = add_piece(kept, pieces->items[i].name, &TD_SHAPE(count), count, error);
    }
    return status;
}

static td_status read_columns(td__table *table, const td__request *request, td_error *error) {
    td_data_options options = *request->options;
    td__request columns = *request;
    td_names inputs = flatten(&request->input_pieces), labels = flatten(&request->label_pieces);
    td_status status = inputs.items && labels.items ? TD_OK : no_memory(request->path, error);
    columns.options = &options;
    if (inputs.count) {
        columns.inputs = inputs;
        columns.chosen = true;
    }
    if (labels.count) {
        options.label = labels;
        columns.label_names = (td_names){0};
    }
    status = status ? status : td__csv_read(table, &columns, error);
    status =
        status ? status
               : keep_columns(table, request, &table->input_pieces, &request->input_pieces, error);
    status =
        status ? status
               : keep_columns(table, request, &table->label_pieces, &request->label_pieces, error);
    if (!status && labels.count && table->classes.count) {
        status =
            td_error_set(error, TD_UNSUPPORTED,
                         "%s: a label is text; of labels by name all are numbers, classes from "
                         "0 on",
                         request->path);
    }
    td__free((void *)(uintptr_t)inputs.items);
    td__free((void *)(uintptr_t)labels.items);
    return status;
}

/* ---- Arrays ---------------------------------------------------------------------------------- */

/* A file of its own. */
static td_status load_file(td__table *table, const char *path, int64_t maximum, td__array *array,
                           int64_t *rows, td__bytes *bytes, td_error *error) {
    td__reader *reader = NULL;
    td__input *input = NULL;
    td_status status = td__reader_open(path, &reader, &input, error);
    if (!status && reader != td__npy_read && reader != td__idx_read) {
        status =
            td_error_set(error, TD_UNSUPPORTED,
                         "%s: a file of one input or label is an .npy or IDX array; columns of a "
                         "CSV file, and arrays of an .npz, are taken from `train`",
                         path);
    }
    if (!status) {
        td__table_keep_file(table, input);
        status = td__input_bytes(input, bytes, maximum, error);
    }
    td__input_close(input);
    if (status) {
        return status;
    }
    return reader == td__npy_read ? td__npy_parse(array, rows, bytes, path, error)
                                  : td__idx_parse(array, rows, bytes, path, error);
}

/* npz: the open file whose arrays pieces are; NULL: each has its own. */
static td_status load_piece(td__table *table, const td__request *request, const td__input *npz,
                            const td_piece *piece, td__array *array, int64_t *rows,
                            td__bytes *bytes, td_error *error) {
    int64_t maximum = request->options->memory;
    if (npz && piece->from.count == 1) {
        return td__npz_array(npz, piece->from.items[0], false, maximum, array, rows, bytes, error);
    }
    if (npz || !piece->path) {
        return td_error_set(error, TD_INVALID, "'%s' is %s, by its name", piece->name,
                            npz ? "one array of an .npz file" : "a file of its own");
    }
    return load_file(table, piece->path, maximum, array, rows, bytes, error);
}

/* Puts the arrays of pieces together: array, with as many rows as the table has, if it has any. */
static td_status join_pieces(td__table *table, const td__request *request, const td__input *npz,
                             const td_pieces *pieces, td__array *array, td__pieces *kept,
                             td_error *error) {
    kept->items = td__calloc(pieces->count, sizeof *kept->items);
    array->parts = td__calloc(pieces->count, sizeof *array->parts);
    td_status status = kept->items && array->parts ? TD_OK : no_memory("arrays", error);
    bool same = true;
    for (size_t i = 0; !status && i < pieces->count; i++) {
        const td_piece *piece = &pieces->items[i];
        td__array *part = &array->parts[i];
        int64_t rows = 0;
        status = load_piece(table, request, npz, piece, part, &rows,
                            &table->more_bytes[table->more_count++], error);
        if (status) {
            break;
        }
        array->part_count++;
        if (table->rows && rows != table->rows) {
            status = td_error_set(error, TD_BAD_SHAPE, "'%s' has %lld rows, but others have %lld",
                                  piece->name, (long long)rows, (long long)table->rows);
        }
        table->rows = rows;
        if (!status && part->count > INT32_MAX - array->count) {
            status = td_error_set(error, TD_RANGE, "'%s': an example is too large", piece->name);
        }
        array->count += part->count;
        same = same && part->element == array->parts[0].element;
        status = status ? status : add_piece(kept, piece->name, &part->shape, part->count, error);
    }
    if (!status) {
        array->data = array->parts[0].data;
        array->element = same ? array->parts[0].element : TD__F32;
        array->shape = TD_SHAPE(array->count);
    }
    return status;
}

/* The labels of examples that have several inputs and one label: a file, or `y` of an NPZ file. */
static td_status read_label(td__table *table, const td__request *request, const td__input *npz,
                            td_error *error) {
    const td_data_options *options = request->options;
    td__array label = {0};
    int64_t rows = 0;
    td_status status = TD_OK;
    const char *what = request->labels;
    if (request->labels) {
        status = load_file(table, what, options->memory, &label, &rows, &table->bytes[1], error);
    } else if (npz) {
        what = options->y ? options->y : "y";
        status = td__npz_array(npz, what, !options->y, options->memory, &label, &rows,
                               &table->bytes[1], error);
    }
    return status || !label.data
               ? status
               : td__table_take_label(table, label, rows, npz ? td__input_path(npz) : "the inputs",
                                      what, error);
}

/* One input, as its file has it; labels of it are left out. */
static td_status read_input(td__table *table, td__reader *reader, const td__request *request,
                            td_error *error) {
    td__request plain = *request;
    plain.input_pieces = plain.label_pieces = (td_pieces){0};
    plain.labels = NULL;
    td_status status = reader(table, &plain, error);
    td__array_release(&table->label);
    return status;
}

static td_status read_arrays(td__table *table, td__reader *reader, const td__request *request,
                             td_error *error) {
    const td__input *npz = reader == td__npz_read ? request->input : NULL;
    const td_pieces *inputs = &request->input_pieces, *labels = &request->label_pieces;
    table->more_bytes = td__calloc(inputs->count + labels->count, sizeof *table->more_bytes);
    if (!table->more_bytes) {
        return no_memory("arrays", error);
    }
    td_status status = inputs->count ? join_pieces(table, request, npz, inputs, &table->input,
                                                   &table->input_pieces, error)
                                     : read_input(table, reader, request, error);
    if (status) {
        return status;
    }
    return labels->count ? join_pieces(table, request, npz, labels, &table->label,
                                       &table->label_pieces, error)
                         : read_label(table, request, npz, error);
}

static td_status read_opened(td__table *table, td__reader *reader, const td__request *request,
                             td_error *error) {
    if (reader == td__csv_read) {
        return read_columns(table, request, error);
    }
    if (reader && reader != td__npz_read && request->input_pieces.count) {
        return td_error_set(error, TD_INVALID,
                            "%s: inputs are columns of a CSV file or arrays of an .npz file; "
                            "without `train`, files of their own",
                            request->path);
    }
    return read_arrays(table, reader, request, error);
}

td_status td__pieces_read(td__table *table, const td__request *request, td_error *error) {
    td__reader *reader = NULL;
    td__request opened = *request;
    td_status status =
        request->path ? td__reader_open(request->path, &reader, &opened.input, error) : TD_OK;
    status = status ? status : read_opened(table, reader, &opened, error);
    if (!status && opened.input) {
        td__table_keep_file(table, opened.input);
    }
    td__input_close(opened.input);
    return status;
}
