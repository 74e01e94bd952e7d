/* Running sums and products, determinants, Fourier transforms: computed in doubles; of running sums alone the
 * gradient is known. */
#include "base/memory.h"
#include "graph/host.h"
#include "graph/ops/common.h"

#include <complex.h>
#include <math.h>

/* Elements along an axis, as in other files: line i begins at start, its elements stride apart. */
static int64_t axis_stride(const td_shape *shape, int32_t axis) {
    return td__elements_from(shape, axis + 1);
}

/* A running sum: what it runs along, and how. */
typedef struct running {
    int64_t length, stride, lines;
    bool exclusive, reverse;
} running;

/* dx at k: the sum of dy over all that it is a part of, which is a running sum the other way. */
static td_status sum_backward(td_tape *tape, td__node *node) {
    const running *r = node->saved;
    const float *dy = td__output_gradient(tape, node);
    bool add;
    float *dx = td__gradient(tape, node, 0, &add);
    if (!dx) {
        return TD_MEMORY;
    }
    for (int64_t line = 0; line < r->lines; line++) {
        int64_t start = line / r->stride * r->stride * r->length + line % r->stride;
        double all = 0;
        for (int64_t k = 0; k < r->length; k++) {
            int64_t at = start + (r->reverse ? k : r->length - 1 - k) * r->stride;
            double before = all;
            all += (double)dy[at];
            dx[at] = (float)(r->exclusive ? before : all) + (add ? dx[at] : 0.0f);
        }
    }
    return TD_OK;
}

static const td__op sum_op = {.name = "CumSum", .backward = sum_backward};

static td_tensor *record_sum(td_tape *tape, td_tensor *x, td_tensor *y, running how) {
    running *saved = td__scratch(tape, sizeof *saved);
    if (!saved) {
        return NULL;
    }
    *saved = how;
    return td__record(tape, &sum_op, y, 1, &x, saved);
}

static bool cumulate(td__graph_call *call, bool product) {
    td_tensor *x = td__graph_plain(call, 0);
    int64_t given = 0;
    size_t count;
    int32_t axis;
    if (!x || !td__graph_input_ints(call, 1, &given, 1, &count) ||
        !td__graph_axis(call, given, x->shape.rank, &axis)) {
        return false;
    }
    td__graph_type type = td__graph_input(call, 0)->type;
    td_tensor *y = td__graph_new(call, type, x->shape);
    bool exclusive = td__graph_int(call->node, "exclusive", 0);
    bool reverse = td__graph_int(call->node, "reverse", 0);
    int64_t length = x->shape.dims[axis], stride = axis_stride(&x->shape, axis);
    int64_t lines = x->count ? x->count / length : 0;
    for (int64_t line = 0; y && line < lines; line++) {
        int64_t start = line / stride * stride * length + line % stride;
        double all = product;
        uint64_t integers = product;
        for (int64_t k = 0; k < length; k++) {
            int64_t at = start + (reverse ? length - 1 - k : k) * stride;
            double before = all, real = td__graph_real(x, at);
            uint64_t integers_before = integers, integer = (uint64_t)td__graph_integer(x, at);
            all = product ? all * real : all + real;
            integers = product ? integers * integer : integers + integer;
            if (td__graph_is_integer(x)) {
                td__graph_put_integer(y, at, (int64_t)(exclusive ? integers_before : integers));
            } else {
                td__graph_put_real(y, at, exclusive ? before : all);
            }
        }
    }
    if (product) {
        return td__graph_output_opaque(call, 0, type, y);
    }
    if (y && y->dtype == TD_FLOAT32) {
        y = record_sum(call->tape, x, y, (running){length, stride, lines, exclusive, reverse});
    }
    return td__graph_output(call, 0, type, y);
}

static bool cumulative_sum(td__graph_call *call) {
    return cumulate(call, false);
}
static bool cumulative_product(td__graph_call *call) {
    return cumulate(call, true);
}

/* --- determinants ------------------------------------------------------------------------- */

/* By elimination with the largest pivot; a is overwritten. */
static double determinant(double *a, int64_t n) {
    double product = 1;
    for (int64_t column = 0; column < n; column++) {
        int64_t pivot = column;
        for (int64_t row = column + 1; row < n; row++) {
            pivot = fabs(a[row * n + column]) > fabs(a[pivot * n + column]) ? row : pivot;
        }
        if (a[pivot * n + column] == 0) {
            return 0;
        }
        product *= pivot == column ? a[pivot * n + column] : -a[pivot * n + column];
        for (int64_t k = 0; k < n; k++) {
            double moved = a[pivot * n + k];
            a[pivot * n + k] = a[column * n + k];
            a[column * n + k] = moved;
        }
        for (int64_t row = column + 1; row < n; row++) {
            double factor = a[row * n + column] / a[column * n + column];
            for (int64_t k = column; k < n; k++) {
                a[row * n + k] -= factor * a[column * n + k];
            }
        }
    }
    return product;
}

