/* A row of a heat map over time. */
#ifndef TAPEDECK_VIEW_HEAT_H
#define TAPEDECK_VIEW_HEAT_H

#include "answers/output.h"
#include "answers/pyramid.h"

enum { TD__MAX_HEAT_COLUMNS = 4096 };

/* Columns 1 … columns are the window, column 0 is the last record before it. */
typedef struct td__heat_row {
    int64_t first, last; /* steps of the window */
    size_t columns;
    /* columns + 1 each: the value; how many records were not finite, -1 where nothing was recorded; the
     * first and the last step that it is of */
    double *values, *bad, *from, *to;
} td__heat_row;

/* Of a row whose window is set; values is to be freed. False when memory is exhausted. */
bool td__heat_create(td__heat_row *row);
void td__heat_clear(const td__heat_row *row);
/* The value of greatest magnitude stays: a spike is seen at any zoom. */
void td__heat_add(const td__heat_row *row, const td__bucket *bucket);
/* The four arrays. */
void td__heat_put(const td__heat_row *row, td__output *out);

#endif
