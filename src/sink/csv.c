/* CSV files: metrics.csv, SIGNAL.csv and what all signals share (stats, hashes, texts).
 *
 * RFC 4180 with '\n', numbers as base/number.h writes them. SIGNAL.csv is for the form that a track
 * asks for by the signal's own name, otherwise for the first to come; others get SIGNAL@FORM.csv.
 * Rows of another width get SIGNAL@WIDTH.csv, so that every file has one header and rows that fit
 * it. docs/files.md lists the columns.
 */
#include "base/file.h"
#include "base/memory.h"
#include "base/number.h"
#include "deck/reach.h"
#include "deck/signal.h"
#include "sink/append.h"
#include "sink/classes.h"
#include "sink/metrics.h"
#include "sink/resume.h"
#include "sink/score.h"
#include "sink/text.h"
#include "tensor/element.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct table {
    struct table *next;
    td_form form;
    int64_t columns;  /* ROWS, BATCH: values in a row; otherwise 0 */
    int64_t labels;   /* ROWS of predictions: label columns */
    bool scores;      /* of classes; then a column says which class was predicted */
    size_t name_room; /* bytes of a class's name */
    td__append *file;
} table;

/* SIGNAL.csv is kept for this form. */
typedef struct claim {
    struct claim *next;
    td_form form;
    char signal[];
} claim;

struct td_sink {
    td__append_set set;
    td__metrics metrics;
    claim *claims;
    table **signals; /* by signal index: the tables of each */
    size_t signal_count;
    td__append *stats, *hashes, *texts; /* NULL until there is something for them */
    int32_t own_stats;                  /* signals whose statistics have a file of their own */
};

#define STATS_HEADER "epoch,step,signal,count,mean,std,min,max,norm,zeros,nan,inf\n"

/* --- cells ------------------------------------------------------------------------------------ */

#define CELL (TD__NUMBER_TEXT + 1)

/* count elements from first on, each followed by a comma; returns the end. */
typedef char *cells_function(char *out, const void *data, int64_t first, int64_t count);

#define DEFINE_CELLS(name, type, format)                                                           \
    static char *cells_##name(char *out, const void *data, int64_t first, int64_t count) {         \
        const type *values = (const type *)data + first;                                           \
        for (int64_t i = 0; i < count; i++) {                                                      \
            out += format(out, values[i]);                                                         \
            *out++ = ',';                                                                          \
        }                                                                                          \
        return out;                                                                                \
    }
DEFINE_CELLS(float32, float, td__format_float)
DEFINE_CELLS(int32, int32_t, td__format_int)
DEFINE_CELLS(int64, int64_t, td__format_int)
DEFINE_CELLS(uint8, uint8_t, td__format_uint)
DEFINE_CELLS(float64, double, td__format_double)
DEFINE_CELLS(int8, int8_t, td__format_int)
DEFINE_CELLS(int16, int16_t, td__format_int)
DEFINE_CELLS(uint16, uint16_t, td__format_uint)
DEFINE_CELLS(uint32, uint32_t, td__format_uint)
DEFINE_CELLS(uint64, uint64_t, td__format_uint)

static size_t format_float16(char *out, uint16_t bits) {
    return td__format_float(out, td__from_float16(bits));
}
static size_t format_bfloat16(char *out, uint16_t bits) {
    return td__format_float(out, td__from_bfloat16(bits));
}
DEFINE_CELLS(float16, uint16_t, format_float16)
DEFINE_CELLS(bfloat16, uint16_t, format_bfloat16)

static cells_function *const cells[TD_DTYPE_COUNT] = {
    [TD_FLOAT32] = cells_float32,   [TD_INT32] = cells_int32,     [TD_INT64] = cells_int64,
    [TD_UINT8] = cells_uint8,       [TD_FLOAT64] = cells_float64, [TD_FLOAT16] = cells_float16,
    [TD_BFLOAT16] = cells_bfloat16, [TD_BOOL] = cells_uint8,      [TD_INT8] = cells_int8,
    [TD_INT16] = cells_int16,       [TD_UINT16] = cells_uint16,   [TD_UINT32] = cells_uint32,
    [TD_UINT64] = cells_uint64,
};

