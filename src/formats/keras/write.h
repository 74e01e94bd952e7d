/* A model as Keras would have it: the order of its layers, their places in the weights' file, and its
 * configuration. */
#ifndef TAPEDECK_KERAS_WRITE_H
#define TAPEDECK_KERAS_WRITE_H

#include "keras/layer.h"

typedef struct td__keras_plan_layer {
    size_t layer; /* its number in our model */
    const char *class_name;
    td__keras_storage storage;
    json_t *config;                        /* owned */
    char group[TD__KERAS_SNAKE_SIZE + 32]; /* "layers/dense_1" */
} td__keras_plan_layer;

typedef struct td__keras_plan {
    const td_model *model;
    bool sequential; /* each layer reads the one above and no other */
    td__keras_plan_layer
        *layers; /* in the order of Keras's model.layers; no inputs, and each but once */
    size_t count;
    char input_name[280]; /* of the InputLayer */
} td__keras_plan;

/* TD_UNSUPPORTED lists every layer that Keras has no counterpart for. */
TD_NODISCARD td_status td__keras_plan_make(td__keras_plan *plan, const td_model *model,
                                           const char *path, td_error *error);
void td__keras_plan_release(td__keras_plan *plan);

/* The layer that a layer is, or is used again as; and which use of it that is, from 0. */
size_t td__keras_original(const td_model *model, size_t layer);
size_t td__keras_use(const td_model *model, size_t layer);

/* config.json, to be freed with td__free; NULL when memory is exhausted or a name is not UTF-8. */
char *td__keras_config_write(const td__keras_plan *plan);

#endif
