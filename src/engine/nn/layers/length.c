/* unit_normalization: x / max(|x|, 1e-12) along axes; rms_normalization: x scale / sqrt(mean of x^2 +
 * epsilon) along the last */
#include "nn/operators.h"

#include <math.h>

static const td__field unit_fields[] = {
    TD__LAYER_FIELDS,
    TD__FIELD(SHAPE, td_unit_normalization_layer, axis, .minimum = -TD_MAX_RANK, .quiet = true),
};
static const td__field rms_fields[] = {
    TD__LAYER_FIELDS,
    TD__NUMBER(td_rms_normalization_layer, epsilon, 1e-6),
};

/* --- along axes ------------------------------------------------------------------------------- */

/* The axes of a batch of this rank. */
static td_reduce_options along(const td__layer *layer, int32_t rank) {
    const td_unit_normalization_layer *options = layer->options;
    td_reduce_options over = {.size = sizeof over, .count = 1, .axes = {rank - 1}, .keep = true};
    for (int32_t i = 0; i < options->axis.rank; i++) {
        int64_t axis = options->axis.dims[i];
        over.axes[i] = (int32_t)(axis < 0 ? axis + rank : axis);
        over.count = options->axis.rank;
    }
    return over;
}

static td_status plan_unit(td__layer *layer, const td_shape *inputs, td_error *error) {
    int32_t rank = inputs[0].rank + 1;
    td_reduce_options over = along(layer, rank);
    for (int32_t i = 0; i < over.count; i++) {
        bool again = false;
        for (int32_t k = 0; k < i; k++) {
            again = again || over.axes[k] == over.axes[i];
        }
        if (over.axes[i] < 1 || over.axes[i] >= rank || again) {
            char text[TD_SHAPE_TEXT_SIZE];
            return td__layer_error(
                layer, error, TD_BAD_SHAPE,
                "'axis' must name axes of a batch of its input %s, each once: 1 to "
                "%d, or -1 for the last (0 is the batch)",
                td_shape_text(inputs, text), (int)rank - 1);
        }
    }
    layer->info.output = inputs[0];
    return TD_OK;
}

/* As Keras: by the root of the sum of squares, which is at least 1e-24. */
static td_tensor *forward_unit(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    td_tensor *x = inputs[0];
    if (!x) {
        return NULL;
    }
    td_reduce_options over = along(layer, x->shape.rank);
    td_tensor *squares = td_sum(tape, td_square(tape, x), &over);
    return td_divide(tape, x, td_sqrt(tape, td_clip(tape, squares, 1e-24f, INFINITY)));
}

static const char *operators_unit(const td__layer *layer, td__operators *to,
                                  const char *const *inputs, const td_shape *shapes) {
    td_reduce_options over = along(layer, shapes[0].rank + 1);
    int64_t axes[TD_MAX_RANK];
    for (int32_t i = 0; i < over.count; i++) {
        axes[i] = over.axes[i];
    }
    const char *squares =
        TD__OPERATOR(to, "ReduceSum", TD__OPERATOR(to, "Mul", inputs[0], inputs[0]),
                     td__operator_integers(to, (size_t)over.count, axes));
    const char *min = TD__OPERATOR(to, "Max", squares, td__operator_number(to, 1e-24));
    return TD__OPERATOR(to, "Div", inputs[0], TD__OPERATOR(to, "Sqrt", min));
}

/* --- by the mean of squares ------------------------------------------------------------------- */

static td_status plan_rms(td__layer *layer, const td_shape *inputs, td_error *error) {
    int64_t channels;
    td_status status = td__layer_need_last(layer, inputs, &channels, error);
    if (!status) {
        td__layer_parameter(layer, 0, "scale", TD_SHAPE(channels),
                            (td_initializer){.kind = TD_ONES}, 0, 0);
        layer->info.output = inputs[0];
    }
    return status;
}

static td_tensor *forward_rms(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    const td_rms_normalization_layer *options = layer->options;
    const td_reduce_options last = {.size = sizeof last, .count = 1, .axes = {-1}, .keep = true};
    td_tensor *mean = td_mean(tape, td_square(tape, inputs[0]), &last);
    td_tensor *root = td_sqrt(tape, td_affine(tape, mean, 1, (float)options->epsilon.value));
    return td_multiply(tape, td_divide(tape, inputs[0], root), layer->slot[0]);
}

static const char *operators_rms(const td__layer *layer, td__operators *to,
                                 const char *const *inputs, const td_shape *shapes) {
    (void)shapes;
    const td_rms_normalization_layer *options = layer->options;
    const int64_t last = -1;
    const td__attribute axes = TD__NAMED_INTS("axes", &last, 1);
    const char *squares = TD__OPERATOR(to, "Mul", inputs[0], inputs[0]);
    const char *mean = td__operator(to, "ReduceMean", 1, &squares, 1, &axes);
    const char *root = TD__OPERATOR(
        to, "Sqrt", TD__OPERATOR(to, "Add", mean, td__operator_number(to, options->epsilon.value)));
    return TD__OPERATOR(to, "Mul", TD__OPERATOR(to, "Div", inputs[0], root),
                        td__operator_parameter(to, layer, 0));
}

static const td__keras_option unit_keras[] = {{"axis", TD__KERAS_NUMBERS, "axis"}};
static const td__keras_option rms_keras[] = {{"axis", TD__KERAS_LAST_AXIS, NULL},
                                             {"epsilon", TD__KERAS_NUMBER, "epsilon"}};
static const td__torch_weight rms_torch[] = {TD__TORCH_VECTOR("weight", "scale", )};

const td__layer_kind td__unit_normalization_kind = {
    TD__KIND_OF_ONE(unit_fields, td_unit_normalization_layer, plan_unit, forward_unit),
    TD__IS(NORMALIZATION, KEPT),
    TD__TORCH("functional.normalize"),
    TD__KERAS(unit_keras, VARS),
    .operators = operators_unit,
    .mask = td__mask_pass};
const td__layer_kind td__rms_normalization_kind = {
    TD__KIND_OF_ONE(rms_fields, td_rms_normalization_layer, plan_rms, forward_rms),
    TD__IS(NORMALIZATION, KEPT), TD__TORCH_WITH("nn.RMSNorm", rms_torch),
    TD__KERAS(rms_keras, VARS), .operators = operators_rms};
