/* Statistics of a view: walks it in blocks and joins their moments (Chan, Golub, LeVeque):
 *
 *     delta = mean_b - mean_a,   mean = mean_a + delta n_b/n,
 *     m2    = m2_a + m2_b + delta^2 n_a n_b/n
 *
 * Float32, and types that it holds exactly, go through the fast kernels; a block that they refuse, and
 * every other type, is taken element by element in a type whose range holds the squares. */
#include "tensor/stats.h"

#include "tensor/element.h"

#include <math.h>

/* long double: squares of any double neither overflow nor vanish. */
typedef struct moments {
    int64_t finite;
    long double mean;
    long double m2;
    double min;
    double max;
} moments;

static void join_moments(moments *all, int64_t count, long double mean, long double m2, double min,
                         double max) {
    if (count == 0) {
        return;
    }
    long double n = (long double)(all->finite + count), part = (long double)count;
    long double delta = mean - all->mean;
    all->mean += delta * part / n;
    all->m2 += m2 + delta * delta * (long double)all->finite * part / n;
    all->min = all->finite && all->min < min ? all->min : min;
    all->max = all->finite && all->max > max ? all->max : max;
    all->finite += count;
}

/* WIDE holds sums of squares of TYPE. */
#define DEFINE_CAREFUL(name, TYPE, WIDE)                                                           \
    static void name(const TYPE *x, size_t count, int64_t offset, td_stats *stats, moments *all) { \
        WIDE sum = 0, m2 = 0;                                                                      \
        double min = INFINITY, max = -INFINITY;                                                    \
        int64_t finite = 0;                                                                        \
        for (size_t i = 0; i < count; i++) {                                                       \
            double v = (double)x[i];                                                               \
            if (isfinite(v)) {                                                                     \
                sum += (WIDE)v;                                                                    \
                min = v < min ? v : min;                                                           \
                max = v > max ? v : max;                                                           \
                stats->zeros += v == 0;                                                            \
                finite++;                                                                          \
                continue;                                                                          \
            }                                                                                      \
            stats->nan += isnan(v);                                                                \
            stats->inf += isinf(v) != 0;                                                           \
            if (stats->first_nonfinite < 0) {                                                      \
                stats->first_nonfinite = offset + (int64_t)i;                                      \
            }                                                                                      \
        }                                                                                          \
        WIDE mean = finite ? sum / (WIDE)finite : 0;                                               \
        for (size_t i = 0; i < count; i++) {                                                       \
            WIDE d = (WIDE)x[i] - mean;                                                            \
            m2 += isfinite((double)x[i]) ? d * d : 0;                                              \
        }                                                                                          \
        join_moments(all, finite, mean, m2, min, max);                                             \
    }

DEFINE_CAREFUL(careful_float32, float, double)
DEFINE_CAREFUL(careful_float64, double, long double)

static void add_float32(const td__stats_kernels *kernels, const td__piece *piece, int64_t offset,
                        td_stats *stats, moments *all) {
    td__piece whole = *piece;
    whole.count &= ~(size_t)7;
    td__block block;
    if (whole.count && kernels->block(&whole, &block)) {
        stats->zeros += block.zeros;
        join_moments(all, (int64_t)whole.count, block.mean, block.m2, block.min, block.max);
    } else {
        whole.count = 0;
    }
    careful_float32(piece->x + whole.count, piece->count - whole.count,
                    offset + (int64_t)whole.count, stats, all);
}

/* The finite values of a block as float32, for histograms: what is too large for float32 becomes
 * its largest value, not an infinity. */
static void to_float32(const double *wide, size_t count, float *narrow) {
    const double limit = (double)3.40282346638528859812e+38f;
    for (size_t i = 0; i < count; i++) {
        double v = wide[i];
        double cut = v > limit ? limit : v < -limit ? -limit : v;
        narrow[i] = (float)(isinf(v) ? v : cut);
    }
}

/* Types of which every value is a float32, and the others. */
static bool fits_float32(td_dtype dtype) {
    size_t size = td_dtype_size(dtype);
    return dtype == TD_FLOAT32 || size <= 2;
}

#define DEFINE_CONVERT(function, to)                                                               \
    static void function(td_dtype dtype, const void *data, int64_t first, size_t count, to *out) { \
        switch (dtype) { TD_DTYPE_LIST(CONVERT) default : break; }                                 \
    }
#define CONVERT(name, text, type)                                                                  \
    case TD_##name:                                                                                \
        for (size_t i = 0; i < count; i++) {                                                       \
            out[i] = (CONVERTED)TD__NUMBER_##name(((const type *)data)[first + (int64_t)i]);       \
        }                                                                                          \
        break;
