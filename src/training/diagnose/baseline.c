/* What a run has that runs which went well do not have: settings that no other has, what held in all of
 * them and does not hold here, and numbers outside of what they had at the same steps. */
#include "diagnose/diagnosis.h"

#include "base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Parts of the steps that all runs have; numbers are compared part by part. */
enum { PARTS = 10, MOST_UNUSUAL = 4096, MOST_BASELINES = 256, ENOUGH_RUNS = 3, MANY_RUNS = 5 };

#define SHARE 0.1 /* of the largest, of numbers that are not all above 0 */

typedef struct baseline {
    td__case *c;
    td__history **others;
    size_t count;
    int64_t steps; /* that all have */
} baseline;

/* ---- What always held ----------------------------------------------------------------------- */

static bool is_finite(const td__series *s) {
    for (size_t i = 0; i < s->count; i++) {
        if (!isfinite(s->points[i].value)) {
            return false;
        }
    }
    return true;
}

static bool is_never_zero(const td__series *s) {
    for (size_t i = 0; i < s->count; i++) {
        if (s->points[i].value == 0 || s->points[i].low == 0) {
            return false;
        }
    }
    return true;
}

static bool changes(const td__series *s) {
    for (size_t i = 1; i < s->count; i++) {
        if (s->points[i].value != s->points[0].value) {
            return true;
        }
    }
    return s->count < 2;
}

static bool falls(const td__series *s) {
    return td__series_mean(s, 0.9, 1) < td__series_mean(s, 0, 0.1);
}

static const struct {
    bool (*holds)(const td__series *series);
    const char *not_here; /* of a signal: what it does here and never did */
    enum { ANY, NORMS, LOSS } c;
} invariants[] = {
    {is_finite, "is not always finite", ANY},
    {is_never_zero, "is 0 at some steps", NORMS},
    {changes, "never changes", NORMS},
    {falls, "does not fall", LOSS},
};

/* ---- Numbers ---------------------------------------------------------------------------------- */

/* Mean of the finite points in a part of the steps; NaN: there are none. */
static double mean_of(const baseline *b, const td__series *s, int part) {
    int64_t after = b->steps * part / PARTS, last = b->steps * (part + 1) / PARTS;
    double sum = 0;
    size_t count = 0;
    for (size_t i = 0; i < s->count; i++) {
        const td_point *point = &s->points[i];
        if (point->step > after && point->step <= last && isfinite(point->value)) {
            sum += point->value;
            count++;
        }
    }
    return count ? sum / (double)count : NAN;
}

/* By how many widths of what is usual a number lies outside of what the others had; 0: within. */
static double beyond(const baseline *b, double value, double low, double high) {
    /* Times as large: what runs of one experiment differ by anyway, and more where few can tell. */
    double usual = b->count >= MANY_RUNS ? 1.5 : b->count >= ENOUGH_RUNS ? 2 : 3, width;
    if (value > 0 && low > 0) { /* sizes */
        value = log(value);
        low = log(low);
        high = log(high);
        width = log(usual);
    } else {
        width = SHARE * usual * fmax(fabs(value), fmax(fabs(low), fabs(high)));
    }
    double spread = (b->count >= MANY_RUNS ? 0.5 : 1.5) * (high - low);
    double outside = fmax(low - value, value - high);
    return outside > 0 ? outside / fmax(fmax(width, spread), 1e-300) : 0;
}

/* ---- Keeping ---------------------------------------------------------------------------------- */

static void keep(baseline *b, const td_unusual *unusual) {
    td_diagnosis *d = b->c->diagnosis;
    if (td__grow(&d->unusual, &d->unusual_capacity, d->unusual_count + 1, MOST_UNUSUAL,
                 sizeof *d->unusual)) {
        d->unusual[d->unusual_count++] = *unusual;
    }
}

static const char *title_of(td__case *c, const char *signal, const char *statistic) {
    return statistic ? td__say(c, "%s of %s", statistic, signal) : td__keep(c, signal);
}

static int64_t first_bad_step(const td__series *s, bool (*holds)(const td__series *series)) {
    for (size_t i = 0; i < s->count; i++) {
        td__series one = {.count = 1, .points = &s->points[i]};
        if (!holds(&one)) {
            return s->points[i].step;
        }
    }
    return 0;
}

