/* Running a graph: the table of values, the forms they are in, and one node after another.
 *
 * Presets (constants and a model's parameters) live as long as the run; what operators make lives
 * on the tape, so a new recording begins with the presets alone.
 */
#include "graph/run.h"

#include "base/memory.h"
#include "graph/plugin.h"
#include "tape/tape.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct td__graph_run {
    const td__graph *graph;
    const td__graph_operator **operators; /* of each node */
    td__graph_value *values, *presets;    /* of each value */
    bool *read;                           /* of each value: by a node, or as an output */
    char label[96];                       /* of the node that is running */
    bool model;
    const td__graph_plan *plan; /* NULL: each node by itself */
    void *zeros;                /* while it is probed */
    size_t zero_bytes;
    int64_t declared, batch;  /* what the file says and what is given; equal when not known */
    td__graph_run **inner;    /* of the graphs in its nodes */
    td__graph_run *outermost; /* itself, where it is */
    int64_t work, max_work;   /* of the outermost: done in inner ones, in elements read */
};

/* --- making one --------------------------------------------------------------------------- */

/* An operator that is not known: where it is first used, and how often. */
typedef struct missing_operator {
    const td__graph_node *node;
    size_t first, count;
} missing_operator;

enum { MAX_MISSING = 32 }; /* more would not fit into an error */

static bool is_same(const td__graph_node *a, const td__graph_node *b) {
    return strcmp(a->op_type, b->op_type) == 0 && strcmp(a->domain, b->domain) == 0;
}

/* Of a graph and those in its nodes; kinds have been found before. */
static size_t find_missing(const td__graph *graph, size_t kinds,
                           missing_operator missing[MAX_MISSING]) {
    for (size_t i = 0; i < graph->node_count; i++) {
        const td__graph_node *node = &graph->nodes[i];
        bool known = td__graph_find_operator(node->domain, node->op_type, graph->opset);
        size_t k = 0;
        while (!known && k < kinds && !is_same(missing[k].node, node)) {
            k++;
        }
        if (!known && k < MAX_MISSING) {
            missing[k] = k == kinds ? (missing_operator){node, i, 1} : missing[k];
            missing[k].count += k < kinds;
            kinds += k == kinds;
        }
        for (size_t a = 0; a < node->attribute_count; a++) {
            if (node->attributes[a].graph) {
                kinds = find_missing(node->attributes[a].graph, kinds, missing);
            }
        }
    }
    return kinds;
}

/* "Foo (2 times, first node 'a/b'), Bar (node 7)" */
static td_status refuse_operators(const td__graph *graph, const missing_operator *missing,
                                  size_t kinds, td_error *error) {
    char list[TD_ERROR_TEXT_SIZE];
    size_t used = 0;
    for (size_t k = 0; k < kinds && used < sizeof list; k++) {
        const td__graph_node *node = missing[k].node;
        char times[48] = "", place[80];
        if (missing[k].count > 1) {
            (void)snprintf(times, sizeof times, "%zu times, first ", missing[k].count);
        }
        if (*node->name) {
            (void)snprintf(place, sizeof place, "node '%.60s'", node->name);
        } else {
            (void)snprintf(place, sizeof place, "node %zu", missing[k].first);
        }
        int written =
            snprintf(list + used, sizeof list - used, "%s%.60s%s%.60s (%s%s)", k ? ", " : "",
                     node->domain, *node->domain ? "." : "", node->op_type, times, place);
        used += written > 0 ? (size_t)written : 0;
    }
    td_error reason = {0};
    bool whole = td__operator_plugin_load(&reason);
    return td_error_set(error, TD_UNSUPPORTED, "operators of opset %lld that are not %s: %s%s%s%s",
                        (long long)graph->opset, whole ? "supported" : "available", list,
                        whole ? "" : " (further operators: ", whole ? "" : reason.text,
                        whole ? "" : ")");
}

static td_status check_counts(const td__graph_node *node, const td__graph_operator *known,
                              td_error *error) {
    size_t given = node->input_count - node->capture_count;
    bool inputs =
        given >= known->min_inputs && (known->max_inputs == 255 || given <= known->max_inputs);
    bool outputs = known->max_outputs == 255 || node->output_count <= known->max_outputs;
    for (size_t i = 0; inputs && i < known->min_inputs; i++) {
        inputs = node->inputs[i] >= 0;
    }
    if (inputs && outputs) {
        return TD_OK;
    }
    return td_error_set(error, inputs ? TD_UNSUPPORTED : TD_FORMAT,
                        "%s '%.100s': %zu inputs and %zu outputs are not what the operator has",
                        node->op_type, node->name, given, node->output_count);
}

