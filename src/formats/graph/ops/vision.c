/* Boxes and places in images: non-maximum suppression, regions, sampling at given points. */
#include "graph/host.h"
#include "graph/ops/common.h"
#include "tape/pick.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- non-maximum suppression -------------------------------------------------------------- */

typedef struct box {
    double top, left, bottom, right, score;
    int64_t number;
} box;

static box read_box(const td_tensor *boxes, int64_t i, bool centre) {
    double p[4];
    for (int k = 0; k < 4; k++) {
        p[k] = td__graph_real(boxes, 4 * i + k);
    }
    if (centre) { /* x, y, width, height */
        return (box){.top = p[1] - p[3] / 2,
                     .left = p[0] - p[2] / 2,
                     .bottom = p[1] + p[3] / 2,
                     .right = p[0] + p[2] / 2};
    }
    return (box){.top = fmin(p[0], p[2]),
                 .left = fmin(p[1], p[3]),
                 .bottom = fmax(p[0], p[2]),
                 .right = fmax(p[1], p[3])};
}

/* The area that two boxes share, as a part of what they cover together. */
static double overlap(const box *a, const box *b) {
    double height = fmin(a->bottom, b->bottom) - fmax(a->top, b->top);
    double width = fmin(a->right, b->right) - fmax(a->left, b->left);
    double shared = fmax(height, 0) * fmax(width, 0);
    double all = (a->bottom - a->top) * (a->right - a->left) +
                 (b->bottom - b->top) * (b->right - b->left) - shared;
    return all > 0 ? shared / all : 0;
}

static int by_score(const void *left, const void *right) {
    const box *a = left, *b = right;
    return a->score != b->score ? (a->score < b->score) - (a->score > b->score)
                                : (a->number > b->number) - (a->number < b->number);
}

typedef struct suppression {
    const td_tensor *boxes, *scores;
    int64_t count, max; /* boxes of an image, and how many of a class are kept */
    double overlap;
    const td_tensor *min; /* score, or NULL */
    bool centre;
} suppression;

/* Moves the boxes of a class that are kept to the front; returns how many. */
static int64_t suppress(const suppression *s, int64_t image, int64_t scores, box *boxes) {
    int64_t candidates = 0, kept = 0;
    for (int64_t i = 0; i < s->count; i++) {
        double score = td__graph_real(s->scores, scores + i);
        if (!s->min || score > td__graph_real(s->min, 0)) {
            boxes[candidates] = read_box(s->boxes, image * s->count + i, s->centre);
            boxes[candidates].score = score;
            boxes[candidates++].number = i;
        }
    }
    qsort(boxes, (size_t)candidates, sizeof *boxes, by_score);
    for (int64_t i = 0; i < candidates && kept < s->max; i++) {
        bool free = true;
        for (int64_t k = 0; k < kept && free; k++) {
            free = overlap(&boxes[k], &boxes[i]) <= s->overlap;
        }
        if (free) {
            boxes[kept++] = boxes[i];
        }
    }
    return kept;
}

static double number_or(td__graph_call *call, size_t input, double fallback) {
    const td_tensor *x = td__graph_plain(call, input);
    return x && x->count > 0 ? td__graph_real(x, 0) : fallback;
}

/* boxes (images, n, 4), scores (images, classes, n) -> (kept, 3): image, class, box */
static bool non_max_suppression(td__graph_call *call) {
    td_tensor *x[2];
    if (!td__graph_plains(call, 2, true, x)) {
        return false;
    }
    const int64_t *b = x[0]->shape.dims, *s = x[1]->shape.dims;
    if (x[0]->shape.rank != 3 || x[1]->shape.rank != 3 || b[0] != s[0] || b[1] != s[2] ||
        b[2] != 4) {
        return td__graph_fail(call, TD_BAD_SHAPE, "its boxes and scores do not fit");
    }
    const td_tensor *min = td__graph_plain(call, 4);
    suppression how = {.boxes = x[0],
                       .scores = x[1],
                       .count = b[1],
                       .max = (int64_t)fmin(number_or(call, 2, 0), 0x1p62),
                       .overlap = number_or(call, 3, 0),
                       .min = min && min->count ? min : NULL,
                       .centre = td__graph_int(call->node, "center_point_box", 0)};
    how.max = how.max < how.count ? how.max : how.count;
    how.max = how.max > 0 ? how.max : 0;
    int64_t classes = s[0] * s[1], count = 0;
    box *boxes = td__scratch(call->tape, (size_t)how.count * sizeof *boxes);
    int64_t *found = td__scratch(call->tape, (size_t)(classes * how.max) * 3 * sizeof *found);
    for (int64_t c = 0; boxes && found && c < classes; c++) {
        int64_t kept = suppress(&how, c / s[1], c * how.count, boxes);
        for (int64_t i = 0; i < kept; i++, count++) {
            found[3 * count] = c / s[1];
            found[3 * count + 1] = c % s[1];
            found[3 * count + 2] = boxes[i].number;
        }
    }
    td_tensor *y = boxes && found ? td__graph_new(call, TD__GRAPH_INT64, TD_SHAPE(count, 3)) : NULL;
    for (int64_t i = 0; y && i < y->count; i++) {
        td__graph_put_integer(y, i, found[i]);
    }
    return td__graph_output(call, 0, TD__GRAPH_INT64, y);
}