static char *cell_int(char *out, int64_t value) {
    out += td__format_int(out, value);
    *out++ = ',';
    return out;
}

static char *cell_value(char *out, double value) {
    out += td__format_value(out, value);
    *out++ = ',';
    return out;
}

/* epoch,step, as every table begins. */
static char *cells_when(char *out, const td_record *record) {
    return cell_int(cell_int(out, record->epoch), record->step);
}

#define WHEN (2 * CELL)

/* Room for a row of at most size bytes (and what the last number's formatting may touch). */
static char *row_room(td__append *file, size_t size, td_error *error) {
    char *room = td__append_room(file, size + TD__NUMBER_ROOM);
    if (!room) {
        td_error_set(error, TD_MEMORY, "%s: out of memory for a row", file->name);
    }
    return room;
}

/* The row from start to end, where a comma becomes the line's end. */
static void row_done(td__append *file, const char *start, char *end) {
    end[-1] = '\n';
    td__append_advance(file, (size_t)(end - start));
}

/* --- tables ----------------------------------------------------------------------------------- */

/* The signal's list of tables; NULL when memory is exhausted. */
static table **find_signal(td_sink *sink, const td_record *record, td_error *error) {
    if (!td__signals_reach(&sink->signals, &sink->signal_count, record->signal_index,
                           sizeof *sink->signals)) {
        td_error_set(error, TD_MEMORY, "csv: out of memory");
        return NULL;
    }
    return &sink->signals[record->signal_index];
}

static const claim *find_claim(const td_sink *sink, const char *signal) {
    const claim *found = sink->claims;
    while (found && strcmp(found->signal, signal) != 0) {
        found = found->next;
    }
    return found;
}

/* SIGNAL.csv where that is free, then SIGNAL@FORM.csv; for rows SIGNAL@WIDTH.csv and, when only
 * the labels differ, SIGNAL@WIDTH-LABELS.csv; for wider batches SIGNAL@batch-WIDTH.csv. False when there is no further name to try. */
static bool table_name(char *out, size_t size, const char *signal, const table *wanted,
                       int attempt) {
    char name[TD__SIGNAL_FILE_SIZE], word[48] = "";
    bool rows = wanted->form == TD_ROWS, batch = wanted->form == TD_BATCH;
    bool predictions = wanted->labels >= 0 && strcmp(signal, "prediction") == 0;
    if (attempt == 0 && wanted->form == TD_HISTOGRAM) {
        return table_name(out, size, signal, wanted, 1); /* always beside another form */
    }
    if (attempt == 1 && rows) {
        snprintf(word, sizeof word, "@%lld", (long long)wanted->columns);
    } else if (attempt == 1) {
        snprintf(word, sizeof word, "@%s", td_form_name(wanted->form));
    } else if (attempt == 2 && batch) {
        snprintf(word, sizeof word, "@batch-%lld", (long long)wanted->columns);
    } else if (attempt == 2) {
        snprintf(word, sizeof word, "@%lld-%lld", (long long)wanted->columns,
                 (long long)wanted->labels);
    }
    snprintf(out, size, "%s%s.csv", predictions ? "predictions" : td__signal_file(name, signal),
             word);
    return attempt < (wanted->labels >= 0 || batch ? 3 : 2);
}

