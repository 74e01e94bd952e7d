/* The Reduce operators on integers and doubles. */
#include "graph/host.h"

#include <math.h>
#include <string.h>

/* What each element adds to the result so far, and what becomes of that in the end. */
static double add_magnitude(double sum, double x) {
    return sum + fabs(x);
}
static double add_square(double sum, double x) {
    return sum + x * x;
}
static double add_number(double sum, double x) {
    return sum + x;
}
static double add_exponential(double sum, double x) {
    return sum + exp(x);
}
static double greater(double max, double x) {
    return isnan(max) || max > x ? max : x;
}
static double lesser(double min, double x) {
    return isnan(min) || min < x ? min : x;
}
static double multiply(double product, double x) {
    return product * x;
}

static int64_t add_magnitudes(int64_t sum, int64_t x) {
    return (int64_t)((uint64_t)sum + (x < 0 ? 0 - (uint64_t)x : (uint64_t)x));
}
static int64_t add_squares(int64_t sum, int64_t x) {
    return (int64_t)((uint64_t)sum + (uint64_t)x * (uint64_t)x);
}
static int64_t add_integers(int64_t sum, int64_t x) {
    return (int64_t)((uint64_t)sum + (uint64_t)x);
}
static int64_t greatest(int64_t max, int64_t x) {
    return max > x ? max : x;
}
static int64_t min(int64_t max, int64_t x) {
    return max < x ? max : x;
}
static int64_t multiply_integers(int64_t product, int64_t x) {
    return (int64_t)((uint64_t)product * (uint64_t)x);
}

typedef struct reduction {
    const char *name;
    int64_t (*integer)(int64_t so_far, int64_t x); /* NULL: computed in doubles */
    double (*real)(double so_far, double x);
    double start;
    double (*finish)(double sum); /* or NULL */
    bool mean;
} reduction;

static const reduction reductions[] = {
    {"ReduceL1", add_magnitudes, add_magnitude, 0, NULL, false},
    {"ReduceL2", NULL, add_square, 0, sqrt, false},
    {"ReduceLogSum", NULL, add_number, 0, log, false},
    {"ReduceLogSumExp", NULL, add_exponential, 0, log, false},
    {"ReduceMax", greatest, greater, -HUGE_VAL, NULL, false},
    {"ReduceMean", NULL, add_number, 0, NULL, true},
    {"ReduceMin", min, lesser, HUGE_VAL, NULL, false},
    {"ReduceProd", multiply_integers, multiply, 1, NULL, false},
    {"ReduceSum", add_integers, add_number, 0, NULL, false},
    {"ReduceSumSquare", add_squares, add_square, 0, NULL, false},
};

/* For each axis of x, how far its elements are apart in the result. */
static td_shape result_shape(const td_shape *x, const bool reduced[TD_MAX_RANK], bool keep,
                             int64_t strides[TD_MAX_RANK]) {
    td_shape shape = {0};
    int64_t stride = 1;
    for (int32_t i = 0; i < x->rank; i++) {
        if (!reduced[i] || keep) {
            shape.dims[shape.rank++] = reduced[i] ? 1 : x->dims[i];
        }
    }
    for (int32_t i = x->rank - 1; i >= 0; i--) {
        strides[i] = reduced[i] ? 0 : stride;
        stride *= reduced[i] ? 1 : x->dims[i];
    }
    return shape;
}

static void fold(const reduction *f, const td_tensor *x, const int64_t strides[TD_MAX_RANK],
                 double *reals, int64_t *integers) {
    int64_t index[TD_MAX_RANK] = {0}, at = 0;
    for (int64_t i = 0; i < x->count; i++) {
        if (integers) {
            integers[at] = f->integer(integers[at], td__graph_integer(x, i));
        } else {
            reals[at] = f->real(reals[at], td__graph_real(x, i));
        }
        for (int32_t axis = x->shape.rank - 1; axis >= 0; axis--) {
            at += strides[axis];
            if (++index[axis] < x->shape.dims[axis]) {
                break;
            }
            at -= strides[axis] * x->shape.dims[axis];
            index[axis] = 0;
        }
    }
}

bool td__graph_host_reduce(td__graph_call *call, const bool reduced[TD_MAX_RANK], bool keep) {
    const reduction *f = NULL;
    for (size_t i = 0; i < sizeof reductions / sizeof *reductions; i++) {
        f = strcmp(reductions[i].name, call->node->op_type) ? f : &reductions[i];
    }
    td_tensor *x = td__graph_plain(call, 0);
    if (!f || !x) {
        return x && td__graph_fail(call, TD_UNSUPPORTED, "not of type %s",
                                   td__graph_type_name(td__graph_input(call, 0)->type));
    }
    td__graph_type type = td__graph_input(call, 0)->type;
    bool in_integers = td__graph_is_integer(x) && f->integer;
    int64_t strides[TD_MAX_RANK];
    td_tensor *y = td__graph_new(call, type, result_shape(&x->shape, reduced, keep, strides));
    double *reals = y ? td__scratch(call->tape, (size_t)y->count * sizeof *reals) : NULL;
    if (!reals) {
        return false;
    }
    double start = type == TD__GRAPH_BOOL ? fmin(fmax(f->start, 0), 1) : f->start;
    for (int64_t i = 0; i < y->count; i++) {
        reals[i] = start;
        td__graph_put_real(y, i, start);
    }
    fold(f, x, strides, reals, in_integers ? y->data : NULL);
    double each = y->count ? (double)(x->count / y->count) : 1; /* elements that make one; 0: NaN */
    for (int64_t i = 0; !in_integers && i < y->count; i++) {
        double value = f->mean ? reals[i] / each : reals[i];
        td__graph_put_real(y, i, f->finish ? f->finish(value) : value);
    }
    return td__graph_output(call, 0, type, y);
}
