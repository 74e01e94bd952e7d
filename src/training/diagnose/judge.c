/* Which suspicions are causes: each is tried out, on the run's own experiment.
 *
 * What the network has learnt is a share of what there is to learn (task.h); a change's gain is the
 * share of what was missing that it wins. Contradictions are causes by themselves, unless the run did
 * well all the same. Structure that often does harm must win a good part in a trial: alone; with an
 * optimizer that suits most networks, where the run's own suits only what it has (a rate that fits
 * inputs of 255 does not fit inputs of 1); or together with the other suspects, when leaving it out
 * again loses. A number that could be tuned must win most, and only in a run that learnt little or
 * was still getting better when it ended: everything gets better with more steps. */
#include "diagnose/diagnosis.h"
#include "diagnose/loop.h"

#include "base/clock.h"
#include "tapedeck/replay.h"

#include <math.h>
#include <string.h>

enum { MOST_SET = 8 * TD__MOST_EDITS };

#define FINE 0.93     /* a score with which no structure is looked into */
#define GOOD 0.85     /* … and nothing is tuned */
#define FAIR 0.7      /* a score with which tuning is a remark */
#define POOR 0.5      /* a score with which it does not matter whether the loss still fell */
#define WIN_POOR 0.25 /* gain that structure must have where the run is poor */
#define WIN 0.45      /* … and elsewhere */
#define WIN_TUNING 0.5
#define WIN_SURE 0.7
#define FAR_BEYOND 0.9 /* a severity that leaves no doubt, whatever else is missing */
#define LABELS_FIRST 3 /* of the weight: what was learnt by heart were wrong labels */
#define BEYOND_USUAL                                                                               \
    0.1 /* gain of a change with the usual optimizer beyond that of the optimizer alone */
#define BEYOND_RATE 0.15   /* gain of another optimizer beyond that of another rate */
#define STILL_FALLING 0.08 /* share of the loss's whole fall in the last quarter of the steps */

static const char *const usual_optimizer = "train.optimizer={adam: {learning_rate: 0.003}}";

typedef struct trials {
    td__case *c;
    const td_diagnose_options *options;
    double until; /* when trials must have ended */
    double each;  /* seconds */
    bool stopped;
    double usual; /* score of the run's experiment with the usual optimizer; NaN: not tried */
} trials;

typedef struct change {
    const char *set[MOST_SET];
    size_t count;
    bool standardize_labels, redraw, on_validation;
    double more;
} change;

static void add_change(change *c, const td__suspicion *s) {
    for (size_t i = 0; i < s->edit_count && c->count < MOST_SET; i++) {
        c->set[c->count++] = s->edits[i];
    }
    c->standardize_labels |= s->standardize_labels;
    c->redraw |= s->redraw;
    c->on_validation |= s->on_validation;
    c->more = s->more > 0 ? s->more : c->more;
}

static void add_usual(change *c) {
    if (c->count < MOST_SET) {
        c->set[c->count++] = usual_optimizer;
    }
}

static bool is_changed(const change *c) {
    return c->count || c->standardize_labels || c->redraw || c->on_validation || c->more > 0;
}

/* ---- Trying --------------------------------------------------------------------------------- */

/* False when there is no time left, or the changed experiment cannot be run. */
static bool attempt(trials *t, const change *changed, td__trial *trial) {
    td__case *c = t->c;
    double left = t->until - td__seconds();
    td__trial_options options = {.path = c->path,
                                 .set = changed->set,
                                 .set_count = changed->count,
                                 .steps = c->steps,
                                 .seconds = left < t->each ? left : t->each,
                                 .standardize_labels = changed->standardize_labels,
                                 .label_shift = c->facts.labels.all.mean,
                                 .label_scale = fmax(c->facts.labels.all.deviation, 1e-30),
                                 .redraw = changed->redraw,
                                 .on_validation = changed->on_validation,
                                 .task = &c->facts.task};
    if (changed->more > 0) {
        double steps = ceil(changed->more * (double)c->steps);
        options.steps = steps < 1e12 ? (int64_t)steps : c->steps;
    }
    if (left <= 0 || t->stopped || !is_changed(changed)) {
        return false;
    }
    return td__trial_run(&options, trial, NULL) == TD_OK;
}

