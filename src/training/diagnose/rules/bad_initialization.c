#include "diagnose/loop.h"

#include <math.h>

/* Weights three times as large as Glorot's make each layer's variance nine times that of the one
 * before; a fifth, a twenty-fifth. */
#define WIDE 3.0
#define NARROW 0.2
#define FEW 16
#define VERY_WIDE 6.0 /* of a loop, where no trial can tell */
#define LITTLE 0.1    /* that the loss of a loop fell by */
#define BIASED 5.0    /* pushes units out of where they work, whatever comes in */

/* What is odd about a layer's first values; NULL: nothing. */
static const char *oddity(td__case *c, const td__layer_facts *layer) {
    bool hidden = !layer->last;
    double ratio = layer->expected > 0 ? layer->kernel_deviation / layer->expected : 1;
    if (layer->kernel_equal && hidden && layer->units > 1) {
        return td__say(c, "all weights of %s start at %.4g: its units stay alike", layer->name,
                       layer->kernel_mean);
    }
    if (layer->bias_largest > BIASED) {
        return td__say(c, "biases of %s start at up to %.4g in size (mean %.4g)", layer->name,
                       layer->bias_largest, layer->bias_mean);
    }
    if (layer->kernel_equal || layer->fan_in * layer->fan_out < FEW) {
        return NULL; /* of the last layer: it still learns; of few weights: no deviation to speak of */
    }
    if (ratio > WIDE) {
        return td__say(c, "weights of %s start with deviation %.3g, %.1f times Glorot's",
                       layer->name, layer->kernel_deviation, ratio);
    }
    if (ratio < NARROW && layer->kind->role != TD__ROLE_LOOKUP) {
        return td__say(c, "weights of %s start with deviation %.2g, %.2f of Glorot's", layer->name,
                       layer->kernel_deviation, ratio);
    }
    return NULL;
}

/* Recurrent weights that shrink what they carry forget it within a few steps. */
static const char *recurrent_oddity(td__case *c, const td__layer_facts *layer) {
    if (layer->recurrent_kernel < 0) {
        return NULL;
    }
    const td_parameter_info *parameter =
        td_model_parameter_at(c->trainer->model, (size_t)layer->recurrent_kernel);
    td_view view = td_view_of(parameter->tensor);
    td_stats stats;
    if (td_stats_of(&view, &stats, NULL)) {
        return NULL;
    }
    td_shape shape = td_tensor_shape(parameter->tensor);
    double keeping = 1 / sqrt((double)shape.dims[shape.rank - 1]); /* of an orthogonal matrix */
    double ratio = stats.std / keeping;
    return ratio < 0.5 || ratio > 2
               ? td__say(c,
                         "recurrent weights of %s start with deviation %.2g; %.2g keeps a state's "
                         "size",
                         layer->name, stats.std, keeping)
               : NULL;
}

static void find_bad_initialization_in_loop(td__case *c) {
    double equal = td__loop_number(c, "start", "equal"),
           value = td__loop_number(c, "start", "value");
    double ratio = td__loop_number(c, "start", "ratio");
    bool poor = td__has_any(c, TD__HUGE_LOSS | TD__PLATEAU | TD__LOSS_FLOOR | TD__DIVERGENCE |
                                   TD__OSCILLATION | TD__NAN_LOSS | TD__INF_LOSS |
                                   TD__HUGE_ACTIVATIONS | TD__SATURATED_UNITS | TD__ZERO_GRADIENT |
                                   TD__EXPLODING_GRADIENT | TD__DEAD_RELU | TD__CONSTANT_OUTPUT);
    poor |= td__loop_fall(c) < LITTLE;
    bool zero = equal > 0 && value == 0; /* the last layer of a residual branch may start so */
    /* Of a product, both factors: where one weight alone has no gradient, something else is 0. */
    if (td__loop_is(c, "zero_gradients", "constant") &&
        td__loop_number(c, "zero_gradients", "count") > 1) {
        td__suspicion *s = td__loop_error(c, TD_LIKELY, td__loop_layer(c, "zero_gradients"), 1,
                                          "initial weights that are drawn at random");
        td__because(s, NULL, 1, 0,
                    td__say(c, "weights start equal, and their gradient stays 0: %s",
                            td__loop_names(c, "zero_gradients", "names")));
        return;
    }
    double bias = td__loop_number(c, "biases", "largest");
    if (bias > BIASED && equal == 0 && ratio == 0) {
        td__suspicion *s = td__loop_error(c, poor ? TD_LIKELY : TD_MAYBE,
                                          td__loop_layer(c, "biases"), 1, "biases that start at 0");
        td__because(s, NULL, 1, bias,
                    td__say(c, "biases start at up to %.4g in size: %s", bias,
                            td__loop_names(c, "biases", "names")));
        return;
    }
    if ((equal == 0 && ratio == 0) || (zero && !poor)) {
        return;
    }
    poor |= ratio >= VERY_WIDE;
    td_confidence confidence = zero ? TD_LIKELY : equal > 0 ? TD_SURE : poor ? TD_LIKELY : TD_MAYBE;
    td__suspicion *s =
        td__loop_error(c, confidence, td__loop_layer(c, "start"), 1,
                       "the initial weights that PyTorch draws, or kaiming_uniform_");
    const char *names = td__loop_names(c, "start", "names");
    td__because(
        s, NULL, 1, equal > 0 ? value : ratio,
        equal > 0
            ? td__say(c, "all weights start at %.4g, so units stay alike: %s", value, names)
            : td__say(c,
                      "weights start up to %.1f times as large as keeps the size of a signal: %s",
                      ratio, names));
}

