/* The attributes that convolutions and pools share: windows that slide over an image. */
#ifndef TAPEDECK_ONNX_OPS_WINDOW_H
#define TAPEDECK_ONNX_OPS_WINDOW_H

#include "onnx/ops/common.h"

enum { TD__ONNX_MOST_SPATIAL = 3 };

/* Of each spatial axis. */
typedef struct td__onnx_window {
    int32_t count; /* of the axes */
    int64_t size[TD__ONNX_MOST_SPATIAL], kernel[TD__ONNX_MOST_SPATIAL];
    int64_t stride[TD__ONNX_MOST_SPATIAL], dilation[TD__ONNX_MOST_SPATIAL];
    int64_t before[TD__ONNX_MOST_SPATIAL], after[TD__ONNX_MOST_SPATIAL];
    int64_t out[TD__ONNX_MOST_SPATIAL]; /* how many windows */
} td__onnx_window;

/* Sizes from a shape (n, c, …), the kernel's from the attribute kernel_shape, or else from given
 * (may be NULL); all positive, and products of two fit. Padding and out are not set. */
bool td__onnx_window_init(td__onnx_call *call, const td_shape *shape, const int64_t *given,
                          td__onnx_window *window);
/* Padding from pads or auto_pad, and out. With ceil the last window may hang over, unless it would
 * begin outside. */
bool td__onnx_window_fit(td__onnx_call *call, bool ceil, td__onnx_window *window);

#endif
