#include "diagnose/loop.h"

static void find_broadcast_in_loss(td__case *c) {
    const char *shapes = td__loop_shapes(c);
    if (!shapes) {
        return;
    }
    td__suspicion *s = td__loop_error(c, TD_SURE, td__loop_head_layer(c), 1,
                                      "output.squeeze(1), or target.unsqueeze(1)");
    td__because(s, NULL, 1, 0,
                td__say(c, "%s: every output is compared with every target of the batch", shapes));
}

const td__rule td__rule_broadcast_in_loss = {
    .info = {.name = "broadcast_in_loss",
             .meaning = "outputs and targets have different shapes, and every output is compared "
                        "with every target",
             .reads = "the loop's head: the shapes that the loss was computed with",
             .statistic = "outputs of one number per example, (N, 1) or (N,), and a loss of N × N",
             .threshold = "one: the network then learns the mean of the targets",
             .remedy = "output.squeeze(1), or target.unsqueeze(1)"},
    .title = "broadcast in the loss",
    .explains =
        TD__PLATEAU | TD__LOSS_FLOOR | TD__CONSTANT_OUTPUT | TD__SLOW_CONVERGENCE | TD__OSCILLATION,
    .needs = TD__NEEDS_HEAD,
    .find = find_broadcast_in_loss,
    .after = true,
};
