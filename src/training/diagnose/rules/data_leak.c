#include "diagnose/loop.h"

#define SHARE 0.05          /* of the validation examples */
#define SHARE_OF_WHOLE 0.25 /* … of whole numbers: short texts come again by chance */
#define SHARE_OF_FEW 0.6
#define WITHIN 0.02 /* of the examples that are there twice anyway, as of few possible ones */

#define ALMOST_ALL 0.99
#define WORSE 3.0   /* times the training loss */
#define UNKNOWN 0.5 /* of the first loss */
#define COPIED 0.9  /* that the loss fell by */

enum {
    MANY = 200,
    FEW = 8,
    FEW_TEXTS = 24,
    CERTAIN = 3 /* copies, of numbers that are not there twice by chance */
};

/* A column that knows the label of every training example, and a validation part that does not have it. */
static void find_leaking_column(td__case *c) {
    double share = td__loop_number(c, "neighbours", "column");
    const td__series *loss = td__loss_of(c->history),
                     *validation = td__validation_loss_of(c->history);
    /* Who does not know the column knows little: a loss that is small all the same is that of a column that tells as much there. */
    bool is_worse = validation->count > 1 &&
                    td__series_last(validation) > WORSE * td__series_mean(loss, 0.9, 1) &&
                    td__series_last(validation) > UNKNOWN * td__series_first(loss);
    if (share < ALMOST_ALL || td__loop_number(c, "neighbours", "examples") < MANY || !is_worse) {
        return;
    }
    td__suspicion *s = td__loop_error(c, TD_LIKELY, NULL, 1,
                                      "leave out inputs that are known only when the label is");
    td__because(s, NULL, 1, share,
                td__say(c,
                        "one column of the inputs alone puts %.1f %% of pairs of both classes in "
                        "order, and the loss of validation is %.2g times that of training",
                        100 * share, td__series_last(validation) / td__series_mean(loss, 0.9, 1)));
}

/* A language model whose targets were not shifted learns to copy. An autoencoder is to do that. */
static void find_copied_tokens(td__case *c) {
    double copied = td__loop_number(c, "token_dependence", "copied");
    bool vary =
        td__loop_number(c, "token_dependence", "chance") < ALMOST_ALL; /* padding is one label */
    if (copied < ALMOST_ALL || !vary || !(td__loop_fall(c) > COPIED) ||
        td__loop_is(c, "head", "is_squeezed")) {
        return;
    }
    td__suspicion *s = td__loop_error(c, TD_LIKELY, NULL, 1,
                                      "labels that are shifted: the token after each place");
    td__because(
        s, NULL, 1, copied,
        td__say(
            c,
            "%.0f %% of the labels are the token at their own place, and the loss fell by %.0f %%",
            100 * copied, 100 * td__loop_fall(c)));
}

/* Every target is a number of the inputs, as where a window reaches into the time that is to be predicted. */
static void find_copied_targets(td__case *c) {
    static const char fact[] = "copied_targets";
    double columns = td__loop_number(c, fact, "columns");
    const td__series *validation = td__validation_loss_of(c->history);
    bool is_other =
        td__loop_has_member(c, fact, "validation")
            ? td__loop_number(c, fact, "validation") < columns
            : validation->count > 1 && td__series_last(validation) >
                                           WORSE * td__series_mean(td__loss_of(c->history), 0.9, 1);
    if (columns < 1 || columns < td__loop_number(c, fact, "of") || !is_other) {
        return;
    }
    td__suspicion *s = td__loop_error(c, TD_LIKELY, NULL, 1,
                                      "inputs that end before the time that is to be predicted");
    td__because(s, NULL, 1, columns,
                td__say(c,
                        "all %.0f numbers of a training target are among its inputs, at the same "
                        "place in every example; of validation that is not so",
                        columns));
}

static void find_data_leak(td__case *c) {
    find_leaking_column(c);
    find_copied_targets(c);
    find_copied_tokens(c);
    double rows = td__loop_number(c, "copies", "rows");
    double copies = td__loop_number(c, "copies", "copies");
    /* Training examples may be evaluated on purpose, beside others or under another name. */
    bool only_copies = copies == rows;
    bool is_validation = !only_copies || td__loop_is(c, "copies", "validation") ||
                         td__validation_loss_of(c->history)->count > 0;
    double of_whole = rows < FEW_TEXTS ? SHARE_OF_FEW : SHARE_OF_WHOLE;
    double share = td__loop_is(c, "copies", "whole") ? of_whole : SHARE;
    if ((rows < FEW && copies < CERTAIN) || copies < share * rows ||
        td__loop_number(c, "copies", "within") > WITHIN || td__loop_is(c, "copies", "apart") ||
        !is_validation) {
        return;
    }
    /* Passes in training mode with no loss of validation may be what a policy does, of which training follows. */
    bool is_doubtful =
        td__loop_is(c, "copies", "training_mode") && td__validation_loss_of(c->history)->count == 0;
    td__suspicion *s = td__loop_error(c, is_doubtful ? TD_MAYBE : TD_LIKELY, NULL, 1,
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
    .explains = TD__OVERFIT_GAP,
    .needs = TD__NEEDS_LOOP,
    .find = find_data_leak,
    .after = true,
};