static td_status find_operators(td__graph_run *run, td_error *error) {
    const td__graph *graph = run->graph;
    missing_operator missing[MAX_MISSING];
    size_t kinds = find_missing(graph, 0, missing);
    if (kinds) {
        return refuse_operators(graph, missing, kinds, error);
    }
    td_status status = TD_OK;
    for (size_t i = 0; i < graph->node_count && !status; i++) {
        const td__graph_node *node = &graph->nodes[i];
        run->operators[i] = td__graph_find_operator(node->domain, node->op_type, graph->opset);
        status = check_counts(node, run->operators[i], error);
    }
    return status;
}

static void mark_read(td__graph_run *run) {
    const td__graph *graph = run->graph;
    for (size_t n = 0; n < graph->node_count; n++) {
        for (size_t i = 0; i < graph->nodes[n].input_count; i++) {
            if (graph->nodes[n].inputs[i] >= 0) {
                run->read[graph->nodes[n].inputs[i]] = true;
            }
        }
    }
    for (size_t i = 0; i < graph->output_count; i++) {
        run->read[graph->outputs[i]] = true;
    }
}

static td__graph_run *create(const td__graph *graph, td__graph_run *outermost, td_error *error);

static td_status create_inner(td__graph_run *run, td_error *error) {
    const td__graph *graph = run->graph;
    for (size_t n = 0; n < graph->node_count; n++) {
        for (size_t i = 0; i < graph->nodes[n].attribute_count; i++) {
            const td__graph_attribute *attribute = &graph->nodes[n].attributes[i];
            if (attribute->graph) {
                td__graph_run *inner = create(attribute->graph, run->outermost, error);
                run->inner[attribute->inner] = inner;
                if (!inner) {
                    return TD_FORMAT;
                }
            }
        }
    }
    return TD_OK;
}

static td__graph_run *create(const td__graph *graph, td__graph_run *outermost, td_error *error) {
    td__graph_run *run = td__calloc(1, sizeof *run);
    if (run) {
        run->graph = graph;
        run->outermost = outermost ? outermost : run;
        run->max_work = TD__GRAPH_WORK;
        run->inner = td__calloc(graph->inner_count + 1, sizeof(td__graph_run *));
        run->operators = td__calloc(graph->node_count + 1, sizeof *run->operators);
        run->values = td__calloc(graph->value_count + 1, sizeof *run->values);
        run->presets = td__calloc(graph->value_count + 1, sizeof *run->presets);
        run->read = td__calloc(graph->value_count + 1, sizeof *run->read);
    }
    if (!run || !run->inner || !run->operators || !run->values || !run->presets || !run->read) {
        (void)td_error_set(error, TD_MEMORY, "out of memory for a graph of %zu nodes",
                           graph->node_count);
        td__graph_run_destroy(run);
        return NULL;
    }
    if (find_operators(run, error) || create_inner(run, error)) {
        td__graph_run_destroy(run);
        return NULL;
    }
    for (size_t i = 0; i < graph->value_count; i++) {
        const td__graph_constant *constant = &graph->values[i].constant;
        if (constant->tensor) {
            constant->tensor->weight = true;
        }
        run->presets[i] = (td__graph_value){.type = constant->type, .plain = constant->tensor};
    }
    mark_read(run);
    td__graph_run_begin(run);
    return run;
}

td__graph_run *td__graph_run_create(const td__graph *graph, td_error *error) {
    return create(graph, NULL, error);
}

void td__graph_run_destroy(td__graph_run *run) {
    if (run) {
        for (size_t i = 0; run->inner && i < run->graph->inner_count; i++) {
            td__graph_run_destroy(run->inner[i]);
        }
        td__free(run->inner);
        td__free(run->operators);
        td__free(run->values);
        td__free(run->presets);
        td__free(run->read);
        td__free(run);
    }
}

/* --- running ------------------------------------------------------------------------------ */

void td__graph_run_preset(td__graph_run *run, int32_t value, td__graph_value what) {
    run->presets[value] = what;
}

void td__graph_run_set_model(td__graph_run *run) {
    run->model = true;
}

void td__graph_run_set_plan(td__graph_run *run, const td__graph_plan *plan) {
    run->plan = plan;
}