static bool det(td__graph_call *call) {
    td_tensor *x = td__graph_plain(call, 0);
    if (!x) {
        return false;
    }
    td_shape shape = x->shape;
    int64_t n = shape.rank >= 2 ? shape.dims[shape.rank - 1] : -1;
    if (shape.rank < 2 || n != shape.dims[shape.rank - 2]) {
        return td__graph_fail(call, TD_BAD_SHAPE, "its input is no square matrix");
    }
    shape.rank -= 2;
    td__graph_type type = td__graph_input(call, 0)->type;
    td_tensor *y = td__graph_new(call, type, shape);
    double *matrix = y ? td__scratch(call->tape, (size_t)(n * n) * sizeof *matrix) : NULL;
    for (int64_t i = 0; matrix && i < y->count; i++) {
        for (int64_t k = 0; k < n * n; k++) {
            matrix[k] = td__graph_real(x, i * n * n + k);
        }
        td__graph_put_real(y, i, determinant(matrix, n));
    }
    return matrix && td__graph_output_opaque(call, 0, type, y);
}

/* --- Fourier transforms ------------------------------------------------------------------- */

/* out[k] = sum of in[j] e^(-2 pi i j k / n), or its inverse; lengths are those of sound frames, so
 * the sum is simply taken. roots: n of them. */
static void transform(const double complex *in, int64_t n, const double complex *roots,
                      double complex *out, int64_t kept, double scale) {
    for (int64_t k = 0; k < kept; k++) {
        double complex sum = 0;
        for (int64_t j = 0, at = 0; j < n; j++) {
            sum += in[j] * roots[at];
            at += k;
            at = at >= n ? at - n : at;
        }
        out[k] = sum * scale;
    }
}

#define MAX_WORK (INT64_C(1) << 32)

/* Room for a transform of n numbers. */
typedef struct fourier {
    int64_t n, kept;
    double scale;
    double complex *roots, *in, *out;
} fourier;

/* For that many lines; the work is bounded. */
static bool fourier_init(td__graph_call *call, int64_t n, int64_t lines, bool inverse,
                         bool onesided, fourier *f) {
    int64_t work;
    if (n < 1 || n > 1 << 16 || !td__multiply(n * n, lines, &work) || work > MAX_WORK) {
        return td__graph_fail(call, TD_RANGE, "%lld of %lld numbers", (long long)lines,
                              (long long)n);
    }
    *f = (fourier){.n = n, .kept = onesided ? n / 2 + 1 : n, .scale = inverse ? 1 / (double)n : 1};
    double complex *room = td__scratch(call->tape, 3 * (size_t)n * sizeof *room);
    if (!room) {
        return false;
    }
    f->roots = room;
    f->in = room + n;
    f->out = room + 2 * n;
    for (int64_t k = 0; k < n; k++) {
        double angle = (inverse ? 2 : -2) * M_PI * (double)k / (double)n;
        f->roots[k] = cos(angle) + I * sin(angle);
    }
    return true;
}

/* A complex number of x: its last axis holds 1 (real) or 2 parts. */
static double complex read_complex(const td_tensor *x, int64_t i, int64_t parts) {
    return td__graph_real(x, i * parts) + (parts == 2 ? I * td__graph_real(x, i * parts + 1) : 0);
}

static bool has_parts(td__graph_call *call, const td_tensor *x, int64_t *parts) {
    *parts = x->shape.rank >= 2 ? x->shape.dims[x->shape.rank - 1] : 0;
    return *parts == 1 || *parts == 2 ||
           td__graph_fail(call, TD_BAD_SHAPE, "its last axis must hold 1 or 2 parts of a number");
}

/* From opset 20 on an input says it; never the last, which holds the parts of a number. */
static bool transform_axis(td__graph_call *call, int32_t rank, int32_t *axis) {
    int64_t declared = td__graph_int(call->node, "axis", 1);
    size_t given = 0;
    if (call->opset >= 20) {
        declared = -2;
        if (!td__graph_input_ints(call, 2, &declared, 1, &given)) {
            return false;
        }
    }
    if (!td__graph_axis(call, declared, rank, axis)) {
        return false;
    }
    return *axis < rank - 1 || td__graph_fail(call, TD_RANGE, "along its last axis");
}

