/* conv3d: over (depth, height, width, channels), by what there is for images
 *
 * A convolution over depth too is one over images whose channels are those of as many planes as the
 * kernel is deep: y[d] = conv2d(concatenate of x[d * stride + k * dilation], kernel).
 */
#include "nn/operators.h"
#include "tape/pick.h"

enum { SPATIAL = 3 };

static const td__field fields[] = {
    TD__LAYER_FIELDS,
    TD__CONVOLUTION_SIZES(td_conv3d_layer, TD__TRIPLE),
    TD__CONVOLUTION_REST(td_conv3d_layer),
};

static td__window window_of(const td__layer *layer) {
    const td_conv3d_layer *options = layer->options;
    return td__window_of(SPATIAL, options->kernel, options->stride, options->dilation,
                         options->padding);
}

static td_status plan_volume(td__layer *layer, const td_shape *inputs, td_error *error) {
    const td_conv3d_layer *options = layer->options;
    td__window window = window_of(layer);
    int64_t in = 0;
    td_status status = td__window_plan(layer, inputs, &window, "kernel that spans", error);
    status = status ? status : td__layer_need_last(layer, inputs, &in, error);
    status = status ? status
                    : td__layer_need_groups(layer, options->groups, in, options->filters, error);
    if (status) {
        return status;
    }
    layer->info.output.dims[SPATIAL] = options->filters;
    const int64_t *kernel = options->kernel;
    td__layer_parameter(
        layer, 0, "kernel",
        TD_SHAPE(kernel[0], kernel[1], kernel[2], in / options->groups, options->filters),
        options->kernel_initializer, options->kernel_l1, options->kernel_l2);
    if (!options->no_bias) {
        td__layer_parameter(layer, 1, "bias", TD_SHAPE(options->filters), options->bias_initializer,
                            options->bias_l1, options->bias_l2);
    }
    layer->activation = options->activation;
    return TD_OK;
}

static td_tensor *forward_volume(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    const td_conv3d_layer *options = layer->options;
    td_tensor *x = inputs[0], *kernel = layer->slot[0];
    const int64_t *dims = x->shape.dims, *size = kernel->shape.dims;
    int64_t span = (size[0] - 1) * options->dilation[0] + 1, stride = options->stride[0];
    bool same = options->padding == TD_PADDING_SAME;
    int64_t depth = same ? (dims[1] + stride - 1) / stride : (dims[1] - span) / stride + 1;
    int64_t padding = same ? (depth - 1) * stride + span - dims[1] : 0;
    if (depth < 1) {
        return td__fail(tape, TD_BAD_SHAPE, "conv3d: the kernel does not fit into its input");
    }
    td__planes beside = {.depth = depth,
                         .count = size[0],
                         .stride = stride,
                         .dilation = options->dilation[0],
                         .before = padding > 0 ? padding / 2 : 0,
                         .groups = options->groups};
    td_tensor *planes = size[0] == 1 && stride == 1
                            ? td_reshape(tape, x, TD_SHAPE(-1, dims[2], dims[3], dims[4]))
                            : td__planes_beside(tape, x, &beside);
    td_tensor *flat = td_transpose(tape, kernel, (const int32_t[]){1, 2, 0, 3, 4});
    flat = td_reshape(tape, flat, TD_SHAPE(size[1], size[2], size[0] * size[3], size[4]));
    td_conv_options how = {.size = sizeof how,
                           .stride = {options->stride[1], options->stride[2]},
                           .dilation = {options->dilation[1], options->dilation[2]},
                           .groups = options->groups,
                           .padding = options->padding,
                           .activation = layer->fused};
    td_tensor *y = td_conv2d(tape, planes, flat, layer->slot[1], &how);
    return y ? td_reshape(tape, y,
                          TD_SHAPE(dims[0], depth, y->shape.dims[1], y->shape.dims[2], size[4]))
             : NULL;
}

static const char *volume_operators(const td__layer *layer, td__operators *to,
                                    const char *const *inputs, const td_shape *shapes) {
    const td_conv3d_layer *options = layer->options;
    td__window window = window_of(layer);
    size_t used = td__operator_window(&window, shapes);
    return td__operator_convolve(to, "Conv", layer, inputs[0], &window, used, options->groups);
}

static const td__keras_option keras[] = {TD__KERAS_CONVOLUTION};
static const td__torch_weight torch[] = {TD__TORCH_KERNEL(5, 2, 3, 4, 1, 0),
                                         TD__TORCH_VECTOR("bias", "bias", )};
const td__layer_kind td__conv3d_kind = {
    TD__KIND_OF_ONE(fields, td_conv3d_layer, plan_volume, forward_volume),
    TD__IS(LINEAR, OTHER),
    .unit_axis = 1,
    TD__TORCH_WITH("nn.Conv3d", torch),
    TD__KERAS(keras, VARS),
    .has_activation = true,
    .operators = volume_operators};
