/* Numbers of a SavedModel that are known before it runs: sizes that the file declares, and what its functions
 * compute of them. Loops end by them. */
#include "tensorflow/saved.h"

#include <string.h>

static bool has_numbers(const td__saved_value *value) {
    return value->known || value->partly;
}

static void settle(td__saved_value *out, size_t count) {
    out->count = count;
    out->known = true;
    for (size_t i = 0; i < count; i++) {
        out->known = out->known && !out->unsure[i];
    }
    out->partly = !out->known;
}

static void take(td__saved_value *out, size_t at, const td__saved_value *from, size_t i) {
    out->numbers[at] = from->numbers[i];
    out->unsure[at] = !from->known && from->unsure[i];
}

static void copy_numbers(td__saved_call *call) {
    const td__saved_value *x = &call->in[0];
    for (size_t i = 0; i < x->count; i++) {
        take(call->out, i, x, i);
    }
    settle(call->out, x->count);
}

static void follow_shape(td__saved_call *call) {
    const td__saved_value *x = &call->in[0];
    if (!x->ranked) {
        return;
    }
    for (int32_t i = 0; i < x->shape.rank; i++) {
        call->out->numbers[i] = x->shape.dims[i];
        call->out->unsure[i] = x->shape.dims[i] < 0;
    }
    settle(call->out, (size_t)x->shape.rank);
}

/* Sums and comparisons of whole numbers that are small. */
static bool compute(const char *op, int64_t a, int64_t b, int64_t *y) {
    static const char *const names[] = {"AddV2",      "Add",          "Sub",      "Mul",
                                        "Maximum",    "Minimum",      "Less",     "LessEqual",
                                        "Greater",    "GreaterEqual", "Equal",    "NotEqual",
                                        "LogicalAnd", "LogicalOr",    "FloorDiv", "FloorMod"};
    const int64_t most = (int64_t)1 << 31;
    if (a < -most || a > most || b < -most || b > most) {
        return false;
    }
    bool divides = b > 0 && a >= 0;
    const int64_t results[] = {
        a + b,  a + b,  a - b,  a * b,  a > b ? a : b, a < b ? a : b,       a<b, a <= b, a> b,
        a >= b, a == b, a != b, a && b, a || b,        divides ? a / b : 0, divides ? a % b : 0};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!strcmp(op, names[i])) {
            *y = results[i];
            return i < 14 || divides;
        }
    }
    return false;
}

static void follow_pair(td__saved_call *call) {
    const td__saved_value *a = &call->in[0], *b = &call->in[1];
    if (!has_numbers(a) || !has_numbers(b) ||
        (a->count != b->count && a->count != 1 && b->count != 1)) {
        return;
    }
    size_t count = a->count == 1 ? b->count : a->count;
    for (size_t i = 0; i < count; i++) {
        size_t p = a->count == 1 ? 0 : i, q = b->count == 1 ? 0 : i;
        call->out->unsure[i] = (!a->known && a->unsure[p]) || (!b->known && b->unsure[q]);
        if (!call->out->unsure[i] &&
            !compute(call->node->op, a->numbers[p], b->numbers[q], &call->out->numbers[i])) {
            return;
        }
    }
    settle(call->out, count);
}

/* Of a vector: a part, or one. */
static void follow_slice(td__saved_call *call) {
    const td__saved_value *x = &call->in[0];
    if (call->count != 4 || !has_numbers(x) || !x->ranked || x->shape.rank != 1) {
        return;
    }
    for (size_t i = 1; i < 4; i++) {
        if (!call->in[i].known || call->in[i].count != 1) {
            return;
        }
    }
    int64_t n = (int64_t)x->count, first = call->in[1].numbers[0], end = call->in[2].numbers[0];
    int64_t step = call->in[3].numbers[0];
    bool one = td__saved_int(call->node, "shrink_axis_mask", 0) == 1;
    if (td__saved_int(call->node, "new_axis_mask", 0) ||
        td__saved_int(call->node, "ellipsis_mask", 0) || step < 1) {
        return;
    }
    first = td__saved_int(call->node, "begin_mask", 0) ? 0 : first < 0 ? first + n : first;
    end = one ? first + 1 : td__saved_int(call->node, "end_mask", 0) ? n : end < 0 ? end + n : end;
    end = end > n ? n : end;
    size_t count = 0;
    if (first < 0) {
        return;
    }
    for (int64_t i = first; i < end; i += step) {
        take(call->out, count++, x, (size_t)i);
    }
    settle(call->out, count);
}