static double gain_over(double before, double after) {
    before = fmin(fmax(before, 0), 1);
    after = fmin(fmax(after, 0), 1);
    return before < 1 ? (after - before) / (1 - before) : 0;
}

static double gain_of(const trials *t, double score) {
    return gain_over(t->c->baseline.score, score);
}

/* Where nothing has been learnt yet, the score says nothing of how far the loss has come. */
static double fall_of(const trials *t, const td__trial *trial) {
    const td__trial *base = &t->c->baseline;
    if (base->points == 0 || trial->points == 0 || base->origin.cause || trial->origin.cause ||
        base->score > 0) {
        return 0;
    }
    double before = base->curve[base->points - 1].training.loss;
    double after = trial->curve[trial->points - 1].training.loss;
    return before > 0 && after >= 0 ? 1 - after / before : 0;
}

static void report_progress(trials *t, const td__suspicion *s) {
    if (t->options->progress && !t->options->progress(t->options->user, s->rule->title)) {
        t->stopped = true;
    }
}

/* A run whose loss stopped being finite had learnt nothing; a change with which it goes on to the end is
 * a gain even where the task needs more than that. */
static double survival_of(const trials *t, const td__trial *trial) {
    bool survives = t->c->baseline.origin.cause && !trial->origin.cause && trial->complete;
    return survives ? WIN_POOR : 0;
}

/* A few examples that change sides are no gain while the loss is higher than it was. */
static bool ends_higher(const trials *t, const td__trial *trial) {
    const td__trial *base = &t->c->baseline;
    return base->points > 0 && trial->points > 0 && !base->origin.cause &&
           trial->curve[trial->points - 1].training.loss >=
               base->curve[base->points - 1].training.loss;
}

static void try_alone(trials *t, td__suspicion *s) {
    change alone = {0};
    add_change(&alone, s);
    report_progress(t, s);
    s->tried = attempt(t, &alone, &s->trial);
    s->gain = s->tried ? fmax(gain_of(t, s->trial.score), survival_of(t, &s->trial)) : 0;
    s->gain = s->rule->is_rate && ends_higher(t, &s->trial) ? 0 : s->gain;
}

/* With the usual optimizer: what counts is what the change wins beyond it. */
static void try_with_usual(trials *t, td__suspicion *s) {
    td__trial trial;
    change with = {0};
    if (isnan(t->usual)) {
        change usual = {0};
        add_usual(&usual);
        t->usual = attempt(t, &usual, &trial) ? trial.score : 0;
    }
    add_change(&with, s);
    add_usual(&with);
    if (!attempt(t, &with, &trial)) {
        return;
    }
    double both = gain_of(t, trial.score), only = gain_of(t, t->usual);
    double beyond = gain_over(t->usual, trial.score);
    if (both > s->gain && (only < WIN || (both > only + BEYOND_USUAL && beyond > WIN_POOR))) {
        s->gain = both;
        s->trial = trial;
        s->tried = true;
    }
}

/* ---- Deciding ------------------------------------------------------------------------------- */

static void accept(td__suspicion *s, td_confidence confidence, double weight) {
    s->accepted = true;
    s->confidence = s->doubtful && confidence > TD_LIKELY ? TD_LIKELY : confidence;
    s->weight = weight;
}

static double win_needed(const trials *t) {
    return t->c->baseline.score < POOR ? WIN_POOR : WIN;
}

static bool is_structure(const td__suspicion *s) {
    return s->strength == TD__STRUCTURE;
}