static void compare_invariants(baseline *b, const td__series *here, const char *signal,
                               const char *statistic, const td__series *const *others) {
    td__case *c = b->c;
    for (size_t k = 0; k < sizeof invariants / sizeof *invariants; k++) {
        bool held = invariants[k].c == ANY || (invariants[k].c == NORMS && statistic) ||
                    (invariants[k].c == LOSS && here == td__loss_of(c->history));
        for (size_t i = 0; i < b->count && held; i++) {
            held = invariants[k].holds(others[i]);
        }
        if (!held || invariants[k].holds(here)) {
            continue;
        }
        keep(b,
             &(td_unusual){.text = td__say(c, "%s %s; in the others it never was so",
                                           title_of(c, signal, statistic), invariants[k].not_here),
                           .signal = td__keep(c, signal),
                           .statistic = statistic,
                           .step = first_bad_step(here, invariants[k].holds),
                           .value = NAN,
                           .low = NAN,
                           .high = NAN,
                           .size = INFINITY});
    }
}

static void compare_numbers(baseline *b, const td__series *here, const char *signal,
                            const char *statistic, const td__series *const *others) {
    td__case *c = b->c;
    td_unusual widest = {0};
    int64_t since = 0;
    double second = 0; /* one part alone may be chance */
    int parts = 0;
    for (int part = 0; part < PARTS; part++) {
        double value = mean_of(b, here, part), low = INFINITY, high = -INFINITY;
        size_t had = 0;
        for (size_t i = 0; i < b->count; i++) {
            double other = mean_of(b, others[i], part);
            low = fmin(low, other);
            high = fmax(high, other);
            had += isfinite(other) ? 1 : 0;
        }
        double size = had == b->count && isfinite(value) ? beyond(b, value, low, high) : 0;
        int64_t step = b->steps * part / PARTS + 1;
        parts += had == b->count && isfinite(value);
        since = size > 1 && !since ? step : since;
        second = fmax(second, fmin(size, widest.size));
        if (size > widest.size) {
            widest =
                (td_unusual){.step = step, .value = value, .low = low, .high = high, .size = size};
        }
    }
    if (widest.size > 1 && (second > 1 || parts < 2)) {
        int64_t last = widest.step - 1 + b->steps / PARTS;
        widest.text = td__say(c, "%s is %.4g in steps %lld to %lld; in the others %.4g to %.4g",
                              title_of(c, signal, statistic), widest.value, (long long)widest.step,
                              (long long)last, widest.low, widest.high);
        widest.signal = td__keep(c, signal);
        widest.statistic = statistic;
        widest.step = since;
        keep(b, &widest);
    }
}

/* One series of the run against the same of the others; which must all have it. */
static void compare_series(baseline *b, const char *signal, const char *statistic) {
    const td__series *here = td__series_of(b->c->history, signal, statistic);
    const td__series **others = td__calloc(b->count, sizeof *others);
    size_t had = 0;
    for (size_t i = 0; others && i < b->count; i++) {
        others[i] = td__series_of(b->others[i], signal, statistic);
        had += others[i]->count > 0;
    }
    if (here->count && had == b->count) {
        compare_invariants(b, here, signal, statistic, others);
        compare_numbers(b, here, signal, statistic, others);
    }
    td__free(others);
}

/* ---- Settings --------------------------------------------------------------------------------- */

/* "train: epochs: 5" without its value. */
static size_t key_length(const char *text) {
    const char *at = text, *colon = strstr(text, ": {");
    if (colon) {
        return (size_t)(colon - text);
    }
    while ((at = strstr(at, ": "))) {
        colon = at;
        at += 2;
    }
    return colon ? (size_t)(colon - text) : strlen(text);
}

/* What differs between any two runs of an experiment. */
static bool is_own(const char *text) {
    static const char *const keys[] = {"name", "seed", "run", "threads"};
    size_t length = key_length(text);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (strlen(keys[i]) == length && !strncmp(text, keys[i], length)) {
            return true;
        }
    }
    return false;
}

static bool has_text(const td_comparison *c, int run, const char *text) {
    for (size_t i = c->environment_count; i < c->difference_count; i++) {
        if (c->differences[i].run == run && !strcmp(c->differences[i].text, text)) {
            return true;
        }
    }
    return false;
}