static td_status add_table(td_sink *sink, const td_record *record, table **signal,
                           const table *wanted, const char *header, size_t size, table **found,
                           td_error *error) {
    char name[TD__SIGNAL_FILE_SIZE + 52];
    table *added = td__calloc(1, sizeof *added);
    if (!added) {
        return td_error_set(error, TD_MEMORY, "csv: out of memory");
    }
    *added = *wanted;
    const claim *claimed = find_claim(sink, record->signal);
    td_status status = TD_EXISTS;
    for (int attempt = claimed && claimed->form != wanted->form;
         status == TD_EXISTS && table_name(name, sizeof name, record->signal, wanted, attempt);
         attempt++) {
        status =
            td__append_open(&sink->set, name, TD__APPEND_LINES, header, size, &added->file, error);
    }
    if (status) {
        td__free(added);
        return status;
    }
    added->next = *signal;
    *signal = added;
    *found = added;
    return TD_OK;
}

static table *find_table(table *tables, const table *wanted) {
    while (tables && (tables->form != wanted->form || tables->columns != wanted->columns ||
                      tables->labels != wanted->labels)) {
        tables = tables->next;
    }
    return tables;
}

/* A table whose header does not depend on the record. */
static td_status fixed_table(td_sink *sink, const td_record *record, const char *header,
                             td__append **file, td_error *error) {
    table **signal = find_signal(sink, record, error);
    if (!signal) {
        return TD_MEMORY;
    }
    table wanted = {.form = record->form, .labels = -1};
    table *found = find_table(*signal, &wanted);
    td_status status = TD_OK;
    if (!found) {
        status = add_table(sink, record, signal, &wanted, header, strlen(header), &found, error);
    }
    if (!status) {
        *file = found->file;
    }
    return status;
}

/* A file of all signals together, made when first needed. */
static td_status shared_file(td_sink *sink, td__append **file, const char *name, const char *header,
                             td_error *error) {
    return *file ? TD_OK
                 : td__append_open(&sink->set, name, TD__APPEND_LINES, header, strlen(header), file,
                                   error);
}

/* --- rows ------------------------------------------------------------------------------------- */

enum { PREFIX_SIZE = 65 };

/* What the columns of a record's values are called: "error" for hidden.error, "kernel" for
 * conv1.kernel; of a signal that nobody knows the last word of its name. */
static void make_prefix(char prefix[PREFIX_SIZE], const td_record *record) {
    td_signal_kind kind = td__record_kind(record);
    const char *dot = strrchr(record->signal, '.');
    const char *last = dot ? dot + 1 : record->signal;
    bool by_kind = kind != TD_SIGNAL_UNKNOWN && kind != TD_SIGNAL_METRIC &&
                   kind != TD_SIGNAL_TEXT && kind != TD_SIGNAL_PARAMETER;
    bool named = kind == TD_SIGNAL_PARAMETER && record->info && *record->info->parameter;
    snprintf(prefix, PREFIX_SIZE, "%s",
             kind == TD_SIGNAL_PREDICTION ? "class"
             : by_kind                    ? td_signal_kind_name(kind)
             : named                      ? record->info->parameter
                                          : last);
}

/* Room for a header with so many columns beside epoch and step; NULL when memory is exhausted. */
static char *header_room(int64_t columns, td_error *error) {
    char *header = td__calloc((size_t)columns + 3, TD__CSV_CELL(PREFIX_SIZE + TD__NUMBER_TEXT));
    if (!header) {
        td_error_set(error, TD_MEMORY, "csv: out of memory for %lld columns", (long long)columns);
    }
    return header;
}

/* WORD_0,WORD_1,…, or just WORD when there is one and plain is set. */
static char *header_cells(char *out, const char *word, int64_t count, bool plain) {
    size_t length = strlen(word);
    for (int64_t i = 0; i < count; i++) {
        char name[TD__CSV_CELL(64) + TD__NUMBER_ROOM]; /* the word is at most 64 bytes */
        memcpy(name, word, length);
        size_t size = length;
        if (!plain || count > 1) {
            name[size++] = '_';
            size += td__format_int(name + size, i);
        }
        out += td__csv_cell(out, name, size);
        *out++ = ',';
    }
    return out;
}

