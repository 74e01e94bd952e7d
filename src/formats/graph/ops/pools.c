/* Pools. Those over one or two axes without dilation are the tape's; the rest goes to windows of
 * any kind, tap by tap. */
#include "graph/ops/window.h"
#include "tape/pool.h"

#include <string.h>

/* --- windows of any kind ------------------------------------------------------------------ */

/* What the sum over a window is divided by. */
typedef enum divisor { BY_INSIDE, BY_PADDED /* with the padding's zeros */, BY_ONE } divisor;

/* x (images, pixels) in the plain layout, y (images, windows). With kept NULL the sum, divided; otherwise
 * the largest, and kept is where it was in its image. */
typedef struct any_pool {
    td__graph_window window;
    int64_t images, pixels, windows;
    divisor by;
    int64_t *kept;
} any_pool;

typedef void visit_tap(any_pool *pool, int64_t at, int64_t pixel, void *context);

/* Visits the taps of window number w that are inside. */
static int64_t each_tap(any_pool *pool, int64_t w, int64_t at, visit_tap *visit, void *context) {
    const td__graph_window *s = &pool->window;
    int64_t first[TD__GRAPH_MAX_SPATIAL], tap[TD__GRAPH_MAX_SPATIAL] = {0}, inside = 0;
    for (int32_t i = s->count - 1; i >= 0; w /= s->out[i--]) {
        first[i] = w % s->out[i] * s->stride[i] - s->before[i];
    }
    for (bool more = true; more;) {
        int64_t pixel = 0;
        bool fits = true;
        for (int32_t i = 0; i < s->count; i++) {
            int64_t place = first[i] + tap[i] * s->dilation[i];
            fits = fits && place >= 0 && place < s->size[i];
            pixel = pixel * s->size[i] + place;
        }
        if (fits) {
            visit(pool, at, pixel, context);
            inside++;
        }
        more = false;
        for (int32_t i = s->count - 1; i >= 0 && !more; i--) {
            more = ++tap[i] < s->kernel[i];
            tap[i] = more ? tap[i] : 0;
        }
    }
    return inside;
}

/* Of window number w, which has `inside` taps within the input. One that ceil mode lets reach beyond the padding has
 * no taps there. */
static float divisor_of(const any_pool *pool, int64_t w, int64_t inside) {
    const td__graph_window *s = &pool->window;
    int64_t taps = 1;
    for (int32_t i = s->count - 1; i >= 0; w /= s->out[i--]) {
        int64_t room = s->size[i] + s->after[i] - (w % s->out[i] * s->stride[i] - s->before[i]);
        int64_t fit = (room + s->dilation[i] - 1) / s->dilation[i];
        taps *= fit < s->kernel[i] ? fit : s->kernel[i];
    }
    return pool->by == BY_ONE ? 1 : (float)(pool->by == BY_PADDED ? taps : inside);
}

typedef struct pool_arrays {
    const float *from; /* x or g */
    float *to;         /* y or dx */
    float share;
} pool_arrays;

static void take_largest(any_pool *pool, int64_t at, int64_t pixel, void *context) {
    const pool_arrays *a = context;
    float value = a->from[at / pool->windows * pool->pixels + pixel];
    if (pool->kept[at] < 0 || value > a->to[at]) {
        a->to[at] = value;
        pool->kept[at] = pixel;
    }
}

static void take_sum(any_pool *pool, int64_t at, int64_t pixel, void *context) {
    const pool_arrays *a = context;
    a->to[at] += a->from[at / pool->windows * pool->pixels + pixel];
}

static void give_share(any_pool *pool, int64_t at, int64_t pixel, void *context) {
    const pool_arrays *a = context;
    a->to[at / pool->windows * pool->pixels + pixel] += a->share * a->from[at];
}

static void count_tap(any_pool *pool, int64_t at, int64_t pixel, void *context) {
    (void)pool, (void)at, (void)pixel, (void)context;
}

