#include "diagnose/loop.h"

#include <math.h>
#include <string.h>

#define DIFFERENCE 0.3 /* of the neighbours that agree, validation above training */
#define CHANCE 6.0     /* as of neighbours: three deviations */
#define FARTHER 1.3    /* neighbours of noisy inputs are farther apart */
#define WELL 0.85      /* a score with which labels cannot be that bad */

#define LITTLE 0.6 /* that the loss of a loop fell by: some are learnt by heart */
#define LITTLE_OF_NEW 0.1
#define OF_VARIANCE 0.9
#define LITTLE_OF_TOKENS 0.35
#define MOVED 0.2      /* of the labels, that one place predicts and another does not */
#define NAMED 0.5      /* more are right under another name than under their own */
#define DEVIATIONS 2.5 /* above chance that neighbours agree */

#define NOTHING 0.05 /* a score that is none */
#define BY_CHANCE 1e-3
#define KNOWN 0.5  /* a score of the training part with which the network says what that is like */
#define ALIKE 0.15 /* that shares of classes may differ by */

#define ONE_CLASS 0.8 /* chance, where one class is said of almost all */

enum { FEW = 32, MANY = 100 };

/* Validation examples that the model takes for other classes, each class for one other. */
static bool find_other_names(td__case *c) {
    static const char fact[] = "said_of_validation";
    double right = td__loop_number(c, fact, "right"), other = td__loop_number(c, fact, "renamed");
    if (td__loop_number(c, fact, "examples") < FEW || other < right + NAMED ||
        2 * td__loop_number(c, fact, "moved") <= td__loop_number(c, fact, "classes")) {
        return false;
    }
    td__suspicion *s =
        td__loop_error(c, TD_LIKELY, NULL, 1, "the same labels in training and validation");
    td__because(s, NULL, 0, right,
                td__say(c,
                        "%.0f %% of the validation examples are said to be of the class that they "
                        "are labelled with, and %.0f %% would be with other names for the classes:"
                        " label %.0f is taken for %.0f",
                        100 * right, 100 * other, td__loop_number(c, fact, "label"),
                        td__loop_number(c, fact, "said")));
    return true;
}

/* Whether a share is more than chance. */
static bool is_above(double share, double chance, double examples) {
    return share > chance + DEVIATIONS * sqrt(chance * (1 - chance) / fmax(examples, 1));
}

/* One class in all that was seen. Where outputs do not come from a layer directly, places may be labels: the first of several
 * candidates is the right one. */
static bool find_same(td__case *c) {
    const char *loss = td__loop_text(c, "head", "loss");
    const char *activation = td__loop_text(c, "head", "activation");
    double value = td__loop_number(c, "target", "maximum");
    bool classes = strstr(loss, "cross") || !strcmp(loss, "nll_loss");
    bool whole = td__loop_number(c, "classes", "count") == 1 || td__loop_is(c, "target", "all");
    if (!classes || !whole || td__loop_number(c, "target", "minimum") != value ||
        !strcmp(activation, "other") || td__loop_is(c, "head", "has_candidates") ||
        td__loop_is_adversarial(c)) {
        return false;
    }
    td__suspicion *s =
        td__loop_error(c, TD_LIKELY, NULL, 1, "labels that were not overwritten, of all classes");
    td__because(s, "label", 1, value, td__say(c, "every label that was seen is %.4g", value));
    return true;
}

/* What training learnt says nothing about other examples: what is right among those is what is right by chance, with classes
 * as often as they are there and are said. */
static bool carries_nothing(const td__case *c) {
    static const char fact[] = "said_of_validation";
    double examples = td__loop_number(c, fact, "examples");
    double expected = td__loop_number(c, fact, "expected");
    return examples >= MANY && td__loop_number(c, "labels", "again") > 0 && expected < ONE_CLASS &&
           td__loop_fall(c) > LITTLE_OF_NEW &&
           !is_above(td__loop_number(c, fact, "right"), expected, examples);
}

