/* What is known when the file has been read: parameters, and what follows from constants alone. */
#include "base/memory.h"
#include "graph/source.h"
#include "tape/tape.h"

#include <string.h>

/* --- roles -------------------------------------------------------------------------------- */

typedef struct role {
    const char *op_type;
    uint8_t input;
    const char *name; /* as Keras calls it; NULL: a setting, never trained */
    td__graph_form form;
    bool moving_average;
} role;

static const role roles[] = {
    {"BatchNormalization", 1, "gamma", TD__GRAPH_AS_IT_IS, false},
    {"BatchNormalization", 2, "beta", TD__GRAPH_AS_IT_IS, false},
    {"BatchNormalization", 3, "moving_mean", TD__GRAPH_AS_IT_IS, true},
    {"BatchNormalization", 4, "moving_variance", TD__GRAPH_AS_IT_IS, true},
    {"Clip", 1, NULL, TD__GRAPH_AS_IT_IS, false},
    {"Clip", 2, NULL, TD__GRAPH_AS_IT_IS, false},
    {"Conv", 1, "kernel", TD__GRAPH_AS_KERNEL, false},
    {"Conv", 2, "bias", TD__GRAPH_AS_IT_IS, false},
    {"ConvTranspose", 1, "kernel", TD__GRAPH_AS_KERNEL, false},
    {"ConvTranspose", 2, "bias", TD__GRAPH_AS_IT_IS, false},
    {"Dropout", 1, NULL, TD__GRAPH_AS_IT_IS, false},
    {"FusedConv", 1, "kernel", TD__GRAPH_AS_KERNEL, false},
    {"FusedConv", 2, "bias", TD__GRAPH_AS_IT_IS, false},
    {"FusedGemm", 1, "kernel", TD__GRAPH_AS_KERNEL, false},
    {"FusedGemm", 2, "bias", TD__GRAPH_AS_IT_IS, false},
    {"FusedMatMul", 1, "kernel", TD__GRAPH_AS_IT_IS, false},
    {"GRU", 1, "kernel", TD__GRAPH_AS_GATES, false},
    {"GRU", 2, "recurrent_kernel", TD__GRAPH_AS_GATES, false},
    {"GRU", 3, "bias", TD__GRAPH_AS_BIASES, false},
    {"Gather", 0, "embeddings", TD__GRAPH_AS_IT_IS, false},
    {"Gemm", 1, "kernel", TD__GRAPH_AS_KERNEL, false},
    {"Gemm", 2, "bias", TD__GRAPH_AS_IT_IS, false},
    {"InstanceNormalization", 1, "gamma", TD__GRAPH_AS_IT_IS, false},
    {"InstanceNormalization", 2, "beta", TD__GRAPH_AS_IT_IS, false},
    {"LSTM", 1, "kernel", TD__GRAPH_AS_GATES, false},
    {"LSTM", 2, "recurrent_kernel", TD__GRAPH_AS_GATES, false},
    {"LSTM", 3, "bias", TD__GRAPH_AS_BIASES, false},
    {"LSTM", 7, "peepholes", TD__GRAPH_AS_IT_IS, false},
    {"LayerNormalization", 1, "gamma", TD__GRAPH_AS_IT_IS, false},
    {"LayerNormalization", 2, "beta", TD__GRAPH_AS_IT_IS, false},
    {"MatMul", 1, "kernel", TD__GRAPH_AS_IT_IS, false},
    {"OneHot", 2, NULL, TD__GRAPH_AS_IT_IS, false},
    {"PRelu", 1, "alpha", TD__GRAPH_AS_IT_IS, false},
    {"Pad", 2, NULL, TD__GRAPH_AS_IT_IS, false},
    {"Pow", 1, NULL, TD__GRAPH_AS_IT_IS, false},
    {"RNN", 1, "kernel", TD__GRAPH_AS_GATES, false},
    {"RNN", 2, "recurrent_kernel", TD__GRAPH_AS_GATES, false},
    {"RNN", 3, "bias", TD__GRAPH_AS_BIASES, false},
    {"Range", 0, NULL, TD__GRAPH_AS_IT_IS, false},
    {"Range", 1, NULL, TD__GRAPH_AS_IT_IS, false},
    {"Range", 2, NULL, TD__GRAPH_AS_IT_IS, false},
    {"Resize", 1, NULL, TD__GRAPH_AS_IT_IS, false},
    {"Resize", 2, NULL, TD__GRAPH_AS_IT_IS, false},
    {"Upsample", 1, NULL, TD__GRAPH_AS_IT_IS, false},
};