/* epoch,step,sample[,label…],PREFIX_0,…[,predicted] */
static td_status add_rows_table(td_sink *sink, const td_record *record, table **signal,
                                const table *wanted, table **found, td_error *error) {
    int64_t labels = wanted->labels > 0 ? wanted->labels : 0;
    char prefix[PREFIX_SIZE];
    make_prefix(prefix, record);
    char *header = header_room(labels + wanted->columns, error);
    if (!header) {
        return TD_MEMORY;
    }
    char *end = stpcpy(header, "epoch,step,sample,");
    end = header_cells(end, "label", labels, true);
    end = header_cells(end, prefix, wanted->columns, false);
    end = header_cells(end, "predicted", wanted->scores, true);
    end[-1] = '\n';
    td_status status =
        add_table(sink, record, signal, wanted, header, (size_t)(end - header), found, error);
    td__free(header);
    return status;
}

/* The labels of a row: by name where classes have names, the class where it is given one-hot. */
static char *label_cells(char *out, const table *t, const td_record *record, int64_t row) {
    const td_view *labels = record->labels;
    int64_t each = t->labels > 0 ? td__elements_from(&labels->shape, 1) : 0;
    if (t->scores && each == 1) {
        return td__class_cell(out, record->info, td__element(labels, row));
    }
    if (t->scores && each == record->info->classes) {
        return td__class_cell(out, record->info,
                              (double)td__predicted(record->info, labels, row, each));
    }
    return each > 0 ? cells[labels->dtype](out, labels->data, row * each, each) : out;
}

static td_status write_rows(td_sink *sink, const td_record *record, td_error *error) {
    const td_view *view = record->view, *labels = record->labels;
    bool predictions = td__record_kind(record) == TD_SIGNAL_PREDICTION;
    int64_t rows = view->shape.rank > 0 ? view->shape.dims[0] : 1;
    table wanted = {.form = TD_ROWS, .columns = td__elements_from(&view->shape, 1), .labels = -1};
    if (predictions) {
        wanted.labels = labels ? td__elements_from(&labels->shape, 1) : 0;
        wanted.scores = td__are_scores(record->info, wanted.columns);
        bool one_hot = wanted.scores && wanted.labels == record->info->classes;
        wanted.labels = one_hot ? 1 : wanted.labels;
    }
    table **signal = find_signal(sink, record, error);
    if (!signal) {
        return TD_MEMORY;
    }
    td_status status = TD_OK;
    table *found = find_table(*signal, &wanted);
    if (!found && (status = add_rows_table(sink, record, signal, &wanted, &found, error))) {
        return status;
    }
    td__append *file = found->file;
    if (found->scores && !found->name_room) {
        found->name_room = td__class_room(record->info);
    }
    int64_t label_count = wanted.labels > 0 ? wanted.labels : 0;
    size_t size = WHEN + CELL * (size_t)(1 + label_count + wanted.columns) + 2 * found->name_room;
    td__append_begin(file);
    for (int64_t i = 0; i < rows && !status; i++) {
        char *start = row_room(file, size, error);
        if (!start) {
            td__append_cancel(file);
            return TD_MEMORY;
        }
        char *end = cell_int(cells_when(start, record), record->samples ? record->samples[i] : i);
        end = label_cells(end, found, record, i);
        end = cells[view->dtype](end, view->data, i * wanted.columns, wanted.columns);
        if (found->scores) {
            int64_t class = td__predicted(record->info, view, i, wanted.columns);
            end = td__class_cell(end, record->info, (double)class);
        }
        row_done(file, start, end);
        status = td__append_row(file, error);
    }
    if (status) {
        td__append_cancel(file);
        return status;
    }
    return td__append_end(file, 1, error);
}

/* --- batches ---------------------------------------------------------------------------------- */

