/* batch_normalization, layer_normalization, group_normalization: gamma (x - mean) / sqrt(variance +
 * epsilon) + beta; normalization: (x - mean) / max(sqrt(variance), 1e-7), both given */
#include "nn/operators.h"
#include "tape/tape.h"

#include <math.h>

#define SCALED_FIELDS(struct_type)                                                                 \
    TD__NUMBER(struct_type, epsilon, 1e-3), TD__NOT(struct_type, no_scale, "scale"),               \
        TD__NOT(struct_type, no_center, "center"),                                                 \
        TD__QUIET_INITIALIZER(struct_type, gamma_initializer, TD_ONES),                            \
        TD__QUIET_INITIALIZER(struct_type, beta_initializer, TD_ZEROS)

static const td__field batch_fields[] = {
    TD__LAYER_FIELDS,
    TD__NUMBER(td_batch_normalization_layer, momentum, 0.99),
    SCALED_FIELDS(td_batch_normalization_layer),
    TD__QUIET_INITIALIZER(td_batch_normalization_layer, moving_mean_initializer, TD_ZEROS),
    TD__QUIET_INITIALIZER(td_batch_normalization_layer, moving_variance_initializer, TD_ONES),
    {.key = TD__SYNC,
     .type = TD__FIELD_BOOL,
     .offset = offsetof(td_batch_normalization_layer, sync),
     .quiet = true},
};
static const td__field layer_fields[] = {
    TD__LAYER_FIELDS,
    SCALED_FIELDS(td_layer_normalization_layer),
};

static const td__field group_fields[] = {
    TD__LAYER_FIELDS,
    TD__INTEGER(td_group_normalization_layer, groups, NULL, 32, -1),
    SCALED_FIELDS(td_group_normalization_layer),
};

enum { GAMMA, BETA, MEAN, VARIANCE };

#define GAMMA_OF(options) ((options)->no_scale ? NULL : &(options)->gamma_initializer)
#define BETA_OF(options) ((options)->no_center ? NULL : &(options)->beta_initializer)

/* gamma, beta: NULL where there is none. */
static td_status plan_normalization(td__layer *layer, const td_shape *inputs,
                                    const td_initializer *gamma, const td_initializer *beta,
                                    td_error *error) {
    int64_t channels;
    td_status status = td__layer_need_last(layer, inputs, &channels, error);
    if (status) {
        return status;
    }
    if (gamma) {
        td__layer_parameter(layer, GAMMA, "gamma", TD_SHAPE(channels), *gamma, 0, 0);
    }
    if (beta) {
        td__layer_parameter(layer, BETA, "beta", TD_SHAPE(channels), *beta, 0, 0);
    }
    layer->info.output = inputs[0];
    return TD_OK;
}

static td_status plan_batch(td__layer *layer, const td_shape *inputs, td_error *error) {
    const td_batch_normalization_layer *options = layer->options;
    td_status status =
        plan_normalization(layer, inputs, GAMMA_OF(options), BETA_OF(options), error);
    if (status) {
        return status;
    }
    if (options->momentum.value >= 1) {
        return td__layer_error(layer, error, TD_RANGE, "'momentum' is %g, it must be less than 1",
                               options->momentum.value);
    }
    td_shape shape = TD_SHAPE(inputs[0].dims[inputs[0].rank - 1]);
    td__layer_parameter(layer, MEAN, "moving_mean", shape, options->moving_mean_initializer, 0, 0)
        ->moving_average = true;
    td__layer_parameter(layer, VARIANCE, "moving_variance", shape,
                        options->moving_variance_initializer, 0, 0)
        ->moving_average = true;
    return TD_OK;
}

/* Over the steps that count: mean = sum of m x / (sum of m + 1e-7), variance = sum of m (x - mean)^2 /
 * (sum of m + 1e-7), as Keras has it. */
