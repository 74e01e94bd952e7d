/* What the families of operators share. */
#ifndef TAPEDECK_GRAPH_OPS_COMMON_H
#define TAPEDECK_GRAPH_OPS_COMMON_H

#include "graph/operator.h"
#include "tape/pick.h"
#include "tensor/element.h"

#define TD__REDUCE(...) (&(td_reduce_options){.size = sizeof(td_reduce_options), __VA_ARGS__})

/* --- the forms that operators compute in -------------------------------------------------- */

/* The tensor of input i in the form it is in (a weight's: the plain one); *last says which. */
td_tensor *td__graph_either(td__graph_call *call, size_t i, bool *last);
/* Sets output i in that form. */
bool td__graph_output_either(td__graph_call *call, size_t i, td__graph_type type, td_tensor *tensor,
                             bool last);
/* The operands of an element-wise operator, all in one form, to be broadcast together. At most
 * room; false (and the tape's error) on failure. */
bool td__graph_operands(td__graph_call *call, size_t count, td_tensor **operands, bool *last);
/* Input i in float32, whatever its type. */
td_tensor *td__graph_as_float(td__graph_call *call, size_t i);

/* --- axes --------------------------------------------------------------------------------- */

/* An axis, negative ones counted from the end, of a value with that rank. */
bool td__graph_axis(td__graph_call *call, int64_t axis, int32_t rank, int32_t *out);
/* Marks the axes that attribute or input `axes` lists (opset 13, or another, moved them to an
 * input); *given says whether there are any. */
bool td__graph_axes(td__graph_call *call, size_t input, int32_t rank, bool marked[TD_MAX_RANK],
                    bool *given);
/* Where an axis of the plain form is when the channels are last. */
static inline int32_t td__graph_last_axis(int32_t axis, int32_t rank) {
    return axis == 0 ? 0 : axis == 1 ? rank - 1 : axis - 1;
}

/* --- tensors ------------------------------------------------------------------------------ */

/* A view in another shape with as many elements, of any type; gradients flow in float32. */
td_tensor *td__graph_view(td_tape *tape, td_tensor *x, td_shape shape);
/* The second operand as it is to be broadcast: before opset 7 it could say at which axis of the
 * first it begins. */
td_tensor *td__graph_at_axis(td__graph_call *call, const td_tensor *a, td_tensor *b);
/* Whether elements are other than 0, for td__select. */
td_tensor *td__graph_is_some(td__graph_call *call, const td_tensor *x);
/* A float32 tensor of equal elements; a scalar. */
td_tensor *td__graph_filled(td_tape *tape, td_shape shape, float value);
td_tensor *td__graph_scalar(td_tape *tape, float value);
/* x / sqrt(mean of x^2 over the axes from that one on + epsilon) * scale */
td_tensor *td__graph_rms(td_tape *tape, td_tensor *x, int32_t axis, td_tensor *scale,
                         float epsilon);

/* Parts of any one type side by side along an axis, and a part of one. Gradients flow in float32. */
td_tensor *td__graph_join(td__graph_call *call, size_t count, td_tensor *const *parts,
                          int32_t axis);
td_tensor *td__graph_cut(td__graph_call *call, td_tensor *x, int32_t axis, int64_t begin,
                         int64_t step, int64_t count);

#endif
