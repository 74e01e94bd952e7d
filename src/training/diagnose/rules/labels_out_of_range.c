#include "diagnose/head.h"
#include "diagnose/loop.h"

#include <math.h>
#include <string.h>

static void find_blanks(td__case *c) {
    double blanks = td__loop_number(c, "head", "blanks");
    if (blanks > 0) {
        td__suspicion *s = td__loop_error(c, TD_SURE, td__loop_head_layer(c), 1,
                                          "targets that begin at 1, or blank=… that is no target");
        td__because(
            s, NULL, 1, blanks,
            td__say(c,
                    "%.0f targets of a batch are the blank of ctc_loss, which stands for no target",
                    blanks));
    }
}

/* A class that the outputs do not have: "Target 7 is out of bounds". */
static void find_refused_labels(td__case *c) {
    if (td__loop_failed(c, "Target") && td__loop_failed(c, "out of bounds")) {
        td__suspicion *s = td__loop_error(c, TD_SURE, td__loop_head_layer(c), 1,
                                          "classes that begin at 0, or as many outputs as classes");
        td__because(s, NULL, 1, 0, td__say(c, "the program ended with %s", c->failure));
    }
}

static void find_labels_out_of_range_in_loop(td__case *c) {
    find_refused_labels(c);
    find_blanks(c);
    double low = td__loop_number(c, "target", "minimum");
    double high = td__loop_number(c, "target", "maximum");
    static const char binary[] =
        "binary_cross_entropy"; /* … and binary_cross_entropy_with_logits */
    if (strncmp(td__loop_text(c, "head", "loss"), binary, sizeof binary - 1) != 0 ||
        (low >= 0 && high <= 1)) {
        return;
    }
    td__suspicion *s =
        td__loop_error(c, TD_SURE, td__loop_head_layer(c), 1, "labels within 0 to 1");
    td__because(s, NULL, 1, high,
                td__say(c, "labels go from %.4g to %.4g; a cross-entropy takes 0 to 1", low, high));
}

static void find_labels_out_of_range(td__case *c) {
    if (c->loop) {
        find_labels_out_of_range_in_loop(c);
        return;
    }
    if (!c->known || c->layers.last < 0) {
        return;
    }
    const td__column *labels = &c->facts.labels.all;
    td_loss loss = c->experiment->train.objective.loss;
    bool numbered = c->trainer->feed.info->label_kind == TD_LABEL_CLASS ||
                    loss == TD_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY;
    bool probabilities =
        td__takes_probabilities(loss) && !numbered && (labels->minimum < 0 || labels->maximum > 1);
    bool beyond = !numbered && td__labels_beyond(c);
    if (!probabilities && !beyond) {
        return;
    }
    td__suspicion *s = td__suspect(c, TD__CONTRADICTION, c->layers.last,
                                   td__say(c, "labels within 0 to 1, or %s", td__head_text(c)));
    td__because(s, NULL, 0, labels->maximum,
                td__say(c, "labels go from %.4g to %.4g; %s", labels->minimum, labels->maximum,
                        probabilities ? "a cross-entropy takes 0 to 1"
                                      : "the last layer cannot put that out"));
    td__edit_head(c, s);
}

const td__rule td__rule_labels_out_of_range = {
    .info = {.name = "labels_out_of_range",
             .meaning = "labels outside of what the last layer or the loss can represent",
             .reads = "the labels, the last layer's activation, train.loss",
             .statistic = "least and greatest label against the range of activation and loss",
             .threshold = "any label beyond by more than 0.1 % of their spread",
             .remedy = "scale the labels, or a head that fits them"},
    .title = "labels out of range",
    .explains = TD__SATURATED_UNITS | TD__LOSS_FLOOR | TD__PLATEAU | TD__DEAD_RELU |
                TD__CONSTANT_OUTPUT | TD__ZERO_GRADIENT | TD__DIVERGENCE | TD__HUGE_LOSS,
    .one_output = true,
    .each_head = true,
    .needs = TD__NEEDS_EXPERIMENT | TD__NEEDS_HEAD | TD__NEEDS_FAILURE,
    .find = find_labels_out_of_range,
};
