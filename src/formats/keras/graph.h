/* The layers of a Keras configuration, how they are connected, and an order to run them in.
 *
 * Sequential and Functional models, in the forms of Keras 3 and Keras 2; models within models are
 * laid flat. Everything that cannot be loaded is gathered in `refused`, so that one error can list it.
 */
#ifndef TAPEDECK_KERAS_GRAPH_H
#define TAPEDECK_KERAS_GRAPH_H

#include "keras/layer.h"

enum { TD__KERAS_INPUT = -1, TD__KERAS_TOP = -1 };

/* An entry of some model's list of layers: a layer, an InputLayer, or a model. Strings are owned. */
typedef struct td__keras_entry {
    char *name, *class_name;
    int32_t parent;               /* the entry of the model it is in, or TD__KERAS_TOP */
    const td__keras_class *class; /* NULL: an InputLayer, a model, or refused */
    const json_t *config;         /* borrowed; gone with the configuration */
    bool frozen;
    bool causal;      /* attention: a position sees none after it */
    bool with_number; /* x + 3 and x * 3: what is added, or multiplied by */
    double number;
    bool operation;              /* an operation of Keras 3, which its list of layers leaves out */
    bool mask_operation;         /* one that may be part of a mask (masks.h) */
    int32_t inputs[TD_MAX_FROM]; /* entries that are layers, or TD__KERAS_INPUT */
    size_t input_count;
    int32_t again; /* the entry whose layer this is, used again; -1: of its own */
    int32_t inner; /* of a model that is read: the first entry of its layers; 0: not read */
    int32_t layer; /* its number in our model, -1 when it has none */
    float *given;  /* owned; values of its parameters that its configuration has, not the weights */
    size_t given_count;
} td__keras_entry;

/* Layers that cannot be loaded, by class and reason. */
typedef struct td__keras_refusal {
    char class_name[64], name[64], reason[TD__KERAS_REASON_SIZE];
    size_t count;
} td__keras_refusal;
enum { TD__KERAS_MAX_REFUSALS = 32 };

typedef struct td__keras_graph {
    const char *origin; /* for messages, borrowed */
    bool keras2;
    char *name;
    td_shape input; /* of one example */
    bool has_input;
    bool several; /* inputs: each is a layer, an entry of class InputLayer in the order */
    int32_t outputs[TD_MAX_OUTPUTS]; /* entries that are layers */
    size_t output_count;
    td__keras_entry *entries; /* in the file's order, a model before its layers */
    size_t count, capacity;
    int32_t *order; /* entries that are layers, each after those it reads; one output comes last */
    size_t order_count, order_capacity;
    td__keras_refusal refused[TD__KERAS_MAX_REFUSALS];
    size_t refused_count, refused_layers;
} td__keras_graph;

/* config: {"class_name": "Sequential", "config": {…}}. It must live as long as entries' configs are
 * used. TD_FORMAT, TD_UNSUPPORTED, TD_MEMORY; refusals alone are no failure. */
TD_NODISCARD td_status td__keras_graph_read(td__keras_graph *graph, const json_t *config,
                                            const char *origin, bool keras2, td_error *error);
void td__keras_graph_release(td__keras_graph *graph);

/* Whether a file can have weights of the entry: it is a layer, no input, and not one used again. */
static inline bool td__keras_has_weights(const td__keras_entry *entry) {
    return entry->layer >= 0 && entry->class && entry->again < 0;
}

/* The shape of one example of an InputLayer; false when it says none. */
bool td__keras_input_shape(const td__keras_entry *entry, td_shape *shape);

void td__keras_refuse(td__keras_graph *graph, const td__keras_entry *entry, const char *reason);
/* TD_UNSUPPORTED with all refusals; TD_OK when there are none. */
TD_NODISCARD td_status td__keras_graph_refused(const td__keras_graph *graph, td_error *error);

#endif
