/* ATen's operators as those of ONNX. */
#include "exported/convert.h"

#include <math.h>
#include <string.h>

enum { MAX_PARTS = 256 };
#define SELF(call) td__aten_value(call, "self")

/* --- element-wise ------------------------------------------------------------------------- */

static const char *unary(td__aten_call *call) {
    return TD__OPERATOR(call->to, call->row->word, SELF(call));
}

static const char *pass(td__aten_call *call) {
    return td__aten_value(call, td__aten_argument(call, "self") ? "self" : "input");
}

/* other alpha, where that is given */
static const char *scaled(td__aten_call *call) {
    const char *other = td__aten_value(call, "other");
    double alpha = td__aten_real(call, "alpha", 1);
    return alpha == 1 ? other
                      : TD__OPERATOR(call->to, "Mul", other, td__operator_number(call->to, alpha));
}

static const char *binary(td__aten_call *call) {
    return TD__OPERATOR(call->to, call->row->word, SELF(call), scaled(call));
}

static const char *not_equal(td__aten_call *call) {
    return TD__OPERATOR(call->to, "Not", binary(call));
}

static const char *power(td__aten_call *call) {
    return TD__OPERATOR(call->to, "Pow", SELF(call), td__aten_value(call, "exponent"));
}

static const char *rsub(td__aten_call *call) {
    return TD__OPERATOR(call->to, "Sub", scaled(call), SELF(call));
}

static const char *rsqrt(td__aten_call *call) {
    return TD__OPERATOR(call->to, "Reciprocal", TD__OPERATOR(call->to, "Sqrt", SELF(call)));
}

static const char *silu(td__aten_call *call) {
    return td__operator_activation(call->to, SELF(call), TD_SWISH, TD_DEFAULT);
}

static const char *gelu(td__aten_call *call) {
    const char *how = td__aten_text(call, "approximate");
    return td__operator_activation(
        call->to, SELF(call), how && !strcmp(how, "tanh") ? TD_GELU_TANH : TD_GELU, TD_DEFAULT);
}

static const char *leaky_relu(td__aten_call *call) {
    const char *x = SELF(call);
    td__attribute alpha = TD__NAMED_REAL("alpha", td__aten_real(call, "negative_slope", 0.01));
    return td__operator(call->to, "LeakyRelu", 1, &x, 1, &alpha);
}

static const char *elu(td__aten_call *call) {
    const char *x = SELF(call);
    if (td__aten_real(call, "scale", 1) != 1 || td__aten_real(call, "input_scale", 1) != 1) {
        return td__operator_refuse(call->to, "a scale");
    }
    td__attribute alpha = TD__NAMED_REAL("alpha", td__aten_real(call, "alpha", 1));
    return td__operator(call->to, "Elu", 1, &x, 1, &alpha);
}

static const char *hardsigmoid(td__aten_call *call) {
    const char *x = SELF(call);
    td__attribute numbers[2] = {TD__NAMED_REAL("alpha", 1 / 6.0), TD__NAMED_REAL("beta", 0.5)};
    return td__operator(call->to, "HardSigmoid", 1, &x, 2, numbers);
}

static const char *limit(td__aten_call *call, double min, double max) {
    return TD__OPERATOR(call->to, "Clip", SELF(call), td__operator_number(call->to, min),
                        td__operator_number(call->to, max));
}

static const char *relu6(td__aten_call *call) {
    return limit(call, 0, 6);
}

static const char *hardtanh(td__aten_call *call) {
    return limit(call, td__aten_real(call, "min_val", -1), td__aten_real(call, "max_val", 1));
}

static const char *clamp(td__aten_call *call) {
    return limit(call, td__aten_real(call, "min", -HUGE_VAL), td__aten_real(call, "max", HUGE_VAL));
}

static const char *where(td__aten_call *call) {
    return TD__OPERATOR(call->to, "Where", td__aten_value(call, "condition"), SELF(call),
                        td__aten_value(call, "other"));
}

static const char *along(td__aten_call *call) {
    const char *x = SELF(call);
    td__attribute axis = TD__NAMED_INT("axis", td__aten_int(call, "dim", -1));
    return td__operator(call->to, call->row->word, 1, &x, 1, &axis);
}

/* --- products ----------------------------------------------------------------------------- */