/* How many values a row has in the signal's file of an earlier session; 0 when there is none. */
static int64_t earlier_columns(const td_sink *sink, const td_record *record) {
    char name[TD__SIGNAL_FILE_SIZE], path[sizeof name + 8], piece[4096];
    snprintf(path, sizeof path, "%s.csv", td__signal_file(name, record->signal));
    int file =
        sink->set.resumed ? td__file_open(sink->set.folder, path, O_RDONLY | O_NOFOLLOW) : -1;
    int64_t commas = 0;
    const char *end = NULL;
    for (ssize_t got = 1; file >= 0 && got > 0 && !end;) {
        got = read(file, piece, sizeof piece);
        end = got > 0 ? memchr(piece, '\n', (size_t)got) : NULL;
        for (const char *at = piece; got > 0 && at < (end ? end : piece + got); at++) {
            commas += *at == ',';
        }
    }
    if (file >= 0) {
        close(file);
    }
    return end && commas > 1 ? commas - 1 : 0;
}

/* epoch,step,PREFIX_0,…: as many columns as the first record, or the one before a pause, had. */
static td_status add_batch_table(td_sink *sink, const td_record *record, table **signal,
                                 int64_t count, table **found, td_error *error) {
    int64_t earlier = earlier_columns(sink, record);
    table wanted = {.form = TD_BATCH, .columns = earlier > count ? earlier : count, .labels = -1};
    char prefix[PREFIX_SIZE];
    make_prefix(prefix, record);
    char *header = header_room(wanted.columns, error);
    if (!header) {
        return TD_MEMORY;
    }
    char *end = header_cells(stpcpy(header, "epoch,step,"), prefix, wanted.columns, false);
    end[-1] = '\n';
    td_status status =
        add_table(sink, record, signal, &wanted, header, (size_t)(end - header), found, error);
    td__free(header);
    return status;
}

/* The last, short batch leaves cells empty. */
static td_status write_batch(td_sink *sink, const td_record *record, td_error *error) {
    const td_view *view = record->view;
    int64_t count = td__elements_from(&view->shape, 0);
    table **signal = find_signal(sink, record, error);
    if (!signal) {
        return TD_MEMORY;
    }
    table *found = *signal;
    while (found && (found->form != TD_BATCH || found->columns < count)) {
        found = found->next;
    }
    td_status status = found ? TD_OK : add_batch_table(sink, record, signal, count, &found, error);
    if (status) {
        return status;
    }
    int64_t missing = found->columns - count;
    td__append_begin(found->file);
    char *start = row_room(found->file, WHEN + CELL * (size_t)count + (size_t)missing + 1, error);
    if (!start) {
        return TD_MEMORY;
    }
    char *end = cells[view->dtype](cells_when(start, record), view->data, 0, count);
    memset(end, ',', (size_t)missing);
    row_done(found->file, start, end + missing);
    return td__append_end(found->file, 1, error);
}

/* --- long ------------------------------------------------------------------------------------- */

/* The index of element i, counted over dimensions from … rank: 3 or "1,2,3", and a comma. */
static char *cell_index(char *out, const td_shape *shape, int32_t from, int64_t i) {
    int64_t index[TD_MAX_RANK] = {0};
    for (int32_t d = shape->rank - 1; d >= from; d--) {
        index[d] = i % shape->dims[d];
        i /= shape->dims[d];
    }
    bool quoted = shape->rank - from > 1;
    if (quoted) {
        *out++ = '"';
    }
    for (int32_t d = from; d < shape->rank || d == from; d++) {
        out = cell_int(out, d < shape->rank ? index[d] : 0);
    }
    if (quoted) {
        out[-1] = '"';
        *out++ = ',';
    }
    return out;
}

/* Where rows are examples, the index is that within the example; otherwise that within the
 * tensor. */
