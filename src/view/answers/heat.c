#include "answers/heat.h"

#include "base/memory.h"

#include <math.h>

bool td__heat_create(td__heat_row *row) {
    size_t width = row->columns + 1;
    row->values = td__calloc(4 * width, sizeof *row->values);
    if (!row->values) {
        return false;
    }
    row->bad = row->values + width;
    row->from = row->bad + width;
    row->to = row->from + width;
    return true;
}

void td__heat_clear(const td__heat_row *row) {
    for (size_t c = 0; c <= row->columns; c++) {
        row->values[c] = row->from[c] = row->to[c] = NAN;
        row->bad[c] = -1;
    }
}

static size_t column_of(const td__heat_row *row, int64_t step) {
    double share =
        ((double)step - (double)row->first) / ((double)row->last - (double)row->first + 1);
    double column = floor(share * (double)row->columns);
    return 1 + (column < 0                       ? 0
                : column >= (double)row->columns ? row->columns - 1
                                                 : (size_t)column);
}

void td__heat_add(const td__heat_row *row, const td__bucket *bucket) {
    if (bucket->first > row->last) {
        return;
    }
    bool before = bucket->last < row->first;
    size_t from =
        before ? 0 : column_of(row, bucket->first > row->first ? bucket->first : row->first);
    size_t to = before ? 0 : column_of(row, bucket->last < row->last ? bucket->last : row->last);
    double value = fabs(bucket->min) > fabs(bucket->max) ? bucket->min : bucket->max;
    value = bucket->valued ? value : bucket->last_nonfinite;
    for (size_t c = from; c <= to; c++) {
        bool first = row->bad[c] < 0;
        if (first || isnan(row->values[c]) || fabs(value) > fabs(row->values[c])) {
            row->values[c] = value;
        }
        row->bad[c] = fmax(row->bad[c], 0) + bucket->nonfinite;
        row->from[c] = first ? (double)bucket->first : row->from[c];
        row->to[c] = (double)bucket->last;
    }
}

void td__heat_put(const td__heat_row *row, td__output *out) {
    for (size_t c = 0; c < 4 * (row->columns + 1); c++) {
        td__put_double(out, row->values[c]);
    }
}