void td__graph_run_set_probing(td__graph_run *run, void *zeros, size_t bytes) {
    run->zeros = zeros;
    run->zero_bytes = bytes;
}

void td__graph_run_set_batch(td__graph_run *run, int64_t declared, int64_t batch) {
    run->declared = declared;
    run->batch = batch;
}

void td__graph_run_set_work(td__graph_run *run, int64_t elements) {
    run->max_work = elements;
}

void td__graph_run_begin(td__graph_run *run) {
    run->work = 0;
    memcpy(run->values, run->presets, run->graph->value_count * sizeof *run->values);
}

void td__graph_run_set(td__graph_run *run, size_t input, td__graph_type type, td_tensor *tensor) {
    td__graph_run_set_value(run, input, (td__graph_value){.type = type, .plain = tensor});
}

void td__graph_run_set_value(td__graph_run *run, size_t input, td__graph_value value) {
    run->values[run->graph->inputs[input]] = value;
}

td__graph_value *td__graph_run_value(td__graph_run *run, int32_t value) {
    return &run->values[value];
}

static bool is_made(const td__graph_value *value) {
    return value->plain || value->channels_last || value->kernel || value->gates || value->list ||
           value->none;
}

static int64_t count_of(const td__graph_value *value) {
    const td_tensor *tensor = value->plain           ? value->plain
                              : value->channels_last ? value->channels_last
                              : value->kernel        ? value->kernel
                                                     : value->gates;
    return tensor ? tensor->count : value->list ? value->list->count : 1;
}

/* Inner graphs may run any number of times, whatever size the file has. */
static bool charge(td__graph_call *call, int64_t elements) {
    td__graph_run *all = call->run->outermost;
    if (call->run == all) {
        return true;
    }
    all->work += elements;
    return all->work <= all->max_work ||
           td__graph_fail(call, TD_RANGE, "the loop around it takes too long: over %lld steps",
                          (long long)all->max_work);
}

/* Text and sequences only reach operators that know them: what others made of them would be neither. */
static bool may_take(td__graph_call *call, size_t i, const td__graph_value *value) {
    if ((value->list || value->none) && !td__graph_takes_lists(call->node)) {
        return td__graph_fail(call, TD_DTYPE, "input %zu is %s", i,
                              value->list ? "a sequence" : "an optional value that is not there");
    }
    return value->list || value->none || value->type != TD__GRAPH_STRING ||
           td__graph_takes_text(call->node) ||
           td__graph_fail(call, TD_DTYPE, "input %zu is text", i);
}

static bool run_node(td__graph_run *run, td_tape *tape, size_t index) {
    const td__graph_node *node = &run->graph->nodes[index];
    const td__graph_step *step = run->plan && tape->together ? &run->plan->steps[index] : NULL;
    td__graph_call call = {.run = run,
                           .tape = tape,
                           .node = node,
                           .opset = run->graph->opset,
                           .step = step && step->ends ? step : NULL};
    if (step && step->inside) {
        td__graph_release_inputs(&call, run->plan, step);
        return true;
    }
    int64_t elements = 2048; /* what any node costs */
    for (size_t i = 0; i < node->input_count; i++) {
        int32_t from = node->inputs[i];
        const td__graph_value *value = from < 0 ? NULL : &run->values[from];
        if (!value) {
            continue;
        }
        if (!is_made(value)) {
            return td__graph_fail(&call, TD_STATE, "its input '%.100s' has no value",
                                  run->graph->values[from].name);
        }
        if (i < td__graph_input_count(&call) && !may_take(&call, i, value)) {
            return false;
        }
        elements += count_of(value);
    }
    if (!charge(&call, elements)) {
        return false;
    }
    if (!run->operators[index]->function(&call)) {
        /* An operator that gave no reason was short of memory. */
        (void)td__fail_memory(tape);
        return false;
    }
    if (step) {
        td__graph_release_inputs(&call, run->plan, step);
    }
    return true;
}

bool td__graph_run_nodes(td__graph_run *run, td_tape *tape, size_t first, size_t end) {
    bool label = !tape->label, fine = true; /* a layer's name says where already */
    for (size_t i = first; i < end && fine; i++) {
        if (label) {
            const char *name = run->graph->nodes[i].name;
            if (*name) {
                (void)snprintf(run->label, sizeof run->label, "node '%.80s'", name);
            } else {
                (void)snprintf(run->label, sizeof run->label, "node %zu", i);
            }
            td__label(tape, run->label);
        }
        fine = run_node(run, tape, i);
    }
    if (label) {
        td__label(tape, NULL);
    }
    return fine;
}

