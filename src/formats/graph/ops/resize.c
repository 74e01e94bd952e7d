/* Resize and its forerunner Upsample: along each axis, every place of the result has a place in the
 * input, and the elements around it give the value. */
#include "base/memory.h"
#include "graph/host.h"
#include "graph/ops/common.h"
#include "tape/resample.h"

#include <math.h>
#include <string.h>

typedef enum place_rule {
    HALF_PIXEL,
    PYTORCH_HALF_PIXEL,
    HALF_PIXEL_SYMMETRIC,
    ALIGN_CORNERS,
    ASYMMETRIC,
    TF_HALF_PIXEL_FOR_NN,
    TF_CROP_AND_RESIZE,
    PLACE_RULES
} place_rule;

static const char *const place_rules[] = {
    [HALF_PIXEL] = "half_pixel",
    [PYTORCH_HALF_PIXEL] = "pytorch_half_pixel",
    [HALF_PIXEL_SYMMETRIC] = "half_pixel_symmetric",
    [ALIGN_CORNERS] = "align_corners",
    [ASYMMETRIC] = "asymmetric",
    [TF_HALF_PIXEL_FOR_NN] = "tf_half_pixel_for_nn",
    [TF_CROP_AND_RESIZE] = "tf_crop_and_resize",
};

typedef struct resizing {
    td_shape from, to;         /* in ONNX's layout */
    double scale[TD_MAX_RANK]; /* of each axis */
    double start[TD_MAX_RANK]; /* of tf_crop_and_resize: the region, 0 to 1 along each axis */
    double end[TD_MAX_RANK];
    place_rule rule;
    char mode;            /* 'n'earest, 'l'inear, 'c'ubic */
    bool smooth;          /* where it becomes smaller, the kernel becomes wider */
    const char *rounding; /* of nearest */
} resizing;

/* --- what is asked for -------------------------------------------------------------------- */

static bool find_rule(td__graph_call *call, resizing *r) {
    const char *name = td__graph_text(call->node, "coordinate_transformation_mode", "half_pixel");
    if (call->opset < 11) { /* then there was only one */
        name = place_rules[ASYMMETRIC];
    }
    r->rule = PLACE_RULES;
    for (size_t i = 0; i < PLACE_RULES; i++) {
        r->rule = strcmp(place_rules[i], name) ? r->rule : (place_rule)i;
    }
    const char *mode = td__graph_text(call->node, "mode", "nearest");
    r->mode = strcmp(mode, "bilinear") ? *mode : 'l';
    r->rounding = call->opset < 11
                      ? "floor"
                      : td__graph_text(call->node, "nearest_mode", "round_prefer_floor");
    if (r->rule == PLACE_RULES || !r->mode || !strchr("nlc", r->mode)) {
        return td__graph_fail(call, TD_UNSUPPORTED, "mode '%.40s', '%.40s'", mode, name);
    }
    r->smooth = td__graph_int(call->node, "antialias", 0) != 0;
    return true;
}

/* The numbers that say the sizes: an attribute of Upsample before opset 9, else an input. */
static bool read_scales(td__graph_call *call, size_t input, double *scales, size_t room,
                        size_t *count) {
    const td__graph_attribute *attribute = td__graph_attribute_of(call->node, "scales");
    const td_tensor *given = td__graph_plain(call, input);
    *count = 0;
    if (attribute && attribute->kind == TD__GRAPH_ATTRIBUTE_FLOATS) {
        *count = attribute->count;
    } else if (given) {
        *count = (size_t)given->count;
    } else if (td__graph_input(call, input)) {
        return false;
    }
    if (*count > room) {
        return td__graph_fail(call, TD_BAD_SHAPE, "%zu scales", *count);
    }
    for (size_t i = 0; i < *count; i++) {
        scales[i] = given ? td__graph_real(given, (int64_t)i) : (double)attribute->numbers[i];
    }
    return true;
}

