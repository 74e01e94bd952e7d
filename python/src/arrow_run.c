/* What a run recorded, as a table of Arrow: one row for each record, of a histogram for each bin. */
#include "arrow.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Columns that every table has; the others follow in the order of their form. */
enum { SIGNAL, EPOCH, STEP, WALL_TIME, FIRST };

typedef struct filling {
    tdpy_table table;
    td_run *run;
    td_run_query query;
    td_dtype dtype;     /* of the tensors so far */
    int64_t max_rows;   /* of tensors whose elements are given */
    const char *prefix; /* the signal that said what the dtype is */
    bool varies;        /* tensors are of several shapes */
    size_t index;       /* of the signal of the last row among the run's */
} filling;

/* As Arrow spells them; a bool is a byte here and a bit there, so it travels as a number. */
static const char *const formats[TD_DTYPE_COUNT] = {
    [TD_FLOAT32] = "f", [TD_INT32] = "i",   [TD_INT64] = "l",    [TD_UINT8] = "C",
    [TD_FLOAT64] = "g", [TD_FLOAT16] = "e", [TD_BFLOAT16] = "f", [TD_BOOL] = "C",
    [TD_INT8] = "c",    [TD_INT16] = "s",   [TD_UINT16] = "S",   [TD_UINT32] = "I",
    [TD_UINT64] = "L",
};

static td_status out_of_memory(td_error *error) {
    return td_error_set(error, TD_MEMORY, "out of memory for a table of a run's records");
}

static bool add_integer(tdpy_table *table, int column, int64_t value) {
    return tdpy_bytes_add(&table->columns[column].values, &value, sizeof value);
}

static bool add_number(tdpy_table *table, int column, double value) {
    return tdpy_bytes_add(&table->columns[column].values, &value, sizeof value);
}

static bool end_row_of(tdpy_column *column, size_t element) {
    int64_t end = (int64_t)(column->values.used / element);
    return tdpy_bytes_add(&column->offsets, &end, sizeof end);
}

static bool begin_row(tdpy_table *table, int32_t signal, int64_t epoch, int64_t step,
                      double wall_time) {
    table->rows++;
    return tdpy_bytes_add(&table->columns[SIGNAL].values, &signal, sizeof signal) &&
           add_integer(table, EPOCH, epoch) && add_integer(table, STEP, step) &&
           add_number(table, WALL_TIME, wall_time);
}

/* A record's signal among the run's signals: most often the next one. Event files number theirs by other rules. */
static int32_t index_of(filling *f, const char *name) {
    size_t count = td_run_signal_count(f->run);
    for (size_t tried = 0; tried <= count; tried++, f->index++) {
        const td_run_signal *signal = td_run_signal_at(f->run, f->index % count);
        if (strcmp(signal->name, name) == 0) {
            f->index %= count;
            return (int32_t)f->index;
        }
    }
    return -1;
}

static bool begin_record(filling *f, const td_record *record) {
    int32_t index = td_run_signal_count(f->run) ? index_of(f, record->signal) : -1;
    return index >= 0 &&
           begin_row(&f->table, index, record->epoch, record->step, record->wall_time);
}

/* ---- Forms ---------------------------------------------------------------------------------- */

static void scalar_columns(tdpy_table *table) {
    tdpy_table_add(table, "value", TDPY_PLAIN, "g");
}

static td_status add_scalar(void *user, const td_record *record, td_error *error) {
    filling *f = user;
    return begin_record(f, record) && add_number(&f->table, FIRST, record->value)
               ? TD_OK
               : out_of_memory(error);
}

static void stats_columns(tdpy_table *table) {
    static const struct {
        const char *name, *format;
    } columns[] = {{"count", "l"}, {"mean", "g"},  {"std", "g"}, {"min", "g"}, {"max", "g"},
                   {"norm", "g"},  {"zeros", "l"}, {"nan", "l"}, {"inf", "l"}};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        tdpy_table_add(table, columns[i].name, TDPY_PLAIN, columns[i].format);
    }
}

static td_status add_stats(void *user, const td_record *record, td_error *error) {
    filling *f = user;
    tdpy_table *t = &f->table;
    const td_stats *s = record->stats;
    int c = FIRST;
    bool good = begin_record(f, record) && add_integer(t, c, s->count) &&
                add_number(t, c + 1, s->mean) && add_number(t, c + 2, s->std) &&
                add_number(t, c + 3, s->min) && add_number(t, c + 4, s->max) &&
                add_number(t, c + 5, s->norm) && add_integer(t, c + 6, s->zeros) &&
                add_integer(t, c + 7, s->nan) && add_integer(t, c + 8, s->inf);
    return good ? TD_OK : out_of_memory(error);
}

