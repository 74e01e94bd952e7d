/* select: y = c ? a : b, with broadcasting; da = the sum of g where c, db = the sum where not
 *
 * Not c a + (1 - c) b, which would make infinity times 0 of a mask.
 */
#include "tape/broadcast.h"
#include "tape/pick.h"

#include <string.h>

static td_status select_backward(td_tape *tape, td__node *node) {
    const float *g = td__output_gradient(tape, node);
    const int64_t *condition = node->inputs[2].tensor->data;
    for (int32_t side = 0; side < 2; side++) {
        if (!td__wants(tape, node, side)) {
            continue;
        }
        bool add;
        td__broadcast_rows rows = *(const td__broadcast_rows *)node->saved;
        float *d = td__gradient(tape, node, side, &add);
        if (!d) {
            return TD_MEMORY;
        }
        if (!add) {
            memset(d, 0, (size_t)node->inputs[side].tensor->count * sizeof *d);
        }
        while (td__broadcast_next_row(&rows)) {
            for (int64_t i = 0; i < rows.width; i++) {
                bool first = condition[rows.at[2] + i * rows.step[2]];
                if (first == (side == 0)) {
                    d[rows.at[side] + i * rows.step[side]] += g[rows.y + i];
                }
            }
        }
    }
    return TD_OK;
}

static const td__op select_op = {.name = "select", .backward = select_backward};

td_tensor *td__select(td_tape *tape, const char *op, td_tensor *condition, td_tensor *a,
                      td_tensor *b) {
    td_tensor *inputs[] = {a, b, condition};
    td__broadcast_rows *saved = td__scratch(tape, sizeof *saved);
    if (!saved || !td__broadcast_rows_init(tape, op, 3, inputs, saved)) {
        return NULL;
    }
    td_tensor *y = td__output(tape, a->dtype, &saved->shape);
    td__broadcast_rows rows = *saved;
    while (y && td__broadcast_next_row(&rows)) {
        for (int64_t i = 0; i < rows.width; i++) {
            int64_t c = ((const int64_t *)condition->data)[rows.at[2] + i * rows.step[2]];
            int64_t from = c ? rows.at[0] + i * rows.step[0] : rows.at[1] + i * rows.step[1];
            const td_tensor *x = c ? a : b;
            if (a->dtype == TD_FLOAT32) {
                td__floats(y)[rows.y + i] = td__floats(x)[from];
            } else {
                ((uint64_t *)y->data)[rows.y + i] = ((const uint64_t *)x->data)[from];
            }
        }
    }
    return y && a->dtype == TD_FLOAT32 ? td__record(tape, &select_op, y, 3, inputs, saved) : y;
}
