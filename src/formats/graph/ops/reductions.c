/* Reductions over axes: sums, means, extremes, norms, products; softmax, whose axes they are too. */
#include "graph/host.h"
#include "graph/ops/common.h"

/* --- product ------------------------------------------------------------------------------ */

/* y[r] = prod of x[r, j]; dx[r, j] = g[r] prod of x[r, k] over k != j */
static td_status product_backward(td_tape *tape, td__node *node) {
    const td_tensor *input = node->inputs[0].tensor;
    int64_t rows = node->output->count, n = input->shape.dims[1];
    const float *x = td__floats(input), *g = td__output_gradient(tape, node);
    bool add;
    float *dx = td__gradient(tape, node, 0, &add);
    if (!dx) {
        return TD_MEMORY;
    }
    for (int64_t r = 0; r < rows; r++, x += n, dx += n) {
        float before = g[r]; /* the product of what stands before, and then of what stands after */
        for (int64_t j = 0; j < n; before *= x[j++]) {
            float after = before;
            for (int64_t k = j + 1; k < n; k++) {
                after *= x[k];
            }
            dx[j] = add ? dx[j] + after : after;
        }
    }
    return TD_OK;
}

static const td__op product_op = {.name = "product", .backward = product_backward};

static td_tensor *product_of_rows(td_tape *tape, td_tensor *x) {
    td_tensor *y = x ? td__output(tape, TD_FLOAT32, &TD_SHAPE(x->shape.dims[0])) : NULL;
    if (!y) {
        return NULL;
    }
    int64_t n = x->shape.dims[1];
    for (int64_t r = 0; r < y->count; r++) {
        double product = 1;
        for (int64_t j = 0; j < n; j++) {
            product *= (double)td__floats(x)[r * n + j];
        }
        td__floats(y)[r] = (float)product;
    }
    return td__record(tape, &product_op, y, 1, &x, NULL);
}

static td_tensor *product(td_tape *tape, td_tensor *x, const td_reduce_options *options) {
    bool reduced[TD_MAX_RANK] = {false};
    int32_t order[TD_MAX_RANK] = {0}, kept = 0, rank = x->shape.rank;
    td_shape to = {0};
    int64_t rows = 1;
    for (int32_t i = 0; i < options->count; i++) {
        reduced[options->axes[i]] = true;
    }
    for (int32_t i = 0; i < rank; i++) {
        if (!reduced[i]) {
            order[kept++] = i;
            rows *= x->shape.dims[i];
        }
        if (!reduced[i] || options->keep) {
            to.dims[to.rank++] = reduced[i] ? 1 : x->shape.dims[i];
        }
    }
    for (int32_t i = 0; i < rank; i++) {
        if (reduced[i]) {
            order[kept++] = i;
        }
    }
    td_tensor *matrix = td_transpose(tape, x, order);
    matrix = td_reshape(tape, matrix, TD_SHAPE(rows, rows ? x->count / rows : 0));
    return td_reshape(tape, product_of_rows(tape, matrix), to);
}

/* --- the others --------------------------------------------------------------------------- */

typedef td_tensor *reduction(td_tape *tape, td_tensor *x, const td_reduce_options *options);

static td_tensor *l1(td_tape *tape, td_tensor *x, const td_reduce_options *options) {
    return td_sum(tape, td_absolute(tape, x), options);
}
static td_tensor *sum_square(td_tape *tape, td_tensor *x, const td_reduce_options *options) {
    return td_sum(tape, td_square(tape, x), options);
}
static td_tensor *l2(td_tape *tape, td_tensor *x, const td_reduce_options *options) {
    return td_sqrt(tape, sum_square(tape, x, options));
}
static td_tensor *log_sum(td_tape *tape, td_tensor *x, const td_reduce_options *options) {
    return td_log(tape, td_sum(tape, x, options));
}

/* m + log sum e^(x - m), m the largest */
static td_tensor *log_sum_exp(td_tape *tape, td_tensor *x, const td_reduce_options *options) {
    td_reduce_options keeping = *options;
    keeping.keep = true;
    td_tensor *max = td_stop_gradient(tape, td_max(tape, x, &keeping));
    td_tensor *sum = td_sum(tape, td_exp(tape, td_subtract(tape, x, max)), options);
    td_tensor *log = td_log(tape, sum);
    return log ? td_add(tape, log, td_reshape(tape, max, log->shape)) : NULL;
}

/* Whether what is left after reducing stands in the plain order though the channels were last: no
 * channels, or nothing but batch and channels. */
static bool is_plain_after(const bool reduced[TD_MAX_RANK], int32_t rank) {
    bool pixels = false;
    for (int32_t i = 2; i < rank; i++) {
        pixels = pixels || !reduced[i];
    }
    return reduced[1] || !pixels;
}

