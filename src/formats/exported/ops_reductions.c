/* ATen's operators as those of ONNX: what is reduced along axes. */
#include "exported/convert.h"

#include <math.h>
#include <string.h>

#define SELF(call) td__aten_value(call, "self")

/* x reduced over the axes of the argument `dim`, none: all, by an operator that has them as an attribute
 * or, of sums, as an input. */
static const char *reduce(td__aten_call *call, const char *word, const char *x, bool keep) {
    int64_t axes[TD_MAX_RANK];
    size_t count = td__aten_ints(call, "dim", axes);
    if (count > TD_MAX_RANK) {
        return NULL;
    }
    bool sum = !strcmp(word, "ReduceSum"); /* which has the axes as an input */
    td__attribute attributes[2] = {TD__NAMED_INT("keepdims", keep),
                                   TD__NAMED_INTS("axes", axes, count)};
    const char *inputs[2] = {x, sum && count ? td__operator_integers(call->to, count, axes) : NULL};
    return td__operator(call->to, word, sum && count ? 2 : 1, inputs, sum || !count ? 1 : 2,
                        attributes);
}

static const char *convert_reduction(td__aten_call *call) {
    return reduce(call, call->row->word, td__aten_as(call, "self", td__aten_made_kind(call)),
                  td__aten_bool(call, "keepdim"));
}

/* Whether any or all are true: the largest or smallest of 0 and 1. */
static const char *truth_reduction(td__aten_call *call) {
    const char *x = td__aten_cast(call, td__aten_as(call, "self", TD__ATEN_TRUTH), TD__ATEN_WHOLE);
    return td__aten_cast(call, reduce(call, call->row->word, x, td__aten_bool(call, "keepdim")),
                         TD__ATEN_TRUTH);
}

static const char *extreme_place(td__aten_call *call) {
    const char *x = SELF(call);
    td__attribute attributes[2] = {TD__NAMED_INT("keepdims", td__aten_bool(call, "keepdim")),
                                   TD__NAMED_INT("axis", td__aten_int(call, "dim", 0))};
    return td__aten_argument(call, "dim")
               ? td__operator(call->to, call->row->word, 1, &x, 2, attributes)
               : td__operator_refuse(call->to, "over all axes");
}

/* The largest or smallest along an axis, and where. */
static const char *extreme(td__aten_call *call) {
    const char *x = SELF(call);
    bool max = !strcmp(call->row->word, "ReduceMax");
    td__attribute attributes[2] = {TD__NAMED_INT("keepdims", td__aten_bool(call, "keepdim")),
                                   TD__NAMED_INT("axis", td__aten_int(call, "dim", 0))};
    td__aten_give(call, 1, td__operator(call->to, max ? "ArgMax" : "ArgMin", 1, &x, 2, attributes));
    return reduce(call, call->row->word, x, td__aten_bool(call, "keepdim"));
}

/* The variance: of each its distance from the mean, squared; over n, or n - 1 if it is corrected. */
static const char *variance(td__aten_call *call, bool keep, const char **mean) {
    td__operators *to = call->to;
    td_shape shape;
    int64_t axes[TD_MAX_RANK], n = 1;
    int32_t rank = td__aten_shape(call, "self", &shape);
    size_t count = td__aten_ints(call, "dim", axes);
    if (rank < 0 || count > TD_MAX_RANK) {
        return NULL;
    }
    for (int32_t i = 0; i < rank; i++) {
        bool taken = count == 0;
        for (size_t k = 0; k < count; k++) {
            taken = taken || axes[k] + (axes[k] < 0 ? rank : 0) == i;
        }
        n = !taken || n < 0 ? n : shape.dims[i] < 0 || n > INT32_MAX ? -1 : n * shape.dims[i];
    }
    const json_t *unbiased = td__aten_argument(call, "unbiased");
    double less = unbiased ? td__aten_bool(call, "unbiased") : td__aten_real(call, "correction", 1);
    if (less != 0 && n < 1) {
        return td__operator_refuse(to, "corrected, over an open axis");
    }
    const char *x = SELF(call);
    *mean = reduce(call, "ReduceMean", x, true);
    const char *apart = TD__OPERATOR(to, "Sub", x, *mean);
    const char *y = reduce(call, "ReduceMean", TD__OPERATOR(to, "Mul", apart, apart), keep);
    return less == 0 ? y
                     : TD__OPERATOR(to, "Mul", y,
                                    td__operator_number(to, (double)n / fmax((double)n - less, 0)));
}

