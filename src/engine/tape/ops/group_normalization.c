/* group_normalization: y = h gamma + beta, h = (x - mean) / sqrt(variance + epsilon) over each group
 * of channels of each example
 *
 * With e = g gamma: dx = (e - mean(e) - h mean(e h)) / sqrt(…), the means over the group; dgamma =
 * sum of g h, dbeta = sum of g over all but the channel.
 *
 * An example's rows are pixels; the kernels of batch normalisation take sums of channels, which are put
 * together into those of groups. Few channels run as rows `fold` pixels wide.
 */
#include "tape/kernels.h"
#include "tape/op.h"
#include "tape/parallel.h"

#include <math.h>

enum { WIDE = 64 /* channels that keep the kernels busy */, BUFFERS = 6 };

typedef struct group_norm_saved {
    int64_t batch, n, groups, own; /* examples, channels, groups, channels of a group */
    int64_t fold, width, rows;     /* width = fold * n; rows of an example */
    float *stats;                  /* (batch, groups, 2): mean and 1 / sqrt(variance + epsilon) */
} group_norm_saved;

typedef struct group_norm_work {
    const group_norm_saved *saved;
    const float *x, *g, *gamma, *beta; /* gamma and beta may be NULL */
    float *y;                          /* or dx, which may be NULL */
    float *sums;                       /* (batch, 2, n): sums of g h and of g */
    float *memory;                     /* (parts, BUFFERS, width) */
    float epsilon;
    bool add;
} group_norm_work;

static float gamma_of(const group_norm_work *w, int64_t channel) {
    return w->gamma ? w->gamma[channel] : 1.0f;
}

/* Repeats the first n of each of count buffers. */
static void repeat_channels(const group_norm_saved *s, int count, float *buffers) {
    for (int b = 0; b < count; b++, buffers += s->width) {
        for (int64_t i = s->n; i < s->width; i++) {
            buffers[i] = buffers[i - s->n];
        }
    }
}

/* Mean and 1 / deviation of a group, out of those of its channels, which have as many rows each. */
static void group_stats(const group_norm_work *w, int64_t group, const float *mean,
                        const float *squares, float stats[2]) {
    const group_norm_saved *s = w->saved;
    double sum = 0, deviations = 0;
    for (int64_t start = group * s->own; start < s->width; start += s->n) {
        for (int64_t i = start; i < start + s->own; i++) {
            sum += (double)mean[i];
        }
    }
    double centre = sum / (double)(s->own * s->fold);
    for (int64_t start = group * s->own; start < s->width; start += s->n) {
        for (int64_t i = start; i < start + s->own; i++) {
            double away = (double)mean[i] - centre;
            deviations += (double)squares[i] + (double)s->rows * away * away;
        }
    }
    double variance = deviations / (double)(s->own * s->fold * s->rows);
    stats[0] = (float)centre;
    stats[1] = 1.0f / sqrtf((float)variance + w->epsilon);
}

static void group_normalization_forward_part(void *context, int part, int64_t begin, int64_t end) {
    const group_norm_work *w = context;
    const group_norm_saved *s = w->saved;
    int64_t size = s->rows * s->width;
    float *mean = w->memory + BUFFERS * part * s->width, *factor = mean + s->width;
    float *offset = factor + s->width, *means = offset + s->width, *squares = means + s->width;
    for (int64_t example = begin; example < end; example++) {
        const float *x = w->x + example * size;
        float *stats = s->stats + 2 * example * s->groups;
        td__kernels()->channel_moments(s->rows, s->width, x, means, squares);
        for (int64_t group = 0; group < s->groups; group++) {
            group_stats(w, group, means, squares, stats + 2 * group);
        }
        for (int64_t c = 0; c < s->n; c++) {
            const float *own = stats + 2 * (c / s->own);
            mean[c] = own[0];
            factor[c] = own[1] * gamma_of(w, c);
            offset[c] = w->beta ? w->beta[c] : 0.0f;
        }
        repeat_channels(s, 3, mean);
        td__kernels()->channel_scale(size, s->width, x, mean, factor, offset,
                                     w->y + example * size);
    }
}

/* Sums of g h and of g for each channel of an example, its copies put together. */
static void example_sums(const group_norm_saved *s, const float *stats, const float *of_g,
                         const float *of_gx, float *sums) {
    for (int64_t c = 0; c < s->n; c++) {
        double sum = 0, product = 0;
        for (int64_t i = c; i < s->width; i += s->n) {
            sum += (double)of_g[i];
            product += (double)of_gx[i];
        }
        sums[c] = (float)(product * (double)stats[2 * (c / s->own) + 1]);
        sums[s->n + c] = (float)sum;
    }
}

/* dx = g factor + (x - mean) slope + offset for the channels of a group. */
static void group_factors(const group_norm_work *w, int64_t group, float scale, const float *sums,
                          float *factor, float *slope, float *offset) {
    const group_norm_saved *s = w->saved;
    int64_t first = group * s->own, count = s->own * s->fold * s->rows;
    double sum = 0, along = 0;
    for (int64_t c = first; c < first + s->own; c++) {
        along += (double)sums[c] * (double)gamma_of(w, c);
        sum += (double)sums[s->n + c] * (double)gamma_of(w, c);
    }
    /* One element is its own mean: its gradient is 0, not what rounding leaves of e - e. */
    float whole = count == 1 ? 0.0f : scale;
    for (int64_t c = first; c < first + s->own; c++) {
        factor[c] = whole * gamma_of(w, c);
        slope[c] = -whole * scale * (float)(along / (double)count);
        offset[c] = -whole * (float)(sum / (double)count);
    }
}