static const role *role_of(const td__graph_node *node, size_t input) {
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        if (roles[i].input == input && strcmp(roles[i].op_type, node->op_type) == 0) {
            return &roles[i];
        }
    }
    return NULL;
}

const char *td__graph_role(const td__graph_node *node, size_t input, td__graph_form *form,
                           bool *moving_average) {
    const role *found = role_of(node, input);
    *form = found ? found->form : TD__GRAPH_AS_IT_IS;
    *moving_average = found && found->moving_average;
    if (found && strstr(node->op_type, "Gemm") && !td__graph_int(node, "transB", 0)) {
        *form = TD__GRAPH_AS_IT_IS; /* (in, out) already */
    }
    return found ? found->name : NULL;
}

bool td__graph_is_layer(const td__graph_node *node, bool has_parameters) {
    bool any = false;
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        bool recurrent = roles[i].form == TD__GRAPH_AS_GATES;
        any = any || (roles[i].name && (has_parameters || recurrent) &&
                      strcmp(roles[i].op_type, node->op_type) == 0);
    }
    return any;
}

/* --- facts -------------------------------------------------------------------------------- */

/* "dense.bias", "attention.query_kernel": of a single number, only the name says it. */
static bool is_named_parameter(const char *name) {
    static const char *const words[] = {"bias", "kernel",      "weight",          "gamma",
                                        "beta", "moving_mean", "moving_variance", "embeddings"};
    const char *last = name ? strrchr(name, '.') : NULL;
    for (size_t i = 0; last && i < sizeof words / sizeof *words; i++) {
        size_t length = strlen(last + 1), own = strlen(words[i]);
        if (length >= own && strcmp(last + 1 + length - own, words[i]) == 0 &&
            (length == own || last[length - own] == '_')) {
            return true;
        }
    }
    return false;
}

/* Float constants that are no scalars, or have a role or a parameter's name, may be trained; unless
 * one of their users takes them for a setting. */
static void mark_parameters(td__graph_source *source) {
    const td__graph *graph = source->graph;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t n = 0; n < graph->node_count; n++) {
            const td__graph_node *node = &graph->nodes[n];
            for (size_t i = 0; i < node->input_count && !source->skip[n]; i++) {
                int32_t v = node->inputs[i];
                const td__graph_constant *constant = v < 0 ? NULL : &graph->values[v].constant;
                if (!constant || !constant->tensor || constant->type != TD__GRAPH_FLOAT) {
                    continue;
                }
                const role *known = role_of(node, i);
                bool may = constant->tensor->shape.rank > 0 &&
                           (constant->tensor->count > 1 || (known && known->name) ||
                            is_named_parameter(graph->values[v].name));
                if (pass == 0) {
                    source->facts[v].parameter = source->facts[v].parameter || may;
                } else if (known && !known->name) {
                    source->facts[v].parameter = false;
                }
            }
        }
    }
}

/* A parameter that all its readers take for the same thing can be kept in that form. */
static void choose_forms(td__graph_source *source) {
    const td__graph *graph = source->graph;
    for (size_t n = 0; n < graph->node_count; n++) {
        const td__graph_node *node = &graph->nodes[n];
        for (size_t i = 0; i < node->input_count && !source->skip[n]; i++) {
            td__graph_fact *fact = node->inputs[i] < 0 ? NULL : &source->facts[node->inputs[i]];
            td__graph_form form;
            bool moving_average;
            if (!fact || !fact->parameter) {
                continue;
            }
            (void)td__graph_role(node, i, &form, &moving_average);
            const td_tensor *tensor = graph->values[node->inputs[i]].constant.tensor;
            form = td__graph_layout_fits(node, form, &tensor->shape) ? form : TD__GRAPH_AS_IT_IS;
            fact->form = !fact->reader || fact->form == form ? form : TD__GRAPH_AS_IT_IS;
            fact->reader = fact->reader ? fact->reader : node;
        }
    }
}

