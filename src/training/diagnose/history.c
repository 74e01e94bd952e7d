#include "diagnose/history.h"

#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_SERIES = 1 << 16 };

td__history *td__history_open(const char *run, td_error *error) {
    td__history *history = td__calloc(1, sizeof *history);
    if (!history) {
        td_error_set(error, TD_MEMORY, "out of memory");
        return NULL;
    }
    history->run = td_run_open(run, error);
    if (!history->run || td_run_refresh(history->run, error)) {
        td__history_close(history);
        return NULL;
    }
    td_run_info info = {.size = sizeof info};
    td_run_about(history->run, &info);
    history->state = info.state;
    history->last_step = info.last_step;
    history->last_epoch = info.last_epoch;
    return history;
}

void td__history_close(td__history *history) {
    if (!history) {
        return;
    }
    for (size_t i = 0; i < history->read_count; i++) {
        td__free(history->read[i]->name);
        td__free(history->read[i]->points);
        td__free(history->read[i]);
    }
    td__free(history->read);
    td_run_close(history->run);
    td__free(history);
}

/* NaN is a value here: it is what one looks for. */
static void fill(td__history *history, td__series *series, const char *signal,
                 const char *statistic) {
    const td_run_signal *found = td_run_signal_find(history->run, signal);
    if (!found) {
        return;
    }
    series->points = td__calloc(TD__POINTS, sizeof *series->points);
    if (series->points) {
        series->count = td_run_points(history->run, found, statistic, found->first_step,
                                      found->last_step, series->points, TD__POINTS, NULL);
    }
}

const td__series *td__series_of(td__history *history, const char *signal, const char *statistic) {
    static const td__series none;
    char name[600];
    (void)snprintf(name, sizeof name, "%.500s\n%s", signal, statistic ? statistic : "");
    for (size_t i = 0; i < history->read_count; i++) {
        if (!strcmp(history->read[i]->name, name)) {
            return history->read[i];
        }
    }
    td__series *series = td__calloc(1, sizeof *series);
    char *copy = td__strdup(name);
    if (!series || !copy ||
        !td__grow(&history->read, &history->read_capacity, history->read_count + 1, MOST_SERIES,
                  sizeof *history->read)) {
        td__free(series);
        td__free(copy);
        return &none;
    }
    series->name = copy;
    fill(history, series, signal, statistic);
    history->read[history->read_count++] = series;
    return series;
}

static const td__series *first_recorded(td__history *history, const char *const *names) {
    const td__series *series = td__series_of(history, *names++, NULL);
    for (; !series->count && *names; names++) {
        series = td__series_of(history, *names, NULL);
    }
    return series;
}

const td__series *td__loss_of(td__history *history) {
    static const char *const names[] = {"loss",          "train_loss", "train/loss", "loss/train",
                                        "training_loss", "Loss/train", "epoch_loss", NULL};
    return first_recorded(history, names);
}

const td__series *td__validation_loss_of(td__history *history) {
    static const char *const names[] = {"val_loss",        "val/loss",  "loss/val",
                                        "validation_loss", "eval_loss", "eval/loss",
                                        "valid_loss",      "test_loss", NULL};
    return first_recorded(history, names);
}

const td_run_signal *td__next_signal(td__history *history, td_signal_kind kind, size_t *at) {
    size_t count = td_run_signal_count(history->run);
    while (*at < count) {
        const td_run_signal *signal = td_run_signal_at(history->run, (*at)++);
        if (signal->info->kind == kind) {
            return signal;
        }
    }
    return NULL;
}

const td_run_signal *td__next_derived(td__history *history, const char *word, size_t *at) {
    const td_run_signal *signal;
    while ((signal = td__next_signal(history, TD_SIGNAL_DERIVED, at))) {
        const char *last = strrchr(signal->name, '.');
        if (last && !strcmp(last + 1, word)) {
            return signal;
        }
    }
    return NULL;
}

static size_t index_at(const td__series *series, double share) {
    size_t index = (size_t)(share * (double)series->count);
    return index < series->count ? index : series->count;
}

double td__series_mean(const td__series *series, double a, double b) {
    double sum = 0;
    size_t count = 0;
    size_t end =
        index_at(series, b) > index_at(series, a) ? index_at(series, b) : index_at(series, a) + 1;
    for (size_t i = index_at(series, a); i < end && i < series->count; i++) {
        if (isfinite(series->points[i].value)) {
            sum += series->points[i].value;
            count++;
        }
    }
    return count ? sum / (double)count : NAN;
}

double td__series_first(const td__series *series) {
    for (size_t i = 0; i < series->count; i++) {
        if (isfinite(series->points[i].value)) {
            return series->points[i].value;
        }
    }
    return NAN;
}

double td__series_last(const td__series *series) {
    for (size_t i = series->count; i-- > 0;) {
        if (isfinite(series->points[i].value)) {
            return series->points[i].value;
        }
    }
    return NAN;
}

static double extreme(const td__series *series, double sign, int64_t *step) {
    double best = NAN;
    for (size_t i = 0; i < series->count; i++) {
        double value = sign > 0 ? series->points[i].high : series->points[i].low;
        if (isfinite(value) && !(sign * best >= sign * value)) {
            best = value;
            if (step) {
                *step = series->points[i].step;
            }
        }
    }
    return best;
}

double td__series_least(const td__series *series, int64_t *step) {
    return extreme(series, -1, step);
}

double td__series_most(const td__series *series, int64_t *step) {
    return extreme(series, 1, step);
}