static td_status any_pool_backward(td_tape *tape, td__node *node) {
    any_pool *pool = node->saved;
    pool_arrays arrays = {.from = td__output_gradient(tape, node)};
    arrays.to = td__gradient_to_add(tape, node, 0);
    if (!arrays.to) {
        return TD_MEMORY;
    }
    for (int64_t at = 0; at < node->output->count; at++) {
        int64_t w = at % pool->windows;
        if (pool->kept) {
            arrays.to[at / pool->windows * pool->pixels + pool->kept[at]] += arrays.from[at];
        } else {
            arrays.share = 1 / divisor_of(pool, w, each_tap(pool, w, at, count_tap, NULL));
            (void)each_tap(pool, w, at, give_share, &arrays);
        }
    }
    return TD_OK;
}

static const td__op any_pool_op = {.name = "pool", .backward = any_pool_backward};

static td_tensor *run_any_pool(td_tape *tape, td_tensor *x, any_pool *pool, const td_shape *to) {
    td_tensor *y = td__output(tape, TD_FLOAT32, to);
    if (!y) {
        return NULL;
    }
    pool_arrays arrays = {.from = td__floats(x), .to = td__floats(y)};
    for (int64_t at = 0; at < y->count; at++) {
        int64_t w = at % pool->windows;
        arrays.to[at] = 0;
        if (pool->kept) {
            pool->kept[at] = -1;
            (void)each_tap(pool, w, at, take_largest, &arrays);
        } else {
            int64_t inside = each_tap(pool, w, at, take_sum, &arrays);
            arrays.to[at] /= divisor_of(pool, w, inside);
        }
    }
    return td__record(tape, &any_pool_op, y, 1, &x, pool);
}

/* --- MaxPool, AveragePool ----------------------------------------------------------------- */

/* Every window must have a pixel to look at, and not too many. */
static bool check_windows(td__graph_call *call, const td__graph_window *w) {
    int64_t taps = 1;
    for (int32_t i = 0; i < w->count; i++) {
        int64_t reach = (w->kernel[i] - 1) * w->dilation[i] + 1;
        int64_t end = (w->out[i] - 1) * w->stride[i] - w->before[i];
        if (w->before[i] >= reach || end >= w->size[i] || w->kernel[i] > INT32_MAX / taps) {
            return td__graph_fail(call, TD_UNSUPPORTED, "a window that lies in the padding alone");
        }
        taps *= w->kernel[i];
    }
    return true;
}

/* The tape's pools: images with two axes, channels last. */
static bool run_image_pool(td__graph_call *call, const td__graph_window *w, bool maximum) {
    td_tensor *x = td__graph_channels_last(call, 0);
    if (!x || !td__check_float(call->tape, "pool", "input", x)) {
        return false;
    }
    td_shape to = x->shape;
    td__pool pool = {.batch = to.dims[0], .channels = to.dims[to.rank - 1]};
    for (int32_t i = 0; i < 2; i++) {
        int32_t from = i - (2 - w->count);
        pool.size[i] = from < 0 ? 1 : w->size[from];
        pool.window[i] = from < 0 ? 1 : w->kernel[from];
        pool.stride[i] = from < 0 ? 1 : w->stride[from];
        pool.before[i] = from < 0 ? 0 : w->before[from];
        pool.out[i] = from < 0 ? 1 : w->out[from];
        if (from >= 0) {
            to.dims[1 + from] = w->out[from];
        }
    }
    td_tensor *y =
        maximum ? td__max_pool(call->tape, x, &pool) : td__average_pool(call->tape, x, &pool, to);
    y = y && maximum && w->count == 1 ? td_reshape(call->tape, y, to) : y;
    return td__graph_output_last(call, 0, td__graph_input(call, 0)->type, y);
}

/* Where the largest was, counted over the whole input. */
static bool output_places(td__graph_call *call, const any_pool *pool, const td_shape *to) {
    const td__graph_window *w = &pool->window;
    bool columns_first = td__graph_int(call->node, "storage_order", 0) != 0;
    td_tensor *y = td__output(call->tape, TD_INT64, to);
    for (int64_t at = 0; y && at < y->count; at++) {
        int64_t pixel = pool->kept[at], place = pixel;
        if (columns_first && w->count == 2) {
            place = pixel % w->size[1] * w->size[0] + pixel / w->size[1];
        }
        ((int64_t *)y->data)[at] = at / pool->windows * pool->pixels + place;
    }
    return td__graph_output(call, 1, TD__GRAPH_INT64, y);
}