/* x W^T + b; of plain rows one operator does it. */
static const char *linear(td__aten_call *call) {
    td__operators *to = call->to;
    td_shape shape;
    if (td__aten_shape(call, "input", &shape) == 2 && td__aten_argument(call, "bias")) {
        const char *inputs[3] = {td__aten_value(call, "input"), td__aten_value(call, "weight"),
                                 td__aten_value(call, "bias")};
        return td__operator(to, "Gemm", 3, inputs, 1, &TD__NAMED_INT("transB", 1));
    }
    const char *w =
        td__operator_transpose(to, td__aten_value(call, "weight"), 2, (int64_t[]){1, 0});
    const char *y = TD__OPERATOR(to, "MatMul", td__aten_value(call, "input"), w);
    return td__aten_argument(call, "bias")
               ? TD__OPERATOR(to, "Add", y, td__aten_value(call, "bias"))
               : y;
}

static const char *matrices(td__aten_call *call) {
    return TD__OPERATOR(call->to, "MatMul", SELF(call),
                        td__aten_value(call, td__aten_argument(call, "other") ? "other" : "mat2"));
}

static const char *addmm(td__aten_call *call) {
    const char *y = TD__OPERATOR(call->to, "MatMul", td__aten_value(call, "mat1"),
                                 td__aten_value(call, "mat2"));
    bool plain = td__aten_real(call, "alpha", 1) == 1 && td__aten_real(call, "beta", 1) == 1;
    return plain ? TD__OPERATOR(call->to, "Add", y, SELF(call))
                 : td__operator_refuse(call->to, "factors");
}

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

static const char *adaptive_average(td__aten_call *call) {
    int64_t size[TD_MAX_RANK];
    size_t count = td__aten_ints(call, "output_size", size);
    for (size_t i = 0; i < count && count <= TD_MAX_RANK; i++) {
        if (size[i] != 1) {
            return td__operator_refuse(call->to, "to another size than 1");
        }
    }
    return TD__OPERATOR(call->to, "GlobalAveragePool", SELF(call));
}

/* softmax(q k^T scale + mask) v */
static const char *attention(td__aten_call *call) {
    td__operators *to = call->to;
    td_shape q, k;
    int64_t order[TD_MAX_RANK];
    if (td__aten_shape(call, "query", &q) < 2 || td__aten_shape(call, "key", &k) < 2 ||
        q.dims[q.rank - 1] < 1 || td__aten_bool(call, "enable_gqa")) {
        return td__operator_refuse(to, "queries of any size, or heads that share keys");
    }
    for (int32_t i = 0; i < k.rank; i++) {
        order[i] = i < k.rank - 2 ? i : 2 * k.rank - 3 - i;
    }
    double scale = td__aten_real(call, "scale", 1 / sqrt((double)q.dims[q.rank - 1]));
    const char *turned =
        td__operator_transpose(to, td__aten_value(call, "key"), (size_t)k.rank, order);
    const char *scores = TD__OPERATOR(to, "MatMul", td__aten_value(call, "query"), turned);
    scores = TD__OPERATOR(to, "Mul", scores, td__operator_number(to, scale));
    if (td__aten_bool(call, "is_causal")) {
        scores = td__operator_causal(to, scores, q.rank);
    }
    const json_t *mask = td__aten_argument(call, "attn_mask");
    if (mask) {
        const char *given = td__aten_value(call, "attn_mask");
        const json_t *info = json_object_get(
            call->tensors,
            json_string_value(json_object_get(json_object_get(mask, "as_tensor"), "name")));
        bool truth = json_integer_value(json_object_get(info, "dtype")) == 12;
        scores = truth
                     ? TD__OPERATOR(to, "Where", given, scores, td__operator_number(to, -HUGE_VAL))
                     : TD__OPERATOR(to, "Add", scores, given);
    }
    const char *shares = td__operator(to, "Softmax", 1, &scores, 1, &TD__NAMED_INT("axis", -1));
    return TD__OPERATOR(to, "MatMul", shares, td__aten_value(call, "value"));
}

/* --- normalisation, reductions ------------------------------------------------------------ */

static const char *batch_norm(td__aten_call *call) {
    const char *inputs[5] = {td__aten_value(call, "input"), td__aten_value(call, "weight"),
                             td__aten_value(call, "bias"), td__aten_value(call, "running_mean"),
                             td__aten_value(call, "running_var")};
    td__attribute numbers[2] = {
        TD__NAMED_REAL("epsilon", td__aten_real(call, "eps", 1e-5)),
        TD__NAMED_REAL("momentum", 1 - td__aten_real(call, "momentum", 0.1))};
    return td__operator(call->to, "BatchNormalization", 5, inputs, 2, numbers);
}

