/* Windows over the rows of a table, which follow each other in time: an example is `length` rows, of all columns that
 * are read, and its label that of the row `horizon` behind the last of them.
 *
 *     rows      0 1 2 3 4 5 6 7 8 …
 *     window 0  x x x x . y            length 4, horizon 2
 *     window 1    x x x x . y          stride 1
 *
 * Windows are views of one array that has every row once: they overlap, and are not copied. */
#include "base/memory.h"
#include "data/dataset.h"

#include <string.h>

static td_status check_table(const td_dataset *dataset, int t, td_error *error) {
    const td__table *table = &dataset->tables[t];
    const char *path = dataset->paths[t] ? dataset->paths[t] : "the data";
    if (table->input.shape.rank != 1 || table->is_picture || table->input_pieces.count ||
        table->label_pieces.count || table->label.parts || table->supply) {
        return td_error_set(error, TD_INVALID,
                            "%s: `window` is for one table of columns: a CSV file or a 2-D array",
                            path);
    }
    return TD_OK;
}

/* Labels that are numbers are inputs too: what is to be predicted has a past. */
static bool labels_are_inputs(const td__table *table, const td_window *window) {
    return window->horizon > 0 && table->label.data && table->classes.count == 0;
}

/* Every row once: its inputs, and its labels behind them. */
static float *join_columns(const td__table *table, int64_t labels, int64_t columns) {
    float *rows = td__calloc((size_t)table->rows, (size_t)columns * sizeof *rows);
    for (int64_t r = 0; rows && r < table->rows; r++) {
        td__array_read(&table->input, r, rows + r * columns);
        for (int64_t i = 0; i < labels; i++) {
            rows[r * columns + columns - labels + i] = (float)td__array_value(&table->label, r, i);
        }
    }
    return rows;
}

/* The values of later rows, one for each window. */
static void move_on(td__array *array, int64_t first, int64_t stride) {
    if (array->data) {
        array->data += first * array->row_stride;
        array->row_stride *= stride;
    }
}

static td_status slide(td_dataset *dataset, int t, const td_data_options *options,
                       td_error *error) {
    td__table *table = &dataset->tables[t];
    const td_window *window = &options->window;
    bool labelled = table->label.data && options->label_kind != TD_LABEL_NONE;
    int64_t stride = window->stride > 0 ? window->stride : 1;
    int64_t reach = window->length + (labelled ? window->horizon : 0);
    if (table->rows < reach) {
        return td_error_set(error, TD_RANGE, "%s: %lld rows are too few for a window of %lld%s",
                            dataset->paths[t] ? dataset->paths[t] : "the data",
                            (long long)table->rows, (long long)window->length,
                            labelled ? " and its label" : "");
    }
    int64_t labels = labels_are_inputs(table, window) ? table->label.count : 0;
    int64_t columns = table->input.count + labels, bytes;
    if (!td__multiply(table->rows, columns * (int64_t)sizeof(float), &bytes) ||
        bytes > options->memory) {
        return td_error_set(error, TD_RANGE,
                            "%lld rows of %lld columns do not fit into `memory`: raise it",
                            (long long)table->rows, (long long)columns);
    }
    float *rows = join_columns(table, labels, columns);
    td__bytes *owner = td__calloc(1, sizeof *owner);
    if (!rows || !owner) {
        td__free(rows);
        td__free(owner);
        return td_error_set(error, TD_MEMORY, "no memory for windows over %lld rows",
                            (long long)table->rows);
    }
    *owner = (td__bytes){(const uint8_t *)rows, (size_t)bytes, false};
    table->more_bytes = owner;
    table->more_count = 1;
    td__array_release(&table->input);
    table->input =
        td__array_plain(rows, TD__F32, TD_SHAPE(window->length, columns), window->length * columns);
    table->input.row_stride = stride * columns * (int64_t)sizeof(float);
    table->floats = NULL; /* a row is in several windows */
    int64_t last = window->length - 1 + (labelled ? window->horizon : 0);
    move_on(&table->label, last, stride);
    move_on(&table->weight, last, stride);
    table->rows = (table->rows - reach) / stride + 1;
    table->first_row = window->length - 1;
    table->row_step = stride;
    return TD_OK;
}

td_status td__window_prepare(td_dataset *dataset, const td_data_options *options, td_error *error) {
    if (!options->window.length) {
        return TD_OK;
    }
    td_status status = TD_OK;
    for (int t = 0; !status && t < dataset->table_count; t++) {
        status = check_table(dataset, t, error);
        status = status ? status : slide(dataset, t, options, error);
    }
    dataset->window_length = options->window.length;
    return status;
}
