/* ATen's operators as those of ONNX: of elements, and products. */
#include "exported/convert.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define SELF(call) td__aten_value(call, "self")

/* --- element-wise ------------------------------------------------------------------------- */

/* Of elements of the kind of the result: a logarithm of whole numbers is one of reals. */
static const char *unary(td__aten_call *call) {
    return TD__OPERATOR(call->to, call->row->word,
                        td__aten_as(call, "self", td__aten_made_kind(call)));
}

/* An argument times alpha, where that is given. */
static const char *scaled(td__aten_call *call, const char *name, td__aten_kind kind) {
    const char *value = td__aten_as(call, name, kind);
    double alpha = td__aten_real(call, "alpha", 1);
    const char *factor = td__operator_number(call->to, alpha);
    return alpha == 1
               ? value
               : TD__OPERATOR(call->to, "Mul", value,
                              kind == TD__ATEN_REAL ? factor : td__aten_cast(call, factor, kind));
}

static const char *binary(td__aten_call *call) {
    td__aten_kind kind = td__aten_made_kind(call);
    return TD__OPERATOR(call->to, call->row->word, td__aten_as(call, "self", kind),
                        scaled(call, "other", kind));
}

/* What both are compared as: the larger kind. */
static td__aten_kind common_kind(const td__aten_call *call) {
    td__aten_kind a = td__aten_argument_kind(call, "self"),
                  b = td__aten_argument_kind(call, "other");
    td__aten_kind kind = a > b ? a : b;
    return kind == TD__ATEN_TRUTH ? TD__ATEN_WHOLE : kind;
}

static const char *comparison(td__aten_call *call) {
    td__aten_kind kind = common_kind(call);
    return TD__OPERATOR(call->to, call->row->word, td__aten_as(call, "self", kind),
                        td__aten_as(call, "other", kind));
}

static const char *not_equal(td__aten_call *call) {
    return TD__OPERATOR(call->to, "Not", comparison(call));
}

/* Of numbers: whether they are other than 0. */
static const char *logical(td__aten_call *call) {
    const char *a = td__aten_as(call, "self", TD__ATEN_TRUTH);
    return td__aten_argument(call, "other")
               ? TD__OPERATOR(call->to, call->row->word, a,
                              td__aten_as(call, "other", TD__ATEN_TRUTH))
               : TD__OPERATOR(call->to, call->row->word, a);
}

/* Of truths: the same words have other operators for bits. */
static const char *bitwise(td__aten_call *call) {
    return td__aten_made_kind(call) == TD__ATEN_TRUTH
               ? logical(call)
               : td__operator_refuse(call->to, "of whole numbers");
}

static const char *power(td__aten_call *call) {
    td__aten_kind kind = td__aten_made_kind(call);
    return TD__OPERATOR(call->to, "Pow", td__aten_as(call, "self", kind),
                        td__aten_as(call, "exponent", kind));
}

/* other - alpha self */
static const char *rsub(td__aten_call *call) {
    td__aten_kind kind = td__aten_made_kind(call);
    return TD__OPERATOR(call->to, "Sub", td__aten_as(call, "other", kind),
                        scaled(call, "self", kind));
}

static const char *rsqrt(td__aten_call *call) {
    return TD__OPERATOR(call->to, "Reciprocal",
                        TD__OPERATOR(call->to, "Sqrt", td__aten_as(call, "self", TD__ATEN_REAL)));
}

/* The quotient as a real, then rounded; floor_divide rounds down, too. */
static const char *divide(td__aten_call *call) {
    td__operators *to = call->to;
    const char *mode = td__aten_text(call, "rounding_mode");
    bool down = !strcmp(call->row->word, "Floor") || (mode && !strcmp(mode, "floor"));
    const char *y = TD__OPERATOR(to, "Div", td__aten_as(call, "self", TD__ATEN_REAL),
                                 td__aten_as(call, "other", TD__ATEN_REAL));
    if (down) {
        y = TD__OPERATOR(to, "Floor", y);
    } else if (mode) { /* towards 0 */
        y = TD__OPERATOR(to, "Mul", TD__OPERATOR(to, "Floor", TD__OPERATOR(to, "Abs", y)),
                         TD__OPERATOR(to, "Sign", y));
    }
    td__aten_kind kind = td__aten_made_kind(call);
    return kind == TD__ATEN_REAL ? y : td__aten_cast(call, y, kind);
}