static void histogram_columns(tdpy_table *table) {
    tdpy_table_add(table, "left", TDPY_PLAIN, "g");
    tdpy_table_add(table, "right", TDPY_PLAIN, "g");
    tdpy_table_add(table, "count", TDPY_PLAIN, "g");
}

static td_status add_histogram(void *user, const td_record *record, td_error *error) {
    filling *f = user;
    bool good = true;
    for (int32_t i = 0; good && i < record->histogram->bin_count; i++) {
        td_range range = td_histogram_range(record->histogram, i);
        good = begin_record(f, record) && add_number(&f->table, FIRST, range.left) &&
               add_number(&f->table, FIRST + 1, range.right) &&
               add_number(&f->table, FIRST + 2, range.count);
    }
    return good ? TD_OK : out_of_memory(error);
}

static void text_columns(tdpy_table *table) {
    tdpy_table_add(table, "text", TDPY_TEXT, "U");
}

static td_status add_text(void *user, const td_record *record, td_error *error) {
    filling *f = user;
    tdpy_column *column = &f->table.columns[FIRST];
    bool good = begin_record(f, record) &&
                tdpy_bytes_add(&column->values, record->text, record->text_length) &&
                end_row_of(column, 1);
    return good ? TD_OK : out_of_memory(error);
}

/* ---- Tensors -------------------------------------------------------------------------------- */

enum { SHAPE = FIRST, VALUE };

/* As lists with a shape each; where all shapes are the same, lists of a fixed length (settle_tensors). */
static void tensor_columns(tdpy_table *table) {
    tdpy_table_add(table, "shape", TDPY_LIST, "l");
    tdpy_table_add(table, "value", TDPY_LIST, "g");
}

static bool add_shape(filling *f, const td_shape *shape) {
    tdpy_column *column = &f->table.columns[SHAPE];
    const td_shape *first = &f->table.columns[VALUE].shape;
    f->varies = f->varies || (f->table.rows > 1 && !td_shape_equal(first, shape));
    if (f->table.rows == 1) {
        f->table.columns[VALUE].shape = *shape;
    }
    return tdpy_bytes_add(&column->values, shape->dims,
                          (size_t)shape->rank * sizeof *shape->dims) &&
           end_row_of(column, sizeof *shape->dims);
}

static bool add_bfloat16(tdpy_bytes *out, const uint16_t *values, int64_t count) {
    bool good = true;
    for (int64_t i = 0; good && i < count; i++) {
        uint32_t bits = (uint32_t)values[i] << 16;
        good = tdpy_bytes_add(out, &bits, sizeof bits);
    }
    return good;
}

static td_status add_tensor(void *user, const td_record *record, td_error *error) {
    filling *f = user;
    const td_view *view = record->view;
    tdpy_column *column = &f->table.columns[VALUE];
    int64_t count = 0;
    td_status status = td_shape_check(&view->shape, view->dtype, &count, error);
    if (status) {
        return status;
    }
    if (f->table.rows > 0 && view->dtype != f->dtype) {
        return td_error_set(error, TD_DTYPE,
                            "%s is %s and %s is %s: a column of a table has one type, so choose "
                            "signals of the same type",
                            f->prefix, td_dtype_name(f->dtype), record->signal,
                            td_dtype_name(view->dtype));
    }
    f->dtype = view->dtype;
    column->format = formats[view->dtype];
    const bool widen = view->dtype == TD_BFLOAT16;
    const size_t size = widen ? sizeof(float) : td_dtype_size(view->dtype);
    bool good = begin_record(f, record) && add_shape(f, &view->shape) &&
                (f->prefix = td_run_signal_at(f->run, f->index)->name) &&
                (widen ? add_bfloat16(&column->values, view->data, count)
                       : tdpy_bytes_add(&column->values, view->data, (size_t)count * size)) &&
                end_row_of(column, size);
    return good ? TD_OK : out_of_memory(error);
}

