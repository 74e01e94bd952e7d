/* resample: y[…, i, …] = the sum over t of weights[i][t] x[…, places[i][t], …] along one axis;
 * dx[…, places[i][t], …] += weights[i][t] g[…, i, …] */
#include "tape/resample.h"

#include "tape/parallel.h"
#include "tensor/element.h"

#include <string.h>

/* x: (outer, size, inner), y: (outer, count, inner) */
typedef struct resample_work {
    const td__resampling *taps;
    int64_t size, inner;
    const float *from;
    float *to;
} resample_work;

static void resample_forward_part(void *context, int part, int64_t begin, int64_t end) {
    (void)part;
    const resample_work *w = context;
    const td__resampling *taps = w->taps;
    for (int64_t row = begin; row < end; row++) {
        int64_t outer = row / taps->count, i = row % taps->count;
        float *y = w->to + row * w->inner;
        memset(y, 0, (size_t)w->inner * sizeof *y);
        for (int64_t t = 0; t < taps->width; t++) {
            float weight = taps->weights[i * taps->width + t];
            const float *x =
                w->from + (outer * w->size + taps->places[i * taps->width + t]) * w->inner;
            for (int64_t k = 0; k < w->inner; k++) {
                y[k] += weight * x[k];
            }
        }
    }
}

static void resample_backward_part(void *context, int part, int64_t begin, int64_t end) {
    (void)part;
    const resample_work *w = context;
    const td__resampling *taps = w->taps;
    for (int64_t row = begin * taps->count; row < end * taps->count; row++) {
        int64_t outer = row / taps->count, i = row % taps->count;
        const float *g = w->from + row * w->inner;
        for (int64_t t = 0; t < taps->width; t++) {
            float weight = taps->weights[i * taps->width + t];
            float *dx = w->to + (outer * w->size + taps->places[i * taps->width + t]) * w->inner;
            for (int64_t k = 0; k < w->inner; k++) {
                dx[k] += weight * g[k];
            }
        }
    }
}

static td_status resample_backward(td_tape *tape, td__node *node) {
    resample_work work = *(const resample_work *)node->saved;
    int64_t count = node->inputs[0].tensor->count;
    work.from = td__output_gradient(tape, node);
    work.to = td__gradient_to_add(tape, node, 0);
    if (!work.to) {
        return TD_MEMORY;
    }
    int64_t each = work.size * work.inner;
    td__parallel(each ? count / each : 0, 1, TD__GRAIN / (each + 1) + 1, resample_backward_part,
                 &work);
    return TD_OK;
}

static const td__op resample_op = {.name = "resample", .backward = resample_backward};

td_tensor *td__resample(td_tape *tape, td_tensor *x, int32_t axis, const td__resampling *taps) {
    if (!td__check_float(tape, "resample", "input", x)) {
        return NULL;
    }
    td_shape shape = x->shape;
    shape.dims[axis] = taps->count;
    td_tensor *y = td__output(tape, TD_FLOAT32, &shape);
    resample_work *work = y ? td__scratch(tape, sizeof *work) : NULL;
    td__resampling *kept = work ? td__scratch(tape, sizeof *kept) : NULL;
    if (!kept) {
        return NULL;
    }
    *kept = *taps;
    *work = (resample_work){.taps = kept,
                            .size = x->shape.dims[axis],
                            .inner = td__elements_from(&shape, axis + 1),
                            .from = td__floats(x),
                            .to = td__floats(y)};
    if (y->count > 0) {
        td__parallel(y->count / work->inner, 1, TD__GRAIN / work->inner + 1, resample_forward_part,
                     work);
    }
    return td__record(tape, &resample_op, y, 1, &x, work);
}