/* a - b floor(a / b), which has the sign of b */
static const char *remainder_of(td__aten_call *call) {
    td__operators *to = call->to;
    td__aten_kind kind = td__aten_made_kind(call);
    const char *a = td__aten_as(call, "self", kind), *b = td__aten_as(call, "other", kind);
    if (kind == TD__ATEN_WHOLE) {
        return TD__OPERATOR(to, "Mod", a, b);
    }
    const char *whole = TD__OPERATOR(to, "Floor", TD__OPERATOR(to, "Div", a, b));
    return TD__OPERATOR(to, "Sub", a, TD__OPERATOR(to, "Mul", b, whole));
}

static const char *limit(td__aten_call *call, double min, double max) {
    return TD__OPERATOR(call->to, "Clip", SELF(call), td__operator_number(call->to, min),
                        td__operator_number(call->to, max));
}

/* Limits that are numbers or tensors; each may be missing. */
static const char *clamp(td__aten_call *call) {
    td__aten_kind kind = td__aten_made_kind(call);
    const char *x = td__aten_as(call, "self", kind);
    if (td__aten_argument(call, "min")) {
        x = TD__OPERATOR(call->to, "Max", x, td__aten_as(call, "min", kind));
    }
    return td__aten_argument(call, "max")
               ? TD__OPERATOR(call->to, "Min", x, td__aten_as(call, "max", kind))
               : x;
}

/* Numbers between numbers, which is one operator. */
static const char *clamp_numbers(td__aten_call *call) {
    bool both = td__aten_argument(call, "min") && td__aten_argument(call, "max");
    return both && td__aten_made_kind(call) == TD__ATEN_REAL
               ? limit(call, td__aten_real(call, "min", 0), td__aten_real(call, "max", 0))
               : clamp(call);
}

static const char *where(td__aten_call *call) {
    td__aten_kind kind = td__aten_made_kind(call);
    return TD__OPERATOR(call->to, "Where", td__aten_as(call, "condition", TD__ATEN_TRUTH),
                        td__aten_as(call, "self", kind), td__aten_as(call, "other", kind));
}

static const char *masked_fill(td__aten_call *call) {
    return TD__OPERATOR(call->to, "Where", td__aten_value(call, "mask"),
                        td__aten_as(call, "value", td__aten_made_kind(call)), SELF(call));
}

static const char *along(td__aten_call *call) {
    const char *x = td__aten_as(call, "self", TD__ATEN_REAL);
    td__attribute axis = TD__NAMED_INT("axis", td__aten_int(call, "dim", -1));
    return td__operator(call->to, call->row->word, 1, &x, 1, &axis);
}

static const char *cast(td__aten_call *call) {
    td__aten_kind kind = td__aten_made_kind(call);
    const json_t *info =
        json_object_get(call->tensors, json_string_value(td__aten_output_at(call, 0)));
    int64_t type = json_integer_value(json_object_get(info, "dtype"));
    if (kind == TD__ATEN_NONE || (type >= 1 && type <= 3)) {
        return td__operator_refuse(call->to, "to whole numbers of 8 or 16 bits");
    }
    return td__aten_as(call, "self", kind);
}

/* ln(1 + x), e^x - 1, log2, log10, x^2, 1 / (1 - …): by the operators that there are. */
static const char *log_of_more(td__aten_call *call) {
    td__operators *to = call->to;
    return TD__OPERATOR(to, "Log",
                        TD__OPERATOR(to, "Add", td__aten_as(call, "self", TD__ATEN_REAL),
                                     td__operator_number(to, 1)));
}

static const char *exp_less(td__aten_call *call) {
    td__operators *to = call->to;
    return TD__OPERATOR(to, "Sub",
                        TD__OPERATOR(to, "Exp", td__aten_as(call, "self", TD__ATEN_REAL)),
                        td__operator_number(to, 1));
}

