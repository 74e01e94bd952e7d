#include "diagnose/head.h"
#include "diagnose/loop.h"

#include <string.h>

/* Keras's cross-entropies take probabilities unless from_logits is true. */
static bool find_raw_outputs(td__case *c) {
    const char *loss = td__loop_text(c, "head", "loss");
    bool binary = !strcmp(loss, "binary_cross_entropy");
    if ((!binary && strcmp(loss, "categorical_crossentropy") != 0) ||
        strcmp(td__loop_text(c, "head", "activation"), "linear") != 0) {
        return false;
    }
    td__suspicion *s =
        td__loop_error(c, TD_SURE, td__loop_head_layer(c), 1,
                       td__say(c, "from_logits=True, or %s", binary ? "sigmoid" : "softmax"));
    td__because(s, NULL, 1, 0, "the cross-entropy takes probabilities, and gets raw numbers");
    return true;
}

static bool takes_logarithms(const char *loss) {
    return !strcmp(loss, "nll_loss") || !strcmp(loss, "ctc_loss") || !strcmp(loss, "kl_div");
}

/* binary_cross_entropy checks what it gets. Of NaN, other rules know more. */
static bool find_refused_outputs(td__case *c) {
    if (!td__loop_failed(c, "should be between 0 and 1") || td__loop_has(c, "nonfinite") ||
        td__loop_updates(c) > 0) {
        return false;
    }
    td__suspicion *s =
        td__loop_error(c, TD_SURE, td__loop_head_layer(c), 1,
                       "binary_cross_entropy_with_logits, or sigmoid after the last layer");
    td__because(s, NULL, 1, 0, td__say(c, "the program ended with %s", c->failure));
    return true;
}

static void find_missing_output_activation_in_loop(td__case *c) {
    if (find_refused_outputs(c) || find_raw_outputs(c)) {
        return;
    }
    const char *activation = td__loop_text(c, "head", "activation");
    const char *loss = td__loop_text(c, "head", "loss");
    if (!takes_logarithms(loss) || !*activation || !strcmp(activation, "other") ||
        !strcmp(activation, "log_softmax")) {
        return;
    }
    bool raw = !strcmp(activation, "linear");
    td__suspicion *s = td__loop_error(c, TD_SURE, td__loop_head_layer(c), 1,
                                      strcmp(loss, "nll_loss") != 0
                                          ? "log_softmax before the loss"
                                          : "cross_entropy of the raw outputs, or log_softmax");
    td__because(s, NULL, 1, 0,
                td__say(c, "%s takes logarithms of probabilities, and gets %s%s", loss,
                        raw ? "raw numbers" : "what comes out of ", raw ? "" : activation));
}

static void find_missing_output_activation(td__case *c) {
    if (c->loop) {
        find_missing_output_activation_in_loop(c);
        return;
    }
    if (!c->known || c->layers.last < 0) {
        return;
    }
    const td__train_spec *train = &c->experiment->train;
    if (!td__takes_probabilities(train->objective.loss) || train->objective.options.from_logits ||
        c->layers.output != TD_LINEAR || c->facts.task.kind == TD__TASK_VALUES) {
        return;
    }
    td__suspicion *s = td__suspect(c, TD__CONTRADICTION, c->layers.last, "train.from_logits: true");
    td__because(s, NULL, 0, 0,
                td__say(c,
                        "%s takes probabilities unless from_logits is true; %s puts out raw "
                        "numbers",
                        td_loss_name(train->objective.loss), c->layers.items[c->layers.last].name));
    td__edit(s, "train.from_logits=true");
}

const td__rule td__rule_missing_output_activation = {
    .info = {.name = "missing_output_activation",
             .meaning = "the loss expects probabilities, the last layer puts out raw numbers",
             .reads = "train.loss, from_logits, the last layer's activation",
             .statistic = "none: what the file says",
             .threshold = "a cross-entropy of probabilities after a linear layer: below 0 its "
                          "logarithm is cut off, and with it the gradient",
             .remedy = "from_logits: true"},
    .title = "missing output activation",
    .explains = TD__ZERO_GRADIENT | TD__PLATEAU | TD__HUGE_LOSS | TD__NAN_LOSS |
                TD__CONSTANT_OUTPUT | TD__OSCILLATION | TD__DIVERGENCE | TD__SLOW_CONVERGENCE |
                TD__LOSS_FLOOR,
    .one_output = true,
    .each_head = true,
    .needs = TD__NEEDS_EXPERIMENT | TD__NEEDS_HEAD | TD__NEEDS_FAILURE,
    .find = find_missing_output_activation,
};
