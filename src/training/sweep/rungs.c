/* What is trained next. Trials of a rung are compared when all of them have come to its epoch, by their values up
 * to it alone: so nothing depends on which of them came there first. */
#include "base/memory.h"
#include "sweep/sweep.h"

#include <math.h>
#include <stdlib.h>

td_status td__sweep_make_rungs(td_sweep *sweep, td_error *error) {
    int64_t epochs = sweep->facts.epochs, factor = sweep->factor;
    size_t rungs = 1;
    sweep->rung_count = 0;
    for (int64_t e = epochs / (factor ? factor : 1),
                 n = (int64_t)sweep->trial_count / (factor ? factor : 1);
         factor && e >= 1 && n >= 1 && rungs < TD__SWEEP_MAX_RUNGS; e /= factor, n /= factor) {
        rungs++;
    }
    if (factor && rungs == 1) {
        return td_error_set(error, TD_INVALID,
                            "--halving: needs at least %lld epochs and %lld trials to drop some; "
                            "there are %lld and %zu",
                            (long long)factor, (long long)factor, (long long)epochs,
                            sweep->trial_count);
    }
    for (size_t i = 0; i < rungs; i++) {
        int64_t share = 1, left = (int64_t)sweep->trial_count;
        for (size_t k = i + 1; k < rungs; k++) {
            share *= factor;
        }
        for (size_t k = 0; k < i; k++) {
            left /= factor;
        }
        sweep->rungs[i] = (td__rung){.epochs = epochs / share, .count = (size_t)left};
    }
    sweep->rung_count = rungs;
    td__free(sweep->standings);
    sweep->standings = td__calloc(sweep->trial_count, sizeof *sweep->standings);
    return sweep->standings ? TD_OK : td_error_set(error, TD_MEMORY, "out of memory");
}

double td__trial_best(const td_sweep *sweep, const td__trial *trial, int64_t epoch, int64_t *at) {
    double best = (double)NAN;
    int64_t found = 0;
    for (int64_t i = 0; i < trial->epochs && i < epoch; i++) {
        double value = trial->metric[i];
        if (!isnan(value) && (isnan(best) || (sweep->facts.larger ? value > best : value < best))) {
            best = value;
            found = i + 1;
        }
    }
    if (at) {
        *at = found;
    }
    return best;
}

static int compare_standings(const void *a, const void *b) {
    const td__standing *x = a, *y = b;
    if (x->lost != y->lost) {
        return x->lost - y->lost;
    }
    if (x->epochs != y->epochs) {
        return x->epochs > y->epochs ? -1 : 1;
    }
    if (isnan(x->value) != isnan(y->value)) {
        return isnan(x->value) ? 1 : -1;
    }
    if (x->value < y->value || x->value > y->value) {
        return x->value < y->value ? -1 : 1;
    }
    return x->trial < y->trial ? -1 : 1;
}

static td__standing standing_of(const td_sweep *sweep, size_t index, int64_t epoch) {
    const td__trial *trial = &sweep->trials[index];
    double best = td__trial_best(sweep, trial, epoch, NULL);
    return (td__standing){.trial = index,
                          .value = sweep->facts.larger ? -best : best,
                          .lost = trial->failed || trial->end == TD__TRIAL_DIVERGED};
}

static bool has_come_to(const td__trial *trial, int64_t epoch) {
    return trial->failed || trial->end != TD__TRIAL_OPEN || trial->paused >= epoch;
}

/* Of count members, those that go on, sorted by trial; fewer where the others diverged. */
static size_t promote(const td_sweep *sweep, td__standing *members, size_t count, size_t rung) {
    for (size_t i = 0; i < count; i++) {
        members[i] = standing_of(sweep, members[i].trial, sweep->rungs[rung].epochs);
    }
    qsort(members, count, sizeof *members, compare_standings);
    size_t kept = 0;
    while (kept < count && kept < sweep->rungs[rung + 1].count && !members[kept].lost &&
           !isnan(members[kept].value)) {
        kept++;
    }
    return kept;
}

/* The last rung is the end: what ended there is closed, not merely counted. */
static bool is_due(const td_sweep *sweep, const td__trial *trial, size_t rung) {
    bool last = rung + 1 == sweep->rung_count;
    return last ? !trial->failed && trial->end == TD__TRIAL_OPEN
                : !has_come_to(trial, sweep->rungs[rung].epochs);
}

td_sweep_answer td_sweep_next(td_sweep *sweep, td_sweep_task *task) {
    size_t count = sweep->trial_count;
    td__standing *members = sweep->standings;
    td_sweep_answer answer = TD_SWEEP_DONE;
    for (size_t i = 0; i < count; i++) {
        members[i] = (td__standing){.trial = i};
    }
    for (size_t rung = 0; answer == TD_SWEEP_DONE && rung < sweep->rung_count; rung++) {
        for (size_t i = 0; i < count && answer != TD_SWEEP_TRAIN; i++) {
            td__trial *trial = &sweep->trials[members[i].trial];
            if (!is_due(sweep, trial, rung)) {
                continue;
            }
            answer = trial->busy ? TD_SWEEP_WAIT : TD_SWEEP_TRAIN;
            if (!trial->busy) {
                trial->busy = true;
                bool last = rung + 1 == sweep->rung_count;
                *task = (td_sweep_task){.trial = members[i].trial,
                                        .epoch = last ? INT64_MAX : sweep->rungs[rung].epochs};
            }
        }
        if (answer == TD_SWEEP_DONE && rung + 1 < sweep->rung_count) {
            count = promote(sweep, members, count, rung);
        }
    }
    return answer;
}

void td_sweep_rank(const td_sweep *sweep, size_t *order) {
    td__standing *all = sweep->standings;
    for (size_t i = 0; i < sweep->trial_count; i++) {
        const td__trial *trial = &sweep->trials[i];
        all[i] = standing_of(sweep, i, INT64_MAX);
        /* Early stopping ends a trial that came as far as it could. */
        all[i].epochs = trial->end == TD__TRIAL_FINISHED ? INT64_MAX : trial->epochs;
    }
    qsort(all, sweep->trial_count, sizeof *all, compare_standings);
    for (size_t i = 0; i < sweep->trial_count; i++) {
        order[i] = all[i].trial;
    }
}

size_t td_sweep_rungs(const td_sweep *sweep, int64_t *epochs, int64_t *trials, size_t max) {
    size_t count = sweep->rung_count < max ? sweep->rung_count : max;
    for (size_t i = 0; i < count; i++) {
        epochs[i] = sweep->rungs[i].epochs;
        trials[i] = (int64_t)sweep->rungs[i].count;
    }
    return count;
}
