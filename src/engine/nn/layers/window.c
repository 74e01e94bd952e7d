/* What convolutions and pools share: windows over one to three axes
 *
 * Output sizes, with k = (kernel - 1) * dilation + 1 for what a dilated kernel spans:
 *   valid           (in - k) / stride + 1, rounded down
 *   same, causal    in / stride, rounded up
 */
#include "nn/operators.h"

td__window td__window_of(int spatial, const int64_t *kernel, const int64_t *stride,
                         const int64_t *dilation, td_padding padding) {
    td__window window = {.spatial = spatial, .padding = padding};
    for (int i = 0; i < spatial; i++) {
        window.kernel[i] = kernel[i];
        window.stride[i] = stride[i];
        window.dilation[i] = dilation ? dilation[i] : 1;
    }
    return window;
}

td_status td__layer_need_map(const td__layer *layer, const td_shape *input, int spatial,
                             td_error *error) {
    static const char *const meanings[] = {"(steps, channels)", "(height, width, channels)",
                                           "(depth, height, width, channels)"};
    return td__layer_need_rank(layer, input, spatial + 1, meanings[spatial - 1], error);
}

td_status td__window_plan(td__layer *layer, const td_shape *input, const td__window *window,
                          const char *what, td_error *error) {
    td_status status = td__layer_need_map(layer, input, window->spatial, error);
    if (!status && window->padding == TD_PADDING_CAUSAL) {
        status = td__layer_error(layer, error, TD_INVALID, "causal padding is for conv1d");
    }
    td_shape spans = {.rank = window->spatial};
    for (int i = 0; i < window->spatial; i++) {
        spans.dims[i] = (window->kernel[i] - 1) * window->dilation[i] + 1;
    }
    layer->info.output = *input;
    for (int i = 0; i < window->spatial && !status; i++) {
        int64_t size = input->dims[i], stride = window->stride[i];
        if (size >= 0 && window->padding == TD_PADDING_VALID && size < spans.dims[i]) {
            char text[TD_SHAPE_TEXT_SIZE], whole[TD_SHAPE_TEXT_SIZE];
            status = td__layer_error(layer, error, TD_BAD_SHAPE,
                                     "a %s %s does not fit into its input %s", what,
                                     td_shape_text(&spans, whole), td_shape_text(input, text));
        } else if (size >= 0) {
            layer->info.output.dims[i] = window->padding == TD_PADDING_VALID
                                             ? (size - spans.dims[i]) / stride + 1
                                             : (size + stride - 1) / stride;
        }
    }
    return status;
}

td_status td__layer_need_groups(const td__layer *layer, int64_t groups, int64_t in, int64_t filters,
                                td_error *error) {
    return in % groups || filters % groups
               ? td__layer_error(layer, error, TD_BAD_SHAPE,
                                 "%lld groups do not divide %lld input channels and %lld filters",
                                 (long long)groups, (long long)in, (long long)filters)
               : TD_OK;
}
