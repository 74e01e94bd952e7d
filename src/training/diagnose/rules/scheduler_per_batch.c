#include "diagnose/loop.h"

#include <string.h>

static const double unknown_epoch = 400; /* batches */

static bool is_falling(const char *kind) {
    static const char *const kinds[] = {"StepLR", "MultiStepLR", "ExponentialLR",
                                        "MultiplicativeLR", "ReduceLROnPlateau"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!strcmp(kind, kinds[i])) {
            return true;
        }
    }
    return false;
}

static void find_scheduler_per_batch(td__case *c) {
    const char *kind = td__loop_text(c, "scheduler", "kind");
    double steps = td__loop_number(c, "scheduler", "steps");
    double updates = td__loop_number(c, "scheduler", "updates");
    double epoch = td__loop_number(c, "loader", "batches");
    epoch = epoch > 0 ? epoch : unknown_epoch;
    double fell = td__loop_number(c, "scheduler", "collapsed");
    double period = td__loop_number(c, "scheduler", "period");
    double early = (double)td__loop_updates(c) >= 4 * fell ? fell : epoch / 2;
    bool collapsed = is_falling(kind) && fell > 0 && fell <= early;
    bool passed =
        !strcmp(kind, "CosineAnnealingLR") && period > 0 && steps > period && period <= epoch / 2;
    if (updates < 2 || steps < 0.9 * updates || !(collapsed || passed)) {
        return;
    }
    td__suspicion *s =
        td__loop_error(c, TD_LIKELY, NULL, (int64_t)(collapsed ? fell : period),
                       "scheduler.step() once an epoch, or a schedule that counts batches");
    td__because(s, NULL, 0, steps,
                td__say(c, "%s stepped %.0f times in %.0f updates; an epoch has %.0f batches", kind,
                        steps, updates, td__loop_number(c, "loader", "batches")));
    td__because(s, "learning_rate", s ? s->since : 1, td__loop_number(c, "scheduler", "rate"),
                collapsed
                    ? td__say(c, "the learning rate fell below a hundredth of %.3g in %.0f updates",
                              td__loop_number(c, "scheduler", "most"), fell)
                    : td__say(c, "its period of %.0f was over after as many updates", period));
}

const td__rule td__rule_scheduler_per_batch = {
    .info = {.name = "scheduler_per_batch",
             .meaning = "a scheduler that counts epochs is stepped once a batch",
             .reads = "the loop's scheduler, loader",
             .statistic = "whether it steps as often as the optimizer, and when the rate had "
                          "fallen to a hundredth, or T_max was passed",
             .threshold =
                 "within half of the first epoch (200 updates where its length is not known): "
                 "schedules that are made for batches (one cycle, lambdas, restarts) are not meant",
             .remedy = "scheduler.step() once an epoch, or a schedule in batches"},
    .title = "scheduler per batch",
    .explains = TD__PLATEAU | TD__SLOW_CONVERGENCE | TD__LOSS_FLOOR | TD__UNCHANGED_WEIGHTS,
    .needs = TD__NEEDS_LOOP,
    .find = find_scheduler_per_batch,
    .after = true,
};
