/* ATen's operators as those of ONNX: layers with windows, normalisation, images. */
#include "exported/convert.h"

#include <math.h>
#include <string.h>

#define SELF(call) td__aten_value(call, "self")

/* --- windows ------------------------------------------------------------------------------ */

/* `axes` numbers of an argument, one for all axes where it has one. */
static bool spread(td__aten_call *call, const char *name, size_t axes, int64_t fallback,
                   int64_t out[TD_MAX_RANK]) {
    size_t count = td__aten_ints(call, name, out);
    if (count != 0 && count != 1 && count != axes) {
        (void)td__operator_refuse(call->to, "%s", name);
        return false;
    }
    for (size_t i = count; i < axes; i++) {
        out[i] = count ? out[0] : fallback;
    }
    return true;
}

/* Of convolutions and pools; the padding is the same on both sides. */
typedef struct window {
    size_t axes;
    int64_t strides[TD_MAX_RANK], dilations[TD_MAX_RANK], pads[2 * TD_MAX_RANK];
    int64_t more[TD_MAX_RANK];
} window;

static bool read_window(td__aten_call *call, size_t axes, const int64_t *kernel, window *w) {
    w->axes = axes;
    const char *words = td__aten_text(call, "padding");
    bool good = spread(call, "stride", axes, 1, w->strides) &&
                spread(call, "dilation", axes, 1, w->dilations) &&
                spread(call, "output_padding", axes, 0, w->more) &&
                (words || spread(call, "padding", axes, 0, w->pads));
    for (size_t i = 0; good && i < axes; i++) {
        if (words) {
            int64_t all = strcmp(words, "same") ? 0 : w->dilations[i] * (kernel[i] - 1);
            w->pads[i] = all / 2;
            w->pads[i + axes] = all - all / 2;
        } else {
            w->pads[i + axes] = w->pads[i];
        }
    }
    return good;
}

static const char *convolve(td__aten_call *call) {
    td_shape weight;
    window w;
    if (td__aten_shape(call, "weight", &weight) < 3 ||
        !read_window(call, (size_t)weight.rank - 2, weight.dims + 2, &w)) {
        return NULL;
    }
    td__attribute attributes[5] = {TD__NAMED_INTS("strides", w.strides, w.axes),
                                   TD__NAMED_INTS("dilations", w.dilations, w.axes),
                                   TD__NAMED_INTS("pads", w.pads, 2 * w.axes),
                                   TD__NAMED_INT("group", td__aten_int(call, "groups", 1)),
                                   TD__NAMED_INTS("output_padding", w.more, w.axes)};
    const char *inputs[3] = {td__aten_value(call, "input"), td__aten_value(call, "weight")};
    size_t count = 2;
    if (td__aten_argument(call, "bias")) {
        inputs[count++] = td__aten_value(call, "bias");
    }
    bool turned = !strcmp(call->row->word, "ConvTranspose");
    return td__operator(call->to, call->row->word, count, inputs, turned ? 5 : 4, attributes);
}

static const char *pool(td__aten_call *call) {
    int64_t kernel[TD_MAX_RANK];
    td_shape shape;
    window w;
    const char *x = SELF(call);
    int32_t rank = td__aten_shape(call, "self", &shape);
    size_t axes = rank > 2 ? (size_t)rank - 2 : 0;
    if (!axes || !spread(call, "kernel_size", axes, 1, kernel) ||
        !read_window(call, axes, kernel, &w)) {
        return td__operator_refuse(call->to, "without a batch");
    }
    bool average = !strcmp(call->row->word, "AveragePool");
    if (average && td__aten_argument(call, "divisor_override")) {
        return td__operator_refuse(call->to, "a divisor of its own");
    }
    int64_t given[TD_MAX_RANK];
    if (td__aten_ints(call, "stride", given) == 0) {
        memcpy(w.strides, kernel, sizeof kernel);
    }
    const json_t *padded = td__aten_argument(call, "count_include_pad");
    td__attribute attributes[5] = {TD__NAMED_INTS("kernel_shape", kernel, axes),
                                   TD__NAMED_INTS("strides", w.strides, axes),
                                   TD__NAMED_INTS("pads", w.pads, 2 * axes),
                                   TD__NAMED_INT("ceil_mode", td__aten_bool(call, "ceil_mode"))};
    attributes[4] = average ? TD__NAMED_INT("count_include_pad",
                                            !padded || td__aten_bool(call, "count_include_pad"))
                            : TD__NAMED_INTS("dilations", w.dilations, axes);
    return td__operator(call->to, call->row->word, 1, &x, 5, attributes);
}