/* Whether a mean squared error ends at the variance of the targets: that of their mean. */
static bool is_that_of_the_mean(const td__case *c) {
    double size = td__loop_number(c, "target", "size"), mean = td__loop_number(c, "target", "mean");
    double variance = size * size - mean * mean;
    return !strcmp(td__loop_text(c, "head", "loss"), "mse_loss") &&
           !strcmp(td__loop_text(c, "head", "reduction"), "mean") &&
           td__loop_number(c, "head", "losses") == 1 && variance > 0 &&
           td__series_mean(td__loss_of(c->history), 0.9, 1) > OF_VARIANCE * variance;
}

/* Whether training found little in the data. Examples that come but once cannot be learnt by heart. */
static bool found_little(const td__case *c) {
    if (td__loop_knows(c)) {
        return false;
    }
    double fall = td__loop_number(c, "labels", "again") > 0 || !td__loop_has(c, "labels")
                      ? LITTLE
                      : LITTLE_OF_NEW;
    return td__loop_fall(c) < fall || td__has(c, TD__INDEX_OVERFIT_GAP) || is_that_of_the_mean(c);
}

/* Values of which examples explain no more than of the same values in another order. */
static bool find_values(td__case *c) {
    static const char fact[] = "dependence", other[] = "validation_dependence";
    double explained = td__loop_number(c, fact, "explained"),
           chance = td__loop_number(c, fact, "chance"),
           validation = td__loop_number(c, other, "explained");
    bool apart = td__loop_has(c, other) && validation > DIFFERENCE &&
                 validation > td__loop_number(c, other, "chance");
    /* What one output of several is to be depends on which one was chosen. */
    if (td__loop_number(c, fact, "examples") == 0 || explained > chance ||
        td__loop_is(c, "head", "is_chosen") || !(apart || found_little(c)) ||
        td__loop_is_adversarial(c)) {
        return false;
    }
    td__suspicion *s =
        td__loop_error(c, TD_LIKELY, NULL, 1, "check that each target belongs to its example");
    td__because(s, NULL, 1, explained,
                td__say(c,
                        "neighbours, a plane and products of the inputs explain %.2g %% of the "
                        "variance of the targets, and of the same targets in another order up to "
                        "%.2g %%",
                        100 * fmax(explained, 0), 100 * fmax(chance, 0)));
    if (apart) {
        td__because(s, NULL, 1, validation,
                    td__say(c, "of those of the validation part %.0f %%", 100 * validation));
    }
    return true;
}

/* A label for each place of a sequence that no token there or beside it predicts. What one token does not predict, several may: training
 * finds as good as nothing, too. */
static bool find_tokens(td__case *c) {
    static const char fact[] = "token_dependence";
    double same = td__loop_number(c, fact, "same"), chance = td__loop_number(c, fact, "chance");
    if (td__loop_number(c, fact, "examples") == 0 || same > chance || td__loop_knows(c) ||
        !(td__loop_fall(c) < LITTLE_OF_TOKENS) || td__loop_is_adversarial(c)) {
        return false;
    }
    td__suspicion *s =
        td__loop_error(c, TD_LIKELY, NULL, 1, "check that each label belongs to its place");
    td__because(s, NULL, 1, same,
                td__say(c,
                        "a token and its neighbours predict %.0f %% of the labels, and of labels "
                        "that belong to other sequences up to %.0f %%",
                        100 * same, 100 * chance));
    return true;
}

/* Labels that one token predicts in training, and another in validation: they were moved by a place. */
static bool find_moved_tokens(td__case *c) {
    static const char fact[] = "token_places";
    if (!(td__loop_number(c, fact, "gain") > MOVED) || td__loop_is_adversarial(c)) {
        return false;
    }
    td__suspicion *s = td__loop_error(c, TD_LIKELY, NULL, 1,
                                      "the same places of labels in training and validation");
    td__because(s, NULL, 1, td__loop_number(c, fact, "gain"),
                td__say(c,
                        "labels of training are those of %s, labels of validation those of %s: "
                        "that predicts at least %.0f %% more of them",
                        td__loop_text(c, fact, "training"), td__loop_text(c, fact, "validation"),
                        100 * td__loop_number(c, fact, "gain")));
    return true;
}

