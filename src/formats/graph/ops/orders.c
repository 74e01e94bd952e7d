/* What comes from comparing elements along an axis: the largest, the first few, those that differ. */
#include "graph/host.h"
#include "graph/ops/common.h"
#include "tape/pick.h"

#include <math.h>
#include <stdlib.h>

/* A tensor as lines along an axis: element k of line i is at line_start(i) + k * stride. */
typedef struct line_set {
    int64_t count, length, stride;
} line_set;

static bool lines_along(td__graph_call *call, const td_shape *shape, int64_t axis,
                        int32_t *resolved, line_set *lines) {
    if (!td__graph_axis(call, axis, shape->rank, resolved)) {
        return false;
    }
    *lines = (line_set){.count = 1, .length = shape->dims[*resolved], .stride = 1};
    for (int32_t i = 0; i < shape->rank; i++) {
        lines->count *= i == *resolved ? 1 : shape->dims[i];
        lines->stride *= i > *resolved ? shape->dims[i] : 1;
    }
    return true;
}

static int64_t line_start(const line_set *lines, int64_t i) {
    return i / lines->stride * lines->stride * lines->length + i % lines->stride;
}

/* Whether element a comes before element b: larger or smaller; what is not a number last. */
static bool is_before(const td_tensor *x, int64_t a, int64_t b, bool largest) {
    if (td__graph_is_integer(x)) {
        int64_t p = td__graph_integer(x, a), q = td__graph_integer(x, b);
        return largest ? p > q : p < q;
    }
    double p = td__graph_real(x, a), q = td__graph_real(x, b);
    return isnan(q) ? !isnan(p) : largest ? p > q : p < q;
}

/* --- the largest -------------------------------------------------------------------------- */

/* Where along its line the extreme element is: the first of equals, or the last. */
static int64_t find_extreme(const td_tensor *x, const line_set *lines, int64_t line, bool largest,
                            bool last) {
    int64_t start = line_start(lines, line), best = 0;
    for (int64_t k = 1; k < lines->length; k++) {
        int64_t at = start + k * lines->stride, so_far = start + best * lines->stride;
        if (is_before(x, at, so_far, largest) || (last && !is_before(x, so_far, at, largest))) {
            best = k;
        }
    }
    return best;
}

static bool extreme(td__graph_call *call, bool largest) {
    td_tensor *x = td__graph_plain(call, 0);
    line_set lines;
    int32_t axis;
    if (!x || !lines_along(call, &x->shape, td__graph_int(call->node, "axis", 0), &axis, &lines)) {
        return false;
    }
    if (lines.length == 0) {
        return td__graph_fail(call, TD_BAD_SHAPE, "its axis is empty");
    }
    bool keep = td__graph_int(call->node, "keepdims", 1);
    bool last = td__graph_int(call->node, "select_last_index", 0);
    td_shape shape = {0};
    for (int32_t i = 0; i < x->shape.rank; i++) {
        if (i != axis || keep) {
            shape.dims[shape.rank++] = i == axis ? 1 : x->shape.dims[i];
        }
    }
    td_tensor *y = td__graph_new(call, TD__GRAPH_INT64, shape);
    for (int64_t i = 0; y && i < y->count; i++) {
        td__graph_put_integer(y, i, find_extreme(x, &lines, i, largest, last));
    }
    return td__graph_output(call, 0, TD__GRAPH_INT64, y);
}

static bool arg_max(td__graph_call *call) {
    return extreme(call, true);
}

static bool arg_min(td__graph_call *call) {
    return extreme(call, false);
}

/* 1 at the largest element of each line, 0 elsewhere. Before opset 13 a line was everything from
 * the axis on. */
static bool hardmax(td__graph_call *call) {
    td_tensor *x = td__graph_plain(call, 0);
    line_set lines;
    int32_t axis;
    if (!x ||
        !lines_along(call, &x->shape, td__graph_int(call->node, "axis", call->opset < 13 ? 1 : -1),
                     &axis, &lines)) {
        return false;
    }
    if (call->opset < 13) {
        lines = (line_set){.count = td__elements_between(&x->shape, 0, axis),
                           .length = lines.length * lines.stride,
                           .stride = 1};
    }
    td__graph_type type = td__graph_input(call, 0)->type;
    td_tensor *y = td__graph_new(call, type, x->shape);
    for (int64_t i = 0; y && i < y->count; i++) {
        td__graph_put_real(y, i, 0);
    }
    for (int64_t i = 0; y && y->count && i < lines.count; i++) {
        int64_t best = find_extreme(x, &lines, i, true, false);
        td__graph_put_real(y, line_start(&lines, i) + best * lines.stride, 1);
    }
    return td__graph_output(call, 0, type, y);
}

/* --- the first few ------------------------------------------------------------------------ */