/* --- the way back from pooling ------------------------------------------------------------ */

/* The size of what was pooled to give shape. */
static bool unpooled_shape(td__graph_call *call, const td_shape *shape, td_shape *out) {
    size_t axes = (size_t)shape->rank - 2;
    *out = *shape;
    for (size_t i = 0; i < axes; i++) {
        int64_t window = td__graph_listed(call->node, "kernel_shape", i, 1),
                stride = td__graph_listed(call->node, "strides", i, 1);
        int64_t pads = td__graph_listed(call->node, "pads", i, 0) +
                       td__graph_listed(call->node, "pads", i + axes, 0);
        if (window < 1 || stride < 1 || window > INT32_MAX || stride > INT32_MAX ||
            pads < -INT32_MAX || pads > INT32_MAX || shape->dims[i + 2] > INT32_MAX) {
            return td__graph_fail(call, TD_RANGE, "window, strides or pads");
        }
        out->dims[i + 2] = (shape->dims[i + 2] - 1) * stride + window - pads;
    }
    td_error error = {0};
    return !td_shape_check(out, TD_FLOAT64, NULL, &error) ||
           td__graph_fail(call, error.status, "%s", error.text);
}

/* Puts each value where the largest was, by its number in an image of the size that was pooled; an
 * output_shape gives it more room at the end of each axis. */
static bool max_unpool(td__graph_call *call) {
    td_tensor *x[2];
    td_shape shape, full = {0};
    size_t given;
    if (!td__graph_plains(call, 2, false, x) ||
        !td__graph_input_ints(call, 2, full.dims, TD_MAX_RANK, &given)) {
        return false;
    }
    if (x[0]->shape.rank < 3 || !td_shape_equal(&x[0]->shape, &x[1]->shape) ||
        !td__graph_is_integer(x[1]) || (given && (int32_t)given != x[0]->shape.rank)) {
        return td__graph_fail(call, TD_BAD_SHAPE, "its places do not fit its input");
    }
    if (!unpooled_shape(call, &x[0]->shape, &shape)) {
        return false;
    }
    full = given ? full : shape;
    full.rank = shape.rank;
    td__graph_type type = td__graph_input(call, 0)->type;
    td_tensor *zeros = td__graph_new(call, type, full);
    int64_t *places = zeros ? td__scratch(call->tape, (size_t)x[0]->count * sizeof *places) : NULL;
    if (!places) {
        return false;
    }
    memset(zeros->data, 0, (size_t)zeros->count * td_dtype_size(zeros->dtype));
    int64_t from[TD_MAX_RANK], to[TD_MAX_RANK];
    td__strides(&shape, from);
    td__strides(&full, to);
    for (int64_t i = 0; i < x[0]->count; i++) {
        int64_t place = td__graph_integer(x[1], i), at = 0;
        bool inside = place >= 0;
        for (int32_t k = 0; k < shape.rank && inside; k++) {
            int64_t index = from[k] ? place / from[k] : full.dims[k];
            inside = index < full.dims[k];
            place -= index * from[k];
            at += index * to[k];
        }
        if (!inside) {
            return td__graph_fail(call, TD_RANGE, "place %lld is outside",
                                  (long long)td__graph_integer(x[1], i));
        }
        places[i] = at;
    }
    return td__graph_output(call, 0, type,
                            td__scatter(call->tape, zeros, x[0], places, TD__SCATTER_SET));
}

/* --- regions ------------------------------------------------------------------------------ */

/* One channel of an image. */
typedef struct plane {
    const td_tensor *x;
    int64_t at, height, width;
} plane;

static double pixel(const plane *p, int64_t row, int64_t column) {
    return td__graph_real(p->x, p->at + row * p->width + column);
}

/* Between four pixels: their sum, each by how near it is, or the largest of these parts; up to one outside
 * the border's count, beyond it is 0. */
static double between(const plane *p, double y, double x, bool maximum) {
    bool near = y >= -1 && y <= (double)p->height && x >= -1 && x <= (double)p->width;
    if (!near || p->height == 0 || p->width == 0) {
        return 0;
    }
    y = fmin(fmax(y, 0), (double)(p->height - 1));
    x = fmin(fmax(x, 0), (double)(p->width - 1));
    int64_t top = (int64_t)y, left = (int64_t)x;
    int64_t bottom = top + 1 < p->height ? top + 1 : top;
    int64_t right = left + 1 < p->width ? left + 1 : left;
    double v = y - (double)top, h = x - (double)left;
    double a = (1 - v) * (1 - h) * pixel(p, top, left), b = (1 - v) * h * pixel(p, top, right);
    double c = v * (1 - h) * pixel(p, bottom, left), d = v * h * pixel(p, bottom, right);
    return maximum ? fmax(fmax(a, b), fmax(c, d)) : a + b + c + d;
}