static const char *layer_norm(td__aten_call *call) {
    int64_t shape[TD_MAX_RANK];
    size_t axes = td__aten_ints(call, "normalized_shape", shape), count = 2;
    if (!td__aten_argument(call, "weight") || axes > TD_MAX_RANK) {
        return td__operator_refuse(call->to, "without weights");
    }
    const char *inputs[3] = {td__aten_value(call, "input"), td__aten_value(call, "weight")};
    if (td__aten_argument(call, "bias")) {
        inputs[count++] = td__aten_value(call, "bias");
    }
    td__attribute numbers[2] = {TD__NAMED_REAL("epsilon", td__aten_real(call, "eps", 1e-5)),
                                TD__NAMED_INT("axis", -(int64_t)axes)};
    return td__operator(call->to, "LayerNormalization", count, inputs, 2, numbers);
}

static const char *embedding(td__aten_call *call) {
    return TD__OPERATOR(call->to, "Gather", td__aten_value(call, "weight"),
                        td__aten_value(call, "indices"));
}

static const char *convert_reduction(td__aten_call *call) {
    int64_t axes[TD_MAX_RANK];
    size_t count = td__aten_ints(call, "dim", axes);
    if (count > TD_MAX_RANK) {
        return NULL;
    }
    bool sum = !strcmp(call->row->word, "ReduceSum"); /* which has the axes as an input */
    td__attribute attributes[2] = {TD__NAMED_INT("keepdims", td__aten_bool(call, "keepdim")),
                                   TD__NAMED_INTS("axes", axes, count)};
    const char *inputs[2] = {SELF(call),
                             sum && count ? td__operator_integers(call->to, count, axes) : NULL};
    return td__operator(call->to, call->row->word, sum && count ? 2 : 1, inputs,
                        sum || !count ? 1 : 2, attributes);
}

static const char *extreme_place(td__aten_call *call) {
    const char *x = SELF(call);
    td__attribute attributes[2] = {TD__NAMED_INT("keepdims", td__aten_bool(call, "keepdim")),
                                   TD__NAMED_INT("axis", td__aten_int(call, "dim", 0))};
    return td__aten_argument(call, "dim")
               ? td__operator(call->to, call->row->word, 1, &x, 2, attributes)
               : td__operator_refuse(call->to, "over all axes");
}

/* --- shapes ------------------------------------------------------------------------------- */

static const char *reshape(td__aten_call *call) {
    return TD__OPERATOR(call->to, "Reshape", SELF(call),
                        td__aten_sizes(call, td__aten_argument(call, "size") ? "size" : "shape"));
}

/* -1 is the size that there is: 1 broadcasts to it. */
static const char *expand(td__aten_call *call) {
    const char *size = td__aten_sizes(call, "size"),
               *one = td__operator_integers(call->to, 1, (int64_t[]){1});
    return TD__OPERATOR(call->to, "Expand", SELF(call), TD__OPERATOR(call->to, "Max", size, one));
}

static const char *flatten(td__aten_call *call) {
    td_shape shape;
    int32_t rank = td__aten_shape(call, "self", &shape);
    int64_t first = td__aten_int(call, "start_dim", 0), last = td__aten_int(call, "end_dim", -1);
    first += first < 0 ? rank : 0;
    last += last < 0 ? rank : 0;
    if (rank < 1 || first < 0 || last >= rank || first > last) {
        return td__operator_refuse(call->to, "its axes");
    }
    int64_t to[TD_MAX_RANK];
    size_t count = 0;
    for (int64_t i = 0; i < rank; i++) {
        bool inner = i > first && i <= last;
        if (!inner) {
            to[count++] = i == first ? -1 : i < first ? 0 : shape.dims[i];
        }
    }
    bool known = true;
    for (size_t i = (size_t)first + 1; i < count; i++) {
        known = known && to[i] > 0;
    }
    return known ? td__operator_reshape(call->to, SELF(call), count, to)
                 : td__operator_refuse(call->to, "with open sizes behind it");
}

static const char *unflatten(td__aten_call *call) {
    td_shape shape;
    int64_t sizes[TD_MAX_RANK], to[TD_MAX_RANK], axis = td__aten_int(call, "dim", 0);
    int32_t rank = td__aten_shape(call, "self", &shape);
    size_t parts = td__aten_ints(call, "sizes", sizes), count = 0;
    axis += axis < 0 ? rank : 0;
    if (rank < 1 || parts > TD_MAX_RANK || axis < 0 || axis >= rank ||
        (size_t)rank + parts > TD_MAX_RANK || axis != rank - 1) {
        return td__operator_refuse(call->to, "of another axis than the last");
    }
    for (int32_t i = 0; i < rank - 1; i++) {
        to[count++] = 0;
    }
    for (size_t i = 0; i < parts; i++) {
        to[count++] = sizes[i];
    }
    return td__operator_reshape(call->to, SELF(call), count, to);
}

