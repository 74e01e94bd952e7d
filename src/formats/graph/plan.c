/* The plan of a graph: patterns that one step can do, and the last readers of values. */
#include "graph/plan.h"

#include "base/memory.h"
#include "graph/source.h"
#include "tensor/tensor.h"

#include <math.h>
#include <string.h>

enum { MAX_INSIDE = 8 };

typedef struct planning {
    const td__graph_source *source;
    td__graph_plan *plan;
    size_t *first; /* of each value: where its readers begin in the list */
    int32_t *readers;
    int32_t *made; /* of each value: the node that makes it; -1: none does */
} planning;

/* What a pattern takes in: nodes, and the value they end in. */
typedef struct match {
    size_t nodes[MAX_INSIDE];
    size_t count;
    int32_t output;
    td_activation activation;
    td_number alpha;
} match;

/* --- readers ------------------------------------------------------------------------------ */

/* Readers of each value in the order of nodes; twice where a node reads it twice. */
static bool list_readers(planning *p) {
    const td__graph *graph = p->source->graph;
    size_t total = 0;
    for (size_t n = 0; n < graph->node_count; n++) {
        total += graph->nodes[n].input_count;
    }
    p->first = td__calloc(graph->value_count + 2, sizeof *p->first);
    p->readers = td__calloc(total + 1, sizeof *p->readers);
    p->made = td__calloc(graph->value_count + 1, sizeof *p->made);
    if (!p->first || !p->readers || !p->made) {
        return false;
    }
    for (size_t v = 0; v < graph->value_count; v++) {
        p->made[v] = -1;
    }
    for (size_t n = 0; n < graph->node_count; n++) {
        for (size_t i = 0; i < graph->nodes[n].output_count; i++) {
            if (graph->nodes[n].outputs[i] >= 0) {
                p->made[graph->nodes[n].outputs[i]] = (int32_t)n;
            }
        }
    }
    for (int pass = 0; pass < 2; pass++) { /* counts, then nodes */
        for (size_t n = 0; n < graph->node_count; n++) {
            const td__graph_node *node = &graph->nodes[n];
            for (size_t i = 0; i < node->input_count && !p->source->skip[n]; i++) {
                if (node->inputs[i] < 0) {
                    continue;
                }
                size_t v = (size_t)node->inputs[i];
                if (pass == 0) {
                    p->first[v + 2]++;
                } else {
                    p->readers[p->first[v + 1]++] = (int32_t)n;
                }
            }
        }
        for (size_t v = 0; pass == 0 && v < graph->value_count; v++) {
            p->first[v + 2] += p->first[v + 1];
        }
    }
    return true;
}

static size_t reader_count(const planning *p, int32_t value) {
    return p->first[value + 1] - p->first[value];
}

static int32_t reader(const planning *p, int32_t value, size_t i) {
    return p->readers[p->first[value] + i];
}

/* An output of the graph counts as read after all nodes. */
static bool is_output(const planning *p, int32_t value) {
    return p->source->facts[value].user == INT32_MAX;
}

/* Whether only `readers` nodes read it, and it is made in float32: in half precision every operator
 * rounds. */
static bool is_between(const planning *p, int32_t value, size_t readers) {
    return value >= 0 && p->source->facts[value].type == TD__GRAPH_FLOAT &&
           reader_count(p, value) == readers && !is_output(p, value);
}

static bool is_operator(const td__graph_node *node, const char *name) {
    return !*node->domain && strcmp(node->op_type, name) == 0;
}

/* --- activations -------------------------------------------------------------------------- */

/* A constant that is one number and no parameter. */
static bool constant_number(const planning *p, int32_t value, float *number) {
    const td__graph_fact *fact = value < 0 ? NULL : &p->source->facts[value];
    const td__graph_constant *constant = fact ? &p->source->graph->values[value].constant : NULL;
    if (!fact || !fact->constant || fact->parameter || !constant->tensor ||
        constant->type != TD__GRAPH_FLOAT || constant->tensor->count != 1) {
        return false;
    }
    *number = td__floats(constant->tensor)[0];
    return true;
}