enum { MAX_SAMPLES = 256 }; /* along one side of a cell */

typedef struct region {
    double top, left, height, width; /* of one cell */
    int64_t rows, columns;           /* of samples in a cell */
} region;

static bool read_region(td__graph_call *call, const td_tensor *rois, int64_t i, int64_t height,
                        int64_t width, region *out) {
    double scale = (double)td__graph_float(call->node, "spatial_scale", 1), p[4];
    bool half = call->opset >= 16 &&
                strcmp(td__graph_text(call->node, "coordinate_transformation_mode", "half_pixel"),
                       "half_pixel") == 0;
    for (int k = 0; k < 4; k++) {
        p[k] = td__graph_real(rois, 4 * i + k) * scale - (half ? 0.5 : 0);
    }
    double w = p[2] - p[0], h = p[3] - p[1];
    w = half ? w : fmax(w, 1);
    h = half ? h : fmax(h, 1);
    *out = (region){
        .top = p[1], .left = p[0], .height = h / (double)height, .width = w / (double)width};
    int64_t ratio = td__graph_int(call->node, "sampling_ratio", 0);
    double rows = ratio > 0 ? (double)ratio : ceil(out->height);
    double columns = ratio > 0 ? (double)ratio : ceil(out->width);
    if (!(rows <= MAX_SAMPLES && columns <= MAX_SAMPLES)) {
        return td__graph_fail(call, TD_RANGE, "more than %d samples along a cell", MAX_SAMPLES);
    }
    out->rows = rows > 0 ? (int64_t)rows : 0;
    out->columns = columns > 0 ? (int64_t)columns : 0;
    return true;
}

/* The mean, or the largest, of the samples in cell (row, column). */
static double cell(const plane *p, const region *r, int64_t row, int64_t column, bool maximum) {
    double sum = maximum ? -INFINITY : 0;
    int64_t count = r->rows * r->columns;
    for (int64_t k = 0; k < count; k++) {
        double v = ((double)(k / r->columns) + 0.5) / (double)r->rows;
        double h = ((double)(k % r->columns) + 0.5) / (double)r->columns;
        double sample = between(p, r->top + ((double)row + v) * r->height,
                                r->left + ((double)column + h) * r->width, maximum);
        sum = maximum ? fmax(sum, sample) : sum + sample;
    }
    return count == 0 ? 0 : maximum ? sum : sum / (double)count;
}

/* x (n, c, h, w), rois (r, 4), their images (r,) -> (r, c, height, width) */
static bool roi_align(td__graph_call *call) {
    td_tensor *x[3];
    int64_t height = td__graph_int(call->node, "output_height", 1);
    int64_t width = td__graph_int(call->node, "output_width", 1);
    if (!td__graph_plains(call, 3, false, x)) {
        return false;
    }
    bool maximum = strcmp(td__graph_text(call->node, "mode", "avg"), "max") == 0;
    const int64_t *d = x[0]->shape.dims;
    if (x[0]->shape.rank != 4 || x[1]->shape.rank != 2 || x[1]->shape.dims[1] != 4 ||
        x[2]->count != x[1]->shape.dims[0] || height < 1 || width < 1) {
        return td__graph_fail(call, TD_BAD_SHAPE, "its regions do not fit its images");
    }
    td__graph_type type = td__graph_input(call, 0)->type;
    td_tensor *y = td__graph_new(call, type, TD_SHAPE(x[1]->shape.dims[0], d[1], height, width));
    int64_t cells = height * width;
    for (int64_t i = 0; y && y->count && i < x[1]->shape.dims[0]; i++) {
        region r;
        int64_t image = td__graph_integer(x[2], i);
        if (image < 0 || image >= d[0]) {
            return td__graph_fail(call, TD_RANGE, "image %lld of %lld", (long long)image,
                                  (long long)d[0]);
        }
        if (!read_region(call, x[1], i, height, width, &r)) {
            return false;
        }
        for (int64_t k = 0; k < d[1] * cells; k++) {
            plane p = {x[0], (image * d[1] + k / cells) * d[2] * d[3], d[2], d[3]};
            td__graph_put_real(y, i * d[1] * cells + k,
                               cell(&p, &r, k % cells / width, k % width, maximum));
        }
    }
    return td__graph_output_opaque(call, 0, type, y);
}

const td__graph_operator td__graph_vision[] = {
    {"MaxUnpool", max_unpool, 2, 3, 1, 9, 0, NULL},
    {"NonMaxSuppression", non_max_suppression, 2, 5, 1, 10, 0, NULL},
    {"RoiAlign", roi_align, 3, 3, 1, 10, 0, NULL},
    {0},
};
