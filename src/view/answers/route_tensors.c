/* /api/histograms, /api/tensor, /api/units, /api/image, /api/sound, /api/texts, /api/examples, /api/batch: what
 * was inside of a tensor. */
#include "answers/answer.h"
#include "base/little.h"
#include "base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_HISTOGRAMS = 512, MAX_SIDE = 1024, MAX_GALLERY = 64, MAX_GALLERY_SIDE = 256 };
enum { MAX_UNITS = 1024, MAX_RECORDS = 128, MAX_LISTED = 64 };
enum { MAX_BINS = 4096, MAX_EXAMPLES = 4096, MAX_VALUES = 256, MAX_TEXTS = 64 };
static const int64_t max_read = (int64_t)256 << 20; /* bytes of tensors for one answer */

/* Calls each with the records at up to `max` steps, evenly from first to last. */
static void sample_records(td__call *call, const td_run_signal *signal, td_form form, int64_t max,
                           int64_t *previous, td_record_function *each, void *user) {
    int64_t first =
        td__call_number(call, "from", signal->first_step, signal->last_step, signal->first_step);
    int64_t last = td__call_number(call, "to", first, signal->last_step, signal->last_step);
    double span = (double)last - (double)first;
    for (int64_t i = 0; i < max; i++) {
        double at = (double)first + (max > 1 ? span * (double)i / (double)(max - 1) : span);
        td_error error = {0};
        td_status status = td_run_at(call->run->run, signal, form, i + 1 < max ? (int64_t)at : last,
                                     each, user, &error);
        if (status == TD_RANGE) {
            break;
        }
        if (*previous >= last) {
            break;
        }
    }
}

/* ---- Histograms ----------------------------------------------------------------------------- */

static const double shares[] = {0, 0.05, 0.25, 0.5, 0.75, 0.95, 1};
enum { SHARES = sizeof shares / sizeof *shares };

typedef struct histograms {
    td_run *run;
    const td_run_signal *signal;
    td__output *head, *out;
    int64_t previous; /* step */
    size_t count;
    bool bins;
} histograms;

typedef struct limits {
    int64_t step;
    double min, max; /* NaN: not known */
} limits;

static td_status read_limits(void *user, const td_record *record, td_error *error) {
    (void)error;
    limits *l = user;
    if (record->step == l->step) {
        l->min = record->stats->min;
        l->max = record->stats->max;
    }
    return TD_OK;
}

/* A quantile within the exact minimum and maximum: a bin's edges lie beyond them. */
static double exact_quantile(const td_histogram *histogram, double share, const limits *l) {
    double quantile = td_histogram_quantile(histogram, share);
    if (isnan(l->min) || isnan(l->max)) {
        return quantile;
    }
    return share <= 0 ? l->min : share >= 1 ? l->max : fmin(fmax(quantile, l->min), l->max);
}

static td_status put_histogram(void *user, const td_record *record, td_error *error) {
    (void)error;
    histograms *to = user;
    const td_histogram *h = record->histogram;
    if (record->step <= to->previous && to->count) {
        return TD_OK;
    }
    to->previous = record->step;
    int32_t bins = h->bin_count < MAX_BINS ? h->bin_count : MAX_BINS;
    td__put_format(to->head, "%s[%lld,%d]", to->count++ ? "," : "", (long long)record->step,
                   to->bins ? bins : 0);
    limits l = {record->step, NAN, NAN};
    if (to->signal->forms & TD_STATS) {
        td_error ignored = {0};
        if (td_run_at(to->run, to->signal, TD_STATS, record->step, read_limits, &l, &ignored)) {
            l.min = NAN;
        }
    }
    for (int i = 0; i < SHARES; i++) {
        td__put_double(to->out, exact_quantile(h, shares[i], &l));
    }
    for (int32_t i = 0; to->bins && i < bins; i++) {
        td_range r = td_histogram_range(h, i);
        td__put_double(to->out, r.left);
        td__put_double(to->out, r.right);
        td__put_double(to->out, r.count);
    }
    return TD_OK;
}

static void put_histograms(td__call *call, const td_run_signal *signal, td__output *head,
                           td__output *out) {
    histograms to = {
        .run = call->run->run, .signal = signal, .head = head, .out = out, .previous = INT64_MIN};
    to.bins = td__call_number(call, "bins", 0, 1, 0) == 1;
    int64_t max = td__call_number(call, "most", 1, MAX_HISTOGRAMS, 64);
    if (signal && signal->forms & TD_HISTOGRAM) {
        sample_records(call, signal, TD_HISTOGRAM, max, &to.previous, put_histogram, &to);
    }
}

