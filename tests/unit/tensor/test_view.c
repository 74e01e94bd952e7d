/* Views of any type and in any order of memory. */
#include "test.h"

#include "base/little.h"
#include "tapedeck/stats.h"

#include <math.h>
#include <string.h>

static double one(td_dtype dtype, uint64_t bits) {
    uint64_t number;
    td__store64(&number, bits);
    td__little_copy(&number, &number, td_dtype_size(dtype), td_dtype_size(dtype));
    td_view view = {.dtype = dtype, .data = &number};
    return td_view_element(&view, 0);
}

static void halves_are_the_numbers_that_ieee_says(void **state) {
    (void)state;
    assert_true(one(TD_FLOAT16, 0x3c00) == 1);
    assert_true(one(TD_FLOAT16, 0xc000) == -2);
    assert_true(one(TD_FLOAT16, 0x7bff) == 65504);
    assert_true(one(TD_FLOAT16, 0x0400) == ldexp(1, -14));
    assert_true(one(TD_FLOAT16, 0x03ff) == ldexp(1023, -24));
    assert_true(one(TD_FLOAT16, 0x0001) == ldexp(1, -24));
    assert_true(one(TD_FLOAT16, 0x8001) == -ldexp(1, -24));
    assert_true(one(TD_FLOAT16, 0) == 0 && signbit(one(TD_FLOAT16, 0x8000)));
    assert_true(one(TD_FLOAT16, 0x7c00) == (double)INFINITY);
    assert_true(one(TD_FLOAT16, 0xfc00) == -(double)INFINITY);
    assert_true(isnan(one(TD_FLOAT16, 0x7e01)));
    assert_true(one(TD_BFLOAT16, 0x3f80) == 1);
    assert_true(one(TD_BFLOAT16, 0x0001) == ldexp(1, -133));
    assert_true(isnan(one(TD_BFLOAT16, 0x7fc0)));
    assert_true(one(TD_BOOL, 7) == 1);
    assert_true(one(TD_UINT64, UINT64_MAX) == (double)UINT64_MAX);
    assert_true(one(TD_INT8, 0xff) == -1);
}

/* Element (i, k, l, m) of a view is 1000 i + 100 k + 10 l + m, whatever its order in memory. */
static void strided_views_are_packed_in_logical_order(void **state) {
    (void)state;
    enum { N = 2, C = 3, H = 4, W = 5, ALL = N * C * H * W };
    const td_dtype dtypes[] = {TD_UINT8, TD_INT16, TD_FLOAT32, TD_FLOAT64};
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        size_t size = td_dtype_size(dtypes[d]);
        unsigned char last[ALL * 8], expected[ALL * 8]; /* channels last, and row-major */
        for (int i = 0, at = 0; i < N; i++) {
            for (int k = 0; k < C; k++) {
                for (int l = 0; l < H; l++) {
                    for (int m = 0; m < W; m++, at++) {
                        int64_t value =
                            dtypes[d] == TD_UINT8 ? at : 1000 * i + 100 * k + 10 * l + m;
                        memcpy(expected + (size_t)at * size, &value, size);
                        int there = ((i * H + l) * W + m) * C + k;
                        memcpy(last + (size_t)there * size, &value, size);
                    }
                }
            }
        }
        td_view view = {.dtype = dtypes[d], .shape = TD_SHAPE(N, C, H, W), .data = last}, packed;
        const int64_t channels_last[] = {H * W * C, 1, W * C, C};
        assert_int_equal(td_view_pack(&view, channels_last, &packed, NULL), TD_OK);
        assert_memory_equal(packed.data, expected, ALL * size);
        assert_non_null(packed.release);
        packed.release(packed.owner);
        const int64_t plain[] = {C * H * W, H * W, W, 1};
        assert_int_equal(td_view_pack(&view, plain, &packed, NULL), TD_OK);
        assert_ptr_equal(packed.data, last);
        assert_null(packed.release);
    }
}

static void views_may_repeat_and_run_backwards(void **state) {
    (void)state;
    const float x[] = {1, 2, 3};
    td_view view = {.dtype = TD_FLOAT32, .shape = TD_SHAPE(2, 3), .data = x}, packed;
    assert_int_equal(td_view_pack(&view, (const int64_t[]){0, 1}, &packed, NULL), TD_OK);
    assert_memory_equal(packed.data, ((float[]){1, 2, 3, 1, 2, 3}), 6 * sizeof(float));
    packed.release(packed.owner);
    view = (td_view){.dtype = TD_FLOAT32, .shape = TD_SHAPE(3), .data = x + 2};
    assert_int_equal(td_view_pack(&view, (const int64_t[]){-1}, &packed, NULL), TD_OK);
    assert_memory_equal(packed.data, ((float[]){3, 2, 1}), 3 * sizeof(float));
    packed.release(packed.owner);
    view.shape = TD_SHAPE(0, 7);
    assert_int_equal(td_view_pack(&view, (const int64_t[]){1, 99}, &packed, NULL), TD_OK);
    assert_null(packed.release);
}

static void count_release(void *owner) {
    ++*(int *)owner;
}

static void memory_is_let_go_once_it_is_copied_or_refused(void **state) {
    (void)state;
    int released = 0;
    const float x[] = {1, 2, 3, 4};
    td_view view = {TD_FLOAT32, TD_SHAPE(2, 2), x, count_release, &released}, packed;
    assert_int_equal(td_view_pack(&view, (const int64_t[]){2, 1}, &packed, NULL), TD_OK);
    assert_int_equal(released, 0);
    assert_int_equal(td_view_pack(&view, (const int64_t[]){1, 2}, &packed, NULL), TD_OK);
    assert_int_equal(released, 1);
    packed.release(packed.owner);
    view.shape.dims[0] = -1;
    assert_int_not_equal(td_view_pack(&view, (const int64_t[]){1, 2}, &packed, NULL), TD_OK);
    assert_int_equal(released, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(halves_are_the_numbers_that_ieee_says),
        cmocka_unit_test(strided_views_are_packed_in_logical_order),
        cmocka_unit_test(views_may_repeat_and_run_backwards),
        cmocka_unit_test(memory_is_let_go_once_it_is_copied_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
