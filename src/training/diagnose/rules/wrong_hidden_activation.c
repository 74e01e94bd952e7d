#include "diagnose/rule.h"

/* Why an activation does harm inside a network; NULL: it does not. */
static const char *harm(const td__layer_facts *layer) {
    switch (layer->activation) {
    case TD_SIGMOID:
    case TD_HARD_SIGMOID:
    case TD_HARD_SIGMOID_KERAS2:
        return "passes at most a quarter of the error on, and its outputs are never around 0";
    case TD_SOFTMAX:
        return "makes the units of a layer share a sum of 1: each gets a small part of the error";
    case TD_EXPONENTIAL:
        return "leaves the range of floats soon";
    case TD_RELU:
        return layer->recurrent ? "does not bound a state that is fed back" : NULL;
    case TD_LINEAR:
        return layer->recurrent ? "does not bound a state that is fed back" : NULL;
    default:
        return NULL;
    }
}

static void find_wrong_hidden_activation(td__case *c) {
    td__suspicion *s = NULL;
    double count = 0;
    if (!c->known) {
        return;
    }
    for (size_t i = 0; i < c->layers.count; i++) {
        const td__layer_facts *layer = &c->layers.items[i];
        bool hidden = (ptrdiff_t)i < c->layers.last || layer->recurrent;
        bool activation = layer->kind->role == TD__ROLE_ACTIVATION;
        const char *why = hidden && (layer->learns || activation) ? harm(layer) : NULL;
        if (!why) {
            continue;
        }
        const char *better = layer->recurrent ? "tanh" : "relu";
        if (!s) {
            s = td__suspect(c, TD__STRUCTURE, (ptrdiff_t)i, td__say(c, "activation: %s", better));
        }
        td__because(
            s, NULL, 0, 0,
            td__say(c, "%s in %s %s", td_activation_name(layer->activation), layer->name, why));
        td__edit_layer(c, s, (ptrdiff_t)i, td__layer_activation_key(layer->kind), better);
        count++;
        if (s) {
            s->severity = td__severity(count, 1);
        }
    }
}

const td__rule td__rule_wrong_hidden_activation = {
    .info = {.name = "wrong_hidden_activation",
             .meaning = "an activation that stops or blows up gradients where it stands",
             .reads = "the layers' activations",
             .statistic = "none: what the file says",
             .threshold =
                 "sigmoid, softmax or exp in a hidden layer, relu or none in a recurrence. "
                 "Reported when a trial with relu (tanh in a recurrence) does better",
             .remedy = "activation: relu, or tanh"},
    .title = "wrong hidden activation",
    .explains = TD__VANISHING_GRADIENT | TD__SLOW_CONVERGENCE | TD__PLATEAU | TD__SATURATED_UNITS |
                TD__EXPLODING_GRADIENT | TD__HUGE_ACTIVATIONS | TD__DEAD_RELU | TD__HUGE_LOSS |
                TD__NAN_LOSS | TD__INF_LOSS | TD__CONSTANT_OUTPUT | TD__DIVERGENCE |
                TD__MAJORITY_CLASS | TD__LOSS_FLOOR,
    .needs = TD__NEEDS_EXPERIMENT,
    .find = find_wrong_hidden_activation,
};
