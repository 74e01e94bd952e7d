#include "train/measure.h"

#include "base/memory.h"
#include "nn/metric.h"

#include <math.h>

static td_status make(td__measure *measure, const td_names *names, bool from_logits,
                      td_error *error) {
    measure->metrics = td__calloc(names->count + 1, sizeof(td_metric *));
    if (!measure->metrics) {
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    for (size_t i = 0; i < names->count; i++) {
        td_metric_options options = {.struct_size = sizeof options,
                                     .threshold = from_logits ? TD_ZERO : 0};
        td_status status = td_metric_kind_find(names->items[i], &options.kind, error);
        if (status) {
            return status;
        }
        measure->metrics[i] = td_metric_create(&options, error);
        if (!measure->metrics[i]) {
            return TD_MEMORY;
        }
    }
    return TD_OK;
}

td_status td__measures_init(td__measures *measures, const td_names *metrics, bool from_logits,
                            td_error *error) {
    measures->count = metrics->count;
    td_status status = make(&measures->step, metrics, from_logits, error);
    status = status ? status : make(&measures->epoch, metrics, from_logits, error);
    return status ? status : make(&measures->validation, metrics, from_logits, error);
}

static void release(td__measure *measure, size_t count) {
    for (size_t i = 0; measure->metrics && i < count; i++) {
        td_metric_destroy(measure->metrics[i]);
    }
    td__free(measure->metrics);
}

void td__measures_release(td__measures *measures) {
    release(&measures->step, measures->count);
    release(&measures->epoch, measures->count);
    release(&measures->validation, measures->count);
    *measures = (td__measures){0};
}

void td__measure_reset(const td__measures *measures, td__measure *measure) {
    measure->loss = measure->examples = 0;
    for (size_t i = 0; i < measures->count; i++) {
        td_metric_reset(measure->metrics[i]);
    }
}

td_status td__measure_add(const td__measures *measures, td__measure *measure, const td__pass *pass,
                          td_error *error) {
    double count = (double)pass->batch->count;
    measure->loss += (double)td_tensor_scalar(pass->loss) * count;
    measure->examples += count;
    td_status status = TD_OK;
    for (size_t i = 0; !status && i < measures->count; i++) {
        status = td_metric_update(measure->metrics[i], pass->prediction, pass->truth, error);
    }
    return status;
}

double td__measure_value(const td__measure *measure, size_t index) {
    if (index > 0) {
        return td_metric_value(measure->metrics[index - 1]);
    }
    return measure->examples > 0 ? measure->loss / measure->examples : (double)NAN;
}

/* ---- For a checkpoint ------------------------------------------------------------------------ */

enum { OWN = 2 }; /* loss and examples come first, then each metric's */

size_t td__measure_size(const td__measures *measures, const td__measure *measure) {
    size_t size = OWN;
    for (size_t i = 0; i < measures->count; i++) {
        size += td__metric_state(measure->metrics[i], NULL);
    }
    return size;
}

void td__measure_save(const td__measures *measures, const td__measure *measure, double *state) {
    *state++ = measure->loss;
    *state++ = measure->examples;
    for (size_t i = 0; i < measures->count; i++) {
        state += td__metric_state(measure->metrics[i], state);
    }
}

td_status td__measure_restore(const td__measures *measures, td__measure *measure,
                              const double *state, size_t size, td_error *error) {
    const double *end = state + size;
    if (size < OWN) {
        return td_error_set(error, TD_FORMAT, "too few numbers");
    }
    measure->loss = *state++;
    measure->examples = *state++;
    for (size_t i = 0; i < measures->count; i++) {
        size_t used = td__metric_set_state(measure->metrics[i], state, (size_t)(end - state));
        if (used == 0) {
            return td_error_set(error, TD_FORMAT, "what it says of a metric makes no sense");
        }
        state += used;
    }
    return state == end ? TD_OK : td_error_set(error, TD_FORMAT, "too many numbers");
}