/* Scalars or vectors behind each other. */
static void follow_parts(td__saved_call *call) {
    bool joins = !strcmp(call->node->op, "ConcatV2");
    size_t parts = joins ? call->count - 1 : call->count, count = 0;
    for (size_t i = 0; i < parts; i++) {
        const td__saved_value *part = &call->in[i];
        if (!has_numbers(part) || count + part->count > TD__SAVED_KNOWN ||
            (!joins && part->count != 1)) {
            return;
        }
        for (size_t k = 0; k < part->count; k++) {
            take(call->out, count++, part, k);
        }
    }
    settle(call->out, count);
}

static void follow_reduction(td__saved_call *call) {
    const td__saved_value *x = &call->in[0];
    const char *op = call->node->op;
    if (call->count != 2 || !x->known || !call->in[1].known) {
        return;
    }
    if (call->in[1].count == 0) { /* over no axis */
        copy_numbers(call);
        return;
    }
    int64_t y = x->count ? x->numbers[0] : 1;
    if (!x->ranked || x->shape.rank > 1 || !x->count) {
        return;
    }
    for (size_t i = 1; i < x->count; i++) {
        int64_t n = x->numbers[i];
        bool good = !strcmp(op, "Max")    ? compute("Maximum", y, n, &y)
                    : !strcmp(op, "Min")  ? compute("Minimum", y, n, &y)
                    : !strcmp(op, "Prod") ? compute("Mul", y, n, &y)
                                          : compute("AddV2", y, n, &y);
        if (!good) {
            return;
        }
    }
    call->out->numbers[0] = y;
    settle(call->out, 1);
}

static void follow_range(td__saved_call *call) {
    for (size_t i = 0; i < 3; i++) {
        if (call->count != 3 || !call->in[i].known || call->in[i].count != 1) {
            return;
        }
    }
    int64_t at = call->in[0].numbers[0], end = call->in[1].numbers[0],
            step = call->in[2].numbers[0];
    size_t count = 0;
    for (; step > 0 && at < end && count < TD__SAVED_KNOWN; at += step) {
        call->out->numbers[count++] = at;
    }
    if (step > 0 && at >= end) {
        settle(call->out, count);
    }
}

static void follow_cast(td__saved_call *call) {
    int64_t type = td__saved_int(call->node, "DstT", 1);
    if (has_numbers(&call->in[0]) && (type == 3 || type == 9)) {
        copy_numbers(call);
    }
}

static void follow_gather(td__saved_call *call) {
    const td__saved_value *x = &call->in[0], *at = &call->in[1];
    if (!has_numbers(x) || !at->known || !x->ranked || x->shape.rank != 1) {
        return;
    }
    for (size_t i = 0; i < at->count; i++) {
        int64_t n = at->numbers[i] < 0 ? at->numbers[i] + (int64_t)x->count : at->numbers[i];
        if (n < 0 || n >= (int64_t)x->count) {
            return;
        }
        take(call->out, i, x, (size_t)n);
    }
    settle(call->out, at->count);
}

void td__saved_follow(td__saved_call *call) {
    static const struct {
        const char *op;
        size_t inputs;
        void (*follow)(td__saved_call *call);
    } rules[] = {{"Shape", 1, follow_shape},     {"StridedSlice", 4, follow_slice},
                 {"Pack", 1, follow_parts},      {"ConcatV2", 2, follow_parts},
                 {"Cast", 1, follow_cast},       {"Range", 3, follow_range},
                 {"GatherV2", 2, follow_gather}, {"Max", 2, follow_reduction},
                 {"Min", 2, follow_reduction},   {"Prod", 2, follow_reduction},
                 {"Sum", 2, follow_reduction}};
    static const char *const copies[] = {"Identity",     "Reshape",     "Squeeze", "ExpandDims",
                                         "StopGradient", "EnsureShape", "Snapshot"};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (!strcmp(call->node->op, rules[i].op) && call->count >= rules[i].inputs) {
            rules[i].follow(call);
            return;
        }
    }
    for (size_t i = 0; i < sizeof copies / sizeof *copies; i++) {
        bool same = !strcmp(call->node->op, copies[i]) && call->count;
        if (same && has_numbers(&call->in[0])) {
            copy_numbers(call);
        }
        if (same) {
            bool keeps = i == 0 || i > 3;
            call->out->list = keeps ? call->in[0].list : -1;
            call->out->variable = keeps ? call->in[0].variable : -1;
            if (keeps && !call->out->ranked) {
                call->out->ranked = call->in[0].ranked;
                call->out->shape = call->in[0].shape;
            }
            return;
        }
    }
    int64_t unused;
    if (call->count == 2 && compute(call->node->op, 1, 1, &unused)) {
        follow_pair(call);
    }
}
