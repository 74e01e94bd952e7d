/* Gathering and scattering: each operator works out which elements go where, and pick, place and
 * select move them. */
#include "graph/host.h"
#include "graph/ops/common.h"
#include "tape/pick.h"

#include <string.h>

/* An index into an axis of that size; negative ones count from the end. */
static bool index_into(td__graph_call *call, int64_t index, int64_t size, int64_t *out) {
    *out = index < 0 ? index + size : index;
    return (*out >= 0 && *out < size) ||
           td__graph_fail(call, TD_RANGE, "index %lld of an axis of size %lld", (long long)index,
                          (long long)size);
}

static bool are_integers(td__graph_call *call, const td_tensor *indices) {
    return td__graph_is_integer(indices) ||
           td__graph_fail(call, TD_DTYPE, "its indices are not integers");
}

/* A place for each element of a tensor of that shape; NULL and the tape's error on failure. */
static int64_t *new_places(td__graph_call *call, const td_shape *shape) {
    int64_t count;
    td_error error = {0};
    if (td_shape_check(shape, TD_INT64, &count, &error)) {
        (void)td__graph_fail(call, error.status, "%s", error.text);
        return NULL;
    }
    return td__scratch(call->tape, (size_t)count * sizeof(int64_t));
}

/* --- whole slices ------------------------------------------------------------------------- */

/* y[a…, i…, b…] = x[a…, indices[i…], b…] */
static bool gather(td__graph_call *call) {
    td_tensor *x[2];
    int32_t axis;
    if (!td__graph_plains(call, 2, false, x) || !are_integers(call, x[1]) ||
        !td__graph_axis(call, td__graph_int(call->node, "axis", 0), x[0]->shape.rank, &axis)) {
        return false;
    }
    const td_shape *from = &x[0]->shape, *by = &x[1]->shape;
    td_shape shape = *from, full = {.rank = from->rank - 1 + by->rank};
    if (full.rank > TD_MAX_RANK) {
        return td__graph_fail(call, TD_UNSUPPORTED, "a result of rank %d", (int)full.rank);
    }
    for (int32_t i = 0; i < full.rank; i++) {
        full.dims[i] = i < axis              ? from->dims[i]
                       : i < axis + by->rank ? by->dims[i - axis]
                                             : from->dims[i - by->rank + 1];
    }
    shape.dims[axis] = x[1]->count; /* the indices as one axis */
    td__move_map map;
    int64_t strides[TD_MAX_RANK];
    td__strides(from, strides);
    if (!td__move_map_init(call->tape, call->node->op_type, shape, &map)) {
        return false;
    }
    for (int32_t k = 0; k < shape.rank; k++) {
        for (int64_t i = 0; map.offsets[k] && i < shape.dims[k]; i++) {
            int64_t index = i;
            if (k == axis &&
                !index_into(call, td__graph_integer(x[1], i), from->dims[axis], &index)) {
                return false;
            }
            map.offsets[k][i] = index * strides[k];
        }
    }
    td_tensor *y = td__move(call->tape, x[0], &map, NULL);
    return td__graph_output(call, 0, td__graph_input(call, 0)->type,
                            td__graph_view(call->tape, y, full));
}

/* How many places of an axis of that size are chosen. */
static int64_t count_chosen(const td_tensor *condition, int64_t size) {
    int64_t chosen = 0;
    for (int64_t i = 0; i < condition->count && i < size; i++) {
        chosen += td__graph_integer(condition, i) != 0;
    }
    return chosen;
}

static bool compress(td__graph_call *call) {
    td_tensor *x[2];
    int32_t axis = 0;
    bool flat = !td__graph_attribute_of(call->node, "axis");
    if (!td__graph_plains(call, 2, false, x) || !are_integers(call, x[1])) {
        return false;
    }
    td_shape shape = flat ? TD_SHAPE(x[0]->count) : x[0]->shape;
    if (!td__graph_axis(call, td__graph_int(call->node, "axis", 0), shape.rank, &axis)) {
        return false;
    }
    int64_t strides[TD_MAX_RANK], size = shape.dims[axis];
    td__strides(&shape, strides);
    shape.dims[axis] = count_chosen(x[1], size);
    td__move_map map;
    if (!td__move_map_init(call->tape, call->node->op_type, shape, &map)) {
        return false;
    }
    for (int32_t k = 0; k < shape.rank; k++) {
        int64_t end = k == axis ? size : shape.dims[k], at = 0;
        for (int64_t i = 0; map.offsets[k] && i < end; i++) {
            if (k != axis || (i < x[1]->count && td__graph_integer(x[1], i))) {
                map.offsets[k][at++] = i * strides[k];
            }
        }
    }
    return td__graph_output(call, 0, td__graph_input(call, 0)->type,
                            td__move(call->tape, x[0], &map, NULL));
}

