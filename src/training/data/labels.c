/* What a data set's labels are: class numbers, values, or one-hot rows. */
#include "base/memory.h"
#include "base/text.h"
#include "data/dataset.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CLASS_MAXIMUM = 1 << 24, AUTO_CLASS_MAXIMUM = 65536 };

static bool is_class(double value, double maximum) {
    return value >= 0 && value < maximum && value == floor(value);
}

/* AUTO: text, or one whole number an example, is a class. */
static td_label_kind guess(const td__table *table, bool dropped) {
    const td__array *label = &table->label;
    if (table->classes.count > 0) {
        return TD_LABEL_CLASS;
    }
    if (label->count != 1 || (td__element_is_float(label->element) && !table->label_untyped)) {
        return TD_LABEL_VALUES;
    }
    for (int64_t row = 0; row < table->rows; row++) {
        double value = td__array_value(label, row, 0);
        if (!is_class(value, AUTO_CLASS_MAXIMUM) && !(dropped && isnan(value))) {
            return TD_LABEL_VALUES;
        }
    }
    return TD_LABEL_CLASS;
}

/* The class names of the data set: those given, else the training table's, sorted. */
static td_status take_names(td_dataset *dataset, const td_data_options *options, td_error *error) {
    const td__names *found = &dataset->tables[0].classes;
    bool given = options->classes.count > 0;
    size_t count = given ? options->classes.count : found->count;
    dataset->class_names = td__calloc(count, sizeof *dataset->class_names);
    bool room = dataset->class_names != NULL;
    for (size_t i = 0; room && i < count; i++) {
        dataset->class_names[i] = td__strdup(given ? options->classes.items[i] : found->items[i]);
        room = dataset->class_names[i] != NULL;
        dataset->info.classes = room ? (int64_t)i + 1 : (int64_t)i;
    }
    if (!room) {
        return td_error_set(error, TD_MEMORY, "no memory for %zu classes", count);
    }
    if (!given) {
        qsort(dataset->class_names, count, sizeof *dataset->class_names, td__compare_texts);
    }
    dataset->info.class_names = (const char *const *)dataset->class_names;
    return TD_OK;
}

/* numbers[i]: the data set's class of the table's text i. */
static td_status match_names(const td_dataset *dataset, const td__table *table, int32_t *numbers,
                             td_error *error) {
    td__names known = {0};
    td_status status = TD_OK;
    for (int64_t i = 0; !status && i < dataset->info.classes; i++) {
        int64_t number = td__names_add(&known, dataset->class_names[i]);
        if (number < 0) {
            status = td_error_set(error, TD_MEMORY, "no memory for %lld classes",
                                  (long long)dataset->info.classes);
        } else if (number < i) {
            status = td_error_set(error, TD_INVALID, "class '%s' is given twice",
                                  dataset->class_names[i]);
        }
    }
    for (size_t i = 0; !status && i < table->classes.count; i++) {
        numbers[i] = (int32_t)td__names_find(&known, table->classes.items[i]);
        if (numbers[i] < 0) {
            status = td_error_set(error, TD_FORMAT,
                                  "class '%s' is not one of the %lld classes known from training "
                                  "('%s', …)",
                                  table->classes.items[i], (long long)dataset->info.classes,
                                  dataset->class_names[0]);
        }
    }
    td__names_release(&known);
    return status;
}

/* Looks at all of a table's labels; raises info.classes for labels without names. */
static td_status check_classes(td_dataset *dataset, int t, td_error *error) {
    const td__table *table = &dataset->tables[t];
    const td__array *label = &table->label;
    int64_t texts = (int64_t)table->classes.count;
    for (int64_t row = 0; row < table->rows; row++) {
        for (int64_t i = 0; i < label->count; i++) {
            double value = td__array_value(label, row, i);
            if (isnan(value) && dataset->missing == TD_MISSING_DROP) {
                continue; /* of a row that is in no part */
            }
            if (!is_class(value, texts ? (double)texts : CLASS_MAXIMUM)) {
                char where[TD__PLACE_SIZE];
                return td_error_set(error, TD_FORMAT,
                                    "%s: the label is %g, which is no class number (0, 1, 2, …); a "
                                    "regression has a loss such as mse",
                                    td__place(dataset, t, row, where, sizeof where), value);
            }
            if (!texts && value >= (double)dataset->info.classes) {
                dataset->info.classes = (int64_t)value + 1;
            }
        }
    }
    return TD_OK;
}

static td_status prepare_classes(td_dataset *dataset, const td_data_options *options,
                                 td_error *error) {
    bool named = dataset->tables[0].classes.count > 0;
    td_status status = named ? take_names(dataset, options, error) : TD_OK;
    for (int t = 0; !status && t < dataset->table_count; t++) {
        const td__table *table = &dataset->tables[t];
        int32_t *numbers = td__calloc(table->classes.count, sizeof *numbers);
        if (!numbers) {
            status = td_error_set(error, TD_MEMORY, "no memory for class names");
        } else if ((table->classes.count > 0) != named) {
            status = td_error_set(error, TD_FORMAT,
                                  "labels are text in one of the training and validation files, "
                                  "numbers in the other");
        } else if (named) {
            status = match_names(dataset, table, numbers, error);
        }
        if (!status) {
            status = check_classes(dataset, t, error);
        }
        dataset->class_of[t] = named ? numbers : NULL;
        if (!named) {
            td__free(numbers);
        }
    }
    dataset->are_classes = true;
    return status;
}

