/* Symptoms that are findings by themselves. What brought them about may stay unknown; that something is
 * wrong does not. */
#include "diagnose/diagnosis.h"
#include "diagnose/loop.h"

#include <math.h>

#define NOTHING 0.05 /* a score that is none */
#define LEARNT 0.5   /* a score with which a loss that stands still does no harm */
#define FIRST 0.05   /* of the points: those that a loss that stands still is compared with */
#define HIDDEN                                                                                     \
    0.1 /* of the targets' variance: what simple methods find of it may be all there is */

enum { ENOUGH_POINTS = 40 }; /* of a loss that stands still: fewer are noise */

static bool any_certain(const td__case *c) {
    for (size_t i = 0; i < c->suspicion_count; i++) {
        if (c->suspicions[i].accepted && c->suspicions[i].confidence > TD_MAYBE) {
            return true;
        }
    }
    return false;
}

static bool is_always_wrong(td__case *c) {
    (void)c;
    return true;
}

/* A network that learnt its task did so, whatever its loss looks like. */
static bool has_learnt_nothing(td__case *c) {
    return !(td__score_of(c) >= LEARNT);
}

static bool stands_still(td__case *c) {
    bool enough = c->repeated ? c->baseline.steps >= ENOUGH_POINTS
                              : td__loss_of(c->history)->count >= ENOUGH_POINTS;
    return has_learnt_nothing(c) && enough;
}

static bool has_failed(td__case *c) {
    return c->history->state == TD_RUN_FAILED || c->history->state == TD_RUN_CRASHED;
}

typedef struct wrong {
    enum td__symptom_index symptom;
    td_confidence confidence;
    bool (*is_wrong)(td__case *c);
    const char *remedy;
} wrong;

/* Two deviations of the mean that the loss begins with, as a share of it: batches differ. */
static double noise_of(const td__case *c) {
    const td__series *loss = td__loss_of(c->history);
    double mean = td__series_mean(loss, 0.5, 1), squares = 0;
    size_t begin = loss->count / 2, count = loss->count - begin;
    for (size_t i = begin; i < loss->count; i++) {
        squares += (loss->points[i].value - mean) * (loss->points[i].value - mean);
    }
    double of_first = fmax(1, FIRST * (double)loss->count);
    return count && mean > 0 ? 2 * sqrt(squares / (double)count / of_first) / mean : 0;
}

/* The losses of adversaries, of reinforcement learning and of pairs that are chosen anew need not fall, unless they stay at that of a guess. A loop that has one forward
 * pass and labels for each backward pass is none of them. Nor need that of a trained network. */
static td_confidence confidence_of(const td__case *c, const wrong *w) {
    bool falls = w->symptom == TD__INDEX_PLATEAU || w->symptom == TD__INDEX_DIVERGENCE;
    bool unlabelled = w->symptom == TD__INDEX_PLATEAU && c->loop && !td__loop_has(c, "labels") &&
                      !td__loop_chooses_by_chance(c);
    unlabelled |= w->symptom == TD__INDEX_PLATEAU && c->loop &&
                  (td__loop_knows(c) || td__loop_starts_trained(c));
    /* Noise cannot be learnt: a loss of values that stands still is wrong where something of them was found, and
     * more of it than the loss goes up and down by. */
    unlabelled |= w->symptom == TD__INDEX_PLATEAU && c->loop && td__loop_has(c, "dependence") &&
                  td__loop_number(c, "dependence", "explained") < HIDDEN + noise_of(c);
    unlabelled &= !td__loop_guesses(c);
    bool other = unlabelled || (falls && c->loop && td__loop_is_adversarial(c));
    return other ? TD_MAYBE : w->confidence;
}

/* The worst first: it is the finding, and the others are its evidence. */
static const wrong wrongs[] = {
    {TD__INDEX_NAN_LOSS, TD_SURE, is_always_wrong,
     "look for NaN in the data, a division by 0 or the logarithm of 0 in the loss; a smaller "
     "learning rate"},
    {TD__INDEX_INF_LOSS, TD_SURE, is_always_wrong,
     "look for what overflows: outputs, the loss's exponential or logarithm; a smaller learning "
     "rate"},
    {TD__INDEX_EARLY_END, TD_SURE, has_failed, "look at the program's error message"},
    {TD__INDEX_DIVERGENCE, TD_LIKELY, has_learnt_nothing, "a smaller learning rate"},
    {TD__INDEX_PLATEAU, TD_LIKELY, stands_still,
     "another learning rate; check that the labels belong to the inputs"},
};

static const td__rule *rule_of_symptom(enum td__symptom_index index) {
    size_t i = 0;
    while (!td__rules[i]->info.symptom || td__rules[i]->symptom != index) {
        i++;
    }
    return td__rules[i];
}

/* A network that learnt nothing, of labels that nothing simple says anything of: no trial helped. */
static void accept_unrelated(td__case *c, const char *only, const char *ignore) {
    c->rule = td__rule_of("bad_labels");
    if (!c->repeated || !c->whole || c->loop || !c->facts.unrelated || any_certain(c) ||
        !(td__score_of(c) < NOTHING) || !td__rule_is_wanted(c->rule, only, ignore)) {
        return;
    }
    td__suspicion *s =
        td__suspect(c, TD__TUNING, -1, "check that each label belongs to its example");
    td__because(s, "label", 0, td__score_of(c), td__unrelated_text(c));
    if (s) {
        s->accepted = true;
        s->confidence = TD_LIKELY;
        s->since = 1;
    }
}

void td__accept_symptoms(td__case *c, const char *only, const char *ignore) {
    accept_unrelated(c, only, ignore);
    for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs && !any_certain(c); i++) {
        const wrong *w = &wrongs[i];
        const td__symptom *symptom = td__has(c, w->symptom);
        c->rule = rule_of_symptom(w->symptom);
        if (!symptom || !td__rule_is_wanted(c->rule, only, ignore) || !w->is_wrong(c)) {
            continue;
        }
        td__suspicion *s = td__suspect(c, TD__TUNING, -1, w->remedy);
        if (s) {
            s->accepted = true;
            s->confidence = confidence_of(c, w);
            s->where = symptom->layer;
            s->since = symptom->since;
        }
    }
}
