/* Layer error norms over time: a row for each layer, time from left to right, the height and colour
 * of a block the logarithm of the norm. */
#include "report.h"

#include "terminal.h"

#include <math.h>
#include <string.h>

enum { MAX_COLUMNS = 120, LEVELS = 8 };

static const char *const blocks[LEVELS + 1] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
/* From small to large: blue, cyan, green, yellow, red of the 256 colours. */
static const int colours[LEVELS] = {27, 33, 37, 41, 148, 220, 208, 196};

typedef struct range {
    int64_t first, last;    /* steps */
    double lowest, highest; /* log10 of norms */
} range;

static bool is_usable_norm(double norm) {
    return isfinite(norm) && norm > 0;
}

static range find_range(const td_norm_history *histories, size_t count) {
    range r = {.first = INT64_MAX, .last = 0, .lowest = INFINITY, .highest = -INFINITY};
    for (size_t i = 0; i < count; i++) {
        const td_norm_history *h = &histories[i];
        for (size_t k = 0; k < h->count; k++) {
            r.first = h->steps[k] < r.first ? h->steps[k] : r.first;
            r.last = h->steps[k] > r.last ? h->steps[k] : r.last;
            if (is_usable_norm(h->norms[k])) {
                r.lowest = fmin(r.lowest, log10(h->norms[k]));
                r.highest = fmax(r.highest, log10(h->norms[k]));
            }
        }
    }
    return r;
}

/* Mean logarithms by column; NaN where there is none, infinity where a norm was not finite. */
static void fill_columns(const td_norm_history *h, const range *r, int columns, double *means) {
    double sums[MAX_COLUMNS] = {0};
    int counts[MAX_COLUMNS] = {0};
    for (int i = 0; i < columns; i++) {
        means[i] = NAN;
    }
    for (size_t k = 0; k < h->count; k++) {
        int64_t span = r->last - r->first + 1;
        int column = (int)((h->steps[k] - r->first) * columns / span);
        if (is_usable_norm(h->norms[k])) {
            sums[column] += log10(h->norms[k]);
            counts[column]++;
        } else {
            means[column] = h->norms[k] == 0 ? -INFINITY : INFINITY;
        }
    }
    for (int i = 0; i < columns; i++) {
        means[i] = counts[i] ? sums[i] / counts[i] : means[i];
    }
}

/* 0: nothing or zero; 1 … LEVELS. */
static int level_of(double value, const range *r) {
    if (!isfinite(value)) {
        return value > 0 ? LEVELS : 0;
    }
    double span = r->highest - r->lowest;
    int level = span > 1e-9 ? (int)((value - r->lowest) / span * LEVELS) + 1 : LEVELS / 2;
    return level > LEVELS ? LEVELS : level;
}

static void print_row(const td_norm_history *h, const range *r, int columns, int name_width,
                      bool colour) {
    double means[MAX_COLUMNS];
    fill_columns(h, r, columns, means);
    (void)fputs("  ", stdout);
    terminal_print_name(h->layer, name_width);
    putchar(' ');
    int last = 0; /* a column without a record shows the one before it */
    for (int i = 0; i < columns; i++) {
        int level = isnan(means[i]) ? last : level_of(means[i], r);
        last = level;
        terminal_paint_number(colour && level, level ? colours[level - 1] : 0);
        (void)fputs(blocks[level], stdout);
    }
    terminal_paint(colour, "0");
    printf("  %.1e → %.1e\n", h->norms[0], h->norms[h->count - 1]);
}

void print_heat_map(const td_norm_history *histories, size_t count, int width, bool colour) {
    range r = find_range(histories, count);
    if (count == 0 || r.last == 0 || r.highest < r.lowest) {
        return;
    }
    int name_width = 0;
    for (size_t i = 0; i < count; i++) {
        int length = terminal_columns(histories[i].layer);
        name_width = length > name_width ? length : name_width;
    }
    name_width = name_width > 30 ? 30 : name_width;
    int columns = width - name_width - 26;
    columns = columns < 10 ? 10 : columns > MAX_COLUMNS ? MAX_COLUMNS : columns;
    int64_t span = r.last - r.first + 1;
    columns = span < columns ? (int)span : columns;
    printf(
        "Layer errors, steps %lld to %lld: the norm of dLoss/dOutput, from %.1e (▁) to %.1e (█)\n",
        (long long)r.first, (long long)r.last, pow(10, r.lowest), pow(10, r.highest));
    for (size_t i = 0; i < count; i++) {
        if (histories[i].count) {
            print_row(&histories[i], &r, columns, name_width, colour);
        }
    }
}
