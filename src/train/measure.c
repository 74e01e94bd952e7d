#include "train/measure.h"

#include "base/memory.h"
#include "nn/metric.h"

#include <math.h>

enum { MOST_VALUES = 1 << 22 }; /* of one metric: a confusion matrix of 2048 classes */

/* What makes probabilities of the model's outputs. */
static td_link link_of(const td__objective *objective) {
    td_loss loss = objective->loss;
    bool binary = loss == TD_LOSS_BINARY_CROSSENTROPY || loss == TD_LOSS_BINARY_FOCAL_CROSSENTROPY;
    if (!objective->options.from_logits) {
        return TD_LINK_NONE;
    }
    return binary ? TD_LINK_SIGMOID : TD_LINK_SOFTMAX;
}

static td_status make(const td__measures *measures, td__measure *measure, td_link link,
                      td_error *error) {
    measure->metrics = td__calloc(measures->count + 1, sizeof(td_metric *));
    measure->values = td__calloc(measures->value_count, sizeof *measure->values);
    if (!measure->metrics || !measure->values) {
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    for (size_t i = 0; i < measures->count; i++) {
        td_metric_options options = measures->specs[i].options;
        options.link = link;
        measure->metrics[i] = td_metric_create(&options, error);
        if (!measure->metrics[i]) {
            return TD_MEMORY;
        }
    }
    return TD_OK;
}

bool td__measures_is_matrix(const td__measures *measures, size_t metric) {
    return measures->specs[metric].options.kind == TD_METRIC_CONFUSION_MATRIX;
}

size_t td__measures_values_of(const td__measures *measures, size_t metric) {
    return td_metric_value_count(&measures->specs[metric].options, measures->outputs);
}

td_status td__measures_init(td__measures *measures, const td__train_spec *train, int64_t outputs,
                            td_error *error) {
    measures->specs = train->metrics;
    measures->count = train->metric_count;
    measures->outputs = outputs;
    measures->value_count = 1;
    for (size_t i = 0; i < measures->count; i++) {
        size_t count = td__measures_values_of(measures, i);
        if (count > MOST_VALUES) {
            return td_error_set(error, TD_RANGE,
                                "metric %s: too many classes, %lld, for so many numbers",
                                measures->specs[i].name, (long long)outputs);
        }
        measures->most_values = count > measures->most_values ? count : measures->most_values;
        measures->value_count += td__measures_is_matrix(measures, i) ? 0 : count;
    }
    measures->room = td__calloc(measures->most_values + 1, sizeof *measures->room);
    measures->matrix = td__calloc(measures->most_values + 1, sizeof *measures->matrix);
    if (!measures->room || !measures->matrix) {
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    td_link link = link_of(&train->objective);
    td_status status = make(measures, &measures->step, link, error);
    status = status ? status : make(measures, &measures->epoch, link, error);
    return status ? status : make(measures, &measures->validation, link, error);
}

static void release(td__measure *measure, size_t count) {
    for (size_t i = 0; measure->metrics && i < count; i++) {
        td_metric_destroy(measure->metrics[i]);
    }
    td__free(measure->metrics);
    td__free(measure->values);
}

void td__measures_release(td__measures *measures) {
    release(&measures->step, measures->count);
    release(&measures->epoch, measures->count);
    release(&measures->validation, measures->count);
    td__free(measures->room);
    td__free(measures->matrix);
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
    const td_tensor *prediction, *truth;
    if (measures->count == 0 || !td__pass_counted(pass, &prediction, &truth)) {
        return td_tape_status(pass->tape, error);
    }
    td_status status = TD_OK;
    for (size_t i = 0; !status && i < measures->count; i++) {
        status = td_metric_update(measure->metrics[i], prediction, truth, error);
    }
    return status;
}

const double *td__measure_read(const td__measures *measures, td__measure *measure) {
    double *value = measure->values;
    *value++ = measure->examples > 0 ? measure->loss / measure->examples : (double)NAN;
    for (size_t i = 0; i < measures->count; i++) {
        if (td__measures_is_matrix(measures, i)) {
            continue;
        }
        size_t count = td__measures_values_of(measures, i);
        if (measure->examples > 0) {
            td_metric_values(measure->metrics[i], value);
        }
        for (size_t k = 0; k < count; k++) {
            value[k] = measure->examples > 0 ? value[k] : (double)NAN;
        }
        value += count;
    }
    return measure->values;
}

td_view td__measure_matrix(const td__measures *measures, const td__measure *measure,
                           size_t metric) {
    size_t count = td__measures_values_of(measures, metric);
    int64_t size = measures->outputs > 1 ? measures->outputs : 2;
    td_metric_values(measure->metrics[metric], measures->room);
    for (size_t i = 0; i < count; i++) {
        measures->matrix[i] = (float)measures->room[i];
    }
    return (td_view){.dtype = TD_FLOAT32, .shape = TD_SHAPE(size, size), .data = measures->matrix};
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