static bool is_near(float a, double b) {
    return fabs((double)a - b) <= 1e-6 * fabs(b);
}

static const struct {
    const char *name;
    td_activation activation;
    const char *attribute; /* its alpha; NULL: it has none */
    float fallback;
} activations[] = {
    {"Elu", TD_ELU, "alpha", 1},
    {"HardSwish", TD_HARD_SILU, NULL, 0},
    {"LeakyRelu", TD_LEAKY_RELU, "alpha", 0.01f},
    {"Mish", TD_MISH, NULL, 0},
    {"Relu", TD_RELU, NULL, 0},
    {"Sigmoid", TD_SIGMOID, NULL, 0},
    {"Softplus", TD_SOFTPLUS, NULL, 0},
    {"Softsign", TD_SOFTSIGN, NULL, 0},
    {"Tanh", TD_TANH, NULL, 0},
};

/* Clip to [0, 6] or [0, no end). */
static bool match_clip(const planning *p, const td__graph_node *node, match *m) {
    float min = NAN, max = INFINITY;
    bool upper = node->input_count > 2 && node->inputs[2] >= 0;
    if (p->source->graph->opset < 11 || node->input_count < 2 ||
        !constant_number(p, node->inputs[1], &min) || min != 0 ||
        (upper && !constant_number(p, node->inputs[2], &max))) {
        return false;
    }
    m->activation = max == 6 ? TD_RELU6 : TD_RELU;
    return max == 6 || isinf(max);
}

static bool is_hard_sigmoid(const td__graph_node *node) {
    return is_operator(node, "HardSigmoid") &&
           is_near(td__graph_float(node, "alpha", 0.2f), 1.0 / 6) &&
           is_near(td__graph_float(node, "beta", 0.5f), 0.5);
}

/* One node that is an activation. */
static bool match_one(const planning *p, int32_t value, match *m) {
    if (!is_between(p, value, 1)) {
        return false;
    }
    size_t n = (size_t)reader(p, value, 0);
    const td__graph_node *node = &p->source->graph->nodes[n];
    bool found = false;
    for (size_t i = 0; i < TD__COUNT(activations); i++) {
        if (is_operator(node, activations[i].name)) {
            m->activation = activations[i].activation;
            const char *attribute = activations[i].attribute;
            m->alpha = attribute ? TD_SET(td__graph_float(node, attribute, activations[i].fallback))
                                 : TD_DEFAULT;
            found = !attribute || m->alpha.value != 0;
        }
    }
    if (is_operator(node, "Clip") && node->inputs[0] == value) {
        found = match_clip(p, node, m);
    } else if (is_operator(node, "Gelu")) {
        m->activation =
            *td__graph_text(node, "approximate", "none") == 't' ? TD_GELU_TANH : TD_GELU;
        found = true;
    } else if (is_hard_sigmoid(node)) {
        m->activation = TD_HARD_SIGMOID;
        found = true;
    }
    m->nodes[0] = n;
    m->count = 1;
    m->output = node->outputs[0];
    return found && m->output >= 0;
}

/* The reader of a value that has just one: of this operator, with two inputs; *other is the one that is
 * not the value. NULL: no such. */
static const td__graph_node *next(const planning *p, int32_t value, const char *name, match *m,
                                  int32_t *other) {
    if (!is_between(p, value, 1) || m->count == MAX_INSIDE) {
        return NULL;
    }
    size_t n = (size_t)reader(p, value, 0);
    const td__graph_node *node = &p->source->graph->nodes[n];
    if (!is_operator(node, name) || node->input_count != 2) {
        return NULL;
    }
    *other = node->inputs[node->inputs[0] == value];
    m->nodes[m->count++] = n;
    m->output = node->outputs[0];
    return node;
}

