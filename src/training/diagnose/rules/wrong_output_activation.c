#include "diagnose/head.h"
#include "diagnose/loop.h"

#include <string.h>

/* Why the activation cannot be right; NULL when it can. */
static const char *contradiction(td__case *c) {
    const td__train_spec *train = &c->experiment->train;
    td_activation output = c->layers.output;
    td__task_kind task = c->facts.task.kind;
    td__range range = td__activation_range(output);
    const char *name = td_activation_name(output);
    bool never, logarithm = train->objective.loss == TD_LOSS_POISSON ||
                            train->objective.loss == TD_LOSS_KL_DIVERGENCE;
    if (logarithm && range.low < 0 && !td__loss_misfit(c, &never)) {
        return td__say(c, "%s takes the logarithm of outputs, and %s puts out numbers below 0",
                       td_loss_name(train->objective.loss), name);
    }
    if (output == TD_LINEAR) {
        return NULL;
    }
    if (output == TD_SOFTMAX && c->layers.units == 1) {
        return "softmax of one unit is always 1";
    }
    if (output == TD_SOFTMAX && task == TD__TASK_LABELS) {
        return "labels may be present together, and softmax makes its outputs sum to 1";
    }
    if (td__takes_probabilities(train->objective.loss) && !train->objective.options.from_logits &&
        (range.low < 0 || range.high > 1)) {
        return td__say(c, "%s takes probabilities, and %s puts out other numbers",
                       td_loss_name(train->objective.loss), name);
    }
    if (task == TD__TASK_VALUES && td__labels_beyond(c) && !td__labels_are_signs(c)) {
        return td__say(c, "labels go from %.4g to %.4g, and %s puts out nothing %s",
                       c->facts.labels.all.minimum, c->facts.labels.all.maximum, name,
                       range.low == 0 && range.high > 1 ? "below 0"
                       : range.low == 0                 ? "outside of 0 to 1"
                                                        : "outside of -1 to 1");
    }
    return NULL;
}

/* Why it is often wrong. */
static const char *doubt(td__case *c) {
    const td__train_spec *train = &c->experiment->train;
    td_activation output = c->layers.output;
    bool categories = train->objective.loss == TD_LOSS_CATEGORICAL_CROSSENTROPY ||
                      train->objective.loss == TD_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY;
    if (categories && output == TD_SIGMOID && c->layers.units > 1) {
        return "classes exclude each other, and sigmoid lets every output be 1";
    }
    if (c->facts.task.kind == TD__TASK_VALUES && output == TD_EXPONENTIAL) {
        return "exp of a sum leaves the range of floats soon";
    }
    if (c->facts.task.kind == TD__TASK_VALUES &&
        (output == TD_SOFTMAX || (output == TD_SIGMOID && !td__labels_beyond(c)))) {
        return "values rarely are probabilities";
    }
    if (train->objective.options.from_logits && output == TD_RELU) {
        return "logits below 0 are cut off";
    }
    return NULL;
}

static void add(td__case *c, td__strength strength, ptrdiff_t layer, const char *why) {
    td__suspicion *s = td__suspect(c, strength, layer, td__head_text(c));
    td__because(s, NULL, 0, (double)c->layers.units, why);
    td__edit_head(c, s);
    if (s && c->layers.output == TD_EXPONENTIAL && !c->baseline.origin.cause) {
        td__origin *origin = td__origin_new(c);
        if (origin) { /* where it will come from */
            origin->cause = "layer";
            origin->layer = c->layers.output_layer;
            s->origin = origin;
        }
    }
    if (s && td__takes_probabilities(c->experiment->train.objective.loss) &&
        c->layers.output == TD_RELU) {
        /* A row whose outputs are all 0 is divided by its sum. */
        static const td__origin division = {
            .cause = "loss", .layer = -1, .parameter = -1, .row = -1};
        s->origin = c->baseline.origin.cause ? &c->baseline.origin : &division;
    } else if (s && c->baseline.origin.cause && !strcmp(c->baseline.origin.cause, "loss")) {
        s->origin = &c->baseline.origin;
    }
}

/* Whether targets of a regression lie where the activation cannot get to. */
static bool is_beyond(const td__case *c, const char *activation) {
    double low = td__loop_number(c, "target", "minimum");
    double high = td__loop_number(c, "target", "maximum"), margin = 0.01 * (high - low);
    bool relu = !strcmp(activation, "relu"), tanh = !strcmp(activation, "tanh");
    bool unit = !strcmp(activation, "sigmoid") || !strcmp(activation, "softmax");
    return ((relu || unit) && low < -margin) || (unit && high > 1 + margin) ||
           (tanh && (low < -1 - margin || high > 1 + margin));
}