static const char *log_to_base(td__aten_call *call) {
    td__operators *to = call->to;
    double base = strstr(call->row->target, "log2") ? 2 : 10;
    return TD__OPERATOR(to, "Mul",
                        TD__OPERATOR(to, "Log", td__aten_as(call, "self", TD__ATEN_REAL)),
                        td__operator_number(to, 1 / log(base)));
}

static const char *square(td__aten_call *call) {
    return TD__OPERATOR(call->to, "Mul", SELF(call), SELF(call));
}

static const char *unary_any(td__aten_call *call) {
    return TD__OPERATOR(call->to, call->row->word, SELF(call));
}

static const char *log_sigmoid(td__aten_call *call) {
    return td__operator_activation(call->to, SELF(call), TD_LOG_SIGMOID, TD_DEFAULT);
}

static const char *celu(td__aten_call *call) {
    const char *x = SELF(call);
    td__attribute alpha = TD__NAMED_REAL("alpha", td__aten_real(call, "alpha", 1));
    return td__operator(call->to, "Celu", 1, &x, 1, &alpha);
}

static const char *selu(td__aten_call *call) {
    const char *x = SELF(call); /* the constants of PyTorch, which are ONNX's defaults */
    return td__operator(call->to, "Selu", 1, &x, 0, NULL);
}

/* ln(1 + e^(b x)) / b; above the threshold x, which differs by less than a float shows. */
static const char *softplus(td__aten_call *call) {
    td__operators *to = call->to;
    double beta = td__aten_real(call, "beta", 1);
    if (td__aten_real(call, "threshold", 20) < 15) {
        return td__operator_refuse(to, "a threshold");
    }
    const char *b = td__operator_number(to, beta);
    return beta == 1
               ? TD__OPERATOR(to, "Softplus", SELF(call))
               : TD__OPERATOR(to, "Div",
                              TD__OPERATOR(to, "Softplus", TD__OPERATOR(to, "Mul", SELF(call), b)),
                              b);
}

static const char *activation_mish(td__aten_call *call) {
    return td__operator_activation(call->to, SELF(call), TD_MISH, TD_DEFAULT);
}

/* A slope for each channel, which is the second axis. */
static const char *prelu(td__aten_call *call) {
    td_shape x, w;
    int32_t rank = td__aten_shape(call, "self", &x);
    const char *slope = td__aten_value(call, "weight");
    if (rank < 1 || td__aten_shape(call, "weight", &w) < 0) {
        return NULL;
    }
    if (w.rank == 1 && w.dims[0] != 1 && rank > 2) {
        int64_t spread[TD_MAX_RANK];
        for (int32_t i = 0; i < rank - 1; i++) {
            spread[i] = i ? 1 : -1;
        }
        slope = td__operator_reshape(call->to, slope, (size_t)rank - 1, spread);
    }
    return TD__OPERATOR(call->to, "PRelu", SELF(call), slope);
}

/* a + value b c, or a + value b / c */
static const char *add_both(td__aten_call *call) {
    td__operators *to = call->to;
    const char *y = TD__OPERATOR(to, call->row->word, td__aten_value(call, "tensor1"),
                                 td__aten_value(call, "tensor2"));
    y = TD__OPERATOR(to, "Mul", y, td__operator_number(to, td__aten_real(call, "value", 1)));
    return TD__OPERATOR(to, "Add", SELF(call), y);
}

static const char *lerp(td__aten_call *call) {
    td__operators *to = call->to;
    const char *way = TD__OPERATOR(to, "Sub", td__aten_value(call, "end"), SELF(call));
    return TD__OPERATOR(to, "Add", SELF(call),
                        TD__OPERATOR(to, "Mul", way, td__aten_value(call, "weight")));
}

/* The first half times the sigmoid of the second. */
static const char *glu(td__aten_call *call) {
    const char *x = SELF(call), *parts[2];
    int64_t axis = td__aten_int(call, "dim", -1);
    td__operator_outputs(call->to, "Split", 1, &x, 1, &TD__NAMED_INT("axis", axis), 2, parts);
    return TD__OPERATOR(call->to, "Mul", parts[0], TD__OPERATOR(call->to, "Sigmoid", parts[1]));
}

