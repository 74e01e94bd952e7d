#include "train/measure.h"

#include "base/memory.h"
#include "nn/metric.h"

#include <math.h>
#include <string.h>

enum { MOST_VALUES = 1 << 22 }; /* of one metric: a confusion matrix of 2048 classes */

static td_status make(const td__measures *measures, td__measure *measure, const td_link *links,
                      td_error *error) {
    measure->metrics = td__calloc(measures->count + 1, sizeof(td_metric *));
    measure->values = td__calloc(measures->value_count, sizeof *measure->values);
    if (!measure->metrics || !measure->values) {
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    for (size_t i = 0; i < measures->count; i++) {
        td_metric_options options = measures->specs[i].options;
        options.link = links[measures->output_of[i]];
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
    return td_metric_value_count(&measures->specs[metric].options,
                                 measures->units[measures->output_of[metric]]);
}

/* Which output each metric is of. */
static td_status find_outputs(td__measures *measures, const td_model *model, td_error *error) {
    measures->output_of = td__calloc(measures->count + 1, sizeof *measures->output_of);
    for (size_t k = 0; k < td_model_output_count(model); k++) {
        measures->units[k] = td__output_units(model, k);
        for (size_t i = 0; measures->output_of && i < measures->count; i++) {
            const char *output = measures->specs[i].output;
            if (output && !strcmp(output, td__output_layer(model, k)->name)) {
                measures->output_of[i] = k;
            }
        }
    }
    return measures->output_of ? TD_OK : td_error_set(error, TD_MEMORY, "out of memory");
}

td_status td__measures_init(td__measures *measures, const td__train_spec *train,
                            const td_model *model, const td__head *heads, size_t head_count,
                            td_error *error) {
    td_link links[TD_MAX_OUTPUTS] = {td__link_of(&train->objective)};
    for (size_t i = 0; i < head_count; i++) {
        links[i] = td__link_of(&heads[i].objective);
    }
    measures->specs = train->metrics;
    measures->count = train->metric_count;
    measures->loss_count = head_count > 1 ? 1 + head_count : 1;
    measures->value_count = measures->loss_count;
    td_status status = find_outputs(measures, model, error);
    if (status) {
        return status;
    }
    for (size_t i = 0; i < measures->count; i++) {
        size_t count = td__measures_values_of(measures, i);
        if (count > MOST_VALUES) {
            return td_error_set(
                error, TD_RANGE, "metric %s: too many classes, %lld, for so many numbers",
                measures->specs[i].name, (long long)measures->units[measures->output_of[i]]);
        }
        measures->most_values = count > measures->most_values ? count : measures->most_values;
        measures->value_count += td__measures_is_matrix(measures, i) ? 0 : count;
    }
    measures->room = td__calloc(measures->most_values + 1, sizeof *measures->room);
    measures->matrix = td__calloc(measures->most_values + 1, sizeof *measures->matrix);
    if (!measures->room || !measures->matrix) {
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    status = make(measures, &measures->step, links, error);
    status = status ? status : make(measures, &measures->epoch, links, error);
    status = status ? status : make(measures, &measures->shard, links, error);
    return status ? status : make(measures, &measures->validation, links, error);
}

static void release_measures(td__measure *measure, size_t count) {
    for (size_t i = 0; measure->metrics && i < count; i++) {
        td_metric_destroy(measure->metrics[i]);
    }
    td__free(measure->metrics);
    td__free(measure->values);
}

void td__measures_release(td__measures *measures) {
    release_measures(&measures->step, measures->count);
    release_measures(&measures->epoch, measures->count);
    release_measures(&measures->validation, measures->count);
    release_measures(&measures->shard, measures->count);
    td__free(measures->output_of);
    td__free(measures->room);
    td__free(measures->matrix);
    *measures = (td__measures){0};
}

void td__measure_reset(const td__measures *measures, td__measure *measure) {
    memset(measure->losses, 0, sizeof measure->losses);
    measure->examples = 0;
    for (size_t i = 0; i < measures->count; i++) {
        td_metric_reset(measure->metrics[i]);
    }
}

td_status td__measure_add(const td__measures *measures, td__measure *measure, const td__pass *pass,
                          td_error *error) {
    double count = (double)pass->batch->count;
    measure->losses[0] += (double)td_tensor_scalar(pass->loss) * count;
    for (size_t i = 1; i < measures->loss_count; i++) {
        measure->losses[i] += (double)td_tensor_scalar(pass->outcomes[i - 1].loss) * count;
    }
    measure->examples += count;
    td_status status = TD_OK;
    size_t outputs = measures->count ? td__pass_outcome_count(pass) : 0;
    for (size_t k = 0; !status && k < outputs; k++) {
        const td_tensor *prediction, *truth;
        if (!td__pass_counted(pass, k, &prediction, &truth)) {
            status = td_tape_status(pass->tape, error);
            continue;
        }
        for (size_t i = 0; !status && i < measures->count; i++) {
            status = measures->output_of[i] == k
                         ? td_metric_update(measure->metrics[i], prediction, truth, error)
                         : TD_OK;
        }
    }
    return status;
}

const double *td__measure_read(const td__measures *measures, td__measure *measure) {
    double *value = measure->values;
    for (size_t i = 0; i < measures->loss_count; i++) {
        *value++ = measure->examples > 0 ? measure->losses[i] / measure->examples : (double)NAN;
    }
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
    int64_t units = measures->units[measures->output_of[metric]], size = units > 1 ? units : 2;
    td_metric_values(measure->metrics[metric], measures->room);
    for (size_t i = 0; i < count; i++) {
        measures->matrix[i] = (float)measures->room[i];
    }
    return (td_view){.dtype = TD_FLOAT32, .shape = TD_SHAPE(size, size), .data = measures->matrix};
}

/* ---- For a checkpoint: losses and examples come first, then each metric's -------------------- */

size_t td__measure_size(const td__measures *measures, const td__measure *measure) {
    size_t size = measures->loss_count + 1;
    for (size_t i = 0; i < measures->count; i++) {
        size += td__metric_state(measure->metrics[i], NULL);
    }
    return size;
}

void td__measure_save(const td__measures *measures, const td__measure *measure, double *state) {
    for (size_t i = 0; i < measures->loss_count; i++) {
        *state++ = measure->losses[i];
    }
    *state++ = measure->examples;
    for (size_t i = 0; i < measures->count; i++) {
        state += td__metric_state(measure->metrics[i], state);
    }
}

td_status td__measure_restore(const td__measures *measures, td__measure *measure,
                              const double *state, size_t size, td_error *error) {
    const double *end = state + size;
    if (size <= measures->loss_count) {
        return td_error_set(error, TD_FORMAT, "too few numbers");
    }
    for (size_t i = 0; i < measures->loss_count; i++) {
        measure->losses[i] = *state++;
    }
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

/* ---- Of parts -------------------------------------------------------------------------------- */

void td__measure_take_sum(const td__measures *measures, td__measure *measure, const double *state) {
    for (size_t i = 0; i < measures->loss_count; i++) {
        measure->losses[i] = *state++;
    }
    measure->examples = *state++;
    for (size_t i = 0; i < measures->count; i++) {
        state += td__metric_take_sum(measure->metrics[i], state);
    }
}

td_status td__measure_merge(const td__measures *measures, td__measure *measure,
                            const td__measure *other, td_error *error) {
    bool good = true;
    for (size_t i = 0; i < measures->loss_count; i++) {
        measure->losses[i] += other->losses[i];
    }
    measure->examples += other->examples;
    for (size_t i = 0; good && i < measures->count; i++) {
        good = td__metric_merge(measure->metrics[i], other->metrics[i]);
    }
    return good ? TD_OK : td_error_set(error, TD_MEMORY, "out of memory for a metric");
}
