/* Pooling and up-sampling */
#include "gradient/op_table.h"

static td_tensor *build_max_pool2d(td_tape *tape, td_tensor *const in[], const void *options) {
    return td_max_pool2d(tape, in[0], options);
}
static td_tensor *build_average_pool2d(td_tape *tape, td_tensor *const in[], const void *options) {
    return td_average_pool2d(tape, in[0], options);
}
static td_tensor *build_global_max_pool2d(td_tape *tape, td_tensor *const in[],
                                          const void *options) {
    (void)options;
    return td_global_max_pool2d(tape, in[0]);
}
static td_tensor *build_global_average_pool2d(td_tape *tape, td_tensor *const in[],
                                              const void *options) {
    (void)options;
    return td_global_average_pool2d(tape, in[0]);
}

/* One output element: the taps of its window, one by one; those outside are passed over. */
static double pooled(const op_array *x, int64_t image, int64_t channel, const int64_t top_left[2],
                     const int64_t window[2], bool largest) {
    const int64_t *dims = x->shape.dims;
    double most = -INFINITY, sum = 0, count = 0;
    for (int64_t r = top_left[0]; r < top_left[0] + window[0]; r++) {
        for (int64_t k = top_left[1]; k < top_left[1] + window[1]; k++) {
            if (r >= 0 && r < dims[1] && k >= 0 && k < dims[2]) {
                double v = x->values[((image * dims[1] + r) * dims[2] + k) * dims[3] + channel];
                most = fmax(most, v);
                sum += v;
                count++;
            }
        }
    }
    return largest ? most : sum / count;
}

static void pool(const op_array *x, op_array *y, const td_pool_options *options, bool largest) {
    const int64_t *out = y->shape.dims, *dims = x->shape.dims;
    int64_t window[2], stride[2], before[2];
    for (int a = 0; a < 2; a++) {
        window[a] = options && options->window[a] ? options->window[a] : 2;
        stride[a] = options && options->stride[a] ? options->stride[a] : window[a];
        int64_t over = (out[1 + a] - 1) * stride[a] + window[a] - dims[1 + a];
        before[a] = options && options->padding == TD_PADDING_SAME && over > 0 ? over / 2 : 0;
    }
    for (int64_t i = 0; i < y->count; i++) {
        int64_t c = i % out[3], k = i / out[3] % out[2], r = i / out[3] / out[2] % out[1];
        int64_t corner[2] = {r * stride[0] - before[0], k * stride[1] - before[1]};
        y->values[i] = pooled(x, i / out[3] / out[2] / out[1], c, corner, window, largest);
    }
}

static void max_pool2d(const op_array in[], op_array *out, const void *options) {
    pool(in, out, options, true);
}
static void average_pool2d(const op_array in[], op_array *out, const void *options) {
    pool(in, out, options, false);
}
static void global(const op_array *x, op_array *y, bool largest) {
    for (int64_t i = 0; i < y->count; i++) {
        int64_t channels = y->shape.dims[1];
        y->values[i] =
            pooled(x, i / channels, i % channels, (int64_t[]){0, 0}, x->shape.dims + 1, largest);
    }
}
static void global_max_pool2d(const op_array in[], op_array *out, const void *options) {
    (void)options;
    global(in, out, true);
}
static void global_average_pool2d(const op_array in[], op_array *out, const void *options) {
    (void)options;
    global(in, out, false);
}

#define SIZE .size = sizeof(td_pool_options)
static const td_pool_options same = {SIZE, .padding = TD_PADDING_SAME};
static const td_pool_options overlapping = {SIZE, .window = {3, 3}, .stride = {2, 2}};
static const td_pool_options overlapping_same = {SIZE, .window = {3, 2}, .stride = {1, 1},
                                                 .padding = TD_PADDING_SAME};
static const td_pool_options gaps = {SIZE, .window = {2, 1}, .stride = {3, 2}};
static const td_pool_options large = {SIZE, .window = {17, 17}, .stride = {1, 1}};
static const td_pool_options causal = {SIZE, .padding = TD_PADDING_CAUSAL};
static const td_pool_options negative = {SIZE, .window = {2, -1}};

#define CASE(op, what, options_, x, y)                                                             \
    {                                                                                              \
        .name = #op ", " what, .inputs = {{.shape = TD_SHAPE x, .distinct = true}},                \
        .output = TD_SHAPE y, .build = build_##op, .reference = op, .options = options_            \
    }
#define BOTH(what, options_, x, y)                                                                 \
    CASE(max_pool2d, what, options_, x, y), CASE(average_pool2d, what, options_, x, y)

/* up_sampling2d */
typedef struct up_sampling {
    int64_t factor[2];
    td_interpolation interpolation;
} up_sampling;

static td_tensor *build_up_sampling2d(td_tape *tape, td_tensor *const in[], const void *options) {
    const up_sampling *o = options;
    return td_up_sampling2d(tape, in[0], o->factor, o->interpolation);
}

/* The value at a place between pixels: neighbours outside the image are its border. */
static double between(const op_array *x, int64_t image, double r, double k, int64_t channel) {
    const int64_t *dims = x->shape.dims;
    double sum = 0;
    for (int64_t i = 0; i < dims[1]; i++) {
        for (int64_t j = 0; j < dims[2]; j++) {
            double row = fmin(fmax(r, 0), (double)(dims[1] - 1));
            double column = fmin(fmax(k, 0), (double)(dims[2] - 1));
            double weight =
                fmax(0, 1 - fabs(row - (double)i)) * fmax(0, 1 - fabs(column - (double)j));
            sum += weight * x->values[((image * dims[1] + i) * dims[2] + j) * dims[3] + channel];
        }
    }
    return sum;
}