/* --- the forms of a value ----------------------------------------------------------------- */

/* Axis i of channels_last is axis from_last[i] of the plain form: 0, 2, …, 1. */
static void last_order(int32_t rank, int32_t order[TD_MAX_RANK]) {
    for (int32_t i = 1; i < rank - 1; i++) {
        order[i] = i + 1;
    }
    order[0] = 0;
    order[rank - 1] = 1;
}

/* The same of kernel: 2, …, 1, 0. */
static void kernel_order(int32_t rank, int32_t order[TD_MAX_RANK]) {
    for (int32_t i = 0; i < rank - 2; i++) {
        order[i] = i + 2;
    }
    order[rank - 2] = 1;
    order[rank - 1] = 0;
}

static void invert(int32_t rank, const int32_t order[TD_MAX_RANK], int32_t inverse[TD_MAX_RANK]) {
    for (int32_t i = 0; i < rank; i++) {
        inverse[order[i]] = i;
    }
}

/* A permutation that moves only axes of size 1 leaves the elements where they are. */
static td_tensor *permute(td_tape *tape, td_tensor *x, const int32_t order[TD_MAX_RANK]) {
    td_shape shape = {.rank = x->shape.rank};
    int32_t before = -1;
    bool moves = false;
    for (int32_t i = 0; i < shape.rank; i++) {
        shape.dims[i] = x->shape.dims[order[i]];
        if (shape.dims[i] != 1) {
            moves = moves || order[i] < before;
            before = order[i];
        }
    }
    return moves ? td_transpose(tape, x, order) : td_reshape(tape, x, shape);
}

static td_tensor *plain_of(td_tape *tape, td__graph_value *value) {
    int32_t order[TD_MAX_RANK], inverse[TD_MAX_RANK];
    td_tensor *from = value->channels_last ? value->channels_last : value->kernel;
    if (!value->plain && from) {
        (from == value->kernel ? kernel_order : last_order)(from->shape.rank, order);
        invert(from->shape.rank, order, inverse);
        value->plain = permute(tape, from, inverse);
    }
    return value->plain;
}

td_tensor *td__graph_run_plain(td__graph_run *run, td_tape *tape, int32_t value) {
    return plain_of(tape, &run->values[value]);
}

td_tensor *td__graph_run_last(td__graph_run *run, td_tape *tape, int32_t value) {
    td__graph_value *found = &run->values[value];
    if (!found->channels_last && found->plain) {
        int32_t order[TD_MAX_RANK];
        last_order(found->plain->shape.rank, order);
        found->channels_last = permute(tape, found->plain, order);
    }
    return found->channels_last;
}

td__graph_value *td__graph_input(td__graph_call *call, size_t i) {
    const td__graph_node *node = call->node;
    return i < node->input_count && node->inputs[i] >= 0 ? &call->run->values[node->inputs[i]]
                                                         : NULL;
}

td_tensor *td__graph_plain(td__graph_call *call, size_t i) {
    td__graph_value *value = td__graph_input(call, i);
    return value ? plain_of(call->tape, value) : NULL;
}

td_tensor *td__graph_value_plain(td__graph_call *call, td__graph_value *value) {
    return plain_of(call->tape, value);
}

/* The plain form in another order. */
static td_tensor *reorder(td__graph_call *call, size_t i, int32_t min,
                          void (*order_of)(int32_t, int32_t[TD_MAX_RANK])) {
    td_tensor *plain = td__graph_plain(call, i);
    if (!plain) {
        return NULL;
    }
    if (plain->dtype != TD_FLOAT32 || plain->shape.rank < min) {
        char text[TD_SHAPE_TEXT_SIZE];
        (void)td__graph_fail(call, TD_BAD_SHAPE,
                             "input %zu is %s %s, it must be float of rank %d or more", i,
                             td__graph_type_name(td__graph_input(call, i)->type),
                             td_shape_text(&plain->shape, text), (int)min);
        return NULL;
    }
    int32_t order[TD_MAX_RANK];
    order_of(plain->shape.rank, order);
    return permute(call->tape, plain, order);
}

