/* Arithmetic with sizes that are not known. */
#include "test.h"

#include "graph/sizes.h"

static bool same(td__graph_size a, td__graph_size b) {
    return td__graph_same_size(a, b);
}

static td__graph_size linear(td__graph_size of, int64_t times, int64_t plus) {
    return (td__graph_size){of.symbol, of.times * times, of.plus * times + plus};
}

static void numbers_are_calculated(void **state) {
    (void)state;
    td__graph_sizes s = {0};
    td__graph_size seven = td__onnx_number(7), three = td__onnx_number(3);
    assert_true(td__graph_is_size(td__graph_size_add(&s, seven, three), 10));
    assert_true(td__graph_is_size(td__graph_size_multiply(&s, seven, three), 21));
    assert_true(td__graph_is_size(td__graph_size_divide(&s, seven, 2), 3));
    assert_true(td__graph_is_size(td__graph_size_divide(&s, td__onnx_number(-7), 2), -4));
}

static void what_is_linear_stays_so(void **state) {
    (void)state;
    td__graph_sizes s = {0};
    td__graph_size n = td__graph_any_size(&s);
    td__graph_size twice = td__graph_size_add(&s, n, n);
    assert_true(same(twice, linear(n, 2, 0)));
    assert_true(same(td__graph_size_divide(&s, linear(n, 4, 6), 2), linear(n, 2, 3)));
    assert_true(td__graph_is_size(td__graph_size_add(&s, n, linear(n, -1, 0)), 0));
    assert_true(td__graph_is_size(td__graph_size_scale(&s, n, 0), 0));
    assert_false(same(td__graph_size_add(&s, n, td__graph_any_size(&s)), n));
}

/* A convolution of 3 with padding, and one of 1 without, both with a stride of 2. */
static void two_ways_to_halve_are_one(void **state) {
    (void)state;
    td__graph_sizes s = {0};
    td__graph_size n = td__graph_any_size(&s), one = td__onnx_number(1);
    td__graph_size a = td__graph_size_add(&s, td__graph_size_divide(&s, linear(n, 1, -1), 2), one);
    td__graph_size b = td__graph_size_divide(&s, linear(n, 1, 1), 2);
    assert_true(same(a, b));
    assert_false(same(a, td__graph_size_divide(&s, n, 2)));
    td__graph_size quarter = td__graph_size_divide(&s, td__graph_size_divide(&s, n, 2), 2);
    assert_true(same(quarter, td__graph_size_divide(&s, n, 4)));
}

static void what_is_left_of_a_product_is_found(void **state) {
    (void)state;
    td__graph_sizes s = {0};
    td__graph_size n = td__graph_any_size(&s), t = td__graph_any_size(&s), w = td__onnx_number(64);
    td__graph_size heads = td__onnx_number(4), each = td__onnx_number(16);
    assert_true(same(td__graph_size_left(&s, 3, (td__graph_size[]){n, t, w}, 3,
                                         (td__graph_size[]){t, heads, each}),
                     n));
    td__graph_size rows = td__graph_size_multiply(&s, t, n);
    assert_true(same(rows, td__graph_size_multiply(&s, n, t)));
    assert_true(same(
        td__graph_size_left(&s, 2, (td__graph_size[]){rows, w}, 2, (td__graph_size[]){n, w}), t));
    /* 64 t / 48 is not known to be anything */
    td__graph_size other = td__graph_size_left(&s, 2, (td__graph_size[]){t, w}, 1,
                                               (td__graph_size[]){td__onnx_number(48)});
    assert_false(td__graph_is_number(other));
    assert_false(same(other, t));
}

static void numbers_that_grow_without_end_are_any_size(void **state) {
    (void)state;
    td__graph_sizes s = {0};
    td__graph_size n = td__graph_any_size(&s), square = n, large = td__onnx_number(INT64_MAX);
    for (int i = 0; i < 1000; i++) {
        square = td__graph_size_multiply(&s, square, square);
    }
    assert_true(s.count <= TD__GRAPH_MAX_SYMBOLS);
    assert_false(td__graph_is_number(td__graph_size_left(&s, 1, &square, 1, &n)));
    assert_false(td__graph_is_number(td__graph_size_add(&s, large, large)));
    assert_false(td__graph_is_number(td__graph_size_multiply(&s, large, large)));
    assert_false(td__graph_is_number(td__graph_size_divide(
        &s, td__graph_size_divide(&s, linear(n, 3, INT64_MAX - 1), INT64_MAX - 2), INT64_MAX)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_calculated),
        cmocka_unit_test(what_is_linear_stays_so),
        cmocka_unit_test(two_ways_to_halve_are_one),
        cmocka_unit_test(what_is_left_of_a_product_is_found),
        cmocka_unit_test(numbers_that_grow_without_end_are_any_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
