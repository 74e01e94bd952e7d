/* TensorFlow's operators as those of ONNX: windows over images and volumes, which have their channels last
 * here. */
#include "tensorflow/saved.h"

#include <string.h>

typedef struct window {
    size_t axes;
    int64_t strides[TD_MAX_RANK], dilations[TD_MAX_RANK], kernel[TD_MAX_RANK];
    const char *pad; /* SAME_UPPER, VALID, or NULL: pads */
    int64_t pads[2 * TD_MAX_RANK];
} window;

/* Attributes have a number for the batch and the channels, too. */
static bool read_window(td__saved_call *call, size_t axes, window *w) {
    int64_t strides[TD_MAX_RANK], dilations[TD_MAX_RANK], pads[2 * TD_MAX_RANK];
    const char *padding = td__saved_text(call->to, call->node, "padding");
    const char *format = td__saved_text(call->to, call->node, "data_format");
    size_t count = td__saved_ints(call->node, "strides", TD_MAX_RANK, strides);
    size_t wide = td__saved_ints(call->node, "dilations", TD_MAX_RANK, dilations);
    w->axes = axes;
    if (format && format[1] == 'C') {
        (void)td__operator_refuse(call->to, "with the channels first");
        return false;
    }
    if (count != axes + 2 || !padding || (wide && wide != axes + 2)) {
        (void)td__operator_refuse(call->to, "without strides or padding");
        return false;
    }
    for (size_t i = 0; i < axes; i++) {
        w->strides[i] = strides[i + 1];
        w->dilations[i] = wide ? dilations[i + 1] : 1;
    }
    w->pad = !strcmp(padding, "SAME") ? "SAME_UPPER" : "VALID";
    if (!strcmp(padding, "EXPLICIT")) {
        if (td__saved_ints(call->node, "explicit_paddings", 2 * TD_MAX_RANK, pads) !=
            2 * (axes + 2)) {
            return false;
        }
        w->pad = NULL;
        for (size_t i = 0; i < axes; i++) {
            w->pads[i] = pads[2 * (i + 1)];
            w->pads[i + axes] = pads[2 * (i + 1) + 1];
        }
    }
    return true;
}

static td__attribute padding_of(const window *w) {
    return w->pad ? TD__NAMED_TEXT("auto_pad", w->pad)
                  : TD__NAMED_INTS("pads", w->pads, 2 * w->axes);
}

/* kernel (…spatial, in, out) as (out, in, …spatial) */
static const char *kernel_first(td__saved_call *call, size_t i, size_t axes, bool turned) {
    int64_t order[TD_MAX_RANK] = {(int64_t)axes + !turned, (int64_t)axes + turned};
    for (size_t k = 0; k < axes; k++) {
        order[k + 2] = (int64_t)k;
    }
    return call->in[i].turned ? IN(call, i)
                              : td__operator_transpose(call->to, IN(call, i), axes + 2, order);
}

const char *td__saved_convolve(td__saved_call *call) {
    td__operators *to = call->to;
    window w;
    size_t axes = strstr(call->node->op, "3D") ? 3 : 2;
    if (call->count != 2 || !read_window(call, axes, &w)) {
        return NULL;
    }
    const td__saved_value *x = &call->in[0], *kernel = &call->in[1];
    if (!kernel->ranked || kernel->shape.rank != (int32_t)axes + 2 || !x->ranked ||
        x->shape.rank != (int32_t)axes + 2) {
        return td__operator_refuse(to, "of unknown channels");
    }
    int64_t in = x->shape.dims[axes + 1], each = kernel->shape.dims[axes], groups = 1;
    const char *weights;
    if (*call->node->op == 'D') { /* (h, w, in, multiplier) as (in multiplier, 1, h, w) */
        int64_t out = each * kernel->shape.dims[axes + 1];
        groups = each;
        weights = IN(call, 1);
        if (!call->in[1].turned) {
            const int64_t *k = kernel->shape.dims;
            weights = td__operator_reshape(to, weights, 4, (int64_t[]){k[0], k[1], 1, out});
            weights = td__operator_transpose(to, weights, 4, (int64_t[]){3, 2, 0, 1});
        }
    } else {
        groups = in > 0 && each > 0 ? in / each : 1;
        weights = kernel_first(call, 1, axes, false);
    }
    td__attribute attributes[4] = {TD__NAMED_INTS("strides", w.strides, axes),
                                   TD__NAMED_INTS("dilations", w.dilations, axes),
                                   TD__NAMED_INT("group", groups), padding_of(&w)};
    const char *inputs[2] = {td__operator_channels_first(to, IN(call, 0), (int)axes), weights};
    return td__operator_channels_last(to, td__operator(to, "Conv", 2, inputs, 4, attributes),
                                      (int)axes);
}

