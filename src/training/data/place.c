/* Where an example stands in its file, and labels that are not what a loss can use. */
#include "base/memory.h"
#include "data/csv.h"
#include "data/dataset.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *place_in(const td__table *t, const char *path, int64_t row, char *text,
                            size_t size) {
    if (t->files && !t->is_csv) {
        snprintf(text, size, "%s/%s", path, t->files[row]);
        return text;
    }
    row = t->row_step ? t->first_row + row * t->row_step : row;
    int64_t line = path && t->is_csv ? td__csv_line(path, t->has_header, t->separator, row) : 0;
    if (line > 0) {
        snprintf(text, size, "%s line %lld (row %lld)", path, (long long)line, (long long)row + 1);
    } else {
        snprintf(text, size, "%s%srow %lld", path ? path : "", path ? " " : "", (long long)row + 1);
    }
    return text;
}

const char *td__place(const td_dataset *dataset, int table, int64_t row, char *text, size_t size) {
    return place_in(&dataset->tables[table], dataset->paths[table], row, text, size);
}

const char *td_dataset_file(const td_dataset *dataset, td_part part, int64_t row) {
    const td__table *table = &dataset->tables[dataset->parts[part].table];
    return table->files && row >= 0 && row < table->rows ? table->files[row] : NULL;
}

void td_dataset_place(const td_dataset *dataset, td_part part, int64_t row, char *text,
                      size_t size) {
    int table = dataset->parts[part].table;
    place_in(&dataset->tables[table], dataset->input_paths[table], row, text, size);
}

static td_status bad_label(const td_dataset *dataset, int table, int64_t row, double value,
                           td__label_range asked, bool whole, td_error *error) {
    char where[TD__PLACE_SIZE], range[80];
    const char *name = dataset->class_names ? dataset->class_names[(int64_t)value] : NULL;
    const char *noun = whole ? "a whole number" : "a number";
    td__place(dataset, table, row, where, sizeof where);
    if (isfinite(asked.minimum) && isfinite(asked.maximum)) {
        snprintf(range, sizeof range, "%s from %.9g to %.9g", noun, asked.minimum, asked.maximum);
    } else if (isfinite(asked.minimum)) {
        snprintf(range, sizeof range, "%s of at least %.9g", noun, asked.minimum);
    } else {
        snprintf(range, sizeof range, "a finite number");
    }
    return td_error_set(error, TD_RANGE, "%s: the label is %.9g%s%.100s%s; expected is %s", where,
                        value, name ? " ('" : "", name ? name : "", name ? "')" : "", range);
}

td_status td__labels_check(const td_dataset *dataset, int64_t first, int64_t count,
                           td__label_range range, bool whole, td_error *error) {
    for (int p = 0; p < 2; p++) {
        const td__part *part = &dataset->parts[p];
        const td__array *label = &dataset->tables[part->table].label;
        for (int64_t n = 0; n < part->count; n++) {
            int64_t row = td__part_row(part, n);
            for (int64_t i = first; i < first + count; i++) {
                double value = dataset->are_classes
                                   ? (double)td__label_class(dataset, part->table, row, i)
                                   : td__array_value(label, row, i);
                if (!(value >= range.minimum && value <= range.maximum && isfinite(value)) ||
                    (whole && value != floor(value))) {
                    return bad_label(dataset, part->table, row, value, range, whole, error);
                }
            }
        }
    }
    return TD_OK;
}

td_status td_dataset_check_labels(const td_dataset *dataset, double minimum, double maximum,
                                  td_error *error) {
    if (dataset->info.label_kind == TD_LABEL_NONE) {
        return TD_OK;
    }
    return td__labels_check(dataset, 0, dataset->tables[0].label.count,
                            (td__label_range){minimum, maximum}, false, error);
}