#define CONVERTED double
DEFINE_CONVERT(to_float64, double)
#undef CONVERTED
#define CONVERTED float
DEFINE_CONVERT(widen, float)
#undef CONVERTED
#undef CONVERT

static void put_moments(td_stats *stats, const moments *all) {
    bool any = all->finite > 0;
    long double n = (long double)all->finite;
    stats->mean = any ? (double)all->mean : (double)NAN;
    stats->std = any ? (double)sqrtl(all->m2 / n) : (double)NAN;
    stats->norm = any ? (double)sqrtl(all->m2 + n * all->mean * all->mean) : (double)NAN;
    stats->min = any ? all->min : (double)NAN;
    stats->max = any ? all->max : (double)NAN;
}

typedef struct walk {
    const td__stats_kernels *kernels;
    td_stats *stats;
    moments all;
    td__each_block *each; /* or NULL */
    void *context;
} walk;

/* The next block is prefetched by the statistics when nothing else reads this block, otherwise by the
 * slower of the two. */
static void walk_float32(walk *w, td__piece piece, int64_t offset) {
    const float *next = piece.next;
    int64_t zeros = w->stats->zeros;
    piece.next = w->each ? NULL : next;
    add_float32(w->kernels, &piece, offset, w->stats, &w->all);
    if (w->each) {
        piece.next = next;
        piece.zeros = (size_t)(w->stats->zeros - zeros);
        w->each(&piece, w->context);
    }
}

static void walk_float64(walk *w, const double *wide, size_t count, int64_t offset) {
    int64_t zeros = w->stats->zeros;
    careful_float64(wide, count, offset, w->stats, &w->all);
    if (w->each) {
        float narrow[TD__BLOCK];
        to_float32(wide, count, narrow);
        td__piece piece = {.x = narrow, .count = count, .zeros = (size_t)(w->stats->zeros - zeros)};
        w->each(&piece, w->context);
    }
}

void td__stats_walk(const td_view *view, int64_t count, td_stats *stats, td__each_block *each,
                    void *context) {
    walk w = {.kernels = td__stats_kernels_of(td__cpu_chosen()),
              .stats = stats,
              .each = each,
              .context = context};
    *stats = (td_stats){.count = count, .first_nonfinite = -1};
    for (int64_t first = 0; first < count; first += TD__BLOCK) {
        size_t block = (size_t)(count - first < TD__BLOCK ? count - first : TD__BLOCK);
        if (view->dtype == TD_FLOAT32) {
            const float *x = (const float *)view->data + first;
            const float *next = count - first > TD__BLOCK ? x + TD__BLOCK : NULL;
            walk_float32(&w, (td__piece){.x = x, .count = block, .next = next}, first);
        } else if (fits_float32(view->dtype)) {
            float widened[TD__BLOCK];
            widen(view->dtype, view->data, first, block, widened);
            walk_float32(&w, (td__piece){.x = widened, .count = block}, first);
        } else {
            double wide[TD__BLOCK];
            to_float64(view->dtype, view->data, first, block, wide);
            walk_float64(&w, wide, block, first);
        }
    }
    put_moments(stats, &w.all);
}

static int64_t finite_of(const td_stats *stats) {
    return stats->count - stats->nan - stats->inf;
}

void td__stats_join(td_stats *stats, const td_stats *more, int64_t offset) {
    moments all = {0};
    const td_stats *both[] = {stats, more};
    for (size_t i = 0; i < 2; i++) {
        int64_t finite = finite_of(both[i]);
        long double std = both[i]->std;
        join_moments(&all, finite, both[i]->mean, std * std * (long double)finite, both[i]->min,
                     both[i]->max);
    }
    if (stats->first_nonfinite < 0 && more->first_nonfinite >= 0) {
        stats->first_nonfinite = offset + more->first_nonfinite;
    }
    stats->count += more->count;
    stats->zeros += more->zeros;
    stats->nan += more->nan;
    stats->inf += more->inf;
    put_moments(stats, &all);
}

void td_stats_merge(td_stats *stats, const td_stats *more) {
    td__stats_join(stats, more, stats->count);
}

td_status td__view_check(const td_view *view, int64_t *count, td_error *error) {
    td_status status = td_shape_check(&view->shape, view->dtype, count, error);
    if (status == TD_OK && *count > 0 && !view->data) {
        return td_error_set(error, TD_INVALID, "the view of %lld elements has no data",
                            (long long)*count);
    }
    return status;
}

td_status td_stats_of(const td_view *view, td_stats *stats, td_error *error) {
    int64_t count;
    td_status status = td__view_check(view, &count, error);
    if (status == TD_OK) {
        td__stats_walk(view, count, stats, NULL, NULL);
    }
    return status;
}
