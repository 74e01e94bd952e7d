/* How near the kernels' exp, log, tanh, sigmoid, softplus, normal distribution and gelu come to
 * the C library's in double precision, over all magnitudes; and what they make of NaN, infinity
 * and zero. Run for every instruction set the kernels are compiled for. */
#include "test.h"

#include "tape/kernels.h"

enum { COUNT = 1 << 16 };

/* Evenly spaced, ends included. */
static void fill_linear(float *x, double low, double high) {
    for (int i = 0; i < COUNT; i++) {
        x[i] = (float)(low + (high - low) * i / (COUNT - 1));
    }
}

/* Both signs, magnitudes evenly spaced in the exponent. */
static void fill_magnitudes(float *x, double low, double high) {
    for (int i = 0; i < COUNT; i++) {
        double exponent = log2(low) + (log2(high) - log2(low)) * (i / 2) / (COUNT / 2 - 1);
        x[i] = (float)(i % 2 ? -exp2(exponent) : exp2(exponent));
    }
}

/* The error in units of the last place that a float32 of the true value's size has; below the
 * smallest normal number, of that one's. */
static double units(float value, double truth) {
    if ((double)value == truth || (isnan(value) && isnan(truth))) {
        return 0;
    }
    int exponent;
    frexp(truth, &exponent);
    exponent = exponent < -125 ? -125 : exponent;
    return fabs((double)value - truth) / ldexp(1, exponent - 24);
}

typedef void kernel(int64_t n, const float *x, float *y);

static void expect_units(kernel *compute, double (*truth)(double), const float *x, double most) {
    static float y[COUNT];
    compute(COUNT, x, y);
    double worst = 0;
    int at = 0;
    for (int i = 0; i < COUNT; i++) {
        double error = units(y[i], truth((double)x[i]));
        if (!(error <= worst)) {
            worst = error;
            at = i;
        }
    }
    if (!(worst <= most)) {
        fail_msg("f(%.9g) is %.9g, should be %.9g: %.2f units", (double)x[at], (double)y[at],
                 truth((double)x[at]), worst);
    }
}

/* |error| <= absolute + relative |truth| */
static void expect_near(kernel *compute, double (*truth)(double), const float *x, double relative,
                        double absolute) {
    static float y[COUNT];
    compute(COUNT, x, y);
    for (int i = 0; i < COUNT; i++) {
        double expected = truth((double)x[i]);
        if (!(fabs((double)y[i] - expected) <= absolute + relative * fabs(expected))) {
            fail_msg("f(%.9g) is %.9g, should be %.9g", (double)x[i], (double)y[i], expected);
        }
    }
}

static float at(kernel *compute, float x) {
    float y;
    compute(1, &x, &y);
    return y;
}

