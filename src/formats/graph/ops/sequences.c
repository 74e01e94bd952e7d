/* Sequences of values, and values that may not be there. A sequence is never changed: inserting makes
 * another one, whose items are the same values. */
#include "graph/host.h"
#include "graph/ops/common.h"

#include <string.h>

static td__graph_list *list_of(td__graph_call *call, int64_t count) {
    td__graph_list *list =
        td__scratch(call->tape, sizeof *list + (size_t)count * sizeof(td__graph_value));
    if (list) {
        list->count = count;
    }
    return list;
}

/* Sequences are of tensors. */
static bool put_element(td__graph_call *call, td__graph_list *list, int64_t at,
                        const td__graph_value *value) {
    if (!value || value->list || value->none) {
        return td__graph_fail(call, TD_DTYPE, "item %lld is no tensor", (long long)at);
    }
    list->items[at] = *value;
    return true;
}

static bool output_list(td__graph_call *call, size_t i, const td__graph_list *list) {
    return list && td__graph_output_value(call, i, (td__graph_value){.list = list});
}

static const td__graph_list *input_list(td__graph_call *call, size_t i) {
    const td__graph_value *value = td__graph_input(call, i);
    if (!value || !value->list) {
        (void)td__graph_fail(call, TD_DTYPE, "input %zu must be a sequence", i);
        return NULL;
    }
    return value->list;
}

static bool output_integer(td__graph_call *call, td__graph_type type, int64_t value) {
    td_tensor *y = td__output(call->tape, TD_INT64, &(td_shape){0});
    if (y) {
        *(int64_t *)y->data = value;
    }
    return td__graph_output(call, 0, type, y);
}

/* A place in a sequence, negative ones counted from the end; otherwise, when it was left out. */
static bool position(td__graph_call *call, size_t i, int64_t count, int64_t max, int64_t fallback,
                     int64_t *out) {
    int64_t given[1];
    size_t numbers;
    if (!td__graph_input_ints(call, i, given, 1, &numbers)) {
        return false;
    }
    int64_t at = numbers ? given[0] : fallback;
    at = numbers && at < 0 && at >= -count ? at + count : at;
    *out = at;
    return (at >= 0 && at <= max) ||
           td__graph_fail(call, TD_RANGE, "place %lld in a sequence of %lld", (long long)at,
                          (long long)count);
}

/* --- making and taking apart -------------------------------------------------------------- */

static bool sequence_empty(td__graph_call *call) {
    return output_list(call, 0, list_of(call, 0));
}

static bool sequence_construct(td__graph_call *call) {
    td__graph_list *list = list_of(call, (int64_t)call->node->input_count);
    for (int64_t i = 0; list && i < list->count; i++) {
        if (!put_element(call, list, i, td__graph_input(call, (size_t)i))) {
            return false;
        }
    }
    return output_list(call, 0, list);
}

static bool sequence_insert(td__graph_call *call) {
    const td__graph_list *from = input_list(call, 0);
    int64_t at;
    if (!from || !position(call, 2, from->count, from->count, from->count, &at)) {
        return false;
    }
    td__graph_list *list = list_of(call, from->count + 1);
    if (list) {
        memcpy(list->items, from->items, (size_t)at * sizeof *list->items);
        memcpy(list->items + at + 1, from->items + at,
               (size_t)(from->count - at) * sizeof *list->items);
    }
    return list && put_element(call, list, at, td__graph_input(call, 1)) &&
           output_list(call, 0, list);
}

static bool sequence_erase(td__graph_call *call) {
    const td__graph_list *from = input_list(call, 0);
    int64_t at;
    if (!from || !position(call, 1, from->count, from->count - 1, from->count - 1, &at)) {
        return false;
    }
    td__graph_list *list = list_of(call, from->count - 1);
    if (list) {
        memcpy(list->items, from->items, (size_t)at * sizeof *list->items);
        memcpy(list->items + at, from->items + at + 1,
               (size_t)(from->count - 1 - at) * sizeof *list->items);
    }
    return output_list(call, 0, list);
}

static bool sequence_at(td__graph_call *call) {
    const td__graph_list *from = input_list(call, 0);
    int64_t at;
    return from && position(call, 1, from->count, from->count - 1, 0, &at) &&
           td__graph_output_value(call, 0, from->items[at]);
}

