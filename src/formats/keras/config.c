/* Writing config.json, as Keras 3 has it; see write.h. */
#include "base/memory.h"
#include "keras/class.h"
#include "keras/write.h"

#include <stdlib.h>
#include <string.h>

static json_t *shape_json(const td_shape *shape) {
    json_t *list = json_pack("[n]");
    for (int32_t i = 0; i < shape->rank; i++) {
        json_array_append_new(list,
                              shape->dims[i] < 0 ? json_null() : json_integer(shape->dims[i]));
    }
    return list;
}

/* One of the model's inputs: a layer, or (-1) the only one. */
static json_t *input_json(const td__keras_plan *plan, int32_t layer) {
    const td_layer_info *info = layer < 0 ? NULL : td_model_layer(plan->model, (size_t)layer);
    td_shape shape = info ? info->output : td_model_input_shape(plan->model);
    const char *name = info ? info->name : plan->input_name;
    json_t *json =
        json_pack("{s:s, s:s, s:{s:o, s:s, s:s}, s:n}", "module", "keras.layers", "class_name",
                  "InputLayer", "config", "batch_shape", shape_json(&shape), "dtype",
                  td_dtype_name(info ? info->dtype : td_model_input_dtype(plan->model)), "name",
                  name, "registered_name");
    if (!plan->sequential) {
        json_object_set_new(json, "name", json_string(name));
        json_object_set_new(json, "inbound_nodes", json_array());
    }
    return json;
}

/* How many of the model's layers are its inputs. */
static size_t input_layers(const td_model *model) {
    size_t count = 0;
    while (count < td_model_layer_count(model) &&
           td__layer_kind_of(td_model_layer(model, count)->kind)->role == TD__ROLE_INPUT) {
        count++;
    }
    return count;
}

/* ["NAME", USE, 0] of a layer, or (-1) of the only input. */
static json_t *reference_json(const td__keras_plan *plan, int32_t from) {
    if (from < 0) {
        return json_pack("[s, i, i]", plan->input_name, 0, 0);
    }
    size_t layer = (size_t)from, original = td__keras_original(plan->model, layer);
    return json_pack("[s, i, i]", td_model_layer(plan->model, original)->name,
                     (int)td__keras_use(plan->model, layer), 0);
}

/* The output of a layer, or (-1) the model's input. */
static json_t *tensor_json(const td__keras_plan *plan, int32_t from) {
    const td_layer_info *layer = from < 0 ? NULL : td_model_layer(plan->model, (size_t)from);
    td_shape shape = layer ? layer->output : td_model_input_shape(plan->model);
    return json_pack("{s:s, s:{s:o, s:s, s:o}}", "class_name", "__keras_tensor__", "config",
                     "shape", shape_json(&shape), "dtype",
                     td_dtype_name(layer ? layer->dtype : td_model_input_dtype(plan->model)),
                     "keras_history", reference_json(plan, from));
}

/* Attention takes query, value and key; merging layers take a list; the others one tensor. */
static json_t *call_json(const td__keras_plan *plan, const td_layer_info *layer) {
    const td_value *setting = td__layer_setting(layer, "causal");
    bool causal = setting && setting->boolean;
    json_t *tensors = json_array();
    for (size_t i = 0; i < layer->input_count; i++) {
        json_array_append_new(tensors, tensor_json(plan, layer->inputs[i]));
    }
    if (td__layer_kind_of(layer->kind)->keras.storage == TD__KERAS_ATTENTION) {
        if (layer->input_count == 1) {
            json_array_append_new(tensors, tensor_json(plan, layer->inputs[0]));
        }
        return json_pack("{s:o, s:{s:b}}", "args", tensors, "kwargs", "use_causal_mask",
                         (int)causal);
    }
    if (causal) {
        return json_pack("{s:[o], s:{s:b}}", "args", tensors, "kwargs", "use_causal_mask", 1);
    }
    return layer->input_count > 1 ? json_pack("{s:[o], s:{}}", "args", tensors, "kwargs")
                                  : json_pack("{s:o, s:{}}", "args", tensors, "kwargs");
}

/* A node for each use of a layer. */
static json_t *nodes_json(const td__keras_plan *plan, size_t original) {
    json_t *nodes = json_array();
    for (size_t i = original; i < td_model_layer_count(plan->model); i++) {
        if (td__keras_original(plan->model, i) == original) {
            json_array_append_new(nodes, call_json(plan, td_model_layer(plan->model, i)));
        }
    }
    return nodes;
}

