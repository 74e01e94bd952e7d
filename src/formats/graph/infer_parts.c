/* Inference for operators that put together, cut, repeat, pad and pick. */
#include "graph/infer.h"

#include <string.h>

static int32_t axis_of(const td__graph_node *node, int64_t fallback, int64_t rank) {
    int64_t axis = td__graph_int(node, "axis", fallback);
    axis += axis < 0 ? rank : 0;
    return axis < 0 || axis >= rank ? -1 : (int32_t)axis;
}

static td__graph_extent *like(td__graph_inference *node, size_t o, const td__graph_extent *in) {
    td__graph_extent *out = td__graph_extent_out(node, o, td__graph_type_in(node, 0), in->rank);
    memcpy(out->dims, in->dims, sizeof out->dims);
    out->last = in->last;
    return out;
}

/* --- Concat --------------------------------------------------------------------------------- */

static void concat_numbers(td__graph_inference *node, td__graph_extent *out) {
    td__graph_numbers made = {0}, part;
    for (size_t i = 0; i < node->node->input_count; i++) {
        if (!td__graph_numbers_in(node, i, &part) ||
            part.count > TD__GRAPH_MAX_NUMBERS - made.count) {
            return;
        }
        memcpy(made.all + made.count, part.all, part.count * sizeof *part.all);
        made.count += part.count;
    }
    td__graph_put_numbers(out, &made);
}

bool td__graph_infer_concat(td__graph_inference *node) {
    const td__graph_extent *first = NULL;
    size_t count = node->node->input_count;
    bool all = true, last = false, fits = true;
    for (size_t i = 0; i < count; i++) {
        const td__graph_extent *in = td__graph_extent_in(node, i);
        first = first ? first : in;
        all = all && in && in->rank == first->rank;
        last = last || (in && in->last);
    }
    int32_t axis = first ? axis_of(node->node, 1, first->rank) : -1;
    if (axis < 0) {
        return true;
    }
    td__graph_extent *out = like(node, 0, first);
    td__graph_size sum = td__onnx_number(0);
    for (size_t i = 0; all && i < count; i++) {
        const td__graph_extent *in = td__graph_extent_in(node, i);
        sum = td__graph_size_add(node->sizes, sum, in->dims[axis]);
        for (int32_t k = 0; k < out->rank; k++) { /* the others must be equal: a number says more */
            td__graph_size own = in->dims[k], batch = node->batch;
            bool number = td__graph_is_number(own) || td__graph_is_number(out->dims[k]);
            bool batches =
                td__graph_same_size(own, batch) || td__graph_same_size(out->dims[k], batch);
            bool same = td__graph_same_size(own, out->dims[k]);
            fits = fits && (k == axis || same || !number || !batches);
            out->dims[k] =
                td__graph_is_number(own) || td__graph_same_size(own, batch) ? own : out->dims[k];
        }
    }
    out->dims[axis] = all ? sum : td__graph_any_size(node->sizes);
    out->last = last;
    if (all && out->rank == 1) {
        concat_numbers(node, out);
    }
    return fits;
}

/* --- Expand, Tile, Pad ---------------------------------------------------------------------- */

bool td__graph_infer_expand(td__graph_inference *node) {
    const td__graph_extent *in = td__graph_extent_in(node, 0);
    td__graph_numbers to;
    if (!in || !td__graph_numbers_in(node, 1, &to) || to.count > TD_MAX_RANK) {
        return true;
    }
    td__graph_extent wanted = {.rank = (int32_t)to.count};
    memcpy(wanted.dims, to.all, to.count * sizeof *to.all);
    int32_t rank = in->rank > wanted.rank ? in->rank : wanted.rank;
    td__graph_extent *out = td__graph_extent_out(node, 0, td__graph_type_in(node, 0), rank);
    return td__graph_broadcast_dims(node, in, &wanted, out);
}

bool td__graph_infer_tile(td__graph_inference *node) {
    const td__graph_extent *in = td__graph_extent_in(node, 0);
    td__graph_numbers times;
    if (!in || !td__graph_numbers_in(node, 1, &times) || times.count != (size_t)in->rank) {
        return true;
    }
    td__graph_extent *out = like(node, 0, in);
    out->last = false;
    for (int32_t i = 0; i < out->rank; i++) {
        out->dims[i] = td__graph_size_multiply(node->sizes, in->dims[i], times.all[i]);
    }
    return true;
}