/* What the first of the others has in place of it; NULL: nothing. */
static const char *instead_of(const td_comparison *c, const char *text) {
    size_t length = key_length(text);
    for (size_t i = c->environment_count; i < c->difference_count; i++) {
        const char *other = c->differences[i].text;
        if (c->differences[i].run == 1 && key_length(other) == length &&
            !strncmp(other, text, length)) {
            return other[length] ? other + length + 2 : other;
        }
    }
    return NULL;
}

static td_status compare_settings(baseline *b, td_error *error) {
    td__case *c = b->c;
    const td_compare_options no_signals = {.size = sizeof no_signals, .what = "/"};
    td_comparison **all = td__calloc(b->count, sizeof(td_comparison *));
    td_status status = all ? TD_OK : td_error_set(error, TD_MEMORY, "out of memory");
    for (size_t i = 0; !status && i < b->count; i++) {
        all[i] = td_run_compare(c->history->run, b->others[i]->run, &no_signals, error);
        status = all[i] ? TD_OK : TD_IO;
    }
    for (size_t i = status ? 0 : all[0]->environment_count; !status && i < all[0]->difference_count;
         i++) {
        const char *text = all[0]->differences[i].text;
        bool everywhere = all[0]->differences[i].run == 0 && !is_own(text);
        for (size_t k = 1; k < b->count && everywhere; k++) {
            everywhere = has_text(all[k], 0, text);
        }
        if (everywhere) {
            const char *instead = instead_of(all[0], text);
            keep(b,
                 &(td_unusual){.text = instead ? td__say(c, "%s; in the others %s", text, instead)
                                               : td__say(c, "%s; none of the others has it", text),
                               .value = NAN,
                               .low = NAN,
                               .high = NAN,
                               .size = INFINITY});
        }
    }
    for (size_t i = 0; all && i < b->count; i++) {
        td_comparison_destroy(all[i]);
    }
    td__free(all);
    return status;
}

/* ---- All of it -------------------------------------------------------------------------------- */

/* Settings, then what always held, then numbers by how far they are off; of the same the earlier. */
static int by_importance(const void *left, const void *right) {
    const td_unusual *a = left, *b = right;
    if (!a->signal != !b->signal) {
        return a->signal ? 1 : -1;
    }
    if (a->size != b->size) {
        return a->size < b->size ? 1 : -1;
    }
    return (a->step > b->step) - (a->step < b->step);
}

static void compare_signals(baseline *b) {
    td_run *run = b->c->history->run;
    for (size_t i = 0; i < td_run_signal_count(run); i++) {
        const td_run_signal *signal = td_run_signal_at(run, i);
        compare_series(b, signal->name, NULL);
        compare_series(b, signal->name, "norm");
    }
}

td_status td__compare_with(td__case *c, const char *const *runs, size_t count, td_error *error) {
    baseline b = {.c = c, .steps = c->history->last_step};
    if (count > MOST_BASELINES) {
        return td_error_set(error, TD_INVALID, "--baseline: %zu runs, at most %d are compared with",
                            count, MOST_BASELINES);
    }
    b.others = td__calloc(count, sizeof *b.others);
    td_status status = b.others ? TD_OK : td_error_set(error, TD_MEMORY, "out of memory");
    for (size_t i = 0; !status && i < count; i++) {
        b.others[i] = td__history_open(runs[i], error);
        status = b.others[i] ? TD_OK : error && error->status ? error->status : TD_IO;
        b.count += !status;
        b.steps = !status && b.others[i]->last_step < b.steps ? b.others[i]->last_step : b.steps;
    }
    status = status ? status : compare_settings(&b, error);
    if (!status) {
        compare_signals(&b);
        td_diagnosis *d = c->diagnosis;
        d->baseline_count = count;
        if (d->unusual_count) {
            qsort(d->unusual, d->unusual_count, sizeof *d->unusual, by_importance);
        }
    }
    for (size_t i = 0; i < b.count; i++) {
        td__history_close(b.others[i]);
    }
    td__free(b.others);
    return status;
}

size_t td_diagnosis_baseline_count(const td_diagnosis *diagnosis) {
    return diagnosis->baseline_count;
}

size_t td_diagnosis_unusual_count(const td_diagnosis *diagnosis) {
    return diagnosis->unusual_count;
}

const td_unusual *td_diagnosis_unusual_at(const td_diagnosis *diagnosis, size_t index) {
    return index < diagnosis->unusual_count ? &diagnosis->unusual[index] : NULL;
}
