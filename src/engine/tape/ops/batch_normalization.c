/* batch_normalization: y = (x - m) / sqrt(v + epsilon) gamma + beta for each channel (last axis)
 *
 * In training m and v are the mean and (biased) variance of the batch, and the moving ones become
 * momentum * moving + (1 - momentum) * batch; otherwise they are the moving ones.
 * With s = 1 / sqrt(v + epsilon), h = (x - m) s and N rows:
 * dbeta = sum g; dgamma = sum g h; dx = gamma s (g - (dbeta + h dgamma) / N), or gamma s g outside
 * of training, where also dm = -gamma s sum g and dv = -gamma s^2 / 2 sum g h.
 *
 * With `sync` and a batch that is cut into parts, m, v, N and the sums in dx are those of all parts: the sums of x and
 * x^2 are added up over the parts in the forward pass, those of g and g h in the backward pass.
 *
 * Channels are few and rows many: the kernels run over rows made `fold` times as wide, so that
 * vectors are full, and the copies of a channel are put together at the end.
 */
#include "base/options.h"
#include "tape/kernels.h"
#include "tape/op.h"
#include "tape/parallel.h"
#include "tape/tape.h"

#include <math.h>

enum { WIDE = 64 /* channels that keep the kernels busy */ };

typedef struct batch_norm_saved {
    bool training;
    const td__tape_sync *sync; /* NULL: over these rows alone */
    int64_t rows, n;
    double total;        /* rows of all parts */
    int64_t fold, width; /* width = fold * n */
    float *mean, *scale; /* (width,): m and s, repeated */
} batch_norm_saved;

typedef struct batch_norm_work {
    const batch_norm_saved *saved;
    const float *x, *g;
    float *y; /* or dx */
    const float *slope, *factor, *offset;
    bool add;
    float *partial;  /* (parts, 2, width): mean and squares, or sums of g and of g (x - m) */
    int64_t whole;   /* wide rows */
    int64_t *counts; /* wide rows of each part */
} batch_norm_work;

static void repeat_channels(const batch_norm_saved *s, float *values) {
    for (int64_t i = s->n; i < s->width; i++) {
        values[i] = values[i - s->n];
    }
}

/* --- forward -------------------------------------------------------------------------------- */

static void moments_part(void *context, int part, int64_t begin, int64_t end) {
    const batch_norm_work *w = context;
    int64_t width = w->saved->width;
    float *mean = w->partial + 2 * part * width;
    td__kernels()->channel_moments(end - begin, width, w->x + begin * width, mean, mean + width);
    w->counts[part] = end - begin;
}

/* Mean and squared deviations of `count` values, put together with others. */
typedef struct moments {
    double count, mean, squares;
} moments;

static void merge(moments *a, double count, double mean, double squares) {
    double total = a->count + count, difference = mean - a->mean;
    if (count > 0) {
        a->mean += difference * count / total;
        a->squares += squares + difference * difference * a->count * count / total;
        a->count = total;
    }
}

/* One channel: its copies in all parts, then the rows that did not fill a wide one. */
static moments channel_moments(const batch_norm_work *w, int parts, int64_t channel) {
    const batch_norm_saved *s = w->saved;
    moments all = {0};
    for (int part = 0; part < parts; part++) {
        const float *mean = w->partial + 2 * part * s->width, *squares = mean + s->width;
        for (int64_t i = channel; i < s->width; i += s->n) {
            merge(&all, (double)w->counts[part], (double)mean[i], (double)squares[i]);
        }
    }
    for (int64_t row = w->whole * s->fold; row < s->rows; row++) {
        merge(&all, 1, (double)w->x[row * s->n + channel], 0);
    }
    return all;
}

/* Values over all parts. When another part has failed the tape fails too. */
static td_status add_over_parts(td_tape *tape, const td__tape_sync *sync, double *values,
                                size_t count) {
    td_status status = sync->add(sync->user, values, count);
    if (status) {
        (void)td__fail(tape, status, "batch_normalization: another shard of the batch has failed");
    }
    return status;
}

/* From what each channel has here to what it has in all parts. sums: (2 n + 1). */
static td_status share_moments(td_tape *tape, batch_norm_saved *s, double *sums, float *mean,
                               float *variance) {
    size_t n = (size_t)s->n;
    sums[2 * n] = (double)s->rows;
    td_status status = add_over_parts(tape, s->sync, sums, 2 * n + 1);
    s->total = sums[2 * n];
    for (size_t c = 0; !status && c < n; c++) {
        double middle = sums[c] / s->total, square = sums[n + c] / s->total - middle * middle;
        mean[c] = (float)middle;
        variance[c] = square < 0 ? 0.0f : (float)square; /* not a number stays that */
    }
    return status;
}

