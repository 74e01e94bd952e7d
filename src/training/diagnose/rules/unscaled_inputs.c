#include "diagnose/loop.h"

#include <math.h>

/* Glorot's and He's initial weights assume inputs of variance 1. Ten times that, or columns a
 * hundredfold apart, and the largest drown the others; a hundredth, and the first layer's gradient
 * vanishes. */
#define LARGE 8.0
#define SMALL 0.02
#define APART 100.0

#define LITTLE 0.1      /* that the loss of a loop fell by */
#define OTHER_SCALE 3.0 /* times: noise that is added in training alone is less */
#define WORSE 1.1       /* times the loss of training */
#define VERY_LARGE 20.0 /* root mean square, where no trial can tell */
#define HALF                                                                                       \
    0.5 /* that the loss of a loop with very small inputs fell by: biases learn, weights hardly */

/* Whether inputs of validation are of another scale than those of training, of its first updates or later. */
static bool has_other_scale(const td__case *c, const char *fact) {
    double size = td__loop_number(c, fact, "size"), mean = td__loop_number(c, fact, "mean");
    double deviation = sqrt(fmax(size * size - mean * mean, 0));
    double other = td__loop_number(c, "validation_input", "deviation");
    double middle = td__loop_number(c, fact, "middle"),
           other_middle = td__loop_number(c, "validation_input", "middle");
    /* A few numbers that are far off make a deviation: then those in the middle are alike. */
    bool is_other = middle >= OTHER_SCALE * other_middle || other_middle >= OTHER_SCALE * middle;
    /* Noise in training alone makes inputs larger there, and no validation worse. */
    bool is_worse = td__series_last(td__validation_loss_of(c->history)) >
                    WORSE * td__series_mean(td__loss_of(c->history), 0.9, 1);
    double shift = fabs(td__loop_number(c, "validation_input", "mean") - mean);
    if (!(deviation > 0 && other > 0) || (other < deviation && !is_worse)) {
        return false;
    }
    return (is_other && (other >= OTHER_SCALE * deviation || deviation >= OTHER_SCALE * other)) ||
           shift >= OTHER_SCALE * fmax(deviation, other);
}

/* Inputs that are divided in one part of the program and not, or twice, in another. */
static bool find_other_scale(td__case *c) {
    if (td__loop_is_adversarial(c) || td__validation_loss_of(c->history)->count == 0 ||
        !has_other_scale(c, "input") ||
        (td__loop_has(c, "input_later") && !has_other_scale(c, "input_later"))) {
        return false;
    }
    double size = td__loop_number(c, "input", "size"), mean = td__loop_number(c, "input", "mean");
    double deviation = sqrt(fmax(size * size - mean * mean, 0));
    double other = td__loop_number(c, "validation_input", "deviation");
    td__suspicion *s = td__loop_error(
        c, TD_LIKELY, NULL, 1, "the same steps for the inputs of training and of validation");
    td__because(s, "input", 1, other,
                td__say(c,
                        "inputs of training have mean %.3g and deviation %.3g, those of validation "
                        "%.3g and %.3g",
                        mean, deviation, td__loop_number(c, "validation_input", "mean"), other));
    return true;
}

static void find_unscaled_inputs_in_loop(td__case *c) {
    if (find_other_scale(c)) {
        return;
    }
    double size = td__loop_number(c, "input", "size");
    bool poor = td__has_any(c, TD__HUGE_LOSS | TD__OSCILLATION | TD__DIVERGENCE | TD__PLATEAU |
                                   TD__DEAD_RELU | TD__LOSS_FLOOR | TD__NAN_LOSS | TD__INF_LOSS |
                                   TD__EXPLODING_GRADIENT | TD__SATURATED_UNITS |
                                   TD__HUGE_ACTIVATIONS | TD__ZERO_GRADIENT);
    poor |= td__loop_fall(c) < LITTLE;
    bool small = size > 0 && size < SMALL && td__loop_fall(c) < HALF && !td__loop_knows(c);
    if ((size < VERY_LARGE || !poor) && !small) {
        return;
    }
    td__suspicion *s = td__loop_error(c, TD_LIKELY, NULL, 1, "inputs of mean 0 and variance 1");
    td__because(s, "input", 1, size,
                td__say(c, "inputs go from %.4g to %.4g (root mean square %.3g)",
                        td__loop_number(c, "input", "minimum"),
                        td__loop_number(c, "input", "maximum"), size));
}

static void find_unscaled_inputs(td__case *c) {
    if (c->loop) {
        find_unscaled_inputs_in_loop(c);
        return;
    }
    const td__facts *facts = &c->facts;
    if (!c->known || facts->indices || facts->inputs.count == 0 ||
        (c->experiment->data.standardize && c->experiment->data.scale == 1)) {
        return;
    }
    double largest = fmax(fabs(facts->inputs.minimum), fabs(facts->inputs.maximum));
    double size = hypot(facts->inputs.mean, facts->inputs.deviation);
    bool large = largest > LARGE && size > 1;
    bool small = size < SMALL;
    bool apart = facts->table && facts->largest_deviation > APART * facts->smallest_deviation &&
                 largest > LARGE;
    if (!large && !small && !apart) {
        return;
    }
    td__suspicion *s = td__suspect(c, TD__STRUCTURE, c->layers.first, "data.standardize: true");
    td__because(s, "input", 0, largest,
                td__say(c, "inputs go from %.4g to %.4g (mean %.3g, deviation %.3g)",
                        facts->inputs.minimum, facts->inputs.maximum, facts->inputs.mean,
                        facts->inputs.deviation));
    if (apart && s) {
        s->unit = facts->largest_column;
        td__because(s, "input", 0, facts->largest_deviation,
                    td__say(c, "deviations of columns go from %.3g to %.3g (column %lld)",
                            facts->smallest_deviation, facts->largest_deviation,
                            (long long)facts->largest_column));
    }
    if (s) {
        s->severity = small ? td__severity(SMALL, size)
                            : fmax(td__severity(largest, LARGE),
                                   apart ? td__severity(facts->largest_deviation,
                                                        APART * facts->smallest_deviation)
                                         : 0);
    }
    td__edit(s, "data.scale=1");
    td__edit(s, "data.standardize=true");
}

const td__rule td__rule_unscaled_inputs = {
    .info = {.name = "unscaled_inputs",
             .meaning = "inputs are not normalised",
             .reads = "the training data, as scaled; data.scale, data.standardize",
             .statistic = "root mean square, extremes, and the deviations of columns",
             .threshold = "a value beyond 8 with a root mean square above 1, one below 0.02, or "
                          "columns a hundredfold apart: initial weights assume variance 1. "
                          "Reported when a trial with standardised inputs does better",
             .remedy = "data.standardize: true, or data.scale"},
    .title = "inputs are not scaled",
    .explains = TD__HUGE_ACTIVATIONS | TD__OSCILLATION | TD__HUGE_LOSS | TD__SATURATED_UNITS |
                TD__VANISHING_GRADIENT | TD__EXPLODING_GRADIENT | TD__PLATEAU |
                TD__SLOW_CONVERGENCE | TD__DEAD_RELU | TD__ZERO_GRADIENT | TD__CONSTANT_OUTPUT |
                TD__NAN_LOSS | TD__INF_LOSS | TD__DIVERGENCE | TD__MAJORITY_CLASS | TD__LOSS_FLOOR |
                TD__UNCHANGED_WEIGHTS,
    .needs = TD__NEEDS_EXPERIMENT | TD__NEEDS_LOOP,
    .find = find_unscaled_inputs,
};
