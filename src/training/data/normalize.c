/* Scaling and standardising inputs: x * scale, or (x - mean) / deviation for each element. */
#include "base/memory.h"
#include "data/csv.h"
#include "data/dataset.h"

#include <math.h>
#include <string.h>

static void fill_missing(const td_dataset *dataset, float *restrict values, int64_t count) {
    const float *with = dataset->fill;
    for (int64_t i = 0; with && i < count; i++) {
        values[i] = isnan(values[i]) ? with[i] : values[i];
    }
}

static void change(const td_dataset *dataset, float *restrict values, int64_t count) {
    fill_missing(dataset, values, count);
    if (dataset->mean) {
        const float *mean = dataset->mean, *deviation = dataset->deviation;
        for (int64_t i = 0; i < count; i++) {
            values[i] = (values[i] - mean[i]) / deviation[i];
        }
    } else if (dataset->scale != 1) {
        float scale = dataset->scale;
        for (int64_t i = 0; i < count; i++) {
            values[i] *= scale;
        }
    }
}

void td__input_row(const td_dataset *dataset, int table, int64_t row, float *values) {
    const td__array *input = &dataset->tables[table].input;
    td__array_read(input, row, values);
    if (!dataset->changed[table]) {
        change(dataset, values, input->count);
    }
}

const float *td__input_rows(const td_dataset *dataset, int table) {
    bool as_it_is =
        dataset->changed[table] || (!dataset->mean && !dataset->fill && dataset->scale == 1);
    return as_it_is ? td__array_floats(&dataset->tables[table].input) : NULL;
}

td_status td__each_training_input(const td_dataset *dataset,
                                  void (*each)(void *user, int64_t n, float *row), void *user,
                                  td_error *error) {
    const td__array *input = &dataset->tables[0].input;
    const td__part *part = &dataset->parts[TD_TRAINING];
    float *row = td__calloc((size_t)input->count, sizeof *row);
    size_t released = 0;
    td_status status = row ? TD_OK
                           : td_error_set(error, TD_MEMORY, "no memory for a row of %lld inputs",
                                          (long long)input->count);
    for (int64_t n = 0; !status && n < part->count; n++) {
        int64_t number = td__part_row(part, n);
        status = td__table_need(&dataset->tables[0], number, error);
        if (!status) {
            td__array_read(input, number, row);
            td__table_release_rows(&dataset->tables[0], number, &released);
            each(user, n, row);
        }
    }
    td__free(row);
    return status;
}

typedef struct moments {
    const td_dataset *dataset;
    double *mean, *squares;
} moments;

/* Welford's update in double: mean_n = mean + d / n, squares_n = squares + d (x - mean_n), where d
 * = x - mean. A column that never changes has squares of exactly 0. */
static void add_moments(void *user, int64_t n, float *row) {
    const moments *m = user;
    int64_t count = m->dataset->tables[0].input.count;
    double weight = 1 / (double)(n + 1);
    fill_missing(m->dataset, row, count);
    for (int64_t i = 0; i < count; i++) {
        double difference = (double)row[i] - m->mean[i];
        m->mean[i] += difference * weight;
        m->squares[i] += difference * ((double)row[i] - m->mean[i]);
    }
}

/* A column of a window has one mean and one variance, those of all of its rows together: var = E[var] + E[(mean -
 * E[mean])^2]. */
static void pool_steps(const td_dataset *dataset, double *mean, double *squares) {
    int64_t steps = dataset->window_length, count = dataset->tables[0].input.count;
    int64_t columns = steps ? count / steps : 0;
    double examples = (double)dataset->parts[TD_TRAINING].count;
    for (int64_t c = 0; c < columns; c++) {
        double all = 0, sum = 0;
        for (int64_t i = c; i < count; i += columns) {
            all += mean[i] / (double)steps;
        }
        for (int64_t i = c; i < count; i += columns) {
            sum += (squares[i] + examples * (mean[i] - all) * (mean[i] - all)) / (double)steps;
        }
        for (int64_t i = c; i < count; i += columns) {
            mean[i] = all;
            squares[i] = sum;
        }
    }
}

