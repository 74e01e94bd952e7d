#include "diagnose/loop.h"

#include <math.h>
#include <string.h>

#define DIFFERENCE 0.3 /* of the neighbours that agree, validation above training */
#define CHANCE 6.0     /* as of neighbours: three deviations */
#define FARTHER 1.3    /* neighbours of noisy inputs are farther apart */
#define WELL 0.85      /* a score with which labels cannot be that bad */

#define LITTLE 0.6 /* that the loss of a loop fell by: some are learnt by heart */
#define LITTLE_OF_NEW 0.1
#define NAMED 0.5      /* more are right under another name than under their own */
#define DEVIATIONS 2.5 /* above chance that neighbours agree */

#define ONE_CLASS 0.8 /* chance, where one class is said of almost all */

enum { FEW = 32, MANY = 100 };

/* Validation examples that the model takes for other classes, each class for one other. */
static bool find_other_names(td__case *of) {
    static const char fact[] = "said_of_validation";
    double right = td__loop_number(of, fact, "right"), other = td__loop_number(of, fact, "renamed");
    if (td__loop_number(of, fact, "examples") < FEW || other < right + NAMED ||
        2 * td__loop_number(of, fact, "moved") <= td__loop_number(of, fact, "classes")) {
        return false;
    }
    td__suspicion *s =
        td__loop_error(of, TD_LIKELY, NULL, 1, "the same labels in training and validation");
    td__because(s, NULL, 0, right,
                td__say(of,
                        "%.0f %% of the validation examples are said to be of the class that they "
                        "are labelled with, and %.0f %% would be with other names for the classes:"
                        " label %.0f is taken for %.0f",
                        100 * right, 100 * other, td__loop_number(of, fact, "label"),
                        td__loop_number(of, fact, "said")));
    return true;
}

/* Whether a share is more than chance. */
static bool is_above(double share, double chance, double examples) {
    return share > chance + DEVIATIONS * sqrt(chance * (1 - chance) / fmax(examples, 1));
}

/* One class in all that was seen. Where outputs do not come from a layer directly, places may be labels: the first of several
 * candidates is the right one. */
static bool find_same(td__case *of) {
    const char *loss = td__loop_text(of, "head", "loss");
    const char *activation = td__loop_text(of, "head", "activation");
    double value = td__loop_number(of, "target", "maximum");
    bool classes = strstr(loss, "cross") || !strcmp(loss, "nll_loss");
    bool whole = td__loop_number(of, "classes", "count") == 1 || td__loop_is(of, "target", "all");
    if (!classes || !whole || td__loop_number(of, "target", "minimum") != value ||
        !strcmp(activation, "other") || td__loop_is_adversarial(of)) {
        return false;
    }
    td__suspicion *s =
        td__loop_error(of, TD_LIKELY, NULL, 1, "labels that were not overwritten, of all classes");
    td__because(s, "label", 1, value, td__say(of, "every label that was seen is %.4g", value));
    return true;
}

/* What training learnt says nothing about other examples: what is right among those is what is right by chance, with classes
 * as often as they are there and are said. */
static bool carries_nothing(const td__case *of) {
    static const char fact[] = "said_of_validation";
    double examples = td__loop_number(of, fact, "examples");
    double expected = td__loop_number(of, fact, "expected");
    return examples >= MANY && td__loop_number(of, "labels", "again") > 0 && expected < ONE_CLASS &&
           td__loop_fall(of) > LITTLE_OF_NEW &&
           !is_above(td__loop_number(of, fact, "right"), expected, examples);
}

/* Labels that nothing about their examples tells: neither neighbours nor training find it. */
static void find_bad_labels_in_loop(td__case *of) {
    if (find_other_names(of) || find_same(of)) {
        return;
    }
    double same = td__loop_number(of, "neighbours", "same"),
           chance = td__loop_number(of, "neighbours", "chance"),
           examples = td__loop_number(of, "neighbours", "examples"),
           other = td__loop_number(of, "validation_neighbours", "same");
    bool apart = examples > 0 && td__loop_has(of, "validation_neighbours") &&
                 other - same > DIFFERENCE &&
                 td__loop_number(of, "neighbours", "distance") <
                     FARTHER * td__loop_number(of, "validation_neighbours", "distance");
    double told = td__loop_number(of, "neighbours", "told"),
           most = td__loop_number(of, "neighbours", "most");
    /* Examples that come but once cannot be learnt by heart. */
    double fall = td__loop_number(of, "labels", "again") > 0 || !td__loop_has(of, "labels")
                      ? LITTLE
                      : LITTLE_OF_NEW;
    bool none = examples > 0 && !is_above(same, chance, examples) &&
                !is_above(told, most, examples) &&
                (td__loop_fall(of) < fall || td__has(of, TD__INDEX_OVERFIT_GAP));
    bool nothing = carries_nothing(of) && !(examples > 0 && is_above(same, chance, examples));
    if ((!apart && !none && !nothing) || td__loop_is_adversarial(of)) {
        return;
    }
    td__suspicion *s =
        td__loop_error(of, TD_LIKELY, NULL, 1, "check that each label belongs to its example");
    if (nothing) {
        td__because(
            s, NULL, 0, td__loop_number(of, "said_of_validation", "right"),
            td__say(of,
                    "the loss of training falls, and %.0f %% of the validation examples are "
                    "right; by chance that is %.0f %%",
                    100 * td__loop_number(of, "said_of_validation", "right"),
                    100 * td__loop_number(of, "said_of_validation", "expected")));
    }
    if (examples == 0) {
        return;
    }
    td__because(s, NULL, 1, same,
                td__say(of,
                        "the nearest neighbour of a training example has its class in %.0f %% of "
                        "the cases; by chance that is %.0f %%",
                        100 * same, 100 * chance));
    if (apart) {
        td__because(s, NULL, 1, other,
                    td__say(of, "of a validation example in %.0f %%", 100 * other));
    }
}