static void group_normalization_backward_part(void *context, int part, int64_t begin, int64_t end) {
    const group_norm_work *w = context;
    const group_norm_saved *s = w->saved;
    int64_t size = s->rows * s->width;
    float *mean = w->memory + BUFFERS * part * s->width, *factor = mean + s->width;
    float *slope = factor + s->width, *offset = slope + s->width;
    float *of_g = offset + s->width, *of_gx = of_g + s->width;
    for (int64_t example = begin; example < end; example++) {
        const float *x = w->x + example * size, *g = w->g + example * size;
        const float *stats = s->stats + 2 * example * s->groups;
        float *sums = w->sums + 2 * example * s->n;
        for (int64_t i = 0; i < s->width; i++) {
            mean[i] = stats[2 * (i % s->n / s->own)];
        }
        td__kernels()->channel_sums(s->rows, s->width, x, mean, g, of_g, of_gx);
        example_sums(s, stats, of_g, of_gx, sums);
        if (w->y) {
            for (int64_t group = 0; group < s->groups; group++) {
                group_factors(w, group, stats[2 * group + 1], sums, factor, slope, offset);
            }
            repeat_channels(s, 3, factor);
            td__kernels()->channel_backward(size, s->width, x, g, mean, factor, slope, offset,
                                            w->add, w->y + example * size);
        }
    }
}

/* Adds up the examples' sums of one parameter. */
static td_status add_examples(td_tape *tape, td__node *node, int32_t i, const float *sums) {
    const group_norm_saved *s = node->saved;
    if (!td__wants(tape, node, i)) {
        return TD_OK;
    }
    bool add;
    float *d = td__gradient(tape, node, i, &add);
    for (int64_t c = 0; d && c < s->n; c++) {
        double sum = add ? (double)d[c] : 0;
        for (int64_t example = 0; example < s->batch; example++) {
            sum += (double)sums[2 * example * s->n + c];
        }
        d[c] = (float)sum;
    }
    return d ? TD_OK : TD_MEMORY;
}

static int64_t minimum_of(const group_norm_saved *s) {
    return TD__GRAIN / (s->rows * s->width + 1) + 1;
}

static td_status group_norm_backward(td_tape *tape, td__node *node) {
    const group_norm_saved *s = node->saved;
    const td_tensor *gamma = node->inputs[1].tensor;
    size_t sums = (size_t)(2 * s->batch * s->n);
    size_t rest = (size_t)(BUFFERS * s->width * td_threads());
    td__buffer *memory = td__temporary(tape, (sums + rest) * sizeof(float));
    if (!memory) {
        return TD_MEMORY;
    }
    group_norm_work work = {.saved = s,
                            .x = td__floats(node->inputs[0].tensor),
                            .g = td__output_gradient(tape, node),
                            .gamma = gamma ? td__floats(gamma) : NULL,
                            .sums = memory->data,
                            .memory = memory->data + sums};
    bool wanted = td__wants(tape, node, 0);
    work.y = wanted ? td__gradient_in_place(tape, node, 0, &work.add) : NULL;
    td_status status = wanted && !work.y ? TD_MEMORY : TD_OK;
    if (!status) {
        td__parallel(s->batch, 1, minimum_of(s), group_normalization_backward_part, &work);
        status = add_examples(tape, node, 1, work.sums);
        status = status ? status : add_examples(tape, node, 2, work.sums + s->n);
    }
    td__buffer_drop(tape, memory);
    return status;
}

static const td__op group_norm_op = {.name = "group_normalization",
                                     .backward = group_norm_backward};

static group_norm_saved *begin_group_norm(td_tape *tape, const td_tensor *x, int64_t groups) {
    group_norm_saved *s = td__scratch(tape, sizeof *s);
    if (!s) {
        return NULL;
    }
    int64_t n = x->shape.dims[x->shape.rank - 1], batch = x->count ? x->shape.dims[0] : 0;
    int64_t pixels = batch ? x->count / batch / n : 0;
    *s = (group_norm_saved){.batch = batch, .n = n, .groups = groups, .own = n / groups, .fold = 1};
    while (2 * s->fold * n <= WIDE && pixels % (2 * s->fold) == 0 && pixels) {
        s->fold *= 2;
    }
    s->width = s->fold * n;
    s->rows = pixels / s->fold;
    s->stats = td__scratch(tape, (size_t)(2 * batch * groups) * sizeof(float));
    return s->stats ? s : NULL;
}

td_tensor *td__group_normalization(td_tape *tape, td_tensor *x, int64_t groups, td_tensor *gamma,
                                   td_tensor *beta, float epsilon) {
    if (!td__check_float(tape, "group_normalization", "input", x)) {
        return NULL;
    }
    td_tensor *y = td__output(tape, TD_FLOAT32, &x->shape);
    group_norm_saved *saved = y ? begin_group_norm(tape, x, groups) : NULL;
    td__buffer *memory =
        saved ? td__temporary(tape, (size_t)(BUFFERS * saved->width * td_threads()) * sizeof(float))
              : NULL;
    if (!memory) {
        return NULL;
    }
    group_norm_work work = {.saved = saved,
                            .x = td__floats(x),
                            .gamma = gamma ? td__floats(gamma) : NULL,
                            .beta = beta ? td__floats(beta) : NULL,
                            .y = td__floats(y),
                            .memory = memory->data,
                            .epsilon = epsilon};
    td__parallel(saved->batch, 1, minimum_of(saved), group_normalization_forward_part, &work);
    td__buffer_drop(tape, memory);
    return td__record(tape, &group_norm_op, y, 3, (td_tensor *[]){x, gamma, beta}, saved);
}