static const char *permute(td__aten_call *call) {
    int64_t order[TD_MAX_RANK];
    size_t count = td__aten_ints(call, "dims", order);
    td_shape shape;
    int32_t rank = td__aten_shape(call, "self", &shape);
    for (size_t i = 0; count <= TD_MAX_RANK && i < count; i++) {
        order[i] += order[i] < 0 ? rank : 0;
    }
    return count <= TD_MAX_RANK ? td__operator_transpose(call->to, SELF(call), count, order) : NULL;
}

static const char *swap(td__aten_call *call, int64_t a, int64_t b) {
    td_shape shape;
    int64_t order[TD_MAX_RANK], rank = td__aten_shape(call, "self", &shape);
    a += a < 0 ? rank : 0;
    b += b < 0 ? rank : 0;
    if (a < 0 || b < 0 || a >= rank || b >= rank) {
        return td__operator_refuse(call->to, "its axes");
    }
    for (int64_t i = 0; i < rank; i++) {
        order[i] = i == a ? b : i == b ? a : i;
    }
    return td__operator_transpose(call->to, SELF(call), (size_t)rank, order);
}

static const char *transpose(td__aten_call *call) {
    return swap(call, td__aten_int(call, "dim0", 0), td__aten_int(call, "dim1", 1));
}

static const char *turn(td__aten_call *call) {
    return swap(call, 0, 1);
}

static const char *with_axes(td__aten_call *call) {
    int64_t axes[TD_MAX_RANK];
    size_t count = td__aten_ints(call, "dim", axes);
    return count && count <= TD_MAX_RANK
               ? TD__OPERATOR(call->to, call->row->word, SELF(call),
                              td__operator_integers(call->to, count, axes))
               : td__operator_refuse(call->to, "without axes");
}

static const char *concatenate(td__aten_call *call) {
    const json_t *list = json_object_get(td__aten_argument(call, "tensors"), "as_tensors");
    const char *parts[MAX_PARTS];
    size_t count = json_array_size(list);
    int64_t axis = td__aten_int(call, "dim", 0);
    if (!count || count > MAX_PARTS) {
        return td__operator_refuse(call->to, "%zu parts", count);
    }
    for (size_t i = 0; i < count; i++) {
        const char *name = json_string_value(json_object_get(json_array_get(list, i), "name"));
        parts[i] = json_string_value(json_object_get(call->values, name ? name : ""));
        if (parts[i] && *call->row->word == 'S') { /* stacked: along an axis of its own */
            parts[i] = TD__OPERATOR(call->to, "Unsqueeze", parts[i],
                                    td__operator_integers(call->to, 1, &axis));
        }
    }
    return td__operator(call->to, "Concat", count, parts, 1, &TD__NAMED_INT("axis", axis));
}

static const char *slice(td__aten_call *call) {
    int64_t axis = td__aten_int(call, "dim", 0), begin = td__aten_int(call, "start", 0);
    int64_t end = td__aten_int(call, "end", INT64_MAX), step = td__aten_int(call, "step", 1);
    td__operators *to = call->to;
    return TD__OPERATOR(to, "Slice", SELF(call), td__operator_integers(to, 1, &begin),
                        td__operator_integers(to, 1, &end), td__operator_integers(to, 1, &axis),
                        td__operator_integers(to, 1, &step));
}

static const char *select_one(td__aten_call *call) {
    int64_t axis = td__aten_int(call, "dim", 0), at = td__aten_int(call, "index", 0);
    int64_t end = at == -1 ? INT64_MAX : at + 1;
    td__operators *to = call->to;
    const char *axes = td__operator_integers(to, 1, &axis);
    const char *part = TD__OPERATOR(to, "Slice", SELF(call), td__operator_integers(to, 1, &at),
                                    td__operator_integers(to, 1, &end), axes);
    return TD__OPERATOR(to, "Squeeze", part, axes);
}

