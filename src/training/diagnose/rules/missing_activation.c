#include "diagnose/loop.h"

/* A layer that is followed by another, with nothing between that bends: both are one linear map. */
static bool is_linear(const td__case *c, size_t index) {
    const td__layer_facts *layer = &c->layers.items[index];
    return layer->learns && !layer->recurrent && !layer->last &&
           layer->kind->role != TD__ROLE_LOOKUP && layer->kind->role != TD__ROLE_ATTENTION &&
           layer->effective == TD_LINEAR;
}

/* A layer narrower than both its neighbours is a bottleneck, which also linear networks have. */
static void find_missing_activation_in_loop(td__case *c) {
    double layers = td__loop_number(c, "head", "linear_layers");
    if (layers < 2 || !td__loop_is(c, "head", "is_linear") || td__loop_is(c, "head", "is_narrow")) {
        return;
    }
    td__suspicion *s = td__loop_error(c, TD_LIKELY, td__loop_head_layer(c), 1,
                                      "an activation between the layers, relu for example");
    td__because(
        s, NULL, 1, layers,
        td__say(c, "%.0f layers with no activation between them are one linear map", layers));
}

static void find_missing_activation(td__case *c) {
    if (c->loop) {
        find_missing_activation_in_loop(c);
        return;
    }
    td__suspicion *s = NULL;
    double count = 0;
    if (!c->known) {
        return;
    }
    for (size_t i = 0; i < c->layers.count; i++) {
        if (!is_linear(c, i)) {
            continue;
        }
        if (!s) {
            s = td__suspect(c, TD__STRUCTURE, (ptrdiff_t)i, "activation: relu");
        }
        td__because(s, NULL, 0, 0,
                    td__say(c,
                            "%s has no activation: with the layer after it, it is one linear "
                            "map",
                            c->layers.items[i].name));
        td__edit_layer(c, s, (ptrdiff_t)i, "activation", "relu");
        count++;
        if (s) { /* one may be intended, ten are not */
            s->severity = td__severity(count, 1);
        }
    }
}

const td__rule td__rule_missing_activation = {
    .info = {.name = "missing_activation",
             .meaning = "hidden layers without activation: the network is linear",
             .reads = "the layers' activations",
             .statistic = "none: what the file says",
             .threshold = "a layer that learns, without activation, before another. Reported when "
                          "a trial with relu does better: a linear bottleneck may be meant",
             .remedy = "activation: relu"},
    .title = "missing activation",
    .explains = TD__PLATEAU | TD__LOSS_FLOOR | TD__EXPLODING_GRADIENT | TD__DIVERGENCE |
                TD__SLOW_CONVERGENCE | TD__NAN_LOSS | TD__INF_LOSS,
    .needs = TD__NEEDS_EXPERIMENT | TD__NEEDS_HEAD,
    .find = find_missing_activation,
};