/* signal=1, or signals=1,2,3 with a list of records for each. For each step: seven quantiles and, with
 * bins=1, left, right and count of each bin. */
td_status td__route_histograms(td__call *call, td_error *error) {
    td__output head = {0}, out = {0};
    const char *list = td__call_text(call, "signals");
    if (*list) {
        td__put_text(&head, "{\"signals\":[");
        for (int64_t id, count = 0; count < MAX_LISTED && td__call_next_id(&list, &id); count++) {
            td__put_text(&head, count ? ",[" : "[");
            put_histograms(call, td__cached_run_signal(call->run, id), &head, &out);
            td__put_text(&head, "]");
        }
    } else {
        const td_run_signal *signal = td__call_signal(call, error);
        if (!signal) {
            return error->status;
        }
        td__put_text(&head, "{\"records\":[");
        put_histograms(call, signal, &head, &out);
    }
    td__put_text(&head, "]}");
    td__call_binary(call, &head);
    td__put(call->out, out.data, out.size);
    call->out->failed |= out.failed;
    td__output_release(&out);
    return TD_OK;
}

/* ---- Tensors -------------------------------------------------------------------------------- */

static void put_dims(td__output *out, const td_shape *shape) {
    td__put_text(out, "\"shape\":[");
    for (int32_t i = 0; i < shape->rank; i++) {
        td__put_format(out, "%s%lld", i ? "," : "", (long long)shape->dims[i]);
    }
    td__put_text(out, "]");
}

/* at=sheet, or at=3,:,:,0: an index for each axis, ':' for the two that are shown, '*' for one whose slices are shown
 * beside each other. Axes that are not given are shown from the last one on, the others at 0. */
typedef struct slice {
    int rows, columns, gallery; /* axes; -1: none */
    int64_t at[TD_MAX_RANK];
} slice;

/* The pictures of a tensor beside each other: the channels of a kernel or of the first example. Which axes are height
 * and width is seen from their sizes: they are the same size in most networks, and the last two in PyTorch. */
static slice make_sheet(const td_shape *shape, td_signal_kind kind) {
    const int64_t *dims = shape->dims;
    bool kernel =
        kind == TD_SIGNAL_PARAMETER || kind == TD_SIGNAL_GRADIENT || kind == TD_SIGNAL_UPDATE;
    if (shape->rank == 3) {
        return (slice){1, 2, 0, {0}};
    }
    if (kernel) { /* [h, w, in, out] or [out, in, h, w] */
        bool last = dims[2] == dims[3] && dims[0] != dims[1];
        return last ? (slice){2, 3, dims[1] > dims[0] ? 1 : 0, {0}} : (slice){0, 1, 3, {0}};
    }
    bool last = dims[2] == dims[3] && dims[1] != dims[2]; /* [n, c, h, w] */
    return last ? (slice){2, 3, 1, {0}} : (slice){1, 2, 3, {0}};
}

static slice parse_slice(const char *text, const td_shape *shape, td_signal_kind kind) {
    slice s = {-1, -1, -1, {0}};
    if (strcmp(text, "sheet") == 0) {
        if (shape->rank == 3 || shape->rank == 4) {
            return make_sheet(shape, kind);
        }
        text = "";
    }
    for (int axis = 0; axis < shape->rank && *text; axis++) {
        char *end;
        int64_t index = strtoll(text, &end, 10);
        if (*text == ':' && (s.rows < 0 || s.columns < 0)) {
            *(s.rows < 0 ? &s.rows : &s.columns) = axis;
            end = (char *)(uintptr_t)(text + 1);
        } else if (*text == '*' && s.gallery < 0) {
            s.gallery = axis;
            end = (char *)(uintptr_t)(text + 1);
        } else if (end > text && index >= 0 && index < shape->dims[axis]) {
            s.at[axis] = index;
        }
        text = *end == ',' ? end + 1 : "";
    }
    if (s.rows < 0) {
        s.columns = shape->rank - 1;
        s.rows = shape->rank >= 2 ? shape->rank - 2 : -1;
        s.gallery = -1;
    }
    return s;
}

typedef struct tensor {
    td__call *call;
    const char *at;
    td_signal_kind kind;
} tensor;

static void put_samples(td__output *out, const td_record *record) {
    td__put_text(out, ",\"samples\":[");
    int64_t count = record->samples ? record->view->shape.dims[0] : 0;
    for (int64_t i = 0; i < count && i < MAX_EXAMPLES; i++) {
        td__put_format(out, "%s%lld", i ? "," : "", (long long)record->samples[i]);
    }
    td__put_text(out, "]");
}