static bool sequence_length(td__graph_call *call) {
    const td__graph_list *from = input_list(call, 0);
    return from && output_integer(call, TD__GRAPH_INT64, from->count);
}

/* --- between sequences and tensors -------------------------------------------------------- */

/* How long the parts are: one number for all but the last, or one for each. */
static bool part_lengths(td__graph_call *call, int64_t whole, int64_t **lengths, int64_t *count) {
    const td_tensor *split = td__graph_plain(call, 1);
    if (split && split->dtype != TD_INT64) {
        return td__graph_fail(call, TD_DTYPE, "input 1 must be integers");
    }
    bool equal = !split || split->shape.rank == 0;
    int64_t each = split && equal ? *(const int64_t *)split->data : 1, sum = 0;
    if (each < 1) {
        return td__graph_fail(call, TD_RANGE, "into parts of %lld", (long long)each);
    }
    *count = equal ? whole / each + (whole % each > 0) : split->count;
    *lengths = td__scratch(call->tape, ((size_t)*count + 1) * sizeof **lengths);
    bool fits = true;
    for (int64_t i = 0; *lengths && i < *count && fits; i++) {
        int64_t length = equal ? each : ((const int64_t *)split->data)[i];
        length = equal && length > whole - sum ? whole - sum : length;
        fits = length >= 0 && length <= whole - sum;
        (*lengths)[i] = length;
        sum += fits ? length : 0;
    }
    return *lengths &&
           ((fits && sum == whole) ||
            td__graph_fail(call, TD_BAD_SHAPE, "its parts do not make up %lld", (long long)whole));
}

static bool split_to_sequence(td__graph_call *call) {
    td_tensor *x = td__graph_plain(call, 0);
    int64_t *lengths = NULL, count = 0, begin = 0;
    int32_t axis;
    if (!x || !td__graph_axis(call, td__graph_int(call->node, "axis", 0), x->shape.rank, &axis) ||
        !part_lengths(call, x->shape.dims[axis], &lengths, &count)) {
        return false;
    }
    bool squeezed = !td__graph_input(call, 1) && !td__graph_int(call->node, "keepdims", 1);
    td__graph_list *list = list_of(call, count);
    for (int64_t i = 0; list && i < count; i++) {
        td_tensor *part = td__graph_cut(call, x, axis, begin, 1, lengths[i]);
        td_shape shape = part ? part->shape : (td_shape){0};
        begin += lengths[i];
        if (part && squeezed) {
            memmove(shape.dims + axis, shape.dims + axis + 1,
                    (size_t)(shape.rank - axis - 1) * sizeof *shape.dims);
            shape.rank--;
            part = td__graph_view(call->tape, part, shape);
        }
        if (!part) {
            return false;
        }
        list->items[i] = (td__graph_value){.type = td__graph_input(call, 0)->type, .plain = part};
    }
    return output_list(call, 0, list);
}

/* Every item as a tensor of the first one's type; with a new axis of 1 where they are stacked. */
static bool list_tensors(td__graph_call *call, const td__graph_list *list, int32_t new_axis,
                         td_tensor **parts) {
    for (int64_t i = 0; i < list->count; i++) {
        td__graph_value item = list->items[i];
        td_tensor *part = td__graph_value_plain(call, &item);
        if (!part || item.type != list->items[0].type) {
            return td__graph_fail(call, TD_DTYPE, "item %lld is not as the first", (long long)i);
        }
        if (new_axis >= 0) {
            td_shape shape = part->shape;
            if (shape.rank == TD_MAX_RANK || new_axis > shape.rank) {
                return td__graph_fail(call, TD_BAD_SHAPE, "axis %d of item %lld", (int)new_axis,
                                      (long long)i);
            }
            memmove(shape.dims + new_axis + 1, shape.dims + new_axis,
                    (size_t)(shape.rank - new_axis) * sizeof *shape.dims);
            shape.dims[new_axis] = 1;
            shape.rank++;
            part = td__graph_view(call->tape, part, shape);
        }
        parts[i] = part;
        if (!part) {
            return false;
        }
    }
    return true;
}

