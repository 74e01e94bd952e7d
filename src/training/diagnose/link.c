/* Causes that symptoms alone point to: for runs that cannot be repeated (recorded from another
 * program, or with --no-trial), where nothing can be tried out. */
#include "diagnose/diagnosis.h"
#include "diagnose/loop.h"

#include <string.h>

typedef struct pointer {
    uint32_t all;      /* symptoms that must be there, all of them */
    const char *cause; /* what most often brings them about */
    td_confidence confidence;
    const char *remedy;
} pointer;

/* The first that fits a cause counts, and the first of neighbours with the same symptoms. */
static const pointer links[] = {
    {TD__INF_LOSS | TD__EXPLODING_GRADIENT, "learning_rate_too_high", TD_LIKELY,
     "a tenth of the learning rate; clip_norm"},
    {TD__NAN_LOSS | TD__EXPLODING_GRADIENT, "learning_rate_too_high", TD_LIKELY,
     "a tenth of the learning rate; clip_norm"},
    {TD__INF_LOSS, "learning_rate_too_high", TD_MAYBE, "a tenth of the learning rate; clip_norm"},
    {TD__NAN_LOSS, "learning_rate_too_high", TD_MAYBE,
     "a tenth of the learning rate; clip_norm; look for NaN in the data"},
    {TD__DIVERGENCE, "learning_rate_too_high", TD_LIKELY, "a tenth of the learning rate"},
    {TD__OSCILLATION, "learning_rate_too_high", TD_MAYBE, "a tenth of the learning rate"},
    {TD__ATTENTION_COLLAPSE | TD__ATTENTION_LOGITS, "learning_rate_too_high", TD_LIKELY,
     "a tenth of the learning rate, a longer warmup; normalised queries and keys"},
    {TD__ATTENTION_COLLAPSE | TD__PLATEAU, "learning_rate_too_high", TD_LIKELY,
     "a tenth of the learning rate, a longer warmup; normalised queries and keys"},
    {TD__ATTENTION_LOGITS, "learning_rate_too_high", TD_MAYBE,
     "a tenth of the learning rate, a longer warmup; normalised queries and keys"},
    {TD__DEAD_RELU, "learning_rate_too_high", TD_MAYBE,
     "a tenth of the learning rate; biases that start at 0; leaky_relu"},
    {TD__OVERFIT_GAP, "overfitting", TD_LIKELY, "stop early; dropout, weight decay, more data"},
    {TD__SHRINKING_WEIGHTS | TD__PLATEAU, "over_regularization", TD_LIKELY, "less weight decay"},
    {TD__UNCHANGED_WEIGHTS | TD__PLATEAU, "learning_rate_too_low", TD_MAYBE,
     "a learning rate above 0, parameters that the optimizer has"},
    {TD__ZERO_GRADIENT | TD__PLATEAU, "bad_initialization", TD_MAYBE, "other initial weights"},
    {TD__VANISHING_GRADIENT | TD__PLATEAU, "wrong_hidden_activation", TD_LIKELY,
     "relu instead of sigmoid or tanh; normalisation; fewer layers"},
    {TD__VANISHING_GRADIENT | TD__PLATEAU, "missing_normalization", TD_LIKELY,
     "normalisation; initial weights of variance 2 / inputs; fewer layers"},
    {TD__HUGE_ACTIVATIONS, "unscaled_inputs", TD_MAYBE, "inputs of mean 0 and variance 1"},
    {TD__HUGE_LOSS | TD__SLOW_CONVERGENCE, "unscaled_targets", TD_MAYBE,
     "targets of mean 0 and variance 1"},
    {TD__SLOW_CONVERGENCE, "too_few_epochs", TD_MAYBE, "more epochs, or a larger rate"},
};

uint32_t td__link_symptoms(const char *cause, size_t *at) {
    while (*at < sizeof links / sizeof *links) {
        const pointer *l = &links[(*at)++];
        if (!strcmp(l->cause, cause)) {
            return l->all;
        }
    }
    return 0;
}

/* Symptoms that what was accepted brings about: they need no further cause. */
static uint32_t explained(const td__case *c) {
    uint32_t bits = 0;
    for (size_t i = 0; i < c->suspicion_count; i++) {
        const td__suspicion *s = &c->suspicions[i];
        bits |= s->accepted && s->confidence > TD_MAYBE ? s->rule->explains : 0;
    }
    return bits;
}