/* 1 / n for each of the n places of the input, of which output place i is the mean: floor(i n / m) up to
 * ceil((i + 1) n / m); (m, n). */
static const char *mean_matrix(td__aten_call *call, int64_t n, int64_t m) {
    td__operators *to = call->to;
    td_shape places = {.rank = 2, .dims = {m, 1}};
    int64_t first[TD__ATEN_PARTS], end[TD__ATEN_PARTS];
    for (int64_t i = 0; i < m; i++) {
        first[i] = i * n / m;
        end[i] = ((i + 1) * n + m - 1) / m;
    }
    const char *at = TD__OPERATOR(
        to, "Range", TD__OPERATOR(to, "Squeeze", td__operator_integers(to, 1, (int64_t[]){0})),
        TD__OPERATOR(to, "Squeeze", td__operator_integers(to, 1, &n)),
        TD__OPERATOR(to, "Squeeze", td__operator_integers(to, 1, (int64_t[]){1})));
    const char *a = td__operator_integers(to, (size_t)m, first),
               *b = td__operator_integers(to, (size_t)m, end);
    a = td__operator_reshape(to, a, 2, places.dims);
    b = td__operator_reshape(to, b, 2, places.dims);
    const char *in = TD__OPERATOR(to, "And", TD__OPERATOR(to, "GreaterOrEqual", at, a),
                                  TD__OPERATOR(to, "Less", at, b));
    const char *count = td__aten_cast(call, TD__OPERATOR(to, "Sub", b, a), TD__ATEN_REAL);
    return TD__OPERATOR(to, "Div", td__aten_cast(call, in, TD__ATEN_REAL), count);
}

/* The sizes that are wanted, those of the input where they are None; false after a refusal. */
static bool adaptive_sizes(td__aten_call *call, td_shape *shape, int64_t size[TD_MAX_RANK],
                           size_t *count) {
    int32_t rank = td__aten_shape(call, "self", shape);
    *count = td__aten_ints(call, "output_size", size);
    if (rank < 0 || *count > TD_MAX_RANK || (int32_t)*count != rank - 2) {
        (void)td__operator_refuse(call->to,
                                  "without a batch, or to a size that is not in the file");
        return false;
    }
    return true;
}

