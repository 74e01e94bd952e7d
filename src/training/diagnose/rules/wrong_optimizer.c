#include "diagnose/rule.h"

static void look(td__case *of) {
    if (!of->known) {
        return;
    }
    td_optimizer_kind kind = td_optimizer_settled(of->trainer->learner.optimizer)->kind;
    if (kind != TD_SGD && kind != TD_ADAGRAD && kind != TD_RMSPROP) {
        return;
    }
    td__suspicion *s = td__suspect(of, TD__TUNING, -1, "optimizer: {adam: {learning_rate: 0.003}}");
    td__because(s, NULL, 0, td__rate_of(of),
                td__say(of, "%s at %.3g%s", td_optimizer_kind_name(kind), td__rate_of(of),
                        kind == TD_ADAGRAD ? ": its steps only ever get smaller" : ""));
    td__edit(s, "train.optimizer={adam: {learning_rate: 0.003}}");
}

const td__rule td__rule_wrong_optimizer = {
    .info = {.name = "wrong_optimizer",
             .meaning = "the optimizer does not suit the problem",
             .reads = "train.optimizer",
             .statistic = "what adam at 0.003 achieves in as many steps",
             .threshold = "it wins most of what was missing",
             .remedy = "optimizer: {adam: {learning_rate: 0.003}}"},
    .title = "wrong optimizer",
    .explains = TD__SLOW_CONVERGENCE | TD__PLATEAU | TD__OSCILLATION,
    .needs = TD__NEEDS_EXPERIMENT,
    .look = look,
    .after = true,
};
