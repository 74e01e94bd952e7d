/* What central differences cannot show: ties, corners, NaN, and random masks. */
#include "test.h"

#include "tapedeck/ops.h"

static td_tape *tape;
static td_error error;

static int setup(void **state) {
    (void)state;
    tape = td_tape_create(NULL, &error);
    return !tape;
}

static int teardown(void **state) {
    (void)state;
    td_tape_destroy(tape);
    return 0;
}

/* The gradient of sum(of) in x, and its first element. */
static const float *gradient(td_tensor *of, td_tensor *x) {
    td_tensor *result;
    assert_ok(td_tape_gradient(tape, of, 1, &x, &result, &error), error);
    return td_tensor_data(result);
}

static td_tensor *row(int64_t n, float *values) {
    td_tensor *x = td_tensor_borrow("x", TD_FLOAT32, TD_SHAPE(n), values, &error);
    assert_non_null(x);
    return x;
}

static void equal_operands_of_maximum_share_the_gradient(void **state) {
    (void)state;
    td_tensor *a = row(3, (float[]){1, 2, 3}), *b = row(3, (float[]){1, 3, 2});
    td_tensor *most = td_maximum(tape, a, b), *least = td_minimum(tape, a, b);
    const float *d = gradient(most, a);
    assert_true(d[0] == 0.5f && d[1] == 0 && d[2] == 1);
    d = gradient(least, b);
    assert_true(d[0] == 0.5f && d[1] == 0 && d[2] == 1);
    td_tensor_destroy(a);
    td_tensor_destroy(b);
}

static void equal_extremes_share_the_gradient(void **state) {
    (void)state;
    td_tensor *x = row(5, (float[]){4, -1, 4, 4, -1});
    const float *d = gradient(td_max(tape, x, NULL), x);
    assert_close(d[0], 1.0 / 3, 1e-6, 0);
    assert_true(d[1] == 0 && d[2] == d[0] && d[3] == d[0] && d[4] == 0);
    d = gradient(td_min(tape, x, NULL), x);
    assert_true(d[0] == 0 && d[1] == 0.5f && d[4] == 0.5f);
    td_tensor_destroy(x);
}

/* As Keras and PyTorch have it: zeros are common after a relu. */
static void corners_take_the_slope_from_below(void **state) {
    (void)state;
    td_tensor *x = row(3, (float[]){-1, 0, 1});
    const float *d = gradient(td_activate(tape, x, TD_LEAKY_RELU, TD_SET(0.1f)), x);
    assert_true(d[0] == 0.1f && d[1] == 0.1f && d[2] == 1);
    d = gradient(td_activate(tape, x, TD_ELU, TD_SET(0.5f)), x);
    assert_true(d[1] == 0.5f && d[2] == 1);
    d = gradient(td_activate(tape, x, TD_RELU, TD_DEFAULT), x);
    assert_true(d[0] == 0 && d[1] == 0 && d[2] == 1);
    td_tensor_destroy(x);
}

static void a_slope_may_be_zero_or_negative(void **state) {
    (void)state;
    td_tensor *x = row(2, (float[]){-2, 2});
    td_tensor *flat = td_activate(tape, x, TD_LEAKY_RELU, TD_SET(0));
    assert_true(((const float *)td_tensor_data(flat))[0] == 0 && gradient(flat, x)[0] == 0);
    td_tensor *folded = td_activate(tape, x, TD_LEAKY_RELU, TD_SET(-0.5f));
    assert_true(((const float *)td_tensor_data(folded))[0] == 1);
    const float *d = gradient(folded, x);
    assert_true(d[0] == -0.5f && d[1] == 1);
    assert_null(td_activate(tape, x, TD_ELU, TD_SET(-1)));
    td_tensor_destroy(x);
}

static void a_nan_is_not_hidden(void **state) {
    (void)state;
    float values[40] = {0};
    for (int at = 0; at < 40; at += 13) {
        values[at] = NAN;
        td_tensor *x = row(40, values), *zero = td_affine(tape, x, 0, 0);
        assert_true(isnan(td_tensor_scalar(td_max(tape, x, NULL))));
        assert_true(isnan(td_tensor_scalar(td_min(tape, x, NULL))));
        assert_true(isnan(((float *)td_tensor_data(td_clip(tape, x, -1, 1)))[at]));
        assert_true(isnan(((float *)td_tensor_data(td_maximum(tape, x, zero)))[at]));
        assert_true(isnan(((float *)td_tensor_data(td_minimum(tape, zero, x)))[at]));
        td_tensor *columns = td_reshape(tape, x, TD_SHAPE(20, 2));
        td_reduce_options first = {.size = sizeof first, .count = 1, .axes = {0}};
        assert_true(isnan(((float *)td_tensor_data(td_max(tape, columns, &first)))[at % 2]));
        values[at] = 0;
        td_tensor_destroy(x);
    }
}