/* Means over everything; of equal parts; otherwise of parts that overlap, as products along each axis. */
static const char *adaptive_average(td__aten_call *call) {
    td__operators *to = call->to;
    td_shape shape;
    int64_t size[TD_MAX_RANK], kernel[TD_MAX_RANK];
    size_t count;
    if (!adaptive_sizes(call, &shape, size, &count)) {
        return NULL;
    }
    bool one = true, divides = true, known = true;
    for (size_t i = 0; i < count; i++) {
        int64_t n = shape.dims[i + 2];
        one = one && size[i] == 1;
        known = known && n > 0 && size[i] > 0 && size[i] <= TD__ATEN_PARTS && n <= 4096;
        divides = divides && known && n % size[i] == 0;
        kernel[i] = divides ? n / size[i] : 1;
    }
    const char *x = SELF(call);
    if (one) {
        return TD__OPERATOR(to, "GlobalAveragePool", x);
    }
    if (divides) {
        td__attribute attributes[2] = {TD__NAMED_INTS("kernel_shape", kernel, count),
                                       TD__NAMED_INTS("strides", kernel, count)};
        return td__operator(to, "AveragePool", 1, &x, 2, attributes);
    }
    if (!known) {
        return td__operator_refuse(to, "of open axes, or too large");
    }
    for (size_t i = 0; i < count; i++) { /* the axis comes last, and goes back */
        int64_t order[TD_MAX_RANK], rank = shape.rank;
        for (int64_t k = 0; k < rank; k++) {
            order[k] = k == (int64_t)i + 2 ? rank - 1 : k == rank - 1 ? (int64_t)i + 2 : k;
        }
        const char *means = mean_matrix(call, shape.dims[i + 2], size[i]);
        means = td__operator_transpose(to, means, 2, (int64_t[]){1, 0});
        x = TD__OPERATOR(to, "MatMul", td__operator_transpose(to, x, (size_t)rank, order), means);
        x = td__operator_transpose(to, x, (size_t)rank, order);
    }
    return x;
}

/* Places of the largest are not given: few read them. */
static const char *adaptive_max(td__aten_call *call) {
    td_shape shape;
    int64_t size[TD_MAX_RANK], kernel[TD_MAX_RANK];
    size_t count;
    if (!adaptive_sizes(call, &shape, size, &count)) {
        return NULL;
    }
    const char *x = SELF(call);
    bool one = true;
    for (size_t i = 0; i < count; i++) {
        int64_t n = shape.dims[i + 2];
        one = one && size[i] == 1;
        kernel[i] = n > 0 && size[i] > 0 && n % size[i] == 0 ? n / size[i] : 0;
    }
    for (size_t i = 0; !one && i < count; i++) {
        if (!kernel[i]) {
            return td__operator_refuse(call->to, "to a size that does not divide the input's");
        }
    }
    td__attribute attributes[2] = {TD__NAMED_INTS("kernel_shape", kernel, count),
                                   TD__NAMED_INTS("strides", kernel, count)};
    return one ? TD__OPERATOR(call->to, "GlobalMaxPool", x)
               : td__operator(call->to, "MaxPool", 1, &x, 2, attributes);
}

/* --- normalisation, reductions ------------------------------------------------------------ */

/* An argument, or as many of that number. */
static const char *value_or(td__aten_call *call, const char *name, double number,
                            const td_shape *shape) {
    return td__aten_argument(call, name) ? td__aten_value(call, name)
                                         : td__aten_constant(call, number, shape);
}

static const char *batch_norm(td__aten_call *call) {
    td_shape channels;
    if (!td__aten_argument(call, "running_mean") ||
        td__aten_shape(call, "running_mean", &channels) < 0) {
        return td__operator_refuse(call->to, "without averages");
    }
    if (td__aten_bool(call, "training")) {
        return td__aten_refuse_training(call);
    }
    const char *inputs[5] = {td__aten_value(call, "input"), value_or(call, "weight", 1, &channels),
                             value_or(call, "bias", 0, &channels),
                             td__aten_value(call, "running_mean"),
                             td__aten_value(call, "running_var")};
    td__attribute numbers[2] = {
        TD__NAMED_REAL("epsilon", td__aten_real(call, "eps", 1e-5)),
        TD__NAMED_REAL("momentum", 1 - td__aten_real(call, "momentum", 0.1))};
    return td__operator(call->to, "BatchNormalization", 5, inputs, 2, numbers);
}

static bool normalized_shape(td__aten_call *call, td_shape *shape) {
    size_t axes = td__aten_ints(call, "normalized_shape", shape->dims);
    shape->rank = axes <= TD_MAX_RANK ? (int32_t)axes : 0;
    return shape->rank > 0;
}