/* x f(x), where the first reader is f: swish. */
static bool match_gate(const planning *p, int32_t value, size_t first, match *m) {
    const td__graph_node *gate = &p->source->graph->nodes[first];
    bool hard = is_hard_sigmoid(gate);
    int32_t other;
    if (!hard && !is_operator(gate, "Sigmoid")) {
        return false;
    }
    *m = (match){.nodes = {first}, .count = 1, .activation = hard ? TD_HARD_SILU : TD_SWISH};
    return next(p, gate->outputs[0], "Mul", m, &other) && other == value && m->output >= 0;
}

/* x (erf(x / sqrt 2) + 1) / 2, as exporters write GELU; the first reader scales. */
static bool match_gelu(const planning *p, int32_t value, size_t first, match *m) {
    const td__graph_node *scale = &p->source->graph->nodes[first];
    bool divides = is_operator(scale, "Div") && scale->inputs[0] == value;
    float number;
    int32_t other;
    if ((!divides && !is_operator(scale, "Mul")) || scale->input_count != 2 ||
        !constant_number(p, scale->inputs[scale->inputs[0] == value], &number) ||
        !is_near(number, divides ? sqrt(2) : sqrt(0.5)) || !is_between(p, scale->outputs[0], 1)) {
        return false;
    }
    size_t n = (size_t)reader(p, scale->outputs[0], 0);
    const td__graph_node *erf_node = &p->source->graph->nodes[n];
    *m = (match){.nodes = {first, n}, .count = 2, .activation = TD_GELU};
    return is_operator(erf_node, "Erf") && next(p, erf_node->outputs[0], "Add", m, &other) &&
           constant_number(p, other, &number) && number == 1 &&
           next(p, m->output, "Mul", m, &other) && other == value &&
           next(p, m->output, "Mul", m, &other) && constant_number(p, other, &number) &&
           number == 0.5f && m->output >= 0;
}

static bool match_activation(const planning *p, int32_t value, match *m) {
    *m = (match){0};
    if (match_one(p, value, m)) {
        return true;
    }
    for (size_t i = 0; is_between(p, value, 2) && i < 2; i++) {
        size_t first = (size_t)reader(p, value, i);
        if (match_gate(p, value, first, m) || match_gelu(p, value, first, m)) {
            return true;
        }
    }
    return false;
}

/* --- products ----------------------------------------------------------------------------- */

/* What is added by a product's only reader: a bias of its columns. */
static void take_bias(const planning *p, const td__graph_node *node, td__graph_step *step) {
    const td__graph *graph = p->source->graph;
    const td__graph_fact *facts = p->source->facts;
    const td_tensor *kernel =
        node->inputs[1] < 0 ? NULL : graph->values[node->inputs[1]].constant.tensor;
    match m = {0};
    int32_t other = -1;
    if (!is_operator(node, "MatMul") || !kernel || kernel->shape.rank != 2 ||
        !next(p, step->output, "Add", &m, &other) || other < 0) {
        return;
    }
    const td_tensor *bias = graph->values[other].constant.tensor;
    if (bias && graph->values[other].constant.type == TD__GRAPH_FLOAT && bias->shape.rank == 1 &&
        bias->shape.dims[0] == kernel->shape.dims[1] && m.output >= 0 &&
        facts[other].layer <= facts[node->outputs[0]].layer) { /* set when the product runs */
        step->bias = other;
        step->output = m.output;
        p->plan->steps[m.nodes[0]].inside = true;
    }
}

/* A sum with a value that was made before and is not read again: the product is added to it where it
 * is. */
static void take_sum(const planning *p, size_t index, td__graph_step *step) {
    const td__graph_fact *facts = p->source->facts;
    const td__graph_node *node = &p->source->graph->nodes[index];
    match m = {0};
    int32_t other = -1;
    if (!next(p, step->output, "Add", &m, &other) || other < 0 || m.output < 0 ||
        facts[other].constant || facts[other].type != TD__GRAPH_FLOAT || p->made[other] < 0 ||
        p->made[other] > (int32_t)index || is_output(p, other) ||
        facts[other].last != facts[step->output].last ||
        !td_shape_equal(&facts[other].shape, &facts[step->output].shape)) {
        return;
    }
    size_t last = reader_count(p, other) - 1;
    if (reader(p, other, last) != (int32_t)m.nodes[0] || node->inputs[0] == other) {
        return;
    }
    for (size_t i = 0; i < last; i++) { /* those that read it must have run */
        if (reader(p, other, i) >= (int32_t)index) {
            return;
        }
    }
    step->onto = other;
    step->output = m.output;
    p->plan->steps[m.nodes[0]].inside = true;
}

