/* up_sampling2d: an image factor[0] times as high and factor[1] times as wide
 *
 * nearest: each pixel becomes a block; dx = sum of g over the block
 * bilinear: y at i is x at s = (i + 1/2) / factor - 1/2, between its two neighbours along each
 * axis (s is kept inside the image); dx spreads g with the same weights
 */
#include "tape/parallel.h"
#include "tape/pool.h"

#include <string.h>

typedef struct up_sampling_saved {
    td_interpolation interpolation;
    td__pool pool; /* over the result: one window per pixel of the input */
} up_sampling_saved;

/* Result i of an axis is (1 - weight) x[low] + weight x[high]. */
typedef struct neighbours {
    int64_t low, high;
    float weight;
} neighbours;

static neighbours find_neighbours(int64_t i, int64_t factor, int64_t size) {
    /* (2 i + 1 - factor) / (2 factor), in whole numbers as long as possible */
    int64_t numerator = 2 * i + 1 - factor;
    if (numerator < 0) {
        return (neighbours){0, 0, 0.0f};
    }
    int64_t low = numerator / (2 * factor);
    float weight = (float)(numerator % (2 * factor)) / (float)(2 * factor);
    return low + 1 < size ? (neighbours){low, low + 1, weight} : (neighbours){low, low, 0.0f};
}

typedef struct bilinear_work {
    const td__pool *pool;
    const float *from; /* x or g */
    float *to;         /* y or dx */
    bool add;
    float *rows; /* one row of the input's width for each thread */
} bilinear_work;

/* One image row of the result: blends two rows, then neighbours in the blend. */
static void bilinear_row(const bilinear_work *w, const float *image, int64_t i, float *row,
                         float *y) {
    const td__kernels_table *kernels = td__kernels();
    const td__pool *p = w->pool;
    int64_t floats = p->out[1] * p->channels;
    neighbours v = find_neighbours(i, p->stride[0], p->out[0]);
    kernels->affine(floats, 1.0f - v.weight, image + v.low * floats, 0.0f, row);
    kernels->axpy(floats, v.weight, image + v.high * floats, row);
    for (int64_t j = 0; j < p->size[1]; j++, y += p->channels) {
        neighbours h = find_neighbours(j, p->stride[1], p->out[1]);
        kernels->affine(p->channels, 1.0f - h.weight, row + h.low * p->channels, 0.0f, y);
        kernels->axpy(p->channels, h.weight, row + h.high * p->channels, y);
    }
}

static void bilinear_row_backward(const bilinear_work *w, const float *g, int64_t i, float *row,
                                  float *image) {
    const td__kernels_table *kernels = td__kernels();
    const td__pool *p = w->pool;
    int64_t floats = p->out[1] * p->channels;
    memset(row, 0, (size_t)floats * sizeof *row);
    for (int64_t j = 0; j < p->size[1]; j++, g += p->channels) {
        neighbours h = find_neighbours(j, p->stride[1], p->out[1]);
        kernels->axpy(p->channels, 1.0f - h.weight, g, row + h.low * p->channels);
        kernels->axpy(p->channels, h.weight, g, row + h.high * p->channels);
    }
    neighbours v = find_neighbours(i, p->stride[0], p->out[0]);
    kernels->axpy(floats, 1.0f - v.weight, row, image + v.low * floats);
    kernels->axpy(floats, v.weight, row, image + v.high * floats);
}

static void bilinear_part(void *context, int part, int64_t begin, int64_t end) {
    const bilinear_work *w = context;
    const td__pool *p = w->pool;
    int64_t image = p->out[0] * p->out[1] * p->channels, width = p->size[1] * p->channels;
    float *row = w->rows + part * p->out[1] * p->channels;
    for (int64_t r = begin; r < end; r++) {
        bilinear_row(w, w->from + r / p->size[0] * image, r % p->size[0], row, w->to + r * width);
    }
}

