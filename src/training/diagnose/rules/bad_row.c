#include "diagnose/loop.h"

#include <math.h>

enum { STEPS = 256, AT_LEAST = 8, TIMES = 3 };
#define SHARE 0.5 /* of a batch's loss */
#define FAR 10.0  /* times the mean loss at the beginning */

/* Of one step: the sum of its losses and the largest of them. */
typedef struct batch {
    int64_t step, row;
    size_t examples;
    double sum, most;
} batch;

static td_status add(void *user, const td_example *example, td_error *error) {
    batch *b = user;
    (void)error;
    double loss = example->count == 1 ? example->values[0] : NAN;
    b->step = example->step;
    if (isfinite(loss)) {
        b->examples++;
        b->sum += loss;
        if (b->examples == 1 || loss > b->most) {
            b->most = loss;
            b->row = example->sample;
        }
    }
    return TD_OK;
}

static bool read_batch(td__case *c, const td_run_signal *rows, int64_t step, batch *b) {
    *b = (batch){.step = -1, .row = -1};
    return td_run_examples(c->history->run, rows, step, add, b, NULL) == TD_OK && b->step >= 0;
}

/* Whether its largest loss is more than all others together, and far from what it was at first. */
static bool is_dominated(const batch *b, double begin) {
    return b->examples >= AT_LEAST && b->row >= 0 && b->most > SHARE * b->sum &&
           b->most > FAR * begin;
}

/* The last batches that one row dominates, the last first; the number of them. */
static size_t read_dominated(td__case *c, const td_run_signal *rows, double begin, batch *batches) {
    size_t count = 0;
    batch b;
    int64_t step = rows->last_step;
    for (size_t i = 0; i < STEPS && step >= rows->first_step && read_batch(c, rows, step, &b);
         i++) {
        if (is_dominated(&b, begin)) {
            batches[count++] = b;
        }
        step = b.step - 1;
    }
    return count;
}

static size_t times_of(const batch *batches, size_t count, int64_t row) {
    size_t times = 0;
    for (size_t i = 0; i < count; i++) {
        times += batches[i].row == row;
    }
    return times;
}

static void find_bad_row(td__case *c) {
    const td_run_signal *rows = td_run_signal_find(c->history->run, "loss.rows");
    batch batches[STEPS], first;
    if (!rows || !(rows->forms & TD_ROWS) || !read_batch(c, rows, rows->first_step, &first) ||
        first.examples < AT_LEAST) {
        return;
    }
    /* Without the largest: the row may be in the first batch, too. */
    double begin = (first.sum - first.most) / (double)(first.examples - 1);
    size_t count = read_dominated(c, rows, begin, batches), most = 0;
    const batch *last = NULL;
    for (size_t i = 0; i < count; i++) {
        size_t times = times_of(batches, count, batches[i].row);
        if (times > most) {
            most = times;
            last = &batches[i];
        }
    }
    if (most < TIMES) {
        return;
    }
    int64_t since = last->step;
    for (size_t i = 0; i < count; i++) {
        since = batches[i].row == last->row ? batches[i].step : since;
    }
    td__suspicion *s =
        td__loop_error(c, TD_LIKELY, NULL, since,
                       "look at the row: its label, numbers that are far off; leave it out");
    td__because(s, "loss.rows", last->step, (double)last->row,
                td__say(c,
                        "row %lld has more than half of its batch's loss in %zu recorded steps, at "
                        "last %.3g; others began with %.3g in the mean",
                        (long long)last->row + 1, most, last->most, begin));
}

const td__rule td__rule_bad_row = {
    .info = {.name = "bad_row",
             .meaning = "one example has most of the loss, again and again",
             .reads = "loss.rows, form rows, to sqlite, where a track asks for it",
             .statistic = "in the last 256 records, how often the same row has more than half of "
                          "its batch's loss, and how large that is against the first mean",
             .threshold = "three times, in batches of 8 and more, and ten times the first mean: "
                          "what is only hard stays below that",
             .remedy = "the row's label and numbers"},
    .title = "one bad row",
    .explains = TD__HUGE_LOSS | TD__LOSS_FLOOR | TD__EXPLODING_GRADIENT | TD__DIVERGENCE |
                TD__OSCILLATION | TD__PLATEAU,
    .needs = TD__NEEDS_ROWS,
    .find = find_bad_row,
    .after = true,
};