/* Whether layers put out what relu does: nothing below 0, and zeros. */
static bool has_relu(const td__case *c) {
    const td_run_signal *signal;
    for (size_t at = 0; (signal = td__next_signal(c->history, TD_SIGNAL_OUTPUT, &at));) {
        const td__series *zeros = td__series_of(c->history, signal->name, "zeros");
        double min = td__series_least(td__series_of(c->history, signal->name, "min"), NULL);
        if (min == 0 && td__series_mean(zeros, 0, 1) > 0) {
            return true;
        }
    }
    return false;
}

/* relu is no remedy where it is. */
static bool cannot_be(const td__case *c, const char *cause) {
    return !strcmp(cause, "wrong_hidden_activation") && has_relu(c);
}

/* A validation loss that rises while the accuracy stays at its best is confidence, and harmless. */
static bool is_harmless(const td__case *c, const char *cause) {
    static const char *const names[] = {"val_accuracy",
                                        "val_acc",
                                        "val/accuracy",
                                        "val/acc",
                                        "valid_accuracy",
                                        "valid_acc",
                                        "validation_accuracy",
                                        "accuracy/val",
                                        "acc/val",
                                        "test_accuracy",
                                        "test_acc",
                                        "test/accuracy",
                                        "eval_accuracy",
                                        "eval/accuracy"};
    const td__series *accuracy = td__series_of(c->history, names[0], NULL);
    for (size_t i = 1; !accuracy->count && i < sizeof names / sizeof *names; i++) {
        accuracy = td__series_of(c->history, names[i], NULL);
    }
    double best = td__series_most(accuracy, NULL), last = td__series_last(accuracy);
    /* Where training weighs classes and validation does not, the two losses cannot be compared. */
    bool other = c->loop && td__loop_is(c, "head", "weighted");
    /* Still better than after the first epoch: what it learnt since is not lost. */
    const td__series *loss = td__validation_loss_of(c->history);
    other |= c->loop && loss->count > 2 && td__series_last(loss) < td__series_first(loss);
    bool good = last >= 0.9 || td__loop_number(c, "said_of_validation", "right") >= 0.9;
    return !strcmp(cause, "overfitting") && (other || good || (best > 0 && last >= 0.97 * best));
}

/* What a loss does says little where several optimizers take turns, or while it ends below where it began: tasks in turn are as
 * hard each time. */
static bool need_not_fall(const td__case *c, const pointer *l) {
    return c->loop &&
           (td__loop_is_adversarial(c) || (l->all == TD__DIVERGENCE && !td__loop_ends_above(c)));
}

static bool is_suspected(const td__case *c, const char *cause) {
    for (size_t i = 0; i < c->suspicion_count; i++) {
        if (c->suspicions[i].accepted && !strcmp(c->suspicions[i].rule->info.name, cause)) {
            return true;
        }
    }
    return false;
}

void td__link(td__case *c, uint32_t among, const char *only, const char *ignore) {
    uint32_t there = 0, known = explained(c), done = 0;
    for (size_t i = 0; i < c->symptom_count; i++) {
        there |= 1U << c->symptoms[i].index;
    }
    if (there & TD__DEAD_RELU) { /* no error gets through them */
        there &= ~(uint32_t)TD__VANISHING_GRADIENT;
    }
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
        const pointer *l = &links[i];
        c->rule = td__rule_of(l->cause);
        if (!(l->all & among) || (there & l->all) != l->all || (known & l->all) == l->all ||
            done == l->all || !c->rule || cannot_be(c, l->cause) ||
            !td__rule_is_wanted(c->rule, only, ignore) || is_suspected(c, l->cause)) {
            continue;
        }
        td__suspicion *s = td__suspect(c, TD__TUNING, -1, l->remedy);
        if (s) {
            s->accepted = true;
            s->confidence =
                is_harmless(c, l->cause) || need_not_fall(c, l) ? TD_MAYBE : l->confidence;
            s->weight = (double)(sizeof links / sizeof *links - i);
            done = l->all;
        }
    }
}
