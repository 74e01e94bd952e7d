/* TensorFlow Lite's operators that move elements, as those of ONNX. */
#include "tflite/ops.h"

enum { MAX_PARTS = 1024 };

const char *td__lite_reshape(td__lite_call *call) {
    int64_t shape[TD_MAX_RANK];
    size_t count = 0;
    const td__lite_tensor *given = td__lite_input(call, 1);
    if (given && !given->data) {
        return TD__OPERATOR(call->to, "Reshape", td__lite_value(call, 0), td__lite_value(call, 1));
    }
    if (given && !td__lite_integers(call, 1, shape, TD_MAX_RANK, &count)) {
        return NULL;
    }
    td__flat *flat = &call->lite->flat;
    size_t declared = given ? 0 : td__flat_vector(flat, call->options, 0, 4, &count);
    for (size_t i = 0; declared && i < count && i < TD_MAX_RANK; i++) {
        shape[i] = (int32_t)td__flat_u32(flat, declared + 4 * i);
    }
    return count <= TD_MAX_RANK
               ? td__operator_reshape(call->to, td__lite_value(call, 0), count, shape)
               : td__operator_refuse(call->to, "%zu axes", count);
}

const char *td__lite_transpose(td__lite_call *call) {
    int64_t order[TD_MAX_RANK];
    size_t count;
    return td__lite_integers(call, 1, order, TD_MAX_RANK, &count)
               ? td__operator_transpose(call->to, td__lite_value(call, 0), count, order)
               : NULL;
}

const char *td__lite_squeeze(td__lite_call *call) {
    td__flat *flat = &call->lite->flat;
    const td__lite_tensor *x = td__lite_input(call, 0);
    int64_t axes[TD_MAX_RANK];
    size_t count, at = td__flat_vector(flat, call->options, 0, 4, &count), used = 0;
    for (size_t i = 0; i < count && i < TD_MAX_RANK; i++) {
        axes[used++] = (int32_t)td__flat_u32(flat, at + 4 * i);
    }
    for (int32_t i = 0; !count && x && i < x->shape.rank; i++) {
        if (x->shape.dims[i] == 1) {
            axes[used++] = i;
        }
    }
    return TD__OPERATOR(call->to, "Squeeze", td__lite_value(call, 0),
                        td__operator_integers(call->to, used, axes));
}

const char *td__lite_expand_dims(td__lite_call *call) {
    int64_t axis;
    size_t count;
    return td__lite_integers(call, 1, &axis, 1, &count)
               ? TD__OPERATOR(call->to, "Unsqueeze", td__lite_value(call, 0),
                              td__operator_integers(call->to, count, &axis))
               : NULL;
}

const char *td__lite_concatenation(td__lite_call *call) {
    const char *parts[MAX_PARTS];
    if (call->input_count > MAX_PARTS) {
        return td__operator_refuse(call->to, "%zu inputs", call->input_count);
    }
    for (size_t i = 0; i < call->input_count; i++) {
        parts[i] = td__lite_value(call, i);
    }
    const char *y = td__operator(call->to, "Concat", call->input_count, parts, 1,
                                 &TD__NAMED_INT("axis", OPTION(call, 0, 0)));
    return td__lite_fused(call, y, 1);
}

const char *td__lite_pack(td__lite_call *call) {
    const char *parts[MAX_PARTS];
    int64_t axis = OPTION(call, 1, 0);
    if (call->input_count > MAX_PARTS) {
        return td__operator_refuse(call->to, "%zu inputs", call->input_count);
    }
    for (size_t i = 0; i < call->input_count; i++) {
        parts[i] = TD__OPERATOR(call->to, "Unsqueeze", td__lite_value(call, i),
                                td__operator_integers(call->to, 1, &axis));
    }
    return td__operator(call->to, "Concat", call->input_count, parts, 1,
                        &TD__NAMED_INT("axis", axis));
}

/* Output i is part i; the first is returned. */
static const char *give_out(td__lite_call *call, const char *const *parts) {
    for (size_t i = 1; i < call->output_count; i++) {
        td__lite_tensor *y = td__lite_output(call, i);
        if (y) {
            y->value = parts[i];
        }
    }
    return parts[0];
}

static const char *split_along(td__lite_call *call, size_t input, int64_t axis, const char *sizes,
                               bool squeezed) {
    const char *parts[MAX_PARTS], *inputs[2] = {td__lite_value(call, input), sizes};
    if (call->output_count > MAX_PARTS || !call->output_count) {
        return td__operator_refuse(call->to, "%zu outputs", call->output_count);
    }
    td__operator_outputs(call->to, "Split", sizes ? 2 : 1, inputs, 1, &TD__NAMED_INT("axis", axis),
                         call->output_count, parts);
    for (size_t i = 0; squeezed && i < call->output_count; i++) {
        parts[i] =
            TD__OPERATOR(call->to, "Squeeze", parts[i], td__operator_integers(call->to, 1, &axis));
    }
    return give_out(call, parts);
}

