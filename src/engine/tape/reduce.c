/* Reductions: neighbouring axes that are all kept or all reduced are merged; then one reduced axis
 * after the other goes, the last one first, each as the middle axis of (outer, size, inner). */
#include "tape/reduce.h"

#include "tape/parallel.h"

#include <string.h>

typedef struct merged_axes {
    int32_t rank;
    int64_t dims[TD_MAX_RANK];
    bool reduced[TD_MAX_RANK];
} merged_axes;

static merged_axes merge(const td_shape *shape, const bool reduced[TD_MAX_RANK]) {
    merged_axes merged = {0};
    for (int32_t i = 0; i < shape->rank; i++) {
        int32_t last = merged.rank - 1;
        if (shape->dims[i] == 1) {
            continue;
        }
        if (last >= 0 && merged.reduced[last] == reduced[i]) {
            merged.dims[last] *= shape->dims[i];
        } else {
            merged.dims[merged.rank] = shape->dims[i];
            merged.reduced[merged.rank++] = reduced[i];
        }
    }
    return merged;
}

static int64_t product(const int64_t *dims, int32_t begin, int32_t end) {
    int64_t count = 1;
    for (int32_t i = begin; i < end; i++) {
        count *= dims[i];
    }
    return count;
}

typedef struct reduce_work {
    void (*kernel)(int64_t outer, int64_t size, int64_t inner, const float *x, float *y);
    int64_t size, inner;
    const float *x;
    float *y;
} reduce_work;

static void outer_part(void *context, int part, int64_t begin, int64_t end) {
    (void)part;
    const reduce_work *w = context;
    w->kernel(end - begin, w->size, w->inner, w->x + begin * w->size * w->inner,
              w->y + begin * w->inner);
}

static void size_part(void *context, int part, int64_t begin, int64_t end) {
    const reduce_work *w = context;
    w->kernel(1, end - begin, w->inner, w->x + begin * w->inner, w->y + part * w->inner);
}

/* y[o, i] = reduction over s of x[o, s, i] */
static td_status reduce_middle(td_tape *tape, td__axis_reduction reduction, int64_t outer,
                               int64_t size, int64_t inner, const float *x, float *y) {
    reduce_work work = {td__kernels()->reduce[reduction], size, inner, x, y};
    if (outer * inner == 0) {
        return TD_OK;
    }
    if (size == 0) {
        memset(y, 0, (size_t)(outer * inner) * sizeof *y);
    } else if (outer > 1) {
        td__parallel(outer, 1, TD__GRAIN / (size * inner + 1) + 1, outer_part, &work);
    } else if (td_threads() == 1 || size * inner < 2 * TD__GRAIN) {
        work.kernel(outer, size, inner, x, y);
    } else {
        td__buffer *partial = td__temporary(tape, (size_t)(td_threads() * inner) * sizeof(float));
        if (!partial) {
            return TD_MEMORY;
        }
        work.y = partial->data;
        int parts = td__parallel(size, 1, TD__GRAIN / inner + 1, size_part, &work);
        work.kernel(1, parts, inner, partial->data, y);
        td__buffer_drop(tape, partial);
    }
    return TD_OK;
}

static void add_or_copy(bool add, int64_t count, const float *x, float *y) {
    if (add) {
        td__kernels()->add(count, x, y, y);
    } else {
        memcpy(y, x, (size_t)count * sizeof *y);
    }
}

td_status td__reduce_axes(td_tape *tape, td__axis_reduction reduction, const td_shape *shape,
                          const bool reduced[TD_MAX_RANK], const float *x, bool add, float *y) {
    merged_axes axes = merge(shape, reduced);
    int32_t left = 0;
    for (int32_t i = 0; i < axes.rank; i++) {
        left += axes.reduced[i];
    }
    if (left == 0) {
        add_or_copy(add, product(axes.dims, 0, axes.rank), x, y);
        return TD_OK;
    }
    td__buffer *held = NULL;
    td_status status = TD_OK;
    for (int32_t i = axes.rank - 1; i >= 0 && !status; i--) {
        if (!axes.reduced[i]) {
            continue;
        }
        int64_t outer = product(axes.dims, 0, i), inner = product(axes.dims, i + 1, axes.rank);
        bool straight = --left == 0 && !add;
        td__buffer *next =
            straight ? NULL : td__temporary(tape, (size_t)(outer * inner) * sizeof(float));
        status = !straight && !next ? TD_MEMORY
                                    : reduce_middle(tape, reduction, outer, axes.dims[i], inner, x,
                                                    straight ? y : next->data);
        if (!status && left == 0 && add) {
            add_or_copy(true, outer * inner, next->data, y);
        }
        if (held) {
            td__buffer_drop(tape, held);
        }
        held = next;
        x = held ? held->data : NULL;
        axes.dims[i] = 1;
    }
    if (held) {
        td__buffer_drop(tape, held);
    }
    return status;
}
