#include "train/stopping.h"

#include "base/memory.h"
#include "tapedeck/deck.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

td_better td__metric_better(td_metric_kind kind) {
    bool error = kind == TD_METRIC_MAE || kind == TD_METRIC_MSE;
    return error ? TD_BETTER_SMALLER : TD_BETTER_LARGER;
}

/* A metric may have any name. */
td_better td__monitor_better(const td__train_spec *train, const char *monitor) {
    const char *name = strncmp(monitor, "val_", 4) ? monitor : monitor + 4;
    for (size_t i = 0; i < train->metric_count; i++) {
        size_t length = strlen(train->metrics[i].name);
        const char *rest = name + length;
        if (!strncmp(name, train->metrics[i].name, length) &&
            (!*rest || (*rest == '_' && rest[1] && !rest[1 + strspn(rest + 1, "0123456789")]))) {
            return td__metric_better(train->metrics[i].options.kind);
        }
    }
    td_signal_info info = {0};
    char text[TD_SIGNAL_TEXT_SIZE];
    td_signal_guess(monitor, &info, text);
    return info.better;
}

td__best td__best_of(const td__train_spec *train, const char *monitor, int mode, double margin) {
    bool larger = mode == TD__MODE_AUTO
                      ? monitor && td__monitor_better(train, monitor) == TD_BETTER_LARGER
                      : mode == TD__MODE_MAX;
    return (td__best){.monitor = monitor, .larger = larger, .margin = margin};
}

bool td__best_take(td__best *best, double value, int64_t epoch) {
    double gain = best->larger ? value - best->value : best->value - value;
    if (isnan(value) || (best->epoch > 0 && !(gain > best->margin))) {
        return false;
    }
    best->value = value;
    best->epoch = epoch;
    return true;
}

/* ---- Weights --------------------------------------------------------------------------------- */

static void keep_weights(td__stopping *stopping, const td_model *model) {
    for (size_t i = 0; i < stopping->weight_count; i++) {
        const td_tensor *tensor = td_model_parameter_at(model, i)->tensor;
        memcpy(stopping->weights[i], td_tensor_data(tensor),
               (size_t)td_tensor_count(tensor) * sizeof(float));
    }
}

void td__stopping_restore(const td__stopping *stopping, const td_model *model) {
    for (size_t i = 0; i < stopping->weight_count; i++) {
        const td_tensor *tensor = td_model_parameter_at(model, i)->tensor;
        memcpy(td_tensor_data(tensor), stopping->weights[i],
               (size_t)td_tensor_count(tensor) * sizeof(float));
    }
}

td_status td__stopping_init(td__stopping *stopping, const td__train_spec *train,
                            const td_model *model, td_error *error) {
    stopping->best =
        td__best_of(train, train->stop_monitor, train->stop_mode, train->stop_min_delta);
    stopping->patience = train->stop_patience;
    stopping->restore = train->stop_monitor && train->stop_restore_best;
    if (!stopping->restore) {
        return TD_OK;
    }
    size_t count = td_model_parameter_count(model);
    stopping->weights = td__calloc(count + 1, sizeof(float *));
    bool good = stopping->weights;
    for (size_t i = 0; good && i < count; i++) {
        size_t elements = (size_t)td_tensor_count(td_model_parameter_at(model, i)->tensor);
        stopping->weights[i] = td__calloc(elements + 1, sizeof(float));
        good = stopping->weights[i];
        stopping->weight_count += good;
    }
    if (!good) {
        return td_error_set(error, TD_MEMORY, "out of memory for the best epoch's weights");
    }
    keep_weights(stopping, model);
    return TD_OK;
}

void td__stopping_release(td__stopping *stopping) {
    for (size_t i = 0; i < stopping->weight_count; i++) {
        td__free(stopping->weights[i]);
    }
    td__free(stopping->weights);
    *stopping = (td__stopping){0};
}

/* ---- Stopping -------------------------------------------------------------------------------- */

void td__stopping_decide(td__stopping *stopping) {
    if (!stopping->best.monitor || stopping->waited < stopping->patience) {
        return;
    }
    stopping->stopped = true;
    (void)snprintf(stopping->text, sizeof stopping->text,
                   "%.60s has not improved on %.6g (epoch %lld) for %lld epoch%s",
                   stopping->best.monitor, stopping->best.value, (long long)stopping->best.epoch,
                   (long long)stopping->waited, stopping->waited == 1 ? "" : "s");
}

void td__stopping_take(td__stopping *stopping, double value, int64_t epoch, const td_model *model) {
    if (!stopping->best.monitor || isnan(value)) {
        return;
    }
    if (td__best_take(&stopping->best, value, epoch)) {
        stopping->waited = 0;
        keep_weights(stopping, model);
        return;
    }
    stopping->waited++;
    td__stopping_decide(stopping);
}