/* The tensor of a node that is a constant; NULL: it is none, or is one of listed numbers. */
static td__graph_constant *constant_node(const td__graph_node *node) {
    if (strcmp(node->op_type, "Constant") != 0 || *node->domain || node->output_count != 1) {
        return NULL;
    }
    const td__graph_attribute *value = td__graph_attribute_of(node, "value");
    return value && value->kind == TD__GRAPH_ATTRIBUTE_TENSOR && node->outputs[0] >= 0
               ? (td__graph_constant *)&value->constant /* the graph is the source's own */
               : NULL;
}

/* Some exporters (Paddle2ONNX) have all weights in Constant nodes: they are initialisers like any
 * other from here on. */
static void take_constants(td__graph_source *source) {
    td__graph *graph = source->graph;
    for (size_t n = 0; n < graph->node_count; n++) {
        td__graph_constant *from = constant_node(&graph->nodes[n]);
        if (from) {
            int32_t v = graph->nodes[n].outputs[0];
            graph->values[v].constant = *from;
            td__graph_run_preset(source->run, v,
                                 (td__graph_value){.type = from->type, .plain = from->tensor});
            from->tensor = NULL;
        }
    }
}

/* Of a stripped file only parameters lack values. */
static td_status check_attributes(const td__graph *graph, td_error *error) {
    for (size_t n = 0; n < graph->node_count; n++) {
        const td__graph_node *node = &graph->nodes[n];
        for (size_t i = 0; i < node->attribute_count; i++) {
            const td_tensor *tensor = node->attributes[i].constant.tensor;
            if (tensor && !tensor->data && tensor->count > 0) {
                return td_error_set(error, TD_FORMAT,
                                    "attribute '%.100s' of node %zu has no values",
                                    node->attributes[i].name, n);
            }
        }
    }
    return TD_OK;
}

/* Constants that are computed with must be aligned, and stay when the file's bytes go. */
static td_status own_constants(td__graph_source *source, td_error *error) {
    td__graph *graph = source->graph;
    for (size_t v = 0; v < graph->value_count; v++) {
        td__graph_constant *constant = &graph->values[v].constant;
        if (!constant->tensor || constant->tensor->owns_data || source->facts[v].parameter) {
            continue;
        }
        if (!constant->tensor->data && constant->tensor->count > 0) {
            return td_error_set(error, TD_FORMAT, "constant '%.100s' has no values",
                                graph->values[v].name);
        }
        td_tensor *copy = td_tensor_from(NULL, constant->tensor->dtype, constant->tensor->shape,
                                         constant->tensor->data, error);
        if (!copy) {
            return TD_MEMORY;
        }
        td_tensor_destroy(constant->tensor);
        copy->weight = true;
        constant->tensor = copy;
        td__graph_run_preset(source->run, (int32_t)v,
                             (td__graph_value){.type = constant->type, .plain = copy});
    }
    return TD_OK;
}

/* Values that lead to an output, and who reads them. Other nodes are skipped. */
static void mark_needed(td__graph_source *source) {
    const td__graph *graph = source->graph;
    for (size_t i = 0; i < graph->output_count; i++) {
        source->facts[graph->outputs[i]].needed = true;
        source->facts[graph->outputs[i]].users++;
        source->facts[graph->outputs[i]].user = INT32_MAX;
    }
    for (size_t n = graph->node_count; n-- > 0;) {
        const td__graph_node *node = &graph->nodes[n];
        bool needed = false;
        for (size_t i = 0; i < node->output_count; i++) {
            needed = needed || (node->outputs[i] >= 0 && source->facts[node->outputs[i]].needed);
        }
        source->skip[n] = !needed || constant_node(node);
        for (size_t i = 0; needed && i < node->input_count; i++) {
            if (node->inputs[i] >= 0) {
                td__graph_fact *fact = &source->facts[node->inputs[i]];
                fact->user = fact->users++ ? fact->user : (int32_t)n;
                fact->needed = true;
            }
        }
    }
}

/* An Identity of a constant is the constant: exporters write equal weights once and pass them on. */
static void see_through_identities(td__graph_source *source, int32_t *same) {
    td__graph *graph = source->graph;
    for (size_t v = 0; v < graph->value_count; v++) {
        same[v] = (int32_t)v;
    }
    for (size_t n = 0; n < graph->node_count; n++) {
        td__graph_node *node = &graph->nodes[n];
        int32_t *inputs = (int32_t *)node->inputs; /* the graph is the source's own */
        for (size_t i = 0; i < node->input_count; i++) {
            inputs[i] = inputs[i] < 0 ? inputs[i] : same[inputs[i]];
        }
        if (strcmp(node->op_type, "Identity") == 0 && !*node->domain &&
            graph->values[inputs[0]].constant.tensor && node->outputs[0] >= 0) {
            same[node->outputs[0]] = inputs[0];
        }
    }
}