/* qsort has no context of its own. */
typedef struct sort_item {
    const td_tensor *x;
    int64_t at;
    bool largest;
} sort_item;

static int by_value(const void *left, const void *right) {
    const sort_item *a = left, *b = right;
    if (is_before(a->x, a->at, b->at, a->largest)) {
        return -1;
    }
    if (is_before(a->x, b->at, a->at, a->largest)) {
        return 1;
    }
    return (a->at > b->at) - (a->at < b->at);
}

/* How many: an input, before opset 10 an attribute. */
static bool read_count(td__graph_call *call, int64_t length, int64_t *k) {
    size_t given = 1;
    if (call->opset < 10) {
        *k = td__graph_int(call->node, "k", 0);
    } else if (!td__graph_input_ints(call, 1, k, 1, &given)) {
        return false;
    }
    return (given == 1 && *k >= 0 && *k <= length) ||
           td__graph_fail(call, TD_RANGE, "%lld of %lld elements", (long long)*k,
                          (long long)length);
}

static bool top_k(td__graph_call *call) {
    td_tensor *x = td__graph_plain(call, 0);
    line_set lines;
    int32_t axis;
    int64_t k = 0;
    if (!x || !lines_along(call, &x->shape, td__graph_int(call->node, "axis", -1), &axis, &lines) ||
        !read_count(call, lines.length, &k)) {
        return false;
    }
    td_shape shape = x->shape;
    shape.dims[axis] = k;
    td_tensor *indices = td__graph_new(call, TD__GRAPH_INT64, shape);
    size_t bytes = (size_t)lines.length * sizeof(sort_item);
    sort_item *items = indices ? td__scratch(call->tape, bytes) : NULL;
    int64_t *places =
        items ? td__scratch(call->tape, (size_t)indices->count * sizeof *places) : NULL;
    if (!places) {
        return false;
    }
    bool largest = td__graph_int(call->node, "largest", 1);
    line_set kept = {.count = lines.count, .length = k, .stride = lines.stride};
    for (int64_t i = 0; indices->count && i < lines.count; i++) {
        int64_t start = line_start(&lines, i);
        for (int64_t j = 0; j < lines.length; j++) {
            items[j] = (sort_item){x, start + j * lines.stride, largest};
        }
        qsort(items, (size_t)lines.length, sizeof *items, by_value);
        for (int64_t j = 0; j < k; j++) {
            int64_t to = line_start(&kept, i) + j * kept.stride;
            places[to] = items[j].at;
            td__graph_put_integer(indices, to, (items[j].at - start) / lines.stride);
        }
    }
    return td__graph_output(call, 0, td__graph_input(call, 0)->type,
                            td__pick(call->tape, x, shape, places)) &&
           td__graph_output(call, 1, TD__GRAPH_INT64, indices);
}

/* --- those that differ -------------------------------------------------------------------- */

/* Slices of x along an axis (or its elements, without one), to be sorted. */
typedef struct slice_item {
    const td_tensor *x;
    const line_set *lines;
    int64_t index;
} slice_item;

static int compare_slices(const slice_item *a, const slice_item *b) {
    for (int64_t i = 0; i < a->lines->count; i++) {
        int64_t start = line_start(a->lines, i);
        int64_t p = start + a->index * a->lines->stride, q = start + b->index * b->lines->stride;
        if (is_before(a->x, p, q, false)) {
            return -1;
        }
        if (is_before(a->x, q, p, false)) {
            return 1;
        }
    }
    return 0;
}

static int by_slice(const void *left, const void *right) {
    const slice_item *a = left, *b = right;
    int order = compare_slices(a, b);
    return order ? order : (a->index > b->index) - (a->index < b->index);
}

/* A group of equal slices. */
typedef struct slice_group {
    int64_t first, size; /* its first slice, and how many there are */
} slice_group;

static int by_first(const void *left, const void *right) {
    const slice_group *a = left, *b = right;
    return (a->first > b->first) - (a->first < b->first);
}

/* Sorts the slices and groups equal ones; returns how many groups there are. group_of[i] is slice
 * i's. */
static int64_t group(slice_item *items, int64_t length, bool sorted, slice_group *groups,
                     int64_t *group_of) {
    int64_t count = 0;
    qsort(items, (size_t)length, sizeof *items, by_slice);
    for (int64_t i = 0; i < length; i++) {
        if (i == 0 || compare_slices(&items[i - 1], &items[i]) != 0) {
            groups[count++] = (slice_group){.first = items[i].index};
        }
        groups[count - 1].size++;
        group_of[items[i].index] = groups[count - 1].first; /* numbered below */
    }
    if (!sorted) {
        qsort(groups, (size_t)count, sizeof *groups, by_first);
    }
    /* A first slice's own entry becomes its group's number; the others look there. */
    for (int64_t i = 0; i < count; i++) {
        group_of[groups[i].first] = -1 - i;
    }
    for (int64_t i = 0; i < length; i++) {
        group_of[i] = group_of[i] < 0 ? group_of[i] : group_of[group_of[i]];
    }
    for (int64_t i = 0; i < length; i++) {
        group_of[i] = -1 - group_of[i];
    }
    return count;
}