/* (…, n, …, parts) along an axis */
static bool dft(td__graph_call *call) {
    td_tensor *x = td__graph_plain(call, 0);
    int64_t parts, length;
    size_t given;
    int32_t axis;
    if (!x || !has_parts(call, x, &parts) || !transform_axis(call, x->shape.rank, &axis) ||
        !td__graph_input_ints(call, 1, &length, 1, &given)) {
        return false;
    }
    bool inverse = td__graph_int(call->node, "inverse", 0);
    bool onesided = td__graph_int(call->node, "onesided", 0), real = inverse && onesided;
    int64_t had = x->shape.dims[axis];
    int64_t n = given ? length : real ? 2 * (had - 1) : had;
    if (had < 1) {
        return td__graph_fail(call, TD_BAD_SHAPE, "of nothing");
    }
    int64_t lines = x->count / had / parts;
    fourier f;
    if (!fourier_init(call, n, lines, inverse, onesided && !inverse, &f)) {
        return false;
    }
    td_shape shape = x->shape;
    shape.dims[axis] = f.kept;
    shape.dims[shape.rank - 1] = real ? 1 : 2;
    td__graph_type type = td__graph_input(call, 0)->type;
    td_tensor *y = td__graph_new(call, type, shape);
    int64_t stride = axis_stride(&x->shape, axis) / parts;
    for (int64_t line = 0; y && line < lines; line++) {
        int64_t outer = line / stride, inner = line % stride;
        for (int64_t k = 0; k < n; k++) {
            int64_t at = (outer * had + k) * stride + inner;
            f.in[k] = k < had ? read_complex(x, at, parts) : 0;
        }
        for (int64_t k = n / 2 + 1; real && k < n; k++) { /* the other side mirrors this one */
            f.in[k] = conj(f.in[n - k]);
        }
        transform(f.in, n, f.roots, f.out, f.kept, f.scale);
        for (int64_t k = 0; k < f.kept; k++) {
            int64_t at = (outer * f.kept + k) * stride + inner;
            td__graph_put_real(y, (real ? 1 : 2) * at, creal(f.out[k]));
            if (!real) {
                td__graph_put_real(y, 2 * at + 1, cimag(f.out[k]));
            }
        }
    }
    return td__graph_output_opaque(call, 0, type, y);
}

/* signal (batch, length, parts) in frames that are step apart, each times a window */
static bool stft(td__graph_call *call) {
    td_tensor *x = td__graph_plain(call, 0), *window = td__graph_plain(call, 2);
    int64_t parts, step = 0, frame = 0;
    size_t given, has_frame;
    if (!x || !has_parts(call, x, &parts) || !td__graph_input_ints(call, 1, &step, 1, &given) ||
        !td__graph_input_ints(call, 3, &frame, 1, &has_frame)) {
        return false;
    }
    frame = has_frame ? frame : window ? window->count : 0;
    if (x->shape.rank != 3 || step < 1 || frame < 1 || frame > x->shape.dims[1] ||
        (window && window->count != frame)) {
        return td__graph_fail(call, TD_BAD_SHAPE, "frames of %lld, %lld apart", (long long)frame,
                              (long long)step);
    }
    int64_t batch = x->shape.dims[0], length = x->shape.dims[1];
    int64_t frames = (length - frame) / step + 1;
    bool onesided = td__graph_int(call->node, "onesided", 1);
    fourier f;
    if (!fourier_init(call, frame, batch * frames, false, onesided, &f)) {
        return false;
    }
    td__graph_type type = td__graph_input(call, 0)->type;
    td_tensor *y = td__graph_new(call, type, TD_SHAPE(batch, frames, f.kept, 2));
    for (int64_t i = 0; y && i < batch * frames; i++) {
        int64_t start = i / frames * length + i % frames * step;
        for (int64_t k = 0; k < frame; k++) {
            f.in[k] = read_complex(x, start + k, parts) * (window ? td__graph_real(window, k) : 1);
        }
        transform(f.in, frame, f.roots, f.out, f.kept, 1);
        for (int64_t k = 0; k < f.kept; k++) {
            td__graph_put_real(y, 2 * (i * f.kept + k), creal(f.out[k]));
            td__graph_put_real(y, 2 * (i * f.kept + k) + 1, cimag(f.out[k]));
        }
    }
    return td__graph_output_opaque(call, 0, type, y);
}

const td__graph_operator td__graph_numeric[] = {
    {"CumProd", cumulative_product, 2, 2, 1, 26, 0, td__graph_infer_same},
    {"CumSum", cumulative_sum, 2, 2, 1, 11, 0, td__graph_infer_same},
    {"DFT", dft, 1, 3, 1, 17, 0, NULL},
    {"Det", det, 1, 1, 1, 11, 0, NULL},
    {"STFT", stft, 2, 4, 1, 17, 0, NULL},
    {0},
};
