#include "train/network.h"

#include <jansson.h>
#include <stdlib.h>

static json_t *layer_json(const td_model *model, const td_layer_info *layer) {
    char shape[TD_SHAPE_TEXT_SIZE];
    json_t *from = json_array();
    for (size_t i = 0; i < layer->input_count; i++) {
        if (layer->inputs[i] >= 0) {
            const td_layer_info *input = td_model_layer(model, (size_t)layer->inputs[i]);
            json_array_append_new(from, json_string(input->name));
        }
    }
    return json_pack("{s:s, s:s, s:s, s:I, s:o}", "name", layer->name, "kind",
                     td_layer_kind_name(layer->kind), "shape", td_shape_text(&layer->output, shape),
                     "parameters", (json_int_t)layer->parameter_elements, "from", from);
}

void td__note_network(td_trainer *trainer) {
    json_t *layers = json_array();
    for (size_t i = 0; i < td_model_layer_count(trainer->model); i++) {
        json_t *layer = layer_json(trainer->model, td_model_layer(trainer->model, i));
        if (layer) { /* a name that is no UTF-8 has none */
            json_array_append_new(layers, layer);
        }
    }
    char *text = json_dumps(layers, JSON_COMPACT);
    if (text) {
        (void)td_deck_note(trainer->recording.deck, "network", text);
    }
    free(text); // NOLINT: jansson's own
    json_decref(layers);
}
