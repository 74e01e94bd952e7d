/* GridSample: the pixels of an image at given places, -1 to 1 along each side. */
#include "onnx/host.h"
#include "onnx/ops/common.h"

#include <math.h>
#include <string.h>

typedef enum outside_rule { ZEROS, BORDER, REFLECTION } outside_rule;

typedef struct sampling {
    const td_tensor *x;
    int64_t size[2]; /* height, width */
    outside_rule outside;
    bool align; /* -1 and 1 are the centres of the border's pixels, not their edges */
} sampling;

/* Back and forth between two borders. */
static double reflect(double at, double low, double high) {
    double span = high - low;
    if (!(span > 0)) {
        return low;
    }
    double turned = fmod(fabs(at - low), 2 * span);
    return low + (turned > span ? 2 * span - turned : turned);
}

/* Where a place outside of the image is taken from. */
static double bring_inside(const sampling *s, int axis, double at) {
    double last = (double)(s->size[axis] - 1);
    if (s->outside == REFLECTION) {
        at = s->align ? reflect(at, 0, last) : reflect(at, -0.5, last + 0.5);
    }
    return s->outside == ZEROS ? at : fmin(fmax(at, 0), last);
}

static double to_pixels(const sampling *s, int axis, double at) {
    double size = (double)s->size[axis];
    return s->align ? (at + 1) / 2 * (size - 1) : ((at + 1) * size - 1) / 2;
}

/* A pixel of the plane that begins at base; 0 outside. */
static double pixel(const sampling *s, int64_t base, double row, double column) {
    if (!(row >= 0 && row < (double)s->size[0] && column >= 0 && column < (double)s->size[1])) {
        return 0;
    }
    return td__onnx_real(s->x, base + (int64_t)row * s->size[1] + (int64_t)column);
}

static double nearest(const sampling *s, int64_t base, double y, double x) {
    return pixel(s, base, rint(bring_inside(s, 0, y)), rint(bring_inside(s, 1, x)));
}

static double bilinear(const sampling *s, int64_t base, double y, double x) {
    y = bring_inside(s, 0, y);
    x = bring_inside(s, 1, x);
    double top = floor(y), left = floor(x), v = y - top, h = x - left;
    return (1 - v) * ((1 - h) * pixel(s, base, top, left) + h * pixel(s, base, top, left + 1)) +
           v * ((1 - h) * pixel(s, base, top + 1, left) + h * pixel(s, base, top + 1, left + 1));
}

/* Keys's kernel with a = -0.75 for the pixels at -1, 0, 1 and 2. */
static void cubic_weights(double t, double weights[4]) {
    const double a = -0.75;
    for (int i = 0; i < 4; i++) {
        double d = fabs(t - (i - 1));
        weights[i] = d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1
                            : ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
    }
}

static double bicubic(const sampling *s, int64_t base, double y, double x) {
    double top = floor(y), left = floor(x), v[4], h[4], sum = 0;
    cubic_weights(y - top, v);
    cubic_weights(x - left, h);
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < 4; k++) {
            sum += v[i] * h[k] *
                   pixel(s, base, rint(bring_inside(s, 0, top + i - 1)),
                         rint(bring_inside(s, 1, left + k - 1)));
        }
    }
    return sum;
}

typedef double sampler(const sampling *s, int64_t base, double y, double x);

static sampler *sampler_of(td__onnx_call *call) {
    const char *mode = td__onnx_text(call->node, "mode", "bilinear");
    return !strcmp(mode, "nearest")                             ? nearest
           : !strcmp(mode, "bicubic") || !strcmp(mode, "cubic") ? bicubic
                                                                : bilinear;
}

/* x (n, c, h, w), grid (n, rows, columns, 2): x and y -> (n, c, rows, columns) */
static bool grid_sample(td__onnx_call *call) {
    td_tensor *x[2];
    if (!td__onnx_plains(call, 2, false, x)) {
        return false;
    }
    const int64_t *d = x[0]->shape.dims, *g = x[1]->shape.dims;
    if (x[0]->shape.rank != 4 || x[1]->shape.rank != 4 || d[0] != g[0] || g[3] != 2) {
        return td__onnx_fail(call, TD_BAD_SHAPE, "its grid does not fit its images");
    }
    const char *outside = td__onnx_text(call->node, "padding_mode", "zeros");
    sampling s = {.x = x[0],
                  .size = {d[2], d[3]},
                  .outside = *outside == 'b'   ? BORDER
                             : *outside == 'r' ? REFLECTION
                                               : ZEROS,
                  .align = td__onnx_int(call->node, "align_corners", 0)};
    sampler *sample = sampler_of(call);
    td__onnx_type type = td__onnx_input(call, 0)->type;
    td_tensor *y = td__onnx_new(call, type, TD_SHAPE(d[0], d[1], g[1], g[2]));
    int64_t places = g[1] * g[2];
    for (int64_t i = 0; y && i < y->count; i++) {
        int64_t plane = i / places, at = (plane / d[1] * places + i % places) * 2;
        double column = to_pixels(&s, 1, td__onnx_real(x[1], at));
        double row = to_pixels(&s, 0, td__onnx_real(x[1], at + 1));
        td__onnx_put_real(y, i, sample(&s, plane * d[2] * d[3], row, column));
    }
    return td__onnx_output(call, 0, type, y);
}

const td__onnx_operator td__onnx_samplers[] = {
    {"GridSample", grid_sample, 2, 2, 1, 16, 0},
    {0},
};