/* The slices that the groups begin with, one after another. */
static td_tensor *pick_groups(td__graph_call *call, td_tensor *x, td_shape shape, int32_t axis,
                              const line_set *lines, const slice_group *groups, int64_t count) {
    shape.dims[axis] = count;
    line_set kept = {.count = lines->count, .length = count, .stride = lines->stride};
    int64_t *places = td__scratch(call->tape, (size_t)(lines->count * count) * sizeof *places);
    for (int64_t i = 0; places && i < lines->count; i++) {
        for (int64_t k = 0; k < count; k++) {
            places[line_start(&kept, i) + k * kept.stride] =
                line_start(lines, i) + groups[k].first * lines->stride;
        }
    }
    return places ? td__pick(call->tape, x, shape, places) : NULL;
}

static bool unique(td__graph_call *call) {
    td_tensor *x = td__graph_plain(call, 0);
    bool flat = !td__graph_attribute_of(call->node, "axis");
    line_set lines;
    int32_t axis;
    if (!x) {
        return false;
    }
    td_shape shape = flat ? TD_SHAPE(x->count) : x->shape;
    if (!lines_along(call, &shape, td__graph_int(call->node, "axis", 0), &axis, &lines)) {
        return false;
    }
    size_t length = (size_t)lines.length;
    slice_item *items = td__scratch(call->tape, length * sizeof *items);
    slice_group *groups = td__scratch(call->tape, length * sizeof *groups);
    td_tensor *inverse = td__graph_new(call, TD__GRAPH_INT64, TD_SHAPE(lines.length));
    if (!items || !groups || !inverse) {
        return false;
    }
    for (int64_t i = 0; i < lines.length; i++) {
        items[i] = (slice_item){x, &lines, i};
    }
    int64_t count =
        group(items, lines.length, td__graph_int(call->node, "sorted", 1), groups, inverse->data);
    td_tensor *firsts = td__graph_new(call, TD__GRAPH_INT64, TD_SHAPE(count));
    td_tensor *counts = td__graph_new(call, TD__GRAPH_INT64, TD_SHAPE(count));
    for (int64_t i = 0; firsts && counts && i < count; i++) {
        td__graph_put_integer(firsts, i, groups[i].first);
        td__graph_put_integer(counts, i, groups[i].size);
    }
    return td__graph_output(call, 0, td__graph_input(call, 0)->type,
                            pick_groups(call, x, shape, axis, &lines, groups, count)) &&
           td__graph_output(call, 1, TD__GRAPH_INT64, firsts) &&
           td__graph_output(call, 2, TD__GRAPH_INT64, inverse) &&
           td__graph_output(call, 3, TD__GRAPH_INT64, counts);
}

/* The indices of what is not 0: (rank, count). */
static bool non_zero(td__graph_call *call) {
    td_tensor *x = td__graph_plain(call, 0);
    int64_t count = 0, strides[TD_MAX_RANK];
    for (int64_t i = 0; x && i < x->count; i++) {
        count += td__graph_real(x, i) != 0;
    }
    td_tensor *y = x ? td__graph_new(call, TD__GRAPH_INT64, TD_SHAPE(x->shape.rank, count)) : NULL;
    if (!y) {
        return false;
    }
    td__strides(&x->shape, strides);
    int64_t at = 0;
    for (int64_t i = 0; i < x->count; i++) {
        if (td__graph_real(x, i) != 0) {
            for (int32_t k = 0; k < x->shape.rank; k++) {
                td__graph_put_integer(y, k * count + at, i / strides[k] % x->shape.dims[k]);
            }
            at++;
        }
    }
    return td__graph_output(call, 0, TD__GRAPH_INT64, y);
}

const td__graph_operator td__graph_orders[] = {
    {"ArgMax", arg_max, 1, 1, 1, 0, 0, td__graph_infer_arg},
    {"ArgMin", arg_min, 1, 1, 1, 0, 0, td__graph_infer_arg},
    {"Hardmax", hardmax, 1, 1, 1, 0, 0, td__graph_infer_same},
    {"NonZero", non_zero, 1, 1, 1, 9, 0, td__graph_infer_non_zero},
    {"TopK", top_k, 1, 2, 2, 0, 0, td__graph_infer_top_k},
    {"Unique", unique, 1, 1, 4, 11, 0, NULL},
    {0},
};
