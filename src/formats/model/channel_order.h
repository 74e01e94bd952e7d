/* Which features of a model stand in another order than in PyTorch, whose maps have their channels
 * first: what a flatten makes of an (h, w, c) map is c, h, w there and h, w, c here. */
#ifndef TAPEDECK_MODEL_CHANNEL_ORDER_H
#define TAPEDECK_MODEL_CHANNEL_ORDER_H

#include "tapedeck/nn.h"

/* Features that are a map of `places` places with `channels` channels; channels 0: in the same order
 * on both sides, -1: mixed with others, so that the order is not known. */
typedef struct td__order {
    int64_t places, channels;
} td__order;

/* Of what a layer reads, and of what a dense layer puts out for a reshape to a map. */
typedef struct td__layer_order {
    td__order in, out;
} td__layer_order;

/* PyTorch's place of a feature. */
static inline int64_t td__order_first(td__order order, int64_t index) {
    return order.channels > 0 ? index % order.channels * order.places + index / order.channels
                              : index;
}

/* For each layer, from td__calloc; NULL when memory is exhausted. */
td__layer_order *td__channel_orders(const td_model *model);

#endif
