/* Causes that symptoms alone point to: for runs that cannot be repeated (recorded from another
 * program, or with --no-trial), where nothing can be tried out. */
#include "diagnose/diagnosis.h"

#include <string.h>

typedef struct pointer {
    uint32_t all;      /* symptoms that must be there, all of them */
    const char *cause; /* what most often brings them about */
    td_confidence confidence;
    const char *remedy;
} pointer;

/* The first that fits a cause counts. */
static const pointer links[] = {
    {TD__INF_LOSS | TD__EXPLODING_GRADIENT, "learning_rate_too_high", TD_LIKELY,
     "a tenth of the learning rate; clip_norm"},
    {TD__NAN_LOSS | TD__EXPLODING_GRADIENT, "learning_rate_too_high", TD_LIKELY,
     "a tenth of the learning rate; clip_norm"},
    {TD__DIVERGENCE, "learning_rate_too_high", TD_LIKELY, "a tenth of the learning rate"},
    {TD__OSCILLATION, "learning_rate_too_high", TD_MAYBE, "a tenth of the learning rate"},
    {TD__DEAD_RELU, "learning_rate_too_high", TD_MAYBE, "a tenth of the learning rate"},
    {TD__OVERFIT_GAP, "overfitting", TD_LIKELY, "stop early; dropout, weight decay, more data"},
    {TD__SHRINKING_WEIGHTS | TD__PLATEAU, "over_regularization", TD_LIKELY, "less weight decay"},
    {TD__UNCHANGED_WEIGHTS | TD__PLATEAU, "learning_rate_too_low", TD_MAYBE,
     "a learning rate above 0, parameters that the optimizer has"},
    {TD__ZERO_GRADIENT | TD__PLATEAU, "bad_initialization", TD_MAYBE, "other initial weights"},
    {TD__VANISHING_GRADIENT | TD__PLATEAU, "wrong_hidden_activation", TD_LIKELY,
     "relu; normalisation; fewer layers"},
    {TD__HUGE_ACTIVATIONS, "unscaled_inputs", TD_MAYBE, "inputs of mean 0 and variance 1"},
    {TD__HUGE_LOSS | TD__SLOW_CONVERGENCE, "unscaled_targets", TD_MAYBE,
     "targets of mean 0 and variance 1"},
    {TD__SLOW_CONVERGENCE, "too_few_epochs", TD_MAYBE, "more epochs, or a larger rate"},
};

/* Symptoms that what was accepted brings about: they need no further cause. */
static uint32_t explained(const td__case *of) {
    uint32_t bits = 0;
    for (size_t i = 0; i < of->suspicion_count; i++) {
        const td__suspicion *s = &of->suspicions[i];
        bits |= s->accepted && s->confidence > TD_MAYBE ? s->rule->explains : 0;
    }
    return bits;
}

static bool is_suspected(const td__case *of, const char *cause) {
    for (size_t i = 0; i < of->suspicion_count; i++) {
        if (of->suspicions[i].accepted && !strcmp(of->suspicions[i].rule->info.name, cause)) {
            return true;
        }
    }
    return false;
}

void td__link(td__case *of, const char *only, const char *ignore) {
    uint32_t there = 0, known = explained(of);
    for (size_t i = 0; i < of->symptom_count; i++) {
        there |= 1U << of->symptoms[i].index;
    }
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
        const pointer *l = &links[i];
        of->rule = td__rule_of(l->cause);
        if ((there & l->all) != l->all || (known & l->all) == l->all || !of->rule ||
            !td__rule_is_wanted(of->rule, only, ignore) || is_suspected(of, l->cause)) {
            continue;
        }
        td__suspicion *s = td__suspect(of, TD__TUNING, -1, l->remedy);
        if (s) {
            s->accepted = true;
            s->confidence = l->confidence;
            s->weight = (double)(sizeof links / sizeof *links - i);
        }
    }
}