/* --- element by element ------------------------------------------------------------------- */

/* The elements of x that indices (of the same rank, no larger) name along an axis. */
static int64_t *element_places(td__graph_call *call, const td_tensor *x, const td_tensor *indices,
                               int32_t axis) {
    int64_t strides[TD_MAX_RANK], index[TD_MAX_RANK] = {0};
    td__strides(&x->shape, strides);
    for (int32_t k = 0; k < x->shape.rank; k++) {
        if (indices->shape.rank != x->shape.rank ||
            (k != axis && indices->shape.dims[k] > x->shape.dims[k])) {
            (void)td__graph_fail(call, TD_BAD_SHAPE, "its indices do not fit its input");
            return NULL;
        }
    }
    int64_t *places = new_places(call, &indices->shape);
    for (int64_t i = 0; places && i < indices->count; i++) {
        int64_t along;
        if (!index_into(call, td__graph_integer(indices, i), x->shape.dims[axis], &along)) {
            return NULL;
        }
        places[i] = along * strides[axis];
        for (int32_t k = 0; k < x->shape.rank; k++) {
            places[i] += k == axis ? 0 : index[k] * strides[k];
        }
        for (int32_t k = x->shape.rank - 1; k >= 0 && ++index[k] == indices->shape.dims[k]; k--) {
            index[k] = 0;
        }
    }
    return places;
}

static bool gather_elements(td__graph_call *call) {
    td_tensor *x[2];
    int32_t axis;
    if (!td__graph_plains(call, 2, false, x) || !are_integers(call, x[1]) ||
        !td__graph_axis(call, td__graph_int(call->node, "axis", 0), x[0]->shape.rank, &axis)) {
        return false;
    }
    const int64_t *places = element_places(call, x[0], x[1], axis);
    return places && td__graph_output(call, 0, td__graph_input(call, 0)->type,
                                      td__pick(call->tape, x[0], x[1]->shape, places));
}

static bool placing_of(td__graph_call *call, td__scattering *placing) {
    static const char *const names[] = {[TD__SCATTER_SET] = "none",
                                        [TD__SCATTER_ADD] = "add",
                                        [TD__SCATTER_MULTIPLY] = "mul",
                                        [TD__SCATTER_LARGEST] = "max",
                                        [TD__SCATTER_SMALLEST] = "min"};
    const char *name = td__graph_text(call->node, "reduction", "none");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!strcmp(names[i], name)) {
            *placing = (td__scattering)i;
            return true;
        }
    }
    return td__graph_fail(call, TD_UNSUPPORTED, "reduction '%.40s'", name);
}

/* What scattering begins with: data, indices and updates of data's type. */
static bool scatter_inputs(td__graph_call *call, td_tensor *x[3], td__scattering *placing) {
    if (!placing_of(call, placing) || !td__graph_plains(call, 3, false, x) ||
        !are_integers(call, x[1])) {
        return false;
    }
    return td__graph_input(call, 0)->type == td__graph_input(call, 2)->type ||
           td__graph_fail(call, TD_DTYPE, "its updates are of another type than its input");
}

static bool scatter_elements(td__graph_call *call) {
    td_tensor *x[3];
    td__scattering placing;
    int32_t axis;
    if (!scatter_inputs(call, x, &placing) ||
        !td__graph_axis(call, td__graph_int(call->node, "axis", 0), x[0]->shape.rank, &axis)) {
        return false;
    }
    if (!td_shape_equal(&x[1]->shape, &x[2]->shape)) {
        return td__graph_fail(call, TD_BAD_SHAPE, "its indices and updates have different shapes");
    }
    const int64_t *places = element_places(call, x[0], x[1], axis);
    return places && td__graph_output(call, 0, td__graph_input(call, 0)->type,
                                      td__scatter(call->tape, x[0], x[2], places, placing));
}