/* The axis that number i of the scales and sizes is for. */
static bool axis_of(td__graph_call *call, size_t i, size_t count, int32_t rank, int32_t *axis) {
    const int64_t *axes;
    size_t listed = td__graph_ints(call->node, "axes", &axes);
    if (count != (listed ? listed : (size_t)rank)) {
        return td__graph_fail(call, TD_BAD_SHAPE, "%zu scales or sizes for rank %d", count,
                              (int)rank);
    }
    return td__graph_axis(call, listed ? axes[i] : (int64_t)i, rank, axis);
}

/* The one scale of all axes that keeps proportions; 0: each has its own. */
static double kept_scale(td__graph_call *call, const resizing *r, const int64_t *sizes,
                         size_t count) {
    const char *policy = td__graph_text(call->node, "keep_aspect_ratio_policy", "stretch");
    bool min = !strcmp(policy, "not_larger"), max = !strcmp(policy, "not_smaller");
    double kept = 0;
    for (size_t i = 0; (min || max) && i < count; i++) {
        int32_t axis;
        if (!axis_of(call, i, count, r->from.rank, &axis) || r->from.dims[axis] < 1) {
            return 0;
        }
        double each = (double)sizes[i] / (double)r->from.dims[axis];
        kept = i == 0 ? each : min ? fmin(kept, each) : fmax(kept, each);
    }
    return kept;
}

static bool find_sizes(td__graph_call *call, resizing *r) {
    double scales[TD_MAX_RANK];
    int64_t sizes[TD_MAX_RANK];
    size_t scale_count, size_count = 0;
    bool old = call->opset < 11;
    if (!read_scales(call, old ? 1 : 2, scales, TD_MAX_RANK, &scale_count) ||
        (!old && !td__graph_input_ints(call, 3, sizes, TD_MAX_RANK, &size_count))) {
        return false;
    }
    r->to = r->from;
    for (int32_t i = 0; i < r->from.rank; i++) {
        r->scale[i] = 1;
    }
    size_t count = size_count ? size_count : scale_count;
    if (count == 0) {
        return td__graph_fail(call, TD_INVALID, "neither scales nor sizes");
    }
    double kept = size_count ? kept_scale(call, r, sizes, size_count) : 0;
    for (size_t i = 0; i < count; i++) {
        int32_t axis;
        if (!axis_of(call, i, count, r->from.rank, &axis)) {
            return false;
        }
        int64_t from = r->from.dims[axis];
        double to = kept > 0     ? floor((double)from * kept + 0.5)
                    : size_count ? (double)sizes[i]
                                 : floor((double)from * scales[i]);
        if (!(to >= 1 && to < 0x1p40) || from < 1 || from >= INT64_C(1) << 40) {
            return td__graph_fail(call, TD_RANGE, "axis %d of size %lld to %g", (int)axis,
                                  (long long)from, to);
        }
        r->to.dims[axis] = (int64_t)to;
        r->scale[axis] = kept > 0 ? kept : size_count ? to / (double)from : scales[i];
    }
    return true;
}

static bool find_region(td__graph_call *call, resizing *r) {
    const td_tensor *region = r->rule == TF_CROP_AND_RESIZE ? td__graph_plain(call, 1) : NULL;
    const int64_t *axes;
    size_t listed = td__graph_ints(call->node, "axes", &axes);
    size_t count = listed ? listed : (size_t)r->from.rank;
    for (int32_t i = 0; i < r->from.rank; i++) {
        r->end[i] = 1;
    }
    if (r->rule == TF_CROP_AND_RESIZE && (!region || region->count != 2 * (int64_t)count)) {
        return td__graph_fail(call, TD_BAD_SHAPE, "its region must have two numbers for each axis");
    }
    for (size_t i = 0; region && i < count; i++) {
        int32_t axis;
        if (!td__graph_axis(call, listed ? axes[i] : (int64_t)i, r->from.rank, &axis)) {
            return false;
        }
        r->start[axis] = td__graph_real(region, (int64_t)i);
        r->end[axis] = td__graph_real(region, (int64_t)(i + count));
    }
    return true;
}

