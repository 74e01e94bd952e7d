#include "diagnose/loop.h"
#include "nn/optimizer_role.h"

#include <string.h>

#define LITTLE 0.3     /* that the loss fell by */
#define FAR 0.7        /* … where it falls on at the end as at the beginning */
#define HUGE_EPS 0.5   /* gradients are hardly larger: nothing is divided by their size */
#define LARGE_EPS 0.01 /* usual are 1e-8 to 1e-3 */

/* eps that is larger than the gradients' size makes Adam a plain descent with a tiny rate. RMSprop is known to be used with 1. */
static void find_wrong_optimizer_in_loop(td__case *c) {
    double eps = td__loop_number(c, "optimizer", "eps");
    const char *kind = td__loop_text(c, "optimizer", "kind");
    if (eps < LARGE_EPS) {
        return;
    }
    bool poor = td__loop_fall(c) < LITTLE ||
                (eps >= HUGE_EPS && td__loop_fall(c) < FAR && td__loop_falls_on(c));
    if (!poor && !strstr(kind, "Adam")) {
        return;
    }
    td__suspicion *s = td__loop_error(c, poor ? TD_LIKELY : TD_MAYBE, NULL, 1, "eps=1e-8");
    td__because(s, NULL, 1, eps,
                td__say(c, "%s with eps %.3g, which its steps are divided by", kind, eps));
}

static void find_wrong_optimizer(td__case *c) {
    if (c->loop) {
        find_wrong_optimizer_in_loop(c);
        return;
    }
    if (!c->known) {
        return;
    }
    const td_optimizer *optimizer = c->trainer->learner.optimizer;
    td_optimizer_kind kind = td_optimizer_settled(optimizer)->kind;
    td__optimizer_role role = td__optimizer_role_of(optimizer);
    if (role == TD__MOMENTS) {
        return;
    }
    td__suspicion *s = td__suspect(c, TD__TUNING, -1, "optimizer: {adam: {learning_rate: 0.003}}");
    td__because(s, NULL, 0, td__rate_of(c),
                td__say(c, "%s at %.3g%s", td_optimizer_kind_name(kind), td__rate_of(c),
                        role == TD__SHRINKING ? ": its steps only ever get smaller" : ""));
    td__edit(s, "train.optimizer={adam: {learning_rate: 0.003}}");
    if (s) { /* Adam also copes with other causes */
        s->doubtful = role != TD__SHRINKING;
    }
}

const td__rule td__rule_wrong_optimizer = {
    .info =
        {.name = "wrong_optimizer",
         .meaning = "the optimizer does not suit the problem",
         .reads = "train.optimizer",
         .statistic = "what adam at 0.003 achieves in as many steps",
         .threshold =
             "it wins most of what was missing; likely at most, unless the optimizer's steps only "
             "ever get smaller; after another rate that does as well",
         .remedy = "optimizer: {adam: {learning_rate: 0.003}}"},
    .title = "wrong optimizer",
    .explains = TD__SLOW_CONVERGENCE | TD__PLATEAU | TD__OSCILLATION,
    .needs = TD__NEEDS_EXPERIMENT | TD__NEEDS_LOOP,
    .find = find_wrong_optimizer,
    .after = true,
    .sets_rate = true,
};