static bool reduce_input(td__graph_call *call, reduction *function) {
    td_shape shape = td__graph_shape(call, 0);
    bool reduced[TD_MAX_RANK], given, keep = td__graph_int(call->node, "keepdims", 1) != 0;
    if (!td__graph_axes(call, 1, shape.rank, reduced, &given)) {
        return false;
    }
    if (!given && td__graph_int(call->node, "noop_with_empty_axes", 0)) {
        return td__graph_pass(call, 0, 0);
    }
    for (int32_t i = 0; i < shape.rank; i++) {
        reduced[i] = reduced[i] || !given;
    }
    bool nothing = false; /* of which there is a least and a greatest all the same */
    for (int32_t i = 0; i < shape.rank; i++) {
        nothing = nothing || shape.dims[i] == 0;
    }
    if (!td__graph_is_float(call, 0) || nothing) {
        return td__graph_host_reduce(call, reduced, keep);
    }
    bool last = td__graph_is_last(call, 0) && (keep || is_plain_after(reduced, shape.rank));
    td_tensor *x = last ? td__graph_channels_last(call, 0) : td__graph_plain(call, 0);
    td_reduce_options options = {.size = sizeof options, .keep = keep};
    for (int32_t i = 0; i < shape.rank; i++) {
        if (reduced[i]) {
            options.axes[options.count++] = last ? td__graph_last_axis(i, shape.rank) : i;
        }
    }
    td_tensor *y = !x || shape.rank == 0 ? x : function(call->tape, x, &options);
    return td__graph_output_either(call, 0, td__graph_input(call, 0)->type, y, last && keep);
}

#define DEFINE(name, function)                                                                     \
    static bool name(td__graph_call *call) {                                                       \
        return reduce_input(call, function);                                                       \
    }
DEFINE(reduce_l1, l1)
DEFINE(reduce_l2, l2)
DEFINE(reduce_log_sum, log_sum)
DEFINE(reduce_log_sum_exp, log_sum_exp)
DEFINE(reduce_max, td_max)
DEFINE(reduce_mean, td_mean)
DEFINE(reduce_min, td_min)
DEFINE(reduce_prod, product)
DEFINE(reduce_sum, td_sum)
DEFINE(reduce_sum_square, sum_square)

/* --- softmax ------------------------------------------------------------------------------ */

typedef td_tensor *normalizer(td_tape *tape, td_tensor *x, int32_t axis);

/* Until opset 12 all axes from the given one on are taken for one. */
static bool normalize(td__graph_call *call, normalizer *function) {
    td_tape *tape = call->tape;
    td__graph_type type = td__graph_input(call, 0)->type;
    int32_t rank = td__graph_shape(call, 0).rank, axis;
    bool last, flat = call->opset < 13;
    if (!td__graph_is_float(call, 0)) {
        return td__graph_fail(call, TD_UNSUPPORTED, "only of type float");
    }
    if (!td__graph_axis(call, td__graph_int(call->node, "axis", flat ? 1 : -1), rank, &axis)) {
        return false;
    }
    if (!flat || axis == rank - 1) {
        td_tensor *x = td__graph_either(call, 0, &last);
        axis = last ? td__graph_last_axis(axis, rank) : axis;
        return td__graph_output_either(call, 0, type, function(tape, x, axis), last);
    }
    td_tensor *x = td__graph_plain(call, 0);
    int64_t rows = x ? td__elements_between(&x->shape, 0, axis) : 1;
    td_tensor *y = x ? td_reshape(tape, x, TD_SHAPE(rows, rows ? x->count / rows : 0)) : NULL;
    y = function(tape, y, 1);
    return td__graph_output(call, 0, type, y ? td_reshape(tape, y, x->shape) : NULL);
}

static bool softmax(td__graph_call *call) {
    return normalize(call, td_softmax);
}
static bool log_softmax(td__graph_call *call) {
    return normalize(call, td_log_softmax);
}

const td__graph_operator td__graph_reductions[] = {
    {"LogSoftmax", log_softmax, 1, 1, 1, 0, 0, td__graph_infer_softmax},
    {"ReduceL1", reduce_l1, 1, 2, 1, 0, 0, td__graph_infer_reduced},
    {"ReduceL2", reduce_l2, 1, 2, 1, 0, 0, td__graph_infer_reduced},
    {"ReduceLogSum", reduce_log_sum, 1, 2, 1, 0, 0, td__graph_infer_reduced},
    {"ReduceLogSumExp", reduce_log_sum_exp, 1, 2, 1, 0, 0, td__graph_infer_reduced},
    {"ReduceMax", reduce_max, 1, 2, 1, 0, 0, td__graph_infer_reduced},
    {"ReduceMean", reduce_mean, 1, 2, 1, 0, 0, td__graph_infer_reduced},
    {"ReduceMin", reduce_min, 1, 2, 1, 0, 0, td__graph_infer_reduced},
    {"ReduceProd", reduce_prod, 1, 2, 1, 0, 0, td__graph_infer_reduced},
    {"ReduceSum", reduce_sum, 1, 2, 1, 0, 0, td__graph_infer_reduced},
    {"ReduceSumSquare", reduce_sum_square, 1, 2, 1, 0, 0, td__graph_infer_reduced},
    {"Softmax", softmax, 1, 1, 1, 0, 0, td__graph_infer_softmax},
    {0},
};