/* *to is the shape of the result, *count its elements. NULL on failure. */
static any_pool *make_any_pool(td__graph_call *call, const td__graph_window *w,
                               const td_shape *from, divisor by, td_shape *to, int64_t *count) {
    any_pool *pool = td__scratch(call->tape, sizeof *pool);
    if (!pool) {
        return NULL;
    }
    *to = *from;
    *pool = (any_pool){
        .window = *w, .images = from->dims[0] * from->dims[1], .pixels = 1, .windows = 1, .by = by};
    for (int32_t i = 0; i < w->count; i++) {
        pool->pixels *= w->size[i];
        pool->windows *= w->out[i];
        to->dims[2 + i] = w->out[i];
    }
    if (td_shape_check(to, TD_FLOAT64, count, NULL)) {
        (void)td__graph_fail(call, TD_RANGE, "its output is too large");
        return NULL;
    }
    return pool;
}

static bool pool_any(td__graph_call *call, const td__graph_window *w, bool maximum, divisor by) {
    td_tensor *x = td__graph_as_float(call, 0);
    td_shape to;
    int64_t count;
    any_pool *pool = x ? make_any_pool(call, w, &x->shape, by, &to, &count) : NULL;
    if (!pool) {
        return false;
    }
    if (maximum && !(pool->kept = td__scratch(call->tape, (size_t)count * sizeof(int64_t) + 1))) {
        return false;
    }
    td_tensor *y = run_any_pool(call->tape, x, pool, &to);
    if (!y || (td__graph_wants(call, 1) && !output_places(call, pool, &to))) {
        return false;
    }
    if (td__graph_is_float(call, 0)) {
        return td__graph_output(call, 0, td__graph_input(call, 0)->type, y);
    }
    td_tensor *whole = td__output(call->tape, TD_INT64, &to);
    for (int64_t i = 0; whole && i < whole->count; i++) {
        ((int64_t *)whole->data)[i] = (int64_t)td__floats(y)[i];
    }
    return td__graph_output(call, 0, td__graph_input(call, 0)->type, whole);
}

static bool is_padded(const td__graph_window *w) {
    bool padded = false;
    for (int32_t i = 0; i < w->count; i++) {
        padded = padded || w->before[i] > 0 || w->after[i] > 0;
    }
    return padded;
}

static bool pool(td__graph_call *call, bool maximum) {
    td_shape shape = td__graph_shape(call, 0);
    td__graph_window w;
    bool ceil = td__graph_int(call->node, "ceil_mode", 0) != 0;
    bool small = td__graph_input(call, 0)->type == TD__GRAPH_UINT8 ||
                 td__graph_input(call, 0)->type == TD__GRAPH_INT8;
    if (!td__graph_is_float(call, 0) && !(maximum && small)) {
        return td__graph_fail(call, TD_UNSUPPORTED, "only of type float");
    }
    if (!td__graph_window_init(call, &shape, NULL, &w) || !td__graph_window_fit(call, ceil, &w) ||
        !check_windows(call, &w)) {
        return false;
    }
    bool count_all = td__graph_int(call->node, "count_include_pad", 0) != 0 && is_padded(&w);
    bool any = w.count > 2 || small || count_all || td__graph_wants(call, 1);
    for (int32_t i = 0; i < w.count; i++) {
        any = any || w.dilation[i] != 1;
    }
    return any ? pool_any(call, &w, maximum, count_all ? BY_PADDED : BY_INSIDE)
               : run_image_pool(call, &w, maximum);
}

static bool max_pool(td__graph_call *call) {
    return pool(call, true);
}
static bool average_pool(td__graph_call *call) {
    return pool(call, false);
}