td_tensor *td__graph_channels_last(td__graph_call *call, size_t i) {
    td__graph_value *value = td__graph_input(call, i);
    if (value && !value->channels_last) {
        value->channels_last = reorder(call, i, 3, last_order);
    }
    return value ? value->channels_last : NULL;
}

td_tensor *td__graph_kernel(td__graph_call *call, size_t i) {
    td__graph_value *value = td__graph_input(call, i);
    if (value && !value->kernel) {
        value->kernel = reorder(call, i, 2, kernel_order);
    }
    return value ? value->kernel : NULL;
}

td_shape td__graph_shape(td__graph_call *call, size_t i) {
    const td__graph_value *value = td__graph_input(call, i);
    if (value->plain) {
        return value->plain->shape;
    }
    const td_tensor *from = value->channels_last ? value->channels_last : value->kernel;
    td_shape shape = {.rank = from->shape.rank};
    int32_t order[TD_MAX_RANK];
    (from == value->kernel ? kernel_order : last_order)(shape.rank, order);
    for (int32_t k = 0; k < shape.rank; k++) {
        shape.dims[order[k]] = from->shape.dims[k];
    }
    return shape;
}

bool td__graph_is_float(td__graph_call *call, size_t i) {
    const td__graph_value *value = td__graph_input(call, i);
    return value && td__graph_storage(value->type) == TD_FLOAT32;
}

bool td__graph_is_last(td__graph_call *call, size_t i) {
    const td__graph_value *value = td__graph_input(call, i);
    return value && !value->plain && value->channels_last;
}

/* --- what operators call ------------------------------------------------------------------ */

bool td__graph_input_ints(td__graph_call *call, size_t i, int64_t *out, size_t room,
                          size_t *count) {
    const td_tensor *tensor = td__graph_plain(call, i);
    *count = 0;
    if (!tensor) {
        return !td__graph_input(call, i);
    }
    if (tensor->dtype != TD_INT64) {
        return td__graph_fail(call, TD_DTYPE, "input %zu must be integers, got %s", i,
                              td__graph_type_name(td__graph_input(call, i)->type));
    }
    if (tensor->count > (int64_t)room) {
        return td__graph_fail(call, TD_UNSUPPORTED,
                              "input %zu has %lld elements, at most %zu can be", i,
                              (long long)tensor->count, room);
    }
    *count = (size_t)tensor->count;
    if (tensor->count > 0) {
        memcpy(out, tensor->data, *count * sizeof *out);
    }
    return true;
}

bool td__graph_is_model(const td__graph_call *call) {
    return call->run->model;
}

bool td__graph_is_probing(const td__graph_call *call) {
    return call->run->zeros != NULL;
}

td_tensor *td__graph_zeros(td__graph_call *call, td_shape shape) {
    td_tensor *y = td__output_over(call->tape, TD_FLOAT32, &shape, call->run->zeros);
    if (y && (size_t)y->count > call->run->zero_bytes / sizeof(float)) {
        td__fail_memory(call->tape);
        return NULL;
    }
    return y;
}

int64_t td__graph_batch_for(const td__graph_call *call, int64_t size) {
    const td__graph_run *run = call->run;
    return size > 0 && size == run->declared ? run->batch : size;
}

td__graph_value *td__graph_made(td__graph_call *call, size_t i) {
    return td__graph_wants(call, i) ? &call->run->values[call->node->outputs[i]] : NULL;
}

bool td__graph_wants(const td__graph_call *call, size_t i) {
    const td__graph_node *node = call->node;
    return i < node->output_count && node->outputs[i] >= 0 && call->run->read[node->outputs[i]];
}

static bool output(td__graph_call *call, size_t i, td__graph_value value) {
    td_tensor *tensor = value.plain ? value.plain : value.channels_last;
    if (!tensor) {
        return false;
    }
    if (tensor->recording && tensor->count > 0) {
        td__graph_settle(value.type, tensor->count, tensor->data);
    }
    if (call->step && i == 0) {
        if (!td__graph_end_step(call, &value)) {
            return false;
        }
        call->run->values[call->step->output] = value;
    } else if (td__graph_wants(call, i)) {
        call->run->values[call->node->outputs[i]] = value;
    }
    return true;
}

bool td__graph_output(td__graph_call *call, size_t i, td__graph_type type, td_tensor *tensor) {
    return output(call, i, (td__graph_value){.type = type, .plain = tensor});
}

static td_status refuse_gradient(td_tape *tape, td__node *node) {
    (void)td__fail(tape, TD_UNSUPPORTED,
                   "%s: its gradient is not known, so nothing before it has an error or a gradient",
                   (const char *)node->saved);
    return TD_UNSUPPORTED;
}