/* Drops the column of shapes when all rows have the same one. */
static void settle_tensors(filling *f) {
    tdpy_table *t = &f->table;
    td_shape shape = t->columns[VALUE].shape;
    int64_t count = 0;
    bool same = t->rows > 0 && !f->varies &&
                td_shape_check(&shape, f->dtype, &count, NULL) == TD_OK && count > 0;
    if (!same) {
        t->columns[VALUE].shape = (td_shape){0};
        return;
    }
    free(t->columns[SHAPE].values.data);
    free(t->columns[SHAPE].offsets.data);
    free(t->columns[VALUE].offsets.data);
    t->columns[SHAPE] = t->columns[VALUE];
    t->columns[SHAPE].layout = TDPY_FIXED;
    t->columns[SHAPE].offsets = (tdpy_bytes){0};
    t->columns[SHAPE].width = count;
    t->columns[VALUE] = (tdpy_column){0};
    t->count--;
}

/* A tensor whose elements are given: its step alone. */
static td_status add_place(void *user, const td_record *record, td_error *error) {
    filling *f = user;
    if (f->table.rows == f->max_rows) {
        return TD_OK; /* recorded since the array was mapped */
    }
    return begin_record(f, record) ? TD_OK : out_of_memory(error);
}

/* Reads the steps of tensors that `values`, [records, …], has the elements of; those are kept, not copied. */
static bool read_mapped(filling *f, PyObject *values) {
    tdpy_array array;
    td_view view;
    td_error error = {0};
    int64_t count = 0;
    if (!tdpy_array_open(&array, values)) {
        return false;
    }
    if (!tdpy_array_keep(&array, &view)) {
        tdpy_array_close(&array);
        return false;
    }
    tdpy_column *column = tdpy_table_add(&f->table, "value", TDPY_FIXED, formats[view.dtype]);
    column->kept = view;
    f->max_rows = view.shape.rank > 0 ? view.shape.dims[0] : -1;
    td_status status = td_shape_check(&view.shape, view.dtype, &count, &error);
    if (!status && (f->max_rows < 1 || count == 0 || view.dtype == TD_BFLOAT16)) {
        status = td_error_set(&error, TD_BAD_SHAPE, "the array has no rows of elements");
    }
    if (!status) {
        column->width = count / f->max_rows;
        column->shape.rank = view.shape.rank - 1;
        memcpy(column->shape.dims, view.shape.dims + 1,
               (size_t)column->shape.rank * sizeof *view.shape.dims);
        f->query.places = true;
        status = td_run_read(f->run, &f->query, add_place, f, &error);
    }
    if (!status && f->table.rows != f->max_rows) {
        status = td_error_set(&error, TD_FORMAT, "%lld tensors are mapped and %lld are listed",
                              (long long)f->max_rows, (long long)f->table.rows);
    }
    if (status) {
        tdpy_raise(&error);
    }
    return status == TD_OK;
}

/* ---- Examples ------------------------------------------------------------------------------- */

enum { SAMPLE = FIRST, LABEL, NUMBERS };

static void rows_columns(tdpy_table *table) {
    tdpy_table_add(table, "sample", TDPY_PLAIN, "l");
    tdpy_table_add(table, "label", TDPY_PLAIN, "g");
    tdpy_table_add(table, "value", TDPY_LIST, "g");
}

typedef struct one_signal {
    filling *f;
    int32_t index;
    int64_t step;   /* of the rows that were added last */
    td_run_step at; /* when that was */
} one_signal;

static td_status add_example(void *user, const td_example *example, td_error *error) {
    one_signal *one = user;
    tdpy_table *t = &one->f->table;
    if (example->step != one->step) {
        one->step = example->step;
        one->at = (td_run_step){0};
        bool known = td_run_when(one->f->run, one->step, &one->at) && one->at.step == one->step;
        one->at = known ? one->at : (td_run_step){0};
    }
    const bool valid = !isnan(example->label);
    tdpy_column *numbers = &t->columns[NUMBERS];
    bool good = begin_row(t, one->index, one->at.epoch, one->step, one->at.wall_time) &&
                add_integer(t, SAMPLE, example->sample) &&
                add_number(t, LABEL, valid ? example->label : 0) &&
                tdpy_bytes_add(&t->columns[LABEL].valid, &valid, 1) &&
                tdpy_bytes_add(&numbers->values, example->values,
                               example->count * sizeof *example->values) &&
                end_row_of(numbers, sizeof *example->values);
    return good ? TD_OK : out_of_memory(error);
}

/* The step of the first example: nothing else of it is read. */
static td_status take_step(void *step, const td_example *example, td_error *error) {
    *(int64_t *)step = example->step;
    return td_error_set(error, TD_INTERRUPTED, "one is enough");
}

