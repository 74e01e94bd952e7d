/* Control flow: graphs inside a node, run as often as the data says. */
#include "graph/host.h"
#include "graph/ops/common.h"

#include <string.h>

enum { MAX_VALUES = 256 }; /* that go into or come out of a graph */

/* The first element of input i; otherwise, when it was left out. */
static bool one_integer(td__graph_call *call, size_t i, int64_t fallback, int64_t *out) {
    td_tensor *x = td__graph_plain(call, i);
    *out = x && x->count == 1 ? td__graph_integer(x, 0) : fallback;
    return !td__graph_input(call, i) ||
           (x && (x->count == 1 ||
                  td__graph_fail(call, TD_BAD_SHAPE, "input %zu must be one number", i)));
}

static bool if_else(td__graph_call *call) {
    int64_t condition;
    td__graph_value outputs[MAX_VALUES];
    if (!one_integer(call, 0, 0, &condition)) {
        return false;
    }
    const char *branch = condition ? "then_branch" : "else_branch";
    size_t count = call->node->output_count;
    const td__graph *graph = td__graph_inner(call, branch, 0, count);
    if (!graph || graph->output_count > MAX_VALUES) {
        return graph ? td__graph_fail(call, TD_UNSUPPORTED, "%zu outputs", graph->output_count)
                     : false;
    }
    bool good = td__graph_run_inner(call, branch, NULL, outputs);
    for (size_t i = 0; good && i < count; i++) {
        good = td__graph_output_value(call, i, outputs[i]);
    }
    return good;
}

/* --- what every round puts out ------------------------------------------------------------ */

/* Values that come one at a time and are put together along an axis in the end. */
typedef struct collected {
    td__graph_type type;
    td_tensor **items; /* in the tape's memory */
    int64_t count, room;
    td_shape each; /* what the graph says of one; of no rank when it says nothing */
} collected;

static collected collected_of(const td__graph *graph, size_t output) {
    const td__graph_info *info = &graph->values[graph->outputs[output]];
    collected made = {.type = td__graph_is_stored(info->type) ? info->type : TD__GRAPH_FLOAT};
    made.each = info->has_shape ? info->shape : (td_shape){0};
    return made;
}

static bool collect(td__graph_call *call, collected *to, td__graph_value *value) {
    td_tensor *item = td__graph_value_plain(call, value);
    if (!item) {
        return td__graph_fail(call, TD_DTYPE, "what a round puts out is no tensor");
    }
    if (to->count == to->room) {
        int64_t room = to->room ? 2 * to->room : 16;
        td_tensor **more = td__scratch(call->tape, (size_t)room * sizeof(td_tensor *));
        if (!more) {
            return false;
        }
        if (to->count) {
            memcpy(more, to->items, (size_t)to->count * sizeof(td_tensor *));
        }
        to->items = more;
        to->room = room;
    }
    if (to->count > 0 && value->type != to->type) {
        return td__graph_fail(call, TD_DTYPE, "its rounds put out values of different types");
    }
    to->type = value->type;
    to->items[to->count++] = item;
    return true;
}

/* One after another along a new axis; NULL on failure. */
static td_tensor *stacked(td__graph_call *call, collected *from, int64_t axis, bool backwards) {
    td_shape shape = from->count ? from->items[0]->shape : from->each;
    int32_t at;
    if (shape.rank == TD_MAX_RANK || !td__graph_axis(call, axis, shape.rank + 1, &at)) {
        (void)td__graph_fail(call, TD_RANGE, "stacked along axis %lld", (long long)axis);
        return NULL;
    }
    memmove(shape.dims + at + 1, shape.dims + at, (size_t)(shape.rank - at) * sizeof *shape.dims);
    shape.dims[at] = from->count > 0;
    shape.rank++;
    if (from->count == 0) {
        for (int32_t i = 0; i < shape.rank; i++) {
            shape.dims[i] = shape.dims[i] < 0 ? 0 : shape.dims[i];
        }
        return td__graph_new(call, from->type, shape);
    }
    for (int64_t i = 0; i < from->count; i++) {
        from->items[i] = td__graph_view(call->tape, from->items[i], shape);
        if (!from->items[i]) {
            return NULL;
        }
    }
    for (int64_t i = 0, j = from->count - 1; backwards && i < j; i++, j--) {
        td_tensor *other = from->items[i];
        from->items[i] = from->items[j];
        from->items[j] = other;
    }
    return td__graph_join(call, (size_t)from->count, from->items, at);
}

