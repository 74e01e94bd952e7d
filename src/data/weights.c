/* How much each example counts: a column of weights, and weights of classes for the training part. */
#include "base/memory.h"
#include "data/dataset.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CLASS_MAXIMUM = 1 << 24 };

/* The class of a row whose label is one class number, also where labels are handed out as values. */
static double class_number(const td_dataset *dataset, int table, int64_t row) {
    return dataset->are_classes ? (double)td__label_class(dataset, table, row, 0)
                                : td__array_value(&dataset->tables[table].label, row, 0);
}

static td_status check_column(const td_dataset *dataset, td_error *error) {
    for (int p = 0; p < 2; p++) {
        const td__part *part = &dataset->parts[p];
        const td__array *weight = &dataset->tables[part->table].weight;
        for (int64_t n = 0; weight->data && n < part->count; n++) {
            int64_t row = td__part_row(part, n);
            double value = td__array_value(weight, row, 0);
            if (!(value >= 0 && isfinite(value))) {
                char where[TD__PLACE_SIZE];
                return td_error_set(
                    error, TD_RANGE, "%s: the weight is %g; expected is a number of at least 0",
                    td__place(dataset, part->table, row, where, sizeof where), value);
            }
        }
    }
    return TD_OK;
}

/* How many examples of the training part each class has; *classes receives how many classes. */
static td_status count_classes(const td_dataset *dataset, int64_t **counts, int64_t *classes,
                               td_error *error) {
    const td__part *part = &dataset->parts[TD_TRAINING];
    size_t capacity = 0;
    *classes = 0;
    for (int64_t n = 0; n < part->count; n++) {
        int64_t row = td__part_row(part, n);
        double number = class_number(dataset, part->table, row);
        if (!(number >= 0 && number < CLASS_MAXIMUM && number == floor(number))) {
            char where[TD__PLACE_SIZE];
            return td_error_set(error, TD_INVALID,
                                "%s: the label is %g; `class_weight` needs class numbers",
                                td__place(dataset, part->table, row, where, sizeof where), number);
        }
        int64_t class = (int64_t)number;
        if (!td__grow(counts, &capacity, (size_t) class + 1, CLASS_MAXIMUM, sizeof **counts)) {
            return td_error_set(error, TD_MEMORY, "no memory for %lld classes",
                                (long long)class + 1);
        }
        for (; *classes <= class; ++*classes) {
            (*counts)[*classes] = 0;
        }
        (*counts)[class]++;
    }
    return TD_OK;
}

/* A class by its name, or by its number where classes have no names; -1: there is none. */
static int64_t find_class(const td_dataset *dataset, const char *name, int64_t classes) {
    for (int64_t i = 0; dataset->class_names && i < dataset->info.classes; i++) {
        if (!strcmp(dataset->class_names[i], name)) {
            return i;
        }
    }
    char *end;
    long long number = strtoll(name, &end, 10);
    bool plain = !dataset->class_names && *name && !*end && number >= 0 && number < classes;
    return plain ? (int64_t)number : -1;
}

/* As given, 1 for other classes; or balanced: examples / (classes * examples of the class). */
static td_status fill_weights(td_dataset *dataset, const td_data_options *options,
                              const int64_t *counts, td_error *error) {
    int64_t classes = dataset->class_weight_count, present = 0;
    for (int64_t i = 0; i < classes; i++) {
        present += counts[i] > 0;
    }
    double examples = (double)dataset->parts[TD_TRAINING].count;
    for (int64_t i = 0; i < classes; i++) {
        bool balanced = options->balanced && counts[i] > 0;
        dataset->class_weight[i] =
            balanced ? (float)(examples / ((double)present * (double)counts[i])) : 1;
    }
    for (size_t i = 0; i < options->weighted_classes.count; i++) {
        const char *name = options->weighted_classes.items[i];
        int64_t class = find_class(dataset, name, classes);
        if (class < 0 || !(options->class_weights[i] >= 0) ||
            !isfinite(options->class_weights[i])) {
            return td_error_set(error, class < 0 ? TD_NOT_FOUND : TD_RANGE,
                                class < 0 ? "`class_weight`: no class '%s' in the training part"
                                          : "`class_weight`: the weight of '%s' must be a number "
                                            "of at least 0",
                                name);
        }
        dataset->class_weight[class] = (float)options->class_weights[i];
    }
    bool any = false;
    for (int64_t i = 0; i < classes; i++) {
        any = any || (counts[i] > 0 && dataset->class_weight[i] > 0);
    }
    return any ? TD_OK
               : td_error_set(error, TD_INVALID,
                              "`class_weight`: all classes of the training part have the weight 0, "
                              "so nothing is learned; give one a weight above 0");
}

td_status td__weights_prepare(td_dataset *dataset, const td_data_options *options,
                              td_error *error) {
    td_status status = check_column(dataset, error);
    if (status || (!options->balanced && options->weighted_classes.count == 0)) {
        return status;
    }
    if (dataset->info.label_kind == TD_LABEL_NONE || dataset->tables[0].label.count != 1) {
        return td_error_set(error, TD_INVALID, "`class_weight` needs one class for each example");
    }
    int64_t *counts = NULL;
    status = count_classes(dataset, &counts, &dataset->class_weight_count, error);
    if (!status) {
        dataset->class_weight =
            td__calloc((size_t)dataset->class_weight_count, sizeof *dataset->class_weight);
        status = dataset->class_weight
                     ? fill_weights(dataset, options, counts, error)
                     : td_error_set(error, TD_MEMORY, "no memory for the weights of classes");
    }
    td__free(counts);
    return status;
}

bool td__is_weighted(const td_dataset *dataset, td_part part) {
    return dataset->tables[dataset->parts[part].table].weight.data ||
           (part == TD_TRAINING && dataset->class_weight);
}

float td__weight(const td_dataset *dataset, td_part part, int64_t row) {
    int table = dataset->parts[part].table;
    const td__array *column = &dataset->tables[table].weight;
    double weight = column->data ? td__array_value(column, row, 0) : 1;
    if (part == TD_TRAINING && dataset->class_weight) {
        double class = class_number(dataset, table, row);
        bool known = class >= 0 && class < (double)dataset->class_weight_count;
        weight *= known ? (double)dataset->class_weight[(int64_t) class] : 1;
    }
    return (float)weight;
}
