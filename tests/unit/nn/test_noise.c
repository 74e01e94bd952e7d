/* Layers that change numbers at random in training, by their definitions in Keras's documentation. */
#include "test.h"

#include "tapedeck/nn.h"

#include <math.h>

enum { ROWS = 40, STEPS = 6, CHANNELS = 50, ALL = ROWS * STEPS * CHANNELS };

/* A model of one layer over (batch, 6, 50) elements of one value, in training: its output. */
static void run(td_model *model, float value, float out[ALL]) {
    td_error error = {0};
    assert_ok(td_model_build(model, 1, &error), error);
    td_tape *tape = td_tape_create(NULL, NULL);
    td_tape_set_training(tape, true);
    static float data[ALL];
    for (int i = 0; i < ALL; i++) {
        data[i] = value;
    }
    td_tensor *x = td_tensor_from("x", TD_FLOAT32, TD_SHAPE(ROWS, STEPS, CHANNELS), data, &error);
    td_tensor *y = td_model_forward(model, tape, x);
    assert_ok(td_tape_status(tape, &error), error);
    memcpy(out, td_tensor_data(y), sizeof(float) * ALL);
    td_tape_destroy(tape);
    td_tensor_destroy(x);
    td_model_destroy(model);
}

static void mean_and_variance(const float x[ALL], double *mean, double *variance) {
    double sum = 0, squares = 0;
    for (int i = 0; i < ALL; i++) {
        sum += (double)x[i];
        squares += (double)x[i] * (double)x[i];
    }
    *mean = sum / ALL;
    *variance = squares / ALL - *mean * *mean;
}

static void spatial_dropout_drops_whole_channels(void **state) {
    (void)state;
    static float y[ALL];
    td_model *model = td_model_create("m", TD_SHAPE(STEPS, CHANNELS));
    td_add_spatial_dropout1d(model, .rate = 0.25);
    run(model, 3, y);
    int dropped = 0;
    for (int row = 0; row < ROWS; row++) {
        for (int channel = 0; channel < CHANNELS; channel++) {
            float first = y[row * STEPS * CHANNELS + channel];
            assert_true(first == 0 || fabsf(first - 4) < 1e-5f);
            dropped += first == 0;
            for (int step = 1; step < STEPS; step++) {
                assert_true(y[(row * STEPS + step) * CHANNELS + channel] == first);
            }
        }
    }
    assert_close(dropped, 0.25 * ROWS * CHANNELS, 0, 4 * sqrt(0.25 * 0.75 * ROWS * CHANNELS));
}

static void gaussian_dropout_multiplies_by_numbers_around_one(void **state) {
    (void)state;
    static float y[ALL];
    td_model *model = td_model_create("m", TD_SHAPE(STEPS, CHANNELS));
    td_add_gaussian_dropout(model, .rate = 0.2);
    run(model, 2, y);
    double mean, variance; /* of 2 n: 2, and 4 * 0.2 / 0.8 */
    mean_and_variance(y, &mean, &variance);
    assert_close(mean, 2, 0, 4 * sqrt(1.0 / ALL));
    assert_close(variance, 1, 0, 4 * sqrt(2.0 / ALL));
}

enum { MANY = 100003 };

/* td_gaussian_noise of nothing with 2 as its deviation, by that many threads. */
static void noise_of(int threads, uint64_t seed, float out[MANY]) {
    td_error error = {0};
    td_tape *tape = td_tape_create(NULL, NULL);
    td_tape_set_training(tape, true);
    td_tape_seed(tape, seed, 0);
    td_threads_set(threads);
    td_tensor *x = td_tensor_create("x", TD_FLOAT32, TD_SHAPE(MANY), &error);
    memset(td_tensor_data(x), 0, sizeof(float) * MANY);
    td_tensor *y = td_gaussian_noise(tape, x, 2);
    assert_ok(td_tape_status(tape, &error), error);
    memcpy(out, td_tensor_data(y), sizeof(float) * MANY);
    td_tape_destroy(tape);
    td_tensor_destroy(x);
}

static int by_size(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void gaussian_noise_is_normal_and_the_same_for_any_threads(void **state) {
    (void)state;
    static float one[MANY], three[MANY], other[MANY];
    noise_of(1, 5, one);
    noise_of(3, 5, three);
    noise_of(1, 6, other);
    assert_memory_equal(one, three, sizeof one);
    double away = 0, with[4] = {0}; /* what neighbours near and far have to do with one another */
    const int apart[] = {1, 4, 64, 128};
    for (int k = 0; k < 4; k++) {
        for (int i = 0; i + apart[k] < MANY; i++) {
            with[k] += (double)one[i] * (double)one[i + apart[k]] / 4;
        }
        assert_close(with[k], 0, 0, 4 * sqrt(MANY));
    }
    for (int i = 0; i < MANY; i++) {
        away += (double)one[i] * (double)other[i] / 4;
    }
    assert_close(away, 0, 0, 4 * sqrt(MANY));
    qsort(one, MANY, sizeof *one, by_size);
    for (int i = 0; i < MANY; i++) { /* Kolmogorov and Smirnov: once in a thousand seeds */
        double below = 0.5 * erfc(-(double)one[i] / 2 / sqrt(2));
        assert_close(below, (i + 0.5) / MANY, 0, 1.95 / sqrt(MANY));
    }
    assert_in_range(-one[0] * 100, 700, 1200); /* 3.5 to 6 deviations */
    assert_in_range(one[MANY - 1] * 100, 700, 1200);
}

/* Of an input that is 0 everywhere y is a s + b for a share, else b. */
static void alpha_dropout_keeps_mean_and_variance(void **state) {
    (void)state;
    static float y[ALL];
    double rate = 0.3, s = -1.7580993408473766, a = 1 / sqrt((1 - rate) * (1 + rate * s * s));
    double b = -a * s * rate;
    td_model *model = td_model_create("m", TD_SHAPE(STEPS, CHANNELS));
    td_add_alpha_dropout(model, .rate = rate);
    run(model, 0, y);
    int dropped = 0;
    for (int i = 0; i < ALL; i++) {
        bool gone = fabs((double)y[i] - (a * s + b)) < 1e-5;
        assert_true(gone || fabs((double)y[i] - b) < 1e-5);
        dropped += gone;
    }
    assert_close(dropped, rate * ALL, 0, 4 * sqrt(rate * (1 - rate) * ALL));
    double mean, variance;
    mean_and_variance(y, &mean, &variance);
    assert_close(mean, 0, 0, 0.03);
    assert_close(variance, a * a * s * s * rate * (1 - rate), 0.03, 0);
}

static void rates_of_one_are_refused(void **state) {
    (void)state;
    td_error error = {0};
    const td_layer_kind kinds[] = {TD_LAYER_SPATIAL_DROPOUT1D, TD_LAYER_GAUSSIAN_DROPOUT};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        td_model *model = td_model_create("m", TD_SHAPE(STEPS, CHANNELS));
        td_model_add_layer(model, kinds[i],
                           &(td_rate_layer){.size = sizeof(td_rate_layer), .rate = 1});
        assert_int_equal(td_model_build(model, 1, &error), TD_RANGE);
        assert_non_null(strstr(error.text, "'rate' is 1, it must be less than 1"));
        td_model_destroy(model);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spatial_dropout_drops_whole_channels),
        cmocka_unit_test(gaussian_dropout_multiplies_by_numbers_around_one),
        cmocka_unit_test(gaussian_noise_is_normal_and_the_same_for_any_threads),
        cmocka_unit_test(alpha_dropout_keeps_mean_and_variance),
        cmocka_unit_test(rates_of_one_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