static td_status check_labels(const td_dataset *dataset, td_error *error) {
    const td__table *a = &dataset->tables[0], *b = &dataset->tables[1];
    if (dataset->table_count < 2) {
        return TD_OK;
    }
    if (!b->label.data || a->label.count != b->label.count) {
        return td_error_set(error, TD_BAD_SHAPE,
                            "the training examples have %lld labels each, the validation examples "
                            "%lld",
                            (long long)a->label.count, (long long)b->label.count);
    }
    return TD_OK;
}

/* The shape of a label of this kind. */
static td_status shape_of(const td_dataset *dataset, td_label_kind kind, td_shape *shape,
                          td_error *error) {
    const td__array *label = &dataset->tables[0].label;
    *shape = label->count == 1 && kind != TD_LABEL_VALUES ? (td_shape){0} : label->shape;
    if (kind == TD_LABEL_ONE_HOT) {
        if (shape->rank + 2 > TD_MAX_RANK) {
            return td_error_set(error, TD_BAD_SHAPE,
                                "labels of %d dimensions cannot be made one-hot", shape->rank);
        }
        shape->dims[shape->rank++] = dataset->info.classes;
    }
    return TD_OK;
}

bool td__labels_are_whole(const td_dataset *dataset) {
    const td__table *table = &dataset->tables[0];
    return dataset->info.label_kind == TD_LABEL_VALUES && table->label.data &&
           (!td__element_is_float(table->label.element) || table->label_untyped);
}

/* Values that a loss of classes is to be taken of. */
static td_status become_classes(td_dataset *dataset, td_error *error) {
    td_status status = prepare_classes(dataset, &(td_data_options){0}, error);
    if (!status) {
        dataset->info.label_kind = TD_LABEL_CLASS;
        status = shape_of(dataset, TD_LABEL_CLASS, &dataset->info.label, error);
    }
    return status;
}

td_status td__labels_as(td_dataset *dataset, td_label_kind kind, td_error *error) {
    td_shape shape;
    if (kind == TD_LABEL_CLASS && td__labels_are_whole(dataset)) {
        return become_classes(dataset, error);
    }
    if (dataset->info.label_kind != TD_LABEL_CLASS || kind == TD_LABEL_CLASS) {
        return TD_OK;
    }
    td_status status = shape_of(dataset, kind, &shape, error);
    if (!status) {
        dataset->info.label_kind = kind;
        dataset->info.label = shape;
        if (kind == TD_LABEL_VALUES && !dataset->info.class_names) {
            dataset->info.classes = 0; /* just numbers */
            dataset->are_classes = false;
        }
    }
    return status;
}

td_status td__labels_prepare(td_dataset *dataset, const td_data_options *options, td_error *error) {
    const td__table *table = &dataset->tables[0];
    td_data_info *info = &dataset->info;
    info->label_kind = options->label_kind;
    if (!table->label.data || options->label_kind == TD_LABEL_NONE) {
        info->label_kind = TD_LABEL_NONE;
        return TD_OK;
    }
    td_status status = check_labels(dataset, error);
    if (status) {
        return status;
    }
    if (table->label_pieces.count) {
        info->label_kind = TD_LABEL_VALUES; /* what each is, its loss says */
    } else if (info->label_kind == TD_LABEL_AUTO) {
        info->label_kind = guess(table, dataset->missing == TD_MISSING_DROP);
    }
    info->label = table->label.shape;
    if (info->label_kind == TD_LABEL_VALUES && table->classes.count == 0) {
        return TD_OK;
    }
    status = prepare_classes(dataset, options, error);
    return status ? status : shape_of(dataset, info->label_kind, &info->label, error);
}

int64_t td__label_count(const td_dataset *dataset) {
    int64_t count = dataset->tables[0].label.count;
    return dataset->info.label_kind == TD_LABEL_ONE_HOT ? count * dataset->info.classes : count;
}

td_dtype td__label_dtype(const td_dataset *dataset) {
    return dataset->info.label_kind == TD_LABEL_CLASS ? TD_INT32 : TD_FLOAT32;
}

/* Labels may be mapped: one that is no class any more must do no harm. */
int32_t td__label_class(const td_dataset *dataset, int table, int64_t row, int64_t i) {
    const td__table *t = &dataset->tables[table];
    const int32_t *class_of = dataset->class_of[table];
    double value = td__array_value(&t->label, row, i);
    int64_t max = class_of ? (int64_t)t->classes.count : dataset->info.classes;
    int32_t number = value >= 0 && value < (double)max ? (int32_t)value : 0;
    return class_of ? class_of[number] : number;
}

void td__label_read(const td_dataset *dataset, int table, int64_t row, void *label) {
    const td__array *array = &dataset->tables[table].label;
    if (!dataset->are_classes) {
        td__array_read(array, row, label);
        td__label_scale(dataset, label, array->count);
        return;
    }
    td_label_kind kind = dataset->info.label_kind;
    float *values = label;
    if (kind == TD_LABEL_ONE_HOT) {
        memset(values, 0, (size_t)(array->count * dataset->info.classes) * sizeof *values);
    }
    for (int64_t i = 0; i < array->count; i++) {
        int32_t class = td__label_class(dataset, table, row, i);
        if (kind == TD_LABEL_CLASS) {
            ((int32_t *)label)[i] = class;
        } else if (kind == TD_LABEL_VALUES) {
            values[i] = (float)class;
        } else {
            values[i * dataset->info.classes + class] = 1;
        }
    }
}