static void bilinear_backward_part(void *context, int part, int64_t begin, int64_t end) {
    const bilinear_work *w = context;
    const td__pool *p = w->pool;
    int64_t image = p->out[0] * p->out[1] * p->channels, width = p->size[1] * p->channels;
    float *row = w->rows + part * p->out[1] * p->channels;
    for (int64_t b = begin; b < end; b++) {
        if (!w->add) {
            memset(w->to + b * image, 0, (size_t)image * sizeof(float));
        }
        for (int64_t i = 0; i < p->size[0]; i++) {
            bilinear_row_backward(w, w->from + (b * p->size[0] + i) * width, i, row,
                                  w->to + b * image);
        }
    }
}

/* Forward over the result's rows, backward over images. */
static td_status bilinear(td_tape *tape, bilinear_work *work, int64_t items,
                          td__parallel_body *body) {
    const td__pool *p = work->pool;
    size_t row = (size_t)(p->out[1] * p->channels) * sizeof(float);
    td__buffer *rows = td__temporary(tape, row * (size_t)td_threads());
    if (!rows) {
        return TD_MEMORY;
    }
    work->rows = rows->data;
    td__parallel(items, 1, td__pool_worth(p, items), body, work);
    td__buffer_drop(tape, rows);
    return TD_OK;
}

static td_status up_sampling_backward(td_tape *tape, td__node *node) {
    const up_sampling_saved *saved = node->saved;
    bilinear_work work = {.pool = &saved->pool, .from = td__output_gradient(tape, node)};
    work.to = td__gradient(tape, node, 0, &work.add);
    if (!work.to) {
        return TD_MEMORY;
    }
    if (saved->interpolation == TD_NEAREST) {
        td__pool_sum(&saved->pool, false, work.from, work.add, work.to);
        return TD_OK;
    }
    return bilinear(tape, &work, saved->pool.batch, bilinear_backward_part);
}

static const td__op up_sampling_op = {.name = "up_sampling2d", .backward = up_sampling_backward};

static bool check_factor(td_tape *tape, const td_tensor *x, const int64_t factor[2],
                         td__pool *pool) {
    if (!td__check_float(tape, "up_sampling2d", "input", x)) {
        return false;
    }
    char text[TD_SHAPE_TEXT_SIZE];
    const int64_t *dims = x->shape.dims;
    if (x->shape.rank != 4) {
        td__fail(tape, TD_BAD_SHAPE,
                 "up_sampling2d: input %s must be (batch, height, width, channels)",
                 td_shape_text(&x->shape, text));
        return false;
    }
    for (int axis = 0; axis < 2; axis++) {
        int64_t times = factor[axis], size = dims[1 + axis];
        if (times < 1 || times > INT32_MAX || size > INT32_MAX) {
            td__fail(tape, TD_INVALID,
                     "up_sampling2d: input %s cannot become (%lld, %lld) times as large",
                     td_shape_text(&x->shape, text), (long long)factor[0], (long long)factor[1]);
            return false;
        }
    }
    *pool = (td__pool){.batch = dims[0],
                       .size = {dims[1] * factor[0], dims[2] * factor[1]},
                       .channels = dims[3],
                       .window = {factor[0], factor[1]},
                       .stride = {factor[0], factor[1]},
                       .out = {dims[1], dims[2]}};
    return true;
}

td_tensor *td_up_sampling2d(td_tape *tape, td_tensor *x, const int64_t factor[2],
                            td_interpolation interpolation) {
    up_sampling_saved *saved = td__scratch(tape, sizeof *saved);
    if (!saved || !check_factor(tape, x, factor, &saved->pool)) {
        return NULL;
    }
    saved->interpolation = interpolation;
    const td__pool *pool = &saved->pool;
    td_tensor *y = td__output(tape, TD_FLOAT32,
                              &TD_SHAPE(pool->batch, pool->size[0], pool->size[1], pool->channels));
    if (!y) {
        return NULL;
    }
    if (interpolation == TD_NEAREST) {
        td__pool_spread(pool, false, td__floats(x), false, td__floats(y));
    } else {
        bilinear_work work = {.pool = pool, .from = td__floats(x), .to = td__floats(y)};
        if (bilinear(tape, &work, pool->batch * pool->size[0], bilinear_part)) {
            return NULL;
        }
    }
    return td__record(tape, &up_sampling_op, y, 1, &x, saved);
}