static void up_sampling2d(const op_array in[], op_array *out, const void *options) {
    const up_sampling *o = options;
    const int64_t *dims = out->shape.dims;
    for (int64_t i = 0; i < out->count; i++) {
        int64_t c = i % dims[3], k = i / dims[3] % dims[2], r = i / dims[3] / dims[2] % dims[1];
        double place[2] = {((double)r + 0.5) / (double)o->factor[0] - 0.5,
                           ((double)k + 0.5) / (double)o->factor[1] - 0.5};
        if (o->interpolation == TD_NEAREST) {
            place[0] = (double)(r / o->factor[0]);
            place[1] = (double)(k / o->factor[1]);
        }
        out->values[i] = between(in, i / dims[3] / dims[2] / dims[1], place[0], place[1], c);
    }
}

static const up_sampling nearest = {{2, 3}, TD_NEAREST}, unchanged = {{1, 1}, TD_BILINEAR};
static const up_sampling bilinear = {{2, 2}, TD_BILINEAR}, bilinear_odd = {{3, 5}, TD_BILINEAR};
static const up_sampling nowhere = {{2, 0}, TD_NEAREST};

static const op_case cases[] = {
    BOTH("2x2", NULL, (2, 4, 6, 3), (2, 2, 3, 3)),
    BOTH("one pixel", NULL, (1, 2, 2, 1), (1, 1, 1, 1)),
    BOTH("rest left over", NULL, (2, 5, 7, 19), (2, 2, 3, 19)),
    BOTH("vectors of channels", NULL, (5, 8, 8, 40), (5, 4, 4, 40)),
    BOTH("same", &same, (2, 5, 7, 3), (2, 3, 4, 3)),
    BOTH("overlapping", &overlapping, (2, 7, 9, 17), (2, 3, 4, 17)),
    BOTH("overlapping, same", &overlapping_same, (2, 5, 4, 3), (2, 5, 4, 3)),
    BOTH("gaps", &gaps, (2, 8, 7, 2), (2, 3, 4, 2)),
    BOTH("large window", &large, (1, 18, 17, 18), (1, 2, 1, 18)),
    BOTH("no images", NULL, (0, 4, 4, 2), (0, 2, 2, 2)),
    CASE(global_max_pool2d, "small", NULL, (3, 2, 4, 5), (3, 5)),
    CASE(global_max_pool2d, "large", NULL, (2, 19, 17, 33), (2, 33)),
    CASE(global_average_pool2d, "small", NULL, (3, 2, 4, 5), (3, 5)),
    CASE(global_average_pool2d, "large", NULL, (2, 19, 17, 33), (2, 33)),
    CASE(up_sampling2d, "nearest", &nearest, (2, 3, 4, 5), (2, 6, 12, 5)),
    CASE(up_sampling2d, "nearest, vectors", &nearest, (2, 3, 4, 33), (2, 6, 12, 33)),
    CASE(up_sampling2d, "bilinear", &bilinear, (2, 3, 4, 5), (2, 6, 8, 5)),
    CASE(up_sampling2d, "bilinear, odd", &bilinear_odd, (2, 2, 3, 3), (2, 6, 15, 3)),
    CASE(up_sampling2d, "bilinear, one pixel", &bilinear, (1, 1, 1, 2), (1, 2, 2, 2)),
    CASE(up_sampling2d, "bilinear, unchanged", &unchanged, (2, 3, 2, 2), (2, 3, 2, 2)),
};

#define MISTAKE(op, what, options_, x, status_, text_)                                             \
    {                                                                                              \
        .name = #op ", " what, .inputs = {{.shape = TD_SHAPE x}}, .build = build_##op,             \
        .options = options_, .status = status_, .text = text_                                      \
    }

static const op_mistake mistakes[] = {
    MISTAKE(max_pool2d, "no image", NULL, (4, 4, 3), TD_BAD_SHAPE,
            "max_pool2d: input (4, 4, 3) must be (batch, height, width, channels)"),
    MISTAKE(average_pool2d, "window too large", &overlapping, (1, 2, 5, 3), TD_BAD_SHAPE,
            "average_pool2d: window (3, 3) is larger than input (1, 2, 5, 3); use padding 'same' "
            "or a smaller window"),
    MISTAKE(max_pool2d, "causal", &causal, (1, 4, 4, 3), TD_INVALID,
            "max_pool2d: padding must be 'valid' or 'same'"),
    MISTAKE(max_pool2d, "negative window", &negative, (1, 4, 4, 3), TD_INVALID,
            "max_pool2d: window and stride must be positive, not -1 and 0"),
    MISTAKE(global_max_pool2d, "no pixels", NULL, (2, 0, 4, 3), TD_BAD_SHAPE,
            "global_max_pool2d: input (2, 0, 4, 3) has no pixels"),
    MISTAKE(global_average_pool2d, "no image", NULL, (2, 4), TD_BAD_SHAPE,
            "global_average_pool2d: input (2, 4) must be (batch, height, width, channels)"),
    MISTAKE(up_sampling2d, "no image", &nearest, (2, 4), TD_BAD_SHAPE,
            "up_sampling2d: input (2, 4) must be (batch, height, width, channels)"),
    MISTAKE(up_sampling2d, "factor zero", &nowhere, (1, 2, 4, 3), TD_INVALID,
            "up_sampling2d: input (1, 2, 4, 3) cannot become (2, 0) times as large"),
};

const op_group cases_pool = {OP_LIST(cases), OP_LIST(mistakes)};