enum { ENOUGH = 30 };

/* How much better the trained network knows the validation part than the training part, both as in
 * inference; 0: not beyond chance. Values are left out: a few far ones in one part decide their score. */
static double below_validation(const td__case *of) {
    if (!of->repeated || of->baseline.points == 0) {
        return 0;
    }
    const td__trial_point *end = &of->baseline.curve[of->baseline.points - 1];
    if (end->validation.rows < ENOUGH || end->training.rows < ENOUGH ||
        of->facts.task.kind == TD__TASK_VALUES) {
        return 0;
    }
    double fewer = (double)(end->validation.rows < end->training.rows ? end->validation.rows
                                                                      : end->training.rows);
    double below = end->validation.score - end->training.score;
    return below > fmax(DIFFERENCE, CHANCE / sqrt(fewer)) ? below : 0;
}

static void find_bad_labels(td__case *of) {
    const td__facts *facts = &of->facts;
    if (of->loop) {
        find_bad_labels_in_loop(of);
        return;
    }
    if (!of->known) {
        return;
    }
    bool validated = facts->validation_rows > 0;
    bool same =
        facts->labels.all.count > 1 && facts->labels.all.minimum == facts->labels.all.maximum &&
        of->experiment->train.objective.target == TD__TARGET_LABEL && facts->labels.width == 1;
    if (same) {
        td__suspicion *s = td__suspect(of, TD__FACT, -1, "labels that were not overwritten");
        td__because(s, "label", 0, facts->labels.all.minimum,
                    td__say(of, "all %lld labels of the training part are %.4g",
                            (long long)facts->rows, facts->labels.all.minimum));
        if (validated &&
            facts->validation_labels.all.maximum > facts->validation_labels.all.minimum) {
            td__because(s, "label", 0, 0, "the validation part has others");
        }
        return;
    }
    if (td__score_of(of) > WELL) {
        return;
    }
    bool noisy = td__inputs_are_farther(facts);
    double lower = facts->validation_agreement - facts->training_agreement;
    bool unlike = lower > fmax(DIFFERENCE, facts->chance);
    double below = noisy || unlike ? 0 : below_validation(of);
    if (below > 0) {
        const td__trial_point *end = &of->baseline.curve[of->baseline.points - 1];
        td__suspicion *s = td__suspect(of, TD__FACT, -1, "check the training labels");
        td__because(s, NULL, end->step, below,
                    td__say(of,
                            "%.0f %% of the validation part is learnt, and only %.0f %% of what "
                            "it was trained on",
                            100 * end->validation.score, 100 * fmax(end->training.score, 0)));
    }
    if (unlike && !noisy) {
        td__suspicion *s = td__suspect(of, TD__FACT, -1, "check the training labels");
        td__because(s, "label", 0, facts->training_agreement,
                    td__say(of,
                            "the labels of nearest neighbours agree to %.0f %% in training, to "
                            "%.0f %% in validation (0 %%: as by chance)",
                            100 * fmax(facts->training_agreement, 0),
                            100 * fmax(facts->validation_agreement, 0)));
    }
}

const td__rule td__rule_bad_labels = {
    .info = {.name = "bad_labels",
             .meaning = "labels are wrong: noise, shuffled, all the same",
             .reads = "inputs and labels of both parts",
             .statistic =
                 "whether labels differ at all; how alike the labels of nearest neighbours "
                 "are, within training and within validation (400 examples of each)",
             .threshold = "neighbours agree 30 points less in training (more where there are few "
                          "examples), although they are as near: the inputs are alike, so the "
                          "labels are not. Or the trained network knows the validation part that "
                          "much better than what it was trained on",
             .remedy = "check the labels"},
    .title = "bad labels",
    .explains = TD__PLATEAU | TD__VALIDATION_BELOW_TRAINING | TD__LOSS_FLOOR | TD__CONSTANT_OUTPUT |
                TD__OVERFIT_GAP | TD__SLOW_CONVERGENCE | TD__MAJORITY_CLASS,
    .one_output = true,
    .needs = TD__NEEDS_EXPERIMENT | TD__NEEDS_LOOP,
    .look = find_bad_labels,
};