/* A target for each place, as of masks, that goes together with the inputs no more than those of other examples do. */
static bool find_places(td__case *c) {
    static const char fact[] = "place_dependence";
    double explained = td__loop_number(c, fact, "explained"),
           chance = td__loop_number(c, fact, "chance");
    if (td__loop_number(c, fact, "examples") < FEW || explained > chance || !found_little(c) ||
        td__loop_is_adversarial(c)) {
        return false;
    }
    td__suspicion *s =
        td__loop_error(c, TD_LIKELY, NULL, 1, "check that each target belongs to its example");
    td__because(s, NULL, 1, explained,
                td__say(c,
                        "from place to place, inputs and targets correlate by %.2g, and inputs and "
                        "targets of other examples by up to %.2g",
                        explained, chance));
    return true;
}

/* Labels that nothing about their examples predicts: neither neighbours nor training find it. */
static void find_bad_labels_in_loop(td__case *c) {
    if (find_other_names(c) || find_same(c) || find_values(c) || find_tokens(c) || find_places(c) ||
        find_moved_tokens(c)) {
        return;
    }
    double same = td__loop_number(c, "neighbours", "same"),
           chance = td__loop_number(c, "neighbours", "chance"),
           examples = td__loop_number(c, "neighbours", "examples"),
           other = td__loop_number(c, "validation_neighbours", "same");
    bool apart = examples > 0 && td__loop_has(c, "validation_neighbours") &&
                 other - same > DIFFERENCE &&
                 td__loop_number(c, "neighbours", "distance") <
                     FARTHER * td__loop_number(c, "validation_neighbours", "distance");
    double own = td__loop_number(c, "neighbours", "told"),
           most = td__loop_number(c, "neighbours", "most");
    bool none = examples > 0 && !is_above(same, chance, examples) &&
                !is_above(own, most, examples) &&
                td__loop_number(c, "neighbours", "column") <=
                    td__loop_number(c, "neighbours", "column_chance") &&
                td__loop_number(c, "neighbours", "line") <=
                    td__loop_number(c, "neighbours", "line_chance") &&
                found_little(c);
    bool nothing = carries_nothing(c) && !(examples > 0 && is_above(same, chance, examples));
    if ((!apart && !none && !nothing) || td__loop_is_adversarial(c)) {
        return;
    }
    td__suspicion *s =
        td__loop_error(c, TD_LIKELY, NULL, 1, "check that each label belongs to its example");
    if (nothing) {
        td__because(
            s, NULL, 0, td__loop_number(c, "said_of_validation", "right"),
            td__say(c,
                    "the loss of training falls, and %.0f %% of the validation examples are "
                    "right; by chance that is %.0f %%",
                    100 * td__loop_number(c, "said_of_validation", "right"),
                    100 * td__loop_number(c, "said_of_validation", "expected")));
    }
    if (examples == 0) {
        return;
    }
    td__because(s, NULL, 1, same,
                td__say(c,
                        "the nearest neighbour of a training example has its class in %.0f %% of "
                        "the cases; by chance that is %.0f %%",
                        100 * same, 100 * chance));
    if (apart) {
        td__because(s, NULL, 1, other,
                    td__say(c, "of a validation example in %.0f %%", 100 * other));
    }
}

enum { ENOUGH = 30 };

const char *td__unrelated_text(td__case *c) {
    return td__say(c,
                   "the nearest neighbour and single columns say no more of the labels than of "
                   "the same labels in %d other orders",
                   TD__LABEL_ORDERS);
}

/* How much better the trained network knows the validation part than the training part, both as in
 * inference; 0: not beyond chance. Values are left out: a few far ones in one part decide their score. */
static double below_validation(const td__case *c) {
    if (!c->repeated || c->baseline.points == 0) {
        return 0;
    }
    const td__trial_point *end = &c->baseline.curve[c->baseline.points - 1];
    if (end->validation.rows < ENOUGH || end->training.rows < ENOUGH ||
        c->facts.task.kind == TD__TASK_VALUES) {
        return 0;
    }
    double fewer = (double)(end->validation.rows < end->training.rows ? end->validation.rows
                                                                      : end->training.rows);
    double below = end->validation.score - fmax(end->training.score, 0);
    return below > fmax(DIFFERENCE, CHANCE / sqrt(fewer)) ? below : 0;
}

