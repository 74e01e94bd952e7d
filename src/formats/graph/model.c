/* A model of custom layers over one run of a graph. */
#include "graph/model.h"

#include "base/memory.h"
#include "graph/source.h"
#include "nn/model.h"
#include "tape/tape.h"

#include <stdio.h>
#include <string.h>

#define MAX_NODES 20000
/* Of memory for running a graph once, before its parameters are made; and this many times the file,
 * whose quantised weights become floats. */
#define BASE_LIMIT ((size_t)64 << 20)
#define FILE_LIMIT ((size_t)16)

/* --- the source's life -------------------------------------------------------------------- */

static void source_destroy(td__graph_source *source) {
    if (source) {
        td__graph_run_destroy(source->run);
        td__graph_destroy(source->graph);
        td__free(source->facts);
        td__free(source->skip);
        td__free(source->classes);
        td__free(source->class_texts);
        td__free(source->layers);
        td__free(source->parameters);
        td__free(source->file);
        td__graph_plan_release(&source->plan);
        td__free(source);
    }
}

/* Each layer of the model holds it. */
static void layer_done(void *user) {
    td__graph_layer *layer = user;
    if (--layer->source->references == 0) {
        source_destroy(layer->source);
    }
}

/* --- running ------------------------------------------------------------------------------ */

/* Whole numbers, which a model takes as int32 or float, in ONNX's storage. */
static td_tensor *as_integers(td_tape *tape, const td_tensor *x) {
    td_tensor *y = td__output(tape, TD_INT64, &x->shape);
    for (int64_t i = 0; y && i < y->count; i++) {
        int64_t *to = (int64_t *)y->data + i;
        switch (x->dtype) {
        case TD_INT32:
            *to = ((const int32_t *)x->data)[i];
            break;
        case TD_INT64:
            *to = ((const int64_t *)x->data)[i];
            break;
        case TD_UINT8:
            *to = ((const uint8_t *)x->data)[i];
            break;
        case TD_FLOAT32:
            *to = (int64_t)td__floats(x)[i];
            break;
        default:
            return td__fail(tape, TD_DTYPE, "its input must be whole numbers");
        }
    }
    return y;
}

static bool begin_graph_pass(td__graph_source *source, td_tape *tape, td_tensor *input) {
    const td__graph *graph = source->graph;
    int32_t value = graph->inputs[0];
    td__graph_type type = graph->values[value].type;
    td_dtype storage = td__graph_storage(type);
    if (source->fixed_batch && input->shape.dims[0] != source->fixed_batch) {
        td__fail(tape, TD_BAD_SHAPE,
                 "the graph has a fixed batch: it runs on %lld examples, got %lld",
                 (long long)source->fixed_batch, (long long)input->shape.dims[0]);
        return false;
    }
    source->batch = input->shape.dims[0];
    td__graph_run_begin(source->run);
    td__graph_run_set_batch(source->run, graph->values[value].shape.dims[0], source->batch);
    if (storage == TD_INT64) {
        input = as_integers(tape, input);
    } else if (!td__check_float(tape, "onnx", "input", input)) {
        return false;
    }
    *td__graph_run_value(source->run, value) =
        source->input_last ? (td__graph_value){.type = type, .channels_last = input}
                           : (td__graph_value){.type = type, .plain = input};
    return input;
}

static td_tensor *batch_first(td_tape *tape, td_tensor *x) {
    int32_t order[TD_MAX_RANK];
    for (int32_t i = 0; i < x->shape.rank; i++) {
        order[i] = i < 2 ? 1 - i : i;
    }
    return td_transpose(tape, x, order);
}

static bool is_result(const td__graph *graph, int32_t value) {
    bool found = false;
    for (size_t i = 0; i < graph->output_count; i++) {
        found = found || graph->outputs[i] == value;
    }
    return found;
}

/* What a file says of shapes that do not follow from its graph may be wrong. */
static td_tensor *checked(const td__graph_layer *layer, td_tape *tape, td_tensor *y) {
    bool fits = y->shape.rank == layer->shape.rank + 1 && y->shape.dims[0] == layer->source->batch;
    for (int32_t i = 0; fits && i < layer->shape.rank; i++) {
        fits = layer->shape.dims[i] < 0 || layer->shape.dims[i] == y->shape.dims[i + 1];
    }
    char own[TD_SHAPE_TEXT_SIZE], wanted[TD_SHAPE_TEXT_SIZE];
    return fits ? y
                : td__fail(tape, TD_BAD_SHAPE,
                           "it puts out %s of a batch of %lld; of one example it would be %s",
                           td_shape_text(&y->shape, own), (long long)layer->source->batch,
                           td_shape_text(&layer->shape, wanted));
}