static void find_wrong_output_activation_in_loop(td__case *c) {
    const char *loss = td__loop_text(c, "head", "loss"), *why = NULL;
    const char *activation = td__loop_text(c, "head", "activation");
    td_confidence confidence = TD_SURE;
    bool values = !strcmp(loss, "mse_loss") || !strcmp(loss, "huber_loss") ||
                  !strcmp(loss, "smooth_l1_loss") || !strcmp(loss, "l1_loss");
    values |= !*loss && td__loop_has(c, "target"); /* a loss of differences, written by hand */
    bool categories = !strcmp(loss, "categorical_crossentropy");
    bool probabilities = categories || !strcmp(loss, "binary_cross_entropy");
    if (td__loop_number(c, "head", "rank") > 1 && td__loop_number(c, "head", "axis") == 0) {
        why = "softmax goes along the first axis: over the examples of a batch, not over classes";
    } else if (!strcmp(activation, "softmax") && td__loop_number(c, "head", "units") == 1) {
        why = "softmax of one unit is always 1";
    } else if (probabilities && (!strcmp(activation, "relu") || !strcmp(activation, "tanh"))) {
        why = td__say(c, "the cross-entropy takes probabilities, and %s puts out other numbers",
                      activation);
    } else if (categories && !strcmp(activation, "sigmoid") &&
               td__loop_number(c, "head", "units") > 2) {
        why = "classes exclude each other, and sigmoid lets every output be 1";
        confidence = TD_LIKELY;
    } else if (!strcmp(loss, "cross_entropy") && !strcmp(activation, "relu")) {
        why =
            "relu before cross_entropy: scores below 0 are cut off, and their gradients with them";
        confidence = TD_LIKELY;
    } else if (!*loss && !strcmp(activation, "relu") &&
               td__has_any(c,
                           TD__ZERO_GRADIENT | TD__PLATEAU | TD__CONSTANT_OUTPUT | TD__DEAD_RELU)) {
        why = "relu after the last layer: an output that it cuts off gets no gradient";
        confidence = TD_LIKELY;
    } else if (values && is_beyond(c, activation)) {
        why = td__say(c, "targets go from %.4g to %.4g, and %s cannot put that out",
                      td__loop_number(c, "target", "minimum"),
                      td__loop_number(c, "target", "maximum"), activation);
        confidence = *loss ? TD_SURE : TD_LIKELY;
    }
    if (why) {
        td__suspicion *s = td__loop_error(
            c, confidence, td__loop_head_layer(c), 1,
            values || !*loss ? "no activation after the last layer"
                             : "softmax over axis 1, and no other activation before the loss");
        td__because(s, NULL, 1, 0, why);
    }
}

static void find_wrong_output_activation(td__case *c) {
    if (c->loop) {
        find_wrong_output_activation_in_loop(c);
        return;
    }
    const td__layers *layers = &c->layers;
    if (!c->known || layers->last < 0) {
        return;
    }
    const char *why = contradiction(c);
    const char *maybe = why ? NULL : doubt(c);
    const td__layer_facts *last = &layers->items[layers->last];
    if (why) {
        add(c, TD__CONTRADICTION, layers->output_layer, why);
    } else if (maybe) {
        add(c, TD__STRUCTURE, layers->output_layer, maybe);
    } else if (layers->output_layer != layers->last && last->activation != TD_LINEAR &&
               layers->output == TD_SOFTMAX) {
        td__suspicion *s = td__suspect(c, TD__STRUCTURE, layers->last, "activation: linear");
        td__because(s, NULL, 0, 0,
                    td__say(c, "%s before softmax: scores are cut before they are compared",
                            td_activation_name(last->activation)));
        td__edit_layer(c, s, layers->last, "activation", "linear");
    }
}

const td__rule td__rule_wrong_output_activation = {
    .info = {.name = "wrong_output_activation",
             .meaning = "the last layer's activation does not suit loss or labels",
             .reads = "train.loss, from_logits, the last layer's activation and units, the labels",
             .statistic = "the range of the activation against labels and loss",
             .threshold =
                 "any label beyond the range by more than 0.1 %, softmax of one unit, "
                 "numbers that are no probabilities under a cross-entropy, or below 0 under a "
                 "logarithm: none can work. "
                 "What merely works badly is reported when a trial wins by the change",
             .remedy = "the activation and loss that the labels call for"},
    .title = "wrong output activation",
    .explains = TD__ZERO_GRADIENT | TD__CONSTANT_OUTPUT | TD__UNCHANGED_WEIGHTS | TD__PLATEAU |
                TD__SATURATED_UNITS | TD__HUGE_LOSS | TD__LOSS_FLOOR | TD__DEAD_RELU |
                TD__NAN_LOSS | TD__INF_LOSS | TD__SLOW_CONVERGENCE | TD__MAJORITY_CLASS,
    .one_output = true,
    .each_head = true,
    .needs = TD__NEEDS_EXPERIMENT | TD__NEEDS_HEAD,
    .find = find_wrong_output_activation,
};
