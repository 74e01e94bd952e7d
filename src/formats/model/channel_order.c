#include "model/channel_order.h"

#include "base/memory.h"
#include "nn/kind.h"
#include "tensor/element.h"

static td__layer_features features_of(const td_layer_info *layer) {
    return td__layer_kind_of(layer->kind)->features;
}

static bool keeps_features(const td_layer_info *layer) {
    td__layer_features features = features_of(layer);
    return features == TD__FEATURES_KEPT || features == TD__FEATURES_GROUPED;
}

static const td_layer_info *input_of(const td_model *model, const td_layer_info *layer) {
    return layer->inputs[0] < 0 ? NULL : td_model_layer(model, (size_t)layer->inputs[0]);
}

static bool reads_channels_first(const td_layer_info *layer) {
    return td__layer_kind_of(layer->kind)->torch.channels_first;
}

/* Whether PyTorch has this map channels first: images always, sequences when they are
 * convolution's (a recurrent layer's are (batch, step, feature) there too). */
static bool is_channels_first(const td_model *model, const td_layer_info *layer, int32_t rank) {
    while (layer && keeps_features(layer)) {
        layer = input_of(model, layer);
    }
    return rank >= 3 || (rank == 2 && layer && reads_channels_first(layer));
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
    known = known && !(any && features_of(layer) == TD__FEATURES_JOINED);
    return known ? first : (td__order){0, -1};
}

/* The order of what a layer puts out, from those of the layers before it. */
static td__order order_after(const td_model *model, const td_layer_info *layer,
                             const td__order *before) {
    const td_layer_info *input = input_of(model, layer);
    td__layer_features features = features_of(layer);
    td_shape shape = input ? input->output : td_model_input_shape(model);
    bool flattens = features == TD__FEATURES_FLATTENED ||
                    (features == TD__FEATURES_RESHAPED && layer->output.rank == 1);
    if (flattens && shape.rank >= 2) {
        return is_channels_first(model, input, shape.rank) ? order_of(&shape) : (td__order){0};
    }
    if (features == TD__FEATURES_MIXED || (features == TD__FEATURES_RESHAPED && !flattens)) {
        return (td__order){0};
    }
    td__order order = common_order(layer, before);
    bool keeps = flattens || keeps_features(layer) || features_of(layer) == TD__FEATURES_JOINED;
    return keeps || !order.channels ? order : (td__order){0, -1};
}

static bool feeds_convolution(const td_model *model, size_t which) {
    for (size_t i = which + 1; i < td_model_layer_count(model); i++) {
        const td_layer_info *layer = td_model_layer(model, i);
        if (reads_channels_first(layer) && layer->inputs[0] == (int32_t)which) {
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
    for (; at >= 0 && keeps_features(td_model_layer(model, (size_t)at));
         at = td_model_layer(model, (size_t)at)->inputs[0]) {
        orders[at].in = order;
    }
    if (at >= 0 && features_of(td_model_layer(model, (size_t)at)) == TD__FEATURES_MIXED) {
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
        if (features_of(td_model_layer(model, i)) == TD__FEATURES_RESHAPED) {
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
