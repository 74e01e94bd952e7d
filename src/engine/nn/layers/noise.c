/* dropout, spatial_dropout, gaussian_dropout, alpha_dropout, gaussian_noise: what happens in training
 * alone */
#include "nn/operators.h"

#include <math.h>

static const td__field dropout_fields[] = {
    TD__LAYER_FIELDS,
    TD__AMOUNT(td_dropout_layer, rate),
    TD__FIELD(SHAPE, td_dropout_layer, noise_shape, .minimum = -1, .quiet = true),
};
static const td__field noise_fields[] = {
    TD__LAYER_FIELDS,
    TD__FIELD(NUMBER, td_gaussian_noise_layer, stddev),
};
static const td__field rate_fields[] = {TD__LAYER_FIELDS, TD__AMOUNT(td_rate_layer, rate)};

static td_status plan_same(td__layer *layer, const td_shape *inputs, td_error *error) {
    (void)error;
    layer->info.output = inputs[0];
    return TD_OK;
}

static td_status check_rate(const td__layer *layer, double rate, td_error *error) {
    return rate < 1 ? TD_OK
                    : td__layer_error(layer, error, TD_RANGE,
                                      "'rate' is %g, it must be less than 1", rate);
}

static td_status plan_dropout(td__layer *layer, const td_shape *inputs, td_error *error) {
    const td_dropout_layer *options = layer->options;
    if (check_rate(layer, options->rate, error)) {
        return TD_RANGE;
    }
    const td_shape *noise = &options->noise_shape;
    bool fits = noise->rank == 0 || noise->rank == inputs[0].rank;
    for (int32_t i = 0; fits && i < noise->rank; i++) {
        fits = noise->dims[i] == 1 || noise->dims[i] == -1 || noise->dims[i] == inputs[0].dims[i];
    }
    if (!fits) {
        char a[TD_SHAPE_TEXT_SIZE], b[TD_SHAPE_TEXT_SIZE];
        return td__layer_error(layer, error, TD_BAD_SHAPE,
                               "'noise_shape' %s does not fit its input %s: each dimension is 1 or "
                               "as there (of one example)",
                               td_shape_text(noise, a), td_shape_text(inputs, b));
    }
    return plan_same(layer, inputs, error);
}

static td_tensor *ones_of(td_tape *tape, const td_shape *shape) {
    td_tensor *ones = td__output(tape, TD_FLOAT32, shape);
    for (int64_t i = 0; ones && i < ones->count; i++) {
        td__floats(ones)[i] = 1;
    }
    return ones;
}

/* x's shape, with 1 where noise says so; noise is of one example, rank 0: all of x's. */
static td_shape shape_of_noise(const td_tensor *x, const td_shape *noise) {
    td_shape shape = x->shape;
    for (int32_t i = 0; i < noise->rank; i++) {
        shape.dims[i + 1] = noise->dims[i] == 1 ? 1 : shape.dims[i + 1];
    }
    return shape;
}

static td_tensor *forward_dropout(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    const td_dropout_layer *options = layer->options;
    td_tensor *x = inputs[0];
    if (options->noise_shape.rank == 0 || !td_tape_is_training(tape)) {
        return td_dropout(tape, x, (float)options->rate);
    }
    td_shape shape = shape_of_noise(x, &options->noise_shape);
    return td_multiply(tape, x, td_dropout(tape, ones_of(tape, &shape), (float)options->rate));
}

/* --- whole channels --------------------------------------------------------------------------- */

static td_status plan_spatial(td__layer *layer, const td_shape *inputs, int32_t rank,
                              const char *meaning, td_error *error) {
    const td_rate_layer *options = layer->options;
    td_status status = check_rate(layer, options->rate, error);
    layer->info.output = inputs[0];
    return status ? status : td__layer_need_rank(layer, inputs, rank, meaning, error);
}
static td_status plan_spatial1(td__layer *layer, const td_shape *inputs, td_error *error) {
    return plan_spatial(layer, inputs, 2, "(steps, channels)", error);
}
static td_status plan_spatial2(td__layer *layer, const td_shape *inputs, td_error *error) {
    return plan_spatial(layer, inputs, 3, "(height, width, channels)", error);
}
static td_status plan_spatial3(td__layer *layer, const td_shape *inputs, td_error *error) {
    return plan_spatial(layer, inputs, 4, "(depth, height, width, channels)", error);
}

static td_tensor *forward_spatial(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    const td_rate_layer *options = layer->options;
    td_tensor *x = inputs[0];
    if (!td_tape_is_training(tape) || options->rate == 0) {
        return td_dropout(tape, x, 0);
    }
    td_shape shape = x->shape;
    for (int32_t i = 1; i + 1 < shape.rank; i++) {
        shape.dims[i] = 1;
    }
    return td_multiply(tape, x, td_dropout(tape, ones_of(tape, &shape), (float)options->rate));
}