static td_status batch_moments(td_tape *tape, batch_norm_saved *s, const float *x, float *mean,
                               float *variance) {
    size_t floats = (size_t)(2 * s->width * td_threads());
    size_t doubles = s->sync ? (size_t)(2 * s->n + 1) : 0;
    td__buffer *partial =
        td__temporary(tape, (floats + 16) * sizeof(float) + doubles * sizeof(double));
    if (!partial) {
        return TD_MEMORY;
    }
    int64_t counts[TD__MAX_THREADS] = {0};
    batch_norm_work work = {.saved = s, .x = x, .partial = partial->data, .counts = counts};
    work.whole = s->rows / s->fold;
    double *sums = (double *)(void *)(partial->data + ((floats + 15) & ~(size_t)15));
    int parts = td__parallel(work.whole, 1, TD__GRAIN / s->width + 1, moments_part, &work);
    for (int64_t c = 0; c < s->n; c++) {
        moments all = channel_moments(&work, work.whole ? parts : 0, c);
        mean[c] = (float)all.mean;
        variance[c] = (float)(all.squares / all.count);
        if (s->sync) {
            sums[c] = all.mean * all.count;
            sums[s->n + c] = all.squares + all.mean * all.mean * all.count;
        }
    }
    td_status status = s->sync ? share_moments(tape, s, sums, mean, variance) : TD_OK;
    td__buffer_drop(tape, partial);
    return status;
}

static void move_average(double gain, int64_t n, const float *batch, float *moving) {
    for (int64_t i = 0; i < n; i++) {
        moving[i] = (float)((double)moving[i] * (1 - gain) + (double)batch[i] * gain);
    }
}

static void scale_part(void *context, int part, int64_t begin, int64_t end) {
    (void)part;
    const batch_norm_work *w = context;
    td__kernels()->channel_scale(end - begin, w->saved->width, w->x + begin, w->saved->mean,
                                 w->factor, w->offset, w->y + begin);
}

/* --- backward ------------------------------------------------------------------------------- */

static void sums_part(void *context, int part, int64_t begin, int64_t end) {
    const batch_norm_work *w = context;
    int64_t width = w->saved->width;
    float *sums = w->partial + 2 * part * width;
    td__kernels()->channel_sums(end - begin, width, w->x + begin * width, w->saved->mean,
                                w->g + begin * width, sums, sums + width);
}

/* sums = sum g, products = sum g h, for each channel. */
static void channel_sums(const batch_norm_work *w, int parts, float *sums, float *products) {
    const batch_norm_saved *s = w->saved;
    for (int64_t c = 0; c < s->n; c++) {
        double sum = 0, product = 0;
        for (int part = 0; part < parts; part++) {
            const float *of_g = w->partial + 2 * part * s->width, *of_gx = of_g + s->width;
            for (int64_t i = c; i < s->width; i += s->n) {
                sum += (double)of_g[i];
                product += (double)of_gx[i];
            }
        }
        for (int64_t row = w->whole * s->fold; row < s->rows; row++) {
            double g = (double)w->g[row * s->n + c];
            sum += g;
            product += g * (double)(w->x[row * s->n + c] - s->mean[c]);
        }
        sums[c] = (float)sum;
        products[c] = (float)(product * (double)s->scale[c]);
    }
}

static void batch_normalization_backward_part(void *context, int part, int64_t begin, int64_t end) {
    (void)part;
    const batch_norm_work *w = context;
    td__kernels()->channel_backward(end - begin, w->saved->width, w->x + begin, w->g + begin,
                                    w->saved->mean, w->factor, w->slope, w->offset, w->add,
                                    w->y + begin);
}

/* sums and products become those of all parts. */
static td_status share_sums(td_tape *tape, const batch_norm_saved *s, float *sums,
                            float *products) {
    size_t n = (size_t)s->n;
    td__buffer *buffer = td__temporary(tape, 2 * n * sizeof(double));
    double *values = buffer ? (double *)(void *)buffer->data : NULL;
    for (size_t c = 0; values && c < n; c++) {
        values[c] = (double)sums[c];
        values[n + c] = (double)products[c];
    }
    td_status status = values ? add_over_parts(tape, s->sync, values, 2 * n) : TD_MEMORY;
    for (size_t c = 0; !status && c < n; c++) {
        sums[c] = (float)values[c];
        products[c] = (float)values[n + c];
    }
    if (buffer) {
        td__buffer_drop(tape, buffer);
    }
    return status;
}