/* Whether as few examples as there are would all be of this class by chance, were it as common as in the
 * validation part. */
static bool is_common(const td__facts *facts) {
    double label = facts->labels.all.minimum;
    bool whole = facts->validation_labels.classes > 1 && label >= 0 && label < TD__MOST_CLASSES;
    double share = whole ? facts->validation_labels.shares[(int64_t)label] : 0;
    if (facts->validation_labels.binary && facts->validation_labels.width == 1) {
        double ones = facts->validation_labels.all.mean;
        share = label == 0 ? 1 - ones : ones;
    }
    return pow(share, (double)facts->labels.all.count) > BY_CHANCE;
}

/* Validation examples that a network which knows its training part takes for other classes, each class for
 * one other. */
static bool find_renamed(td__case *c) {
    if (!c->repeated || c->baseline.points == 0) {
        return false;
    }
    const td__trial_point *end = &c->baseline.curve[c->baseline.points - 1];
    if (end->validation.rows < FEW || end->training.score < KNOWN ||
        end->validation.renamed < end->validation.right + NAMED) {
        return false;
    }
    td__suspicion *s = td__suspect(c, TD__FACT, -1, "the same labels in training and validation");
    td__because(s, "label", end->step, end->validation.right,
                td__say(c,
                        "%.0f %% of the answers are right in training, %.0f %% in validation, and "
                        "%.0f %% would be with other names for the classes",
                        100 * end->training.right, 100 * end->validation.right,
                        100 * end->validation.renamed));
    return true;
}

/* What was learnt by heart says nothing of other examples, and nothing simple says anything of the labels. */
static bool find_unrelated(td__case *c) {
    if (!c->repeated || c->baseline.points == 0 || !c->facts.unrelated) {
        return false;
    }
    const td__trial_point *end = &c->baseline.curve[c->baseline.points - 1];
    if (end->validation.rows < ENOUGH || end->training.score < KNOWN ||
        !(end->validation.score < NOTHING)) {
        return false;
    }
    td__suspicion *s = td__suspect(c, TD__FACT, -1, "check that each label belongs to its example");
    td__because(s, "label", 0, end->validation.score, td__unrelated_text(c));
    if (s) {
        s->doubtful = true;
    }
    return true;
}

static bool are_alike(const td__facts *facts) {
    const td__labels *a = &facts->labels, *b = &facts->validation_labels;
    double apart = fabs(a->all.mean - b->all.mean);
    if (facts->task.kind != TD__TASK_CLASSES) {
        return apart < ALIKE * 2 * fmax(a->all.deviation, b->all.deviation);
    }
    for (int64_t i = 0; i < TD__MOST_CLASSES; i++) {
        if (fabs(a->shares[i] - b->shares[i]) > ALIKE) {
            return false;
        }
    }
    return true;
}

/* What as many steps with fewer examples learn, of the validation part. */
static void suspect_training_part(td__case *c) {
    const td__facts *facts = &c->facts;
    const td_data_options *data = &c->experiment->data;
    bool files = data->validation && !data->input_pieces.count && !data->label_pieces.count &&
                 !data->validation_input_pieces.count && !data->validation_label_pieces.count;
    bool finite = facts->inputs.nonfinite == 0 && facts->labels.all.nonfinite == 0 &&
                  !c->baseline.origin.cause && c->baseline.points > 0;
    const td__trial_point *end = finite ? &c->baseline.curve[c->baseline.points - 1] : NULL;
    /* What a training that failed would learn of other data says nothing of its labels. */
    bool by_heart = finite && end->training.score >= KNOWN &&
                    end->training.score > fmax(end->validation.score, 0) + DIFFERENCE;
    if (!files || !finite || !(by_heart || facts->unrelated) || facts->validation_rows < MANY ||
        2 * facts->rows < facts->validation_rows || !are_alike(facts)) {
        return;
    }
    td__suspicion *s = td__suspect(c, TD__STRUCTURE, -1, "check the training labels");
    td__because(s, "label", 0, (double)(facts->validation_rows / 2),
                "half of the validation part, learnt as the training part was, tells more of its "
                "other half than the training part does");
    if (s) {
        s->on_validation = true;
    }
}

