#include "diagnose/head.h"

#include <math.h>

#define GAP 0.2   /* of the score, training above validation */
#define RISE 1.25 /* of the validation loss, over its least */
#define GOOD 0.8  /* a validation score that nobody complains of */
#define LEARNT 0.6
#define LITTLE 0.5 /* of values */
/* Nothing is left to learn of the training part, and what was learnt last did not help. */
#define BY_HEART 0.95
#define GAP_BY_HEART 0.25
#define LITTLE_LOSS 0.1
#define PAST 1.01
#define WIDE_GAP 0.4 /* with which it does not matter when the validation loss was least */

/* Whether what the network says of a part is no better than always saying the same; of values, where
 * that takes no overconfidence, whether it is not much better. */
static bool is_worthless(const td__case *c, const td__marks *marks) {
    return td__is_crossentropy(c->experiment->train.objective.loss)
               ? marks->loss > td__constant_loss(&c->facts, &c->facts.validation_labels)
               : marks->score < LITTLE;
}

static void find_overfitting(td__case *c) {
    if (!c->known || !c->repeated || c->baseline.points < 2 || c->facts.validation_rows == 0) {
        return;
    }
    const td__trial_point *end = &c->baseline.curve[c->baseline.points - 1], *best = end;
    for (size_t i = 0; i < c->baseline.points; i++) {
        const td__trial_point *point = &c->baseline.curve[i];
        best = point->validation.loss < best->validation.loss ? point : best;
    }
    double gap = end->training.score - end->validation.score;
    bool rises = end->validation.loss > RISE * best->validation.loss && best != end;
    rises = rises && end->training.loss <= 0.5 * end->validation.loss;
    bool by_heart = gap > WIDE_GAP && is_worthless(c, &end->validation);
    by_heart |= gap > GAP_BY_HEART && end->training.score > BY_HEART &&
                end->training.loss < LITTLE_LOSS * end->validation.loss &&
                end->validation.loss > PAST * best->validation.loss;
    if (!(gap > GAP) || end->training.score < LEARNT || end->validation.score > GOOD ||
        !(rises || by_heart)) {
        return;
    }
    td__suspicion *s = td__suspect(c, TD__FACT, -1,
                                   "early_stopping: {monitor: val_loss, restore_best: true}; "
                                   "dropout, kernel_l2, more data");
    td__because(s, "val_loss", best->step, end->validation.loss,
                td__say(c,
                        "validation loss was %.3g at step %lld and is %.3g now; training loss "
                        "%.3g",
                        best->validation.loss, (long long)best->step, end->validation.loss,
                        end->training.loss));
    td__because(s, NULL, end->step, gap,
                td__say(c,
                        "%.0f %% of the training part is learnt, %.0f %% of the validation "
                        "part; %.0f weights, %lld examples",
                        100 * end->training.score, 100 * fmax(end->validation.score, 0),
                        c->layers.parameters, (long long)c->facts.rows));
    td__edit(s, "train.early_stopping={monitor: val_loss, patience: 5, restore_best: true}");
    if (s) {
        s->since = best->step;
    }
}

const td__rule td__rule_overfitting = {
    .info =
        {.name = "overfitting",
         .meaning = "the training set is learnt by heart",
         .reads = "loss and score of the training and of the validation part over time",
         .statistic = "the validation loss against its least; training score less validation "
                      "score",
         .threshold =
             "the validation loss a quarter above its least, twice the training loss, "
             "a gap of 20 points, and a validation score below 80 %: a loss that rises "
             "while the score stays high is confidence, and harmless. Or a gap of 25 points, 95 % "
             "of "
             "the training part is learnt, with a tenth of the validation loss, and that is past "
             "its least. Or a gap of 40 points, "
             "and what it says of the validation part is worth no more than a constant answer (of "
             "values: half of them at most is learnt)",

         .remedy = "early_stopping, dropout, kernel_l2, more data"},
    .title = "overfitting",
    .explains = TD__OVERFIT_GAP | TD__VALIDATION_BELOW_TRAINING,
    .needs = TD__NEEDS_REPEAT,
    .find = find_overfitting,
    .after = true,
};
