/* dense: y = f(x W + b) over the last axis
 *
 * dz = g f'(y or z); dx = dz W^T; dW = x^T dz; db = sum over rows of dz
 *
 * Activations whose derivative follows from the output run in place on the product, so that z is
 * never stored; the others keep z.
 */
#include "tape/gemm.h"
#include "tape/linear.h"

static td_status dense_backward(td_tape *tape, td__node *node) {
    const td__linear *saved = node->saved;
    const td_tensor *x = node->inputs[0].tensor, *kernel = node->inputs[1].tensor;
    int64_t in = kernel->shape.dims[0], out = kernel->shape.dims[1];
    int64_t rows = in ? x->count / in : 0; /* an empty input has no rows to speak of */
    td__buffer *dz;
    if (td__linear_backward(tape, node, saved, rows, out, 2, &dz)) {
        return TD_MEMORY;
    }
    bool add;
    td_status status = TD_OK;
    if (td__wants(tape, node, 1)) { /* (in, rows) (rows, out) */
        float *dw = td__gradient(tape, node, 1, &add);
        status = !dw ? TD_MEMORY
                     : td__gemm(tape, &(td__gemm_arguments){.m = in,
                                                            .n = out,
                                                            .k = rows,
                                                            .a = td__floats(x),
                                                            .lda = in,
                                                            .transpose_a = true,
                                                            .b = dz->data,
                                                            .ldb = out,
                                                            .c = dw,
                                                            .ldc = out,
                                                            .flags = add ? TD__TILE_ADD : 0});
    }
    if (!status && td__wants(tape, node, 0)) { /* (rows, out) (out, in) */
        float *dx = td__gradient(tape, node, 0, &add);
        status = !dx ? TD_MEMORY
                     : td__gemm(tape, &(td__gemm_arguments){.m = rows,
                                                            .n = in,
                                                            .k = out,
                                                            .a = dz->data,
                                                            .lda = out,
                                                            .b = td__floats(kernel),
                                                            .ldb = out,
                                                            .transpose_b = true,
                                                            .c = dx,
                                                            .ldc = in,
                                                            .flags = add ? TD__TILE_ADD : 0});
    }
    td__buffer_drop(tape, dz);
    return status;
}

static const td__op dense_op = {.name = "dense", .backward = dense_backward};

td_tensor *td_dense(td_tape *tape, td_tensor *x, td_tensor *kernel, td_tensor *bias,
                    td_activation activation) {
    return td__dense(tape, x, kernel, bias, (td__ending){.activation = activation});
}

td_tensor *td__dense(td_tape *tape, td_tensor *x, td_tensor *kernel, td_tensor *bias,
                     td__ending ending) {
    if (!td__check_float(tape, "dense", "input", x) ||
        !td__check_float(tape, "dense", "kernel", kernel) ||
        (bias && !td__check_float(tape, "dense", "bias", bias)) ||
        !td__linear_check(tape, "dense", ending.activation)) {
        return NULL;
    }
    char a[TD_SHAPE_TEXT_SIZE], b[TD_SHAPE_TEXT_SIZE];
    const td_shape *xs = &x->shape, *ks = &kernel->shape;
    if (xs->rank < 1 || ks->rank != 2 || xs->dims[xs->rank - 1] != ks->dims[0]) {
        return td__fail(
            tape, TD_BAD_SHAPE,
            "dense: input %s does not fit kernel %s: the input's last dimension must be "
            "the kernel's first",
            td_shape_text(xs, a), td_shape_text(ks, b));
    }
    int64_t in = ks->dims[0], out = ks->dims[1];
    if (bias && (bias->shape.rank != 1 || bias->shape.dims[0] != out)) {
        return td__fail(tape, TD_BAD_SHAPE,
                        "dense: bias %s does not fit kernel %s: it must be (%lld,)",
                        td_shape_text(&bias->shape, a), td_shape_text(ks, b), (long long)out);
    }
    td_shape shape = *xs;
    shape.dims[shape.rank - 1] = out;
    td_tensor *y = td__linear_output(tape, &shape, ending);
    td__linear *saved = y ? td__linear_begin(tape, y, ending) : NULL;
    if (!saved) {
        return NULL;
    }
    if (td__gemm(tape, &(td__gemm_arguments){.m = out ? y->count / out : 0,
                                             .n = out,
                                             .k = in,
                                             .a = td__floats(x),
                                             .lda = in,
                                             .b = td__floats(kernel),
                                             .ldb = out,
                                             .b_is_weight = kernel->weight,
                                             .bias = bias ? td__floats(bias) : NULL,
                                             .c = saved->z,
                                             .ldc = out,
                                             .flags = td__linear_flags(saved, ending),
                                             .finish = td__linear_finish(saved, y)})) {
        return NULL;
    }
    td__linear_end(y, saved);
    return td__record(tape, &dense_op, y, 3, (td_tensor *[]){x, kernel, bias}, saved);
}