static void judge_contradictions(trials *t) {
    td__case *c = t->c;
    for (size_t i = 0; i < c->suspicion_count; i++) {
        td__suspicion *s = &c->suspicions[i];
        if (s->strength == TD__FACT) {
            accept(s, TD_SURE, 4);
        } else if (s->strength == TD__CONTRADICTION) {
            try_alone(t, s);
            if (c->baseline.score < FINE || s->gain > WIN || s->doubtful) {
                accept(s, TD_SURE, 3 + 0.9 * s->gain); /* what helps most first */
            }
        }
    }
}

/* All structural suspects changed together; then each left out again. */
static void try_together(trials *t) {
    td__case *c = t->c;
    change all = {0};
    size_t suspects = 0;
    for (size_t i = 0; i < c->suspicion_count; i++) {
        td__suspicion *s = &c->suspicions[i];
        if ((is_structure(s) && s->more == 0 && !s->on_validation) ||
            s->strength == TD__CONTRADICTION) {
            add_change(&all, s);
            suspects += is_structure(s);
        }
    }
    td__trial together;
    if (suspects < 2 || !attempt(t, &all, &together) ||
        gain_of(t, together.score) < win_needed(t)) {
        return;
    }
    for (size_t i = 0; i < c->suspicion_count; i++) {
        td__suspicion *s = &c->suspicions[i];
        change rest = {0};
        td__trial without;
        if (!is_structure(s) || s->accepted || s->more > 0 || s->on_validation) {
            continue;
        }
        for (size_t k = 0; k < c->suspicion_count; k++) {
            const td__suspicion *other = &c->suspicions[k];
            if (k != i && ((is_structure(other) && other->more == 0 && !other->on_validation) ||
                           other->strength == TD__CONTRADICTION)) {
                add_change(&rest, other);
            }
        }
        if (attempt(t, &rest, &without) &&
            gain_of(t, together.score) - gain_of(t, without.score) > WIN_POOR) {
            s->gain = gain_of(t, together.score);
            s->trial = together;
            s->tried = true;
            accept(s, TD_LIKELY, 1 + s->gain + s->severity);
        }
    }
}

/* Of the alternatives that a rule has, the best, reported once: where the first of them stands. */
static td__suspicion *best_of_rule(td__case *c, size_t first) {
    td__suspicion *best = &c->suspicions[first];
    if (first > 0 && c->suspicions[first - 1].rule == best->rule) {
        return NULL;
    }
    for (size_t i = first; i < c->suspicion_count; i++) {
        td__suspicion *s = &c->suspicions[i];
        best = s->rule == best->rule && s->gain > best->gain + 0.02 ? s : best;
    }
    return best;
}

static void judge_structure(trials *t) {
    td__case *c = t->c;
    bool found = false,
         usual = td_optimizer_settled(c->trainer->learner.optimizer)->kind == TD_ADAM;
    double rate = td__rate_of(c);
    usual = usual && rate >= 3e-4 && rate <= 3e-2;
    for (size_t i = 0; i < c->suspicion_count; i++) {
        td__suspicion *s = &c->suspicions[i];
        if (!is_structure(s)) {
            continue;
        }
        try_alone(t, s);
        if (s->gain < win_needed(t) && !usual && s->more == 0 && !s->on_validation) {
            try_with_usual(t, s);
        }
    }
    for (size_t i = 0; i < c->suspicion_count; i++) {
        td__suspicion *best = best_of_rule(c, i);
        if (best && is_structure(best) && best->gain >= win_needed(t)) {
            /* What the first NaN came from is nearer to the cause than what does as well without it. */
            double nearer = best->origin ? 1 : best->on_validation ? LABELS_FIRST : 0;
            bool sure = best->gain > POOR || best->severity > FAR_BEYOND;
            accept(best, sure ? TD_SURE : TD_LIKELY, 1 + best->gain + best->severity + nearer);
            found = true;
        }
    }
    if (!found) {
        try_together(t);
    }
}

