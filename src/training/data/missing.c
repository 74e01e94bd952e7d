/* Missing values, which are NaN in a table: their examples left out, or something put in their
 * place. */
#include "base/memory.h"
#include "data/dataset.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool has_missing(const td__table *table, int64_t row, float *inputs) {
    td__array_read(&table->input, row, inputs);
    for (int64_t i = 0; i < table->input.count; i++) {
        if (isnan(inputs[i])) {
            return true;
        }
    }
    for (int64_t i = 0; table->label.data && i < table->label.count; i++) {
        if (isnan(td__array_value(&table->label, row, i))) {
            return true;
        }
    }
    return false;
}

static td_status say_dropped(td_dataset *dataset, int t, int64_t dropped, td_error *error) {
    char text[600];
    const char *path = dataset->paths[t];
    int64_t rows = dataset->tables[t].rows;
    if (dropped == rows) {
        return td_error_set(error, TD_FORMAT, "%s: a value is missing in each of its %lld rows",
                            path ? path : "the data", (long long)rows);
    }
    snprintf(text, sizeof text, "%s: %lld of %lld rows are left out: values are missing",
             path ? path : "the data", (long long)dropped, (long long)rows);
    return td__names_add(&dataset->tables[t].remarks, text) < 0
               ? td_error_set(error, TD_MEMORY, "no memory for a remark")
               : TD_OK;
}

/* Rows without missing values, in order; returns how many through *count. */
static td_status find_kept(const td__table *table, uint32_t *kept, int64_t *count,
                           td_error *error) {
    float *inputs = td__calloc((size_t)table->input.count, sizeof *inputs);
    size_t released = 0;
    td_status status =
        inputs ? TD_OK : td_error_set(error, TD_MEMORY, "no memory for a row of inputs");
    for (int64_t row = 0; !status && row < table->rows; row++) {
        status = td__table_need(table, row, error);
        td__table_release_rows(table, row, &released);
        if (!status && !has_missing(table, row, inputs)) {
            kept[(*count)++] = (uint32_t)row;
        }
    }
    td__free(inputs);
    return status;
}

static td_status drop_rows(td_dataset *dataset, int t, const td_data_options *options,
                           td_error *error) {
    const td__table *table = &dataset->tables[t];
    bool countable = table->rows <= UINT32_MAX;
    uint32_t *kept = countable ? td__calloc((size_t)table->rows, sizeof *kept) : NULL;
    if (!kept) {
        return td_error_set(error, TD_MEMORY, "no memory to list %lld rows",
                            (long long)table->rows);
    }
    int64_t count = 0;
    td_status status = td__measures_here(options) ? find_kept(table, kept, &count, error) : TD_OK;
    status = td__share_measured(options, status, &count, sizeof count, error);
    if (!status) {
        status = td__share_measured(options, TD_OK, kept, (size_t)count * sizeof *kept, error);
    }
    if (status || count == table->rows) {
        td__free(kept);
        return status;
    }
    dataset->kept[t] = kept;
    dataset->kept_count[t] = count;
    return say_dropped(dataset, t, table->rows - count, error);
}

td_status td__missing_drop(td_dataset *dataset, const td_data_options *options, td_error *error) {
    td_status status = TD_OK;
    dataset->missing = options->missing;
    for (int t = 0; !status && options->missing == TD_MISSING_DROP && t < dataset->table_count;
         t++) {
        status = drop_rows(dataset, t, options, error);
    }
    return status;
}

typedef struct totals {
    int64_t count;
    double *sums;
    int64_t *found; /* values that are there */
} totals;

static void add_found(void *user, int64_t n, float *row) {
    (void)n;
    const totals *t = user;
    for (int64_t i = 0; i < t->count; i++) {
        t->sums[i] += isnan(row[i]) ? 0 : (double)row[i];
        t->found[i] += !isnan(row[i]);
    }
}

/* The mean of the values that are there; sums in double. */
static td_status measure_missing(td_dataset *dataset, td_error *error) {
    int64_t count = dataset->tables[0].input.count;
    double *sums = td__calloc((size_t)count, sizeof *sums);
    int64_t *found = td__calloc((size_t)count, sizeof *found);
    td_status status =
        sums && found
            ? td__each_training_input(dataset, add_found, &(totals){count, sums, found}, error)
            : td_error_set(error, TD_MEMORY, "no memory for the means of %lld inputs",
                           (long long)count);
    for (int64_t i = 0; !status && i < count; i++) {
        dataset->fill[i] = (float)(sums[i] / (double)found[i]);
        if (!isfinite(dataset->fill[i])) {
            const td__names *names = &dataset->tables[0].input_names;
            bool named = names->count > (size_t)i;
            status = td_error_set(
                error, TD_FORMAT, "input %lld%s%s%s has no mean to fill missing values with",
                (long long)i, named ? " ('" : "", named ? names->items[i] : "", named ? "')" : "");
        }
    }
    td__free(sums);
    td__free(found);
    return status;
}

td_status td__missing_fill(td_dataset *dataset, const td_data_options *options, td_error *error) {
    int64_t count = dataset->tables[0].input.count;
    if (options->missing != TD_MISSING_MEAN && options->missing != TD_MISSING_VALUE) {
        return TD_OK;
    }
    dataset->fill = td__calloc((size_t)count, sizeof *dataset->fill);
    if (!dataset->fill) {
        return td_error_set(error, TD_MEMORY, "no memory to fill %lld inputs", (long long)count);
    }
    dataset->info.fill = dataset->fill;
    dataset->info.fill_count = count;
    if (!options->fill && options->missing == TD_MISSING_MEAN) {
        td_status status = td__measures_here(options) ? measure_missing(dataset, error) : TD_OK;
        return td__share_measured(options, status, dataset->fill, (size_t)count * sizeof(float),
                                  error);
    }
    if (options->fill && options->fill_count != count) {
        return td_error_set(error, TD_BAD_SHAPE,
                            "%lld values to fill with were given for %lld inputs",
                            (long long)options->fill_count, (long long)count);
    }
    for (int64_t i = 0; i < count; i++) {
        dataset->fill[i] = options->fill ? options->fill[i] : (float)options->missing_value;
        if (!isfinite(dataset->fill[i])) {
            return td_error_set(error, TD_RANGE, "missing values cannot be filled with %g",
                                (double)dataset->fill[i]);
        }
    }
    return TD_OK;
}
