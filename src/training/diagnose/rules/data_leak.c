#include "diagnose/loop.h"

#define SHARE 0.05          /* of the validation examples */
#define SHARE_OF_WHOLE 0.25 /* … of whole numbers: short texts come again by chance */
#define WITHIN 0.02 /* of the examples that are there twice anyway, as of few possible ones */

enum { FEW = 8, CERTAIN = 3 /* copies, of numbers that are not there twice by chance */ };

static void find_data_leak(td__case *c) {
    double rows = td__loop_number(c, "copies", "rows");
    double copies = td__loop_number(c, "copies", "copies");
    /* Training examples may be evaluated on purpose, beside others or under another name. */
    bool only_copies = copies == rows;
    bool is_validation = !only_copies || td__loop_is(c, "copies", "validation") ||
                         td__validation_loss_of(c->history)->count > 0;
    double share = td__loop_is(c, "copies", "whole") ? SHARE_OF_WHOLE : SHARE;
    if ((rows < FEW && copies < CERTAIN) || copies < share * rows ||
        td__loop_number(c, "copies", "within") > WITHIN || td__loop_is(c, "copies", "apart") ||
        !is_validation) {
        return;
    }
    td__suspicion *s = td__loop_error(c, TD_LIKELY, NULL, 1,
                                      "split the data before it is repeated, drawn from or sorted");
    td__because(s, NULL, 1, copies / rows,
                td__say(c,
                        "of %.0f validation examples that were looked at, %.0f are training "
                        "examples",
                        rows, copies));
}

const td__rule td__rule_data_leak = {
    .info = {.name = "data_leak",
             .meaning = "validation examples are training examples",
             .reads = "the loop's copies",
             .statistic = "validation examples that equal a training example, number by number",
             .threshold =
                 "one in twenty (of whole numbers, as words are, one in four), where examples "
                 "are not there twice anyway. Batches that "
                 "are all copies beside others that have none are training data, "
                 "evaluated on purpose",
             .remedy = "split the data before it is repeated, drawn from or sorted"},
    .title = "validation on training data",
    .explains = 0,
    .needs = TD__NEEDS_LOOP,
    .find = find_data_leak,
    .after = true,
};
