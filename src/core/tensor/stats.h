/* The statistics kernels: one block of elements at a time, small enough to stay in the first-level
 * cache while it is read twice. */
#ifndef TAPEDECK_TENSOR_STATS_H
#define TAPEDECK_TENSOR_STATS_H

#include "base/cpu.h"
#include "tapedeck/stats.h"

#define TD__BLOCK 2048 /* elements */

/* What a clean block (finite, squares within float range) comes to. */
typedef struct td__block {
    double mean;
    double m2; /* sum of (x - mean)^2 */
    double min;
    double max;
    int64_t zeros;
} td__block;

/* Elements that a kernel takes at once, and what will be read after them: they bring it into the
 * cache while they compute, since between two blocks nothing else asks memory for anything. */
typedef struct td__piece {
    const float *x;
    size_t count;      /* <= TD__BLOCK */
    const float *next; /* TD__BLOCK elements from here, whole or in part; NULL: nothing */
    size_t zeros;      /* among x, for those who count bins */
} td__piece;

/* count: a multiple of 8, not 0; zeros are found, not read. False when a value is NaN or infinite, or
 * when float arithmetic could over- or underflow: block is then undefined. */
typedef bool td__block_kernel(const td__piece *piece, td__block *block);

/* Counts by bits >> 20, each in two halves: neighbours go to different ones, so that equal values
 * in a row do not wait for one another's store. */
typedef uint32_t td__bin_counts[2];
typedef void td__bin_kernel(const td__piece *piece, td__bin_counts *table);

typedef struct td__stats_kernels {
    td__block_kernel *block;
    td__bin_kernel *bin;
} td__stats_kernels;

/* For a set of instructions that the machine has. */
const td__stats_kernels *td__stats_kernels_of(td__cpu cpu);

/* Everything that one pass over a view can yield; NULL: not wanted. */
typedef struct td__reduction {
    td_stats *stats;         /* needed */
    td_bin *bins;            /* room for TD_HISTOGRAM_BINS */
    td_histogram *histogram; /* with bins; count <= UINT32_MAX */
    void *copy;              /* the elements */
} td__reduction;
void td__reduce(const td_view *view, int64_t count, const td__reduction *to);

/* Walks a view block by block; each block is also handed to `each` (may be NULL) as float32. */
typedef void td__each_block(const td__piece *piece, void *context);
void td__stats_walk(const td_view *view, int64_t count, td_stats *stats, td__each_block *each,
                    void *context);

/* Makes stats those of a tensor whose elements from offset on are those of more. */
void td__stats_join(td_stats *stats, const td_stats *more, int64_t offset);

/* The view's element count, or an error for what is no tensor. */
td_status td__view_check(const td_view *view, int64_t *count, td_error *error);

#endif
