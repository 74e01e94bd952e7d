/* Geometry of windows; sums and means over them. */
#include "tape/pool.h"

#include "base/options.h"
#include "tape/conv.h"
#include "tape/parallel.h"

#include <string.h>

static bool is_image(td_tape *tape, const char *op, const td_tensor *x) {
    char text[TD_SHAPE_TEXT_SIZE];
    if (!td__check_float(tape, op, "input", x)) {
        return false;
    }
    if (x->shape.rank != 4) {
        td__fail(tape, TD_BAD_SHAPE, "%s: input %s must be (batch, height, width, channels)", op,
                 td_shape_text(&x->shape, text));
        return false;
    }
    return true;
}

bool td__pool_fit(td_tape *tape, const char *op, const td_tensor *x, const td_pool_options *options,
                  td__pool *pool) {
    if (!is_image(tape, op, x)) {
        return false;
    }
    const int64_t *dims = x->shape.dims;
    *pool = (td__pool){.batch = dims[0], .size = {dims[1], dims[2]}, .channels = dims[3]};
    td_pool_options given;
    (void)td__options(&given, sizeof given, options);
    td_padding padding = given.padding;
    for (int axis = 0; axis < 2; axis++) {
        int64_t window = given.window[axis], stride = given.stride[axis];
        pool->window[axis] = window ? window : 2;
        pool->stride[axis] = stride ? stride : pool->window[axis];
        if (window < 0 || window > INT32_MAX || stride < 0 || stride > INT32_MAX) {
            td__fail(tape, TD_INVALID, "%s: window and stride must be positive, not %lld and %lld",
                     op, (long long)window, (long long)stride);
            return false;
        }
    }
    if (pool->window[0] > INT32_MAX / pool->window[1]) { /* taps are numbered */
        td__fail(tape, TD_INVALID, "%s: window (%lld, %lld) is too large", op,
                 (long long)pool->window[0], (long long)pool->window[1]);
        return false;
    }
    if (padding != TD_PADDING_VALID && padding != TD_PADDING_SAME) {
        td__fail(tape, TD_INVALID, "%s: padding must be 'valid' or 'same'", op);
        return false;
    }
    for (int axis = 0; axis < 2; axis++) {
        if (!td__conv_axis(pool->size[axis], pool->window[axis], pool->stride[axis], 1, padding,
                           &pool->out[axis], &pool->before[axis])) {
            char text[TD_SHAPE_TEXT_SIZE];
            td__fail(tape, TD_BAD_SHAPE,
                     "%s: window (%lld, %lld) is larger than input %s; use padding 'same' or a "
                     "smaller window",
                     op, (long long)pool->window[0], (long long)pool->window[1],
                     td_shape_text(&x->shape, text));
            return false;
        }
    }
    return true;
}

bool td__pool_fit_whole(td_tape *tape, const char *op, const td_tensor *x, td__pool *pool) {
    if (!is_image(tape, op, x)) {
        return false;
    }
    const int64_t *dims = x->shape.dims;
    char text[TD_SHAPE_TEXT_SIZE];
    if (dims[1] * dims[2] == 0) {
        td__fail(tape, TD_BAD_SHAPE, "%s: input %s has no pixels", op,
                 td_shape_text(&x->shape, text));
        return false;
    }
    *pool = (td__pool){.batch = dims[0],
                       .size = {dims[1], dims[2]},
                       .channels = dims[3],
                       .window = {dims[1], dims[2]},
                       .stride = {dims[1], dims[2]},
                       .out = {1, 1}};
    return true;
}

/* What is left of window number i along an axis: taps [*first, *first + result) of it. */
static int64_t cut_window(const td__pool *p, int axis, int64_t i, int64_t *first) {
    int64_t start = i * p->stride[axis] - p->before[axis];
    int64_t end = start + p->window[axis];
    *first = start < 0 ? -start : 0;
    return (end < p->size[axis] ? end : p->size[axis]) - (start + *first);
}