static const char *layer_norm(td__aten_call *call) {
    td_shape shape;
    if (!normalized_shape(call, &shape)) {
        return NULL;
    }
    const char *inputs[3] = {td__aten_value(call, "input"), value_or(call, "weight", 1, &shape)};
    size_t count = 2;
    if (td__aten_argument(call, "bias")) {
        inputs[count++] = td__aten_value(call, "bias");
    }
    td__attribute numbers[2] = {TD__NAMED_REAL("epsilon", td__aten_real(call, "eps", 1e-5)),
                                TD__NAMED_INT("axis", -(int64_t)shape.rank)};
    return td__operator(call->to, "LayerNormalization", count, inputs, 2, numbers);
}

/* x / sqrt(mean x^2 + epsilon) times the weight */
static const char *rms_norm(td__aten_call *call) {
    td__operators *to = call->to;
    td_shape shape;
    int64_t axes[TD_MAX_RANK];
    if (!normalized_shape(call, &shape)) {
        return NULL;
    }
    for (int32_t i = 0; i < shape.rank; i++) {
        axes[i] = i - shape.rank;
    }
    const char *x = td__aten_value(call, "input"), *square = TD__OPERATOR(to, "Mul", x, x);
    const char *mean = td__operator(to, "ReduceMean", 1, &square, 1,
                                    &TD__NAMED_INTS("axes", axes, (size_t)shape.rank));
    const char *epsilon = td__operator_number(to, td__aten_real(call, "eps", 1.1920929e-7));
    x = TD__OPERATOR(to, "Div", x,
                     TD__OPERATOR(to, "Sqrt", TD__OPERATOR(to, "Add", mean, epsilon)));
    return td__aten_argument(call, "weight")
               ? TD__OPERATOR(to, "Mul", x, td__aten_value(call, "weight"))
               : x;
}

/* y times the weight plus the bias, each of them one number for each channel. */
static const char *scale_channels(td__aten_call *call, const char *y, int32_t rank) {
    int64_t spread[TD_MAX_RANK];
    for (int32_t i = 0; i < rank - 1; i++) {
        spread[i] = i ? 1 : -1;
    }
    static const struct {
        const char *argument, *word;
    } steps[] = {{"weight", "Mul"}, {"bias", "Add"}};
    for (size_t i = 0; i < 2; i++) {
        if (td__aten_argument(call, steps[i].argument)) {
            const char *factor = td__operator_reshape(
                call->to, td__aten_value(call, steps[i].argument), (size_t)rank - 1, spread);
            y = TD__OPERATOR(call->to, steps[i].word, y, factor);
        }
    }
    return y;
}

/* Groups are the channels of what instance normalisation sees. */
static const char *group_norm(td__aten_call *call) {
    td__operators *to = call->to;
    td_shape shape;
    int32_t rank = td__aten_shape(call, "input", &shape);
    int64_t groups = td__aten_int(call, "num_groups", 1);
    if (rank < 2 || groups < 1) {
        return NULL;
    }
    const char *x = td__aten_value(call, "input");
    const char *inputs[3] = {td__operator_reshape(to, x, 3, (int64_t[]){0, groups, -1}),
                             td__operator_filled(to, groups, 1),
                             td__operator_filled(to, groups, 0)};
    td__attribute epsilon = TD__NAMED_REAL("epsilon", td__aten_real(call, "eps", 1e-5));
    const char *y = td__operator(to, "InstanceNormalization", 3, inputs, 1, &epsilon);
    y = TD__OPERATOR(to, "Reshape", y, TD__OPERATOR(to, "Shape", x));
    return scale_channels(call, y, rank);
}

static const char *instance_norm(td__aten_call *call) {
    td_shape shape;
    if (td__aten_shape(call, "input", &shape) < 3 || shape.dims[1] < 1 ||
        !td__aten_bool(call, "use_input_stats")) {
        return td__operator_refuse(call->to, "by averages, or of open channels");
    }
    td_shape channels = TD_SHAPE(shape.dims[1]);
    const char *inputs[3] = {td__aten_value(call, "input"), value_or(call, "weight", 1, &channels),
                             value_or(call, "bias", 0, &channels)};
    td__attribute epsilon = TD__NAMED_REAL("epsilon", td__aten_real(call, "eps", 1e-5));
    return td__operator(call->to, "InstanceNormalization", 3, inputs, 1, &epsilon);
}

