/* A range test of the learning rate: a short training in memory whose rate rises from step to step. The
 * loss falls from where the rate is large enough, fastest a little later, and rises where it is too
 * large. */
#include "diagnose/probe.h"

#include "diagnose/diagnosis.h"

#include <math.h>

enum { STEPS = 120 };
#define LOWEST 1e-6
#define HIGHEST 10.0
#define SMOOTH 0.15 /* weight of a new loss */
#define RISEN 1.5   /* times the least smoothed loss: too large a rate */
#define BELOW 300.0 /* times the best rate above the experiment's: far too small */

typedef struct probe {
    double rates[STEPS], losses[STEPS]; /* smoothed; NaN and infinity stay */
    int count;
    double smoothed;
} probe;

static void see(void *user, int64_t step, double loss) {
    probe *p = user;
    if (step < 1 || step > STEPS) {
        return;
    }
    p->smoothed = p->count ? p->smoothed + SMOOTH * (loss - p->smoothed) : loss;
    p->rates[p->count] = LOWEST * pow(HIGHEST / LOWEST, (double)(step - 1) / (STEPS - 1));
    p->losses[p->count++] = p->smoothed;
}

typedef struct range {
    double best; /* rate at which the loss falls fastest; 0: it does not fall */
    double edge; /* rate from which on it rises; infinite: it does not */
} range;

static range judge(const probe *p) {
    range r = {0, INFINITY};
    int lowest = 0;
    for (int i = 1; i < p->count; i++) {
        if (p->losses[i] < p->losses[lowest]) {
            lowest = i;
        } else if (!(p->losses[i] <= RISEN * p->losses[lowest]) || !isfinite(p->losses[i])) {
            r.edge = p->rates[i];
            break;
        }
    }
    double steepest = 0.01 * fabs(p->losses[0]) / STEPS; /* noise is no fall */
    for (int i = 3; i <= lowest; i++) {
        double fall = (p->losses[i - 3] - p->losses[i]) / 3;
        if (fall > steepest) {
            steepest = fall;
            r.best = p->rates[i];
        }
    }
    return r;
}

/* Says it as the rule of this cause would. */
static void report(td__case *c, const char *cause, td_confidence confidence, double rate,
                   const range *r) {
    c->rule = td__rule_of(cause);
    td__suspicion *s = td__suspect(c, TD__TUNING, -1,
                                   td__say(c, "learning_rate: %.1g (from %.3g)", r->best, rate));
    if (s) {
        s->accepted = true;
        s->confidence = confidence;
        td__because(
            s, "learning_rate", 0, rate,
            td__say(c, "in a range test the loss falls fastest at %.2g%s", r->best,
                    isfinite(r->edge) ? td__say(c, " and rises from %.2g on", r->edge) : ""));
    }
}

td_status td__probe(td__case *c, const td_check_options *options, td_error *error) {
    const char *kind =
        td_optimizer_kind_name(td_optimizer_settled(c->trainer->learner.optimizer)->kind);
    const char *set[64];
    size_t count = 0;
    for (; count < options->set_count && count < 60; count++) {
        set[count] = options->set[count];
    }
    set[count++] = td__say(c, "train.optimizer.%s.learning_rate=%g", kind, LOWEST);
    set[count++] =
        td__say(c, "train.learning_rate_schedule={exponential: {steps: %d, factor: %.9g}}",
                STEPS - 1, HIGHEST / LOWEST);
    probe p = {0};
    td__trial trial;
    td__trial_options how = {.path = c->path,
                             .set = set,
                             .set_count = count,
                             .steps = STEPS,
                             .seconds = 30,
                             .task = &c->facts.task,
                             .seen = see,
                             .user = &p};
    td_status status = td__trial_run(&how, &trial, error);
    if (status || p.count < STEPS / 4) {
        return status;
    }
    range r = judge(&p);
    double rate = td__rate_of(c);
    td__note(c->diagnosis,
             r.best > 0
                 ? td__say(c,
                           "range test of %d steps: the loss falls fastest at a rate of %.2g%s; "
                           "the experiment has %.3g",
                           p.count, r.best,
                           isfinite(r.edge) ? td__say(c, " and rises from %.2g on", r.edge) : "",
                           rate)
                 : td__say(c, "range test of %d steps: the loss falls at no rate", p.count));
    if (r.best > 0 && rate >= r.edge) {
        report(c, "learning_rate_too_high", TD_LIKELY, rate, &r);
    } else if (rate * BELOW < r.best) {
        report(c, "learning_rate_too_low", TD_MAYBE, rate, &r);
    }
    return TD_OK;
}