static const char *pass(td__aten_call *call) {
    return td__aten_value(call, td__aten_argument(call, "self") ? "self" : "input");
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

static const char *relu6(td__aten_call *call) {
    return limit(call, 0, 6);
}

static const char *hardtanh(td__aten_call *call) {
    return limit(call, td__aten_real(call, "min_val", -1), td__aten_real(call, "max_val", 1));
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
                        td__aten_value(call, td__aten_argument(call, "other")    ? "other"
                                             : td__aten_argument(call, "mat2")   ? "mat2"
                                             : td__aten_argument(call, "tensor") ? "tensor"
                                                                                 : "vec"));
}

/* beta self + alpha a b */
static const char *addmm(td__aten_call *call) {
    td__operators *to = call->to;
    const char *a = td__aten_value(call, td__aten_argument(call, "mat1") ? "mat1" : "batch1");
    const char *b = td__aten_value(call, td__aten_argument(call, "mat2") ? "mat2" : "batch2");
    const char *y = TD__OPERATOR(to, "MatMul", a, b), *x = SELF(call);
    double alpha = td__aten_real(call, "alpha", 1), beta = td__aten_real(call, "beta", 1);
    y = alpha == 1 ? y : TD__OPERATOR(to, "Mul", y, td__operator_number(to, alpha));
    x = beta == 1 ? x : TD__OPERATOR(to, "Mul", x, td__operator_number(to, beta));
    return TD__OPERATOR(to, "Add", y, x);
}

static const char *outer(td__aten_call *call) {
    td__operators *to = call->to;
    const char *other = td__aten_argument(call, "vec2") ? "vec2" : "other";
    return TD__OPERATOR(to, "Mul", td__operator_reshape(to, SELF(call), 2, (int64_t[]){-1, 1}),
                        td__aten_value(call, other));
}

/* PyTorch takes spaces between letters, as ONNX does. */
static const char *einsum(td__aten_call *call) {
    const char *parts[TD__ATEN_PARTS], *equation = td__aten_text(call, "equation");
    size_t count = td__aten_list(call, "tensors", parts);
    return equation && count <= TD__ATEN_PARTS ? td__operator(call->to, "Einsum", count, parts, 1,
                                                              &TD__NAMED_TEXT("equation", equation))
                                               : NULL;
}