const char *td__lite_split(td__lite_call *call) {
    int64_t axis;
    size_t count;
    return td__lite_integers(call, 0, &axis, 1, &count) ? split_along(call, 1, axis, NULL, false)
                                                        : NULL;
}

const char *td__lite_split_v(td__lite_call *call) {
    int64_t axis, sizes[MAX_PARTS];
    size_t count, parts;
    if (!td__lite_integers(call, 2, &axis, 1, &count) ||
        !td__lite_integers(call, 1, sizes, MAX_PARTS, &parts)) {
        return NULL;
    }
    return split_along(call, 0, axis, td__operator_integers(call->to, parts, sizes), false);
}

const char *td__lite_unpack(td__lite_call *call) {
    return split_along(call, 0, OPTION(call, 1, 0), NULL, true);
}

/* begin, end and steps of axes 0, 1, … of x */
static const char *slice_of(td__lite_call *call, const char *x, size_t count, const int64_t *begin,
                            const int64_t *end, const int64_t *steps) {
    int64_t axes[TD_MAX_RANK];
    for (size_t i = 0; i < count; i++) {
        axes[i] = (int64_t)i;
    }
    td__operators *to = call->to;
    return TD__OPERATOR(to, "Slice", x, td__operator_integers(to, count, begin),
                        td__operator_integers(to, count, end),
                        td__operator_integers(to, count, axes),
                        td__operator_integers(to, count, steps));
}

const char *td__lite_strided_slice(td__lite_call *call) {
    int64_t begin[TD_MAX_RANK], end[TD_MAX_RANK], steps[TD_MAX_RANK], gone[TD_MAX_RANK];
    size_t count, ends, others, shrunk = 0;
    if (!td__lite_integers(call, 1, begin, TD_MAX_RANK, &count) ||
        !td__lite_integers(call, 2, end, TD_MAX_RANK, &ends) ||
        !td__lite_integers(call, 3, steps, TD_MAX_RANK, &others)) {
        return NULL;
    }
    if (ends != count || others != count || OPTION(call, 2, 0) || OPTION(call, 3, 0) ||
        OPTION_BYTE(call, 5)) {
        return td__operator_refuse(call->to, "an ellipsis, new axes or offsets");
    }
    for (size_t i = 0; i < count; i++) {
        bool shrinks = OPTION(call, 4, 0) >> i & 1, back = steps[i] < 0;
        if (shrinks) {
            steps[i] = 1;
            end[i] = begin[i] == -1 ? INT64_MAX : begin[i] + 1;
            gone[shrunk++] = (int64_t)i;
            continue;
        }
        begin[i] = OPTION(call, 0, 0) >> i & 1 ? (back ? INT64_MAX : 0) : begin[i];
        end[i] = OPTION(call, 1, 0) >> i & 1 ? (back ? INT64_MIN : INT64_MAX) : end[i];
    }
    const char *y = slice_of(call, td__lite_value(call, 0), count, begin, end, steps);
    return shrunk
               ? TD__OPERATOR(call->to, "Squeeze", y, td__operator_integers(call->to, shrunk, gone))
               : y;
}

const char *td__lite_slice(td__lite_call *call) {
    int64_t begin[TD_MAX_RANK], end[TD_MAX_RANK], steps[TD_MAX_RANK];
    size_t count, sizes;
    if (!td__lite_integers(call, 1, begin, TD_MAX_RANK, &count) ||
        !td__lite_integers(call, 2, end, TD_MAX_RANK, &sizes) || sizes != count) {
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        bool rest = end[i] < 0 || begin[i] > INT32_MAX || end[i] > INT32_MAX;
        end[i] = rest ? INT64_MAX : begin[i] + end[i];
        steps[i] = 1;
    }
    return slice_of(call, td__lite_value(call, 0), count, begin, end, steps);
}

/* Paddings are (axis, before and after). */
static const char *pad_with(td__lite_call *call, const char *mode, const char *value) {
    int64_t given[2 * TD_MAX_RANK], pads[2 * TD_MAX_RANK];
    size_t count;
    if (!td__lite_integers(call, 1, given, 2 * TD_MAX_RANK, &count)) {
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        pads[i % 2 * (count / 2) + i / 2] = given[i];
    }
    const char *inputs[3] = {td__lite_value(call, 0), td__operator_integers(call->to, count, pads),
                             value};
    return td__operator(call->to, "Pad", value ? 3 : 2, inputs, 1, &TD__NAMED_TEXT("mode", mode));
}

const char *td__lite_pad(td__lite_call *call) {
    return pad_with(call, "constant", td__lite_input(call, 2) ? td__lite_value(call, 2) : NULL);
}

const char *td__lite_mirror_pad(td__lite_call *call) {
    return OPTION_BYTE(call, 0) ? td__operator_refuse(call->to, "symmetric padding")
                                : pad_with(call, "reflect", NULL);
}

/* Axes 1 to count of the input are cut into blocks; before and after are what is added to an axis, or
 * taken away. */
typedef struct blocks {
    size_t count, rank;
    const int64_t *sizes; /* of the input's axes */
    int64_t block[TD_MAX_RANK], before[TD_MAX_RANK], after[TD_MAX_RANK];
} blocks;

