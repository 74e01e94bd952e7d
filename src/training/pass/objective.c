#include "pass/objective.h"

#include "nn/model.h"

#include <string.h>
#include <strings.h>

td_label_kind td__labels_for(td_loss loss, td_label_kind found) {
    if (loss == TD_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY) {
        return found == TD_LABEL_VALUES ? TD_LABEL_CLASS : found;
    }
    if (found != TD_LABEL_CLASS) {
        return found;
    }
    bool categories = loss == TD_LOSS_CATEGORICAL_CROSSENTROPY || loss == TD_LOSS_KL_DIVERGENCE ||
                      loss == TD_LOSS_CATEGORICAL_HINGE ||
                      loss == TD_LOSS_CATEGORICAL_FOCAL_CROSSENTROPY;
    return categories ? TD_LABEL_ONE_HOT : TD_LABEL_VALUES;
}

int64_t td__scored_classes(const td__objective *objective, const td_shape *output,
                           double *threshold) {
    td_loss loss = objective->loss;
    bool binary = loss == TD_LOSS_BINARY_CROSSENTROPY || loss == TD_LOSS_BINARY_FOCAL_CROSSENTROPY;
    int64_t width = output->rank == 1 ? output->dims[0] : output->rank == 0 ? 1 : 0;
    *threshold = objective->options.from_logits ? 0 : 0.5;
    if (objective->target == TD__TARGET_INPUT) {
        return 0;
    }
    if (binary) {
        return width == 1 ? 2 : 0;
    }
    bool categorical = loss == TD_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY ||
                       td__labels_for(loss, TD_LABEL_CLASS) == TD_LABEL_ONE_HOT;
    return categorical && width > 1 ? width : 0;
}

bool td__predicts_values(const td__objective *objective) {
    static const bool of_values[TD_LOSS_COUNT] = {
        [TD_LOSS_MSE] = true,     [TD_LOSS_MAE] = true,
        [TD_LOSS_HUBER] = true,   [TD_LOSS_LOG_COSH] = true,
        [TD_LOSS_MAPE] = true,    [TD_LOSS_MSLE] = true,
        [TD_LOSS_POISSON] = true, [TD_LOSS_COSINE_SIMILARITY] = true,
    };
    return objective->target == TD__TARGET_INPUT || of_values[objective->loss];
}

td_link td__link_of(const td__objective *objective) {
    td_loss loss = objective->loss;
    bool binary = loss == TD_LOSS_BINARY_CROSSENTROPY || loss == TD_LOSS_BINARY_FOCAL_CROSSENTROPY;
    if (!objective->options.from_logits) {
        return TD_LINK_NONE;
    }
    return binary ? TD_LINK_SIGMOID : TD_LINK_SOFTMAX;
}

void td__describe_inputs(td_model *model, const td_data_info *info) {
    td_shape shapes[TD_MAX_FROM];
    size_t count = info->input_piece_count;
    for (size_t i = 0; i < count && i < TD_MAX_FROM; i++) {
        shapes[i] = info->input_pieces[i].shape;
    }
    if (count > 1 && count == td_model_input_count(model)) {
        td__model_set_input_parts(model, shapes);
    }
}

td_shape td__known_input(const td_model *model) {
    td_shape shape = td_model_input_shape(model);
    for (int32_t i = 0; i < shape.rank; i++) {
        if (shape.dims[i] < 0) {
            return (td_shape){0};
        }
    }
    return shape;
}

const char *td__probabilities_by(td_loss loss) {
    static const char *const activations[TD_LOSS_COUNT] = {
        [TD_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY] = "softmax",
        [TD_LOSS_CATEGORICAL_CROSSENTROPY] = "softmax",
        [TD_LOSS_CATEGORICAL_FOCAL_CROSSENTROPY] = "softmax",
        [TD_LOSS_BINARY_CROSSENTROPY] = "sigmoid",
        [TD_LOSS_BINARY_FOCAL_CROSSENTROPY] = "sigmoid",
    };
    return activations[loss];
}

const td_layer_info *td__output_layer(const td_model *model, size_t output) {
    return td_model_layer(model, td_model_output_layer(model, output));
}

int64_t td__output_units(const td_model *model, size_t output) {
    const td_shape *shape = &td__output_layer(model, output)->output;
    return shape->rank && shape->dims[shape->rank - 1] > 0 ? shape->dims[shape->rank - 1] : 1;
}

td_label_kind td__head_kind(td_loss loss, int64_t elements, int64_t units) {
    if (loss == TD_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY) {
        return TD_LABEL_CLASS;
    }
    bool classes = td__labels_for(loss, TD_LABEL_CLASS) == TD_LABEL_ONE_HOT;
    return classes && elements == 1 && units > 1 ? TD_LABEL_ONE_HOT : TD_LABEL_VALUES;
}

const char *td__output_activation(const td_model *model, size_t output) {
    static const char *const kinds[] = {"softmax", "sigmoid"};
    const td_layer_info *last = td__output_layer(model, output);
    for (size_t i = 0; i < last->setting_count; i++) {
        const td_setting *setting = &last->settings[i];
        if ((!strcmp(setting->key, "activation") || !strcmp(setting->key, "function")) &&
            setting->value.kind == TD_VALUE_TEXT) {
            return setting->value.text;
        }
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!strcasecmp(last->type, kinds[i])) { /* a layer of a foreign model, "Softmax" */
            return kinds[i];
        }
    }
    return NULL;
}