/* The steps at or before `last` that have examples, the latest first. */
static td_status list_steps(td_run *run, const td_run_signal *signal, tdpy_bytes *steps,
                            td_error *error) {
    int64_t step = signal->last_step;
    for (;;) {
        int64_t found = step;
        td_status status = td_run_examples(run, signal, step, take_step, &found, error);
        if (status == TD_NOT_FOUND) {
            return TD_OK;
        }
        if (status != TD_OK && status != TD_INTERRUPTED) {
            return status;
        }
        if (!tdpy_bytes_add(steps, &found, sizeof found)) {
            return out_of_memory(error);
        }
        if (found == INT64_MIN) {
            return TD_OK;
        }
        step = found - 1;
    }
}

static td_status read_signal(filling *f, size_t index, td_error *error) {
    const td_run_signal *signal = td_run_signal_at(f->run, index);
    one_signal one = {.f = f, .index = (int32_t)index, .step = INT64_MIN};
    tdpy_bytes steps = {0};
    td_status status = list_steps(f->run, signal, &steps, error);
    const int64_t *list = (const int64_t *)(const void *)steps.data;
    for (size_t i = steps.used / sizeof *list; !status && i-- > 0;) {
        status = td_run_examples(f->run, signal, list[i], add_example, &one, error);
    }
    free(steps.data);
    return status;
}

static td_status read_examples(filling *f, td_error *error) {
    td_status status = TD_OK;
    for (size_t i = 0; !status && i < td_run_signal_count(f->run); i++) {
        const td_run_signal *signal = td_run_signal_at(f->run, i);
        if ((signal->forms & TD_ROWS) && td_run_matches(f->query.what, signal->name)) {
            status = read_signal(f, i, error);
        }
    }
    return status;
}

/* ---- All of them ---------------------------------------------------------------------------- */

static const struct form {
    td_form form;
    void (*columns)(tdpy_table *table);
    td_record_function *each; /* NULL: examples */
} forms[] = {
    {TD_SCALAR, scalar_columns, add_scalar},
    {TD_STATS, stats_columns, add_stats},
    {TD_HISTOGRAM, histogram_columns, add_histogram},
    {TD_TENSOR, tensor_columns, add_tensor},
    {TD_ROWS, rows_columns, NULL},
    {TD_TEXT, text_columns, add_text},
};

static bool add_words(filling *f) {
    tdpy_column *column = &f->table.columns[SIGNAL];
    bool good = true;
    for (size_t i = 0; good && i < td_run_signal_count(f->run); i++) {
        const char *name = td_run_signal_at(f->run, i)->name;
        good = tdpy_bytes_add(&column->words, name, strlen(name));
        int64_t end = (int64_t)column->words.used;
        good = good && tdpy_bytes_add(&column->ends, &end, sizeof end);
    }
    return good;
}

/* Fills the table; false with an exception set. */
static bool fill_table(filling *f, const struct form *form, PyObject *values) {
    tdpy_table_add(&f->table, "signal", TDPY_WORDS, "i");
    tdpy_table_add(&f->table, "epoch", TDPY_PLAIN, "l");
    tdpy_table_add(&f->table, "step", TDPY_PLAIN, "l");
    tdpy_table_add(&f->table, "wall_time", TDPY_PLAIN, "g");
    if (!add_words(f)) {
        PyErr_NoMemory();
        return false;
    }
    if (values != Py_None) {
        return read_mapped(f, values);
    }
    td_error error = {0};
    form->columns(&f->table);
    td_status status = form->each ? td_run_read(f->run, &f->query, form->each, f, &error)
                                  : read_examples(f, &error);
    if (status) {
        tdpy_raise(&error);
    } else if (form->form == TD_TENSOR) {
        settle_tensors(f);
    }
    return status == TD_OK;
}

PyObject *tdpy_run_arrow(PyObject *object, PyObject *arguments) {
    td_run *run = tdpy_run_opened(object);
    const char *what;
    unsigned bit;
    PyObject *values = Py_None;
    if (!run || !PyArg_ParseTuple(arguments, "zI|O", &what, &bit, &values)) {
        return NULL;
    }
    const struct form *form = NULL;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        form = (unsigned)forms[i].form == bit ? &forms[i] : form;
    }
    if (!form) {
        PyErr_SetString(PyExc_ValueError, "there is no table of this form");
        return NULL;
    }
    filling f = {.run = run, .query = {.size = sizeof f.query, .what = what, .forms = bit}};
    PyObject *stream = fill_table(&f, form, values) ? tdpy_table_stream(&f.table) : NULL;
    tdpy_table_release(&f.table);
    return stream;
}