static td_status write_long(td_sink *sink, const td_record *record, td_error *error) {
    const td_view *view = record->view;
    td__append *file;
    td_status status = fixed_table(sink, record, "epoch,step,sample,index,value\n", &file, error);
    if (status) {
        return status;
    }
    bool examples = record->samples && view->shape.rank > 0;
    int64_t count = td__elements_from(&view->shape, 0);
    int64_t each = examples ? td__elements_from(&view->shape, 1) : count;
    td__append_begin(file);
    for (int64_t i = 0; i < count && !status; i++) {
        char *start = row_room(file, WHEN + CELL * (2 + TD_MAX_RANK) + 2, error);
        if (!start) {
            td__append_cancel(file);
            return TD_MEMORY;
        }
        char *end = cells_when(start, record);
        if (examples) {
            end = cell_int(end, record->samples[i / each]);
        } else {
            *end++ = ',';
        }
        end = cell_index(end, &view->shape, examples, i % each);
        end = cells[view->dtype](end, view->data, i, 1);
        row_done(file, start, end);
        status = td__append_row(file, error);
    }
    if (status) {
        td__append_cancel(file);
        return status;
    }
    return td__append_end(file, 1, error);
}

/* --- the other forms -------------------------------------------------------------------------- */

/* epoch,step,TEXT, with room for size more bytes; NULL when memory is exhausted. */
static char *begin_named(td__append *file, const td_record *record, const char *text, size_t length,
                         size_t size, char **start, td_error *error) {
    td__append_begin(file);
    *start = row_room(file, WHEN + TD__CSV_CELL(length) + 1 + size, error);
    if (!*start) {
        return NULL;
    }
    char *end = cells_when(*start, record);
    end += td__csv_cell(end, text, length);
    *end++ = ',';
    return end;
}

static td_status append_stats(td__append *file, const td_record *record, int64_t records,
                              td_error *error) {
    const td_stats *stats = record->stats;
    char *start, *end;
    end =
        begin_named(file, record, record->signal, strlen(record->signal), 9 * CELL, &start, error);
    if (!end) {
        return TD_MEMORY;
    }
    end = cell_int(end, stats->count);
    const double values[] = {stats->mean, stats->std, stats->min, stats->max, stats->norm};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        end = cell_value(end, values[i]);
    }
    end = cell_int(cell_int(cell_int(end, stats->zeros), stats->nan), stats->inf);
    row_done(file, start, end);
    return td__append_end(file, records, error);
}

/* A signal's own file of statistics beside stats.csv: of those that tracks name, and of the first few
 * hundred others; a network of thousands of layers would fill its folder. NULL when it has none. */
static td_status own_stats(td_sink *sink, const td_record *record, td__append **own,
                           td_error *error) {
    enum { MOST_OWN = 300 };
    table **signal = find_signal(sink, record, error);
    if (!signal) {
        return TD_MEMORY;
    }
    table wanted = {.form = TD_STATS, .labels = -1};
    const table *found = find_table(*signal, &wanted);
    if (found) {
        *own = found->file;
        return TD_OK;
    }
    if (sink->own_stats < MOST_OWN || find_claim(sink, record->signal)) {
        sink->own_stats++;
        return fixed_table(sink, record, STATS_HEADER, own, error);
    }
    table *none = td__calloc(1, sizeof *none);
    if (!none) {
        return td_error_set(error, TD_MEMORY, "csv: out of memory");
    }
    *none = wanted;
    none->next = *signal;
    *signal = none;
    *own = NULL;
    return TD_OK;
}

static td_status write_stats(td_sink *sink, const td_record *record, td_error *error) {
    td__append *own;
    td_status status = own_stats(sink, record, &own, error);
    status = status ? status : shared_file(sink, &sink->stats, "stats.csv", STATS_HEADER, error);
    status = status ? status : append_stats(sink->stats, record, own ? 0 : 1, error);
    return status || !own ? status : append_stats(own, record, 1, error);
}

/* Edges that other programs chose are doubles, and written as such. */
static size_t format_edge(char *out, const td_histogram *histogram, double edge) {
    return histogram->ranges ? td__format_double(out, edge) : td__format_value(out, edge);
}