bool td__graph_infer_pad(td__graph_inference *node) {
    const td__graph_extent *in = td__graph_extent_in(node, 0);
    const int64_t *given;
    int64_t axes[TD_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    size_t axis_count = in ? (size_t)in->rank : 0;
    td__graph_numbers pads = {.count = td__graph_ints(node->node, "pads", &given)};
    if (!in) {
        return true;
    }
    td__graph_extent *out = like(node, 0, in);
    bool known = pads.count <= TD__GRAPH_MAX_NUMBERS;
    for (size_t i = 0; known && i < pads.count; i++) {
        pads.all[i] = td__onnx_number(given[i]);
    }
    known = known && (pads.count > 0 || td__graph_numbers_in(node, 1, &pads));
    if (node->node->input_count > 3 && node->node->inputs[3] >= 0) {
        known = known && td__graph_constants_in(node, 3, axes, TD_MAX_RANK, &axis_count);
    }
    known = known && pads.count == 2 * axis_count;
    for (int32_t i = 0; !known && i < out->rank; i++) {
        out->dims[i] = td__graph_any_size(node->sizes);
    }
    for (size_t i = 0; known && i < axis_count; i++) {
        int64_t axis = axes[i] + (axes[i] < 0 ? out->rank : 0);
        if (axis >= 0 && axis < out->rank) {
            td__graph_size both =
                td__graph_size_add(node->sizes, pads.all[i], pads.all[axis_count + i]);
            out->dims[axis] = td__graph_size_add(node->sizes, in->dims[axis], both);
        }
    }
    return true;
}

/* --- Slice, Split --------------------------------------------------------------------------- */

typedef struct slicing {
    td__graph_numbers starts, ends;
    int64_t axes[TD_MAX_RANK], steps[TD_MAX_RANK];
} slicing;

static void listed(const td__graph_node *node, const char *name, td__graph_numbers *numbers) {
    const int64_t *given;
    size_t count = td__graph_ints(node, name, &given);
    numbers->count = count <= TD_MAX_RANK ? count : 0;
    for (size_t i = 0; i < numbers->count; i++) {
        numbers->all[i] = td__onnx_number(given[i]);
    }
}

static bool read_slicing(td__graph_inference *node, slicing *s) {
    size_t axes = 0, steps = 0;
    bool good = true;
    for (int64_t i = 0; i < TD_MAX_RANK; i++) {
        s->axes[i] = i;
        s->steps[i] = 1;
    }
    if (node->opset < 10) {
        td__graph_numbers along;
        listed(node->node, "starts", &s->starts);
        listed(node->node, "ends", &s->ends);
        listed(node->node, "axes", &along);
        for (size_t i = 0; i < along.count; i++) {
            s->axes[i] = along.all[i].plus;
        }
        axes = along.count;
    } else {
        const td__graph_node *own = node->node;
        good = td__graph_numbers_in(node, 1, &s->starts) && td__graph_numbers_in(node, 2, &s->ends);
        if (own->input_count > 3 && own->inputs[3] >= 0) {
            good = good && td__graph_constants_in(node, 3, s->axes, TD_MAX_RANK, &axes);
        }
        if (own->input_count > 4 && own->inputs[4] >= 0) {
            good = good && td__graph_constants_in(node, 4, s->steps, TD_MAX_RANK, &steps);
        }
    }
    return good && s->starts.count <= TD_MAX_RANK && s->ends.count == s->starts.count &&
           (axes == 0 || axes == s->starts.count) && (steps == 0 || steps == s->starts.count);
}

/* A position, of which negative ones count from the end; false: it depends on the size, or is not known.
 * Where a slice begins is within the axis, and a symbol is where one ends. */
static bool place_in_axis(td__graph_inference *node, td__graph_size at, td__graph_size size,
                          bool end, td__graph_size *out) {
    bool number = td__graph_is_number(size);
    *out = at;
    if (!td__graph_is_number(at)) {
        return end;
    }
    if (at.plus < 0) {
        *out = td__graph_size_add(node->sizes, size, at);
    } else if (at.plus >= INT32_MAX) {
        *out = size;
    }
    if (td__graph_is_number(*out) && number) {
        out->plus = out->plus < 0 ? 0 : out->plus > size.plus ? size.plus : out->plus;
    }
    return number || !end || at.plus < 0 || at.plus >= INT32_MAX;
}

/* How many elements are left of an axis. */
static td__graph_size cut_size(td__graph_inference *node, td__graph_size size, td__graph_size start,
                               td__graph_size end, int64_t step) {
    td__graph_size from, to;
    bool known =
        place_in_axis(node, start, size, false, &from) && place_in_axis(node, end, size, true, &to);
    bool few = !td__graph_is_number(size) && td__graph_is_number(start) && start.plus < -1;
    if (step < 1 || step > INT32_MAX || !known || few) { /* few: there may be fewer */
        return td__graph_any_size(node->sizes);
    }
    td__graph_size length =
        td__graph_size_add(node->sizes, to, td__graph_size_scale(node->sizes, from, -1));
    if (td__graph_is_number(length) && length.plus <= 0) {
        return td__onnx_number(0);
    }
    return td__graph_size_divide(
        node->sizes, td__graph_size_add(node->sizes, length, td__onnx_number(step - 1)), step);
}

static void slice_numbers(const slicing *s, const td__graph_extent *in, td__graph_extent *out) {
    if (!in->numbers || s->starts.count != 1 || s->steps[0] == 0 ||
        !td__graph_is_number(s->starts.all[0]) || !td__graph_is_number(s->ends.all[0])) {
        return;
    }
    int64_t count = (int64_t)in->numbers->count, step = s->steps[0];
    int64_t from = s->starts.all[0].plus, to = s->ends.all[0].plus;
    int64_t min = step > 0 ? 0 : -1, max = step > 0 ? count : count - 1;
    from += from < 0 ? count : 0;
    to += to < 0 ? count : 0;
    from = from < min ? min : from > max ? max : from;
    to = to < min ? min : to > max ? max : to;
    td__graph_numbers made = {0};
    step = step > count ? count + 1 : step < -count ? -count - 1 : step;
    for (int64_t i = from; step > 0 ? i < to : i > to; i += step) {
        made.all[made.count++] = in->numbers->all[i];
    }
    out->dims[0] = td__onnx_number((int64_t)made.count);
    td__graph_put_numbers(out, &made);
}

bool td__graph_infer_slice(td__graph_inference *node) {
    const td__graph_extent *in = td__graph_extent_in(node, 0);
    slicing s;
    if (!in) {
        return true;
    }
    td__graph_extent *out = like(node, 0, in);
    bool known = read_slicing(node, &s);
    for (int32_t i = 0; !known && i < out->rank; i++) {
        out->dims[i] = td__graph_any_size(node->sizes);
    }
    for (size_t i = 0; known && i < s.starts.count; i++) {
        int64_t axis = s.axes[i] + (s.axes[i] < 0 ? in->rank : 0);
        if (axis < 0 || axis >= in->rank) {
            return true;
        }
        out->dims[axis] =
            cut_size(node, in->dims[axis], s.starts.all[i], s.ends.all[i], s.steps[i]);
    }
    if (known && in->rank == 1) {
        slice_numbers(&s, in, out);
    }
    return true;
}

static void split_numbers(const td__graph_extent *in, size_t first, td__graph_extent *out) {
    if (in->numbers && in->rank == 1 && td__graph_is_number(out->dims[0]) &&
        out->dims[0].plus >= 0 && (size_t)out->dims[0].plus <= in->numbers->count - first) {
        td__graph_numbers made = {.count = (size_t)out->dims[0].plus};
        memcpy(made.all, in->numbers->all + first, made.count * sizeof *made.all);
        td__graph_put_numbers(out, &made);
    }
}

bool td__graph_infer_split(td__graph_inference *node) {
    const td__graph_extent *in = td__graph_extent_in(node, 0);
    int32_t axis = in ? axis_of(node->node, 0, in->rank) : -1;
    size_t outputs = node->node->output_count, first = 0;
    const int64_t *attribute;
    size_t count = td__graph_ints(node->node, "split", &attribute);
    td__graph_numbers parts = {0};
    if (axis < 0) {
        return true;
    }
    bool listed_parts = count == 0 && td__graph_numbers_in(node, 1, &parts);
    for (size_t i = 0; i < outputs; i++) {
        td__graph_size size = in->dims[axis];
        int64_t each =
            td__graph_is_number(size) ? (size.plus + (int64_t)outputs - 1) / (int64_t)outputs : 0;
        int64_t left = size.plus - (int64_t)i * each;
        td__graph_extent *out = like(node, i, in);
        out->dims[axis] = i < count                         ? td__onnx_number(attribute[i])
                          : listed_parts && i < parts.count ? parts.all[i]
                          : td__graph_is_number(size)       ? td__onnx_number(left < 0      ? 0
                                                                              : left < each ? left
                                                                                            : each)
                          : size.times % (int64_t)outputs == 0 && size.plus % (int64_t)outputs == 0
                              ? td__graph_size_divide(node->sizes, size, (int64_t)outputs)
                              : td__graph_any_size(node->sizes);
        if (in->numbers && first <= in->numbers->count) {
            split_numbers(in, first, out);
        }
        first += td__graph_is_number(out->dims[axis]) && out->dims[axis].plus >= 0
                     ? (size_t)out->dims[axis].plus
                     : (size_t)TD__GRAPH_MAX_NUMBERS + 1;
    }
    return true;
}

/* --- picking -------------------------------------------------------------------------------- */

static void gather_numbers(td__graph_inference *node, const td__graph_extent *in,
                           td__graph_extent *out) {
    int64_t picks[TD__GRAPH_MAX_NUMBERS];
    td__graph_numbers made = {0};
    if (!in->numbers || out->rank > 1 ||
        !td__graph_constants_in(node, 1, picks, TD__GRAPH_MAX_NUMBERS, &made.count)) {
        return;
    }
    int64_t count = (int64_t)in->numbers->count;
    for (size_t i = 0; i < made.count; i++) {
        int64_t pick = picks[i] + (picks[i] < 0 ? count : 0);
        if (pick < 0 || pick >= count) {
            return;
        }
        made.all[i] = in->numbers->all[pick];
    }
    td__graph_put_numbers(out, &made);
}

bool td__graph_infer_gather(td__graph_inference *node) {
    const td__graph_extent *in = td__graph_extent_in(node, 0), *at = td__graph_extent_in(node, 1);
    int32_t axis = in ? axis_of(node->node, 0, in->rank) : -1, rank = 0;
    if (axis < 0 || !at || in->rank - 1 + at->rank > TD_MAX_RANK) {
        return true;
    }
    td__graph_extent *out =
        td__graph_extent_out(node, 0, td__graph_type_in(node, 0), in->rank - 1 + at->rank);
    for (int32_t i = 0; i < in->rank; i++) {
        for (int32_t k = 0; i == axis && k < at->rank; k++) {
            out->dims[rank++] = at->dims[k];
        }
        if (i != axis) {
            out->dims[rank++] = in->dims[i];
        }
    }
    if (in->rank == 1) {
        gather_numbers(node, in, out);
    }
    return true;
}

bool td__graph_infer_gather_elements(td__graph_inference *node) {
    const td__graph_extent *at = td__graph_extent_in(node, 1);
    if (at) {
        like(node, 0, at)->last = false;
    }
    return true;
}

bool td__graph_infer_gather_nd(td__graph_inference *node) {
    const td__graph_extent *in = td__graph_extent_in(node, 0), *at = td__graph_extent_in(node, 1);
    int64_t batches = td__graph_int(node->node, "batch_dims", 0);
    if (!in || !at || at->rank < 1 || !td__graph_is_number(at->dims[at->rank - 1]) || batches < 0) {
        return true;
    }
    int64_t depth = at->dims[at->rank - 1].plus, kept = in->rank - batches - depth;
    if (depth < 0 || depth > TD_MAX_RANK || batches > TD_MAX_RANK || kept < 0) {
        return true;
    }
    td__graph_extent *out =
        td__graph_extent_out(node, 0, td__graph_type_in(node, 0), at->rank - 1 + kept);
    for (int32_t i = 0; i < out->rank; i++) {
        out->dims[i] =
            i < at->rank - 1 ? at->dims[i] : in->dims[batches + depth + i - (at->rank - 1)];
    }
    return true;
}

bool td__graph_infer_one_hot(td__graph_inference *node) {
    const td__graph_extent *in = td__graph_extent_in(node, 0);
    int32_t axis = in ? axis_of(node->node, -1, in->rank + 1) : -1;
    td__graph_numbers depth;
    if (axis < 0) {
        return true;
    }
    td__graph_extent *out = td__graph_extent_out(node, 0, td__graph_type_in(node, 2), in->rank + 1);
    bool known = td__graph_numbers_in(node, 1, &depth) && depth.count == 1;
    for (int32_t i = 0; i < out->rank; i++) {
        out->dims[i] = i < axis   ? in->dims[i]
                       : i > axis ? in->dims[i - 1]
                       : known    ? depth.all[0]
                                  : out->dims[i];
    }
    return true;
}

bool td__graph_infer_non_zero(td__graph_inference *node) {
    const td__graph_extent *in = td__graph_extent_in(node, 0);
    td__graph_extent *out = td__graph_extent_out(node, 0, TD__GRAPH_INT64, 2);
    if (in) {
        out->dims[0] = td__onnx_number(in->rank ? in->rank : 1);
    }
    return true;
}
