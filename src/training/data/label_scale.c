/* Standardising labels that are values: (y - mean) / deviation over the training part, and back. */
#include "base/memory.h"
#include "data/dataset.h"

#include <math.h>
#include <string.h>

/* Two passes in double: the mean, then the mean of squared distances. */
static td_status measure_labels(td_dataset *dataset, int64_t count, td_error *error) {
    const td__part *part = &dataset->parts[TD_TRAINING];
    const td__array *label = &dataset->tables[part->table].label;
    for (int64_t i = 0; i < count; i++) {
        double mean = 0, squares = 0;
        for (int64_t n = 0; n < part->count; n++) {
            mean += td__array_value(label, td__part_row(part, n), i) / (double)part->count;
        }
        for (int64_t n = 0; n < part->count; n++) {
            double distance = td__array_value(label, td__part_row(part, n), i) - mean;
            squares += distance * distance / (double)part->count;
        }
        float deviation = (float)sqrt(squares);
        dataset->label_mean[i] = (float)mean;
        dataset->label_deviation[i] = deviation > 0 ? deviation : 1;
        if (!isfinite(dataset->label_mean[i]) || !isfinite(deviation)) {
            return td_error_set(error, TD_RANGE,
                                "label %lld cannot be standardised: its values are not finite or "
                                "too large",
                                (long long)i);
        }
    }
    return TD_OK;
}

td_status td__label_scale_prepare(td_dataset *dataset, const td_data_options *options,
                                  td_error *error) {
    const td__table *table = &dataset->tables[0];
    if (!options->standardize_labels && !options->label_mean) {
        return TD_OK;
    }
    int64_t count = table->label.count;
    if (!table->label.data || dataset->info.label_kind == TD_LABEL_NONE ||
        table->classes.count > 0 || dataset->info.label_kind == TD_LABEL_ONE_HOT) {
        return td_error_set(error, TD_INVALID, "`standardize_labels` needs labels that are values");
    }
    if (options->label_mean &&
        (!options->label_deviation || options->label_normal_count != count)) {
        return td_error_set(error, TD_BAD_SHAPE,
                            "%lld means and deviations were given for %lld labels",
                            (long long)options->label_normal_count, (long long)count);
    }
    dataset->label_mean = td__calloc((size_t)count, sizeof(float));
    dataset->label_deviation = td__calloc((size_t)count, sizeof(float));
    if (!dataset->label_mean || !dataset->label_deviation) {
        return td_error_set(error, TD_MEMORY, "no memory to standardise labels");
    }
    dataset->info.label_mean = dataset->label_mean;
    dataset->info.label_deviation = dataset->label_deviation;
    dataset->info.label_normal_count = count;
    if (!options->label_mean) {
        return measure_labels(dataset, count, error);
    }
    memcpy(dataset->label_mean, options->label_mean, (size_t)count * sizeof(float));
    memcpy(dataset->label_deviation, options->label_deviation, (size_t)count * sizeof(float));
    return TD_OK;
}

void td__label_scale(const td_dataset *dataset, float *values, int64_t count) {
    for (int64_t i = 0; dataset->label_mean && i < count; i++) {
        values[i] = (values[i] - dataset->label_mean[i]) / dataset->label_deviation[i];
    }
}

void td__labels_undo(const float *mean, const float *deviation, int64_t count, float *values,
                     int64_t rows) {
    for (int64_t row = 0; mean && row < rows; row++) {
        for (int64_t i = 0; i < count; i++) {
            values[row * count + i] = values[row * count + i] * deviation[i] + mean[i];
        }
    }
}