/* How far a part of a tensor reaches along an axis. */
typedef struct extent {
    int64_t shown, stride;
} extent;

static extent extent_of(const td_view *view, const int64_t *strides, int axis, int64_t max) {
    if (axis < 0) {
        return (extent){1, 0};
    }
    int64_t size = view->shape.dims[axis];
    return (extent){size < max ? size : max, strides[axis]};
}

static void put_tensor_head(td__output *head, const td_record *record, const slice *s,
                            const td_stats *stats, extent slices, extent rows, extent columns) {
    const td_view *view = record->view;
    td__put_format(head,
                   "{\"step\":%lld,\"dtype\":\"%s\",\"slices\":%lld,\"rows\":%lld,"
                   "\"columns\":%lld,\"rowAxis\":%d,\"columnAxis\":%d,",
                   (long long)record->step, td_dtype_name(view->dtype), (long long)slices.shown,
                   (long long)rows.shown, (long long)columns.shown, s->rows, s->columns);
    put_dims(head, &view->shape);
    td__put_text(head, ",\"at\":[");
    for (int axis = 0; axis < view->shape.rank; axis++) {
        bool shown = axis == s->rows || axis == s->columns;
        td__put_text(head, axis ? "," : "");
        if (shown || axis == s->gallery) {
            td__put_text(head, shown ? "\":\"" : "\"*\"");
        } else {
            td__put_format(head, "\"%lld\"", (long long)s->at[axis]);
        }
    }
    td__put_text(head, "]");
    td__put_format(head,
                   ",\"nan\":%lld,\"inf\":%lld,\"zeros\":%lld,\"min\":", (long long)stats->nan,
                   (long long)stats->inf, (long long)stats->zeros);
    td__put_number(head, stats->min);
    td__put_text(head, ",\"max\":");
    td__put_number(head, stats->max);
    td__put_text(head, ",\"norm\":");
    td__put_number(head, stats->norm);
    put_samples(head, record);
    td__put_text(head, "}");
}

static td_status put_tensor(void *user, const td_record *record, td_error *error) {
    const tensor *t = user;
    const td_view *view = record->view;
    int64_t strides[TD_MAX_RANK], total = 1, base = 0;
    for (int axis = view->shape.rank - 1; axis >= 0; axis--) {
        strides[axis] = total;
        total *= view->shape.dims[axis];
    }
    if (total == 0) {
        return td_error_set(error, TD_NOT_FOUND, "the tensor is empty");
    }
    slice s = parse_slice(t->at, &view->shape, t->kind);
    for (int axis = 0; axis < view->shape.rank; axis++) {
        base += s.at[axis] * strides[axis]; /* 0 for the axes that are shown */
    }
    td_stats stats;
    td_status status = td_stats_of(view, &stats, error);
    if (status) {
        return status;
    }
    int64_t side = s.gallery >= 0 ? MAX_GALLERY_SIDE : MAX_SIDE;
    extent slices = extent_of(view, strides, s.gallery, MAX_GALLERY);
    extent rows = extent_of(view, strides, s.rows, side);
    extent columns = extent_of(view, strides, s.columns, side);
    td__output head = {0};
    put_tensor_head(&head, record, &s, &stats, slices, rows, columns);
    td__call_binary(t->call, &head);
    for (int64_t i = 0; i < slices.shown; i++) {
        for (int64_t r = 0; r < rows.shown; r++) {
            int64_t at = base + i * slices.stride + r * rows.stride;
            for (int64_t c = 0; c < columns.shown; c++) {
                td__put_double(t->call->out, td_view_element(view, at + c * columns.stride));
            }
        }
    }
    return TD_OK;
}

td_status td__route_tensor(td__call *call, td_error *error) {
    const td_run_signal *signal = td__call_signal(call, error);
    if (!signal) {
        return error->status;
    }
    tensor t = {call, td__call_text(call, "at"), signal->info->kind};
    return td__call_latest(call, signal, TD_TENSOR, put_tensor, &t, error);
}

/* ---- Units x time --------------------------------------------------------------------------- */

typedef struct units {
    td__output *head, *out;
    int64_t previous, read;
    int64_t width; /* of all records; others are left out */
    size_t count;
} units;