static bool read_blocks(td__lite_call *call, blocks *b) {
    const td__lite_tensor *x = td__lite_input(call, 0);
    int64_t around[2 * TD_MAX_RANK];
    size_t pairs;
    if (!x || !td__lite_integers(call, 1, b->block, TD_MAX_RANK, &b->count) ||
        !td__lite_integers(call, 2, around, 2 * TD_MAX_RANK, &pairs)) {
        return false;
    }
    b->rank = (size_t)x->shape.rank;
    b->sizes = x->shape.dims;
    bool good = pairs == 2 * b->count && b->rank > b->count && b->rank + b->count <= TD_MAX_RANK;
    for (size_t i = 1; good && i < b->rank; i++) {
        good = b->sizes[i] >= 0;
    }
    for (size_t i = 0; good && i < b->count; i++) {
        b->before[i] = around[2 * i];
        b->after[i] = around[2 * i + 1];
        good = b->block[i] >= 1 && b->block[i] <= INT32_MAX && b->before[i] >= 0 &&
               b->before[i] <= INT32_MAX && b->after[i] >= 0 && b->after[i] <= INT32_MAX;
    }
    if (!good) {
        (void)td__operator_refuse(call->to, "images of any size, or blocks that do not fit them");
    }
    return good;
}

/* Each block's elements go to as many examples: those of all blocks' first elements come first. */
const char *td__lite_space_to_batch(td__lite_call *call) {
    blocks b;
    if (!read_blocks(call, &b)) {
        return NULL;
    }
    td__operators *to = call->to;
    int64_t pads[2 * TD_MAX_RANK] = {0}, apart[TD_MAX_RANK] = {-1}, order[TD_MAX_RANK];
    int64_t joined[TD_MAX_RANK] = {-1};
    size_t used = 1;
    order[b.count] = 0;
    for (size_t i = 1; i < b.rank; i++) {
        bool cut = i <= b.count;
        int64_t block = cut ? b.block[i - 1] : 1;
        pads[i] = cut ? b.before[i - 1] : 0;
        pads[b.rank + i] = cut ? b.after[i - 1] : 0;
        int64_t size = b.sizes[i] + pads[i] + pads[b.rank + i];
        if (size % block) {
            return td__operator_refuse(to, "an axis of %lld in blocks of %lld", (long long)size,
                                       (long long)block);
        }
        joined[i] = size / block;
        order[b.count + i] = (int64_t)used;
        apart[used++] = joined[i];
        if (cut) {
            order[i - 1] = (int64_t)used;
            apart[used++] = block;
        }
    }
    const char *x = TD__OPERATOR(to, "Pad", td__lite_value(call, 0),
                                 td__operator_integers(to, 2 * b.rank, pads));
    x = td__operator_transpose(to, td__operator_reshape(to, x, used, apart), used, order);
    return td__operator_reshape(to, x, b.rank, joined);
}

/* The way back. */
const char *td__lite_batch_to_space(td__lite_call *call) {
    blocks b;
    if (!read_blocks(call, &b)) {
        return NULL;
    }
    td__operators *to = call->to;
    int64_t apart[TD_MAX_RANK], order[TD_MAX_RANK] = {(int64_t)b.count};
    int64_t joined[TD_MAX_RANK] = {-1};
    int64_t begin[TD_MAX_RANK] = {0}, end[TD_MAX_RANK] = {INT64_MAX}, steps[TD_MAX_RANK] = {1};
    size_t used = 1;
    apart[b.count] = -1;
    for (size_t i = 1; i < b.rank; i++) {
        bool cut = i <= b.count;
        joined[i] = b.sizes[i];
        apart[b.count + i] = b.sizes[i];
        order[used++] = (int64_t)(b.count + i);
        if (cut) {
            joined[i] *= b.block[i - 1];
            apart[i - 1] = b.block[i - 1];
            order[used++] = (int64_t)(i - 1);
            begin[i] = b.before[i - 1];
            end[i] = joined[i] - b.after[i - 1];
            steps[i] = 1;
        }
        if (cut && end[i] < begin[i]) {
            return td__operator_refuse(to, "more is cut off than there is");
        }
    }
    const char *x = td__operator_reshape(to, td__lite_value(call, 0), used, apart);
    x = td__operator_reshape(to, td__operator_transpose(to, x, used, order), b.rank, joined);
    return slice_of(call, x, b.count + 1, begin, end, steps);
}

const char *td__lite_gather(td__lite_call *call) {
    const char *inputs[2] = {td__lite_value(call, 0), td__lite_value(call, 1)};
    return OPTION(call, 1, 0) ? td__operator_refuse(call->to, "axes of a batch")
                              : td__operator(call->to, "Gather", 2, inputs, 1,
                                             &TD__NAMED_INT("axis", OPTION(call, 0, 0)));
}

const char *td__lite_embedding_lookup(td__lite_call *call) {
    return TD__OPERATOR(call->to, "Gather", td__lite_value(call, 1), td__lite_value(call, 0));
}