/* Equal parts; the last may be smaller. */
static const char *convert_split(td__aten_call *call) {
    td_shape shape;
    int32_t rank = td__aten_shape(call, "self", &shape);
    int64_t axis = td__aten_int(call, "dim", 0), sizes[MAX_PARTS];
    size_t count = td__aten_outputs(call);
    axis += axis < 0 ? rank : 0;
    int64_t all = axis >= 0 && axis < rank ? shape.dims[axis] : -1;
    int64_t each = td__aten_int(call, "split_size", 0);
    each = each > 0 ? each : count ? (all + (int64_t)count - 1) / (int64_t)count : 0;
    if (all < 1 || !count || count > MAX_PARTS || each < 1 ||
        (all + each - 1) / each != (int64_t)count) {
        return td__operator_refuse(call->to, "of an open axis, or into other parts");
    }
    for (size_t i = 0; i < count; i++) {
        sizes[i] = i + 1 < count ? each : all - each * ((int64_t)count - 1);
    }
    const char *inputs[2] = {SELF(call), td__operator_integers(call->to, count, sizes)};
    const char *parts[MAX_PARTS];
    td__operator_outputs(call->to, "Split", 2, inputs, 1, &TD__NAMED_INT("axis", axis), count,
                         parts);
    for (size_t i = 1; i < count; i++) {
        td__aten_give(call, i, parts[i]);
    }
    return parts[0];
}

static const char *convert_size(td__aten_call *call) {
    int64_t axis = td__aten_int(call, "dim", 0), end = axis == -1 ? INT64_MAX : axis + 1;
    td__operators *to = call->to;
    return TD__OPERATOR(to, "Slice", TD__OPERATOR(to, "Shape", SELF(call)),
                        td__operator_integers(to, 1, &axis), td__operator_integers(to, 1, &end));
}

/* Python's own, on sizes. */
static const char *of_sizes(td__aten_call *call) {
    return TD__OPERATOR(call->to, call->row->word, td__aten_sizes(call, "a"),
                        td__aten_sizes(call, "b"));
}

/* --- the table ---------------------------------------------------------------------------- */