static bool concat_from_sequence(td__graph_call *call) {
    const td__graph_list *list = input_list(call, 0);
    if (!list || list->count == 0) {
        return list ? td__graph_fail(call, TD_INVALID, "of an empty sequence") : false;
    }
    td__graph_value first = list->items[0];
    const td_tensor *one = td__graph_value_plain(call, &first);
    td_tensor **parts = td__scratch(call->tape, (size_t)list->count * sizeof(td_tensor *));
    bool stack = td__graph_int(call->node, "new_axis", 0) != 0;
    int32_t axis;
    if (!one || !parts) {
        return td__graph_fail(call, TD_DTYPE, "its items are no tensors");
    }
    if (!td__graph_axis(call, td__graph_int(call->node, "axis", 0), one->shape.rank + stack,
                        &axis) ||
        !list_tensors(call, list, stack ? axis : -1, parts)) {
        return false;
    }
    return td__graph_output(call, 0, first.type,
                            td__graph_join(call, (size_t)list->count, parts, axis));
}

/* --- SequenceMap -------------------------------------------------------------------------- */

enum { MAX_VALUES = 64 };

/* The graph for each item of the first sequence, with those of the others at the same place; inputs
 * that are no sequences are given every time. */
static bool sequence_map(td__graph_call *call) {
    size_t inputs = td__graph_input_count(call), outputs = call->node->output_count;
    const td__graph_list *first = input_list(call, 0);
    const td__graph *body = td__graph_inner(call, "body", inputs, outputs);
    td__graph_list *made[MAX_VALUES];
    if (!first || !body) {
        return false;
    }
    if (inputs > MAX_VALUES || body->output_count > MAX_VALUES) {
        return td__graph_fail(call, TD_UNSUPPORTED, "%zu inputs", inputs);
    }
    for (size_t k = 0; k < outputs; k++) {
        if (!(made[k] = list_of(call, first->count))) {
            return false;
        }
    }
    for (int64_t i = 0; i < first->count; i++) {
        td__graph_value values[MAX_VALUES], results[MAX_VALUES];
        for (size_t k = 0; k < inputs; k++) {
            const td__graph_value *value = td__graph_input(call, k);
            if (!value || (value->list && value->list->count != first->count)) {
                return td__graph_fail(call, TD_BAD_SHAPE, "input %zu is not as long as the first",
                                      k);
            }
            values[k] = value->list ? value->list->items[i] : *value;
        }
        if (!td__graph_run_inner(call, "body", values, results)) {
            return false;
        }
        for (size_t k = 0; k < outputs; k++) {
            if (!put_element(call, made[k], i, &results[k])) {
                return false;
            }
        }
    }
    bool good = true;
    for (size_t k = 0; good && k < outputs; k++) {
        good = output_list(call, k, made[k]);
    }
    return good;
}

/* --- values that may not be there --------------------------------------------------------- */

static bool optional(td__graph_call *call) {
    return td__graph_input(call, 0)
               ? td__graph_pass(call, 0, 0)
               : td__graph_output_value(call, 0, (td__graph_value){.none = true});
}

static bool optional_has_element(td__graph_call *call) {
    const td__graph_value *value = td__graph_input(call, 0);
    return output_integer(call, TD__GRAPH_BOOL, value && !value->none);
}

static bool optional_get_element(td__graph_call *call) {
    return td__graph_input(call, 0)->none ? td__graph_fail(call, TD_STATE, "there is none")
                                          : td__graph_pass(call, 0, 0);
}

const td__graph_operator td__graph_sequences[] = {
    {"ConcatFromSequence", concat_from_sequence, 1, 1, 1, 11, 0, NULL},
    {"Optional", optional, 0, 1, 1, 15, 0, NULL},
    {"OptionalGetElement", optional_get_element, 1, 1, 1, 15, 0, NULL},
    {"OptionalHasElement", optional_has_element, 0, 1, 1, 15, 0, NULL},
    {"SequenceAt", sequence_at, 2, 2, 1, 11, 0, NULL},
    {"SequenceConstruct", sequence_construct, 1, 255, 1, 11, 0, NULL},
    {"SequenceEmpty", sequence_empty, 0, 0, 1, 11, 0, NULL},
    {"SequenceErase", sequence_erase, 1, 2, 1, 11, 0, NULL},
    {"SequenceInsert", sequence_insert, 2, 3, 1, 11, 0, NULL},
    {"SequenceLength", sequence_length, 1, 1, 1, 11, 0, NULL},
    {"SequenceMap", sequence_map, 1, 255, 255, 17, 0, NULL},
    {"SplitToSequence", split_to_sequence, 1, 2, 1, 11, 0, NULL},
    {0},
};