/* v g / |v|, the norm over all axes but one. */
static const char *weight_norm(td__aten_call *call) {
    td__operators *to = call->to;
    td_shape shape;
    int64_t axes[TD_MAX_RANK];
    int32_t rank = td__aten_shape(call, "v", &shape);
    int64_t kept = td__aten_axis(call, "v", td__aten_int(call, "dim", 0));
    size_t count = 0;
    for (int32_t i = 0; i < rank; i++) {
        if (i != kept) {
            axes[count++] = i;
        }
    }
    const char *v = td__aten_value(call, "v");
    const char *inputs[2] = {TD__OPERATOR(to, "Mul", v, v), td__operator_integers(to, count, axes)};
    const char *norm = TD__OPERATOR(to, "Sqrt", td__operator(to, "ReduceSum", 2, inputs, 0, NULL));
    return kept < 0 ? NULL
                    : TD__OPERATOR(to, "Mul", v,
                                   TD__OPERATOR(to, "Div", td__aten_value(call, "g"), norm));
}

static const char *embedding(td__aten_call *call) {
    return TD__OPERATOR(call->to, "Gather", td__aten_value(call, "weight"),
                        td__aten_value(call, "indices"));
}

/* --- images ------------------------------------------------------------------------------- */

/* The shape of the output; false: how many pixels it has is open. */
static bool made_pixels(const td__aten_call *call, td_shape *made) {
    const char *name = json_string_value(td__aten_output_at(call, 0));
    bool known = name && td__aten_read_sizes(json_object_get(call->tensors, name), made);
    for (int32_t i = 2; known && i < made->rank; i++) {
        known = made->dims[i] > 0;
    }
    return known;
}

/* To a size, or by factors, of which the places are computed as PyTorch does. */
static const char *upsample(td__aten_call *call) {
    td__operators *to = call->to;
    td_shape shape;
    const char *which = td__aten_argument(call, "input") ? "input" : "self";
    int32_t rank = td__aten_shape(call, which, &shape);
    bool corners = td__aten_bool(call, "align_corners"), nearest = *call->row->word == 'n';
    td__attribute attributes[4] = {
        TD__NAMED_TEXT("mode", call->row->word),
        TD__NAMED_TEXT("coordinate_transformation_mode", nearest   ? "asymmetric"
                                                         : corners ? "align_corners"
                                                                   : "half_pixel"),
        TD__NAMED_TEXT("nearest_mode", "floor"), TD__NAMED_REAL("cubic_coeff_a", -0.75)};
    const char *inputs[4] = {td__aten_value(call, which), "", ""};
    const json_t *factors = json_object_get(td__aten_argument(call, "scale_factors"), "as_floats");
    size_t count = rank > 2 ? (size_t)rank - 2 : 0;
    if (!count) {
        return td__operator_refuse(to, "without a batch");
    }
    td_shape made;
    bool whole = true, by_factors = json_array_size(factors) == count;
    for (size_t i = 0; by_factors && i < count; i++) {
        double factor = json_number_value(json_array_get(factors, i));
        whole = whole && factor == floor(factor);
    }
    bool by_size = by_factors && corners && !whole; /* the last pixel is where the size says */
    if (by_size && !made_pixels(call, &made)) {
        return td__operator_refuse(to, "of open sizes by factors that are not whole");
    }
    if (by_factors && !by_size) {
        const char *scales[TD_MAX_RANK], *one = td__operator_number(to, 1);
        for (size_t i = 0; i < count + 2; i++) {
            double factor = json_number_value(json_array_get(factors, i < 2 ? 0 : i - 2));
            scales[i] = TD__OPERATOR(to, "Unsqueeze", i < 2 ? one : td__operator_number(to, factor),
                                     td__operator_integers(to, 1, (int64_t[]){0}));
        }
        inputs[2] = td__operator(to, "Concat", count + 2, scales, 1, &TD__NAMED_INT("axis", 0));
        return td__operator(to, "Resize", 3, inputs, 4, attributes);
    }
    const char *first = TD__OPERATOR(to, "Slice", TD__OPERATOR(to, "Shape", inputs[0]),
                                     td__operator_integers(to, 1, (int64_t[]){0}),
                                     td__operator_integers(to, 1, (int64_t[]){2}));
    const char *both[2] = {
        first, by_size ? td__operator_integers(to, count, made.dims + 2)
                       : td__aten_sizes(call, td__aten_argument(call, "output_size") ? "output_size"
                                                                                     : "size")};
    inputs[3] = td__operator(to, "Concat", 2, both, 1, &TD__NAMED_INT("axis", 0));
    return td__operator(to, "Resize", 4, inputs, 4, attributes);
}