static td_status gradient_of_input(td_tape *tape, td__node *node, batch_norm_work *work,
                                   float *sums, float *products, float *memory) {
    const batch_norm_saved *s = work->saved;
    const td_tensor *gamma = node->inputs[1].tensor;
    float *factor = memory, *slope = factor + s->width, *offset = slope + s->width;
    float share = s->training ? 1.0f / (float)s->total : 0.0f;
    /* One row is its own mean: its gradient is 0, not what rounding leaves of g - g. */
    float whole = s->training && s->total == 1 ? 0.0f : 1.0f;
    td_status status = s->sync ? share_sums(tape, s, sums, products) : TD_OK;
    if (status) {
        return status;
    }
    for (int64_t c = 0; c < s->n; c++) {
        factor[c] = whole * s->scale[c] * (gamma ? td__floats(gamma)[c] : 1.0f);
        slope[c] = -factor[c] * s->scale[c] * products[c] * share;
        offset[c] = -factor[c] * sums[c] * share;
    }
    repeat_channels(s, factor);
    repeat_channels(s, slope);
    repeat_channels(s, offset);
    work->factor = factor;
    work->slope = slope;
    work->offset = offset;
    work->y = td__gradient_in_place(tape, node, 0, &work->add);
    if (!work->y) {
        return TD_MEMORY;
    }
    td__parallel(s->rows * s->n, s->width, TD__GRAIN, batch_normalization_backward_part, work);
    return TD_OK;
}

/* d (=|+=) factor * scale^power * gamma * values; gamma NULL: 1 */
static td_status gradient_of_parameter(td_tape *tape, td__node *node, int32_t i, float factor,
                                       const float *scale, int power, const td_tensor *gamma,
                                       const float *values) {
    if (!td__wants(tape, node, i)) {
        return TD_OK;
    }
    bool add;
    float *d = td__gradient(tape, node, i, &add);
    for (int64_t c = 0; d && c < node->inputs[i].tensor->count; c++) {
        float value = factor * values[c] * (gamma ? td__floats(gamma)[c] : 1.0f);
        for (int k = 0; k < power; k++) {
            value *= scale[c];
        }
        d[c] = add ? d[c] + value : value;
    }
    return d ? TD_OK : TD_MEMORY;
}

static td_status gradients(td_tape *tape, td__node *node, batch_norm_work *work, float *memory) {
    const batch_norm_saved *s = work->saved;
    float *sums = memory, *products = memory + s->n;
    const td_tensor *gamma = node->inputs[1].tensor;
    int parts = td__parallel(work->whole, 1, TD__GRAIN / s->width + 1, sums_part, work);
    channel_sums(work, work->whole ? parts : 0, sums, products);
    td_status status = gradient_of_parameter(tape, node, 1, 1, s->scale, 0, NULL, products);
    status = status ? status : gradient_of_parameter(tape, node, 2, 1, s->scale, 0, NULL, sums);
    if (!status && !s->training) {
        status = gradient_of_parameter(tape, node, 3, -1, s->scale, 1, gamma, sums);
        status = status ? status
                        : gradient_of_parameter(tape, node, 4, -0.5f, s->scale, 2, gamma, products);
    }
    if (!status && td__wants(tape, node, 0)) {
        status = gradient_of_input(tape, node, work, sums, products, memory + 2 * s->n);
    }
    return status;
}

static td_status batch_norm_backward(td_tape *tape, td__node *node) {
    const batch_norm_saved *s = node->saved;
    size_t partial = (size_t)(2 * s->width * td_threads()), rest = (size_t)(5 * s->width);
    td__buffer *memory = td__temporary(tape, (partial + rest) * sizeof(float));
    if (!memory) {
        return TD_MEMORY;
    }
    batch_norm_work work = {.saved = s,
                            .x = td__floats(node->inputs[0].tensor),
                            .g = td__output_gradient(tape, node),
                            .partial = memory->data,
                            .whole = s->rows / s->fold};
    td_status status = gradients(tape, node, &work, memory->data + partial);
    td__buffer_drop(tape, memory);
    return status;
}

static const td__op batch_norm_op = {.name = "batch_normalization",
                                     .backward = batch_norm_backward};

/* --- the operation -------------------------------------------------------------------------- */

static bool check_parameter(td_tape *tape, const td_tensor *x, const td_tensor *parameter,
                            const char *role, bool optional) {
    if (optional && !parameter) {
        return true;
    }
    if (!td__check_float(tape, "batch_normalization", role, parameter)) {
        return false;
    }
    int64_t n = x->shape.dims[x->shape.rank - 1];
    char a[TD_SHAPE_TEXT_SIZE], b[TD_SHAPE_TEXT_SIZE];
    if (parameter->shape.rank != 1 || parameter->shape.dims[0] != n) {
        td__fail(tape, TD_BAD_SHAPE,
                 "batch_normalization: %s %s does not fit input %s: it must be (%lld,)", role,
                 td_shape_text(&parameter->shape, a), td_shape_text(&x->shape, b), (long long)n);
        return false;
    }
    return true;
}