static const char *convert_variance(td__aten_call *call) {
    const char *mean = NULL, *word = call->row->word;
    bool keep = td__aten_bool(call, "keepdim"), mean_too = !strcmp(word, "Mean");
    const char *y = variance(call, keep, &mean);
    if (y && mean_too) {
        td__aten_give(call, 1, keep ? mean : reduce(call, "ReduceMean", SELF(call), false));
    }
    return y && !strcmp(word, "Sqrt") ? TD__OPERATOR(call->to, "Sqrt", y) : y;
}

/* (sum |x|^p)^(1/p) */
static const char *norm(td__aten_call *call) {
    td__operators *to = call->to;
    double p = td__aten_real(call, td__aten_argument(call, "ord") ? "ord" : "p", 2);
    const char *x = SELF(call);
    bool keep = td__aten_bool(call, "keepdim");
    if (p == 1 || isinf(p)) {
        return reduce(call,
                      p == 1  ? "ReduceSum"
                      : p > 0 ? "ReduceMax"
                              : "ReduceMin",
                      TD__OPERATOR(to, "Abs", x), keep);
    }
    if (p != 2) {
        return td__operator_refuse(to, "of order %g", p);
    }
    return TD__OPERATOR(to, "Sqrt", reduce(call, "ReduceSum", TD__OPERATOR(to, "Mul", x, x), keep));
}

/* --- the table ---------------------------------------------------------------------------- */

const td__aten_operator td__aten_reductions[] = {
    {"aten.all.default", truth_reduction, "ReduceMin"},
    {"aten.all.dim", truth_reduction, "ReduceMin"},
    {"aten.amax.default", convert_reduction, "ReduceMax"},
    {"aten.amin.default", convert_reduction, "ReduceMin"},
    {"aten.any.default", truth_reduction, "ReduceMax"},
    {"aten.any.dim", truth_reduction, "ReduceMax"},
    {"aten.argmax.default", extreme_place, "ArgMax"},
    {"aten.argmin.default", extreme_place, "ArgMin"},
    {"aten.linalg_vector_norm.default", norm, NULL},
    {"aten.logsumexp.default", convert_reduction, "ReduceLogSumExp"},
    {"aten.max.default", convert_reduction, "ReduceMax"},
    {"aten.max.dim", extreme, "ReduceMax"},
    {"aten.mean.default", convert_reduction, "ReduceMean"},
    {"aten.mean.dim", convert_reduction, "ReduceMean"},
    {"aten.min.default", convert_reduction, "ReduceMin"},
    {"aten.min.dim", extreme, "ReduceMin"},
    {"aten.norm.Scalar", norm, NULL},
    {"aten.norm.ScalarOpt_dim", norm, NULL},
    {"aten.prod.default", convert_reduction, "ReduceProd"},
    {"aten.prod.dim_int", convert_reduction, "ReduceProd"},
    {"aten.std.correction", convert_variance, "Sqrt"},
    {"aten.std.default", convert_variance, "Sqrt"},
    {"aten.std.dim", convert_variance, "Sqrt"},
    {"aten.sum.default", convert_reduction, "ReduceSum"},
    {"aten.sum.dim_IntList", convert_reduction, "ReduceSum"},
    {"aten.var.correction", convert_variance, "Var"},
    {"aten.var.default", convert_variance, "Var"},
    {"aten.var.dim", convert_variance, "Var"},
    {"aten.var_mean.correction", convert_variance, "Mean"},
    {"aten.var_mean.dim", convert_variance, "Mean"},
    {0},
};