static td_tensor *run_layer(void *user, td_tape *tape, td_tensor *const *inputs,
                            td_tensor *const *parameters) {
    const td__graph_layer *layer = user;
    td__graph_source *source = layer->source;
    if (layer == source->layers && !begin_graph_pass(source, tape, inputs[0])) {
        return NULL;
    }
    for (size_t i = 0; i < layer->parameter_count; i++) {
        const td__graph_parameter *p = &source->parameters[layer->first_parameter + i];
        *td__graph_run_value(source->run, p->value) = td__graph_value_of(parameters[i], p->form);
    }
    for (size_t n = layer->first; n < layer->end; n++) {
        if (!source->skip[n] && !td__graph_run_nodes(source->run, tape, n, n + 1)) {
            return NULL;
        }
    }
    if (tape->together && !is_result(source->graph, layer->output)) {
        return inputs[0]; /* the run has its values, some of them not; nobody else looks at them */
    }
    bool last = source->facts[layer->output].last;
    td_tensor *y =
        (last ? td__graph_run_last : td__graph_run_plain)(source->run, tape, layer->output);
    bool turned = source->time_first && layer->output == source->graph->outputs[0];
    y = y && turned ? batch_first(tape, y) : y;
    return y && is_result(source->graph, layer->output) ? checked(layer, tape, y) : y;
}

/* --- the input ---------------------------------------------------------------------------- */

/* What the nodes that read a value say about its channels: 1 they come first, -1 last, 0 nothing. */
static int channels_of(const td__graph *graph, int32_t value, int depth) {
    static const char *const images[] = {"AveragePool",   "BatchNormalization",    "Conv",
                                         "ConvTranspose", "InstanceNormalization", "LRN",
                                         "MaxPool"};
    static const char *const same[] = {"Add",      "Cast", "Clip", "Div",  "Dropout",
                                       "Identity", "Mul",  "Pad",  "Relu", "Sub"};
    int found = 0;
    for (size_t n = 0; n < graph->node_count && !found; n++) {
        const td__graph_node *node = &graph->nodes[n];
        const int64_t *order;
        if (node->input_count == 0 || node->inputs[0] != value) {
            continue;
        }
        for (size_t i = 0; i < sizeof images / sizeof *images; i++) {
            found = strcmp(node->op_type, images[i]) == 0 ? 1 : found;
        }
        if (strcmp(node->op_type, "Transpose") == 0 && td__graph_ints(node, "perm", &order) >= 3 &&
            order[0] == 0 && order[1] != 1) {
            found = order[2] == 1 ? -1 : 0;
        }
        for (size_t i = 0; i < sizeof same / sizeof *same && !found && depth < 8; i++) {
            if (strcmp(node->op_type, same[i]) == 0 && node->outputs[0] >= 0) {
                found = channels_of(graph, node->outputs[0], depth + 1);
            }
        }
    }
    return found;
}

/* Images (rank 4) and sequences (rank 3) whose channels come first are taken with them last. */
static void choose_input(td__graph_source *source) {
    const td__graph *graph = source->graph;
    const td__graph_info *info = &graph->values[graph->inputs[0]];
    const td_shape *shape = &info->shape;
    int32_t rank = shape->rank;
    int channels = channels_of(graph, graph->inputs[0], 0);
    if (rank == 4 && channels == 0) {
        bool few_last = shape->dims[3] >= 1 && shape->dims[3] <= 4 && shape->dims[1] > 4;
        channels = few_last ? -1 : 1;
    }
    source->input_last =
        rank >= 3 && rank <= 4 && channels > 0 && td__graph_storage(info->type) == TD_FLOAT32;
    source->input = (td_shape){.rank = rank - 1};
    for (int32_t i = 1; i < rank; i++) {
        int32_t to = source->input_last ? (i == 1 ? rank - 2 : i - 2) : i - 1;
        source->input.dims[to] = shape->dims[i];
    }
}

/* (…, channels) as (channels, …); the batch stays in front. */
static td_shape channels_first(td_shape shape) {
    int64_t channels = shape.dims[shape.rank - 1];
    for (int32_t i = shape.rank - 1; i > 1; i--) {
        shape.dims[i] = shape.dims[i - 1];
    }
    shape.dims[1] = channels;
    return shape;
}

void td__graph_choose_output(td__graph_source *source) {
    const td__graph *graph = source->graph;
    for (size_t i = 0; i < graph->output_count; i++) {
        td__graph_fact *fact = &source->facts[graph->outputs[i]];
        int32_t rank = fact->shape.rank;
        bool sequence = rank == 3 && source->input_last && source->input.rank == 2;
        if (fact->last && fact->users == 1 && rank != 4 && !sequence) {
            fact->shape = channels_first(fact->shape);
            fact->last = false;
        }
    }
    source->output_last = source->facts[graph->outputs[0]].last;
}

