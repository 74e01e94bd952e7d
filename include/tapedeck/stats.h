/* What a tensor looks like, in a few numbers: statistics, a logarithmic histogram, a fingerprint.
 *
 * All three take one pass over any element type, know NaN and infinities, and need no memory of
 * their own. They may run in several threads at once.
 */
#ifndef TAPEDECK_STATS_H
#define TAPEDECK_STATS_H

#include "tapedeck/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* mean, std, min, max and norm are over the finite values, NaN when there are none. */
typedef struct td_stats {
    int64_t count;           /* all elements */
    int64_t zeros;           /* 0 and -0; -1: not known, of histograms in event files */
    int64_t nan;             /* NaN elements */
    int64_t inf;             /* infinities of either sign */
    int64_t first_nonfinite; /* flat index of the first NaN or infinity, or -1 */
    double mean;
    double std; /* of the population: divided by the count, as numpy.std does */
    double min;
    double max;
    double norm; /* L2: the square root of the sum of squares */
} td_stats;

/* Bins are cut out of a float32's own bits: sign, exponent and the top three bits of the mantissa,
 * so that eight bins cover each power of two. They are numbered by value, from the most negative
 * (0) to the most positive (TD_HISTOGRAM_BINS - 1), the same in every histogram: two histograms
 * are merged by adding counts. Values of other types are rounded to float32 first; finite ones
 * beyond its range count in the outermost finite bin. */
#define TD_HISTOGRAM_BINS 4096

typedef struct td_bin {
    int32_t index; /* 0 … TD_HISTOGRAM_BINS - 1 */
    int64_t count; /* > 0 */
} td_bin;

/* A bin with edges and a count of its own. */
typedef struct td_range {
    double left, right, count;
} td_range;

/* Only bins that hold something, in increasing order; NaN and infinities are in none. Zeros are in
 * the bin whose left edge is 0. Histograms that other programs made have ranges instead of bins,
 * and may have empty ones. */
typedef struct td_histogram {
    const td_bin *bins;
    int32_t bin_count;
    const td_range *ranges; /* NULL; or bin_count of them, and bins is not used */
} td_histogram;

/* Bin i (0 … bin_count - 1), of either kind. */
TD_API td_range td_histogram_range(const td_histogram *histogram, int32_t i);

/* The edges of a bin: left <= value < right for positive values, left < value <= right for
 * negative ones. */
TD_API double td_bin_left(int32_t index);
TD_API double td_bin_right(int32_t index);

/* TD_DTYPE for a type that is none, TD_INVALID without data. The view's release is not called. */
TD_API TD_NODISCARD td_status td_stats_of(const td_view *view, td_stats *stats, td_error *error);

/* bins has room for TD_HISTOGRAM_BINS and is what histogram then points to. stats may be NULL;
 * asking for both is cheaper than asking twice. TD_RANGE beyond 2^32 - 1 elements. */
TD_API TD_NODISCARD td_status td_histogram_of(const td_view *view, td_stats *stats,
                                              td_bin bins[TD_HISTOGRAM_BINS],
                                              td_histogram *histogram, td_error *error);

/* merged = a + b, in bins, which neither a nor b points to. */
TD_API void td_histogram_merge(const td_histogram *a, const td_histogram *b,
                               td_bin bins[TD_HISTOGRAM_BINS], td_histogram *merged);

/* Makes stats those of all elements of both, with the algorithm that reduces one tensor in
 * parts: counts, minimum and maximum exactly, moments in double precision, the norm as the root
 * of both sums of squares. more's elements follow those of stats: its first_nonfinite counts
 * from there. */
TD_API void td_stats_merge(td_stats *stats, const td_stats *more);

/* A 64-bit fingerprint of type, shape and bytes; the same on every machine of one byte order. */
TD_API TD_NODISCARD td_status td_hash_of(const td_view *view, uint64_t *hash, td_error *error);

#ifdef __cplusplus
}
#endif
#endif
