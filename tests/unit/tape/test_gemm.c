/* Matrix products against sums written out. */
#include "test.h"

#include "base/arena.h"
#include "base/random.h"
#include "tape/gemm.h"
#include "tape/tape.h"

static td__random generator;

static float *random_floats(int64_t count) {
    float *values = malloc((size_t)(count + 1) * sizeof *values);
    for (int64_t i = 0; i < count; i++) {
        values[i] = (float)(td__random_uniform(&generator) * 2 - 1);
    }
    return values;
}

static void check(td_tape *tape, int64_t m, int64_t n, int64_t k, bool transpose_a,
                  bool transpose_b, bool with_bias, int flags) {
    int64_t lda = (transpose_a ? m : k) + 3, ldb = (transpose_b ? k : n) + 1, ldc = n + 2;
    float *a = random_floats((transpose_a ? k : m) * lda);
    float *b = random_floats((transpose_b ? n : k) * ldb);
    float *bias = random_floats(n), *c = random_floats(m * ldc), *before = random_floats(m * ldc);
    memcpy(before, c, (size_t)(m * ldc) * sizeof *c);
    assert_int_equal(td__gemm(tape, &(td__gemm_arguments){.m = m,
                                                          .n = n,
                                                          .k = k,
                                                          .a = a,
                                                          .lda = lda,
                                                          .transpose_a = transpose_a,
                                                          .b = b,
                                                          .ldb = ldb,
                                                          .transpose_b = transpose_b,
                                                          .bias = with_bias ? bias : NULL,
                                                          .c = c,
                                                          .ldc = ldc,
                                                          .flags = flags}),
                     TD_OK);
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < ldc; j++) {
            double expected = (double)before[i * ldc + j];
            if (j < n) {
                double sum = with_bias ? (double)bias[j] : 0;
                sum += flags & TD__TILE_ADD ? expected : 0;
                for (int64_t x = 0; x < k; x++) {
                    sum += (double)(transpose_a ? a[x * lda + i] : a[i * lda + x]) *
                           (double)(transpose_b ? b[j * ldb + x] : b[x * ldb + j]);
                }
                expected = flags & TD__TILE_ENDS && sum < 0 ? 0 : sum;
                expected = flags & TD__TILE_RELU6 && sum > 6 ? 6 : expected;
            }
            assert_close(c[i * ldc + j], expected, 1e-5, 1e-5 * sqrt((double)k + 1));
        }
    }
    free(a);
    free(b);
    free(bias);
    free(c);
    free(before);
    td_tape_reset(tape);
}

static void products_agree_with_sums_written_out(void **state) {
    (void)state;
    td_error error = {0};
    td_tape *tape = td_tape_create(NULL, &error);
    td__random_seed(&generator, 1, 0);
    for (int i = 0; i < 200; i++) {
        int64_t m = 1 + (int64_t)td__random_below(&generator, 40);
        int64_t n = 1 + (int64_t)td__random_below(&generator, 80);
        int64_t k = (int64_t)td__random_below(&generator, 50);
        bool transpose_a = i % 2, add = i / 4 % 2;
        td_threads_set(1 + i / 32 % 2);
        check(tape, m, n, k, transpose_a, i / 2 % 2, !transpose_a && !add && i / 8 % 2,
              (add ? TD__TILE_ADD : 0) | (i / 16 % 2   ? TD__TILE_RELU
                                          : i / 16 % 4 ? TD__TILE_RELU6
                                                       : 0));
    }
    td_tape_destroy(tape);
}

static void long_inner_dimensions_go_in_blocks(void **state) {
    (void)state;
    td_error error = {0};
    td_tape *tape = td_tape_create(NULL, &error);
    td_threads_set(2);
    check(tape, 5, 37, 5000, false, false, true, TD__TILE_RELU);
    check(tape, 1, 37, 5000, false, false, true, TD__TILE_RELU6);
    check(tape, 5, 37, 5000, true, false, false, TD__TILE_ADD);
    td_tape_destroy(tape);
}

static void threads_share_rows_or_panels(void **state) {
    (void)state;
    td_error error = {0};
    td_tape *tape = td_tape_create(NULL, &error);
    td_threads_set(2);
    check(tape, 700, 33, 130, false, true, true, 0);  /* rows */
    check(tape, 40, 500, 130, false, false, true, 0); /* panels */
    check(tape, 130, 300, 60, true, false, false, TD__TILE_ADD);
    td_threads_set(7); /* both; more columns than are packed at a time */
    check(tape, 600, 700, 300, false, true, true, TD__TILE_RELU);
    check(tape, 600, 96, 300, true, false, false, TD__TILE_ADD);
    check(tape, 90, 700, 300, true, true, false, 0);
    td_tape_destroy(tape);
}

/* Whatever is left of the last tiles. */
static void columns_of_the_left_operand_are_packed_in_any_number(void **state) {
    (void)state;
    td_error error = {0};
    td_tape *tape = td_tape_create(NULL, &error);
    static const int64_t inner[] = {1, 2, 7, 70};
    for (int64_t m = 62; m < 240; m++) {
        td_threads_set((int)(1 + m % 3));
        check(tape, m, 130, inner[m % 4], true, false, false, m % 2 ? TD__TILE_ADD : 0);
    }
    td_threads_set(1);
    td_tape_destroy(tape);
}

