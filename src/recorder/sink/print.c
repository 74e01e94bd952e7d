/* What people read while training runs: a line of metrics for each step, tables of statistics and
 * predictions, tensors as numpy prints them. Nothing here is intended to be parsed. */
#include "base/memory.h"
#include "base/number.h"
#include "deck/reach.h"
#include "sink/classes.h"
#include "sink/score.h"
#include "sink/text.h"
#include "tensor/element.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { DIGITS = 6, WIDTH = 11, ROWS = 20, COLUMNS = 10, BARS = 40 };

struct td_sink {
    FILE *stream;
    int32_t *widths; /* by signal index: the widest value printed so far */
    size_t signal_count;
    bool line;         /* a line of metrics has been begun */
    int64_t step;      /* of that line */
    bool stats_header; /* the last thing printed was a row of statistics */
};

/* --- pieces ----------------------------------------------------------------------------------- */

static void print_name(FILE *stream, const char *name) {
    td__print_visible(stream, name, strlen(name));
}

static int format_number(char out[TD__NUMBER_ROOM + 1], double value) {
    size_t length = td__format_rounded(out, value, DIGITS);
    out[length] = 0;
    return (int)length;
}

static void print_number(FILE *stream, double value) {
    char text[TD__NUMBER_ROOM + 1];
    format_number(text, value);
    fprintf(stream, " %*s", WIDTH, text);
}

/* By its name where it is a class that has one. */
static void print_label(FILE *stream, const td_record *record, int64_t row) {
    double label = td__element(record->labels, row);
    const char *name = record->info ? td__class_name(record->info, label) : NULL;
    if (name) {
        fputc(' ', stream);
        for (size_t length = strlen(name); length < WIDTH; length++) {
            fputc(' ', stream);
        }
        print_name(stream, name);
    } else {
        print_number(stream, label);
    }
}

static void end_line(td_sink *sink) {
    if (sink->line) {
        fputc('\n', sink->stream);
        sink->line = false;
    }
}

static void print_when(td_sink *sink, const td_record *record) {
    end_line(sink);
    sink->stats_header = false;
    fprintf(sink->stream, "epoch %lld step %lld ", (long long)record->epoch,
            (long long)record->step);
}

/* --- forms ------------------------------------------------------------------------------------ */

/* Values keep their columns from line to line. */
static td_status print_scalar(td_sink *sink, const td_record *record, td_error *error) {
    if (!td__signals_reach(&sink->widths, &sink->signal_count, record->signal_index,
                           sizeof *sink->widths)) {
        return td_error_set(error, TD_MEMORY, "print: out of memory");
    }
    sink->stats_header = false;
    if (!sink->line || sink->step != record->step) {
        end_line(sink);
        fprintf(sink->stream, "epoch %3lld step %7lld", (long long)record->epoch,
                (long long)record->step);
        sink->line = true;
        sink->step = record->step;
    }
    char text[TD__NUMBER_ROOM + 1];
    int32_t length = format_number(text, record->value);
    int32_t *width = &sink->widths[record->signal_index];
    *width = length > *width ? length : *width;
    fputs("  ", sink->stream);
    print_name(sink->stream, record->signal);
    fprintf(sink->stream, " %-*s", *width, text);
    return TD_OK;
}

static td_status print_stats(td_sink *sink, const td_record *record, td_error *error) {
    (void)error;
    const td_stats *stats = record->stats;
    end_line(sink);
    if (!sink->stats_header) {
        fprintf(sink->stream, "%5s %7s %*s %*s %*s %*s %*s %*s %8s %6s %6s  signal\n", "epoch",
                "step", WIDTH, "count", WIDTH, "mean", WIDTH, "std", WIDTH, "min", WIDTH, "max",
                WIDTH, "norm", "zeros", "nan", "inf");
        sink->stats_header = true;
    }
    fprintf(sink->stream, "%5lld %7lld %*lld", (long long)record->epoch, (long long)record->step,
            WIDTH, (long long)stats->count);
    const double values[] = {stats->mean, stats->std, stats->min, stats->max, stats->norm};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        print_number(sink->stream, values[i]);
    }
    fprintf(sink->stream, " %8lld %6lld %6lld  ", (long long)stats->zeros, (long long)stats->nan,
            (long long)stats->inf);
    print_name(sink->stream, record->signal);
    fputc('\n', sink->stream);
    return TD_OK;
}

/* A bar for each share of the bins, from the least value to the greatest. */
static td_status print_histogram(td_sink *sink, const td_record *record, td_error *error) {
    (void)error;
    static const char *const blocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    const td_histogram *histogram = record->histogram;
    print_when(sink, record);
    print_name(sink->stream, record->signal);
    if (histogram->bin_count == 0) {
        fputs(": no finite values\n", sink->stream);
        return TD_OK;
    }
    int32_t last = histogram->bin_count - 1;
    int32_t first = histogram->ranges ? 0 : histogram->bins[0].index;
    int32_t span = (histogram->ranges ? last : histogram->bins[last].index) - first + 1;
    int32_t bars = span < BARS ? span : BARS;
    double counts[BARS] = {0}, max = 0;
    for (int32_t i = 0; i < histogram->bin_count; i++) {
        int32_t index = histogram->ranges ? i : histogram->bins[i].index - first;
        int32_t bar = (int32_t)((int64_t)index * bars / span);
        counts[bar] += td_histogram_range(histogram, i).count;
        max = counts[bar] > max ? counts[bar] : max;
    }
    char low[TD__NUMBER_ROOM + 1], high[TD__NUMBER_ROOM + 1];
    format_number(low, td_histogram_range(histogram, 0).left);
    format_number(high, td_histogram_range(histogram, last).right);
    fprintf(sink->stream, ": %s |", low);
    for (int32_t i = 0; i < bars; i++) {
        fputs(blocks[max > 0 ? (int)ceil(counts[i] * 8 / max) : 0], sink->stream);
    }
    fprintf(sink->stream, "| %s\n", high);
    return TD_OK;
}

