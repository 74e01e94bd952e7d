/* A model inside. Layers only read layers before them, so their order is an order to run them in.
 * model_build.c makes it, model_run.c runs it, model_info.c answers questions. */
#ifndef TAPEDECK_NN_MODEL_H
#define TAPEDECK_NN_MODEL_H

#include "nn/layer.h"

typedef struct td__parameter {
    td_parameter_info info;
    double l1, l2;
} td__parameter;

struct td_model {
    char *name;
    td_shape input_shape; /* of one example; -1: any */
    td__layer **layers;
    size_t layer_count, layer_capacity;
    uint32_t
        *slots; /* layers by the hash of their names: index + 1, or 0; at least half are free */
    size_t slot_count;
    size_t named[TD_LAYER_KIND_COUNT]; /* layers of each kind without a name given */
    td_error error;                    /* the first of td_model_add_layer */

    /* Once built. */
    bool built;
    td__parameter *parameters;
    size_t parameter_count;
    td_tensor **trainable; /* room for all parameters */
    size_t trainable_count;

    td_model_watcher *watcher;
    void *watcher_user;
    td_tensor *input; /* of the last forward pass */
};

/* Makes room for the last layer's name among the slots, and puts it there; false when memory is
 * exhausted. */
bool td__model_index_last(td_model *model);
/* Lists the parameters that are to be trained again, after something was frozen. */
void td__model_list_trainable(td_model *model);
/* td_model_build without initial values: whoever loads a model writes every parameter. */
TD_NODISCARD td_status td__model_build_raw(td_model *model, td_error *error);
/* The function and user pointer of a custom layer; false when it is another kind. */
bool td__model_custom(const td_model *model, size_t layer, td_custom_forward **forward,
                      void **user);
/* Writes a layer's options as keys and values again. */
td_status td__layer_write_settings(td__layer *layer, td_error *error);
/* Which activation a layer's forward applies itself. */
void td__layer_choose_fused(td__layer *layer);

#endif