/* The share of the loss's fall that lies in the last quarter of the steps. */
static double late_fall(const td__trial *trial) {
    double end = trial->curve[trial->points - 1].training.loss;
    /* The first batch alone may have been an easy one. */
    double first = fmax(trial->first_loss, trial->curve[0].training.loss), before = first;
    for (size_t i = 0; i < trial->points && 4 * trial->curve[i].step <= 3 * trial->steps; i++) {
        before = trial->curve[i].training.loss;
    }
    double whole = first - end;
    return whole > 0 ? (before - end) / whole : 0;
}

static bool any_accepted(const td__case *c, td__strength min_strength) {
    for (size_t i = 0; i < c->suspicion_count; i++) {
        if (c->suspicions[i].accepted && c->suspicions[i].strength >= min_strength) {
            return true;
        }
    }
    return false;
}

/* That a run which learnt most of its task would get farther is a remark. */
static td_confidence confidence_of_tuning(double score, double gain) {
    return score > FAIR ? TD_MAYBE : score < POOR && gain > WIN_SURE ? TD_SURE : TD_LIKELY;
}

/* What another rate of the run's own optimizer wins. */
static double gain_of_rates(const td__case *c) {
    double gain = 0;
    for (size_t i = 0; i < c->suspicion_count; i++) {
        const td__suspicion *s = &c->suspicions[i];
        gain = s->rule->is_rate && s->tried ? fmax(gain, s->gain) : gain;
    }
    return gain;
}

static void judge_tuning(trials *t) {
    td__case *c = t->c;
    double score = c->baseline.score;
    bool late = late_fall(&c->baseline) > STILL_FALLING;
    if (score > GOOD || (score > FAIR && !late)) {
        return;
    }
    for (size_t i = 0; i < c->suspicion_count; i++) {
        td__suspicion *s = &c->suspicions[i];
        if (s->strength == TD__TUNING) {
            try_alone(t, s);
            s->gain = late ? fmax(s->gain, s->tried ? fall_of(t, &s->trial) : 0) : s->gain;
        }
    }
    for (size_t i = 0; i < c->suspicion_count; i++) {
        td__suspicion *best = best_of_rule(c, i);
        if (best && best->strength == TD__TUNING && best->gain >= WIN_TUNING) {
            bool as_well = best->rule->sets_rate && gain_of_rates(c) > best->gain - BEYOND_RATE;
            accept(best, confidence_of_tuning(score, best->gain), best->gain - (as_well ? 1 : 0));
            best->confidence =
                as_well && best->confidence > TD_LIKELY ? TD_LIKELY : best->confidence;
        }
    }
}

/* ---- Order ---------------------------------------------------------------------------------- */

/* The accepted suspicion that is reported first; NULL: none is accepted. */
static td__suspicion *first_accepted(td__case *c) {
    td__suspicion *first = NULL;
    for (size_t i = 0; i < c->suspicion_count; i++) {
        td__suspicion *s = &c->suspicions[i];
        bool before = !first || s->confidence > first->confidence ||
                      (s->confidence == first->confidence && s->weight > first->weight);
        first = s->accepted && before ? s : first;
    }
    return first;
}

/* Several changes may each repair a run: a better optimizer also copes with weights that start too large. Of
 * causes that only a trial speaks for, the first one can be sure; the others are alternatives to it. And where
 * the first NaN is known, what else was seen may come from it. */
static void doubt_alternatives(td__case *c) {
    const td__suspicion *first = first_accepted(c);
    bool spoilt = first && first->origin;
    for (size_t i = 0; i < c->suspicion_count; i++) {
        td__suspicion *s = &c->suspicions[i];
        bool is_open = s->strength <= TD__STRUCTURE || (spoilt && !s->origin);
        if (s->accepted && s != first && is_open && s->confidence > TD_LIKELY) {
            s->confidence = TD_LIKELY;
        }
    }
}

