/* concatenate: y = parts side by side along an axis; each part's gradient is its piece of g */
#include "tape/box.h"

static td_status concatenate_backward(td_tape *tape, td__node *node) {
    const td__box *boxes = node->saved;
    for (int32_t i = 0; i < node->input_count; i++) {
        if (!td__wants(tape, node, i)) {
            continue;
        }
        bool add;
        float *d = td__gradient(tape, node, i, &add);
        if (!d) {
            return TD_MEMORY;
        }
        td__box_read(&boxes[i], td__output_gradient(tape, node), add, d);
    }
    return TD_OK;
}

static const td__op concatenate_op = {.name = "concatenate", .backward = concatenate_backward};

/* Whether part has the first one's shape but for the axis. */
static bool part_fits(const td_shape *first, const td_shape *part, int32_t axis) {
    bool same = first->rank == part->rank;
    for (int32_t i = 0; same && i < first->rank; i++) {
        same = i == axis || first->dims[i] == part->dims[i];
    }
    return same;
}

td_tensor *td_concatenate(td_tape *tape, size_t count, td_tensor *const parts[], int32_t axis) {
    if (count == 0 || count > INT32_MAX) {
        return td__fail(tape, TD_INVALID, "concatenate: no parts given");
    }
    for (size_t i = 0; i < count; i++) {
        if (!td__check_float(tape, "concatenate", "part", parts[i])) {
            return NULL;
        }
    }
    char a[TD_SHAPE_TEXT_SIZE], b[TD_SHAPE_TEXT_SIZE];
    td_shape shape = parts[0]->shape;
    if (!td__axis(shape.rank, axis, &axis)) {
        return td__fail(tape, TD_RANGE, "concatenate: part 0 %s has no axis %d",
                        td_shape_text(&shape, a), (int)axis);
    }
    td__box *boxes = td__scratch(tape, count * sizeof *boxes);
    if (!boxes) {
        return NULL;
    }
    shape.dims[axis] = 0;
    for (size_t i = 0; i < count; i++) {
        const td_shape *part = &parts[i]->shape;
        if (!part_fits(&parts[0]->shape, part, axis)) {
            return td__fail(tape, TD_BAD_SHAPE,
                            "concatenate: part %zu %s does not fit part 0 %s: all but axis %d must "
                            "be equal",
                            i, td_shape_text(part, a), td_shape_text(&parts[0]->shape, b),
                            (int)axis);
        }
        boxes[i] = (td__box){0};
        boxes[i].begin[axis] = shape.dims[axis];
        for (int32_t k = 0; k < part->rank; k++) {
            boxes[i].size[k] = part->dims[k];
        }
        if (__builtin_add_overflow(shape.dims[axis], part->dims[axis], &shape.dims[axis])) {
            return td__fail(tape, TD_BAD_SHAPE, "concatenate: the parts are too long together");
        }
    }
    td_tensor *y = td__output(tape, TD_FLOAT32, &shape);
    if (!y) {
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        boxes[i].whole = shape;
        td__box_write(&boxes[i], td__floats(parts[i]), false, td__floats(y));
    }
    return td__record(tape, &concatenate_op, y, (int32_t)count, parts, boxes);
}