/* --- by random numbers ------------------------------------------------------------------------ */

static td_status plan_rate(td__layer *layer, const td_shape *inputs, td_error *error) {
    const td_rate_layer *options = layer->options;
    layer->info.output = inputs[0];
    return check_rate(layer, options->rate, error);
}

/* y = x n, n of mean 1 and variance rate / (1 - rate) */
static td_tensor *forward_gaussian(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    const td_rate_layer *options = layer->options;
    td_tensor *x = inputs[0];
    if (!td_tape_is_training(tape) || options->rate == 0) {
        return td_dropout(tape, x, 0);
    }
    float stddev = (float)sqrt(options->rate / (1 - options->rate));
    return td_multiply(tape, x, td_gaussian_noise(tape, ones_of(tape, &x->shape), stddev));
}

/* y = a (x m + s (1 - m)) + b with m = 0 for a share r of the elements, s = -1.7581 the least value of
 * selu, a = ((1 - r) (1 + r s^2))^-1/2 and b = -a s r, which keep mean 0 and variance 1 */
static td_tensor *forward_alpha(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    const td_dropout_layer *options = layer->options;
    td_tensor *x = inputs[0];
    double rate = options->rate, min = -1.6732632423543772848170429916717 * 1.0507009873554804934;
    if (!td_tape_is_training(tape) || rate == 0) {
        return td_dropout(tape, x, 0);
    }
    td_shape shape = shape_of_noise(x, &options->noise_shape);
    double a = 1 / sqrt((1 - rate) * (1 + rate * min * min)), b = -a * min * rate;
    td_tensor *kept = td_dropout(tape, ones_of(tape, &shape), (float)rate); /* 0 or 1 / (1 - r) */
    td_tensor *scaled = td_multiply(tape, x, td_affine(tape, kept, (float)(a * (1 - rate)), 0));
    td_tensor *moved = td_affine(tape, kept, (float)(-a * min * (1 - rate)), (float)(a * min + b));
    return td_add(tape, scaled, moved);
}

static td_tensor *forward_noise(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    const td_gaussian_noise_layer *options = layer->options;
    return td_gaussian_noise(tape, inputs[0], (float)options->stddev);
}

/* In inference nothing happens. */
static const char *operators_same(const td__layer *layer, td__operators *to,
                                  const char *const *inputs, const td_shape *shapes) {
    (void)layer, (void)shapes;
    return TD__OPERATOR(to, "Identity", inputs[0]);
}

static const td__keras_option dropout_keras[] = {
    {"rate", TD__KERAS_NUMBER, "rate"}, {"noise_shape", TD__KERAS_BATCH_SHAPE, "noise_shape"}};
static const td__keras_option rate_keras[] = {{"rate", TD__KERAS_NUMBER, "rate"},
                                              {"noise_shape", TD__KERAS_IGNORED, NULL}};
static const td__keras_option spatial_keras[] = {{"rate", TD__KERAS_NUMBER, "rate"},
                                                 {"noise_shape", TD__KERAS_IGNORED, NULL},
                                                 {"trainable", TD__KERAS_ABSENT, NULL}};
static const td__keras_option noise_keras[] = {{"stddev", TD__KERAS_NUMBER, "stddev"}};

#define KIND(role, what, type, keras_rows, plan_function, forward_function, torch_name)            \
    {                                                                                              \
        TD__KIND_OF_ONE(what##_fields, type, plan_function, forward_function), TD__IS(role, KEPT), \
            TD__TORCH(torch_name), TD__KERAS(keras_rows##_keras, VARS),                            \
            .operators = operators_same, .mask = td__mask_pass                                     \
    }
#define SPATIAL(axes)                                                                              \
    KIND(DROPOUT, rate, td_rate_layer, spatial, plan_spatial##axes, forward_spatial,               \
         "nn.Dropout" #axes "d")
const td__layer_kind td__dropout_kind =
    KIND(DROPOUT, dropout, td_dropout_layer, dropout, plan_dropout, forward_dropout, "nn.Dropout");
const td__layer_kind td__gaussian_noise_kind =
    KIND(NOISE, noise, td_gaussian_noise_layer, noise, plan_same, forward_noise, "");
const td__layer_kind td__alpha_dropout_kind =
    KIND(NOISE, dropout, td_dropout_layer, dropout, plan_dropout, forward_alpha, "nn.AlphaDropout");
const td__layer_kind td__gaussian_dropout_kind =
    KIND(NOISE, rate, td_rate_layer, rate, plan_rate, forward_gaussian, "");
const td__layer_kind td__spatial_dropout1d_kind = SPATIAL(1);
const td__layer_kind td__spatial_dropout2d_kind = SPATIAL(2);
const td__layer_kind td__spatial_dropout3d_kind = SPATIAL(3);
