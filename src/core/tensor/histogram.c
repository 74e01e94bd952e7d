/* Logarithmic histograms out of the float's own bits.
 *
 * bits >> 20 keeps sign, exponent and three bits of the mantissa: for positive floats it grows with
 * the value from 0 to 2047, for negative ones from 2048 down the other way. Counting goes into a
 * table of the thread's own, which is all zero between calls and is then listed by value. */
#include "tensor/stats.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum {
    HALF = TD_HISTOGRAM_BINS / 2,
    INFINITE = 255 << 3, /* first table entry of an exponent that is no number */
};

static _Thread_local _Alignas(64) td__bin_counts table_of_thread[TD_HISTOGRAM_BINS];

/* The magnitude at which table entry i (0 … HALF) begins: the float of those upper bits, as a double,
 * which has a number also where float has its infinity. */
static double bin_edge(int32_t i) {
    const uint64_t bias = 1023 - 127;
    uint64_t bits = ((bias << 3) + (uint64_t)i) << 49;
    double normal;
    memcpy(&normal, &bits, sizeof normal);
    return i < 8 ? i * 0x1p-129 : normal;
}

double td_bin_left(int32_t index) {
    return index >= HALF ? bin_edge(index - HALF) : -bin_edge(HALF - index);
}

double td_bin_right(int32_t index) {
    return index >= HALF ? bin_edge(index - HALF + 1) : -bin_edge(HALF - 1 - index) + 0.0;
}

td_range td_histogram_range(const td_histogram *histogram, int32_t i) {
    if (histogram->ranges) {
        return histogram->ranges[i];
    }
    td_bin bin = histogram->bins[i];
    return (td_range){td_bin_left(bin.index), td_bin_right(bin.index), (double)bin.count};
}

typedef struct reducing {
    td__bin_kernel *bin; /* NULL: no histogram */
    td__bin_counts *table;
    char *copy; /* where the next block goes, or NULL */
} reducing;

static void reduce_block(const td__piece *piece, void *context) {
    reducing *to = context;
    if (to->bin) {
        to->bin(piece, to->table);
    }
    if (to->copy) {
        size_t bytes = piece->count * sizeof *piece->x;
        memcpy(to->copy, piece->x, bytes);
        to->copy += bytes;
    }
}

/* Entries that are tested together: most of a table is empty. */
enum { LINE = 16 };

/* A vector of two words, as every compiler we build with has it. */
typedef uint64_t pair __attribute__((vector_size(16), may_alias));

static bool line_is_empty(const td__bin_counts *line) {
    const pair *pairs = (const pair *)line;
    pair any = pairs[0];
    for (int i = 1; i < LINE / 2; i++) {
        any |= pairs[i];
    }
    return (any[0] | any[1]) == 0;
}

static int64_t count_of(const td__bin_counts *entry) {
    return (int64_t)(*entry)[0] + (*entry)[1];
}

/* Appends an entry as the bin of that index, and clears it. */
static int32_t emit_bin(td__bin_counts *entry, int32_t index, td_bin *bins, int32_t used) {
    int64_t count = count_of(entry);
    if (count) {
        memset(entry, 0, sizeof *entry);
        bins[used++] = (td_bin){.index = index, .count = count};
    }
    return used;
}

/* The table entry of the largest magnitude there is. */
static int32_t top_entry(const td_stats *stats) {
    double largest = fmax(fabs(stats->min), fabs(stats->max));
    float narrow = largest < (double)FLT_MAX ? (float)largest : FLT_MAX;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    return (int32_t)(bits >> 20);
}

/* Lists what the table holds by value and leaves it zero. Most of a table is empty: it is walked from
 * the largest magnitude down until every value is accounted for, and back. */
static int32_t collect_bins(td__bin_counts *table, const td_stats *stats, td_bin *bins) {
    if (stats->nan || stats->inf) { /* counted elsewhere */
        memset(table + INFINITE, 0, (HALF - INFINITE) * sizeof *table);
        memset(table + HALF + INFINITE, 0, (HALF - INFINITE) * sizeof *table);
    }
    int32_t used = 0, top = 0, line = 0;
    int64_t left = stats->count - stats->nan - stats->inf - count_of(&table[0]);
    if (left) {
        top = top_entry(stats) & ~(LINE - 1);
        line = top + LINE;
    }
    while (left && line > 0) {
        line -= LINE;
        int32_t stop = line_is_empty(table + HALF + line) ? line + LINE : line;
        for (int32_t i = line + LINE - 1; i >= stop; i--) {
            left -= count_of(&table[HALF + i]);
            used = emit_bin(table + HALF + i, HALF - 1 - i, bins, used);
        }
        stop = line_is_empty(table + line) ? line : line + LINE;
        for (int32_t i = line + (line == 0); i < stop; i++) { /* zeros are not among the rest */
            left -= count_of(&table[i]);
        }
    }
    used = emit_bin(table, HALF, bins, used);
    for (; line <= top; line += LINE) {
        int32_t stop = line_is_empty(table + line) ? line : line + LINE;
        for (int32_t i = line; i < stop; i++) {
            used = emit_bin(table + i, HALF + i, bins, used);
        }
    }
    return used;
}

void td__reduce(const td_view *view, int64_t count, const td__reduction *to) {
    bool floats = view->dtype == TD_FLOAT32;
    reducing state = {.bin = to->bins ? td__stats_kernels_of(td__cpu_chosen())->bin : NULL,
                      .table = table_of_thread,
                      .copy = floats ? to->copy : NULL};
    td__stats_walk(view, count, to->stats, state.bin || state.copy ? reduce_block : NULL, &state);
    if (to->bins) {
        *to->histogram = (td_histogram){
            .bins = to->bins, .bin_count = collect_bins(state.table, to->stats, to->bins)};
    }
    if (to->copy && !floats) {
        memcpy(to->copy, view->data, (size_t)count * td_dtype_size(view->dtype));
    }
}

td_status td_histogram_of(const td_view *view, td_stats *stats, td_bin bins[TD_HISTOGRAM_BINS],
                          td_histogram *histogram, td_error *error) {
    int64_t count;
    td_status status = td__view_check(view, &count, error);
    if (status != TD_OK) {
        return status;
    }
    if (count > (int64_t)UINT32_MAX) {
        return td_error_set(error, TD_RANGE, "a histogram takes at most %lld elements, not %lld",
                            (long long)UINT32_MAX, (long long)count);
    }
    td_stats unused;
    td__reduction to = {.stats = stats ? stats : &unused, .bins = bins, .histogram = histogram};
    td__reduce(view, count, &to);
    return TD_OK;
}

void td_histogram_merge(const td_histogram *a, const td_histogram *b,
                        td_bin bins[TD_HISTOGRAM_BINS], td_histogram *merged) {
    int32_t i = 0, k = 0, used = 0;
    while (i < a->bin_count || k < b->bin_count) {
        int32_t left = i < a->bin_count ? a->bins[i].index : TD_HISTOGRAM_BINS;
        int32_t right = k < b->bin_count ? b->bins[k].index : TD_HISTOGRAM_BINS;
        td_bin bin = {.index = left < right ? left : right};
        bin.count += left == bin.index ? a->bins[i++].count : 0;
        bin.count += right == bin.index ? b->bins[k++].count : 0;
        bins[used++] = bin;
    }
    *merged = (td_histogram){.bins = bins, .bin_count = used};
}
