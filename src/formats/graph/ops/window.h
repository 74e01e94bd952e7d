/* The attributes that convolutions and pools share: windows that slide over an image. */
#ifndef TAPEDECK_GRAPH_OPS_WINDOW_H
#define TAPEDECK_GRAPH_OPS_WINDOW_H

#include "graph/ops/common.h"

enum { TD__GRAPH_MAX_SPATIAL = 3 };

/* Of each spatial axis. */
typedef struct td__graph_window {
    int32_t count; /* of the axes */
    int64_t size[TD__GRAPH_MAX_SPATIAL], kernel[TD__GRAPH_MAX_SPATIAL];
    int64_t stride[TD__GRAPH_MAX_SPATIAL], dilation[TD__GRAPH_MAX_SPATIAL];
    int64_t before[TD__GRAPH_MAX_SPATIAL], after[TD__GRAPH_MAX_SPATIAL];
    int64_t out[TD__GRAPH_MAX_SPATIAL]; /* how many windows */
} td__graph_window;

/* Sizes from a shape (n, c, …), the kernel's from the attribute kernel_shape, or else from given
 * (may be NULL); all positive, and products of two fit. Padding and out are not set. */
bool td__graph_window_init(td__graph_call *call, const td_shape *shape, const int64_t *given,
                           td__graph_window *window);
/* Padding from pads or auto_pad, and out. With ceil the last window may hang over, unless it would
 * begin outside. */
bool td__graph_window_fit(td__graph_call *call, bool ceil, td__graph_window *window);

#endif
