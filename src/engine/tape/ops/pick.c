/* pick: y[k] = x[from[k]]; dx[from[k]] += g[k]
 * place: y = x, y[to[k]] = u[k]; dx = g but 0 at every to[k]; du[k] = g[to[k]] where u[k] stayed
 *        y[to[k]] += u[k]; dx = g; du[k] = g[to[k]]
 */
#include "tape/pick.h"

#include <string.h>

typedef struct index_list {
    const int64_t *places;
    td__scattering placing;
} index_list;

static index_list *save(td_tape *tape, const int64_t *places, td__scattering placing) {
    index_list *list = td__scratch(tape, sizeof *list);
    if (list) {
        *list = (index_list){places, placing};
    }
    return list;
}

static td_status pick_backward(td_tape *tape, td__node *node) {
    const int64_t *from = ((const index_list *)node->saved)->places;
    const float *g = td__output_gradient(tape, node);
    float *dx = td__gradient_to_add(tape, node, 0);
    if (!dx) {
        return TD_MEMORY;
    }
    for (int64_t k = 0; k < node->output->count; k++) {
        if (from[k] >= 0) {
            dx[from[k]] += g[k];
        }
    }
    return TD_OK;
}

static const td__op pick_op = {.name = "pick", .backward = pick_backward};

td_tensor *td__pick(td_tape *tape, td_tensor *x, td_shape shape, const int64_t *from) {
    td_tensor *y =
        td__check_usable(tape, "pick", "input", x) ? td__output(tape, x->dtype, &shape) : NULL;
    index_list *saved = y ? save(tape, from, TD__SCATTER_SET) : NULL;
    if (!saved) {
        return NULL;
    }
    if (x->dtype == TD_FLOAT32) {
        for (int64_t k = 0; k < y->count; k++) {
            td__floats(y)[k] = from[k] < 0 ? 0 : td__floats(x)[from[k]];
        }
        return td__record(tape, &pick_op, y, 1, &x, saved);
    }
    for (int64_t k = 0; k < y->count; k++) {
        ((uint64_t *)y->data)[k] = from[k] < 0 ? 0 : ((const uint64_t *)x->data)[from[k]];
    }
    return y;
}

/* What of g goes to the updates; rest, a copy of g, keeps what is left for x. Of several updates for
 * one place the last was kept: it is met first. */
static void take_updates(const index_list *list, int64_t count, float *rest, float *du, bool add) {
    for (int64_t k = count - 1; k >= 0; k--) {
        float *place = &rest[list->places[k]];
        if (du) {
            du[k] = (add ? du[k] : 0) + *place;
        }
        *place = list->placing == TD__SCATTER_SET ? 0 : *place;
    }
}

static td_status place_backward(td_tape *tape, td__node *node) {
    const index_list *list = node->saved;
    size_t bytes = (size_t)node->output->count * sizeof(float);
    td__buffer *rest = td__temporary(tape, bytes);
    bool add = false;
    float *du = rest && td__wants(tape, node, 1) ? td__gradient(tape, node, 1, &add) : NULL;
    float *dx = NULL;
    if (!rest || (!du && td__wants(tape, node, 1))) {
        return TD_MEMORY;
    }
    memcpy(rest->data, td__output_gradient(tape, node), bytes);
    take_updates(list, node->inputs[1].tensor->count, rest->data, du, add);
    if (td__wants(tape, node, 0)) {
        dx = td__gradient(tape, node, 0, &add);
        for (int64_t k = 0; dx && k < node->output->count; k++) {
            dx[k] = (add ? dx[k] : 0) + rest->data[k];
        }
    }
    td__buffer_drop(tape, rest);
    return dx || !td__wants(tape, node, 0) ? TD_OK : TD_MEMORY;
}

static const td__op place_op = {.name = "place", .backward = place_backward};
static td_status combine_backward(td_tape *tape, td__node *node) {
    (void)td__fail(tape, TD_UNSUPPORTED, "%s by mul, max or min: its gradient is not known",
                   node->op->name);
    return TD_UNSUPPORTED;
}

static const td__op combine_op = {.name = "scatter", .backward = combine_backward};

/* wide: what sums are computed in; integers wrap around. */
#define DEFINE_COMBINE(name, type, wide)                                                           \
    static type name(type old, type update, td__scattering placing) {                              \
        switch (placing) {                                                                         \
        case TD__SCATTER_ADD:                                                                      \
            return (type)((wide)old + (wide)update);                                               \
        case TD__SCATTER_MULTIPLY:                                                                 \
            return (type)((wide)old * (wide)update);                                               \
        case TD__SCATTER_LARGEST:                                                                  \
            return old > update ? old : update;                                                    \
        case TD__SCATTER_SMALLEST:                                                                 \
            return old < update ? old : update;                                                    \
        default:                                                                                   \
            return update;                                                                         \
        }                                                                                          \
    }                                                                                              \
    static void name##_all(void *y, const void *updates, const int64_t *to, int64_t count,         \
                           td__scattering placing) {                                               \
        for (int64_t k = 0; k < count; k++) {                                                      \
            type *place = &((type *)y)[to[k]];                                                     \
            *place = name(*place, ((const type *)updates)[k], placing);                            \
        }                                                                                          \
    }
DEFINE_COMBINE(combine_float, float, float)
DEFINE_COMBINE(combine_double, double, double)
DEFINE_COMBINE(combine_integer, int64_t, uint64_t)

td_tensor *td__scatter(td_tape *tape, td_tensor *x, td_tensor *updates, const int64_t *to,
                       td__scattering placing) {
    td_tensor *y = td__check_usable(tape, "place", "input", x) &&
                           td__check_usable(tape, "place", "updates", updates)
                       ? td__output(tape, x->dtype, &x->shape)
                       : NULL;
    index_list *saved = y ? save(tape, to, placing) : NULL;
    if (!saved) {
        return NULL;
    }
    if (y->count > 0) {
        memcpy(y->data, x->data, (size_t)y->count * td_dtype_size(y->dtype));
    }
    (x->dtype == TD_FLOAT32 ? combine_float_all
     : x->dtype == TD_FLOAT64
         ? combine_double_all
         : combine_integer_all)(y->data, updates->data, to, updates->count, placing);
    bool smooth = placing == TD__SCATTER_SET || placing == TD__SCATTER_ADD;
    return x->dtype == TD_FLOAT32 ? td__record(tape, smooth ? &place_op : &combine_op, y, 2,
                                               (td_tensor *[]){x, updates}, saved)
                                  : y;
}