/* --- places ------------------------------------------------------------------------------- */

static double source_of(const resizing *r, int32_t axis, int64_t i) {
    double x = (double)i, scale = r->scale[axis], from = (double)r->from.dims[axis];
    int64_t count = r->to.dims[axis];
    switch (r->rule) {
    case HALF_PIXEL:
        return (x + 0.5) / scale - 0.5;
    case PYTORCH_HALF_PIXEL:
        return count > 1 ? (x + 0.5) / scale - 0.5 : 0;
    case ALIGN_CORNERS: /* of the size before it was rounded down */
        return from * scale == 1 ? 0 : x * (from - 1) / (from * scale - 1);
    case HALF_PIXEL_SYMMETRIC: { /* what rounding down took away is missing on both sides */
        double centre = from / 2 * (1 - (double)count / (from * scale));
        return centre + (x + 0.5) / scale - 0.5;
    }
    case TF_HALF_PIXEL_FOR_NN:
        return (x + 0.5) / scale;
    case TF_CROP_AND_RESIZE: {
        double start = r->start[axis], end = r->end[axis];
        return count > 1 ? (start + x * (end - start) / (double)(count - 1)) * (from - 1)
                         : 0.5 * (start + end) * (from - 1);
    }
    default:
        return x / scale;
    }
}

static int64_t inside(double place, int64_t size) {
    return place >= (double)(size - 1) ? size - 1 : place > 0 ? (int64_t)place : 0;
}

static int64_t nearest(const resizing *r, double place, int64_t size) {
    const char *rule = r->rounding;
    double rounded = !strcmp(rule, "floor")               ? floor(place)
                     : !strcmp(rule, "ceil")              ? ceil(place)
                     : !strcmp(rule, "round_prefer_ceil") ? floor(place + 0.5)
                                                          : ceil(place - 0.5);
    return inside(rounded, size);
}

/* Keys's kernel, and the triangle, at a distance. */
static double weigh(char mode, double distance, double a) {
    double d = fabs(distance);
    if (mode == 'l') {
        return d < 1 ? 1 - d : 0;
    }
    return d <= 1  ? ((a + 2) * d - (a + 3)) * d * d + 1
           : d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
                   : 0;
}

/* The elements around a place that count: as many as the kernel is wide. */
static bool make_taps(td__graph_call *call, const resizing *r, int32_t axis, td__resampling *taps) {
    int64_t size = r->from.dims[axis];
    double reach = r->mode == 'l' ? 1 : 2, narrow = r->smooth ? fmin(r->scale[axis], 1) : 1;
    double wide = ceil(reach / narrow);
    *taps = (td__resampling){.count = r->to.dims[axis], .width = 2 * (int64_t)fmin(wide, 0x1p31)};
    int64_t count;
    if (!td__multiply(taps->count, taps->width, &count)) {
        return td__graph_fail(call, TD_RANGE, "axis %d becomes too small", (int)axis);
    }
    taps->places = td__scratch(call->tape, (size_t)count * sizeof *taps->places);
    taps->weights = td__scratch(call->tape, (size_t)count * sizeof *taps->weights);
    if (!taps->places || !taps->weights) {
        return false;
    }
    double a = (double)td__graph_float(call->node, "cubic_coeff_a", -0.75f);
    bool exclude = td__graph_int(call->node, "exclude_outside", 0);
    for (int64_t i = 0; i < taps->count; i++) {
        double place = source_of(r, axis, i), base = floor(place), sum = 0;
        float *weights = taps->weights + i * taps->width;
        for (int64_t t = 0; t < taps->width; t++) {
            double at = base + (double)(t - taps->width / 2 + 1);
            bool out = at < 0 || at > (double)(size - 1);
            double weight = exclude && out ? 0 : weigh(r->mode, (at - place) * narrow, a);
            sum += weight;
            weights[t] = (float)weight;
            taps->places[i * taps->width + t] = inside(at, size);
        }
        for (int64_t t = 0; (exclude || r->smooth) && t < taps->width; t++) {
            weights[t] = (float)((double)weights[t] / sum);
        }
    }
    return true;
}

