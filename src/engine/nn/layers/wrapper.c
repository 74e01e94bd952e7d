/* time_distributed: a layer over each step by itself, (batch, steps, …) as (batch * steps, …)
 * bidirectional: a recurrent layer over the steps and one over them the other way round
 *
 * Their parameters are planned by the layer they wrap, and are theirs.
 */
#include "nn/operators.h"
#include "tape/pick.h"

static const char *const kind_names[] = {
#define NAME(member, word, keras, options) #word,
    TD_LAYER_LIST(NAME)
#undef NAME
};
static const td__words kinds = {"layer", kind_names, TD_LAYER_KIND_COUNT, NULL, NULL};

static const td__field step_fields[] = {
    TD__LAYER_FIELDS,
    TD__WORD(td_wrapper_layer, layer, kinds, TD_LAYER_DENSE),
};
static const td__field both_fields[] = {
    TD__LAYER_FIELDS,
    TD__WORD(td_wrapper_layer, layer, kinds, TD_LAYER_LSTM),
    TD__WORD(td_wrapper_layer, merge_mode, td__merge_mode_words, TD_MERGE_CONCAT),
};

/* --- time_distributed ----------------------------------------------------------------------- */

static td_shape without_steps(const td_shape *shape) {
    td_shape step = {.rank = shape->rank - 1};
    for (int32_t i = 0; i < step.rank; i++) {
        step.dims[i] = shape->dims[i + 1];
    }
    return step;
}

static td_status plan_steps(td__layer *layer, const td_shape *inputs, td_error *error) {
    td__layer *inner = layer->inner;
    if (inputs[0].rank < 2) {
        char text[TD_SHAPE_TEXT_SIZE];
        return td__layer_error(layer, error, TD_BAD_SHAPE,
                               "its input is %s, it must be (steps, …) (of one example)",
                               td_shape_text(inputs, text));
    }
    td_shape step = without_steps(inputs);
    td_status status = inner->kind->plan(inner, &step, error);
    if (status) {
        return status;
    }
    for (size_t i = 0; i < inner->info.parameter_count; i++) {
        layer->parameters[layer->info.parameter_count++] = inner->parameters[i];
    }
    layer->activation = inner->activation;
    td_shape output = {.rank = inner->info.output.rank + 1, .dims = {inputs[0].dims[0]}};
    for (int32_t i = 1; i < output.rank && i < TD_MAX_RANK; i++) {
        output.dims[i] = inner->info.output.dims[i - 1];
    }
    layer->info.output = output;
    return TD_OK;
}

static bool has_averages(const td__layer *layer) {
    for (size_t i = 0; i < layer->info.parameter_count; i++) {
        if (layer->parameters[i].moving_average) {
            return true;
        }
    }
    return false;
}

/* Steps [first, first + count) through the inner layer: (batch, count, …). */
static td_tensor *run_steps(td__layer *inner, td_tape *tape, td_tensor *x, int64_t first,
                            int64_t count) {
    int64_t batch = x->shape.dims[0];
    int64_t begin[TD_MAX_RANK] = {0, first}, size[TD_MAX_RANK] = {batch, count};
    td_shape rows = without_steps(&x->shape);
    rows.dims[0] = batch * count;
    for (int32_t i = 2; i < x->shape.rank; i++) {
        size[i] = x->shape.dims[i];
    }
    td_tensor *part = count == x->shape.dims[1] ? x : td_slice(tape, x, begin, size);
    td_tensor *input = td_reshape(tape, part, rows);
    td_tensor *y = input ? inner->kind->forward(inner, tape, &input) : NULL;
    if (!y) {
        return NULL;
    }
    td_shape shape = {.rank = y->shape.rank + 1, .dims = {batch, count}};
    for (int32_t i = 2; i < shape.rank; i++) {
        shape.dims[i] = y->shape.dims[i - 1];
    }
    return td_reshape(tape, y, shape);
}

static td_tensor *forward_steps(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    td__layer inner = *layer->inner;
    td_tensor *x = inputs[0];
    inner.slot = layer->slot;
    inner.fused = layer->fused;
    inner.info.frozen = layer->info.frozen;
    int64_t steps = x->shape.dims[1];
    if (!has_averages(layer) || !td_tape_is_training(tape) || layer->info.frozen) {
        return run_steps(&inner, tape, x, 0, steps);
    }
    /* Averages move with each step by itself. */
    td_tensor *all = run_steps(&inner, tape, x, 0, 1);
    for (int64_t i = 1; i < steps && all; i++) {
        td_tensor *parts[] = {all, run_steps(&inner, tape, x, i, 1)};
        all = parts[1] ? td_concatenate(tape, 2, parts, 1) : NULL;
    }
    return all;
}

