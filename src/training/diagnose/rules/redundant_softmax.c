#include "diagnose/head.h"
#include "diagnose/loop.h"

#include <string.h>

/* A cross-entropy of PyTorch takes logits and applies softmax or sigmoid itself. */
static void find_redundant_softmax_in_loop(td__case *c) {
    const char *loss = td__loop_text(c, "head", "loss");
    const char *activation = td__loop_text(c, "head", "activation");
    bool squashed = !strcmp(activation, "softmax") || !strcmp(activation, "sigmoid");
    bool binary = !strcmp(loss, "binary_cross_entropy_with_logits");
    if (td__loop_is(c, "head", "is_twice")) {
        td__suspicion *s =
            td__loop_error(c, TD_SURE, td__loop_head_layer(c), 1, "softmax once, not twice");
        td__because(s, NULL, 1, 0, "softmax is applied to what has been through softmax already");
        return;
    }
    if (!squashed || (!binary && strcmp(loss, "cross_entropy") != 0)) {
        return;
    }
    td__suspicion *s = td__loop_error(c, TD_SURE, td__loop_head_layer(c), 1,
                                      td__say(c, "no %s before the loss", activation));
    td__because(s, NULL, 1, 0,
                td__say(c, "%s applies %s itself, to what has been through %s already", loss,
                        binary ? "sigmoid" : "softmax", activation));
}

static void find_redundant_softmax(td__case *c) {
    if (c->loop) {
        find_redundant_softmax_in_loop(c);
        return;
    }
    if (!c->known || c->layers.last < 0) {
        return;
    }
    const td__train_spec *train = &c->experiment->train;
    bool squashed = c->layers.output == TD_SOFTMAX || c->layers.output == TD_SIGMOID;
    if (!td__takes_probabilities(train->objective.loss) || !train->objective.options.from_logits ||
        !squashed) {
        return;
    }
    td__suspicion *s =
        td__suspect(c, TD__CONTRADICTION, c->layers.output_layer, "train.from_logits: false");
    td__because(s, NULL, 0, 0,
                td__say(c,
                        "from_logits: the loss applies %s itself, to what %s has been through "
                        "%s already",
                        td_activation_name(c->layers.output),
                        c->layers.items[c->layers.output_layer].name,
                        td_activation_name(c->layers.output)));
    td__edit_logits(c, s);
}

const td__rule td__rule_redundant_softmax = {
    .info = {.name = "redundant_softmax",
             .meaning = "softmax (or sigmoid) in the model and again in the loss",
             .reads = "train.from_logits, the last layer's activation",
             .statistic = "none: what the file says",
             .threshold = "both: of ten classes none can get above 0.23, and gradients are small",
             .remedy = "from_logits: false"},
    .title = "softmax twice",
    .explains = TD__SLOW_CONVERGENCE | TD__LOSS_FLOOR | TD__VANISHING_GRADIENT | TD__PLATEAU,
    .one_output = true,
    .each_head = true,
    .needs = TD__NEEDS_EXPERIMENT | TD__NEEDS_HEAD,
    .find = find_redundant_softmax,
};
