/* Histograms as run.db keeps them.
 *
 * Logarithmic ones are bytes: 1, then for each bin that holds something how many empty ones lie
 * before it (since the last, or the first of all) and its count, as numbers of seven bits a byte, the
 * low ones first, with the eighth bit set in all but a number's last byte. Those of other programs,
 * which have edges of their own, are text: [[left,right,count],…], as all were until version 2. */
#ifndef TAPEDECK_STORE_BINS_H
#define TAPEDECK_STORE_BINS_H

#include "tapedeck/stats.h"

/* The most bytes that it takes, and room to build them. */
size_t td__bins_room(const td_histogram *histogram);
/* Returns how many bytes were written to out. */
size_t td__bins_pack(const td_histogram *histogram, char *out);

/* What a histogram was read into. All zero at first. */
typedef struct td__bins {
    td_bin *bins;
    td_range *ranges;
    size_t bin_capacity, range_capacity;
} td__bins;

/* Reads what td__bins_pack has written, or anyone: false when it is damaged, or memory is exhausted.
 * The text is one byte longer than its size, and that is 0. */
bool td__bins_unpack(td__bins *bins, const char *text, size_t size, td_histogram *histogram);
void td__bins_release(td__bins *bins);

#endif