static td_status check_input(const td__graph *graph, td_error *error) {
    if (graph->input_count != 1 || graph->output_count == 0) {
        return td_error_set(
            error, TD_NO_MODEL,
            "it has %zu inputs and %zu outputs, a model has one input; `tapedeck predict MODEL "
            "--input NAME=FILE … --output NAME=FILE …` runs it",
            graph->input_count, graph->output_count);
    }
    const td__graph_info *info = &graph->values[graph->inputs[0]];
    if (!td__graph_is_stored(info->type) || td__graph_storage(info->type) == TD_FLOAT64) {
        return td_error_set(error, TD_UNSUPPORTED,
                            "its input '%.100s' is of type %s; it must be float or integer",
                            info->name, td__graph_type_name(info->type));
    }
    if (!info->has_shape || info->shape.rank < 1) {
        return td_error_set(error, TD_UNSUPPORTED,
                            "its input '%.100s' %s; its first axis must be the batch", info->name,
                            info->has_shape ? "has no axes" : "has no shape");
    }
    if (graph->node_count > MAX_NODES) {
        return td_error_set(error, TD_UNSUPPORTED, "it has %zu nodes; %d are supported",
                            graph->node_count, MAX_NODES);
    }
    return TD_OK;
}

/* --- making the model --------------------------------------------------------------------- */

/* The layers that a layer's nodes read; layer -1 is the model's input. */
static size_t find_from(const td__graph_source *source, const td__graph_layer *layer,
                        const char *from[TD_MAX_FROM]) {
    const td__graph *graph = source->graph;
    int32_t seen[TD_MAX_FROM];
    size_t count = 0;
    for (size_t n = layer->first; n <= layer->end; n++) {
        const td__graph_node *node = n < layer->end ? &graph->nodes[n] : NULL;
        size_t inputs = node ? (source->skip[n] ? 0 : node->input_count) : 1;
        for (size_t i = 0; i < inputs; i++) {
            int32_t v = node ? node->inputs[i] : layer->output;
            if (v < 0 || source->facts[v].constant || count == TD_MAX_FROM) {
                continue;
            }
            int32_t made_by = v == graph->inputs[0] ? -1 : source->facts[v].layer;
            bool known = made_by == (int32_t)(layer - source->layers);
            for (size_t k = 0; k < count; k++) {
                known = known || seen[k] == made_by;
            }
            if (!known) {
                seen[count] = made_by;
                from[count++] = made_by < 0 ? "input" : source->layers[made_by].name;
            }
        }
    }
    return count;
}

/* parameters has room for those of any layer. */
static void add_layers(td_model *model, td__graph_source *source, td_custom_parameter *parameters) {
    int32_t input = source->graph->inputs[0];
    bool integers = td__graph_storage(source->graph->values[input].type) == TD_INT64;
    size_t count = source->layer_count; /* with the last layer that is refused the source ends */
    for (size_t i = 0; i < count; i++) {
        td__graph_layer *layer = &source->layers[i];
        td_custom_layer options = {.size = sizeof options,
                                   .name = layer->name,
                                   .word = layer->word,
                                   .output = layer->shape,
                                   .parameters = parameters,
                                   .parameter_count = layer->parameter_count,
                                   .integer_input = integers,
                                   .forward = run_layer,
                                   .user = layer,
                                   .destroy = layer_done};
        (void)find_from(source, layer, options.from);
        for (size_t k = 0; k < layer->parameter_count; k++) {
            const td__graph_parameter *p = &source->parameters[layer->first_parameter + k];
            parameters[k] = (td_custom_parameter){
                .name = p->name, .shape = p->shape, .moving_average = p->moving_average};
        }
        td_model_add_layer(model, TD_LAYER_CUSTOM, &options);
    }
}

/* Values go into the model's tensors, and the graph releases its own. */
static void move_weights(td_model *model, td__graph_source *source, bool stripped) {
    for (size_t i = 0; i < source->parameter_count; i++) {
        const td__graph_parameter *p = &source->parameters[i];
        td__graph_constant *constant = &source->graph->values[p->value].constant;
        if (!stripped) {
            td__graph_layout_copy(p->node, p->form, &p->given, constant->tensor->data, false,
                                  td_tensor_data(td_model_parameter_at(model, i)->tensor));
        }
        td_tensor_destroy(constant->tensor);
        constant->tensor = NULL;
        td__graph_run_preset(source->run, p->value, (td__graph_value){0});
    }
}

/* The file's name without folder and ending: graphs are called "torch_jit" or "tf2onnx". */
static void model_name(const char *path, char name[TD__GRAPH_NAME_SIZE]) {
    const char *slash = path ? strrchr(path, '/') : NULL;
    (void)snprintf(name, TD__GRAPH_NAME_SIZE, "%s", slash ? slash + 1 : path ? path : "model");
    char *dot = strrchr(name, '.');
    if (dot && dot > name) {
        *dot = 0;
    }
}