/* --- bidirectional -------------------------------------------------------------------------- */

/* Names in the order in which a recurrent layer plans them, for each direction. */
enum { EACH = 3 };
static const char *const names[2][EACH] = {
    {"forward_kernel", "forward_recurrent_kernel", "forward_bias"},
    {"backward_kernel", "backward_recurrent_kernel", "backward_bias"}};

static td_status plan_both(td__layer *layer, const td_shape *inputs, td_error *error) {
    const td_wrapper_layer *options = layer->options;
    td__layer *inner = layer->inner;
    if (inner->info.kind != TD_LAYER_LSTM && inner->info.kind != TD_LAYER_GRU &&
        inner->info.kind != TD_LAYER_SIMPLE_RNN) {
        return td__layer_error(layer, error, TD_UNSUPPORTED,
                               "'layer' is %s, it must be lstm, gru or simple_rnn",
                               td_layer_kind_name(inner->info.kind));
    }
    td_status status = inner->kind->plan(inner, inputs, error);
    for (int side = 0; side < 2 && !status; side++) {
        for (size_t i = 0; i < inner->info.parameter_count; i++) {
            td__parameter_plan *plan = &layer->parameters[layer->info.parameter_count++];
            *plan = inner->parameters[i];
            plan->name = names[side][plan->slot];
            plan->slot += side * EACH;
        }
    }
    layer->info.output = inner->info.output;
    if (!status && options->merge_mode == TD_MERGE_CONCAT) {
        layer->info.output.dims[layer->info.output.rank - 1] *= 2;
    }
    return status;
}

/* Steps in the opposite order. */
static td_tensor *reversed(td_tape *tape, td_tensor *x) {
    int64_t *from = x ? td__scratch(tape, (size_t)x->count * sizeof *from) : NULL;
    if (!from) {
        return NULL;
    }
    int64_t steps = x->shape.dims[1], width = x->shape.dims[2];
    for (int64_t i = 0; i < x->count; i++) {
        int64_t step = i / width % steps;
        from[i] = i + (steps - 1 - 2 * step) * width;
    }
    return td__pick(tape, x, x->shape, from);
}

/* One direction. Steps that do not count put out zeros. */
static td_tensor *run_side(const td__layer *layer, td_tape *tape, td_tensor *const *inputs,
                           int side) {
    td__layer inner = *layer->inner;
    td_lstm_layer options = *(const td_lstm_layer *)inner.options;
    options.go_backwards = options.go_backwards != (side == 1);
    inner.options = &options;
    inner.slot = layer->slot + side * EACH;
    inner.masks[0] = layer->masks[0];
    td_tensor *y = inner.kind->forward(&inner, tape, inputs);
    if (y && options.return_sequences && side == 1) {
        y = reversed(tape, y);
    }
    return y && options.return_sequences && inner.masks[0] ? td__mask_apply(tape, y, inner.masks[0])
                                                           : y;
}

static td_tensor *forward_both(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    const td_wrapper_layer *options = layer->options;
    td_tensor *sides[2] = {run_side(layer, tape, inputs, 0), run_side(layer, tape, inputs, 1)};
    if (!sides[0] || !sides[1]) {
        return NULL;
    }
    switch (options->merge_mode) {
    case TD_MERGE_SUM:
        return td_add(tape, sides[0], sides[1]);
    case TD_MERGE_MUL:
        return td_multiply(tape, sides[0], sides[1]);
    case TD_MERGE_AVE:
        return td_affine(tape, td_add(tape, sides[0], sides[1]), 0.5f, 0);
    default:
        return td_concatenate(tape, 2, sides, -1);
    }
}

/* --- as operators ----------------------------------------------------------------------------- */

/* What it wraps, with the wrapper's parameters from that slot on. */
static td__layer inner_with(const td__layer *layer, const void *options, size_t first) {
    td__layer inner = *layer->inner;
    inner.options = (void *)options;
    inner.slot = layer->slot + first;
    inner.info.name = layer->info.name;
    inner.info.shares = layer->info.shares;
    return inner;
}

static bool is_known(const td_shape *shape) {
    for (int32_t i = 0; i < shape->rank; i++) {
        if (shape->dims[i] < 0) {
            return false;
        }
    }
    return true;
}

