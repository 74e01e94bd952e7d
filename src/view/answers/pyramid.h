/* A signal's numbers over time at every zoom: buckets of 16, 256, 4 096, … values, each with the
 * least, the greatest, the sum, and how many were not finite. Nothing is lost in any of them: a
 * spike of one step is the greatest value of every bucket it is in. Extended as a run grows. */
#ifndef TAPEDECK_VIEW_PYRAMID_H
#define TAPEDECK_VIEW_PYRAMID_H

#include "tapedeck/run.h"

enum { TD__PYRAMID_LEVELS = 6, TD__PYRAMID_FACTOR = 16 };

typedef struct td__bucket {
    int64_t first, last; /* steps */
    double min, max;     /* of the finite values; NaN when there are none */
    double sum;
    uint32_t rows, valued; /* values, and the finite ones of them */
    uint32_t nonfinite;    /* rows in which something was NaN or infinite */
    double last_nonfinite; /* the last value that was NaN or infinite; 0: none */
} td__bucket;

typedef struct td__pyramid_level {
    td__bucket *buckets;
    size_t count, capacity;
} td__pyramid_level;

/* All zero at first. */
typedef struct td__pyramid {
    td__pyramid_level levels[TD__PYRAMID_LEVELS]; /* the finest first */
    td_extremes extremes;
    uint64_t count; /* of values */
} td__pyramid;

/* Values come by step. False when memory is exhausted; the pyramid is then of no use. */
bool td__pyramid_add(td__pyramid *pyramid, const td_run_value *value);
/* The number of values from first to last. It may count up to one bucket too many at each end. */
uint64_t td__pyramid_rows(const td__pyramid *pyramid, int64_t first, int64_t last);
/* The step from which at most TD__PYRAMID_FACTOR values lead up to `step`, itself excluded. False when
 * there is none. */
bool td__pyramid_before(const td__pyramid *pyramid, int64_t step, int64_t *from);
/* Writes at most `max` buckets that cover first to last and returns their number. */
size_t td__pyramid_query(const td__pyramid *pyramid, int64_t first, int64_t last,
                         td__bucket *buckets, size_t max);
size_t td__pyramid_bytes(const td__pyramid *pyramid);
void td__pyramid_release(td__pyramid *pyramid);

/* Makes a bucket of one value; adds the bucket that follows to another one. */
td__bucket td__bucket_of(const td_run_value *value);
void td__bucket_merge(td__bucket *bucket, const td__bucket *next);

#endif
