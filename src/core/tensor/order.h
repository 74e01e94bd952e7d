/* Views on their way to a file, or from one. */
#ifndef TAPEDECK_TENSOR_ORDER_H
#define TAPEDECK_TENSOR_ORDER_H

#include "tapedeck/tensor.h"

/* Sees to it that the values stand at a multiple of their size, which a file's need not: they are
 * copied, and the view released, where they do not. origin is for messages. */
TD_NODISCARD td_status td__view_align(td_view *view, const char *origin, td_error *error);

/* A view of the values in file order (base/little.h): borrowed when memory has the same order, else a
 * copy. Release it with td__view_release. */
TD_NODISCARD td_status td__view_to_file(const td_view *view, td_view *made, td_error *error);
/* The other way, in place of the view: aligned, too. The view is released where it is copied, and on
 * failure. */
TD_NODISCARD td_status td__view_from_file(td_view *view, const char *origin, td_error *error);

/* Calls the view's release, if it has one. */
void td__view_release(const td_view *view);

#endif
