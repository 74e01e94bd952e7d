/* Statistics, histograms and fingerprints, against definitions computed in long double. */
#include "test.h"

#include "base/random.h"
#include "tensor/hash.h"
#include "tensor/stats.h"

#include <float.h>

static td_view view_of(td_dtype dtype, const void *data, int64_t count) {
    return (td_view){.dtype = dtype, .shape = TD_SHAPE(count), .data = data};
}

static td_stats stats_of(const float *x, int64_t count) {
    td_view view = view_of(TD_FLOAT32, x, count);
    td_stats stats;
    td_error error;
    assert_ok(td_stats_of(&view, &stats, &error), error);
    return stats;
}

static td_stats reference(const float *x, int64_t count) {
    td_stats s = {.count = count, .first_nonfinite = -1, .min = INFINITY, .max = -INFINITY};
    long double sum = 0, squares = 0, about = 0;
    int64_t finite = 0;
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(x[i])) {
            s.nan += isnan(x[i]) != 0;
            s.inf += isinf(x[i]) != 0;
            s.first_nonfinite = s.first_nonfinite < 0 ? i : s.first_nonfinite;
            continue;
        }
        finite++;
        sum += x[i];
        squares += (long double)x[i] * x[i];
        s.zeros += x[i] == 0;
        s.min = fmin(s.min, x[i]);
        s.max = fmax(s.max, x[i]);
    }
    long double mean = sum / (long double)finite;
    for (int64_t i = 0; i < count; i++) {
        about += isfinite(x[i]) ? (x[i] - mean) * (x[i] - mean) : 0;
    }
    s.mean = (double)mean;
    s.std = (double)sqrtl(about / (long double)finite);
    s.norm = (double)sqrtl(squares);
    return s;
}

static void check(const float *x, int64_t count) {
    td_stats got = stats_of(x, count), expected = reference(x, count);
    assert_int_equal(got.count, expected.count);
    assert_int_equal(got.zeros, expected.zeros);
    assert_int_equal(got.nan, expected.nan);
    assert_int_equal(got.inf, expected.inf);
    assert_int_equal(got.first_nonfinite, expected.first_nonfinite);
    assert_true(got.min == expected.min);
    assert_true(got.max == expected.max);
    assert_close(got.mean, expected.mean, 1e-6, 1e-7 * expected.std);
    assert_close(got.std, expected.std, 2e-6, 0);
    assert_close(got.norm, expected.norm, 2e-6, 0);
}

enum { MANY = 10007 };

static float *normal(int64_t count, double mean, double std) {
    float *x = malloc((size_t)count * sizeof *x);
    td__random random;
    td__random_seed(&random, 11, 0);
    for (int64_t i = 0; i < count; i++) {
        x[i] = (float)(mean + std * td__random_normal(&random));
    }
    return x;
}

static void stats_agree_with_their_definition_at_every_length(void **state) {
    (void)state;
    float *x = normal(MANY, 0.1, 1);
    for (int64_t count = 1; count < 200; count++) {
        check(x, count);
    }
    check(x, TD__BLOCK - 1);
    check(x, TD__BLOCK);
    check(x, TD__BLOCK + 1);
    check(x, MANY);
    free(x);
}

static void stats_keep_precision_when_the_spread_is_small_beside_the_mean(void **state) {
    (void)state;
    float *x = normal(MANY, 1000, 1e-2);
    check(x, MANY);
    free(x);
}

static void stats_of_tiny_and_huge_values_neither_vanish_nor_overflow(void **state) {
    (void)state;
    static const double scales[] = {1e-36, 1e-30, 1e-20, 1e-9, 1e9, 1e18, 1e30, 1e37};
    for (size_t i = 0; i < sizeof scales / sizeof scales[0]; i++) {
        float *x = normal(MANY, 0, scales[i]);
        check(x, MANY);
        free(x);
    }
    double wide[4] = {1e300, -1e300, 1e300, -1e300};
    td_view view = view_of(TD_FLOAT64, wide, 4);
    td_stats stats;
    assert_int_equal(td_stats_of(&view, &stats, NULL), TD_OK);
    assert_close(stats.norm, 2e300, 1e-12, 0);
    assert_close(stats.std, 1e300, 1e-12, 0);
}

