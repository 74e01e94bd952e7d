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
#include "deck/signal.h"
#include "sink/append.h"
#include "sink/classes.h"
#include "sink/csv_cells.h"
#include "sink/csv_tables.h"
#include "sink/metrics.h"
#include "sink/resume.h"
#include "sink/score.h"
#include "sink/text.h"
#include "sink/units.h"
#include "tensor/element.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct td_sink {
    td__append_set set;
    td__metrics metrics;
    td__csv_tables tables;
    td__append *stats, *hashes, *texts; /* NULL until there is something for them */
    int32_t own_stats;                  /* signals whose statistics have a file of their own */
};

#define STATS_HEADER "epoch,step,signal,count,mean,std,min,max,norm,zeros,nan,inf\n"

/* A table whose header does not depend on the record. */
static td_status fixed_table(td_sink *sink, const td_record *record, const char *header,
                             td__append **file, td_error *error) {
    td__csv_table **signal = td__csv_tables_of(&sink->tables, record, error);
    if (!signal) {
        return TD_MEMORY;
    }
    td__csv_table wanted = {.form = record->form, .labels = -1};
    td__csv_table *found = td__csv_table_find(*signal, &wanted);
    td_status status = TD_OK;
    if (!found) {
        status = td__csv_table_add(&sink->tables, record, signal, &wanted, header, strlen(header),
                                   &found, error);
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
 * conv1.kernel; of what is derived and of an unknown signal the last word of its name. */
static void make_prefix(char prefix[PREFIX_SIZE], const td_record *record) {
    td_signal_kind kind = td__record_kind(record);
    const char *dot = strrchr(record->signal, '.');
    const char *last = dot ? dot + 1 : record->signal;
    bool by_kind = kind != TD_SIGNAL_UNKNOWN && kind != TD_SIGNAL_METRIC &&
                   kind != TD_SIGNAL_TEXT && kind != TD_SIGNAL_PARAMETER &&
                   kind != TD_SIGNAL_DERIVED;
    bool named = kind == TD_SIGNAL_PARAMETER && record->info && *record->info->parameter;
    snprintf(prefix, PREFIX_SIZE, "%s",
             kind == TD_SIGNAL_PREDICTION ? record->info && record->info->values ? "value" : "class"
             : by_kind                    ? td_signal_kind_name(kind)
             : named                      ? record->info->parameter
                                          : last);
}

/* Allocates a header with that many columns besides epoch and step, each of them with room for more bytes than its
 * prefix and number take; NULL when memory is exhausted. */
static char *header_room(int64_t columns, size_t more, td_error *error) {
    char *header =
        td__calloc((size_t)columns + 3, TD__CSV_CELL(PREFIX_SIZE + TD__NUMBER_TEXT) + more);
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

/* PREFIX_0,…, or class_NAME,… where the columns score classes that have names. */
static char *value_cells(char *out, const td_record *record, const td__csv_table *wanted) {
    char prefix[PREFIX_SIZE];
    make_prefix(prefix, record);
    if (!wanted->scores || !td__column_class(record->info, 0, wanted->columns)) {
        return header_cells(out, prefix, wanted->columns, false);
    }
    for (int64_t i = 0; i < wanted->columns; i++) {
        out += td__class_column(out, td__column_class(record->info, i, wanted->columns));
        *out++ = ',';
    }
    return out;
}

/* epoch,step,sample[,label…],PREFIX_0,…[,predicted] */
static td_status add_rows_table(td_sink *sink, const td_record *record, td__csv_table **signal,
                                const td__csv_table *wanted, td__csv_table **found,
                                td_error *error) {
    int64_t labels = wanted->labels > 0 ? wanted->labels : 0;
    size_t names = wanted->scores ? TD__CLASS_COLUMN(td__class_room(record->info)) : 0;
    char *header = header_room(labels + wanted->columns, names, error);
    if (!header) {
        return TD_MEMORY;
    }
    char *end = stpcpy(header, "epoch,step,sample,");
    end = header_cells(end, "label", labels, true);
    end = value_cells(end, record, wanted);
    end = header_cells(end, "predicted", wanted->scores, true);
    end[-1] = '\n';
    td_status status = td__csv_table_add(&sink->tables, record, signal, wanted, header,
                                         (size_t)(end - header), found, error);
    td__free(header);
    return status;
}

/* The labels of a row: by name where classes have names, the class where it is given one-hot. */
static char *label_cells(char *out, const td__csv_table *t, const td_record *record, int64_t row) {
    const td_view *labels = record->labels;
    int64_t each = t->labels > 0 ? td__elements_from(&labels->shape, 1) : 0;
    if (t->scores && each == 1) {
        return td__class_cell(out, record->info, td__element(labels, row));
    }
    if (t->scores && each == record->info->classes) {
        return td__class_cell(out, record->info,
                              (double)td__predicted(record->info, labels, row, each));
    }
    return each > 0 ? td__csv_cells[labels->dtype](out, labels->data, row * each, each) : out;
}

static td_status write_rows(td_sink *sink, const td_record *record, td_error *error) {
    const td_view *view = record->view, *labels = record->labels;
    bool predictions = td__record_kind(record) == TD_SIGNAL_PREDICTION;
    int64_t rows = view->shape.rank > 0 ? view->shape.dims[0] : 1;
    td__csv_table wanted = {
        .form = TD_ROWS, .columns = td__elements_from(&view->shape, 1), .labels = -1};
    if (predictions) {
        wanted.labels = labels ? td__elements_from(&labels->shape, 1) : 0;
        wanted.scores = td__are_scores(record->info, wanted.columns);
        bool one_hot = wanted.scores && wanted.labels == record->info->classes;
        wanted.labels = one_hot ? 1 : wanted.labels;
    }
    td__csv_table **signal = td__csv_tables_of(&sink->tables, record, error);
    if (!signal) {
        return TD_MEMORY;
    }
    td_status status = TD_OK;
    td__csv_table *found = td__csv_table_find(*signal, &wanted);
    if (!found && (status = add_rows_table(sink, record, signal, &wanted, &found, error))) {
        return status;
    }
    td__append *file = found->file;
    if (found->scores && !found->name_room) {
        found->name_room = td__class_room(record->info);
    }
    int64_t label_count = wanted.labels > 0 ? wanted.labels : 0;
    size_t size =
        TD__WHEN + TD__CELL * (size_t)(1 + label_count + wanted.columns) + 2 * found->name_room;
    td__append_begin(file);
    for (int64_t i = 0; i < rows && !status; i++) {
        char *start = td__row_room(file, size, error);
        if (!start) {
            td__append_cancel(file);
            return TD_MEMORY;
        }
        char *end =
            td__cell_int(td__cells_when(start, record), record->samples ? record->samples[i] : i);
        end = label_cells(end, found, record, i);
        end = td__csv_cells[view->dtype](end, view->data, i * wanted.columns, wanted.columns);
        if (found->scores) {
            int64_t class = td__predicted(record->info, view, i, wanted.columns);
            end = td__class_cell(end, record->info, (double)class);
        }
        td__row_done(file, start, end);
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
static td_status add_batch_table(td_sink *sink, const td_record *record, td__csv_table **signal,
                                 int64_t count, td__csv_table **found, td_error *error) {
    int64_t earlier = earlier_columns(sink, record);
    td__csv_table wanted = {
        .form = TD_BATCH, .columns = earlier > count ? earlier : count, .labels = -1};
    char prefix[PREFIX_SIZE];
    make_prefix(prefix, record);
    char *header = header_room(wanted.columns, 0, error);
    if (!header) {
        return TD_MEMORY;
    }
    char *end = header_cells(stpcpy(header, "epoch,step,"), prefix, wanted.columns, false);
    end[-1] = '\n';
    td_status status = td__csv_table_add(&sink->tables, record, signal, &wanted, header,
                                         (size_t)(end - header), found, error);
    td__free(header);
    return status;
}

/* The last, short batch leaves cells empty. */
static td_status write_batch(td_sink *sink, const td_record *record, td_error *error) {
    const td_view *view = record->view;
    int64_t count = td__elements_from(&view->shape, 0);
    td__csv_table **signal = td__csv_tables_of(&sink->tables, record, error);
    if (!signal) {
        return TD_MEMORY;
    }
    td__csv_table *found = *signal;
    while (found && (found->form != TD_BATCH || found->columns < count)) {
        found = found->next;
    }
    td_status status = found ? TD_OK : add_batch_table(sink, record, signal, count, &found, error);
    if (status) {
        return status;
    }
    int64_t missing = found->columns - count;
    td__append_begin(found->file);
    char *start =
        td__row_room(found->file, TD__WHEN + TD__CELL * (size_t)count + (size_t)missing + 1, error);
    if (!start) {
        return TD_MEMORY;
    }
    char *end = td__csv_cells[view->dtype](td__cells_when(start, record), view->data, 0, count);
    memset(end, ',', (size_t)missing);
    td__row_done(found->file, start, end + missing);
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
        out = td__cell_int(out, d < shape->rank ? index[d] : 0);
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
        char *start = td__row_room(file, TD__WHEN + TD__CELL * (2 + TD_MAX_RANK) + 2, error);
        if (!start) {
            td__append_cancel(file);
            return TD_MEMORY;
        }
        char *end = td__cells_when(start, record);
        if (examples) {
            end = td__cell_int(end, record->samples[i / each]);
        } else {
            *end++ = ',';
        }
        end = cell_index(end, &view->shape, examples, i % each);
        end = td__csv_cells[view->dtype](end, view->data, i, 1);
        td__row_done(file, start, end);
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
    *start = td__row_room(file, TD__WHEN + TD__CSV_CELL(length) + 1 + size, error);
    if (!*start) {
        return NULL;
    }
    char *end = td__cells_when(*start, record);
    end += td__csv_cell(end, text, length);
    *end++ = ',';
    return end;
}

static td_status append_stats(td__append *file, const td_record *record, int64_t records,
                              td_error *error) {
    const td_stats *stats = record->stats;
    char *start, *end;
    end = begin_named(file, record, record->signal, strlen(record->signal), 9 * TD__CELL, &start,
                      error);
    if (!end) {
        return TD_MEMORY;
    }
    end = td__cell_int(end, stats->count);
    const double values[] = {stats->mean, stats->std, stats->min, stats->max, stats->norm};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        end = td__cell_value(end, values[i]);
    }
    end = td__cell_int(td__cell_int(td__cell_int(end, stats->zeros), stats->nan), stats->inf);
    td__row_done(file, start, end);
    return td__append_end(file, records, error);
}

/* A signal's own file of statistics beside stats.csv: of those that tracks name, and of the first few
 * hundred others; a network of thousands of layers would fill its folder. NULL when it has none. */
static td_status own_stats(td_sink *sink, const td_record *record, td__append **own,
                           td_error *error) {
    enum { MAX_OWN = 300 };
    td__csv_table **signal = td__csv_tables_of(&sink->tables, record, error);
    if (!signal) {
        return TD_MEMORY;
    }
    td__csv_table wanted = {.form = TD_STATS, .labels = -1};
    const td__csv_table *found = td__csv_table_find(*signal, &wanted);
    if (found) {
        *own = found->file;
        return TD_OK;
    }
    if (sink->own_stats < MAX_OWN || td__csv_is_claimed(&sink->tables, record->signal)) {
        sink->own_stats++;
        return fixed_table(sink, record, STATS_HEADER, own, error);
    }
    td__csv_table *none = td__calloc(1, sizeof *none);
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
        char *start = td__row_room(file, TD__WHEN + 3 * TD__CELL, error);
        if (!start) {
            td__append_cancel(file);
            return TD_MEMORY;
        }
        if (bin.left != right || bin.left == 0) { /* zeros have signs */
            length = format_edge(edge, histogram, bin.left);
        }
        char *end = td__cells_when(start, record);
        memcpy(end, edge, length);
        end += length;
        *end++ = ',';
        right = bin.right;
        length = format_edge(edge, histogram, right);
        memcpy(end, edge, length);
        end += length;
        *end++ = ',';
        td__row_done(file, start, td__cell_value(end, bin.count));
    }
    return td__append_end(file, 1, error);
}

static td_status write_units(td_sink *sink, const td_record *record, td_error *error) {
    td__append *file;
    td_status status = fixed_table(
        sink, record, "epoch,step,unit,active,saturated,mean,std,min,max\n", &file, error);
    if (status) {
        return status;
    }
    td__bounds bounds = td__unit_bounds(record->view);
    int64_t units = td__elements_from(&record->view->shape, 0) ? td__unit_count(record->view) : 0;
    td__append_begin(file);
    for (int64_t i = 0; i < units; i++) {
        char *start = td__row_room(file, TD__WHEN + 7 * TD__CELL, error);
        if (!start) {
            td__append_cancel(file);
            return TD_MEMORY;
        }
        td__unit u = td__unit_of(record->view, i, &bounds);
        const double values[] = {u.active, u.saturated, u.mean, u.std, u.min, u.max};
        char *end = td__cell_int(td__cells_when(start, record), i);
        for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
            end = td__cell_value(end, values[k]);
        }
        td__row_done(file, start, end);
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
    td__row_done(sink->hashes, start, end);
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
    td__row_done(sink->texts, start, end);
    return td__append_end(sink->texts, 1, error);
}

static td_status write_scalar(td_sink *sink, const td_record *record, td_error *error) {
    return td__metrics_put(&sink->metrics, record->signal, record->signal_index, record->epoch,
                           record->step, record->value, error);
}

/* --- the sink --------------------------------------------------------------------------------- */

static td_status csv_write(td_sink *sink, const td_record *record, td_error *error) {
    static const struct {
        td_form form;
        td_status (*write)(td_sink *sink, const td_record *record, td_error *error);
    } writers[] = {
        {TD_SCALAR, write_scalar}, {TD_ROWS, write_rows},   {TD_BATCH, write_batch},
        {TD_LONG, write_long},     {TD_STATS, write_stats}, {TD_HISTOGRAM, write_histogram},
        {TD_UNITS, write_units},   {TD_HASH, write_hash},   {TD_TEXT, write_text}};
    for (size_t i = 0; i < sizeof writers / sizeof *writers; i++) {
        if (writers[i].form == record->form) {
            return writers[i].write(sink, record, error);
        }
    }
    return td_error_set(error, TD_UNSUPPORTED, "csv: cannot write the form %s",
                        td_form_name(record->form));
}

static td_status csv_close(td_sink *sink, td_error *error) {
    td_status status = td__metrics_end_row(&sink->metrics, error);
    td_status closed = td__append_set_close(&sink->set, status ? NULL : error);
    td__metrics_release(&sink->metrics);
    td__csv_tables_release(&sink->tables);
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
    opened->metrics.set = opened->tables.set = &opened->set;
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

static td_status csv_expect(td_sink *sink, const char *signal, uint32_t forms, td_error *error) {
    td_status status = td__csv_claim(&sink->tables, signal, forms, error);
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
    case TD_UNITS:
        return (rows > 0 ? elements / rows : elements) * STATS_LINE;
    default:
        return HEAD;
    }
}

const td_sink_class td__sink_csv = {
    .size = sizeof(td_sink_class),
    .name = "csv",
    .forms = TD_ROWS | TD_BATCH | TD_LONG | TD_UNITS | TD_STATS | TD_HISTOGRAM | TD_SCALAR |
             TD_HASH | TD_TEXT,
    .default_forms = TD_ROWS,
    .by_default = true,
    .open = csv_open,
    .expect = csv_expect,
    .write = csv_write,
    .end_step = csv_end_step,
    .flush = csv_flush,
    .close = csv_close,
    .files = "metrics.csv, SIGNAL.csv, stats.csv",
    .estimate = csv_estimate,
};