/* The right operand is read where it is, up to its last element. */
static void a_few_rows_need_no_packing(void **state) {
    (void)state;
    td_error error = {0};
    td_tape *tape = td_tape_create(NULL, &error);
    for (int threads = 1; threads <= 2; threads++) {
        td_threads_set(threads);
        for (int64_t n = 16; n <= 208; n += 16) {
            check(tape, 1, n, 700, false, false, true, TD__TILE_RELU);
            check(tape, 4, n, 70, true, false, false, TD__TILE_ADD);
            check(tape, 3, n, 1, false, false, false, 0);
        }
    }
    td_tape_destroy(tape);
}

/* A row past several panels at once is the sum that it is among other rows, and threads share its
 * columns. */
static void a_single_row_has_the_bits_it_has_among_others(void **state) {
    (void)state;
    enum { N = 1000, K = 1100, ROWS = 2 };
    td_error error = {0};
    td_tape *tape = td_tape_create(NULL, &error);
    float *a = random_floats(ROWS * K), *b = random_floats((int64_t)K * N);
    float *bias = random_floats(N), *together = random_floats(ROWS * N), *alone = random_floats(N);
    td__gemm_arguments g = {
        .m = ROWS, .n = N, .k = K, .a = a, .lda = K, .b = b, .ldb = N, .bias = bias, .ldc = N};
    for (int i = 0; i < 8; i++) { /* whole panels, a vector more, and neither */
        static const int64_t columns[] = {N, 992, 1, 8, 24, 100, 63, 488};
        g.n = columns[i];
        td_threads_set(1);
        g.m = ROWS;
        g.c = together;
        assert_int_equal(td__gemm(tape, &g), TD_OK);
        for (int threads = 1; threads <= 4; threads++) {
            td_threads_set(threads);
            g.m = 1;
            g.c = alone;
            assert_int_equal(td__gemm(tape, &g), TD_OK);
            assert_memory_equal(alone, together, (size_t)g.n * sizeof *alone);
        }
    }
    free(a);
    free(b);
    free(bias);
    free(together);
    free(alone);
    td_tape_destroy(tape);
}

/* Each term rounds a growing sum the same way: sums of thousands lose a digit more than these. */
static void long_sums_keep_their_digits(void **state) {
    (void)state;
    enum { LENGTH = 16384, WIDTH = 16 };
    td_error error = {0};
    td_tape *tape = td_tape_create(NULL, &error);
    float *a = malloc(LENGTH * sizeof *a), *b = malloc(LENGTH * WIDTH * sizeof *b), c[WIDTH];
    for (int64_t i = 0; i < LENGTH * WIDTH; i++) {
        b[i] = 1;
        a[i % LENGTH] = 1.0001f;
    }
    assert_int_equal(td__gemm(tape, &(td__gemm_arguments){.m = 1,
                                                          .n = WIDTH,
                                                          .k = LENGTH,
                                                          .a = a,
                                                          .lda = LENGTH,
                                                          .b = b,
                                                          .ldb = WIDTH,
                                                          .c = c,
                                                          .ldc = WIDTH}),
                     TD_OK);
    assert_close(c[0], LENGTH * (double)1.0001f, 6e-6, 0);
    free(a);
    free(b);
    td_tape_destroy(tape);
}

/* A kernel may be most of a network: multiplying by it does not take its memory once more. */
static void a_large_right_operand_is_not_copied(void **state) {
    (void)state;
    enum { M = 20, N = 16000, K = 300 };
    td_error error = {0};
    float *a = random_floats((int64_t)M * K), *b = random_floats((int64_t)N * K);
    float *c = random_floats((int64_t)M * N);
    for (int i = 0; i < 4; i++) {
        td_tape *tape = td_tape_create(NULL, &error);
        td_threads_set(1 + i / 2);
        assert_int_equal(td__gemm(tape, &(td__gemm_arguments){.m = M,
                                                              .n = N,
                                                              .k = K,
                                                              .a = a,
                                                              .lda = K,
                                                              .b = b,
                                                              .ldb = i % 2 ? K : N,
                                                              .transpose_b = i % 2,
                                                              .c = c,
                                                              .ldc = N}),
                         TD_OK);
        assert_true(td__arena_capacity(tape->arena) < (size_t)N * K * sizeof *b / 8);
        td_tape_destroy(tape);
    }
    free(a);
    free(b);
    free(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_agree_with_sums_written_out),
        cmocka_unit_test(long_inner_dimensions_go_in_blocks),
        cmocka_unit_test(threads_share_rows_or_panels),
        cmocka_unit_test(columns_of_the_left_operand_are_packed_in_any_number),
        cmocka_unit_test(a_few_rows_need_no_packing),
        cmocka_unit_test(a_single_row_has_the_bits_it_has_among_others),
        cmocka_unit_test(long_sums_keep_their_digits),
        cmocka_unit_test(a_large_right_operand_is_not_copied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