/* Sums over some axes of both, as an equation. */
static const char *tensordot(td__aten_call *call) {
    td_shape a, b;
    int64_t in_a[TD_MAX_RANK], in_b[TD_MAX_RANK];
    int32_t rank = td__aten_shape(call, "self", &a), others = td__aten_shape(call, "other", &b);
    size_t count = td__aten_ints(call, "dims_self", in_a);
    char left[TD_MAX_RANK + 1] = "", right[TD_MAX_RANK + 1] = "", rest[2 * TD_MAX_RANK + 1] = "";
    char equation[6 * TD_MAX_RANK];
    if (rank < 0 || others < 0 || count > TD_MAX_RANK ||
        td__aten_ints(call, "dims_other", in_b) != count) {
        return td__operator_refuse(call->to, "its axes");
    }
    for (int32_t i = 0; i < rank; i++) {
        left[i] = (char)('a' + i);
    }
    for (int32_t i = 0; i < others; i++) {
        right[i] = (char)('A' + i);
    }
    for (size_t i = 0; i < count; i++) {
        int64_t p = in_a[i] + (in_a[i] < 0 ? rank : 0), q = in_b[i] + (in_b[i] < 0 ? others : 0);
        if (p < 0 || p >= rank || q < 0 || q >= others) {
            return td__operator_refuse(call->to, "its axes");
        }
        right[q] = left[p];
    }
    size_t used = 0;
    for (int32_t i = 0; i < rank; i++) {
        if (!strchr(right, left[i])) {
            rest[used++] = left[i];
        }
    }
    for (int32_t i = 0; i < others; i++) {
        if (!strchr(left, right[i])) {
            rest[used++] = right[i];
        }
    }
    (void)snprintf(equation, sizeof equation, "%s,%s->%s", left, right, rest);
    const char *inputs[2] = {SELF(call), td__aten_value(call, "other")};
    return td__operator(call->to, "Einsum", 2, inputs, 1, &TD__NAMED_TEXT("equation", equation));
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

/* --- the table ---------------------------------------------------------------------------- */

const td__aten_operator td__aten_elements[] = {
    {"aten.__and__.Tensor", bitwise, "And"},
    {"aten.__or__.Tensor", bitwise, "Or"},
    {"aten._to_copy.default", cast, NULL},
    {"aten.abs.default", unary, "Abs"},
    {"aten.acos.default", unary, "Acos"},
    {"aten.add.Scalar", binary, "Add"},
    {"aten.add.Tensor", binary, "Add"},
    {"aten.addcdiv.default", add_both, "Div"},
    {"aten.addcmul.default", add_both, "Mul"},
    {"aten.addmm.default", addmm, NULL},
    {"aten.alias.default", pass, NULL},
    {"aten.alpha_dropout.default", pass, NULL},
    {"aten.asin.default", unary, "Asin"},
    {"aten.atan.default", unary, "Atan"},
    {"aten.baddbmm.default", addmm, NULL},
    {"aten.bitwise_and.Tensor", bitwise, "And"},
    {"aten.bitwise_not.default", bitwise, "Not"},
    {"aten.bitwise_or.Tensor", bitwise, "Or"},
    {"aten.bitwise_xor.Tensor", bitwise, "Xor"},
    {"aten.bmm.default", matrices, NULL},
    {"aten.ceil.default", unary, "Ceil"},
    {"aten.celu.default", celu, NULL},
    {"aten.clamp.Tensor", clamp, NULL},
    {"aten.clamp.default", clamp_numbers, NULL},
    {"aten.clamp_max.Tensor", clamp, NULL},
    {"aten.clamp_max.default", clamp_numbers, NULL},
    {"aten.clamp_min.Tensor", clamp, NULL},
    {"aten.clamp_min.default", clamp_numbers, NULL},
    {"aten.clone.default", pass, NULL},
    {"aten.contiguous.default", pass, NULL},
    {"aten.cos.default", unary, "Cos"},
    {"aten.cosh.default", unary, "Cosh"},
    {"aten.detach.default", pass, NULL},
    {"aten.div.Scalar", divide, "Div"},
    {"aten.div.Scalar_mode", divide, "Div"},
    {"aten.div.Tensor", divide, "Div"},
    {"aten.div.Tensor_mode", divide, "Div"},
    {"aten.dot.default", matrices, NULL},
    {"aten.dropout.default", pass, NULL},
    {"aten.einsum.default", einsum, NULL},
    {"aten.elu.default", elu, NULL},
    {"aten.eq.Scalar", comparison, "Equal"},
    {"aten.eq.Tensor", comparison, "Equal"},
    {"aten.erf.default", unary, "Erf"},
    {"aten.exp.default", unary, "Exp"},
    {"aten.expm1.default", exp_less, NULL},
    {"aten.feature_dropout.default", pass, NULL},
    {"aten.floor.default", unary, "Floor"},
    {"aten.floor_divide.default", divide, "Floor"},
    {"aten.ge.Scalar", comparison, "GreaterOrEqual"},
    {"aten.ge.Tensor", comparison, "GreaterOrEqual"},
    {"aten.gelu.default", gelu, NULL},
    {"aten.glu.default", glu, NULL},
    {"aten.gt.Scalar", comparison, "Greater"},
    {"aten.gt.Tensor", comparison, "Greater"},
    {"aten.hardsigmoid.default", hardsigmoid, NULL},
    {"aten.hardswish.default", unary, "HardSwish"},
    {"aten.hardtanh.default", hardtanh, NULL},
    {"aten.isinf.default", unary_any, "IsInf"},
    {"aten.isnan.default", unary_any, "IsNaN"},
    {"aten.le.Scalar", comparison, "LessOrEqual"},
    {"aten.le.Tensor", comparison, "LessOrEqual"},
    {"aten.leaky_relu.default", leaky_relu, NULL},
    {"aten.lerp.Scalar", lerp, NULL},
    {"aten.lerp.Tensor", lerp, NULL},
    {"aten.lift_fresh_copy.default", pass, NULL},
    {"aten.linear.default", linear, NULL},
    {"aten.log.default", unary, "Log"},
    {"aten.log10.default", log_to_base, NULL},
    {"aten.log1p.default", log_of_more, NULL},
    {"aten.log2.default", log_to_base, NULL},
    {"aten.log_sigmoid.default", log_sigmoid, NULL},
    {"aten.log_softmax.int", along, "LogSoftmax"},
    {"aten.logical_and.default", logical, "And"},
    {"aten.logical_not.default", logical, "Not"},
    {"aten.logical_or.default", logical, "Or"},
    {"aten.logical_xor.default", logical, "Xor"},
    {"aten.lt.Scalar", comparison, "Less"},
    {"aten.lt.Tensor", comparison, "Less"},
    {"aten.masked_fill.Scalar", masked_fill, NULL},
    {"aten.masked_fill.Tensor", masked_fill, NULL},
    {"aten.matmul.default", matrices, NULL},
    {"aten.max.other", binary, "Max"},
    {"aten.maximum.default", binary, "Max"},
    {"aten.min.other", binary, "Min"},
    {"aten.minimum.default", binary, "Min"},
    {"aten.mish.default", activation_mish, NULL},
    {"aten.mm.default", matrices, NULL},
    {"aten.mul.Scalar", binary, "Mul"},
    {"aten.mul.Tensor", binary, "Mul"},
    {"aten.mv.default", matrices, NULL},
    {"aten.ne.Scalar", not_equal, "Equal"},
    {"aten.ne.Tensor", not_equal, "Equal"},
    {"aten.neg.default", unary, "Neg"},
    {"aten.outer.default", outer, NULL},
    {"aten.pow.Scalar", power, NULL},
    {"aten.pow.Tensor_Scalar", power, NULL},
    {"aten.pow.Tensor_Tensor", power, NULL},
    {"aten.prelu.default", prelu, NULL},
    {"aten.reciprocal.default", unary, "Reciprocal"},
    {"aten.relu.default", unary, "Relu"},
    {"aten.relu6.default", relu6, NULL},
    {"aten.remainder.Scalar", remainder_of, NULL},
    {"aten.remainder.Tensor", remainder_of, NULL},
    {"aten.round.default", unary, "Round"},
    {"aten.rsqrt.default", rsqrt, NULL},
    {"aten.rsub.Scalar", rsub, NULL},
    {"aten.scaled_dot_product_attention.default", attention, NULL},
    {"aten.selu.default", selu, NULL},
    {"aten.sigmoid.default", unary, "Sigmoid"},
    {"aten.sign.default", unary, "Sign"},
    {"aten.silu.default", silu, NULL},
    {"aten.sin.default", unary, "Sin"},
    {"aten.sinh.default", unary, "Sinh"},
    {"aten.softmax.int", along, "Softmax"},
    {"aten.softplus.default", softplus, NULL},
    {"aten.softsign.default", unary, "Softsign"},
    {"aten.sqrt.default", unary, "Sqrt"},
    {"aten.square.default", square, NULL},
    {"aten.square_.default", square, NULL},
    {"aten.sub.Scalar", binary, "Sub"},
    {"aten.sub.Tensor", binary, "Sub"},
    {"aten.tan.default", unary, "Tan"},
    {"aten.tanh.default", unary, "Tanh"},
    {"aten.tensordot.default", tensordot, NULL},
    {"aten.to.device", cast, NULL},
    {"aten.to.dtype", cast, NULL},
    {"aten.to.dtype_layout", cast, NULL},
    {"aten.to.other", cast, NULL},
    {"aten.type_as.default", cast, NULL},
    {"aten.where.Scalar", where, NULL},
    {"aten.where.ScalarOther", where, NULL},
    {"aten.where.ScalarSelf", where, NULL},
    {"aten.where.self", where, NULL},
    {0},
};