static void find_bad_initialization(td__case *c) {
    if (c->loop) {
        find_bad_initialization_in_loop(c);
        return;
    }
    td__suspicion *s = NULL;
    if (!c->known) {
        return;
    }
    for (size_t i = 0; i < c->layers.count; i++) {
        const td__layer_facts *layer = &c->layers.items[i];
        const char *kernel = layer->kernel >= 0 ? oddity(c, layer) : NULL;
        const char *recurrent = recurrent_oddity(c, layer);
        if (!kernel && !recurrent) {
            continue;
        }
        bool equal = layer->kernel_equal && !layer->last;
        if (!s) {
            s = td__suspect(c, equal ? TD__CONTRADICTION : TD__STRUCTURE, (ptrdiff_t)i,
                            c->experiment->weights
                                ? "start from other weights, or without `weights:`"
                                : "kernel_initializer: he_uniform (glorot_uniform without relu)");
        }
        if (!s) {
            return;
        }
        if (equal && layer->kernel_mean == 0) {
            s->layer = (ptrdiff_t)i; /* the last of them is where the error stops */
        }
        td__because(s, NULL, 0, layer->kernel_deviation, kernel ? kernel : recurrent);
        s->redraw = true;
        double ratio = layer->expected > 0 ? layer->kernel_deviation / layer->expected : 1;
        s->severity = fmax(s->severity, fmax(td__severity(ratio, WIDE / 2),
                                             td__severity(NARROW, fmax(ratio, 1e-3))));
        if (kernel) {
            td__edit_layer(c, s, (ptrdiff_t)i, "kernel_initializer",
                           layer->effective == TD_RELU ? "he_uniform" : "glorot_uniform");
            td__edit_layer(c, s, (ptrdiff_t)i, "bias_initializer", "zeros");
        }
        if (recurrent) {
            td__edit_layer(c, s, (ptrdiff_t)i, "recurrent_initializer", "orthogonal");
        }
    }
}

const td__rule td__rule_bad_initialization = {
    .info = {.name = "bad_initialization",
             .meaning = "weights start at zero, equal, too small or too large",
             .reads = "the weights before the first step",
             .statistic = "their deviation against Glorot's sqrt(2 / (in + out)), and whether they "
                          "differ at all; recurrent ones against 1 / sqrt(units)",
             .threshold = "hidden units that start equal stay equal: they get the same gradient. "
                          "Beyond 3 times or below a fifth of Glorot's deviation each layer "
                          "multiplies the variance by 9 or by 1/25; biases beyond 5 switch units "
                          "off. Reported when a trial with new weights does better",
             .remedy = "kernel_initializer: he_uniform, glorot_uniform; orthogonal in recurrence"},
    .title = "bad initial weights",
    .explains = TD__SYMMETRIC_UNITS | TD__ZERO_GRADIENT | TD__UNCHANGED_WEIGHTS | TD__PLATEAU |
                TD__HUGE_LOSS | TD__EXPLODING_GRADIENT | TD__HUGE_ACTIVATIONS | TD__DEAD_RELU |
                TD__VANISHING_GRADIENT | TD__CONSTANT_OUTPUT | TD__NAN_LOSS | TD__SLOW_CONVERGENCE |
                TD__SATURATED_UNITS | TD__MAJORITY_CLASS,
    .needs = TD__NEEDS_EXPERIMENT | TD__NEEDS_LOOP,
    .find = find_bad_initialization,
};