/* --- computing ---------------------------------------------------------------------------- */

/* One axis after another; last: x has the channels last. */
static td_tensor *interpolate(td__graph_call *call, const resizing *r, td_tensor *x, bool last) {
    for (int32_t axis = 0; axis < r->from.rank && x; axis++) {
        td__resampling taps;
        if (r->from.dims[axis] == r->to.dims[axis] && r->rule != TF_CROP_AND_RESIZE) {
            continue;
        }
        int32_t own = last ? td__graph_last_axis(axis, r->from.rank) : axis;
        x = make_taps(call, r, axis, &taps) ? td__resample(call->tape, x, own, &taps) : NULL;
    }
    return x;
}

static td_tensor *take_nearest(td__graph_call *call, const resizing *r, td_tensor *x, bool last) {
    int64_t strides[TD_MAX_RANK];
    td_shape shape = {.rank = r->to.rank};
    td__move_map map;
    for (int32_t i = 0; i < shape.rank; i++) {
        shape.dims[last ? td__graph_last_axis(i, shape.rank) : i] = r->to.dims[i];
    }
    td__strides(&x->shape, strides);
    if (!td__move_map_init(call->tape, call->node->op_type, shape, &map)) {
        return NULL;
    }
    for (int32_t axis = 0; axis < shape.rank; axis++) {
        int32_t own = last ? td__graph_last_axis(axis, shape.rank) : axis;
        for (int64_t i = 0; map.offsets[own] && i < shape.dims[own]; i++) {
            int64_t place = nearest(r, source_of(r, axis, i), r->from.dims[axis]);
            map.offsets[own][i] = place * strides[own];
        }
    }
    return td__move(call->tape, x, &map, NULL);
}

/* Places outside of the input have a value of their own. */
static td_tensor *extrapolate(td__graph_call *call, const resizing *r, td_tensor *y) {
    td_tensor *known = td__graph_new(call, TD__GRAPH_BOOL, r->to);
    int64_t strides[TD_MAX_RANK];
    td__strides(&r->to, strides);
    for (int64_t i = 0; known && i < known->count; i++) {
        bool within = true;
        for (int32_t axis = 0; axis < r->to.rank && within; axis++) {
            double place = source_of(r, axis, i / strides[axis] % r->to.dims[axis]);
            within = place >= 0 && place <= (double)(r->from.dims[axis] - 1);
        }
        td__graph_put_integer(known, i, within);
    }
    td_tensor *value =
        td__graph_scalar(call->tape, td__graph_float(call->node, "extrapolation_value", 0));
    return y && known && value ? td__select(call->tape, call->node->op_type, known, y, value)
                               : NULL;
}

static bool resize(td__graph_call *call) {
    resizing r = {.from = td__graph_shape(call, 0)};
    if (!find_rule(call, &r) || !find_sizes(call, &r) || !find_region(call, &r)) {
        return false;
    }
    if (r.mode != 'n' && !td__graph_is_float(call, 0)) {
        return td__graph_fail(call, TD_UNSUPPORTED, "only of type float");
    }
    td__graph_type type = td__graph_input(call, 0)->type;
    bool last = false, crop = r.rule == TF_CROP_AND_RESIZE;
    td_tensor *x = crop ? td__graph_plain(call, 0) : td__graph_either(call, 0, &last);
    if (!x) {
        return false;
    }
    td_tensor *y = r.mode == 'n' ? take_nearest(call, &r, x, last) : interpolate(call, &r, x, last);
    y = crop && td__graph_is_float(call, 0) ? extrapolate(call, &r, y) : y;
    return td__graph_output_either(call, 0, type, y, last);
}

const td__graph_operator td__graph_resizes[] = {
    {"Resize", resize, 1, 4, 1, 10, 0, td__graph_infer_resize},
    {"Upsample", resize, 1, 2, 1, 7, 9, td__graph_infer_resize},
    {0},
};