/* Few training examples may be unlike others by chance. */
static void doubt_few(const td__case *c, td__suspicion *s) {
    if (s) {
        s->doubtful = c->facts.rows < MANY;
    }
}

static void find_bad_labels(td__case *c) {
    const td__facts *facts = &c->facts;
    if (c->loop) {
        find_bad_labels_in_loop(c);
        return;
    }
    if (!c->known) {
        return;
    }
    bool validated = facts->validation_rows > 0;
    bool same =
        facts->labels.all.count > 1 && facts->labels.all.minimum == facts->labels.all.maximum &&
        c->experiment->train.objective.target == TD__TARGET_LABEL && facts->labels.width == 1;
    if (same && is_common(facts)) {
        return; /* the few that there are may well be alike */
    }
    if (same) {
        td__suspicion *s = td__suspect(c, TD__FACT, -1, "labels that were not overwritten");
        td__because(s, "label", 0, facts->labels.all.minimum,
                    td__say(c, "all %lld labels of the training part are %.4g",
                            (long long)facts->rows, facts->labels.all.minimum));
        if (validated &&
            facts->validation_labels.all.maximum > facts->validation_labels.all.minimum) {
            td__because(s, "label", 0, 0, "the validation part has others");
        }
        return;
    }
    if (td__score_of(c) > WELL) {
        return;
    }
    if (find_renamed(c) || find_unrelated(c)) {
        return;
    }
    bool noisy = td__inputs_are_farther(facts);
    double lower = facts->validation_agreement - facts->training_agreement;
    bool unlike = lower > fmax(DIFFERENCE, facts->chance);
    double below = noisy || unlike ? 0 : below_validation(c);
    if (below > 0) {
        const td__trial_point *end = &c->baseline.curve[c->baseline.points - 1];
        td__suspicion *s = td__suspect(c, TD__FACT, -1, "check the training labels");
        td__because(s, NULL, end->step, below,
                    td__say(c,
                            "%.0f %% of the validation part is learnt, and only %.0f %% of what "
                            "it was trained on",
                            100 * end->validation.score, 100 * fmax(end->training.score, 0)));
        doubt_few(c, s);
    }
    if (unlike && !noisy) {
        td__suspicion *s = td__suspect(c, TD__FACT, -1, "check the training labels");
        td__because(s, "label", 0, facts->training_agreement,
                    td__say(c,
                            "the labels of nearest neighbours agree to %.0f %% in training, to "
                            "%.0f %% in validation (0 %%: as by chance)",
                            100 * fmax(facts->training_agreement, 0),
                            100 * fmax(facts->validation_agreement, 0)));
        doubt_few(c, s);
    } else if (below <= 0 && !noisy && c->repeated) {
        suspect_training_part(c);
    }
}

const td__rule td__rule_bad_labels = {
    .info = {.name = "bad_labels",
             .meaning = "labels are wrong: noise, shuffled, all the same",
             .reads = "inputs and labels of both parts",
             .statistic =
                 "whether labels differ at all; how alike the labels of nearest neighbours "
                 "are, within training and within validation (400 examples of each)",
             .threshold =
                 "neighbours agree 30 points less in training (more where there are few "
                 "examples), although they are as near: the inputs are alike, so the "
                 "labels are not. Or the trained network knows the validation part that "
                 "much better than what it was trained on, or takes its classes for one another, "
                 "each for one other. Or half of a validation file, learnt in as many steps, tells "
                 "more of its other half than the training part does. Or nothing is learnt, and "
                 "neither neighbours nor single columns say more of the labels than of the same "
                 "labels in 39 other orders",
             .remedy = "check the labels"},
    .title = "bad labels",
    .explains = TD__PLATEAU | TD__VALIDATION_BELOW_TRAINING | TD__LOSS_FLOOR | TD__CONSTANT_OUTPUT |
                TD__OVERFIT_GAP | TD__SLOW_CONVERGENCE | TD__MAJORITY_CLASS,
    .one_output = true,
    .each_loop_head = true,
    .all_loop_heads = true,
    .needs = TD__NEEDS_EXPERIMENT | TD__NEEDS_LOOP,
    .find = find_bad_labels,
};