static const char *pixel_shuffle(td__aten_call *call) {
    const char *x = SELF(call);
    td__attribute attributes[2] = {
        TD__NAMED_INT("blocksize", td__aten_int(call, "upscale_factor", 1)),
        TD__NAMED_TEXT("mode", "CRD")};
    return td__operator(call->to, "DepthToSpace", 1, &x, 2, attributes);
}

/* (n, c, h r, w r) as (n, c r r, h, w) */
static const char *pixel_unshuffle(td__aten_call *call) {
    td__operators *to = call->to;
    td_shape s;
    int64_t r = td__aten_int(call, "downscale_factor", 1);
    if (td__aten_shape(call, "self", &s) != 4 || r < 1 || s.dims[1] < 1 || s.dims[2] < 1 ||
        s.dims[3] < 1 || r > s.dims[2]) {
        return td__operator_refuse(to, "of open axes");
    }
    int64_t h = s.dims[2] / r, w = s.dims[3] / r;
    const char *x = td__operator_reshape(to, SELF(call), 6, (int64_t[]){-1, s.dims[1], h, r, w, r});
    x = td__operator_transpose(to, x, 6, (int64_t[]){0, 1, 3, 5, 2, 4});
    return td__operator_reshape(to, x, 4, (int64_t[]){-1, s.dims[1] * r * r, h, w});
}

static const char *pad(td__aten_call *call) {
    td__operators *to = call->to;
    td_shape shape;
    int64_t pads[TD_MAX_RANK] = {0}, all[2 * TD_MAX_RANK] = {0};
    const char *mode = td__aten_text(call, "mode"), *word = "constant";
    static const struct {
        const char *theirs, *ours;
    } modes[] = {{"reflect", "reflect"}, {"replicate", "edge"}, {"circular", "wrap"}};
    int32_t rank = td__aten_shape(call, "self", &shape);
    size_t count = td__aten_ints(call, td__aten_argument(call, "pad") ? "pad" : "padding", pads);
    if (rank < 0 || count > TD_MAX_RANK || count > 2 * (size_t)rank || count % 2) {
        return td__operator_refuse(to, "its borders");
    }
    mode = *call->row->word != 'P' ? call->row->word : mode;
    for (size_t i = 0; mode && i < 3; i++) {
        word = strcmp(mode, modes[i].theirs) ? word : modes[i].ours;
    }
    for (size_t i = 0; i < count; i++) { /* from the last axis on */
        size_t axis = (size_t)rank - 1 - i / 2;
        all[axis + (i % 2) * (size_t)rank] = pads[i];
        if (pads[i] < 0 && !strcmp(word, "wrap")) {
            return td__operator_refuse(to, "circular, of less than there is");
        }
    }
    td__aten_kind kind = td__aten_made_kind(call);
    bool given = td__aten_argument(call, "value");
    const char *number = given ? td__aten_as(call, "value", kind)
                         : kind == TD__ATEN_REAL
                             ? td__operator_number(to, 0)
                             : td__aten_cast(call, td__operator_number(to, 0), kind);
    const char *inputs[3] = {SELF(call), td__operator_integers(to, 2 * (size_t)rank, all), number};
    return td__operator(to, "Pad", strcmp(word, "constant") ? 2 : 3, inputs, 1,
                        &TD__NAMED_TEXT("mode", word));
}

