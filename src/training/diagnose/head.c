#include "diagnose/head.h"

#include <math.h>

bool td__is_crossentropy(td_loss loss) {
    return loss == TD_LOSS_BINARY_CROSSENTROPY || loss == TD_LOSS_CATEGORICAL_CROSSENTROPY ||
           loss == TD_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY;
}

bool td__takes_probabilities(td_loss loss) {
    return td__is_crossentropy(loss) || loss == TD_LOSS_BINARY_FOCAL_CROSSENTROPY ||
           loss == TD_LOSS_CATEGORICAL_FOCAL_CROSSENTROPY;
}

bool td__takes_logarithms(td_loss loss) {
    return loss == TD_LOSS_POISSON || loss == TD_LOSS_MSLE || loss == TD_LOSS_KL_DIVERGENCE;
}

td__range td__activation_range(td_activation activation) {
    switch (activation) {
    case TD_SIGMOID:
    case TD_HARD_SIGMOID:
    case TD_HARD_SIGMOID_KERAS2:
    case TD_SOFTMAX:
        return (td__range){0, 1};
    case TD_TANH:
    case TD_SOFTSIGN:
        return (td__range){-1, 1};
    case TD_RELU:
    case TD_SOFTPLUS:
    case TD_EXPONENTIAL:
        return (td__range){0, INFINITY};
    case TD_RELU6:
        return (td__range){0, 6};
    case TD_LOG_SOFTMAX:
        return (td__range){-INFINITY, 0};
    default:
        return (td__range){-INFINITY, INFINITY};
    }
}

bool td__labels_beyond(const td__case *c) {
    const td__column *labels = &c->facts.labels.all;
    td__range range = td__activation_range(c->layers.output);
    double slack = 1e-3 * (labels->maximum - labels->minimum);
    return labels->minimum < range.low - slack || labels->maximum > range.high + slack;
}

bool td__labels_are_signs(const td__case *c) {
    return c->facts.labels.distinct == 2 && !c->facts.labels.binary &&
           td__is_crossentropy(c->experiment->train.objective.loss);
}

const char *td__loss_misfit(td__case *c, bool *never) {
    const td__column *labels = &c->facts.labels.all;
    td_loss loss = c->experiment->train.objective.loss;
    const char *name = td_loss_name(loss);
    *never = true;
    if (c->facts.task.kind != TD__TASK_VALUES) {
        return NULL;
    }
    if (td__takes_logarithms(loss) && labels->minimum < 0) {
        return td__say(c, "%s takes logarithms; the labels go from %.4g to %.4g", name,
                       labels->minimum, labels->maximum);
    }
    if (loss == TD_LOSS_KL_DIVERGENCE && labels->maximum > 1) {
        return td__say(c, "%s is for probabilities; the labels go from %.4g to %.4g", name,
                       labels->minimum, labels->maximum);
    }
    if ((loss == TD_LOSS_HINGE || loss == TD_LOSS_SQUARED_HINGE) && c->facts.labels.distinct > 2) {
        return td__say(c, "%s is for -1 and 1; the labels are values from %.4g to %.4g", name,
                       labels->minimum, labels->maximum);
    }
    if (loss == TD_LOSS_COSINE_SIMILARITY && c->facts.labels.width == 1) {
        return td__say(c, "%s of one number only compares signs, and has no gradient", name);
    }
    *never = false;
    if (loss == TD_LOSS_COSINE_SIMILARITY || loss == TD_LOSS_CATEGORICAL_HINGE) {
        return td__say(c, "%s does not compare how large values are", name);
    }
    if (loss == TD_LOSS_MAPE && labels->minimum <= 0) {
        return td__say(c, "%s divides by the labels, and they go from %.4g to %.4g", name,
                       labels->minimum, labels->maximum);
    }
    return NULL;
}

typedef struct head {
    td_activation activation;
    td_loss loss;
    int64_t units; /* 0: as it is */
    bool classes;  /* labels are to be read as class numbers */
} head;

static head right_head(td__case *c) {
    const td__train_spec *train = &c->experiment->train;
    const td__task *task = &c->facts.task;
    switch (task->kind) {
    case TD__TASK_CLASSES: {
        bool numbers = c->facts.labels.width == 1;
        return (head){TD_SOFTMAX,
                      numbers ? TD_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY
                              : TD_LOSS_CATEGORICAL_CROSSENTROPY,
                      c->layers.units < task->classes ? task->classes : 0,
                      numbers && c->trainer->feed.info->label_kind != TD_LABEL_CLASS};
    }
    case TD__TASK_BINARY:
    case TD__TASK_LABELS:
        return (head){TD_SIGMOID, TD_LOSS_BINARY_CROSSENTROPY, 0, false};
    case TD__TASK_VALUES:
    default: {
        bool never, other = td__takes_probabilities(train->objective.loss) ||
                            td__loss_misfit(c, &never) != NULL;
        bool logarithm = train->objective.loss == TD_LOSS_POISSON;
        return (head){!other && logarithm ? TD_SOFTPLUS : TD_LINEAR,
                      other ? TD_LOSS_MSE : train->objective.loss, 0, false};
    }
    }
}

void td__edit_logits(td__case *c, td__suspicion *suspicion) {
    const td__train_spec *train = &c->experiment->train;
    td__edit(suspicion, "train.from_logits=false");
    if (train->objective.options.from_logits && !train->from_logits) { /* the loss says so itself */
        td__edit(suspicion, td__say(c, "train.loss.%s.from_logits=false",
                                    td_loss_name(train->objective.loss)));
    }
}

void td__edit_output(td__case *c, td__suspicion *suspicion) {
    head right = right_head(c);
    ptrdiff_t layer = c->layers.output_layer;
    const td__layer_kind *kind = c->layers.items[layer].kind;
    const char *key = td__layer_activation_key(kind);
    layer = td__layer_has_option(kind, key) ? layer : c->layers.last; /* a relu has no choice */
    td__edit_layer(c, suspicion, layer, key, td_activation_name(right.activation));
    td__edit_logits(c, suspicion);
}

void td__edit_head(td__case *c, td__suspicion *suspicion) {
    const td__train_spec *train = &c->experiment->train;
    head right = right_head(c);
    const td__layer_facts *last = &c->layers.items[c->layers.last];
    td__edit_output(c, suspicion);
    if (right.loss != train->objective.loss) {
        td__edit(suspicion, td__say(c, "train.loss=%s", td_loss_name(right.loss)));
    }
    if (right.units) {
        td__edit_layer(c, suspicion, c->layers.last,
                       td__layer_has_option(last->kind, "filters") ? "filters" : "units",
                       td__say(c, "%lld", (long long)right.units));
    }
    if (right.classes) {
        td__edit(suspicion, "data.label_kind=class");
    }
}

const char *td__head_text(td__case *c) {
    head right = right_head(c);
    return td__say(c, "activation: %s and loss: %s", td_activation_name(right.activation),
                   td_loss_name(right.loss));
}