/* The gradient of a convolution: sizes, kernel (h, w, out, in), x. The sizes are the file's. */
const char *td__saved_convolve_transposed(td__saved_call *call) {
    td__operators *to = call->to;
    window w;
    size_t axes = strstr(call->node->op, "3D") ? 3 : 2;
    if (call->count != 3 || !read_window(call, axes, &w)) {
        return NULL;
    }
    const td__saved_value *kernel = &call->in[1], *x = &call->in[2], *sizes = &call->in[0];
    bool sized = (sizes->known || sizes->partly) && sizes->count == axes + 2;
    if (!kernel->ranked || !x->ranked || !sized || kernel->shape.rank != (int32_t)axes + 2) {
        return td__operator_refuse(to, "to a size that is not declared");
    }
    int64_t more[TD_MAX_RANK];
    for (size_t i = 0; i < axes; i++) { /* what is cut off at both ends, and what is added */
        int64_t k = (kernel->shape.dims[i] - 1) * w.dilations[i] + 1, n = x->shape.dims[i + 1];
        int64_t full = (n - 1) * w.strides[i] + k, wanted = sizes->numbers[i + 1];
        if (n < 1 || sizes->unsure[i + 1]) {
            return td__operator_refuse(to, "of open axes");
        }
        int64_t cut = full - wanted;
        bool half = !w.pad || *w.pad == 'S';
        w.pads[i] = cut > 0 && half ? cut / 2 : 0;
        w.pads[i + axes] = cut > 0 ? cut - w.pads[i] : 0;
        more[i] = cut < 0 ? -cut : 0;
    }
    td__attribute attributes[4] = {
        TD__NAMED_INTS("strides", w.strides, axes), TD__NAMED_INTS("dilations", w.dilations, axes),
        TD__NAMED_INTS("pads", w.pads, 2 * axes), TD__NAMED_INTS("output_padding", more, axes)};
    /* (in, out, h, w) */
    const char *inputs[2] = {td__operator_channels_first(to, IN(call, 2), (int)axes),
                             kernel_first(call, 1, axes, false)};
    return td__operator_channels_last(
        to, td__operator(to, "ConvTranspose", 2, inputs, 4, attributes), (int)axes);
}

const char *td__saved_pool(td__saved_call *call) {
    window w;
    int64_t kernel[TD_MAX_RANK];
    size_t axes = strstr(call->node->op, "3D") ? 3 : 2;
    if (!read_window(call, axes, &w) ||
        td__saved_ints(call->node, "ksize", TD_MAX_RANK, kernel) != axes + 2) {
        return NULL;
    }
    td__attribute attributes[3] = {TD__NAMED_INTS("kernel_shape", kernel + 1, axes),
                                   TD__NAMED_INTS("strides", w.strides, axes), padding_of(&w)};
    const char *x = td__operator_channels_first(call->to, IN(call, 0), (int)axes);
    return td__operator_channels_last(
        call->to, td__operator(call->to, call->word, 1, &x, 3, attributes), (int)axes);
}

const char *td__saved_batch_norm(td__saved_call *call) {
    td__operators *to = call->to;
    if (call->count != 5 || td__saved_int(call->node, "is_training", 1)) {
        return td__operator_refuse(to, "as in training");
    }
    const char *inputs[5] = {td__operator_channels_first(to, IN(call, 0), 2), IN(call, 1),
                             IN(call, 2), IN(call, 3), IN(call, 4)};
    td__attribute epsilon = TD__NAMED_REAL("epsilon", td__saved_real(call->node, "epsilon", 1e-4));
    return td__operator_channels_last(
        to, td__operator(to, "BatchNormalization", 5, inputs, 1, &epsilon), 2);
}

const char *td__saved_resize(td__saved_call *call) {
    td__operators *to = call->to;
    bool corners = td__saved_int(call->node, "align_corners", 0);
    bool half = td__saved_int(call->node, "half_pixel_centers", 0), nearest = *call->word == 'n';
    if (call->count != 2) {
        return NULL;
    }
    td__attribute attributes[3] = {
        TD__NAMED_TEXT("mode", call->word),
        TD__NAMED_TEXT("coordinate_transformation_mode", corners           ? "align_corners"
                                                         : half && nearest ? "tf_half_pixel_for_nn"
                                                         : half            ? "half_pixel"
                                                                           : "asymmetric"),
        TD__NAMED_TEXT("nearest_mode", corners ? "round_prefer_ceil" : "floor")};
    const char *x = td__operator_channels_first(to, IN(call, 0), 2);
    const char *first = TD__OPERATOR(to, "Slice", TD__OPERATOR(to, "Shape", x),
                                     td__operator_integers(to, 1, (int64_t[]){0}),
                                     td__operator_integers(to, 1, (int64_t[]){2}));
    const char *both[2] = {first, IN(call, 1)};
    const char *inputs[4] = {x, "", "",
                             td__operator(to, "Concat", 2, both, 1, &TD__NAMED_INT("axis", 0))};
    return td__operator_channels_last(to, td__operator(to, "Resize", 4, inputs, 3, attributes), 2);
}
