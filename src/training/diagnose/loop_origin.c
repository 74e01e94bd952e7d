/* Where the first loss of a loop that is not finite came from: what the graph of that loss showed (the fact `nonfinite`). */
#include "diagnose/loop.h"

#include <string.h>

#define WHOLE 1.0 /* an update that leaves nothing of a weight: it grew before */

static const char fact[] = "nonfinite";

static bool is_of(const td__case *c, const char *what) {
    return !strcmp(td__loop_text(c, fact, "what"), what);
}

bool td__loop_is_singular(const td__case *c) {
    return is_of(c, "weights") && td__loop_number(c, fact, "updates") > 0 &&
           *td__loop_text(c, fact, "operation") &&
           td__loop_number(c, fact, "count") < td__loop_number(c, fact, "of") &&
           td__loop_number(c, "steps", "largest") < WHOLE;
}

bool td__loop_is_division(const td__case *c) {
    return is_of(c, "pass") &&
           (td__loop_is(c, fact, "divides") || td__loop_has_member(c, fact, "column"));
}

/* Of a pass: "layer 2 puts out", "exp of what fc1 puts out gives", "the input of fc1 has". */
static const char *subject_of(td__case *c) {
    const char *operation = td__loop_text(c, fact, "operation");
    const char *layer = td__loop_text(c, fact, "layer");
    const char *argument = td__loop_has_member(c, fact, "argument")
                               ? td__say(c, " of %.4g", td__loop_number(c, fact, "argument"))
                               : "";
    if (td__loop_is(c, fact, "is_given")) {
        return *layer ? td__say(c, "the input of %s has", layer) : "the model's input has";
    }
    if (td__loop_is(c, fact, "is_layer")) {
        return td__say(c, "%s puts out", layer);
    }
    return *layer ? td__say(c, "%s%s, behind %s, gives", operation, argument, layer)
                  : td__say(c, "%s%s gives", operation, argument);
}

const char *td__loop_operation(td__case *c) {
    const char *operation = td__loop_text(c, fact, "operation");
    long long step = (long long)td__loop_number(c, fact, "since");
    if (!*operation) {
        return NULL;
    }
    if (!is_of(c, "pass")) {
        return td__say(
            c,
            "the loss of step %lld was finite; then weights up to %s were not, and those "
            "behind it were: the gradient of %s, behind %s, is not finite, as at 0",
            step - 1, td__loop_text(c, fact, "layer"), operation, td__loop_text(c, fact, "layer"));
    }
    const char *row =
        td__loop_has_member(c, fact, "row")
            ? td__say(c, " in row %.0f of %s", td__loop_number(c, fact, "row") + 1,
                      strcmp(td__loop_text(c, fact, "of"), "data") ? "its batch"
                                                                   : "the training data")
            : "";
    const char *column =
        td__loop_has_member(c, fact, "column")
            ? td__say(c, " in every row of column %.0f, as from a division by a deviation of 0",
                      td__loop_number(c, fact, "column") + 1)
            : row;
    return td__say(c,
                   "%s the first number of step %lld that is not finite%s; the batch and the "
                   "weights are finite",
                   subject_of(c), step, column);
}

const td__origin *td__loop_origin(td__case *c) {
    bool singular = td__loop_is_singular(c);
    bool pass = is_of(c, "pass") && *td__loop_text(c, fact, "operation");
    /* Of Keras the weights are known after the update of the step itself. */
    bool update = is_of(c, "weights") && td__loop_has_member(c, fact, "of") &&
                  td__loop_number(c, fact, "updates") > 0;
    td__origin *origin = pass || update ? td__origin_new(c) : NULL;
    if (!origin) {
        return NULL;
    }
    origin->cause = pass && td__loop_is(c, fact, "is_loss") ? "loss"
                    : pass || singular                      ? "layer"
                                                            : "update";
    const char *layer = td__loop_text(c, fact, "layer");
    origin->where = update && !singular ? td__loop_layer(c, fact)
                    : *layer            ? td__keep(c, layer)
                                        : NULL;
    origin->row =
        td__loop_has_member(c, fact, "row") ? (int64_t)td__loop_number(c, fact, "row") : -1;
    origin->step = (int64_t)td__loop_number(c, fact, "since") - (pass ? 0 : 1);
    return origin;
}