/* All steps of all examples as one batch, and back: (batch, steps, …). */
static const char *operators_steps(const td__layer *layer, td__operators *to,
                                   const char *const *inputs, const td_shape *shapes) {
    td__layer inner = inner_with(layer, layer->inner->options, 0);
    td_shape one = without_steps(&shapes[0]), output = without_steps(&layer->info.output);
    int64_t rows[TD_MAX_RANK + 2] = {-1}, back[TD_MAX_RANK + 2] = {-1, shapes[0].dims[0]};
    if (!inner.kind->operators) {
        return td__operator_refuse(to, "no operators for its %s",
                                   td_layer_kind_name(inner.info.kind));
    }
    if (!is_known(&one) || !is_known(&output) || back[1] < 0) {
        return td__operator_refuse(to, "sizes of its input that are not known");
    }
    for (int32_t i = 0; i < one.rank; i++) {
        rows[i + 1] = one.dims[i];
    }
    for (int32_t i = 0; i < output.rank; i++) {
        back[i + 2] = output.dims[i];
    }
    const char *x = td__operator_reshape(to, inputs[0], (size_t)one.rank + 1, rows);
    const char *y = inner.kind->operators(&inner, to, &x, &one);
    return td__operator_reshape(to, y, (size_t)output.rank + 2, back);
}

static const char *reversed_operator(td__operators *to, const char *x) {
    return TD__OPERATOR(to, "Slice", x, td__operator_integers(to, 1, (const int64_t[]){-1}),
                        td__operator_integers(to, 1, (const int64_t[]){-INT64_MAX}),
                        td__operator_integers(to, 1, (const int64_t[]){1}),
                        td__operator_integers(to, 1, (const int64_t[]){-1}));
}

static const char *side_operators(const td__layer *layer, td__operators *to,
                                  const char *const *inputs, const td_shape *shapes, int side) {
    td_lstm_layer options = *(const td_lstm_layer *)layer->inner->options;
    options.go_backwards = options.go_backwards != (side == 1);
    td__layer inner = inner_with(layer, &options, (size_t)side * EACH);
    const char *y = inner.kind->operators(&inner, to, inputs, shapes);
    return y && options.return_sequences && side == 1 ? reversed_operator(to, y) : y;
}

static const char *operators_both(const td__layer *layer, td__operators *to,
                                  const char *const *inputs, const td_shape *shapes) {
    const td_wrapper_layer *options = layer->options;
    const char *sides[] = {side_operators(layer, to, inputs, shapes, 0),
                           side_operators(layer, to, inputs, shapes, 1)};
    const td__attribute last = TD__NAMED_INT("axis", -1);
    switch (options->merge_mode) {
    case TD_MERGE_SUM:
        return td__operator(to, "Add", 2, sides, 0, NULL);
    case TD_MERGE_MUL:
        return td__operator(to, "Mul", 2, sides, 0, NULL);
    case TD_MERGE_AVE:
        return TD__OPERATOR(to, "Mul", td__operator(to, "Add", 2, sides, 0, NULL),
                            td__operator_number(to, 0.5));
    default:
        return td__operator(to, "Concat", 2, sides, 1, &last);
    }
}

static bool both_have_mask(const td__layer *layer, bool any) {
    const td_lstm_layer *inner = layer->inner->options;
    return any && inner->return_sequences;
}

/* `layer` is read and written by itself. */
static const td__keras_option step_keras[] = {{"layer", TD__KERAS_IGNORED, NULL}};
static const td__keras_option both_keras[] = {{"layer", TD__KERAS_IGNORED, NULL},
                                              {"backward_layer", TD__KERAS_IGNORED, NULL},
                                              {"merge_mode", TD__KERAS_MERGE, "merge_mode"}};
const td__layer_kind td__time_distributed_kind = {
    TD__KIND_OF_ONE(step_fields, td_wrapper_layer, plan_steps, forward_steps),
    TD__IS(WRAPPER, OTHER),
    TD__TORCH(""),
    TD__KERAS(step_keras, WRAPPED),
    .has_activation = true,
    .operators = operators_steps,
    .mask = td__mask_pass,
    .wraps = true};
const td__layer_kind td__bidirectional_kind = {
    TD__KIND_OF_ONE(both_fields, td_wrapper_layer, plan_both, forward_both),
    TD__IS(WRAPPER, OTHER),
    TD__TORCH("bidirectional=True"),
    TD__KERAS(both_keras, BOTH),
    .operators = operators_both,
    .mask = td__mask_pass,
    .has_mask = both_have_mask,
    .reads_mask = true,
    .wraps = true};
