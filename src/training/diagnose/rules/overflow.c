#include "diagnose/loop.h"

#include <math.h>
#include <string.h>

/* What a layer puts out after updates, or a loss of it, may have grown with them: that is the learning rate's.
 * A scaled loss may overflow: its scale is made smaller then. */
static void find_overflow_in_loop(td__case *c) {
    bool first = td__loop_number(c, "nonfinite", "updates") == 0;
    bool is_loss = td__loop_is(c, "nonfinite", "is_loss");
    bool grown = !first && (is_loss || td__loop_is(c, "nonfinite", "is_layer"));
    const char *operation = td__loop_operation(c);
    if (strcmp(td__loop_text(c, "nonfinite", "what"), "pass") != 0 || !operation || grown ||
        td__loop_is_division(c) || (is_loss && td__loop_has(c, "scaler"))) {
        return;
    }
    const td__origin *origin = td__loop_origin(c);
    td__suspicion *s = td__loop_error(
        c, first ? TD_SURE : TD_LIKELY, origin ? origin->where : NULL,
        (int64_t)td__loop_number(c, "nonfinite", "since"),
        "inputs of variance 1, smaller initial weights, a function that does not grow as fast");
    td__because(s, NULL, (int64_t)td__loop_number(c, "nonfinite", "since"), NAN, operation);
    if (s) {
        s->origin = origin;
    }
}

static void find_overflow(td__case *c) {
    if (c->loop) {
        find_overflow_in_loop(c);
        return;
    }
    const td__origin *origin = &c->baseline.origin;
    if (!c->repeated || !origin->cause || strcmp(origin->cause, "layer") != 0 ||
        origin->layer < 0 || origin->divides) {
        return;
    }
    const td__layer_facts *layer = &c->layers.items[origin->layer];
    td__suspicion *s =
        td__suspect(c, TD__FACT, origin->layer,
                    "inputs of variance 1, an activation that does not grow as fast");
    const char *signal = td__say(c, "%s.output", layer->name);
    if (origin->row >= 0) {
        td__because(s, signal, origin->step, (double)origin->row,
                    td__say(c,
                            "%s of layer %s leaves the range of floats in step %lld, row %lld, "
                            "while its inputs and weights are finite",
                            td_activation_name(layer->activation), layer->name,
                            (long long)origin->step, (long long)origin->row + 1));
    } else {
        td__because(s, signal, origin->step, NAN,
                    td__say(c,
                            "layer %s puts out numbers whose squares leave the range of floats "
                            "in step %lld",
                            layer->name, (long long)origin->step));
    }
    if (s) {
        s->origin = origin;
        s->since = origin->step;
    }
}

const td__rule td__rule_overflow = {
    .info = {.name = "overflow",
             .meaning = "an operation leaves the range of float32",
             .reads = "the outputs of the layers in the step whose loss was not finite",
             .statistic = "the first output that is not finite while all it is made of is",
             .threshold = "one number",
             .remedy = "scaled inputs, another activation"},
    .title = "overflow",
    .explains = TD__NAN_LOSS | TD__INF_LOSS | TD__HUGE_ACTIVATIONS,
    .needs = TD__NEEDS_REPEAT | TD__NEEDS_LOOP,
    .find = find_overflow,
    .after = true,
};