static td_status write_histogram(td_sink *sink, const td_record *record, td_error *error) {
    td__append *file;
    td_status status = fixed_table(sink, record, "epoch,step,left,right,count\n", &file, error);
    if (status) {
        return status;
    }
    const td_histogram *histogram = record->histogram;
    char edge[TD__NUMBER_ROOM]; /* the right one of the bin before: mostly the next one's left */
    size_t length = 0;
    double right = NAN;
    td__append_begin(file);
    for (int32_t i = 0; i < histogram->bin_count; i++) {
        td_range bin = td_histogram_range(histogram, i);
        char *start = row_room(file, WHEN + 3 * CELL, error);
        if (!start) {
            td__append_cancel(file);
            return TD_MEMORY;
        }
        if (bin.left != right || bin.left == 0) { /* zeros have signs */
            length = format_edge(edge, histogram, bin.left);
        }
        char *end = cells_when(start, record);
        memcpy(end, edge, length);
        end += length;
        *end++ = ',';
        right = bin.right;
        length = format_edge(edge, histogram, right);
        memcpy(end, edge, length);
        end += length;
        *end++ = ',';
        row_done(file, start, cell_value(end, bin.count));
    }
    return td__append_end(file, 1, error);
}

static td_status write_hash(td_sink *sink, const td_record *record, td_error *error) {
    td_status status =
        shared_file(sink, &sink->hashes, "hashes.csv", "epoch,step,signal,hash\n", error);
    if (status) {
        return status;
    }
    char *start, *end;
    end = begin_named(sink->hashes, record, record->signal, strlen(record->signal), 32, &start,
                      error);
    if (!end) {
        return TD_MEMORY;
    }
    /* x in front: sixteen digits alone might be read as a number, and lose some */
    end += snprintf(end, 32, "x%016llx,", (unsigned long long)record->hash);
    row_done(sink->hashes, start, end);
    return td__append_end(sink->hashes, 1, error);
}

static td_status write_text(td_sink *sink, const td_record *record, td_error *error) {
    td_status status =
        shared_file(sink, &sink->texts, "texts.csv", "epoch,step,signal,text\n", error);
    if (status) {
        return status;
    }
    char *start, *end;
    end = begin_named(sink->texts, record, record->signal, strlen(record->signal),
                      TD__CSV_CELL(record->text_length) + 1, &start, error);
    if (!end) {
        return TD_MEMORY;
    }
    end += td__csv_cell(end, record->text, record->text_length);
    *end++ = ',';
    row_done(sink->texts, start, end);
    return td__append_end(sink->texts, 1, error);
}

static td_status write_scalar(td_sink *sink, const td_record *record, td_error *error) {
    return td__metrics_put(&sink->metrics, record->signal, record->signal_index, record->epoch,
                           record->step, record->value, error);
}

/* --- the sink --------------------------------------------------------------------------------- */

static td_status csv_write(td_sink *sink, const td_record *record, td_error *error) {
    switch (record->form) {
    case TD_SCALAR:
        return write_scalar(sink, record, error);
    case TD_ROWS:
        return write_rows(sink, record, error);
    case TD_BATCH:
        return write_batch(sink, record, error);
    case TD_LONG:
        return write_long(sink, record, error);
    case TD_STATS:
        return write_stats(sink, record, error);
    case TD_HISTOGRAM:
        return write_histogram(sink, record, error);
    case TD_HASH:
        return write_hash(sink, record, error);
    case TD_TEXT:
        return write_text(sink, record, error);
    default:
        return td_error_set(error, TD_UNSUPPORTED, "csv: cannot write the form %s",
                            td_form_name(record->form));
    }
}

static td_status csv_close(td_sink *sink, td_error *error) {
    td_status status = td__metrics_end_row(&sink->metrics, error);
    td_status closed = td__append_set_close(&sink->set, status ? NULL : error);
    td__metrics_release(&sink->metrics);
    for (size_t i = 0; i < sink->signal_count; i++) {
        for (table *next, *t = sink->signals[i]; t; t = next) {
            next = t->next;
            td__free(t);
        }
    }
    for (claim *next, *c = sink->claims; c; c = next) {
        next = c->next;
        td__free(c);
    }
    td__free(sink->signals);
    td__free(sink);
    return status ? status : closed;
}