static void stats_count_nan_and_infinities_and_keep_the_rest_right(void **state) {
    (void)state;
    for (int64_t where = 0; where < MANY; where += 997) {
        float *x = normal(MANY, -2, 3);
        x[where] = NAN;
        x[(where + 5000) % MANY] = -INFINITY;
        x[MANY - 1] = INFINITY;
        x[17] = 0;
        x[18] = -0.0f;
        check(x, MANY);
        free(x);
    }
}

static void stats_of_zeros_have_no_sign(void **state) {
    (void)state;
    static const float zeros[1000];
    for (int64_t count = 1; count <= 1000; count += 37) {
        td_stats stats = stats_of(zeros, count);
        assert_false(signbit(stats.min) || signbit(stats.max) || signbit(stats.mean));
        assert_int_equal(stats.zeros, count);
    }
}

static void stats_of_nothing_finite_are_nan(void **state) {
    (void)state;
    float x[3] = {NAN, INFINITY, -INFINITY};
    td_stats stats = stats_of(x, 3);
    assert_int_equal(stats.nan, 1);
    assert_int_equal(stats.inf, 2);
    assert_true(isnan(stats.mean) && isnan(stats.std) && isnan(stats.min) && isnan(stats.norm));
    stats = stats_of(x, 0);
    assert_int_equal(stats.count, 0);
    assert_true(isnan(stats.max));
}

static void stats_take_every_element_type(void **state) {
    (void)state;
    int32_t a[] = {-3, 0, 7};
    int64_t b[] = {-3, 0, 7};
    uint8_t c[] = {253, 0, 7};
    double d[] = {-3, 0, 7};
    uint16_t half[] = {0xc200, 0x8000, 0x4700}, brain[] = {0xc040, 0, 0x40e0};
    int8_t e[] = {-3, 0, 7};
    int16_t f[] = {-3, 0, 7};
    uint16_t g[] = {253, 0, 7};
    uint32_t h[] = {253, 0, 7};
    uint64_t k[] = {253, 0, 7};
    const void *data[] = {
        [TD_INT32] = a,  [TD_INT64] = b,        [TD_UINT8] = c,      [TD_FLOAT64] = d,
        [TD_INT8] = e,   [TD_INT16] = f,        [TD_FLOAT16] = half, [TD_UINT16] = g,
        [TD_UINT32] = h, [TD_BFLOAT16] = brain, [TD_UINT64] = k};
    for (td_dtype dtype = TD_INT32; dtype < TD_DTYPE_COUNT; dtype++) {
        if (dtype == TD_BOOL) {
            continue;
        }
        td_view view = view_of(dtype, data[dtype], 3);
        td_stats stats;
        assert_int_equal(td_stats_of(&view, &stats, NULL), TD_OK);
        assert_int_equal(stats.zeros, 1);
        bool is_unsigned = dtype == TD_UINT8 || (dtype >= TD_UINT16 && dtype <= TD_UINT64);
        double first = is_unsigned ? 253 : -3;
        assert_close(stats.mean, (first + 7) / 3, 1e-15, 0);
        assert_close(stats.norm, sqrt(first * first + 49), 1e-15, 0);
    }
}

static void stats_refuse_what_is_no_tensor(void **state) {
    (void)state;
    td_error error;
    td_stats stats;
    td_view view = view_of(TD_FLOAT32, NULL, 3);
    assert_int_equal(td_stats_of(&view, &stats, &error), TD_INVALID);
    view = view_of((td_dtype)77, &stats, 3);
    assert_int_not_equal(td_stats_of(&view, &stats, &error), TD_OK);
    view = view_of(TD_FLOAT32, &stats, -3);
    assert_int_not_equal(td_stats_of(&view, &stats, &error), TD_OK);
}