static const td__op opaque_op = {.name = "operator", .backward = refuse_gradient};

bool td__graph_output_opaque(td__graph_call *call, size_t i, td__graph_type type,
                             td_tensor *tensor) {
    enum { MAX_SHOWN = 8, TEXT = 160 };
    td_tensor *inputs[MAX_SHOWN];
    int32_t count = 0;
    for (size_t k = 0; k < td__graph_input_count(call) && count < MAX_SHOWN; k++) {
        const td__graph_value *value = td__graph_input(call, k);
        if (value && value->plain && value->plain->dtype == TD_FLOAT32) {
            inputs[count++] = value->plain;
        }
    }
    if (tensor && tensor->dtype == TD_FLOAT32 && count && td__is_recording(call->tape)) {
        char *text = td__scratch(call->tape, TEXT);
        if (text) {
            (void)snprintf(text, TEXT, "%.40s '%.80s'", call->node->op_type, call->node->name);
        }
        tensor = text ? td__record(call->tape, &opaque_op, tensor, count, inputs, text) : NULL;
    }
    return tensor && td__graph_output(call, i, type, tensor);
}

bool td__graph_output_last(td__graph_call *call, size_t i, td__graph_type type, td_tensor *tensor) {
    return output(call, i, (td__graph_value){.type = type, .channels_last = tensor});
}

bool td__graph_output_value(td__graph_call *call, size_t i, td__graph_value value) {
    if (td__graph_wants(call, i)) {
        call->run->values[call->node->outputs[i]] = value;
    }
    return true;
}

bool td__graph_pass(td__graph_call *call, size_t i, size_t j) {
    return td__graph_output_value(call, i, *td__graph_input(call, j));
}

/* --- graphs inside a node ----------------------------------------------------------------- */

const td__graph *td__graph_inner(td__graph_call *call, const char *attribute, size_t inputs,
                                 size_t outputs) {
    const td__graph_attribute *found = td__graph_attribute_of(call->node, attribute);
    const td__graph *graph = found ? found->graph : NULL;
    if (!graph || graph->input_count != inputs || graph->output_count < outputs) {
        (void)td__graph_fail(call, TD_FORMAT,
                             "its graph '%s' must have %zu inputs and at least %zu outputs",
                             attribute, inputs, outputs);
        return NULL;
    }
    return graph;
}

bool td__graph_run_inner(td__graph_call *call, const char *attribute, const td__graph_value *inputs,
                         td__graph_value *outputs) {
    const td__graph_attribute *found = td__graph_attribute_of(call->node, attribute);
    const td__graph *graph = found->graph;
    td__graph_run *run = call->run, *inner = run->inner[found->inner];
    inner->model = run->model;
    inner->zeros = run->zeros;
    inner->zero_bytes = run->zero_bytes;
    inner->declared = run->declared;
    inner->batch = run->batch;
    td__graph_run_begin(inner);
    for (size_t i = 0; i < graph->capture_count; i++) {
        inner->values[graph->captures[i]] =
            run->values[call->node->inputs[found->first_capture + i]];
    }
    for (size_t i = 0; i < graph->input_count; i++) {
        inner->values[graph->inputs[i]] = inputs[i];
    }
    int64_t values = (int64_t)graph->value_count;
    td__graph_call inside = {
        .run = inner, .tape = call->tape, .node = call->node, .opset = call->opset};
    if (!charge(&inside, 2048 + values) ||
        !td__graph_run_nodes(inner, call->tape, 0, graph->node_count)) {
        return false;
    }
    for (size_t i = 0; i < graph->capture_count; i++) { /* with the forms that were made of it */
        run->values[call->node->inputs[found->first_capture + i]] =
            inner->values[graph->captures[i]];
    }
    for (size_t i = 0; i < graph->output_count; i++) {
        outputs[i] = inner->values[graph->outputs[i]];
        if (!is_made(&outputs[i])) {
            return td__graph_fail(call, TD_STATE, "its graph '%s' does not make output %zu",
                                  attribute, i);
        }
    }
    return true;
}

bool td__graph_fail(td__graph_call *call, td_status status, const char *format, ...) {
    char text[TD_ERROR_TEXT_SIZE];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    (void)td__fail(call->tape, status, "%s: %s", call->node->op_type, text);
    return false;
}