static bool put_together(td__graph_call *call, collected *from, size_t output, int64_t axis,
                         bool backwards) {
    td_tensor *y = stacked(call, from, axis, backwards);
    return td__graph_output(call, output, from->type, y);
}

/* --- Loop --------------------------------------------------------------------------------- */

typedef struct rounds {
    td__graph_value values[MAX_VALUES], outputs[MAX_VALUES];
    collected kept[MAX_VALUES];
} rounds;

static td_tensor *integer(td__graph_call *call, int64_t value) {
    td_tensor *y = td__output(call->tape, TD_INT64, &(td_shape){0});
    if (y) {
        *(int64_t *)y->data = value;
    }
    return y;
}

/* The graph takes (round, condition, carried…) and gives (condition, carried…, collected…). */
static bool loop_rounds(td__graph_call *call, rounds *r, size_t carried, size_t kept) {
    int64_t max, going;
    if (!one_integer(call, 0, INT64_MAX, &max) || !one_integer(call, 1, 1, &going)) {
        return false;
    }
    for (int64_t i = 0; going && i < max; i++) {
        r->values[0] = (td__graph_value){.type = TD__GRAPH_INT64, .plain = integer(call, i)};
        r->values[1] = (td__graph_value){.type = TD__GRAPH_BOOL, .plain = integer(call, going)};
        if (!r->values[0].plain || !r->values[1].plain ||
            !td__graph_run_inner(call, "body", r->values, r->outputs)) {
            return false;
        }
        const td_tensor *more = td__graph_value_plain(call, &r->outputs[0]);
        if (!more || more->count != 1) {
            return td__graph_fail(call, TD_BAD_SHAPE, "its condition is not one value");
        }
        going = td__graph_integer(more, 0) != 0;
        memcpy(r->values + 2, r->outputs + 1, carried * sizeof *r->values);
        for (size_t k = 0; k < kept; k++) {
            if (!collect(call, &r->kept[k], &r->outputs[1 + carried + k])) {
                return false;
            }
        }
    }
    return true;
}

static bool loop(td__graph_call *call) {
    if (td__graph_input_count(call) < 2) {
        return td__graph_fail(call, TD_FORMAT, "it has no condition");
    }
    size_t carried = td__graph_input_count(call) - 2, outputs = call->node->output_count;
    const td__graph *body = td__graph_inner(call, "body", carried + 2, 1 + carried);
    rounds *r = td__scratch(call->tape, sizeof *r);
    if (!body || !r) {
        return false;
    }
    size_t kept = body->output_count - 1 - carried;
    if (body->output_count > MAX_VALUES || carried + 2 > MAX_VALUES || outputs > carried + kept) {
        return td__graph_fail(call, TD_UNSUPPORTED, "%zu outputs", body->output_count);
    }
    for (size_t i = 0; i < carried; i++) {
        const td__graph_value *given = td__graph_input(call, 2 + i);
        if (!given) {
            return td__graph_fail(call, TD_INVALID, "input %zu is left out", 2 + i);
        }
        r->values[2 + i] = *given;
    }
    for (size_t k = 0; k < kept; k++) {
        r->kept[k] = collected_of(body, 1 + carried + k);
    }
    bool good = loop_rounds(call, r, carried, kept);
    for (size_t i = 0; good && i < outputs; i++) {
        good = i < carried ? td__graph_output_value(call, i, r->values[2 + i])
                           : put_together(call, &r->kept[i - carried], i, 0, false);
    }
    return good;
}

