/* A model inside. Layers only read layers before them, so their order is an order to run them in.
 * model_layer.c makes a layer ready, model_build.c makes the model, model_run.c runs it, model_info.c
 * answers questions. */
#ifndef TAPEDECK_NN_MODEL_H
#define TAPEDECK_NN_MODEL_H

#include "nn/layer.h"

typedef struct td__parameter {
    td_parameter_info info;
    double l1, l2;
} td__parameter;

/* What the file a model came from says of it beside its layers. Zero: nothing. */
typedef struct td__model_facts {
    bool input_first, output_first; /* the file has the channels first, the model has them last */
    int64_t fixed_batch;            /* the only number of examples it runs on at a time; 0: any */
    const char *const
        *classes; /* what the output's columns are called; live as long as the model */
    size_t class_count;
} td__model_facts;

/* A model that is loaded for the data at hand. */
typedef struct td__model_for {
    bool known;       /* the data is: */
    td_shape example; /* what it has, for which the model is made whatever else would fit */
    /* Out, where the data is not known and axes of the input have any size: no model is made yet. */
    bool waits;
    td_shape takes;   /* one example, as the model takes it; -1: any size */
    bool input_first; /* as in the facts */
} td__model_for;

struct td_model {
    char *name;
    td_shape input_shape; /* of one example; -1: any */
    size_t input_count;   /* layers of kind input, which come first; 0: one unnamed input */
    /* Of the inputs in a row, where that is known of open ones …. */
    td_shape input_parts[TD_MAX_FROM];
    bool has_input_parts;            /* … which this says */
    int32_t outputs[TD_MAX_OUTPUTS]; /* layers; output_count 0: the last one */
    size_t output_count;
    td__layer **layers;
    size_t layer_count, layer_capacity;
    /* Layers by the hash of their names: index + 1, or 0; at least half are free. */
    uint32_t *slots;
    size_t slot_count;
    size_t named[TD_LAYER_KIND_COUNT]; /* layers of each kind without a name given */
    td_error error;                    /* the first of td_model_add_layer */
    td__model_facts facts;

    /* Once built. */
    bool built;
    td__parameter *parameters;
    size_t parameter_count;
    td_tensor **trainable; /* room for all parameters */
    size_t trainable_count;

    td_model_watcher *watcher;
    void *watcher_user;
    td_tensor *input;        /* of the last forward pass; NULL where each came by itself */
    td_tensor *const *given; /* while it runs: each input by itself; NULL: parts of input */
};

#define TD__MAXIMUM_LAYER_NAME 256
#define TD__MAXIMUM_DIMENSION 2147483647 /* so that a product of two fits int64_t */

/* A layer without a model: options zero. NULL when memory is exhausted. */
td__layer *td__layer_create(td_layer_kind kind, td_error *error);
/* Accepts NULL. */
void td__layer_destroy(td__layer *layer);
/* Options from keys and values, the rest by default; where goes in front of messages. */
td_status td__layer_set(const td_model *model, td__layer *layer, const td_setting *settings,
                        size_t count, const char *where, td_error *error);
/* Makes the layer that a wrapper's options name, with the options they point to. */
td_status td__layer_wrap(td__layer *layer, td_error *error);
/* Everything but joining the model. options are copied by now, with defaults filled in. */
td_status td__layer_complete(const td_model *model, td__layer *layer, td_error *error);

/* Makes room for the last layer's name among the slots, and puts it there; false when memory is
 * exhausted. */
bool td__model_index_last(td_model *model);
/* Whether a layer computes over all parts of a batch in training. */
bool td__model_is_synced(const td_model *model);
/* What the last forward pass left in the model, and the pass under way: td__model_state_size bytes, so that passes on
 * several tapes can take turns. Parameters are no part of it. */
size_t td__model_state_size(const td_model *model);
void td__model_state_save(const td_model *model, void *state);
void td__model_state_restore(td_model *model, const void *state);
const td__model_facts *td__model_facts_of(const td_model *model);
/* The first layer that takes values of an input as indices; NULL when there is none. */
const td_layer_info *td__model_reads_ids(const td_model *model);
/* Lists the parameters that are to be trained again, after something was frozen. */
void td__model_list_trainable(td_model *model);
/* td_model_build without initial values: whoever loads a model writes every parameter. */
TD_NODISCARD td_status td__model_build_raw(td_model *model, td_error *error);
/* The function and user pointer of a custom layer; false when it is another kind. */
bool td__model_custom(const td_model *model, size_t layer, td_custom_forward **forward,
                      void **user);
/* Writes a layer's options as keys and values again. */
td_status td__layer_write_settings(td__layer *layer, td_error *error);
/* How large the inputs in a row are, one shape for each: of inputs whose own shapes leave that open.
 * Shapes that do not fit are refused when the model runs. */
void td__model_set_input_parts(td_model *model, const td_shape *shapes);
/* Which activation a layer's forward applies itself. */
void td__layer_choose_fused(td__layer *layer);
/* Which steps of a layer's output count, in the last forward pass: 1 and 0, of the output's shape
 * without its last axis; NULL: all do. */
const td_tensor *td__model_mask(const td_model *model, size_t layer);

#endif