static void blocks_agree(const td__stats_kernels *wide, const td__stats_kernels *plain, float *x) {
    for (size_t count = 8; count <= TD__BLOCK; count += 8) {
        td__block a, b;
        assert_true(wide->block(&(td__piece){.x = x, .count = count}, &a));
        assert_true(plain->block(&(td__piece){.x = x, .count = count}, &b));
        assert_close(a.mean, b.mean, 1e-6, 1e-8);
        assert_close(a.m2, b.m2, 2e-6, 0);
        assert_true(a.min == b.min && a.max == b.max);
        assert_int_equal(a.zeros, b.zeros);
    }
    float kept = x[100];
    x[100] = NAN;
    td__block block;
    assert_false(wide->block(&(td__piece){.x = x, .count = 104}, &block));
    assert_false(plain->block(&(td__piece){.x = x, .count = 104}, &block));
    x[100] = kept;
}

static void bins_agree(td__bin_kernel *kernel, const float *x, size_t count) {
    static td__bin_counts table[TD_HISTOGRAM_BINS];
    static uint32_t expected[TD_HISTOGRAM_BINS];
    memset(table, 0, sizeof table);
    memset(expected, 0, sizeof expected);
    td__piece piece = {.x = x, .count = count};
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        piece.zeros += x[i] == 0;
        expected[bits == 0x80000000u ? 0 : bits >> 20]++;
    }
    kernel(&piece, table);
    for (size_t i = 0; i < TD_HISTOGRAM_BINS; i++) {
        assert_int_equal(table[i][0] + table[i][1], expected[i]);
    }
}

/* A run's statistics are the same on a machine with AVX-512 and on one without. */
static void avx512_sums_to_the_bits_of_avx2(void **state) {
    (void)state;
    if (!td__cpu_has(TD__CPU_AVX512)) {
        print_message("SKIPPED: this machine does not have AVX-512\n");
        return;
    }
    const td__stats_kernels *avx2 = td__stats_kernels_of(TD__CPU_AVX2);
    const td__stats_kernels *avx512 = td__stats_kernels_of(TD__CPU_AVX512);
    float *x = normal(TD__BLOCK, 0.5, 2);
    for (size_t i = 0; i < TD__BLOCK; i += 5) {
        x[i] = i % 2 ? 0 : -0.0f;
    }
    for (size_t sign = 0; sign < 3; sign++) { /* any, none below 0, none above */
        for (size_t i = 0; i < TD__BLOCK; i++) {
            x[i] = sign == 1 ? fmaxf(x[i], -0.0f) : sign == 2 ? -fabsf(x[i]) : x[i];
        }
        for (size_t count = 8; count <= TD__BLOCK; count += 8) {
            td__piece piece = {.x = x, .count = count, .next = x};
            td__block a, b;
            memset(&a, 0, sizeof a);
            memset(&b, 0, sizeof b);
            assert_true(avx2->block(&piece, &a) && avx512->block(&piece, &b));
            assert_memory_equal(&a, &b, sizeof a);
        }
    }
    free(x);
}

static void every_set_of_kernels_counts_and_sums_alike(void **state) {
    (void)state;
    const td__stats_kernels *plain = td__stats_kernels_of(TD__CPU_PORTABLE);
    float *x = normal(TD__BLOCK, 0.5, 2);
    for (td__cpu cpu = TD__CPU_PORTABLE; cpu < TD__CPU_COUNT; cpu++) {
        if (!td__cpu_has(cpu)) {
            print_message("SKIPPED: this machine does not have %s\n", td__cpu_name(cpu));
            continue;
        }
        const td__stats_kernels *set = td__stats_kernels_of(cpu);
        for (size_t zeros = 0; zeros < 3; zeros++) { /* none, some, many */
            x[3] = zeros ? 0 : 0.25f;
            x[40] = zeros ? -0.0f : 0.25f;
            x[41] = zeros ? -1e-45f : 0.25f;
            for (size_t i = 0; zeros == 2 && i < TD__BLOCK; i += 3) {
                x[i] = i % 2 ? 0 : -0.0f;
            }
            blocks_agree(set, plain, x);
            for (size_t count = 0; count < 100; count++) {
                bins_agree(set->bin, x, count);
            }
            bins_agree(set->bin, x, TD__BLOCK);
        }
    }
    free(x);
}