/* |x|^p, and its root. */
static td_tensor *raised(td_tape *tape, td_tensor *x, int64_t p) {
    return p == 1   ? td_absolute(tape, x)
           : p == 2 ? td_square(tape, x)
                    : td_power(tape, td_absolute(tape, x), td__graph_scalar(tape, (float)p));
}
/* Of 0 it is 0, and so is its slope. */
static td_tensor *root(td__graph_call *call, td_tensor *x, int64_t p) {
    td_tape *tape = call->tape;
    const char *name = call->node->op_type;
    td_tensor *one = td__graph_scalar(tape, 1), *zero = td__graph_scalar(tape, 0);
    td_tensor *some = p > 1 && one && zero ? td__graph_is_some(call, x) : NULL;
    td_tensor *safe = some ? td__select(tape, name, some, x, one) : NULL;
    td_tensor *y = p == 1   ? x
                   : p == 2 ? td_sqrt(tape, safe)
                            : td_power(tape, safe, td__graph_scalar(tape, 1 / (float)p));
    return p == 1 || !y ? y : td__select(tape, name, some, y, zero);
}

/* (sum of |x|^p)^(1/p) over each window */
static bool lp_pool(td__graph_call *call) {
    td_tape *tape = call->tape;
    int64_t p = td__graph_int(call->node, "p", 2), count;
    td_tensor *x = td__graph_is_float(call, 0) ? td__graph_plain(call, 0) : NULL;
    td__graph_window w;
    td_shape to;
    if (!x || p < 1 || p > INT32_MAX) {
        return td__graph_fail(call, TD_UNSUPPORTED, "only of type float, p 1 or more");
    }
    bool ceil = td__graph_int(call->node, "ceil_mode", 0) != 0;
    if (!td__graph_window_init(call, &x->shape, NULL, &w) ||
        !td__graph_window_fit(call, ceil, &w) || !check_windows(call, &w)) {
        return false;
    }
    any_pool *pool = make_any_pool(call, &w, &x->shape, BY_ONE, &to, &count);
    x = pool ? raised(tape, x, p) : NULL;
    td_tensor *sum = x ? run_any_pool(tape, x, pool, &to) : NULL;
    return td__graph_output(call, 0, td__graph_input(call, 0)->type,
                            sum ? root(call, sum, p) : NULL);
}

/* --- over whole images -------------------------------------------------------------------- */

static bool global(td__graph_call *call,
                   td_tensor *(*reduce)(td_tape *, td_tensor *, const td_reduce_options *)) {
    td_tensor *x = td__graph_channels_last(call, 0);
    td_reduce_options pixels = {.size = sizeof pixels, .keep = true};
    for (int32_t i = 1; x && i < x->shape.rank - 1; i++) {
        pixels.axes[pixels.count++] = i;
    }
    return td__graph_output_last(call, 0, td__graph_input(call, 0)->type,
                                 x ? reduce(call->tape, x, &pixels) : NULL);
}

static bool global_average_pool(td__graph_call *call) {
    return global(call, td_mean);
}
static bool global_max_pool(td__graph_call *call) {
    return global(call, td_max);
}
static bool global_lp_pool(td__graph_call *call) {
    td_tensor *x = td__graph_is_float(call, 0) ? td__graph_channels_last(call, 0) : NULL;
    int64_t p = td__graph_int(call->node, "p", 2);
    td_reduce_options pixels = {.size = sizeof pixels, .keep = true};
    if (!x || p < 1 || p > INT32_MAX) {
        return td__graph_fail(call, TD_UNSUPPORTED, "only of type float, p 1 or more");
    }
    for (int32_t i = 1; i < x->shape.rank - 1; i++) {
        pixels.axes[pixels.count++] = i;
    }
    td_tensor *sum = td_sum(call->tape, raised(call->tape, x, p), &pixels);
    return td__graph_output_last(call, 0, td__graph_input(call, 0)->type,
                                 sum ? root(call, sum, p) : NULL);
}

const td__graph_operator td__graph_pools[] = {
    {"AveragePool", average_pool, 1, 1, 1, 0, 0, td__graph_infer_pool},
    {"GlobalAveragePool", global_average_pool, 1, 1, 1, 0, 0, td__graph_infer_global_pool},
    {"GlobalLpPool", global_lp_pool, 1, 1, 1, 2, 0, td__graph_infer_global_pool},
    {"GlobalMaxPool", global_max_pool, 1, 1, 1, 0, 0, td__graph_infer_global_pool},
    {"LpPool", lp_pool, 1, 1, 1, 2, 0, td__graph_infer_pool},
    {"MaxPool", max_pool, 1, 1, 2, 0, 0, td__graph_infer_pool},
    {0},
};