static td_status print_tensor(td_sink *sink, const td_record *record, td_error *error) {
    const td_view *view = record->view;
    print_when(sink, record);
    fputc('\n', sink->stream);
    td_tensor *tensor = td_tensor_borrow(record->signal, view->dtype, view->shape,
                                         (void *)(uintptr_t)view->data, error);
    if (!tensor) {
        return TD_MEMORY;
    }
    td_status status = td_tensor_print(tensor, sink->stream);
    td_tensor_destroy(tensor);
    return status;
}

/* sample, label where there is one, values; the first rows and columns of a large tensor. */
static td_status print_rows(td_sink *sink, const td_record *record, td_error *error) {
    (void)error;
    const td_view *view = record->view, *labels = record->labels;
    int64_t rows = view->shape.rank > 0 ? view->shape.dims[0] : 1;
    int64_t columns = td__elements_from(&view->shape, 1);
    bool labelled = labels && td__elements_from(&labels->shape, 1) == 1;
    print_when(sink, record);
    print_name(sink->stream, record->signal);
    fprintf(sink->stream, "\n%8s%*s\n", "sample", labelled ? WIDTH + 1 : 0,
            labelled ? "label" : "");
    for (int64_t i = 0; i < rows && i < ROWS; i++) {
        fprintf(sink->stream, "%8lld", (long long)(record->samples ? record->samples[i] : i));
        if (labelled) {
            print_label(sink->stream, record, i);
        }
        for (int64_t k = 0; k < columns && k < COLUMNS; k++) {
            print_number(sink->stream, td__element(view, i * columns + k));
        }
        fputs(columns > COLUMNS ? " ...\n" : "\n", sink->stream);
    }
    if (rows > ROWS) {
        fprintf(sink->stream, "%8s (%lld rows)\n", "...", (long long)rows);
    }
    return TD_OK;
}

static td_status print_hash(td_sink *sink, const td_record *record, td_error *error) {
    (void)error;
    print_when(sink, record);
    print_name(sink->stream, record->signal);
    fprintf(sink->stream, ": %016llx\n", (unsigned long long)record->hash);
    return TD_OK;
}

static td_status print_text(td_sink *sink, const td_record *record, td_error *error) {
    (void)error;
    print_when(sink, record);
    print_name(sink->stream, record->signal);
    fputs(": ", sink->stream);
    print_name(sink->stream, record->text);
    fputc('\n', sink->stream);
    return TD_OK;
}

/* --- the sink --------------------------------------------------------------------------------- */

static td_status check_stream(td_sink *sink, td_error *error) {
    if (!ferror(sink->stream)) {
        return TD_OK;
    }
    clearerr(sink->stream);
    return td_error_set(error, TD_IO, "print: cannot write to the stream");
}

static td_status print_write(td_sink *sink, const td_record *record, td_error *error) {
    static const struct {
        td_form form;
        td_status (*print)(td_sink *, const td_record *, td_error *);
    } forms[] = {
        {TD_SCALAR, print_scalar}, {TD_STATS, print_stats}, {TD_HISTOGRAM, print_histogram},
        {TD_TENSOR, print_tensor}, {TD_ROWS, print_rows},   {TD_HASH, print_hash},
        {TD_TEXT, print_text}};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if (forms[i].form == record->form) {
            td_status status = forms[i].print(sink, record, error);
            return status ? status : check_stream(sink, error);
        }
    }
    return td_error_set(error, TD_UNSUPPORTED, "print: cannot print the form %s",
                        td_form_name(record->form));
}

static td_status print_end_step(td_sink *sink, int64_t epoch, int64_t step, td_error *error) {
    (void)epoch, (void)step;
    end_line(sink);
    fflush(sink->stream);
    return check_stream(sink, error);
}

static td_status print_flush(td_sink *sink, td_error *error) {
    return print_end_step(sink, 0, 0, error);
}

static td_status print_open(const td_sink_options *options, td_sink **sink, td_error *error) {
    td_sink *opened = td__calloc(1, sizeof *opened);
    if (!opened) {
        return td_error_set(error, TD_MEMORY, "print: out of memory");
    }
    opened->stream = options->stream ? options->stream : stdout;
    *sink = opened;
    return TD_OK;
}

static td_status print_close(td_sink *sink, td_error *error) {
    td_status status = print_flush(sink, error);
    td__free(sink->widths);
    td__free(sink);
    return status;
}

const td_sink_class td__sink_print = {
    .size = sizeof(td_sink_class),
    .name = "print",
    .forms = TD_SCALAR | TD_STATS | TD_HISTOGRAM | TD_TENSOR | TD_ROWS | TD_HASH | TD_TEXT,
    .default_forms = TD_TENSOR,
    .open = print_open,
    .write = print_write,
    .end_step = print_end_step,
    .flush = print_flush,
    .close = print_close,
};