static td_bin bins[TD_HISTOGRAM_BINS];

static void histogram_bins_hold_the_values_between_their_edges(void **state) {
    (void)state;
    assert_true(td_bin_left(0) < -FLT_MAX && td_bin_right(TD_HISTOGRAM_BINS - 1) > FLT_MAX);
    for (int32_t i = 1; i < TD_HISTOGRAM_BINS; i++) {
        assert_true(td_bin_left(i) == td_bin_right(i - 1));
        assert_true(td_bin_left(i) < td_bin_right(i));
    }
    static const float probes[] = {0,       -0.0f, 1,      -1,      1.1249f,  1.125f, -1.125f,
                                   -1.124f, 3e-9f, -7e20f, FLT_MAX, -FLT_MAX, 1e-45f, -1e-40f};
    for (size_t i = 0; i < sizeof probes / sizeof probes[0]; i++) {
        td_view view = view_of(TD_FLOAT32, &probes[i], 1);
        td_histogram histogram;
        assert_int_equal(td_histogram_of(&view, NULL, bins, &histogram, NULL), TD_OK);
        assert_int_equal(histogram.bin_count, 1);
        assert_int_equal(bins[0].count, 1);
        double left = td_bin_left(bins[0].index), right = td_bin_right(bins[0].index);
        assert_true(probes[i] >= 0 ? left <= probes[i] && probes[i] < right
                                   : left < probes[i] && probes[i] <= right);
    }
}

static void histogram_counts_every_finite_value_once_in_order(void **state) {
    (void)state;
    float *x = normal(MANY, 0, 1e-3);
    x[5] = NAN;
    x[9] = INFINITY;
    x[10] = -INFINITY;
    x[11] = -NAN;
    td_view view = view_of(TD_FLOAT32, x, MANY);
    td_histogram histogram;
    td_stats stats;
    for (int again = 0; again < 2; again++) { /* the table is left clean */
        assert_int_equal(td_histogram_of(&view, &stats, bins, &histogram, NULL), TD_OK);
        int64_t total = 0;
        for (int32_t i = 0; i < histogram.bin_count; i++) {
            assert_true(i == 0 || bins[i].index > bins[i - 1].index);
            int64_t inside = 0;
            double left = td_bin_left(bins[i].index), right = td_bin_right(bins[i].index);
            for (int64_t k = 0; k < MANY; k++) {
                inside += x[k] >= 0 ? left <= x[k] && x[k] < right : left < x[k] && x[k] <= right;
            }
            assert_int_equal(bins[i].count, inside);
            total += bins[i].count;
        }
        assert_int_equal(total, MANY - 4);
        assert_int_equal(stats.nan, 2);
        assert_int_equal(stats.inf, 2);
    }
    free(x);
}

static void histogram_of_doubles_beyond_float_range_stays_finite(void **state) {
    (void)state;
    double x[] = {1e300, -1e300, INFINITY, NAN};
    td_view view = view_of(TD_FLOAT64, x, 4);
    td_histogram histogram;
    assert_int_equal(td_histogram_of(&view, NULL, bins, &histogram, NULL), TD_OK);
    assert_int_equal(histogram.bin_count, 2);
    assert_true(td_bin_left(bins[0].index) > -FLT_MAX * 1.01);
}