static td_status csv_open(const td_sink_options *options, td_sink **sink, td_error *error) {
    td_sink *opened = td__calloc(1, sizeof *opened);
    if (!opened) {
        return td_error_set(error, TD_MEMORY, "csv: out of memory");
    }
    bool resumed = options->resume != 0;
    td_status status = td__append_set_open(&opened->set, options, resumed, error);
    if (status) {
        td__free(opened);
        return status;
    }
    opened->metrics.set = &opened->set;
    if (resumed) {
        status = td__resume_csv(opened->set.folder, options->resume, error);
        status = status ? status : td__metrics_resume(&opened->metrics, error);
    }
    if (status) {
        csv_close(opened, NULL);
        return status;
    }
    *sink = opened;
    return TD_OK;
}

/* The first track that names the signal has the say; of several forms the most detailed. */
static td_status claim_name(td_sink *sink, const char *signal, uint32_t forms, td_error *error) {
    static const td_form tables[] = {TD_ROWS, TD_BATCH, TD_LONG, TD_STATS};
    size_t i = 0, length = strlen(signal) + 1;
    while (i < sizeof tables / sizeof *tables && !(forms & tables[i])) {
        i++;
    }
    if (i == sizeof tables / sizeof *tables || find_claim(sink, signal)) {
        return TD_OK;
    }
    claim *made = td__calloc(1, sizeof *made + length);
    if (!made) {
        return td_error_set(error, TD_MEMORY, "csv: out of memory");
    }
    made->form = tables[i];
    memcpy(made->signal, signal, length);
    made->next = sink->claims;
    sink->claims = made;
    return TD_OK;
}

static td_status csv_expect(td_sink *sink, const char *signal, uint32_t forms, td_error *error) {
    td_status status = claim_name(sink, signal, forms, error);
    return !status && forms & TD_SCALAR ? td__metrics_expect(&sink->metrics, signal, error)
                                        : status;
}

static td_status csv_end_step(td_sink *sink, int64_t epoch, int64_t step, td_error *error) {
    (void)epoch, (void)step;
    td_status status = td__metrics_end_row(&sink->metrics, error);
    td_status tick = td__append_set_tick(&sink->set, status ? NULL : error);
    return status ? status : tick;
}

static td_status csv_flush(td_sink *sink, td_error *error) {
    td_status status = td__metrics_end_row(&sink->metrics, error);
    td_status sync = td__append_set_sync(&sink->set, status ? NULL : error);
    return status ? status : sync;
}

static int64_t csv_estimate(td_form form, int64_t rows, int64_t elements) {
    enum { FLOAT = 12, HEAD = 16, STATS_LINE = 120, BIN_LINE = 40, BINS = 200 };
    switch (form) {
    case TD_LONG:
        return elements * (FLOAT + HEAD);
    case TD_STATS:
        return 2 * STATS_LINE; /* in stats.csv too */
    case TD_HISTOGRAM:
        return (int64_t)BINS * BIN_LINE;
    case TD_ROWS:
        return elements * FLOAT + rows * HEAD;
    case TD_BATCH:
        return elements * FLOAT + HEAD;
    default:
        return HEAD;
    }
}

const td_sink_class td__sink_csv = {
    .size = sizeof(td_sink_class),
    .name = "csv",
    .forms = TD_ROWS | TD_BATCH | TD_LONG | TD_STATS | TD_HISTOGRAM | TD_SCALAR | TD_HASH | TD_TEXT,
    .default_forms = TD_ROWS,
    .standard = true,
    .open = csv_open,
    .expect = csv_expect,
    .write = csv_write,
    .end_step = csv_end_step,
    .flush = csv_flush,
    .close = csv_close,
    .files = "metrics.csv, SIGNAL.csv, stats.csv",
    .estimate = csv_estimate,
};
