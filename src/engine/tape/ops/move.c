/* move: y[i, j, …] = x[a[i] + b[j] + …]; dx = the sum of g over all places an element went to
 *
 * Slices with steps, padding, tiling, gathering and the like are all of this kind: what happens
 * along one axis does not depend on the others.
 */
#include "tape/pick.h"
#include "tensor/element.h"

#include <string.h>

typedef struct move_saved {
    td__move_map map;
} move_saved;

void td__strides(const td_shape *shape, int64_t strides[TD_MAX_RANK]) {
    int64_t stride = 1;
    for (int32_t i = shape->rank - 1; i >= 0; i--) {
        strides[i] = stride;
        stride *= shape->dims[i];
    }
}

bool td__move_map_init(td_tape *tape, const char *op, td_shape shape, td__move_map *map) {
    int64_t count;
    td_error error = {0};
    *map = (td__move_map){.shape = shape};
    if (td_shape_check(&shape, TD_FLOAT64, &count, &error)) {
        return td__fail(tape, error.status, "%s: %s", op, error.text);
    }
    for (int32_t i = 0; count > 0 && i < shape.rank; i++) {
        map->offsets[i] = td__scratch(tape, (size_t)shape.dims[i] * sizeof *map->offsets[i]);
        if (!map->offsets[i]) {
            return false;
        }
    }
    return true;
}

/* One row along the last axis: row is where it begins in x, -1 when none of it is there. */
typedef void visit_row(const void *x, void *y, int64_t row, const int64_t *offsets, int64_t count,
                       const void *fill);

/* Calls visit for every row of the result, y moving on by step bytes each. */
static void each_row(const td__move_map *map, const void *x, char *y, size_t step, visit_row *visit,
                     const void *fill) {
    static const int64_t scalar[] = {0};
    int32_t last = map->shape.rank - 1;
    const int64_t *inner = last >= 0 ? map->offsets[last] : scalar;
    int64_t width = last >= 0 ? map->shape.dims[last] : 1;
    int64_t rows = td__elements_between(&map->shape, 0, last);
    int64_t index[TD_MAX_RANK] = {0};
    for (int64_t r = 0; r < rows; r++, y += step * (size_t)width) {
        int64_t row = 0;
        for (int32_t i = 0; i < last && row >= 0; i++) {
            int64_t offset = map->offsets[i][index[i]];
            row = offset < 0 ? -1 : row + offset;
        }
        visit(x, y, row, inner, width, fill);
        for (int32_t i = last - 1; i >= 0 && ++index[i] == map->shape.dims[i]; i--) {
            index[i] = 0;
        }
    }
}

#define DEFINE_COPY(name, type)                                                                    \
    static void name(const void *x, void *y, int64_t row, const int64_t *offsets, int64_t count,   \
                     const void *fill) {                                                           \
        const type *from = x;                                                                      \
        type *to = y, empty = *(const type *)fill;                                                 \
        for (int64_t i = 0; i < count; i++) {                                                      \
            to[i] = row < 0 || offsets[i] < 0 ? empty : from[row + offsets[i]];                    \
        }                                                                                          \
    }
DEFINE_COPY(copy_words, uint32_t)
DEFINE_COPY(copy_longs, uint64_t)

/* x is the gradient that is added to, y the output's. */
static void add_row(const void *x, void *y, int64_t row, const int64_t *offsets, int64_t count,
                    const void *dx) {
    (void)x;
    float *to = *(float *const *)dx;
    const float *from = y;
    for (int64_t i = 0; i < count && row >= 0; i++) {
        if (offsets[i] >= 0) {
            to[row + offsets[i]] += from[i];
        }
    }
}

static td_status move_backward(td_tape *tape, td__node *node) {
    const move_saved *saved = node->saved;
    float *dx = td__gradient_to_add(tape, node, 0);
    if (!dx) {
        return TD_MEMORY;
    }
    if (node->output->count > 0) {
        float *g = (float *)td__output_gradient(tape, node);
        each_row(&saved->map, NULL, (char *)g, sizeof *g, add_row, &dx);
    }
    return TD_OK;
}

static const td__op move_op = {.name = "move", .backward = move_backward};

td_tensor *td__move(td_tape *tape, td_tensor *x, const td__move_map *map, const void *fill) {
    static const uint64_t zero = 0;
    if (!td__check_usable(tape, "move", "input", x)) {
        return NULL;
    }
    td_tensor *y = td__output(tape, x->dtype, &map->shape);
    move_saved *saved = y ? td__scratch(tape, sizeof *saved) : NULL;
    if (!saved) {
        return NULL;
    }
    saved->map = *map;
    size_t size = td_dtype_size(x->dtype);
    if (y->count > 0) {
        each_row(map, x->data, y->data, size, size == 4 ? copy_words : copy_longs,
                 fill ? fill : &zero);
    }
    return x->dtype == TD_FLOAT32 ? td__record(tape, &move_op, y, 1, &x, saved) : y;
}