/* Of each unit (the last axis): the mean of its magnitude, and its share of zeros. */
static td_status put_units(void *user, const td_record *record, td_error *error) {
    units *to = user;
    const td_view *view = record->view;
    if (record->step <= to->previous && to->count) {
        return TD_OK;
    }
    to->previous = record->step;
    int64_t total = 1;
    for (int axis = 0; axis < view->shape.rank; axis++) {
        total *= view->shape.dims[axis];
    }
    int64_t width = view->shape.rank ? view->shape.dims[view->shape.rank - 1] : 1;
    to->width = to->count ? to->width : width;
    if (total == 0 || width != to->width) {
        return TD_OK;
    }
    int64_t shown = width < MAX_UNITS ? width : MAX_UNITS, each = total / width;
    td__put_format(to->head, "%s%lld", to->count++ ? "," : "", (long long)record->step);
    for (int64_t u = 0; u < shown; u++) {
        double magnitude = 0, zeros = 0;
        for (int64_t i = 0; i < each; i++) {
            double value = td_view_element(view, i * width + u);
            magnitude += fabs(value);
            zeros += value == 0;
        }
        td__put_double(to->out, magnitude / (double)each);
        td__put_double(to->out, zeros / (double)each);
    }
    to->read += total * (int64_t)td_dtype_size(view->dtype);
    return to->read > max_read ? td_error_set(error, TD_RANGE, "enough") : TD_OK;
}

td_status td__route_units(td__call *call, td_error *error) {
    const td_run_signal *signal = td__call_signal(call, error);
    if (!signal) {
        return error->status;
    }
    td__output head = {0}, out = {0};
    units to = {.head = &head, .out = &out, .previous = INT64_MIN};
    td__put_text(&head, "{\"steps\":[");
    if (signal->forms & TD_TENSOR) {
        sample_records(call, signal, TD_TENSOR, MAX_RECORDS, &to.previous, put_units, &to);
    }
    td__put_format(&head, "],\"units\":%lld,\"shown\":%lld}", (long long)to.width,
                   (long long)(to.width < MAX_UNITS ? to.width : MAX_UNITS));
    td__call_binary(call, &head);
    td__put(call->out, out.data, out.size);
    call->out->failed |= out.failed;
    td__output_release(&out);
    return TD_OK;
}

/* ---- Pictures and texts --------------------------------------------------------------------- */

static td_status put_png(void *user, const td_record *record, td_error *error) {
    td__call *call = user;
    if (!record->png) {
        return td_error_set(error, TD_NOT_FOUND, "the picture is in no file");
    }
    td__put(call->out, record->png, record->png_size);
    call->type = "image/png";
    return TD_OK;
}

td_status td__route_image(td__call *call, td_error *error) {
    const td_run_signal *signal = td__call_signal(call, error);
    return signal ? td__call_latest(call, signal, TD_IMAGE, put_png, call, error) : error->status;
}

static void put_little(td__output *out, uint32_t value, size_t size) {
    uint8_t bytes[4];
    td__store32(bytes, value);
    td__put(out, bytes, size);
}

/* A tensor of int16, frames x channels, as a WAV file of parameter "rate" frames a second. */
static td_status put_wav(void *user, const td_record *record, td_error *error) {
    enum { HEAD = 36, FORMAT = 16, PCM = 1, BITS = 16, MAX_BYTES = 1 << 28 };
    td__call *call = user;
    const td_view *view = record->view;
    int64_t size = 2;
    for (int32_t i = 0; view && i < view->shape.rank; i++) {
        size *= view->shape.dims[i];
    }
    if (!view || view->dtype != TD_INT16 || view->shape.rank != 2 || size > MAX_BYTES) {
        return td_error_set(error, TD_INVALID, "this is no sound");
    }
    uint32_t channels = (uint32_t)view->shape.dims[1],
             rate = (uint32_t)td__call_number(call, "rate", 1, 1000000, 44100);
    td__put_text(call->out, "RIFF");
    put_little(call->out, HEAD + (uint32_t)size, 4);
    td__put_text(call->out, "WAVEfmt ");
    put_little(call->out, FORMAT, 4);
    put_little(call->out, PCM, 2);
    put_little(call->out, channels, 2);
    put_little(call->out, rate, 4);
    put_little(call->out, rate * channels * 2, 4);
    put_little(call->out, channels * 2, 2);
    put_little(call->out, BITS, 2);
    td__put_text(call->out, "data");
    put_little(call->out, (uint32_t)size, 4);
    for (int64_t i = 0; i < size / 2; i++) {
        put_little(call->out, (uint32_t)(int32_t)td_view_element(view, i), 2);
    }
    call->type = "audio/wav";
    return TD_OK;
}