static td_tensor *masked_batch(td__layer *layer, td_tape *tape, td_tensor *x,
                               const td_batch_normalization_options *options) {
    td_reduce_options rows = {.size = sizeof rows, .count = x->shape.rank - 1};
    for (int32_t i = 0; i < rows.count; i++) {
        rows.axes[i] = i;
    }
    const float *mask = td__floats(layer->masks[0]);
    float counted = 0;
    for (int64_t i = 0; i < layer->masks[0]->count; i++) {
        counted += mask[i];
    }
    float share = 1.0f / (counted + 1e-7f);
    double gain = 1 - options->momentum.value;
    td_tensor *mean =
        td_affine(tape, td_sum(tape, td__mask_apply(tape, x, layer->masks[0]), &rows), share, 0);
    td_tensor *apart = td_subtract(tape, x, mean);
    td_tensor *squares = td__mask_apply(tape, td_square(tape, apart), layer->masks[0]);
    td_tensor *variance = td_affine(tape, td_sum(tape, squares, &rows), share, 0);
    td_tensor *deviation =
        td_sqrt(tape, td_affine(tape, variance, 1, (float)options->epsilon.value));
    td_tensor *y = td_divide(tape, apart, deviation);
    y = layer->slot[GAMMA] ? td_multiply(tape, y, layer->slot[GAMMA]) : y;
    y = layer->slot[BETA] ? td_add(tape, y, layer->slot[BETA]) : y;
    td_tensor *moving[] = {layer->slot[MEAN], layer->slot[VARIANCE]};
    const td_tensor *now[] = {mean, variance};
    for (int k = 0; k < 2 && y; k++) {
        for (int64_t i = 0; i < now[k]->count; i++) {
            float *to = &td__floats(moving[k])[i];
            *to = (float)((double)*to * (1 - gain) + (double)td__floats(now[k])[i] * gain);
        }
    }
    return y;
}

static td_tensor *forward_batch(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    const td_batch_normalization_layer *options = layer->options;
    td_batch_normalization_options operation = {.size = sizeof operation,
                                                .momentum = options->momentum,
                                                .epsilon = options->epsilon,
                                                .sync = options->sync};
    bool training = td_tape_is_training(tape);
    if (options->sync && layer->masks[0] && training && !layer->info.frozen && tape->sync) {
        return td__fail(tape, TD_UNSUPPORTED,
                        "sync is not there for inputs with a mask: its steps that count would be "
                        "those of one shard; set sync: false, or train.shards: 1");
    }
    if (layer->info.frozen) {
        td_tape_set_training(tape, false);
    }
    td_tensor *y =
        layer->masks[0] && td_tape_is_training(tape)
            ? masked_batch(layer, tape, inputs[0], &operation)
            : td_batch_normalization(tape, inputs[0], layer->slot[GAMMA], layer->slot[BETA],
                                     layer->slot[MEAN], layer->slot[VARIANCE], &operation);
    td_tape_set_training(tape, training);
    return y;
}

static td_status plan_layer(td__layer *layer, const td_shape *inputs, td_error *error) {
    const td_layer_normalization_layer *options = layer->options;
    return plan_normalization(layer, inputs, GAMMA_OF(options), BETA_OF(options), error);
}

static td_tensor *forward_layer(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    const td_layer_normalization_layer *options = layer->options;
    return td_layer_normalization(tape, inputs[0], layer->slot[GAMMA], layer->slot[BETA],
                                  (float)options->epsilon.value);
}

/* --- groups -------------------------------------------------------------------------------- */

static int64_t groups_of(const td__layer *layer, int64_t channels) {
    const td_group_normalization_layer *options = layer->options;
    return options->groups < 0 ? channels : options->groups;
}

static td_status plan_group(td__layer *layer, const td_shape *inputs, td_error *error) {
    const td_group_normalization_layer *options = layer->options;
    td_status status =
        plan_normalization(layer, inputs, GAMMA_OF(options), BETA_OF(options), error);
    int64_t channels = status ? 0 : inputs[0].dims[inputs[0].rank - 1];
    if (!status && (groups_of(layer, channels) < 1 || channels % groups_of(layer, channels))) {
        status =
            td__layer_error(layer, error, TD_BAD_SHAPE, "%lld groups do not divide %lld channels",
                            (long long)options->groups, (long long)channels);
    }
    return status;
}

static td_tensor *forward_group(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    const td_group_normalization_layer *options = layer->options;
    const td_shape *shape = &inputs[0]->shape;
    return td__group_normalization(tape, inputs[0], groups_of(layer, shape->dims[shape->rank - 1]),
                                   layer->slot[GAMMA], layer->slot[BETA],
                                   (float)options->epsilon.value);
}

