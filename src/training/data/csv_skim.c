/* Where the rows of a CSV file are, and their labels: lines are found, separators counted, and only
 * cells that are wanted are parsed. A line with a quote, or a carriage return that does not end it,
 * is left to the parser. */
#include "base/memory.h"
#include "data/csv.h"

#include <string.h>

enum { CHUNK = 64 }; /* bytes in which separators are counted at once */

static inline int64_t count_in(const char *p, size_t size, char c) {
    uint8_t count = 0;
    for (size_t i = 0; i < size; i++) {
        count = (uint8_t)(count + (p[i] == c));
    }
    return count;
}

/* Behind `cells` separators from p on, or end when there are fewer; found receives how many. */
static char *skip_cells(char *p, const char *end, char separator, int64_t cells, int64_t *found) {
    int64_t left = cells;
    while (end - p >= CHUNK) {
        int64_t count = count_in(p, CHUNK, separator);
        if (count >= left) {
            break;
        }
        left -= count;
        p += CHUNK;
    }
    for (; left > 0 && p < end; p++) {
        left -= *p == separator;
    }
    *found = cells - left;
    return p;
}

static bool is_wanted(const td__csv_column *column) {
    return column->use == TD__CSV_NUMBER || column->use == TD__CSV_CLASS ||
           column->use == TD__CSV_CLASS_NUMBER || column->use == TD__CSV_GROUP;
}

/* The cells that are wanted, of a line without quotes; false when it is not as it should be. */
static bool read_line(td__csv *csv, char *end, const int64_t *wanted, size_t count) {
    char *p = csv->next;
    int64_t column = 0, found;
    for (size_t i = 0; i < count; i++) {
        p = skip_cells(p, end, csv->separator, wanted[i] - column, &found);
        if (found != wanted[i] - column || td__csv_parse_cell(csv, &p, wanted[i])) {
            return false;
        }
        column = wanted[i];
    }
    (void)skip_cells(p, end, csv->separator, csv->column_count, &found);
    return column + found == csv->column_count - 1;
}

/* The next row's labels into values: RECORD, INCOMPLETE, END or FAILED. */
static td__csv_outcome skim_record(td__csv *csv, const int64_t *wanted, size_t count) {
    td__csv_outcome outcome = td__csv_skip_empty(csv, &csv->next, &csv->line);
    if (outcome != TD__CSV_RECORD) {
        return outcome;
    }
    char *from = csv->next, *end = memchr(from, '\n', (size_t)(csv->end - from));
    if (!end && !csv->finished) {
        return TD__CSV_INCOMPLETE;
    }
    end = end ? end : csv->end;
    size_t length = (size_t)(end - from);
    const char *turn = memchr(from, '\r', length);
    if (memchr(from, '"', length) || (turn && turn + 1 != end)) {
        return td__csv_parse_record(csv);
    }
    csv->value_missing = false;
    if (!read_line(csv, end, wanted, count)) {
        return TD__CSV_FAILED;
    }
    csv->next = td__csv_behind_line(csv, end);
    return TD__CSV_RECORD;
}

static bool add_offset(td__csv_index *index, int64_t offset) {
    int64_t text = index->count ? offset - index->offsets[index->count - 1] : 0;
    if (text > TD__CSV_RECORD_MAXIMUM ||
        !td__grow(&index->offsets, &index->capacity, index->count + 1, SIZE_MAX / 16,
                  sizeof *index->offsets)) {
        return false;
    }
    index->offsets[index->count++] = offset;
    return true;
}

/* Which columns are wanted, in order; others are not looked at. NULL when memory is exhausted. */
static int64_t *choose(td__csv *csv, size_t *count) {
    int64_t *wanted = td__calloc((size_t)csv->column_count, sizeof *wanted);
    *count = 0;
    for (int64_t i = 0; wanted && i < csv->column_count; i++) {
        td__csv_column *column = &csv->columns[i];
        if (is_wanted(column) && column->slot >= csv->input_count) {
            wanted[(*count)++] = i;
        } else {
            column->use = TD__CSV_IGNORED;
            column->slot = 0;
        }
    }
    return wanted;
}

static bool take_row(td__csv *csv, td__csv_index *index, td__row_store *store) {
    bool missing = csv->value_missing && csv->options->missing != TD_MISSING_DROP;
    csv->rows++;
    return !missing &&
           !td__row_store_add(store, NULL, 0, csv->values + csv->input_count, td__csv_behind(csv),
                              csv->error) &&
           (csv->rows % index->rows_in_block || add_offset(index, td__csv_position(csv)));
}

bool td__csv_skim(td__csv *csv, td__csv_index *index, td__row_store *store) {
    size_t count;
    int64_t *wanted = choose(csv, &count);
    bool good = wanted && add_offset(index, td__csv_position(csv));
    td__csv_outcome outcome = TD__CSV_RECORD;
    while (good && outcome != TD__CSV_END) {
        outcome = skim_record(csv, wanted, count);
        good = outcome == TD__CSV_RECORD       ? take_row(csv, index, store)
               : outcome == TD__CSV_INCOMPLETE ? td__csv_fill(csv) == TD__CSV_RECORD
                                               : outcome == TD__CSV_END;
    }
    td__free(wanted);
    return good && csv->rows > 0 &&
           (csv->rows % index->rows_in_block == 0 || add_offset(index, csv->read));
}