td_status td__route_sound(td__call *call, td_error *error) {
    const td_run_signal *signal = td__call_signal(call, error);
    return signal ? td__call_latest(call, signal, TD_TENSOR, put_wav, call, error) : error->status;
}

typedef struct texts {
    td__output *out;
    int64_t step; /* of the last one */
    int64_t count;
} texts;

static td_status put_text(void *user, const td_record *record, td_error *error) {
    (void)error;
    texts *t = user;
    t->step = record->step;
    td__put_format(t->out, "%s{\"step\":%lld,\"text\":", t->count++ ? "," : "",
                   (long long)record->step);
    td__put_json(t->out, record->text);
    td__put_text(t->out, "}");
    return TD_OK;
}

/* The last texts at or before a step, at most `most`, the latest first. */
td_status td__route_texts(td__call *call, td_error *error) {
    const td_run_signal *signal = td__call_signal(call, error);
    if (!signal) {
        return error->status;
    }
    texts t = {.out = call->out};
    int64_t max_count = td__call_number(call, "most", 1, MAX_TEXTS, 1);
    int64_t step = td__call_number(call, "step", INT64_MIN, INT64_MAX, INT64_MAX);
    td__put_text(call->out, "{\"texts\":[");
    td_status status = TD_OK;
    while (!status && t.count < max_count && step >= signal->first_step) {
        status = td_run_at(call->run->run, signal, TD_TEXT, step, put_text, &t, error);
        step = t.step - 1;
    }
    td__put_text(call->out, "]}");
    return status == TD_NOT_FOUND && t.count ? TD_OK : status;
}

/* ---- Examples ------------------------------------------------------------------------------- */

typedef struct examples {
    td__output *out;
    size_t count;
    int64_t step;
} examples;

static td_status put_example(void *user, const td_example *example, td_error *error) {
    examples *e = user;
    if (e->count == MAX_EXAMPLES) {
        return td_error_set(error, TD_RANGE, "enough");
    }
    e->step = example->step;
    td__put_format(e->out, "%s{\"sample\":%lld,\"label\":", e->count++ ? "," : "",
                   (long long)example->sample);
    td__put_number(e->out, example->label);
    td__put_text(e->out, ",\"values\":[");
    for (size_t i = 0; i < example->count && i < MAX_VALUES; i++) {
        td__put_text(e->out, i ? "," : "");
        td__put_number(e->out, example->values[i]);
    }
    td__put_text(e->out, "]}");
    return TD_OK;
}

td_status td__route_examples(td__call *call, td_error *error) {
    const td_run_signal *signal = td__call_signal(call, error);
    if (!signal) {
        return error->status;
    }
    int64_t step = td__call_number(call, "step", INT64_MIN, INT64_MAX, INT64_MAX);
    examples e = {.out = call->out};
    td__put_text(call->out, "{\"examples\":[");
    td_status status = td_run_examples(call->run->run, signal, step, put_example, &e, error);
    td__put_format(call->out, "],\"step\":%lld,\"all\":%s}", (long long)e.step,
                   status == TD_RANGE ? "false" : "true");
    return status == TD_RANGE ? TD_OK : status;
}

typedef struct batch {
    td__output *out;
    int64_t step;
    bool found;
} batch;

static td_status put_batch(void *user, const td_record *record, td_error *error) {
    (void)error;
    batch *b = user;
    if (record->samples && !b->found) {
        b->found = true;
        b->step = record->step;
        put_samples(b->out, record);
    }
    return TD_OK;
}

/* The rows of the data set that a step used, from a tensor that was recorded at or before that
 * step. */
td_status td__route_batch(td__call *call, td_error *error) {
    int64_t step = td__call_number(call, "step", INT64_MIN, INT64_MAX, INT64_MAX);
    size_t count = td_run_signal_count(call->run->run);
    batch b = {.out = call->out};
    td__put_text(call->out, "{\"about\":\"batch\"");
    for (size_t i = 0; i < count && !b.found; i++) {
        const td_run_signal *signal = td_run_signal_at(call->run->run, i);
        if (signal->forms & TD_TENSOR && signal->first_step <= step) {
            td_status status =
                td_run_at(call->run->run, signal, TD_TENSOR, step, put_batch, &b, error);
            if (!status && b.found) {
                td__put_text(call->out, ",\"signal\":");
                td__put_json(call->out, signal->name);
            }
        }
    }
    td__put_format(call->out, ",\"step\":%lld}", (long long)b.step);
    return TD_OK;
}