/* --- slices by many indices at once ------------------------------------------------------- */

/* The last axis of indices names slices of x, after batch axes that both have. */
typedef struct slice_list {
    td_shape shape;      /* of all slices together */
    int64_t size, depth; /* elements of a slice; indices that name one */
    int64_t *places;     /* of every element */
} slice_list;

static bool slices_shape(td__graph_call *call, const td_shape *x, const td_shape *indices,
                         int32_t batch, slice_list *slices) {
    if (indices->rank < 1 || batch < 0 || batch >= indices->rank || batch >= x->rank) {
        return td__graph_fail(call, TD_BAD_SHAPE, "its indices do not fit its input");
    }
    slices->depth = indices->dims[indices->rank - 1];
    if (slices->depth < 1 || slices->depth > x->rank - batch) {
        return td__graph_fail(call, TD_BAD_SHAPE, "indices of %lld axes into rank %d",
                              (long long)slices->depth, (int)x->rank);
    }
    int32_t first = batch + (int32_t)slices->depth;
    slices->shape.rank = indices->rank - 1 + x->rank - first;
    if (slices->shape.rank > TD_MAX_RANK) {
        return td__graph_fail(call, TD_UNSUPPORTED, "a result of rank %d", (int)slices->shape.rank);
    }
    slices->size = 1;
    for (int32_t i = 0; i < slices->shape.rank; i++) {
        int32_t own = i - (indices->rank - 1) + first;
        slices->shape.dims[i] = i < indices->rank - 1 ? indices->dims[i] : x->dims[own];
        slices->size *= i < indices->rank - 1 ? 1 : x->dims[own];
    }
    for (int32_t i = 0; i < batch; i++) {
        if (indices->dims[i] != x->dims[i]) {
            return td__graph_fail(call, TD_BAD_SHAPE, "batches of different sizes");
        }
    }
    return true;
}

static bool find_slices(td__graph_call *call, const td_tensor *x, const td_tensor *indices,
                        int64_t batch_dims, slice_list *slices) {
    int32_t batch = batch_dims < 0 || batch_dims > TD_MAX_RANK ? -1 : (int32_t)batch_dims;
    int64_t strides[TD_MAX_RANK];
    *slices = (slice_list){.size = 0};
    if (!slices_shape(call, &x->shape, &indices->shape, batch, slices) ||
        !(slices->places = new_places(call, &slices->shape))) {
        return false;
    }
    td__strides(&x->shape, strides);
    int64_t batches = td__elements_between(&x->shape, 0, batch);
    int64_t count = indices->count / slices->depth;
    int64_t each = batches ? count / batches : 0; /* slices of one batch */
    int64_t stride = batch ? strides[batch - 1] : 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t place = stride * (each ? i / each : 0);
        for (int64_t k = 0; k < slices->depth; k++) {
            int64_t along, index = td__graph_integer(indices, i * slices->depth + k);
            if (!index_into(call, index, x->shape.dims[batch + k], &along)) {
                return false;
            }
            place += along * strides[batch + k];
        }
        for (int64_t k = 0; k < slices->size; k++) {
            slices->places[i * slices->size + k] = place + k;
        }
    }
    return true;
}

static bool gather_nd(td__graph_call *call) {
    td_tensor *x[2];
    slice_list slices;
    return td__graph_plains(call, 2, false, x) && are_integers(call, x[1]) &&
           find_slices(call, x[0], x[1], td__graph_int(call->node, "batch_dims", 0), &slices) &&
           td__graph_output(call, 0, td__graph_input(call, 0)->type,
                            td__pick(call->tape, x[0], slices.shape, slices.places));
}

static bool scatter_nd(td__graph_call *call) {
    td_tensor *x[3];
    td__scattering placing;
    slice_list slices;
    if (!scatter_inputs(call, x, &placing) || !find_slices(call, x[0], x[1], 0, &slices)) {
        return false;
    }
    if (!td_shape_equal(&slices.shape, &x[2]->shape)) {
        return td__graph_fail(call, TD_BAD_SHAPE, "its indices and updates do not fit");
    }
    return td__graph_output(call, 0, td__graph_input(call, 0)->type,
                            td__scatter(call->tape, x[0], x[2], slices.places, placing));
}

/* --- choosing ----------------------------------------------------------------------------- */

