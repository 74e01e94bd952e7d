/* A histogram as text: [[left,right,count],…]. */
#ifndef TAPEDECK_STORE_BINS_H
#define TAPEDECK_STORE_BINS_H

#include "tapedeck/stats.h"

/* The edges that were written before, as text: a run's histograms have most of theirs in common. */
typedef struct td__bins {
    struct td__edge_text *edges; /* by bin; NULL: none yet */
} td__bins;

/* The most bytes that the text takes, and room to build it. */
size_t td__bins_room(const td_histogram *histogram);
/* Returns the text's length, without a terminating zero; 0 when memory is exhausted. */
size_t td__bins_format(td__bins *bins, const td_histogram *histogram, char *out);
void td__bins_release(td__bins *bins);

#endif
