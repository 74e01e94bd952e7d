/* GridSample: the pixels of an image, or of a volume, at given places, -1 to 1 along each side. */
#include "graph/host.h"
#include "graph/ops/common.h"

#include <math.h>
#include <string.h>

typedef enum outside_rule { ZEROS, BORDER, REFLECTION } outside_rule;

typedef struct sampling {
    const td_tensor *x;
    int axes;
    int64_t size[3]; /* height, width; of a volume: depth, height, width */
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

/* A pixel of the plane or volume that begins at base; 0 outside. */
static double pixel(const sampling *s, int64_t base, const double at[3]) {
    int64_t offset = 0;
    for (int i = 0; i < s->axes; i++) {
        if (!(at[i] >= 0 && at[i] < (double)s->size[i])) {
            return 0;
        }
        offset = offset * s->size[i] + (int64_t)at[i];
    }
    return td__graph_real(s->x, base + offset);
}

static double nearest(const sampling *s, int64_t base, const double at[3]) {
    double place[3] = {0};
    for (int i = 0; i < s->axes; i++) {
        place[i] = rint(bring_inside(s, i, at[i]));
    }
    return pixel(s, base, place);
}

/* Every corner of the box around the place, by how near it is. */
static double linear(const sampling *s, int64_t base, const double at[3]) {
    double sum = 0;
    for (int corner = 0; corner < 1 << s->axes; corner++) {
        double place[3] = {0}, weight = 1;
        for (int i = 0; i < s->axes; i++) {
            double inside = bring_inside(s, i, at[i]), low = floor(inside);
            bool upper = corner >> i & 1;
            place[i] = low + upper;
            weight *= upper ? inside - low : 1 - (inside - low);
        }
        sum += weight != 0 ? weight * pixel(s, base, place) : 0;
    }
    return sum;
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

static double bicubic(const sampling *s, int64_t base, const double at[3]) {
    double top = floor(at[0]), left = floor(at[1]), v[4], h[4], sum = 0;
    cubic_weights(at[0] - top, v);
    cubic_weights(at[1] - left, h);
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < 4; k++) {
            double place[3] = {rint(bring_inside(s, 0, top + i - 1)),
                               rint(bring_inside(s, 1, left + k - 1))};
            sum += v[i] * h[k] * pixel(s, base, place);
        }
    }
    return sum;
}

typedef double sampler(const sampling *s, int64_t base, const double at[3]);

static sampler *sampler_of(td__graph_call *call) {
    const char *mode = td__graph_text(call->node, "mode", "bilinear");
    return !strcmp(mode, "nearest")                             ? nearest
           : !strcmp(mode, "bicubic") || !strcmp(mode, "cubic") ? bicubic
                                                                : linear;
}

/* x (n, c, h, w), grid (n, rows, columns, 2): x and y -> (n, c, rows, columns); or a volume, (n, c, d, h, w)
 * and (n, …, 3): x, y and z */
static bool grid_sample(td__graph_call *call) {
    td_tensor *x[2];
    if (!td__graph_plains(call, 2, false, x)) {
        return false;
    }
    const int64_t *d = x[0]->shape.dims, *g = x[1]->shape.dims;
    int32_t rank = x[0]->shape.rank, axes = rank - 2;
    sampler *sample = sampler_of(call);
    if (rank < 4 || rank > 5 || x[1]->shape.rank != rank || d[0] != g[0] || g[rank - 1] != axes ||
        (axes == 3 && sample == bicubic)) {
        return td__graph_fail(call, TD_BAD_SHAPE, "its grid does not fit its images");
    }
    const char *outside = td__graph_text(call->node, "padding_mode", "zeros");
    sampling s = {.x = x[0],
                  .axes = axes,
                  .outside = *outside == 'b'   ? BORDER
                             : *outside == 'r' ? REFLECTION
                                               : ZEROS,
                  .align = td__graph_int(call->node, "align_corners", 0)};
    td_shape shape = x[0]->shape;
    int64_t places = 1, pixels = 1;
    for (int32_t i = 0; i < axes; i++) {
        s.size[i] = d[i + 2];
        shape.dims[i + 2] = g[i + 1];
        places *= g[i + 1];
        pixels *= d[i + 2];
    }
    td__graph_type type = td__graph_input(call, 0)->type;
    td_tensor *y = td__graph_new(call, type, shape);
    for (int64_t i = 0; y && i < y->count; i++) {
        int64_t plane = i / places, at = (plane / d[1] * places + i % places) * axes;
        double place[3] = {0};
        for (int32_t k = 0; k < axes; k++) { /* the grid has them the other way round */
            place[k] = to_pixels(&s, k, td__graph_real(x[1], at + axes - 1 - k));
        }
        td__graph_put_real(y, i, sample(&s, plane * pixels, place));
    }
    return td__graph_output_opaque(call, 0, type, y);
}

const td__graph_operator td__graph_samplers[] = {
    {"GridSample", grid_sample, 2, 2, 1, 16, 0, NULL},
    {0},
};
