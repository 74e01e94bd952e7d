/* Where the first loss of a loop that is not finite came from: what the graph of that loss showed (the fact `nonfinite`). */
#include "diagnose/loop.h"

#include <string.h>

#define WHOLE 1.0 /* an update that leaves nothing of a weight: it grew before */

static const char fact[] = "nonfinite";

static bool is_of(const td__case *of, const char *what) {
    return !strcmp(td__loop_text(of, fact, "what"), what);
}

bool td__loop_is_singular(const td__case *of) {
    return is_of(of, "weights") && td__loop_number(of, fact, "updates") > 0 &&
           *td__loop_text(of, fact, "operation") &&
           td__loop_number(of, fact, "count") < td__loop_number(of, fact, "of") &&
           td__loop_number(of, "steps", "largest") < WHOLE;
}

bool td__loop_is_division(const td__case *of) {
    return is_of(of, "pass") &&
           (td__loop_is(of, fact, "divides") || td__loop_has_member(of, fact, "column"));
}

/* Of a pass: "layer 2 puts out", "exp of what fc1 puts out gives", "the input of fc1 has". */
static const char *subject_of(td__case *of) {
    const char *operation = td__loop_text(of, fact, "operation");
    const char *layer = td__loop_text(of, fact, "layer");
    const char *argument = td__loop_has_member(of, fact, "argument")
                               ? td__say(of, " of %.4g", td__loop_number(of, fact, "argument"))
                               : "";
    if (td__loop_is(of, fact, "is_given")) {
        return *layer ? td__say(of, "the input of %s has", layer) : "the model's input has";
    }
    if (td__loop_is(of, fact, "is_layer")) {
        return td__say(of, "%s puts out", layer);
    }
    return *layer ? td__say(of, "%s%s, behind %s, gives", operation, argument, layer)
                  : td__say(of, "%s%s gives", operation, argument);
}

const char *td__loop_operation(td__case *of) {
    const char *operation = td__loop_text(of, fact, "operation");
    long long step = (long long)td__loop_number(of, fact, "since");
    if (!*operation) {
        return NULL;
    }
    if (!is_of(of, "pass")) {
        return td__say(
            of,
            "the loss of step %lld was finite; then weights up to %s were not, and those "
            "behind it were: the gradient of %s, behind %s, is infinite at 0",
            step - 1, td__loop_text(of, fact, "layer"), operation,
            td__loop_text(of, fact, "layer"));
    }
    const char *row =
        td__loop_has_member(of, fact, "row")
            ? td__say(of, " in row %.0f of its batch", td__loop_number(of, fact, "row") + 1)
            : "";
    const char *column =
        td__loop_has_member(of, fact, "column")
            ? td__say(of, " in every row of column %.0f, as from a division by a deviation of 0",
                      td__loop_number(of, fact, "column") + 1)
            : row;
    return td__say(of,
                   "%s the first number of step %lld that is not finite%s; the batch and the "
                   "weights are finite",
                   subject_of(of), step, column);
}

const td__origin *td__loop_origin(td__case *of) {
    bool singular = td__loop_is_singular(of);
    bool pass = is_of(of, "pass") && *td__loop_text(of, fact, "operation");
    /* Of Keras the weights are known after the update of the step itself. */
    bool update = is_of(of, "weights") && td__loop_has_member(of, fact, "of") &&
                  td__loop_number(of, fact, "updates") > 0;
    td__origin *origin = pass || update ? td__origin_new(of) : NULL;
    if (!origin) {
        return NULL;
    }
    origin->cause = pass && td__loop_is(of, fact, "is_loss") ? "loss"
                    : pass || singular                       ? "layer"
                                                             : "update";
    const char *layer = td__loop_text(of, fact, "layer");
    origin->where = update && !singular ? td__loop_layer(of, fact)
                    : *layer            ? td__keep(of, layer)
                                        : NULL;
    origin->row =
        td__loop_has_member(of, fact, "row") ? (int64_t)td__loop_number(of, fact, "row") : -1;
    origin->step = (int64_t)td__loop_number(of, fact, "since") - (pass ? 0 : 1);
    return origin;
}
