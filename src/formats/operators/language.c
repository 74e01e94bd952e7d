/* Operators that opsets 24 and on have for language models: caches, gates, convolution with a state. */
#include "graph/host.h"
#include "graph/ops/common.h"

#include <string.h>

static bool all_float(td__graph_call *call) {
    for (size_t i = 0; i < td__graph_input_count(call); i++) {
        if (td__graph_input(call, i) && !td__graph_is_float(call, i)) {
            return td__graph_fail(call, TD_UNSUPPORTED, "only of type float");
        }
    }
    return true;
}

static bool swi_glu(td__graph_call *call) {
    td_tensor *a = all_float(call) ? td__graph_plain(call, 0) : NULL, *b = td__graph_plain(call, 1);
    if (!a || !b || !td_shape_equal(&a->shape, &b->shape)) {
        return a && b ? td__graph_fail(call, TD_BAD_SHAPE, "its inputs have different shapes")
                      : false;
    }
    float alpha = td__graph_float(call->node, "alpha", 1);
    return td__graph_output(
        call, 0, td__graph_input(call, 0)->type,
        td_multiply(
            call->tape,
            td_multiply(call->tape, a, td_sigmoid(call->tape, td_affine(call->tape, a, alpha, 0))),
            b));
}

/* A cache (batch, …, places, …) with new steps written to places of its own in each example, around
 * the end where it is circular. */
static bool tensor_scatter(td__graph_call *call) {
    td_tensor *x[2];
    int32_t axis;
    if (!td__graph_plains(call, 2, true, x) ||
        !td__graph_axis(call, td__graph_int(call->node, "axis", -2), x[0]->shape.rank, &axis)) {
        return false;
    }
    const td_tensor *at = td__graph_plain(call, 2);
    bool circular = !strcmp(td__graph_text(call->node, "mode", "linear"), "circular");
    td_shape wanted = x[0]->shape;
    int64_t places = wanted.dims[axis], steps = x[1]->shape.dims[axis], batch = wanted.dims[0];
    wanted.dims[axis] = steps;
    if (axis == 0 || !td_shape_equal(&wanted, &x[1]->shape) || steps > places ||
        (at && (at->dtype != TD_INT64 || at->count != batch))) {
        return td__graph_fail(call, TD_BAD_SHAPE, "what is written does not fit the cache");
    }
    int64_t inner = td__elements_from(&wanted, axis + 1);
    int64_t outer = td__elements_between(&wanted, 0, axis);
    /* A row of the cache is one of its own or one of the new ones, which lie behind it. */
    td_tensor *parts[2] = {td__graph_view(call->tape, x[0], TD_SHAPE(outer * places, inner)),
                           td__graph_view(call->tape, x[1], TD_SHAPE(outer * steps, inner))};
    td_tensor *all = parts[0] && parts[1] ? td__graph_join(call, 2, parts, 0) : NULL;
    td__move_map map;
    if (!all || !td__move_map_init(call->tape, call->node->op_type, TD_SHAPE(outer * places, inner),
                                   &map)) {
        return false;
    }
    for (int64_t i = 0; map.offsets[0] && i < outer * places; i++) {
        map.offsets[0][i] = i * inner;
    }
    for (int64_t i = 0; map.offsets[1] && i < inner; i++) {
        map.offsets[1][i] = i;
    }
    for (int64_t i = 0; map.offsets[0] && i < outer * steps; i++) {
        int64_t line = i / steps, place = i % steps;
        int64_t first = at && batch ? ((const int64_t *)at->data)[line / (outer / batch)] : 0;
        bool fits = first >= 0 && (circular ? first < places : first <= places - steps);
        if (!fits) {
            return td__graph_fail(call, TD_RANGE, "place %lld of a cache of %lld", (long long)first,
                                  (long long)places);
        }
        place = (first + place) % places;
        map.offsets[0][line * places + place] = (outer * places + i) * inner;
    }
    td_tensor *y = td__move(call->tape, all, &map, NULL);
    return td__graph_output(call, 0, td__graph_input(call, 0)->type,
                            y ? td__graph_view(call->tape, y, x[0]->shape) : NULL);
}

enum { MAX_TAPS = 4096 };

/* x (n, c, t), kernel (c, 1, k), bias (c), past (n, c, k - 1): each channel by its own kernel, over what
 * came before; puts out (n, c, t) and the last k - 1 steps. */
static bool causal_conv_with_state(td__graph_call *call) {
    td_tape *tape = call->tape;
    td_tensor *x = all_float(call) ? td__graph_plain(call, 0) : NULL;
    td_tensor *kernel = td__graph_plain(call, 1), *bias = td__graph_plain(call, 2);
    td_tensor *past = td__graph_plain(call, 3), *y = NULL;
    const char *activation = td__graph_text(call->node, "activation", "none");
    if (!x || !kernel) {
        return false;
    }
    const int64_t *d = x->shape.dims, *k = kernel->shape.dims;
    if (x->shape.rank != 3 || kernel->shape.rank != 3 || k[0] != d[1] || k[1] != 1 || k[2] < 1 ||
        k[2] > MAX_TAPS || (bias && bias->count != d[1]) ||
        (past && !td_shape_equal(&past->shape, &TD_SHAPE(d[0], d[1], k[2] - 1)))) {
        return td__graph_fail(call, TD_BAD_SHAPE, "its inputs do not fit each other");
    }
    past = past ? past : td__graph_filled(tape, TD_SHAPE(d[0], d[1], k[2] - 1), 0);
    td_tensor *all = past ? td_concatenate(tape, 2, (td_tensor *[]){past, x}, 2) : NULL;
    kernel = td_reshape(tape, kernel, TD_SHAPE(d[1], k[2]));
    for (int64_t i = 0; all && i < k[2]; i++) {
        td_tensor *tap = td_slice(tape, kernel, (int64_t[]){0, i}, (int64_t[]){-1, 1});
        td_tensor *at = td_slice(tape, all, (int64_t[]){0, 0, i}, (int64_t[]){-1, -1, d[2]});
        td_tensor *part = td_multiply(tape, at, tap);
        y = y ? td_add(tape, y, part) : part;
        if (!y) {
            return false;
        }
    }
    y = y && bias ? td_add(tape, y, td_reshape(tape, bias, TD_SHAPE(d[1], 1))) : y;
    y = y && strcmp(activation, "none") != 0 ? td_activate(tape, y, TD_SWISH, TD_DEFAULT) : y;
    td__graph_type type = td__graph_input(call, 0)->type;
    td_tensor *present =
        y ? td_slice(tape, all, (int64_t[]){0, 0, d[2]}, (int64_t[]){-1, -1, k[2] - 1}) : NULL;
    return td__graph_output(call, 0, type, y) && td__graph_output(call, 1, type, present);
}

const td__graph_operator td__graph_language_models[] = {
    {"CausalConvWithState", causal_conv_with_state, 2, 4, 2, 27, 0, td__graph_infer_same},
    {"SwiGLU", swi_glu, 2, 2, 1, 28, 0, NULL},
    {"TensorScatter", tensor_scatter, 2, 3, 1, 24, 0, td__graph_infer_same},
    {0},
};