/* --- Scan --------------------------------------------------------------------------------- */

/* What is gone over, and along which axis. */
typedef struct scanned {
    td_tensor *x;
    td__graph_type type;
    int32_t axis;
    bool backwards;
} scanned;

typedef struct scan {
    size_t first; /* input that is a state */
    rounds r;
    scanned inputs[MAX_VALUES];
    size_t states, gone_over, kept;
    int64_t length;
} scan;

/* What is at a place along an axis, without the axis. */
static td_tensor *at_index(td__graph_call *call, td_tensor *x, int32_t axis, int64_t at) {
    td_tensor *part = td__graph_cut(call, x, axis, at, 1, 1);
    if (!part) {
        return NULL;
    }
    td_shape shape = part->shape;
    memmove(shape.dims + axis, shape.dims + axis + 1,
            (size_t)(shape.rank - axis - 1) * sizeof *shape.dims);
    shape.rank--;
    return td__graph_view(call->tape, part, shape);
}

static bool scan_step(td__graph_call *call, scan *s, int64_t at) {
    for (size_t k = 0; k < s->gone_over; k++) {
        const scanned *in = &s->inputs[k];
        int64_t begin = in->backwards ? s->length - 1 - at : at;
        td_tensor *part = at_index(call, in->x, in->axis, begin);
        if (!part) {
            return false;
        }
        s->r.values[s->states + k] = (td__graph_value){.type = in->type, .plain = part};
    }
    if (!td__graph_run_inner(call, "body", s->r.values, s->r.outputs)) {
        return false;
    }
    memcpy(s->r.values, s->r.outputs, s->states * sizeof *s->r.values);
    bool good = true;
    for (size_t k = 0; good && k < s->kept; k++) {
        good = collect(call, &s->r.kept[k], &s->r.outputs[s->states + k]);
    }
    return good;
}

/* Axes, lengths and first values; of opset 8, of one example. */
static bool scan_begin(td__graph_call *call, scan *s, const td__graph *body, int64_t example) {
    bool batch = call->opset < 9;
    s->length = -1;
    for (size_t i = 0; i < s->states + s->gone_over; i++) {
        const td__graph_value *given = td__graph_input(call, s->first + i);
        td__graph_value part;
        if (!given) {
            return td__graph_fail(call, TD_INVALID, "input %zu is left out", s->first + i);
        }
        if (batch) {
            td_tensor *whole = td__graph_plain(call, s->first + i);
            if (!whole || whole->shape.rank < 1 || whole->shape.dims[0] <= example) {
                return td__graph_fail(call, TD_BAD_SHAPE, "input %zu has no batch", s->first + i);
            }
            part =
                (td__graph_value){.type = given->type, .plain = at_index(call, whole, 0, example)};
            given = &part;
        }
        if (i < s->states) {
            s->r.values[i] = *given;
            continue;
        }
        size_t k = i - s->states;
        scanned *in = &s->inputs[k];
        *in = (scanned){.x = batch ? part.plain : td__graph_plain(call, i), .type = given->type};
        in->backwards =
            td__graph_listed(call->node, batch ? "directions" : "scan_input_directions", k, 0) != 0;
        if (!in->x || !td__graph_axis(call, td__graph_listed(call->node, "scan_input_axes", k, 0),
                                      in->x->shape.rank, &in->axis)) {
            return false;
        }
        int64_t length = in->x->shape.dims[in->axis];
        if (s->length >= 0 && length != s->length) {
            return td__graph_fail(call, TD_BAD_SHAPE, "its inputs have %lld and %lld steps",
                                  (long long)s->length, (long long)length);
        }
        s->length = length;
    }
    for (size_t k = 0; k < s->kept; k++) {
        s->r.kept[k] = collected_of(body, s->states + k);
    }
    return true;
}