static void merged_histograms_are_the_histogram_of_both(void **state) {
    (void)state;
    static td_bin a_bins[TD_HISTOGRAM_BINS], b_bins[TD_HISTOGRAM_BINS], merged[TD_HISTOGRAM_BINS];
    float *x = normal(MANY, 0.2, 1);
    td_histogram a, b, both, joined;
    td_view first = view_of(TD_FLOAT32, x, 4000),
            second = view_of(TD_FLOAT32, x + 4000, MANY - 4000);
    td_view all = view_of(TD_FLOAT32, x, MANY);
    assert_int_equal(td_histogram_of(&first, NULL, a_bins, &a, NULL), TD_OK);
    assert_int_equal(td_histogram_of(&second, NULL, b_bins, &b, NULL), TD_OK);
    assert_int_equal(td_histogram_of(&all, NULL, bins, &both, NULL), TD_OK);
    td_histogram_merge(&a, &b, merged, &joined);
    assert_int_equal(joined.bin_count, both.bin_count);
    for (int32_t i = 0; i < both.bin_count; i++) {
        assert_int_equal(joined.bins[i].index, both.bins[i].index);
        assert_int_equal(joined.bins[i].count, both.bins[i].count);
    }
    free(x);
}

/* Values of the reference implementation, xxHash 0.8.1. */
static void hash_is_xxh64(void **state) {
    (void)state;
    assert_true(td__xxh64("", 0, 0) == 0xEF46DB3751D8E999u);
    assert_true(td__xxh64("a", 1, 0) == 0xD24EC4F1A98C6E5Bu);
    assert_true(td__xxh64("abc", 3, 0) == 0x44BC2CF5AD770999u);
    unsigned char bytes[101];
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (unsigned char)i;
    }
    assert_true(td__xxh64(bytes, 31, 0x7u) == 0x0BDBBCAEAD6C6E56u);
    assert_true(td__xxh64(bytes, 32, 0x7u) == 0xA5972D57C4AEA230u);
    assert_true(td__xxh64(bytes, 63, 0x0u) == 0xE26AA9E2A95F8E4Fu);
    assert_true(td__xxh64(bytes, 101, 0xfedcba9876543210u) == 0x68C99975EF4CD258u);
}

static void hash_tells_type_shape_and_every_byte_apart(void **state) {
    (void)state;
    float x[6] = {1, 2, 3, 4, 5, 6};
    uint64_t seen[5];
    td_view view = {.dtype = TD_FLOAT32, .shape = TD_SHAPE(2, 3), .data = x};
    assert_int_equal(td_hash_of(&view, &seen[0], NULL), TD_OK);
    view.shape = TD_SHAPE(3, 2);
    assert_int_equal(td_hash_of(&view, &seen[1], NULL), TD_OK);
    view.shape = TD_SHAPE(6);
    assert_int_equal(td_hash_of(&view, &seen[2], NULL), TD_OK);
    view.dtype = TD_INT32;
    assert_int_equal(td_hash_of(&view, &seen[3], NULL), TD_OK);
    x[5] = nextafterf(x[5], 7);
    assert_int_equal(td_hash_of(&view, &seen[4], NULL), TD_OK);
    for (int i = 0; i < 5; i++) {
        for (int k = 0; k < i; k++) {
            assert_true(seen[i] != seen[k]);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stats_agree_with_their_definition_at_every_length),
        cmocka_unit_test(stats_keep_precision_when_the_spread_is_small_beside_the_mean),
        cmocka_unit_test(stats_of_zeros_have_no_sign),
        cmocka_unit_test(stats_of_tiny_and_huge_values_neither_vanish_nor_overflow),
        cmocka_unit_test(stats_count_nan_and_infinities_and_keep_the_rest_right),
        cmocka_unit_test(stats_of_nothing_finite_are_nan),
        cmocka_unit_test(stats_take_every_element_type),
        cmocka_unit_test(stats_refuse_what_is_no_tensor),
        cmocka_unit_test(every_set_of_kernels_counts_and_sums_alike),
        cmocka_unit_test(avx512_sums_to_the_bits_of_avx2),
        cmocka_unit_test(histogram_bins_hold_the_values_between_their_edges),
        cmocka_unit_test(histogram_counts_every_finite_value_once_in_order),
        cmocka_unit_test(histogram_of_doubles_beyond_float_range_stays_finite),
        cmocka_unit_test(merged_histograms_are_the_histogram_of_both),
        cmocka_unit_test(hash_is_xxh64),
        cmocka_unit_test(hash_tells_type_shape_and_every_byte_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
