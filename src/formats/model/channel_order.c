#include "model/channel_order.h"

#include "base/memory.h"
#include "tensor/element.h"

/* Layers that keep each feature where it is. */
static bool keeps_features(td_layer_kind kind) {
    switch (kind) {
    case TD_LAYER_DROPOUT:
    case TD_LAYER_SPATIAL_DROPOUT1D:
    case TD_LAYER_SPATIAL_DROPOUT2D:
    case TD_LAYER_SPATIAL_DROPOUT3D:
    case TD_LAYER_GAUSSIAN_DROPOUT:
    case TD_LAYER_ALPHA_DROPOUT:
    case TD_LAYER_GAUSSIAN_NOISE:
    case TD_LAYER_ACTIVATION:
    case TD_LAYER_RELU:
    case TD_LAYER_PRELU:
    case TD_LAYER_IDENTITY:
    case TD_LAYER_BATCH_NORMALIZATION:
    case TD_LAYER_LAYER_NORMALIZATION:
    case TD_LAYER_GROUP_NORMALIZATION:
    case TD_LAYER_RMS_NORMALIZATION:
    case TD_LAYER_UNIT_NORMALIZATION:
    case TD_LAYER_ADD:
    case TD_LAYER_MULTIPLY:
    case TD_LAYER_RESCALING:
        return true;
    default:
        return false;
    }
}

static const td_layer_info *input_of(const td_model *model, const td_layer_info *layer) {
    return layer->inputs[0] < 0 ? NULL : td_model_layer(model, (size_t)layer->inputs[0]);
}

/* Layers whose sequences PyTorch has as (batch, channel, step). */
static bool reads_channels_first(td_layer_kind kind) {
    return kind == TD_LAYER_CONV1D || kind == TD_LAYER_CONV1D_TRANSPOSE ||
           kind == TD_LAYER_DEPTHWISE_CONV1D || kind == TD_LAYER_SEPARABLE_CONV1D ||
           kind == TD_LAYER_MAX_POOL1D || kind == TD_LAYER_AVERAGE_POOL1D ||
           kind == TD_LAYER_UP_SAMPLING1D;
}

/* Whether PyTorch has this map channels first: images always, sequences when they are
 * convolution's (a recurrent layer's are (batch, step, feature) there too). */
static bool is_channels_first(const td_model *model, const td_layer_info *layer, int32_t rank) {
    while (layer && keeps_features(layer->kind)) {
        layer = input_of(model, layer);
    }
    return rank >= 3 || (rank == 2 && layer && reads_channels_first(layer->kind));
}

static td__order order_of(const td_shape *map) {
    td__order order = {td__elements_between(map, 0, map->rank - 1), map->dims[map->rank - 1]};
    return order.places > 1 && order.channels > 1 ? order : (td__order){0};
}

/* Of several inputs: known when all have the same, and they do not become parts of one. */
static td__order common_order(const td_layer_info *layer, const td__order *before) {
    td__order first = layer->inputs[0] < 0 ? (td__order){0} : before[layer->inputs[0]];
    bool known = true, any = false;
    for (size_t i = 0; i < layer->input_count; i++) {
        td__order order = layer->inputs[i] < 0 ? (td__order){0} : before[layer->inputs[i]];
        known = known && order.places == first.places && order.channels == first.channels;
        any = any || order.channels;
    }
    known = known && !(any && layer->kind == TD_LAYER_CONCATENATE);
    return known ? first : (td__order){0, -1};
}

/* The order of what a layer puts out, from those of the layers before it. */
static td__order order_after(const td_model *model, const td_layer_info *layer,
                             const td__order *before) {
    const td_layer_info *input = input_of(model, layer);
    td_shape shape = input ? input->output : td_model_input_shape(model);
    bool flattens = layer->kind == TD_LAYER_FLATTEN ||
                    (layer->kind == TD_LAYER_RESHAPE && layer->output.rank == 1);
    if (flattens && shape.rank >= 2) {
        return is_channels_first(model, input, shape.rank) ? order_of(&shape) : (td__order){0};
    }
    if (layer->kind == TD_LAYER_DENSE || (layer->kind == TD_LAYER_RESHAPE && !flattens)) {
        return (td__order){0};
    }
    td__order order = common_order(layer, before);
    bool keeps = flattens || keeps_features(layer->kind) || layer->kind == TD_LAYER_CONCATENATE;
    return keeps || !order.channels ? order : (td__order){0, -1};
}

static bool feeds_convolution(const td_model *model, size_t which) {
    for (size_t i = which + 1; i < td_model_layer_count(model); i++) {
        const td_layer_info *layer = td_model_layer(model, i);
        if (reads_channels_first(layer->kind) && layer->inputs[0] == (int32_t)which) {
            return true;
        }
    }
    return false;
}

/* A reshape to a map: the dense layer before it puts its channels first in PyTorch. */
static void look_back(const td_model *model, size_t reshape, td__layer_order *orders) {
    const td_layer_info *layer = td_model_layer(model, reshape);
    if (layer->output.rank < 3 && !(layer->output.rank == 2 && feeds_convolution(model, reshape))) {
        return;
    }
    td__order order = order_of(&layer->output);
    int32_t at = layer->inputs[0];
    for (; at >= 0 && keeps_features(td_model_layer(model, (size_t)at)->kind);
         at = td_model_layer(model, (size_t)at)->inputs[0]) {
        orders[at].in = order;
    }
    if (at >= 0 && td_model_layer(model, (size_t)at)->kind == TD_LAYER_DENSE) {
        orders[at].out = order;
    }
}

td__layer_order *td__channel_orders(const td_model *model) {
    size_t count = td_model_layer_count(model);
    td__layer_order *orders = td__calloc(count + 1, sizeof *orders);
    td__order *after = td__calloc(count + 1, sizeof *after);
    for (size_t i = 0; orders && after && i < count; i++) {
        const td_layer_info *layer = td_model_layer(model, i);
        after[i] = order_after(model, layer, after);
        orders[i].in = layer->inputs[0] < 0 ? (td__order){0} : after[layer->inputs[0]];
    }
    for (size_t i = 0; orders && after && i < count; i++) {
        if (td_model_layer(model, i)->kind == TD_LAYER_RESHAPE) {
            look_back(model, i, orders);
        }
    }
    if (!after) {
        td__free(orders);
        orders = NULL;
    }
    td__free(after);
    return orders;
}