static bool where(td__graph_call *call) {
    td_tensor *x[3];
    if (!td__graph_plains(call, 3, false, x)) {
        return false;
    }
    if (!td__graph_is_integer(x[0]) ||
        td__graph_input(call, 1)->type != td__graph_input(call, 2)->type) {
        return td__graph_fail(call, TD_DTYPE, "a bool and two of one type are needed");
    }
    return td__graph_output(call, 0, td__graph_input(call, 1)->type,
                            td__select(call->tape, call->node->op_type, x[0], x[1], x[2]));
}

/* The upper or lower triangle of matrices, k diagonals moved to the right. */
static bool triangle(td__graph_call *call) {
    td_tensor *x = td__graph_plain(call, 0);
    int64_t k = 0;
    size_t given;
    if (!x || !td__graph_input_ints(call, 1, &k, 1, &given)) {
        return false;
    }
    if (x->shape.rank < 2) {
        return td__graph_fail(call, TD_BAD_SHAPE, "its input is no matrix");
    }
    bool upper = td__graph_int(call->node, "upper", 1);
    int64_t columns = x->shape.dims[x->shape.rank - 1], rows = x->shape.dims[x->shape.rank - 2];
    k = k > columns ? columns : k < -rows ? -rows : k; /* beyond, nothing changes */
    int64_t *places = new_places(call, &x->shape);
    for (int64_t i = 0; places && i < x->count; i++) {
        int64_t column = i % columns, row = i / columns % rows;
        bool kept = upper ? column - row >= k : column - row <= k;
        places[i] = kept ? i : -1;
    }
    return places && td__graph_output(call, 0, td__graph_input(call, 0)->type,
                                      td__pick(call->tape, x, x->shape, places));
}

/* The first lengths[b] steps of each sequence, backwards. */
static bool reverse_sequence(td__graph_call *call) {
    td_tensor *x[2];
    int64_t batch = td__graph_int(call->node, "batch_axis", 1);
    int64_t time = td__graph_int(call->node, "time_axis", 0), strides[TD_MAX_RANK];
    if (!td__graph_plains(call, 2, false, x) || !are_integers(call, x[1])) {
        return false;
    }
    if (x[0]->shape.rank < 2 || batch < 0 || batch > 1 || time != 1 - batch ||
        x[1]->count != x[0]->shape.dims[batch]) {
        return td__graph_fail(call, TD_BAD_SHAPE, "its lengths do not fit its input");
    }
    int64_t *places = new_places(call, &x[0]->shape);
    td__strides(&x[0]->shape, strides);
    for (int64_t i = 0; places && i < x[0]->count; i++) {
        int64_t b = i / strides[batch] % x[0]->shape.dims[batch];
        int64_t t = i / strides[time] % x[0]->shape.dims[time];
        int64_t length = td__graph_integer(x[1], b);
        if (length < 0 || length > x[0]->shape.dims[time]) {
            return td__graph_fail(call, TD_RANGE, "a length of %lld steps", (long long)length);
        }
        places[i] = t < length ? i + (length - 1 - 2 * t) * strides[time] : i;
    }
    return places && td__graph_output(call, 0, td__graph_input(call, 0)->type,
                                      td__pick(call->tape, x[0], x[0]->shape, places));
}

const td__graph_operator td__graph_indexing[] = {
    {"Compress", compress, 2, 2, 1, 9, 0, NULL},
    {"Gather", gather, 2, 2, 1, 0, 0, td__graph_infer_gather},
    {"GatherElements", gather_elements, 2, 2, 1, 11, 0, td__graph_infer_gather_elements},
    {"GatherND", gather_nd, 2, 2, 1, 11, 0, td__graph_infer_gather_nd},
    {"ReverseSequence", reverse_sequence, 2, 2, 1, 10, 0, td__graph_infer_same},
    {"Scatter", scatter_elements, 3, 3, 1, 9, 0, td__graph_infer_same},
    {"ScatterElements", scatter_elements, 3, 3, 1, 11, 0, td__graph_infer_same},
    {"ScatterND", scatter_nd, 3, 3, 1, 11, 0, td__graph_infer_same},
    {"Trilu", triangle, 1, 2, 1, 14, 0, td__graph_infer_same},
    {"Where", where, 3, 3, 1, 9, 0, td__graph_infer_where},
    {0},
};