static const td__aten_operator operators[] = {
    {"_operator.add", of_sizes, "Add"},
    {"_operator.floordiv", of_sizes, "Div"},
    {"_operator.mul", of_sizes, "Mul"},
    {"_operator.sub", of_sizes, "Sub"},
    {"aten.abs.default", unary, "Abs"},
    {"aten.adaptive_avg_pool1d.default", adaptive_average, NULL},
    {"aten.adaptive_avg_pool2d.default", adaptive_average, NULL},
    {"aten.add.Scalar", binary, "Add"},
    {"aten.add.Tensor", binary, "Add"},
    {"aten.add_.Tensor", binary, "Add"},
    {"aten.addmm.default", addmm, NULL},
    {"aten.alias.default", pass, NULL},
    {"aten.amax.default", convert_reduction, "ReduceMax"},
    {"aten.amin.default", convert_reduction, "ReduceMin"},
    {"aten.argmax.default", extreme_place, "ArgMax"},
    {"aten.argmin.default", extreme_place, "ArgMin"},
    {"aten.avg_pool1d.default", pool, "AveragePool"},
    {"aten.avg_pool2d.default", pool, "AveragePool"},
    {"aten.batch_norm.default", batch_norm, NULL},
    {"aten.bmm.default", matrices, NULL},
    {"aten.cat.default", concatenate, "Concat"},
    {"aten.ceil.default", unary, "Ceil"},
    {"aten.chunk.default", convert_split, NULL},
    {"aten.clamp.default", clamp, NULL},
    {"aten.clone.default", pass, NULL},
    {"aten.contiguous.default", pass, NULL},
    {"aten.conv1d.default", convolve, "Conv"},
    {"aten.conv1d.padding", convolve, "Conv"},
    {"aten.conv2d.default", convolve, "Conv"},
    {"aten.conv2d.padding", convolve, "Conv"},
    {"aten.conv3d.default", convolve, "Conv"},
    {"aten.conv_transpose1d.default", convolve, "ConvTranspose"},
    {"aten.conv_transpose2d.input", convolve, "ConvTranspose"},
    {"aten.cos.default", unary, "Cos"},
    {"aten.detach.default", pass, NULL},
    {"aten.div.Scalar", binary, "Div"},
    {"aten.div.Tensor", binary, "Div"},
    {"aten.dropout.default", pass, NULL},
    {"aten.dropout_.default", pass, NULL},
    {"aten.elu.default", elu, NULL},
    {"aten.embedding.default", embedding, NULL},
    {"aten.eq.Scalar", binary, "Equal"},
    {"aten.eq.Tensor", binary, "Equal"},
    {"aten.erf.default", unary, "Erf"},
    {"aten.exp.default", unary, "Exp"},
    {"aten.expand.default", expand, NULL},
    {"aten.flatten.using_ints", flatten, NULL},
    {"aten.floor.default", unary, "Floor"},
    {"aten.ge.Scalar", binary, "GreaterOrEqual"},
    {"aten.ge.Tensor", binary, "GreaterOrEqual"},
    {"aten.gelu.default", gelu, NULL},
    {"aten.gt.Scalar", binary, "Greater"},
    {"aten.gt.Tensor", binary, "Greater"},
    {"aten.hardsigmoid.default", hardsigmoid, NULL},
    {"aten.hardswish.default", unary, "HardSwish"},
    {"aten.hardswish_.default", unary, "HardSwish"},
    {"aten.hardtanh.default", hardtanh, NULL},
    {"aten.hardtanh_.default", hardtanh, NULL},
    {"aten.layer_norm.default", layer_norm, NULL},
    {"aten.le.Scalar", binary, "LessOrEqual"},
    {"aten.le.Tensor", binary, "LessOrEqual"},
    {"aten.leaky_relu.default", leaky_relu, NULL},
    {"aten.leaky_relu_.default", leaky_relu, NULL},
    {"aten.linear.default", linear, NULL},
    {"aten.log.default", unary, "Log"},
    {"aten.log_softmax.int", along, "LogSoftmax"},
    {"aten.lt.Scalar", binary, "Less"},
    {"aten.lt.Tensor", binary, "Less"},
    {"aten.matmul.default", matrices, NULL},
    {"aten.max_pool1d.default", pool, "MaxPool"},
    {"aten.max_pool2d.default", pool, "MaxPool"},
    {"aten.maximum.default", binary, "Max"},
    {"aten.mean.default", convert_reduction, "ReduceMean"},
    {"aten.mean.dim", convert_reduction, "ReduceMean"},
    {"aten.minimum.default", binary, "Min"},
    {"aten.mm.default", matrices, NULL},
    {"aten.mul.Scalar", binary, "Mul"},
    {"aten.mul.Tensor", binary, "Mul"},
    {"aten.ne.Scalar", not_equal, "Equal"},
    {"aten.ne.Tensor", not_equal, "Equal"},
    {"aten.neg.default", unary, "Neg"},
    {"aten.permute.default", permute, NULL},
    {"aten.pow.Tensor_Scalar", power, NULL},
    {"aten.pow.Tensor_Tensor", power, NULL},
    {"aten.reciprocal.default", unary, "Reciprocal"},
    {"aten.relu.default", unary, "Relu"},
    {"aten.relu6.default", relu6, NULL},
    {"aten.relu_.default", unary, "Relu"},
    {"aten.reshape.default", reshape, NULL},
    {"aten.round.default", unary, "Round"},
    {"aten.rsqrt.default", rsqrt, NULL},
    {"aten.rsub.Scalar", rsub, NULL},
    {"aten.scaled_dot_product_attention.default", attention, NULL},
    {"aten.select.int", select_one, NULL},
    {"aten.sigmoid.default", unary, "Sigmoid"},
    {"aten.silu.default", silu, NULL},
    {"aten.silu_.default", silu, NULL},
    {"aten.sin.default", unary, "Sin"},
    {"aten.slice.Tensor", slice, NULL},
    {"aten.softmax.int", along, "Softmax"},
    {"aten.split.Tensor", convert_split, NULL},
    {"aten.sqrt.default", unary, "Sqrt"},
    {"aten.squeeze.dim", with_axes, "Squeeze"},
    {"aten.squeeze.dims", with_axes, "Squeeze"},
    {"aten.stack.default", concatenate, "Stack"},
    {"aten.sub.Scalar", binary, "Sub"},
    {"aten.sub.Tensor", binary, "Sub"},
    {"aten.sum.dim_IntList", convert_reduction, "ReduceSum"},
    {"aten.sym_size.int", convert_size, NULL},
    {"aten.t.default", turn, NULL},
    {"aten.tanh.default", unary, "Tanh"},
    {"aten.transpose.int", transpose, NULL},
    {"aten.unflatten.int", unflatten, NULL},
    {"aten.unsqueeze.default", with_axes, "Unsqueeze"},
    {"aten.view.default", reshape, NULL},
    {"aten.where.self", where, NULL},
};

const td__aten_operator *td__aten_find(const char *target) {
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        if (!strcmp(operators[i].target, target)) {
            return &operators[i];
        }
    }
    return NULL;
}