static batch_norm_saved *begin_batch_norm(td_tape *tape, const td_tensor *x, bool sync) {
    batch_norm_saved *s = td__scratch(tape, sizeof *s);
    if (!s) {
        return NULL;
    }
    int64_t n = x->shape.dims[x->shape.rank - 1];
    *s = (batch_norm_saved){.training = td_tape_is_training(tape), .n = n};
    s->sync = sync && s->training ? tape->sync : NULL;
    s->rows = n ? x->count / n : 0;
    s->total = (double)s->rows;
    s->fold = n && n < WIDE ? WIDE / n : 1;
    s->width = n ? s->fold * n : 1;
    s->mean = td__scratch(tape, (size_t)(2 * s->width) * sizeof(float));
    s->scale = s->mean ? s->mean + s->width : NULL;
    return s->mean ? s : NULL;
}

/* y; in training the batch's moments are left in the first two rows of memory, (4, width). */
static td_status normalize(td_tape *tape, batch_norm_saved *s, td_tensor *const inputs[5],
                           float epsilon, float *memory, td_tensor *y) {
    const td_tensor *x = inputs[0], *gamma = inputs[1], *beta = inputs[2];
    const float *moving_mean = td__floats(inputs[3]), *moving_variance = td__floats(inputs[4]);
    float *mean = memory, *variance = mean + s->width;
    float *factor = variance + s->width, *offset = factor + s->width;
    td_status status = s->training ? batch_moments(tape, s, td__floats(x), mean, variance) : TD_OK;
    if (status) {
        return status;
    }
    for (int64_t c = 0; c < s->n; c++) {
        s->mean[c] = s->training ? mean[c] : moving_mean[c];
        s->scale[c] = 1.0f / sqrtf((s->training ? variance[c] : moving_variance[c]) + epsilon);
        factor[c] = s->scale[c] * (gamma ? td__floats(gamma)[c] : 1.0f);
        offset[c] = beta ? td__floats(beta)[c] : 0.0f;
    }
    repeat_channels(s, s->mean);
    repeat_channels(s, s->scale);
    repeat_channels(s, factor);
    repeat_channels(s, offset);
    batch_norm_work work = {.saved = s, .x = td__floats(x), .y = td__floats(y)};
    work.factor = factor;
    work.offset = offset;
    td__parallel(x->count, s->width, TD__GRAIN, scale_part, &work);
    return TD_OK;
}

td_tensor *td_batch_normalization(td_tape *tape, td_tensor *x, td_tensor *gamma, td_tensor *beta,
                                  td_tensor *moving_mean, td_tensor *moving_variance,
                                  const td_batch_normalization_options *options) {
    if (!td__check_float(tape, "batch_normalization", "input", x)) {
        return NULL;
    }
    char text[TD_SHAPE_TEXT_SIZE];
    if (x->shape.rank == 0 || (td_tape_is_training(tape) && x->count == 0)) {
        return td__fail(tape, TD_BAD_SHAPE, "batch_normalization: input %s has no examples",
                        td_shape_text(&x->shape, text));
    }
    if (!check_parameter(tape, x, gamma, "gamma", true) ||
        !check_parameter(tape, x, beta, "beta", true) ||
        !check_parameter(tape, x, moving_mean, "moving mean", false) ||
        !check_parameter(tape, x, moving_variance, "moving variance", false)) {
        return NULL;
    }
    td_batch_normalization_options given;
    options = td__options(&given, sizeof given, options);
    double gain = 1 - td__number_or(options->momentum, 0.99);
    float epsilon = (float)td__number_or(options->epsilon, 1e-3);
    td_tensor *y = td__output(tape, TD_FLOAT32, &x->shape);
    batch_norm_saved *saved = y ? begin_batch_norm(tape, x, options->sync) : NULL;
    td__buffer *memory =
        saved ? td__temporary(tape, (size_t)(4 * saved->width) * sizeof(float)) : NULL;
    if (!memory) {
        return NULL;
    }
    td_tensor *inputs[] = {x, gamma, beta, moving_mean, moving_variance};
    td_status status = normalize(tape, saved, inputs, epsilon, memory->data, y);
    y = status ? NULL : td__record(tape, &batch_norm_op, y, 5, inputs, saved);
    if (y && saved->training) { /* a step that failed moves nothing */
        move_average(gain, saved->n, memory->data, td__floats(moving_mean));
        move_average(gain, saved->n, memory->data + saved->width, td__floats(moving_variance));
    }
    td__buffer_drop(tape, memory);
    return y;
}