/* A number that was not finite came from somewhere: the first finding says where, if none does. */
static void place_origin(td__case *c) {
    for (size_t i = 0; i < c->suspicion_count; i++) {
        if (c->suspicions[i].accepted && c->suspicions[i].origin) {
            return;
        }
    }
    td__suspicion *first = first_accepted(c);
    const td__origin *origin = c->loop ? td__loop_origin(c) : &c->baseline.origin;
    if (origin && origin->cause && first) {
        first->origin = origin;
        const char *operation = c->loop ? td__loop_operation(c) : NULL;
        if (operation) {
            td__because(first, NULL, origin->step, NAN, operation);
        }
    }
}

/* Weights that an update spoilt at once, without having grown, come from the backward pass of a layer. */
static void correct_origin(td__case *c, const td_operation *operation) {
    td__origin *origin = &c->baseline.origin;
    if (strcmp(operation->phase, "backward") != 0 || origin->grown || !origin->cause) {
        return;
    }
    for (size_t i = 0; i < c->layers.count; i++) {
        if (!strcmp(c->layers.items[i].name, operation->layer)) {
            origin->cause = "layer";
            origin->layer = (ptrdiff_t)i;
            origin->parameter = -1;
            origin->row = operation->row;
        }
    }
}

/* The operation that made the first number that is not finite, from the run's own steps executed again
 * one operation at a time. What cannot be executed is left as it is: the layer is known. */
static void describe_operation(td__case *c) {
    td__suspicion *s = NULL;
    for (size_t i = 0; i < c->suspicion_count && !s; i++) {
        td__suspicion *one = &c->suspicions[i];
        s = one->accepted && one->origin && one->origin->step > 0 ? one : NULL;
    }
    if (!s || isfinite(c->baseline.origin.loss)) {
        return;
    }
    td_origin *found = td_origin_find(c->folder, NULL, NULL);
    const td_operation *operation = found ? found->operation : NULL;
    if (operation && found->step == s->origin->step) {
        correct_origin(c, operation);
        td__because(s, td__keep(c, operation->tensor), operation->step, operation->value,
                    td__keep(c, found->text));
    }
    td_origin_destroy(found);
}

/* What was seen and what cannot be meant stands by itself; the rest is what symptoms point to. */
static void judge_untried(td__case *c, const td_diagnose_options *options) {
    for (size_t i = 0; i < c->suspicion_count; i++) {
        td__suspicion *s = &c->suspicions[i];
        if (s->strength >= TD__CONTRADICTION) {
            accept(s, s->strength == TD__FACT ? TD_SURE : TD_LIKELY, 20 + (double)s->strength);
        }
    }
    td__link(c, UINT32_MAX, options->only, options->ignore);
}

static void judge_tried(trials *t) {
    td__case *c = t->c;
    judge_contradictions(t);
    if (c->baseline.score < FINE) {
        judge_structure(t);
        if (!any_accepted(c, TD__CONTRADICTION)) {
            judge_tuning(t);
        }
    }
    if (!any_accepted(c, TD__TUNING)) { /* no change helped; what the loss became stays */
        td__link(c, TD__NAN_LOSS | TD__INF_LOSS, t->options->only, t->options->ignore);
    }
}

td_status td__judge(td__case *c, const td_diagnose_options *options, td_error *error) {
    (void)error;
    double seconds = options->seconds > 0 ? options->seconds : 60;
    trials t = {.c = c,
                .options = options,
                .until = td__seconds() + seconds,
                .each = seconds / 4,
                .usual = NAN};
    if (c->repeated) {
        judge_tried(&t);
        doubt_alternatives(c);
    } else {
        judge_untried(c, options);
    }
    td__accept_symptoms(c, options->only, options->ignore);
    place_origin(c);
    if (c->repeated) {
        describe_operation(c);
    }
    return TD_OK;
}