static json_t *layer_json(const td__keras_plan *plan, const td__keras_plan_layer *planned) {
    const td_layer_info *layer = td_model_layer(plan->model, planned->layer);
    json_t *config = json_copy(planned->config);
    json_object_set_new(config, "name", json_string(layer->name));
    const td__keras_option *trainable =
        td__keras_option_find(td__keras_class_of(layer->kind), "trainable");
    if (trainable->meaning != TD__KERAS_ABSENT) {
        json_object_set_new(config, "trainable", json_boolean(!layer->frozen));
    }
    json_object_set_new(config, "dtype", json_string("float32"));
    json_t *json = json_pack("{s:s, s:s, s:o, s:n}", "module", "keras.layers", "class_name",
                             planned->class_name, "config", config, "registered_name");
    if (!plan->sequential) {
        json_object_set_new(json, "name", json_string(layer->name));
        json_object_set_new(json, "inbound_nodes", nodes_json(plan, planned->layer));
    }
    return json;
}

static bool is_read(const td_model *model, size_t layer) {
    for (size_t k = layer + 1; k < td_model_layer_count(model); k++) {
        const td_layer_info *other = td_model_layer(model, k);
        for (size_t j = 0; j < other->input_count; j++) {
            if (other->inputs[j] == (int32_t)layer) {
                return true;
            }
        }
    }
    return false;
}

/* The model's own, then layers that nothing reads. */
static json_t *outputs_json(const td__keras_plan *plan) {
    const td_model *model = plan->model;
    size_t own = td_model_output_count(model);
    json_t *list = json_array();
    for (size_t i = 0; i < own; i++) {
        json_array_append_new(list, reference_json(plan, (int32_t)td_model_output_layer(model, i)));
    }
    for (size_t i = 0; i < td_model_layer_count(model); i++) {
        bool more = !is_read(model, i);
        for (size_t k = 0; more && k < own; k++) {
            more = td_model_output_layer(model, k) != i;
        }
        if (more) {
            json_array_append_new(list, reference_json(plan, (int32_t)i));
        }
    }
    return list;
}

static json_t *inputs_json(const td__keras_plan *plan) {
    size_t count = input_layers(plan->model);
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        json_array_append_new(list, reference_json(plan, (int32_t)i));
    }
    if (count == 0) {
        json_array_append_new(list, reference_json(plan, -1));
    }
    return list;
}

/* Keras allows no '/' in a name. */
static json_t *name_json(const td_model *model) {
    char *name = td__strdup(td_model_name(model));
    for (char *at = name; at && *at; at++) {
        *at = *at == '/' ? '_' : *at;
    }
    json_t *json = name ? json_string(name) : NULL;
    td__free(name);
    return json;
}

char *td__keras_config_write(const td__keras_plan *plan) {
    json_t *layers = json_array();
    size_t inputs = input_layers(plan->model);
    for (size_t i = 0; i < inputs; i++) {
        json_array_append_new(layers, input_json(plan, (int32_t)i));
    }
    if (inputs == 0) {
        json_array_append_new(layers, input_json(plan, -1));
    }
    for (size_t i = 0; i < plan->count; i++) {
        json_array_append_new(layers, layer_json(plan, &plan->layers[i]));
    }
    json_t *name = name_json(plan->model);
    json_t *root;
    if (plan->sequential) {
        root = json_pack("{s:s, s:s, s:{s:o, s:b, s:o}, s:n}", "module", "keras", "class_name",
                         "Sequential", "config", "name", name, "trainable", 1, "layers", layers,
                         "registered_name");
    } else {
        root =
            json_pack("{s:s, s:s, s:{s:o, s:b, s:o, s:o, s:o}, s:s}", "module",
                      "keras.src.models.functional", "class_name", "Functional", "config", "name",
                      name, "trainable", 1, "layers", layers, "input_layers", inputs_json(plan),
                      "output_layers", outputs_json(plan), "registered_name", "Functional");
    }
    char *text = root ? json_dumps(root, 0) : NULL;
    char *copy = text ? td__strdup(text) : NULL;
    json_decref(root);
    free(text); // NOLINT: jansson's own
    return copy;
}
