#include "graph/ops/window.h"

#include <string.h>

enum { LARGEST = INT32_MAX };

/* Attribute `name` with one number for each axis, or all otherwise. */
static bool read(td__graph_call *call, const char *name, int64_t fallback, int32_t count,
                 int64_t min, int64_t *out) {
    const int64_t *given;
    size_t have = td__graph_ints(call->node, name, &given);
    if (have != 0 && have != (size_t)count) {
        return td__graph_fail(call, TD_BAD_SHAPE, "'%s' has %zu numbers, its input needs %d", name,
                              have, (int)count);
    }
    for (int32_t i = 0; i < count; i++) {
        out[i] = have ? given[i] : fallback;
        if (out[i] < min || out[i] > LARGEST) {
            return td__graph_fail(call, TD_RANGE, "'%s' contains %lld", name, (long long)out[i]);
        }
    }
    return true;
}

bool td__graph_window_init(td__graph_call *call, const td_shape *shape, const int64_t *given,
                           td__graph_window *window) {
    *window = (td__graph_window){.count = shape->rank - 2};
    if (window->count < 1 || window->count > TD__GRAPH_MAX_SPATIAL) {
        char text[TD_SHAPE_TEXT_SIZE];
        return td__graph_fail(call, TD_UNSUPPORTED,
                              "its input is %s; one to three axes after batch and channels are "
                              "supported",
                              td_shape_text(shape, text));
    }
    for (int32_t i = 0; i < window->count; i++) {
        window->size[i] = shape->dims[2 + i];
        window->kernel[i] = given ? given[i] : 0;
        if (window->size[i] > LARGEST || window->kernel[i] > LARGEST) {
            return td__graph_fail(call, TD_RANGE, "its input or kernel is too large");
        }
    }
    if (!given && !read(call, "kernel_shape", 0, window->count, 1, window->kernel)) {
        return false;
    }
    return read(call, "strides", 1, window->count, 1, window->stride) &&
           read(call, "dilations", 1, window->count, 1, window->dilation);
}

/* Padding so that there is a window for every stride; the odd one goes after, or before. */
static void pad_same(td__graph_window *w, bool lower) {
    for (int32_t i = 0; i < w->count; i++) {
        int64_t out = (w->size[i] + w->stride[i] - 1) / w->stride[i];
        int64_t total =
            (out - 1) * w->stride[i] + (w->kernel[i] - 1) * w->dilation[i] + 1 - w->size[i];
        total = total > 0 ? total : 0;
        w->before[i] = lower ? total - total / 2 : total / 2;
        w->after[i] = total - w->before[i];
    }
}

bool td__graph_window_fit(td__graph_call *call, bool ceil, td__graph_window *w) {
    const char *automatic = td__graph_text(call->node, "auto_pad", "NOTSET");
    int64_t pads[2 * TD__GRAPH_MAX_SPATIAL];
    if (!read(call, "pads", 0, 2 * w->count, 0, pads)) {
        return false;
    }
    if (strncmp(automatic, "SAME", 4) == 0) {
        pad_same(w, strcmp(automatic, "SAME_LOWER") == 0);
    } else {
        for (int32_t i = 0; i < w->count; i++) {
            w->before[i] = pads[i];
            w->after[i] = pads[w->count + i];
        }
    }
    for (int32_t i = 0; i < w->count; i++) {
        int64_t reach = (w->kernel[i] - 1) * w->dilation[i] + 1;
        int64_t room = w->size[i] + w->before[i] + w->after[i] - reach;
        if (room < 0 || w->kernel[i] < 1) {
            return td__graph_fail(call, TD_BAD_SHAPE,
                                  "a window of %lld does not fit an axis of %lld (and padding)",
                                  (long long)reach, (long long)w->size[i]);
        }
        int64_t stride = w->stride[i];
        w->out[i] = (room + (ceil ? stride - 1 : 0)) / stride + 1;
        if (ceil && (w->out[i] - 1) * stride >= w->size[i] + w->before[i]) {
            w->out[i]--;
        }
    }
    return true;
}