/* --- the table ---------------------------------------------------------------------------- */

const td__aten_operator td__aten_layers[] = {
    {"aten._weight_norm.default", weight_norm, NULL},
    {"aten.adaptive_avg_pool1d.default", adaptive_average, NULL},
    {"aten.adaptive_avg_pool2d.default", adaptive_average, NULL},
    {"aten.adaptive_avg_pool3d.default", adaptive_average, NULL},
    {"aten.adaptive_max_pool1d.default", adaptive_max, NULL},
    {"aten.adaptive_max_pool2d.default", adaptive_max, NULL},
    {"aten.adaptive_max_pool3d.default", adaptive_max, NULL},
    {"aten.avg_pool1d.default", pool, "AveragePool"},
    {"aten.avg_pool2d.default", pool, "AveragePool"},
    {"aten.avg_pool3d.default", pool, "AveragePool"},
    {"aten.batch_norm.default", batch_norm, NULL},
    {"aten.constant_pad_nd.default", pad, "Pad"},
    {"aten.conv1d.default", convolve, "Conv"},
    {"aten.conv1d.padding", convolve, "Conv"},
    {"aten.conv2d.default", convolve, "Conv"},
    {"aten.conv2d.padding", convolve, "Conv"},
    {"aten.conv3d.default", convolve, "Conv"},
    {"aten.conv3d.padding", convolve, "Conv"},
    {"aten.conv_transpose1d.default", convolve, "ConvTranspose"},
    {"aten.conv_transpose2d.input", convolve, "ConvTranspose"},
    {"aten.conv_transpose3d.input", convolve, "ConvTranspose"},
    {"aten.embedding.default", embedding, NULL},
    {"aten.group_norm.default", group_norm, NULL},
    {"aten.instance_norm.default", instance_norm, NULL},
    {"aten.layer_norm.default", layer_norm, NULL},
    {"aten.max_pool1d.default", pool, "MaxPool"},
    {"aten.max_pool2d.default", pool, "MaxPool"},
    {"aten.max_pool2d_with_indices.default", pool, "MaxPool"},
    {"aten.max_pool3d.default", pool, "MaxPool"},
    {"aten.max_pool3d_with_indices.default", pool, "MaxPool"},
    {"aten.pad.default", pad, "Pad"},
    {"aten.pixel_shuffle.default", pixel_shuffle, NULL},
    {"aten.pixel_unshuffle.default", pixel_unshuffle, NULL},
    {"aten.reflection_pad1d.default", pad, "reflect"},
    {"aten.reflection_pad2d.default", pad, "reflect"},
    {"aten.replication_pad1d.default", pad, "replicate"},
    {"aten.replication_pad2d.default", pad, "replicate"},
    {"aten.rms_norm.default", rms_norm, NULL},
    {"aten.upsample_bicubic2d.vec", upsample, "cubic"},
    {"aten.upsample_bilinear2d.vec", upsample, "linear"},
    {"aten.upsample_linear1d.vec", upsample, "linear"},
    {"aten.upsample_nearest1d.vec", upsample, "nearest"},
    {"aten.upsample_nearest2d.vec", upsample, "nearest"},
    {"aten.upsample_nearest3d.vec", upsample, "nearest"},
    {"aten.upsample_trilinear3d.vec", upsample, "linear"},
    {0},
};
