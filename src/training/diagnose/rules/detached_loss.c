#include "diagnose/loop.h"

enum { LOOKED_AT = 16 };

static void find_refused_loss(td__case *c) {
    if (td__loop_failed(c, "does not require grad and does not have a grad_fn")) {
        td__suspicion *s =
            td__loop_error(c, TD_SURE, NULL, 1,
                           "no .detach(), .item(), no_grad() or torch.tensor(…) between model and "
                           "loss; parameters that require gradients");
        td__because(s, NULL, 1, 0, td__say(c, "the program ended with %s", c->failure));
    }
}

static void find_detached_loss(td__case *c) {
    find_refused_loss(c);
    double detached = td__loop_number(c, "detached", "count");
    double updates = (double)td__loop_updates(c);
    updates = updates < LOOKED_AT ? updates : LOOKED_AT;
    if (updates < 2 || detached < updates || td__loop_number(c, "strangers", NULL) > 0) {
        return;
    }
    td__suspicion *s =
        td__loop_error(c, TD_SURE, NULL, 1,
                       "no .detach(), .item(), .data or torch.tensor(…) between model and loss; "
                       "loss.backward() before step()");
    td__because(
        s, NULL, 1, detached,
        td__say(c, "the optimizer stepped %.0f times, and none of its parameters had a gradient",
                detached));
}

const td__rule td__rule_detached_loss = {
    .info = {.name = "detached_loss",
             .meaning = "the backward pass reaches no parameter: the loss is detached, or "
                        "backward() is missing",
             .reads = "the loop's detached, updates",
             .statistic = "updates before which no parameter of the optimizer had a gradient",
             .threshold = "all of the first ones, two at least: they change nothing",
             .remedy = "no .detach(), .item(), .data or torch.tensor(…) between model and loss; "
                       "loss.backward() before step()"},
    .title = "loss without a way back",
    .explains = TD__UNCHANGED_WEIGHTS | TD__ZERO_GRADIENT | TD__PLATEAU | TD__LOSS_FLOOR,
    .needs = TD__NEEDS_LOOP,
    .find = find_detached_loss,
    .after = true,
};