#define UNARY(name, member)                                                                        \
    static void name(int64_t n, const float *x, float *y) {                                        \
        td__kernels()->unary[TD__##member](n, 0, 0, x, y);                                         \
    }
#define ACTIVATION(name, member)                                                                   \
    static void name(int64_t n, const float *x, float *y) {                                        \
        td__kernels()->activate[TD_##member](n, 1, x, y);                                          \
    }
UNARY(kernel_exp, EXP)
UNARY(kernel_log, LOG)
UNARY(kernel_erf, ERF)
ACTIVATION(kernel_tanh, TANH)
ACTIVATION(kernel_sigmoid, SIGMOID)
ACTIVATION(kernel_softplus, SOFTPLUS)
ACTIVATION(kernel_gelu, GELU)
ACTIVATION(kernel_gelu_tanh, GELU_TANH)

static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}
static double softplus(double x) {
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}
static double gelu(double x) {
    return x * erfc(-x / sqrt(2)) / 2;
}
static double gelu_tanh(double x) {
    return x / 2 * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
}

static float x[COUNT];

static void exp_is_within_2_units(void **state) {
    (void)state;
    fill_linear(x, -87, 88.7);
    expect_units(kernel_exp, exp, x, 2);
    fill_magnitudes(x, 1e-30, 80);
    expect_units(kernel_exp, exp, x, 2);
    assert_true(at(kernel_exp, 0) == 1);
    assert_true(at(kernel_exp, 89) == INFINITY);
    assert_true(at(kernel_exp, INFINITY) == INFINITY);
    assert_true(at(kernel_exp, -INFINITY) == 0);
    assert_true(at(kernel_exp, -200) == 0);
    assert_true(isnan(at(kernel_exp, NAN)));
}

static void exp_of_very_negative_numbers_is_a_denormal_or_zero(void **state) {
    (void)state;
    fill_linear(x, -110, -87);
    expect_near(kernel_exp, exp, x, 0, 1.2e-38); /* where denormals are flushed, all of it */
}

/* A row of 0 and x: e^x / (1 + e^x), by exponentials of what is not above 0. */
static void exponentials_of_a_softmax_are_right_down_to_the_smallest(void **state) {
    (void)state;
    for (int i = 0; i <= 8700; i++) {
        float row[2] = {0, (float)i / -100.0f}, y[2];
        td__kernels()->softmax(1, 2, row, y);
        double e = exp((double)row[1]);
        assert_close(y[1] / y[0], e, 4e-7, 0);
        assert_close(y[0], 1 / (1 + e), 2e-7, 0);
    }
    static const float beyond[] = {-88, -200, -1e30f, -INFINITY};
    for (size_t i = 0; i < sizeof beyond / sizeof *beyond; i++) {
        float row[2] = {0, beyond[i]}, y[2];
        td__kernels()->softmax(1, 2, row, y);
        assert_true(y[0] == 1 && y[1] == 0);
    }
    float row[3] = {0, NAN, -1}, y[3];
    td__kernels()->softmax(1, 3, row, y);
    assert_true(isnan(y[0]) && isnan(y[1]) && isnan(y[2]));
}

static void log_is_within_2_units(void **state) {
    (void)state;
    fill_linear(x, 0.25, 4);
    expect_units(kernel_log, log, x, 2);
    fill_magnitudes(x, 1.2e-38, 3.4e38);
    for (int i = 0; i < COUNT; i++) {
        x[i] = fabsf(x[i]);
    }
    expect_units(kernel_log, log, x, 2);
    assert_true(at(kernel_log, 1) == 0);
    assert_true(at(kernel_log, 0) == -INFINITY);
    assert_true(at(kernel_log, INFINITY) == INFINITY);
    assert_true(isnan(at(kernel_log, -1)));
    assert_true(isnan(at(kernel_log, -INFINITY)));
    assert_true(isnan(at(kernel_log, NAN)));
    assert_close(at(kernel_log, 1e-40f), log(1e-40), 1e-4, 0); /* a denormal, not flushed here */
}

static void tanh_is_within_3_units(void **state) {
    (void)state;
    fill_linear(x, -12, 12);
    expect_units(kernel_tanh, tanh, x, 3);
    fill_magnitudes(x, 1e-30, 1e30);
    expect_units(kernel_tanh, tanh, x, 3);
    assert_true(at(kernel_tanh, INFINITY) == 1);
    assert_true(at(kernel_tanh, -INFINITY) == -1);
    assert_true(isnan(at(kernel_tanh, NAN)));
}

static void sigmoid_is_within_3_units(void **state) {
    (void)state;
    fill_linear(x, -87, 87);
    expect_units(kernel_sigmoid, sigmoid, x, 3);
    fill_magnitudes(x, 1e-30, 80);
    expect_units(kernel_sigmoid, sigmoid, x, 3);
    assert_true(at(kernel_sigmoid, 1000) == 1);
    assert_true(at(kernel_sigmoid, -1000) == 0);
    assert_true(at(kernel_sigmoid, -INFINITY) == 0);
    assert_true(isnan(at(kernel_sigmoid, NAN)));
}

static void softplus_is_within_3_units(void **state) {
    (void)state;
    fill_linear(x, -80, 80);
    expect_units(kernel_softplus, softplus, x, 3);
    fill_magnitudes(x, 1e-30, 80);
    expect_units(kernel_softplus, softplus, x, 3);
    assert_true(at(kernel_softplus, 1000) == 1000);
    assert_true(at(kernel_softplus, -1000) == 0);
    assert_true(isnan(at(kernel_softplus, NAN)));
}

static void erf_is_within_2_units(void **state) {
    (void)state;
    fill_linear(x, -5, 5);
    expect_units(kernel_erf, erf, x, 2);
    fill_magnitudes(x, 1e-30, 1e30);
    expect_units(kernel_erf, erf, x, 2);
    assert_true(at(kernel_erf, INFINITY) == 1);
    assert_true(at(kernel_erf, -INFINITY) == -1);
    assert_true(isnan(at(kernel_erf, NAN)));
}

/* The left tail comes from a subtraction of exponents and ends at -5.8: absolute there. */
static void gelu_is_within_a_millionth(void **state) {
    (void)state;
    fill_linear(x, -10, 10);
    expect_near(kernel_gelu, gelu, x, 1e-6, 2e-8);
    fill_magnitudes(x, 1e-20, 5);
    expect_near(kernel_gelu, gelu, x, 1e-6, 2e-8);
    fill_linear(x, -1, 1);
    expect_near(kernel_gelu, gelu, x, 1e-6, 0);
    assert_true(at(kernel_gelu, 100) == 100);
    assert_true(at(kernel_gelu, -100) == 0);
    assert_true(isnan(at(kernel_gelu, NAN)));
}

static void gelu_tanh_is_within_a_millionth(void **state) {
    (void)state;
    fill_linear(x, -10, 10);
    expect_near(kernel_gelu_tanh, gelu_tanh, x, 1e-6, 3e-7);
    assert_true(at(kernel_gelu_tanh, 100) == 100);
    assert_true(at(kernel_gelu_tanh, -100) == 0);
    assert_true(isnan(at(kernel_gelu_tanh, NAN)));
}

/* The vector loop, its remainder and a single element must agree. */
static void every_length_gives_the_same_values(void **state) {
    (void)state;
    float whole[67], part[67];
    fill_linear(x, -3, 3);
    kernel_gelu(67, x, whole);
    for (int n = 1; n <= 67; n++) {
        kernel_gelu(n, x, part);
        for (int i = 0; i < n; i++) {
            assert_close(part[i], whole[i], 2e-7, 0);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_is_within_2_units),
        cmocka_unit_test(exp_of_very_negative_numbers_is_a_denormal_or_zero),
        cmocka_unit_test(exponentials_of_a_softmax_are_right_down_to_the_smallest),
        cmocka_unit_test(log_is_within_2_units),
        cmocka_unit_test(tanh_is_within_3_units),
        cmocka_unit_test(sigmoid_is_within_3_units),
        cmocka_unit_test(softplus_is_within_3_units),
        cmocka_unit_test(erf_is_within_2_units),
        cmocka_unit_test(gelu_is_within_a_millionth),
        cmocka_unit_test(gelu_tanh_is_within_a_millionth),
        cmocka_unit_test(every_length_gives_the_same_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
