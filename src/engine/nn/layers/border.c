/* zero_padding1d, 2d and 3d, cropping1d, 2d and 3d: zeros around steps, an image or a volume, or as
 * many of its borders taken away */
#include "nn/operators.h"

static const td__field fields1[] = {
    TD__LAYER_FIELDS,
    TD__INTEGER(td_zero_padding1d_layer, before, NULL, 0, 0),
    TD__INTEGER(td_zero_padding1d_layer, after, NULL, 0, 0),
};
static const td__field fields2[] = {
    TD__LAYER_FIELDS,
    TD__INTEGER(td_zero_padding2d_layer, top, NULL, 0, 0),
    TD__INTEGER(td_zero_padding2d_layer, bottom, NULL, 0, 0),
    TD__INTEGER(td_zero_padding2d_layer, left, NULL, 0, 0),
    TD__INTEGER(td_zero_padding2d_layer, right, NULL, 0, 0),
};

static const td__field fields3[] = {
    TD__LAYER_FIELDS,
    TD__INTEGER(td_zero_padding3d_layer, front, NULL, 0, 0),
    TD__INTEGER(td_zero_padding3d_layer, back, NULL, 0, 0),
    TD__INTEGER(td_zero_padding3d_layer, top, NULL, 0, 0),
    TD__INTEGER(td_zero_padding3d_layer, bottom, NULL, 0, 0),
    TD__INTEGER(td_zero_padding3d_layer, left, NULL, 0, 0),
    TD__INTEGER(td_zero_padding3d_layer, right, NULL, 0, 0),
};

/* The borders of each axis of a batch: (batch, …, channels). */
typedef struct borders {
    int32_t rank;
    int64_t before[5], after[5];
} borders;

static borders borders_of(const td__layer *layer) {
    if (layer->kind->size == sizeof(td_zero_padding1d_layer)) {
        const td_zero_padding1d_layer *options = layer->options;
        return (borders){3, {0, options->before}, {0, options->after}};
    }
    if (layer->kind->size == sizeof(td_zero_padding3d_layer)) {
        const td_zero_padding3d_layer *options = layer->options;
        return (borders){5,
                         {0, options->front, options->top, options->left},
                         {0, options->back, options->bottom, options->right}};
    }
    const td_zero_padding2d_layer *options = layer->options;
    return (borders){4, {0, options->top, options->left}, {0, options->bottom, options->right}};
}

static td_status plan_border(td__layer *layer, const td_shape *inputs, int sign, td_error *error) {
    borders around = borders_of(layer);
    static const char *const meanings[] = {"(steps, channels)", "(height, width, channels)",
                                           "(depth, height, width, channels)"};
    td_status status =
        td__layer_need_rank(layer, inputs, around.rank - 1, meanings[around.rank - 3], error);
    if (status) {
        return status;
    }
    td_shape output = inputs[0];
    for (int32_t i = 0; i < output.rank; i++) {
        int64_t border = around.before[i + 1] + around.after[i + 1];
        if (output.dims[i] < 0) {
            continue;
        }
        output.dims[i] += sign * border;
        if (sign < 0 && border > 0 && output.dims[i] < 1) {
            char text[TD_SHAPE_TEXT_SIZE];
            return td__layer_error(layer, error, TD_BAD_SHAPE, "nothing is left of its input %s",
                                   td_shape_text(inputs, text));
        }
    }
    layer->info.output = output;
    return TD_OK;
}

static td_status plan_padding(td__layer *layer, const td_shape *inputs, td_error *error) {
    return plan_border(layer, inputs, 1, error);
}
static td_status plan_cropping(td__layer *layer, const td_shape *inputs, td_error *error) {
    return plan_border(layer, inputs, -1, error);
}

static td_tensor *forward_padding(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    borders around = borders_of(layer);
    return td_pad(tape, inputs[0], around.before, around.after, 0);
}
static td_tensor *forward_cropping(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    borders around = borders_of(layer);
    int64_t size[5];
    for (int32_t i = 0; i < around.rank; i++) {
        size[i] = inputs[0]->shape.dims[i] - around.before[i] - around.after[i];
    }
    return td_slice(tape, inputs[0], around.before, size);
}

static const char *operators_padding(const td__layer *layer, td__operators *to,
                                     const char *const *inputs, const td_shape *shapes) {
    (void)shapes;
    borders around = borders_of(layer);
    int64_t pads[10];
    for (int32_t i = 0; i < around.rank; i++) {
        pads[i] = around.before[i];
        pads[around.rank + i] = around.after[i];
    }
    return TD__OPERATOR(to, "Pad", inputs[0],
                        td__operator_integers(to, 2 * (size_t)around.rank, pads));
}
static const char *operators_cropping(const td__layer *layer, td__operators *to,
                                      const char *const *inputs, const td_shape *shapes) {
    (void)shapes;
    borders around = borders_of(layer);
    int64_t ends[5];
    for (int32_t i = 0; i < around.rank; i++) {
        ends[i] = around.after[i] ? -around.after[i] : INT64_MAX;
    }
    return TD__OPERATOR(to, "Slice", inputs[0],
                        td__operator_integers(to, (size_t)around.rank, around.before),
                        td__operator_integers(to, (size_t)around.rank, ends));
}

static const td__keras_option keras_padding1[] = {{"padding", TD__KERAS_BORDERS, "before"}};
static const td__keras_option keras_padding2[] = {{"padding", TD__KERAS_BORDERS, "top"}};
static const td__keras_option keras_padding3[] = {{"padding", TD__KERAS_BORDERS, "front"}};
static const td__keras_option keras_cropping1[] = {{"cropping", TD__KERAS_BORDERS, "before"}};
static const td__keras_option keras_cropping2[] = {{"cropping", TD__KERAS_BORDERS, "top"}};
static const td__keras_option keras_cropping3[] = {{"cropping", TD__KERAS_BORDERS, "front"}};
#define KIND(word, what, axes, ...)                                                                \
    {                                                                                              \
        TD__KIND_OF_ONE(fields##axes, td_##word##axes##d_layer, plan_##what, forward_##what),      \
            TD__IS(SHAPE, OTHER), .torch = {__VA_ARGS__}, TD__KERAS(keras_##what##axes, VARS),     \
                                  .operators = operators_##what                                    \
    }
const td__layer_kind td__zero_padding1d_kind =
    KIND(zero_padding, padding, 1, .name = "nn.ZeroPad1d", .channels_first = true);
const td__layer_kind td__zero_padding2d_kind =
    KIND(zero_padding, padding, 2, .name = "nn.ZeroPad2d");
const td__layer_kind td__zero_padding3d_kind =
    KIND(zero_padding, padding, 3, .name = "nn.ZeroPad3d");
const td__layer_kind td__cropping1d_kind =
    KIND(cropping, cropping, 1, .name = "", .channels_first = true);
const td__layer_kind td__cropping2d_kind = KIND(cropping, cropping, 2, .name = "");
const td__layer_kind td__cropping3d_kind = KIND(cropping, cropping, 3, .name = "");