/* --- as operators ------------------------------------------------------------------------- */

static const char *scaled(const td__layer *layer, td__operators *to, const char *y) {
    y = layer->slot[GAMMA] ? TD__OPERATOR(to, "Mul", y, td__operator_parameter(to, layer, GAMMA))
                           : y;
    return layer->slot[BETA] ? TD__OPERATOR(to, "Add", y, td__operator_parameter(to, layer, BETA))
                             : y;
}

/* BatchNormalization has the channels behind the batch; arithmetic has them anywhere. */
static const char *operators_batch(const td__layer *layer, td__operators *to,
                                   const char *const *inputs, const td_shape *shapes) {
    (void)shapes;
    const td_batch_normalization_layer *options = layer->options;
    const char *variance = TD__OPERATOR(to, "Add", td__operator_parameter(to, layer, VARIANCE),
                                        td__operator_number(to, options->epsilon.value));
    const char *away = TD__OPERATOR(to, "Sub", inputs[0], td__operator_parameter(to, layer, MEAN));
    return scaled(layer, to, TD__OPERATOR(to, "Div", away, TD__OPERATOR(to, "Sqrt", variance)));
}

static const char *operators_layer(const td__layer *layer, td__operators *to,
                                   const char *const *inputs, const td_shape *shapes) {
    const td_layer_normalization_layer *options = layer->options;
    const td__attribute attributes[] = {TD__NAMED_INT("axis", -1),
                                        TD__NAMED_REAL("epsilon", options->epsilon.value)};
    int64_t channels = shapes[0].dims[shapes[0].rank - 1];
    const char *with[] = {inputs[0],
                          layer->slot[GAMMA] ? td__operator_parameter(to, layer, GAMMA)
                                             : td__operator_filled(to, channels, 1),
                          td__operator_parameter(to, layer, BETA)};
    return td__operator(to, "LayerNormalization", layer->slot[BETA] ? 3 : 2, with, 2, attributes);
}

/* A group of an example is an instance's channel. */
static const char *operators_group(const td__layer *layer, td__operators *to,
                                   const char *const *inputs, const td_shape *shapes) {
    const td_group_normalization_layer *options = layer->options;
    int64_t channels = shapes[0].dims[shapes[0].rank - 1];
    int64_t groups = groups_of(layer, channels), own = channels / groups;
    const int64_t swapped[] = {0, 2, 1, 3};
    const td__attribute epsilon = TD__NAMED_REAL("epsilon", options->epsilon.value);
    const char *x = td__operator_reshape(to, inputs[0], 4, (const int64_t[]){0, -1, groups, own});
    x = td__operator_transpose(to, x, 4, swapped);
    x = td__operator_reshape(to, x, 3, (const int64_t[]){0, groups, -1});
    const char *with[] = {x, td__operator_filled(to, groups, 1),
                          td__operator_filled(to, groups, 0)};
    x = td__operator(to, "InstanceNormalization", 3, with, 1, &epsilon);
    x = td__operator_reshape(to, x, 4, (const int64_t[]){0, groups, -1, own});
    x = td__operator_transpose(to, x, 4, swapped);
    return scaled(layer, to, TD__OPERATOR(to, "Reshape", x, TD__OPERATOR(to, "Shape", inputs[0])));
}

#define KERAS                                                                                      \
    {"axis", TD__KERAS_LAST_AXIS, NULL}, {"epsilon", TD__KERAS_NUMBER, "epsilon"},                 \
        {"center", TD__KERAS_SWITCH, "center"}, {"scale", TD__KERAS_SWITCH, "scale"},              \
        {"beta_initializer", TD__KERAS_INITIALIZER, "beta_initializer"}, {                         \
        "gamma_initializer", TD__KERAS_INITIALIZER, "gamma_initializer"                            \
    }
static const td__keras_option batch_keras[] = {
    KERAS,
    {"momentum", TD__KERAS_NUMBER, "momentum"},
    {"moving_mean_initializer", TD__KERAS_INITIALIZER, "moving_mean_initializer"},
    {"moving_variance_initializer", TD__KERAS_INITIALIZER, "moving_variance_initializer"},
    {"synchronized", TD__KERAS_SWITCH, TD__SYNC},
    {"renorm_momentum", TD__KERAS_IGNORED, NULL}}; /* of renorm, which must be off */