void td__pool_rows(const td__pool *p, int64_t begin, int64_t end, td__pool_visit *visit,
                   void *context) {
    int64_t row_stride = p->size[1] * p->channels;
    for (int64_t row = begin; row < end; row++) {
        int64_t image = row / p->out[0], i = row % p->out[0], first_row, first_column;
        td__pool_run run = {.channels = p->channels};
        run.window.rows = cut_window(p, 0, i, &first_row);
        run.window.row_stride = row_stride;
        run.window.step = p->stride[1] * p->channels;
        run.window.tap_row = p->window[1];
        int64_t top = i * p->stride[0] - p->before[0] + first_row;
        for (int64_t j = 0; j < p->out[1]; j += run.pixels) {
            run.window.columns = cut_window(p, 1, j, &first_column);
            run.window.first_tap = first_row * p->window[1] + first_column;
            int64_t left = j * p->stride[1] - p->before[1] + first_column;
            run.input = image * p->size[0] * row_stride + top * row_stride + left * p->channels;
            run.output = (row * p->out[1] + j) * p->channels;
            run.pixels = 1;
            /* Whole windows go together. */
            int64_t whole = (p->size[1] + p->before[1] - p->window[1]) / p->stride[1] + 1;
            if (run.window.columns == p->window[1] && whole > j) {
                run.pixels = (whole < p->out[1] ? whole : p->out[1]) - j;
            }
            visit(context, &run);
        }
    }
}

bool td__pool_overwrites(const td__pool *p, bool add) {
    return !add && p->stride[0] == p->window[0] && p->stride[1] == p->window[1];
}

/* Rows and columns that no window reaches. */
static void clear_margins(const td__pool *p, float *image) {
    int64_t row_floats = p->size[1] * p->channels;
    int64_t rows = p->out[0] * p->stride[0] - p->before[0];
    int64_t columns = p->out[1] * p->stride[1] - p->before[1];
    rows = rows < p->size[0] ? rows : p->size[0];
    columns = columns < p->size[1] ? columns : p->size[1];
    size_t right = (size_t)((p->size[1] - columns) * p->channels) * sizeof(float);
    for (int64_t r = 0; right && r < rows; r++) {
        memset(image + r * row_floats + columns * p->channels, 0, right);
    }
    memset(image + rows * row_floats, 0,
           (size_t)((p->size[0] - rows) * row_floats) * sizeof(float));
}

void td__pool_images(const td__pool *p, int64_t begin, int64_t end, bool add, float *dx,
                     td__pool_visit *visit, void *context) {
    int64_t floats = p->size[0] * p->size[1] * p->channels;
    for (int64_t image = begin; image < end; image++) {
        if (td__pool_overwrites(p, add)) {
            clear_margins(p, dx + image * floats);
        } else if (!add) {
            memset(dx + image * floats, 0, (size_t)floats * sizeof(float));
        }
        td__pool_rows(p, image * p->out[0], (image + 1) * p->out[0], visit, context);
    }
}

int64_t td__pool_worth(const td__pool *p, int64_t items) {
    int64_t work = p->batch * p->out[0] * p->out[1] * p->channels;
    for (int axis = 0; axis < 2; axis++) {
        work *= p->window[axis] < p->size[axis] ? p->window[axis] : p->size[axis];
    }
    return items * TD__GRAIN / (work + 1) + 1;
}

typedef struct sum_work {
    const td__pool *pool;
    bool mean, add;
    const float *from;
    float *to;
} sum_work;

static float share(const sum_work *w, const td__window *window) {
    return w->mean ? 1.0f / (float)(window->rows * window->columns) : 1.0f;
}

static void visit_sum(void *context, const td__pool_run *run) {
    const sum_work *w = context;
    td__kernels()->sum_pool(run->pixels, run->channels, &run->window, share(w, &run->window),
                            w->from + run->input, w->add, w->to + run->output);
}

static void visit_spread(void *context, const td__pool_run *run) {
    const sum_work *w = context;
    td__kernels()->spread(run->pixels, run->channels, &run->window, share(w, &run->window),
                          w->from + run->output, !td__pool_overwrites(w->pool, w->add),
                          w->to + run->input);
}

static void sum_part(void *context, int part, int64_t begin, int64_t end) {
    (void)part;
    const sum_work *w = context;
    td__pool_rows(w->pool, begin, end, visit_sum, context);
}

static void spread_part(void *context, int part, int64_t begin, int64_t end) {
    (void)part;
    const sum_work *w = context;
    td__pool_images(w->pool, begin, end, w->add, w->to, visit_spread, context);
}

void td__pool_sum(const td__pool *p, bool mean, const float *x, bool add, float *y) {
    sum_work work = {.pool = p, .mean = mean, .add = add, .from = x, .to = y};
    int64_t rows = p->batch * p->out[0];
    td__parallel(rows, 1, td__pool_worth(p, rows), sum_part, &work);
}

void td__pool_spread(const td__pool *p, bool mean, const float *g, bool add, float *dx) {
    sum_work work = {.pool = p, .mean = mean, .add = add, .from = g, .to = dx};
    td__parallel(p->batch, 1, td__pool_worth(p, p->batch), spread_part, &work);
}
