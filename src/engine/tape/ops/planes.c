/* planes: the planes of a volume that each result is made of, side by side in its channels
 *
 * y[n, o, place, group, k, c] = x[n, o stride + k dilation - before, place, group, c], 0 outside;
 * dx is the sum of g over the results that a plane is part of.
 */
#include "tape/kernels.h"
#include "tape/parallel.h"
#include "tape/pick.h"

#include <string.h>

typedef struct planes_saved {
    td__planes how;
    int64_t batch, depth, area, own; /* of x; own: the channels of a group */
} planes_saved;

typedef struct planes_work {
    const planes_saved *saved;
    const float *from;
    float *to;
    bool add;
} planes_work;

/* Results [begin, end) of all examples. */
static void planes_forward_part(void *context, int part, int64_t begin, int64_t end) {
    (void)part;
    const planes_work *w = context;
    const planes_saved *s = w->saved;
    const td__planes *how = &s->how;
    int64_t channels = how->groups * s->own, plane = s->area * channels;
    size_t bytes = (size_t)s->own * sizeof(float);
    float *to = w->to + begin * how->count * plane;
    for (int64_t item = begin; item < end; item++) {
        int64_t first = item % how->depth * how->stride - how->before;
        const float *volume = w->from + item / how->depth * s->depth * plane;
        for (int64_t i = 0; i < s->area * how->groups; i++) {
            for (int64_t k = 0; k < how->count; k++, to += s->own) {
                int64_t at = first + k * how->dilation;
                if (at >= 0 && at < s->depth) {
                    memcpy(to, volume + at * plane + i * s->own, bytes);
                } else {
                    memset(to, 0, bytes);
                }
            }
        }
    }
}

/* Planes [begin, end) of all examples. */
static void planes_backward_part(void *context, int part, int64_t begin, int64_t end) {
    (void)part;
    const planes_work *w = context;
    const planes_saved *s = w->saved;
    const td__planes *how = &s->how;
    int64_t pieces = s->area * how->groups, plane = pieces * s->own;
    for (int64_t item = begin; item < end; item++) {
        float *to = w->to + item * plane;
        const float *results = w->from + item / s->depth * how->depth * how->count * plane;
        if (!w->add) {
            memset(to, 0, (size_t)plane * sizeof *to);
        }
        for (int64_t k = 0; k < how->count; k++) {
            int64_t steps = item % s->depth + how->before - k * how->dilation;
            if (steps < 0 || steps % how->stride || steps / how->stride >= how->depth) {
                continue;
            }
            const float *from = results + steps / how->stride * how->count * plane + k * s->own;
            for (int64_t i = 0; i < pieces; i++) {
                td__kernels()->add(s->own, to + i * s->own, from + i * how->count * s->own,
                                   to + i * s->own);
            }
        }
    }
}

static td_status planes_backward(td_tape *tape, td__node *node) {
    const planes_saved *s = node->saved;
    planes_work work = {.saved = s, .from = td__output_gradient(tape, node)};
    work.to = td__gradient(tape, node, 0, &work.add);
    if (!work.to) {
        return TD_MEMORY;
    }
    int64_t plane = s->area * s->how.groups * s->own;
    td__parallel(s->batch * s->depth, 1, TD__GRAIN / (plane * s->how.count + 1) + 1,
                 planes_backward_part, &work);
    return TD_OK;
}

static const td__op planes_op = {.name = "planes", .backward = planes_backward};

td_tensor *td__planes_beside(td_tape *tape, td_tensor *x, const td__planes *how) {
    if (!td__check_float(tape, "planes", "input", x)) {
        return NULL;
    }
    const int64_t *dims = x->shape.dims;
    td_shape shape = TD_SHAPE(dims[0] * how->depth, dims[2], dims[3], how->count * dims[4]);
    td_tensor *y = td__output(tape, TD_FLOAT32, &shape);
    planes_saved *saved = y ? td__scratch(tape, sizeof *saved) : NULL;
    if (!saved) {
        return NULL;
    }
    *saved = (planes_saved){.how = *how,
                            .batch = dims[0],
                            .depth = dims[1],
                            .area = dims[2] * dims[3],
                            .own = dims[4] / how->groups};
    planes_work work = {.saved = saved, .from = td__floats(x), .to = td__floats(y)};
    int64_t items = y->count ? shape.dims[0] : 0;
    td__parallel(items, 1, TD__GRAIN / (items ? y->count / items : 1) + 1, planes_forward_part,
                 &work);
    return td__record(tape, &planes_op, y, 1, &x, saved);
}