static void corners_have_the_derivative_of_tensorflow(void **state) {
    (void)state;
    td_tensor *x = row(3, (float[]){0, -1, 1}), *two = row(1, (float[]){2});
    const float *d = gradient(td_absolute(tape, x), x);
    assert_true(d[0] == 0 && d[1] == -1 && d[2] == 1);
    d = gradient(td_clip(tape, x, -1, 0.5f), x);
    assert_true(d[0] == 1 && d[1] == 1 && d[2] == 0);
    td_tensor *power = td_power(tape, x, two);
    d = gradient(power, x);
    assert_true(d[0] == 0 && d[1] == -2 && d[2] == 2);
    assert_close(*gradient(power, two), 0, 0, 0); /* ln of 0 and of -1 count for nothing */
    td_tensor_destroy(x);
    td_tensor_destroy(two);
}

static void a_stopped_gradient_says_that_it_is_none(void **state) {
    (void)state;
    td_tensor *x = row(2, (float[]){1, 2}), *result;
    td_tensor *y = td_square(tape, td_stop_gradient(tape, x));
    assert_ok(td_tape_gradient(tape, y, 1, &x, &result, &error), error);
    assert_true(td_tensor_is_disconnected(result));
    assert_close(td_tensor_scalar(result), 0, 0, 0);
    td_tensor_destroy(x);
}

enum { MASKED = 100000 };

/* Which elements dropout keeps, as bytes. */
static void kept_elements(td_tensor *ones, float rate, uint8_t kept[MASKED]) {
    const float *values = td_tensor_data(td_dropout(tape, ones, rate));
    for (int i = 0; i < MASKED; i++) {
        kept[i] = values[i] != 0;
        assert_true(values[i] == 0 || fabsf(values[i] * (1 - rate) - 1) < 1e-6f);
    }
}

static void dropout_is_the_same_for_every_number_of_threads(void **state) {
    (void)state;
    static uint8_t one[MASKED], other[MASKED];
    td_tensor *x = td_tensor_create("x", TD_FLOAT32, TD_SHAPE(MASKED), &error);
    for (int i = 0; i < MASKED; i++) {
        ((float *)td_tensor_data(x))[i] = 1;
    }
    td_tape_set_training(tape, true);
    for (int threads = 1; threads <= 4; threads++) {
        td_threads_set(threads);
        td_tape_seed(tape, 5, 9);
        kept_elements(x, 0.3f, threads == 1 ? one : other);
        assert_true(threads == 1 || memcmp(one, other, MASKED) == 0);
    }
    int kept = 0;
    for (int i = 0; i < MASKED; i++) {
        kept += one[i];
    }
    assert_in_range(kept, 69400, 70600); /* four standard deviations */
    /* Every operation, step and seed has a mask of its own. */
    int same[3] = {0};
    for (int k = 0; k < 3; k++) {
        if (k > 0) {
            td_tape_seed(tape, k == 1 ? 5 : 6, k == 1 ? 10 : 9);
        }
        kept_elements(x, 0.3f, other);
        for (int i = 0; i < MASKED; i++) {
            same[k] += one[i] == other[i];
        }
        assert_in_range(same[k], 57300, 58700); /* 0.7^2 + 0.3^2 of them, by chance */
    }
    td_tensor_destroy(x);
}

static void dropout_of_everything_leaves_zeros(void **state) {
    (void)state;
    td_tensor *x = row(4, (float[]){1, 2, -3, INFINITY});
    td_tape_set_training(tape, true);
    td_tensor *y = td_dropout(tape, x, 1);
    for (int i = 0; i < 4; i++) {
        assert_true(((float *)td_tensor_data(y))[i] == 0);
    }
    td_tensor_destroy(x);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(equal_operands_of_maximum_share_the_gradient),
        TEST(equal_extremes_share_the_gradient),
        TEST(corners_take_the_slope_from_below),
        TEST(a_slope_may_be_zero_or_negative),
        TEST(a_nan_is_not_hidden),
        TEST(corners_have_the_derivative_of_tensorflow),
        TEST(a_stopped_gradient_says_that_it_is_none),
        TEST(dropout_is_the_same_for_every_number_of_threads),
        TEST(dropout_of_everything_leaves_zeros),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