/* Ids of texts stay what they are. */
static void leave_ids(td_dataset *dataset, const td_data_options *options) {
    const td__names *names = &dataset->tables[0].input_names;
    int64_t columns = (int64_t)names->count, count = dataset->tables[0].input.count;
    for (int64_t i = 0; i < count && options->text.count && columns; i++) {
        const char *rest;
        ptrdiff_t expansion = td__csv_expansion_of(options, names->items[i % columns], &rest);
        if (expansion >= 0 &&
            td__csv_expansion_at(options, (size_t)expansion).use == TD__CSV_TEXT) {
            dataset->mean[i] = 0;
            dataset->deviation[i] = 1;
        }
    }
}

static td_status measure_columns(td_dataset *dataset, td_error *error) {
    const td__part *part = &dataset->parts[TD_TRAINING];
    int64_t count = dataset->tables[0].input.count;
    double *mean = td__calloc((size_t)count, sizeof *mean);
    double *squares = td__calloc((size_t)count, sizeof *squares);
    td_status status = mean && squares
                           ? td__each_training_input(dataset, add_moments,
                                                     &(moments){dataset, mean, squares}, error)
                           : td_error_set(error, TD_MEMORY, "no memory to standardise %lld inputs",
                                          (long long)count);
    if (!status) {
        pool_steps(dataset, mean, squares);
    }
    for (int64_t i = 0; !status && i < count; i++) {
        float deviation = (float)sqrt(squares[i] / (double)part->count);
        dataset->mean[i] = (float)mean[i];
        dataset->deviation[i] = deviation > 0 ? deviation : 1;
        if (!isfinite(dataset->mean[i]) || !isfinite(deviation)) {
            status = td_error_set(error, TD_RANGE,
                                  "input %lld cannot be standardised: its values are not finite or "
                                  "too large",
                                  (long long)i);
        }
    }
    td__free(mean);
    td__free(squares);
    return status;
}

static td_status measure_by_group(td_dataset *dataset, const td_data_options *options,
                                  td_error *error) {
    size_t size = (size_t)dataset->tables[0].input.count * sizeof(float);
    td_status status = td__measures_here(options) ? measure_columns(dataset, error) : TD_OK;
    status = td__share_measured(options, status, dataset->mean, size, error);
    return status ? status : td__share_measured(options, status, dataset->deviation, size, error);
}

static td_status take_given(td_dataset *dataset, const td_data_options *options, int64_t count,
                            td_error *error) {
    if (!options->deviation || options->normal_count != count) {
        return td_error_set(error, TD_BAD_SHAPE,
                            "%lld means and deviations were given for %lld inputs",
                            (long long)options->normal_count, (long long)count);
    }
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(options->mean[i]) || !(options->deviation[i] > 0)) {
            return td_error_set(error, TD_RANGE, "the given mean or deviation of input %lld is %s",
                                (long long)i, "no finite mean or no positive deviation");
        }
    }
    memcpy(dataset->mean, options->mean, (size_t)count * sizeof(float));
    memcpy(dataset->deviation, options->deviation, (size_t)count * sizeof(float));
    return TD_OK;
}

td_status td__normalize_prepare(td_dataset *dataset, const td_data_options *options,
                                td_error *error) {
    int64_t count = dataset->tables[0].input.count;
    dataset->scale = options->scale == 0 ? 1 : (float)options->scale;
    if (options->standardize || options->mean) {
        dataset->mean = td__calloc((size_t)count, sizeof(float));
        dataset->deviation = td__calloc((size_t)count, sizeof(float));
        if (!dataset->mean || !dataset->deviation) {
            return td_error_set(error, TD_MEMORY, "no memory to standardise %lld inputs",
                                (long long)count);
        }
        td_status status = options->mean ? take_given(dataset, options, count, error)
                                         : measure_by_group(dataset, options, error);
        if (status) {
            return status;
        }
        leave_ids(dataset, options);
        dataset->info.mean = dataset->mean;
        dataset->info.deviation = dataset->deviation;
        dataset->info.normal_count = count;
    }
    for (int t = 0; t < dataset->table_count; t++) {
        td__table *table = &dataset->tables[t];
        for (int64_t row = 0; table->floats && row < table->rows; row++) {
            change(dataset, table->floats + row * count, count);
        }
        dataset->changed[t] = table->floats != NULL;
    }
    return TD_OK;
}