static const td__keras_option layer_keras[] = {KERAS};
static const td__keras_option group_keras[] = {{"groups", TD__KERAS_NUMBER, "groups"}, KERAS};
#define TORCH TD__TORCH_VECTOR("weight", "gamma", ), TD__TORCH_VECTOR("bias", "beta", )
static const td__torch_weight batch_torch[] = {
    TORCH, TD__TORCH_VECTOR("running_mean", "moving_mean", ),
    TD__TORCH_VECTOR("running_var", "moving_variance", )};
static const td__torch_weight layer_torch[] = {TORCH}, group_torch[] = {TORCH};

#define KIND(what, kept, torch_name)                                                               \
    TD__KIND_OF_ONE(what##_fields, td_##what##_normalization_layer, plan_##what, forward_##what),  \
        TD__IS(NORMALIZATION, kept), TD__TORCH_WITH(torch_name, what##_torch),                     \
        TD__KERAS(what##_keras, VARS), .operators = operators_##what, .mask = td__mask_pass
const td__layer_kind td__batch_normalization_kind = {KIND(batch, KEPT, "nn.BatchNorm2d"),
                                                     .reads_mask = true};
const td__layer_kind td__layer_normalization_kind = {KIND(layer, KEPT, "nn.LayerNorm")};
const td__layer_kind td__group_normalization_kind = {KIND(group, GROUPED, "nn.GroupNorm")};

/* --- given mean and variance ----------------------------------------------------------------- */

static const td__field given_fields[] = {
    TD__LAYER_FIELDS,
    TD__FIELD(BOOL, td_normalization_layer, invert, .quiet = true),
};

static td_status plan_given(td__layer *layer, const td_shape *inputs, td_error *error) {
    int64_t channels;
    td_status status = td__layer_need_last(layer, inputs, &channels, error);
    if (status) {
        return status;
    }
    td_shape shape = TD_SHAPE(channels);
    td__layer_parameter(layer, MEAN, "mean", shape, (td_initializer){.kind = TD_ZEROS}, 0, 0)
        ->moving_average = true;
    td__layer_parameter(layer, VARIANCE, "variance", shape, (td_initializer){.kind = TD_ONES}, 0, 0)
        ->moving_average = true;
    layer->info.output = inputs[0];
    return TD_OK;
}

static td_tensor *forward_given(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    const td_normalization_layer *options = layer->options;
    td_tensor *deviation = td_clip(tape, td_sqrt(tape, layer->slot[VARIANCE]), 1e-7f, INFINITY);
    return options->invert
               ? td_add(tape, td_multiply(tape, inputs[0], deviation), layer->slot[MEAN])
               : td_divide(tape, td_subtract(tape, inputs[0], layer->slot[MEAN]), deviation);
}

static const char *operators_given(const td__layer *layer, td__operators *to,
                                   const char *const *inputs, const td_shape *shapes) {
    (void)shapes;
    const td_normalization_layer *options = layer->options;
    const char *mean = td__operator_parameter(to, layer, MEAN);
    const char *root = TD__OPERATOR(to, "Sqrt", td__operator_parameter(to, layer, VARIANCE));
    const char *deviation = TD__OPERATOR(to, "Max", root, td__operator_number(to, 1e-7));
    return options->invert
               ? TD__OPERATOR(to, "Add", TD__OPERATOR(to, "Mul", inputs[0], deviation), mean)
               : TD__OPERATOR(to, "Div", TD__OPERATOR(to, "Sub", inputs[0], mean), deviation);
}

static const td__keras_option given_keras[] = {{"axis", TD__KERAS_LAST_AXIS, NULL},
                                               {"mean", TD__KERAS_IGNORED, NULL},
                                               {"variance", TD__KERAS_IGNORED, NULL},
                                               {"invert", TD__KERAS_SWITCH, "invert"}};
const td__layer_kind td__normalization_kind = {
    TD__KIND_OF_ONE(given_fields, td_normalization_layer, plan_given, forward_given),
    TD__IS(SCALING, KEPT),
    TD__TORCH(""),
    TD__KERAS(given_keras, COUNTED),
    .operators = operators_given,
    .mask = td__mask_pass};