/* Takes the source. */
static td_model *build_model(td__graph_source *source, const td__graph_origin *from,
                             td_error *error) {
    td_custom_parameter *parameters = td__calloc(source->parameter_count + 1, sizeof *parameters);
    if (!parameters) {
        (void)td_error_set(error, TD_MEMORY, "out of memory");
        source_destroy(source);
        return NULL;
    }
    source->references = source->layer_count;
    td_model *model = td_model_create(from->name, source->input);
    add_layers(model, source, parameters); /* one that is not there releases the source, too */
    td__free(parameters);
    if (td__model_build_raw(model, error)) {
        td_model_destroy(model);
        return NULL;
    }
    model->facts = (td__model_facts){.input_first = source->input_last,
                                     .output_first = source->output_last,
                                     .fixed_batch = source->fixed_batch,
                                     .classes = source->classes,
                                     .class_count = source->class_count};
    move_weights(model, source, from->stripped);
    return model;
}

static const char *origin_text(const td__graph_origin *from) {
    return from->path ? from->path : "model";
}

/* Takes the graph. */
static td__graph_source *source_create(td__graph *graph, const td__graph_origin *from,
                                       td_error *error) {
    td__graph_source *source = td__calloc(1, sizeof *source);
    if (!source) {
        td__graph_destroy(graph);
        (void)td_error_set(error, TD_MEMORY, "%s: out of memory", origin_text(from));
        return NULL;
    }
    source->graph = graph;
    source->labels = -1;
    source->facts = td__calloc(graph->value_count + 1, sizeof *source->facts);
    source->skip = td__calloc(graph->node_count + 1, sizeof *source->skip);
    if (!source->facts || !source->skip) {
        source_destroy(source);
        (void)td_error_set(error, TD_MEMORY, "%s: out of memory", origin_text(from));
        return NULL;
    }
    return source;
}

/* Whether the model is to be made when the data is there; says what it takes. What is wrong with the
 * input is reported when it is made. */
static bool must_wait(td__graph_source *source, td__model_for *data) {
    if (data->known || check_input(source->graph, NULL)) {
        return false;
    }
    choose_input(source);
    data->takes = source->input;
    data->input_first = source->input_last;
    data->waits = false;
    for (int32_t i = 0; i < source->input.rank; i++) {
        data->waits = data->waits || source->input.dims[i] < 0;
    }
    return data->waits;
}

/* Takes the source. */
static td_model *make_model(td__graph_source *source, const td__graph_origin *from,
                            td_error *error) {
    size_t limit = BASE_LIMIT + FILE_LIMIT * from->bytes;
    td_error reason = {0};
    td__graph_prefer_scores(source); /* earlier: a run leaves out what no output reads */
    source->run = td__graph_run_create(source->graph, &reason);
    td_status status = source->run ? check_input(source->graph, &reason) : reason.status;
    if (!status) {
        td__graph_run_set_model(source->run);
        choose_input(source);
        source->example = from->example;
    }
    status = status ? status : td__graph_fold(source, limit / 2, &reason);
    status = status ? status : td__graph_probe(source, limit, &reason);
    if (!status) {
        td__graph_choose_output(source);
        td__graph_run_set_work(source->run, TD__GRAPH_WORK);
    }
    status = status ? status : td__graph_group(source, &reason);
    status = status ? status : td__graph_plan_make(source, &source->plan, &reason);
    if (!status) {
        td__graph_run_set_plan(source->run, &source->plan);
    }
    status = status ? status : td__graph_name_classes(source, &reason);
    td_model *model = NULL;
    if (status) {
        source_destroy(source);
    } else {
        model = build_model(source, from, &reason);
    }
    if (!model) {
        (void)td_error_set(error, reason.status, "%s: %s", origin_text(from), reason.text);
    }
    return model;
}

td_model *td__graph_model(td__graph *graph, const td__graph_origin *origin, td__model_for *data,
                          td_error *error) {
    char name[TD__GRAPH_NAME_SIZE];
    td__graph_origin from = *origin;
    model_name(origin->path, name);
    from.name = origin->name ? origin->name : name;
    from.example = data ? data->example : (td_shape){0};
    td__graph_source *source = source_create(graph, &from, error);
    if (source && data && must_wait(source, data)) {
        source_destroy(source);
        return NULL;
    }
    return source ? make_model(source, &from, error) : NULL;
}

td__graph_source *td__graph_source_of(const td_model *model) {
    td_custom_forward *forward;
    void *user;
    bool ours = td__model_custom(model, 0, &forward, &user) && forward == run_layer;
    return ours ? ((const td__graph_layer *)user)->source : NULL;
}
