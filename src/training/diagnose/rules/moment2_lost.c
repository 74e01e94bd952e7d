#include "diagnose/diagnosis.h"
#include "diagnose/loop.h"

#include <math.h>
#include <string.h>

#define NOTHING 1e-14 /* the square of epsilon, 1e-7: below it Adam divides by epsilon alone */
#define FALL 1e-6     /* of its largest */
#define MOST 0.5      /* of the values */
#define FEW 0.1
enum { STALE_RECORDS = 10 };

/* What is read of a parameter's second moment and, where it is recorded, of its gradient. */
typedef struct moment {
    const td_run_signal *signal;
    const char *name, *gradient;
    const td__series *max, *gradient_norm;
} moment;

static moment moment_of(td__case *c, const td_run_signal *signal) {
    size_t stem = strlen(signal->name) - strlen("moment2");
    const char *gradient = td__say(c, "%.*sgradient", (int)stem, signal->name);
    return (moment){.signal = signal,
                    .name = td__say(c, "%.*s", (int)stem - 1, signal->name),
                    .gradient = gradient,
                    .max = td__series_of(c->history, signal->name, "max"),
                    .gradient_norm = td__series_of(c->history, gradient, "norm")};
}

static bool is_gone(const moment *m) {
    double last = td__series_mean(m->max, 0.75, 1), most = td__series_most(m->max, NULL);
    return last < NOTHING && last < FALL * most;
}

/* Most others keep theirs: the training has not simply ended at a loss of 0. */
static bool others_stay(td__case *c) {
    const td_run_signal *signal;
    size_t stay = 0, all = 0;
    for (size_t at = 0; (signal = td__next_derived(c->history, "moment2", &at));) {
        double last = td__series_mean(td__series_of(c->history, signal->name, "max"), 0.75, 1);
        all += isnan(last) ? 0 : 1;
        stay += last >= NOTHING;
    }
    return 2 * stay > all;
}

/* Squares that are 0 in the format of the state, of gradients that are not. */
static bool underflows(td__case *c, const moment *m, double *share) {
    double elements = td__series_mean(td__series_of(c->history, m->signal->name, "count"), 0.75, 1);
    double zeros = td__series_mean(td__series_of(c->history, m->signal->name, "zeros"), 0.75, 1);
    double of_gradient = td__series_mean(td__series_of(c->history, m->gradient, "zeros"), 0.75, 1);
    *share = zeros / elements;
    return *share > MOST && of_gradient / elements < FEW;
}

/* Records at the end that are all the same, while gradients come; 0: fewer than enough. */
static int64_t stale_since(const moment *m) {
    const td__series *max = m->max;
    size_t same = 0;
    while (same < max->count &&
           max->points[max->count - 1 - same].value == max->points[max->count - 1].value) {
        same++;
    }
    double share = max->count ? (double)same / (double)max->count : 0;
    double gradient = td__series_mean(m->gradient_norm, 1 - share, 1);
    bool stale = same >= STALE_RECORDS && 4 * same >= max->count && gradient > 0;
    return stale && max->points[max->count - 1].value > 0 ? max->points[max->count - same].step : 0;
}

static void report(td__case *c, const moment *m, td_confidence confidence, int64_t since,
                   double value, const char *remedy, const char *text) {
    td__suspicion *s =
        td__loop_error(c, confidence, td__keep(c, m->signal->info->layer), since, remedy);
    td__because(s, td__keep(c, m->signal->name), since, value, text);
}

static bool judge(td__case *c, const moment *m) {
    double share, last = td__series_mean(m->max, 0.75, 1);
    int64_t since = stale_since(m);
    if (underflows(c, m, &share)) {
        report(c, m, TD_LIKELY, m->signal->first_step, share,
               "the optimizer's state in float32, or loss scaling",
               td__say(c,
                       "%.0f %% of the second moment of %s are 0, though its gradient is not: "
                       "its square is too small for the format",
                       100 * share, m->name));
        return true;
    }
    if (since) {
        report(c, m, TD_LIKELY, since, last,
               "look for a second optimizer or a copy of the parameters: the steps do not reach "
               "this state",
               td__say(c,
                       "the second moment of %s has not changed since step %lld, though its "
                       "gradient is not 0",
                       m->name, (long long)since));
        return true;
    }
    if (is_gone(m) && others_stay(c)) {
        size_t i = m->max->count;
        while (i > 0 && m->max->points[i - 1].value < NOTHING) {
            i--;
        }
        since = m->max->points[i < m->max->count ? i : m->max->count - 1].step;
        report(c, m, TD_MAYBE, since, last,
               "look why this parameter gets no gradient; a larger epsilon, or clip_norm, before "
               "it gets one again",
               td__say(c,
                       "the second moment of %s falls from %.2g to %.2g: the next gradient is "
                       "divided by epsilon",
                       m->name, td__series_most(m->max, NULL), last));
        return true;
    }
    return false;
}

static void find_moment2_lost(td__case *c) {
    const td_run_signal *signal;
    for (size_t at = 0; (signal = td__next_derived(c->history, "moment2", &at));) {
        moment m = moment_of(c, signal);
        if (m.max->count && judge(c, &m)) {
            return;
        }
    }
}

const td__rule td__rule_moment2_lost = {
    .info = {.name = "moment2_lost",
             .meaning = "the optimizer's second moment of a parameter is zero, or stale",
             .reads = "PARAMETER.moment2 (max, zeros), where a track asks for it; "
                      "PARAMETER.gradient (norm, zeros)",
             .statistic = "the largest second moment, and the share of zeros, in the last quarter "
                          "of the records; for how many records it has been the same",
             .threshold = "below 1e-14 and a millionth of its largest, while most other "
                          "parameters keep theirs (a maybe); half of it 0 while less than a tenth "
                          "of the gradient is; the same in 10 records and a quarter of all, while "
                          "the gradient is not 0",
             .remedy = "the state in float32; steps of the optimizer that has the parameter"},
    .title = "second moment lost",
    .explains = 0,
    .needs = TD__NEEDS_MOMENTS,
    .find = find_moment2_lost,
    .after = true,
};
