#include "diagnose/head.h"

static void look(td__case *of) {
    if (!of->known || of->layers.last < 0) {
        return;
    }
    const td__train_spec *train = &of->experiment->train;
    bool squashed = of->layers.output == TD_SOFTMAX || of->layers.output == TD_SIGMOID;
    if (!td__is_crossentropy(train->objective.loss) || !train->objective.options.from_logits ||
        !squashed) {
        return;
    }
    td__suspicion *s =
        td__suspect(of, TD__CONTRADICTION, of->layers.output_layer, "train.from_logits: false");
    td__because(s, NULL, 0, 0,
                td__say(of,
                        "from_logits: the loss applies %s itself, to what %s has been through "
                        "%s already",
                        td_activation_name(of->layers.output),
                        of->layers.items[of->layers.output_layer].name,
                        td_activation_name(of->layers.output)));
    td__edit_logits(of, s);
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
    .needs = TD__NEEDS_EXPERIMENT,
    .look = look,
};