static void plan_step(const planning *p, size_t index) {
    static const char *const products[] = {"Conv", "Gemm", "MatMul"};
    static const char *const others[] = {"Add", "BatchNormalization", "ConvTranspose", "Mul"};
    const td__graph_node *node = &p->source->graph->nodes[index];
    td__graph_step *step = &p->plan->steps[index];
    bool product = false, known = false;
    for (size_t i = 0; i < TD__COUNT(products); i++) {
        product = product || is_operator(node, products[i]);
    }
    for (size_t i = 0; i < TD__COUNT(others); i++) {
        known = known || is_operator(node, others[i]);
    }
    if (step->inside || p->source->skip[index] || (!product && !known) || node->outputs[0] < 0) {
        return;
    }
    if (product) {
        take_bias(p, node, step);
        take_sum(p, index, step);
    }
    match m;
    if (match_activation(p, step->output, &m)) {
        step->activation = m.activation;
        step->alpha = m.alpha;
        step->output = m.output;
        for (size_t i = 0; i < m.count; i++) {
            p->plan->steps[m.nodes[i]].inside = true;
        }
    }
    step->ends = step->output != node->outputs[0];
}

/* --- the end of values -------------------------------------------------------------------- */

/* Values are listed with the node that reads them last; those that a step makes early, or within it,
 * do not matter: they are not there before it. */
static void list_dead(const planning *p) {
    const td__graph *graph = p->source->graph;
    size_t count = 0;
    for (size_t n = 0; n < graph->node_count; n++) {
        const td__graph_node *node = &graph->nodes[n];
        td__graph_step *step = &p->plan->steps[n];
        step->dead = count;
        for (size_t i = 0; i < node->input_count && !p->source->skip[n]; i++) {
            int32_t v = node->inputs[i];
            if (v < 0 || p->source->facts[v].constant || is_output(p, v) || v == graph->inputs[0] ||
                reader(p, v, reader_count(p, v) - 1) != (int32_t)n) {
                continue;
            }
            bool listed = false;
            for (size_t k = step->dead; k < count; k++) {
                listed = listed || p->plan->dead[k] == v;
            }
            if (!listed) {
                p->plan->dead[count++] = v;
            }
        }
        step->dead_count = count - step->dead;
    }
}

td_status td__graph_plan_make(const td__graph_source *source, td__graph_plan *plan,
                              td_error *error) {
    const td__graph *graph = source->graph;
    planning p = {.source = source, .plan = plan};
    plan->steps = td__calloc(graph->node_count + 1, sizeof *plan->steps);
    plan->dead = td__calloc(graph->value_count + 1, sizeof *plan->dead);
    bool room = plan->steps && plan->dead && list_readers(&p);
    for (size_t n = 0; room && n < graph->node_count; n++) {
        const td__graph_node *node = &graph->nodes[n];
        plan->steps[n].output = node->output_count ? node->outputs[0] : -1;
        plan->steps[n].bias = plan->steps[n].onto = -1;
    }
    for (size_t n = 0; room && n < graph->node_count; n++) {
        plan_step(&p, n);
    }
    if (room) {
        list_dead(&p);
    }
    td__free(p.first);
    td__free(p.readers);
    td__free(p.made);
    return room ? TD_OK
                : td_error_set(error, TD_MEMORY, "out of memory for a graph of %zu nodes",
                               graph->node_count);
}

void td__graph_plan_release(td__graph_plan *plan) {
    td__free(plan->steps);
    td__free(plan->dead);
    *plan = (td__graph_plan){0};
}