/* --- folding ------------------------------------------------------------------------------ */

static bool is_foldable(const td__graph_source *source, const td__graph_node *node) {
    bool all = !td__graph_is_random(node);
    for (size_t i = 0; i < node->input_count; i++) {
        const td__graph_fact *fact = node->inputs[i] < 0 ? NULL : &source->facts[node->inputs[i]];
        all = all && (!fact || (fact->constant && !fact->parameter));
    }
    return all;
}

/* Sequences, and text that lives on the tape, are made anew in every run. */
static bool can_keep(const td__graph_source *source, const td__graph_node *node) {
    bool all = true;
    for (size_t i = 0; i < node->output_count; i++) {
        const td__graph_value *value =
            node->outputs[i] < 0 ? NULL : td__graph_run_value(source->run, node->outputs[i]);
        bool text =
            value && value->type == TD__GRAPH_STRING && value->plain && value->plain->recording;
        all = all && (!value || (!value->list && !value->none && !text));
    }
    return all;
}

/* Keeps what the node made, as constants of the graph. What it did not make but passed on is one
 * already. */
static td_status keep_outputs(td__graph_source *source, td_tape *tape, const td__graph_node *node,
                              size_t limit, size_t *used, td_error *error) {
    for (size_t i = 0; i < node->output_count; i++) {
        int32_t v = node->outputs[i];
        const td__graph_value *value = v < 0 ? NULL : td__graph_run_value(source->run, v);
        td_tensor *tensor = value ? td__graph_run_plain(source->run, tape, v) : NULL;
        if (!tensor) { /* an output that the operator did not make */
            continue;
        }
        td__graph_type type = value->type;
        if (tensor->recording) {
            *used += (size_t)tensor->count * td_dtype_size(tensor->dtype);
            if (*used > limit) {
                return td_error_set(error, TD_MEMORY, "its constants alone take more than %zu MiB",
                                    limit >> 20);
            }
            tensor = td_tensor_from(NULL, tensor->dtype, tensor->shape, tensor->data, error);
            if (!tensor) {
                return TD_MEMORY;
            }
            tensor->weight = true;
            source->graph->values[v].constant = (td__graph_constant){type, tensor};
        }
        td__graph_run_preset(source->run, v, (td__graph_value){.type = type, .plain = tensor});
        source->facts[v].constant = true;
    }
    return TD_OK;
}

td_status td__graph_fold(td__graph_source *source, size_t limit, td_error *error) {
    const td__graph *graph = source->graph;
    td_tape *tape = td_tape_create(
        &(td_tape_options){.size = sizeof(td_tape_options), .no_history = true}, error);
    if (!tape) {
        return TD_MEMORY;
    }
    int32_t *same = td__calloc(graph->value_count + 1, sizeof *same);
    if (!same) {
        td_tape_destroy(tape);
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    take_constants(source);
    see_through_identities(source, same);
    td__free(same);
    for (size_t v = 0; v < graph->value_count; v++) {
        source->facts[v].constant = graph->values[v].constant.tensor != NULL;
        source->facts[v].layer = -1;
    }
    mark_needed(source);
    mark_parameters(source);
    choose_forms(source);
    td__tape_limit(tape, limit);
    td__graph_run_set_work(source->run, TD__GRAPH_WORK_BEFORE);
    td_status status = check_attributes(graph, error);
    status = status ? status : own_constants(source, error);
    size_t used = 0;
    for (size_t n = 0; n < graph->node_count && !status; n++) {
        if (source->skip[n] || !is_foldable(source, &graph->nodes[n])) {
            continue;
        }
        td__graph_run_begin(source->run);
        if (!td__graph_run_nodes(source->run, tape, n, n + 1)) {
            status = td_tape_status(tape, error);
        } else if (can_keep(source, &graph->nodes[n])) {
            source->skip[n] = true;
            status = keep_outputs(source, tape, &graph->nodes[n], limit, &used, error);
        }
        td_tape_reset(tape);
    }
    td_tape_destroy(tape);
    return status;
}