/* The graph takes (state…, element…) and gives (state…, collected…). */
static scan *scan_of(td__graph_call *call, size_t first, const td__graph **body) {
    size_t given = td__graph_input_count(call), outputs = call->node->output_count;
    size_t inputs = given > first ? given - first : 0;
    int64_t over = td__graph_int(call->node, "num_scan_inputs", 0);
    if (over < 1 || (uint64_t)over > inputs || inputs > MAX_VALUES || outputs > MAX_VALUES) {
        (void)td__graph_fail(call, TD_INVALID, "over %lld of %zu inputs", (long long)over, inputs);
        return NULL;
    }
    size_t states = inputs - (size_t)over;
    *body = td__graph_inner(call, "body", inputs, outputs);
    scan *s = *body ? td__scratch(call->tape, sizeof *s) : NULL;
    if (s && (states > (*body)->output_count || (*body)->output_count > MAX_VALUES)) {
        (void)td__graph_fail(call, TD_FORMAT, "its graph does not give its states");
        return NULL;
    }
    if (s) {
        s->first = first;
        s->states = states;
        s->gone_over = (size_t)over;
        s->kept = (*body)->output_count - states;
    }
    return s;
}

static bool scan_steps(td__graph_call *call, scan *s) {
    bool good = true;
    for (int64_t i = 0; good && i < s->length; i++) {
        good = scan_step(call, s, i);
    }
    return good;
}

static bool scan_over(td__graph_call *call) {
    const td__graph *body;
    scan *s = scan_of(call, 0, &body);
    bool good = s && scan_begin(call, s, body, 0) && scan_steps(call, s);
    for (size_t i = 0; good && i < call->node->output_count; i++) {
        size_t k = i - s->states;
        good =
            i < s->states
                ? td__graph_output_value(call, i, s->r.values[i])
                : put_together(call, &s->r.kept[k], i,
                               td__graph_listed(call->node, "scan_output_axes", k, 0),
                               td__graph_listed(call->node, "scan_output_directions", k, 0) != 0);
    }
    return good;
}

/* Opset 8: each example of a batch by itself, all of the same length. */
static bool scan_batch(td__graph_call *call) {
    const td__graph *body;
    scan *s = scan_of(call, 1, &body);
    if (!s || td__graph_input(call, 0)) {
        return s ? td__graph_fail(call, TD_UNSUPPORTED, "over sequences of different lengths")
                 : false;
    }
    size_t outputs = call->node->output_count;
    td_shape shape = td__graph_shape(call, td__graph_input_count(call) - 1);
    collected *all = td__scratch(call->tape, (outputs + 1) * sizeof *all);
    bool good = all && shape.rank > 0;
    for (size_t i = 0; good && i < outputs; i++) {
        all[i] = (collected){.type = TD__GRAPH_FLOAT};
    }
    for (int64_t example = 0; good && example < shape.dims[0]; example++) {
        good = scan_begin(call, s, body, example) && scan_steps(call, s);
        for (size_t i = 0; good && i < outputs; i++) {
            td__graph_value value = s->r.values[i];
            if (i >= s->states) {
                collected *kept = &s->r.kept[i - s->states];
                value =
                    (td__graph_value){.type = kept->type, .plain = stacked(call, kept, 0, false)};
            }
            good = collect(call, &all[i], &value);
        }
    }
    for (size_t i = 0; good && i < outputs; i++) {
        good = put_together(call, &all[i], i, 0, false);
    }
    return good;
}

const td__graph_operator td__graph_control[] = {
    {"If", if_else, 1, 1, 255, 0, 0, NULL},
    {"Loop", loop, 0, 255, 255, 0, 0, NULL},
    {"Scan", scan_batch, 0, 255, 255, 0, 8, NULL},
    {"Scan", scan_over, 1, 255, 255, 9, 0, NULL},
    {0},
};
