/* What the table of operations does not show: memory, masks of nothing, NaN, moving averages. */
#include "test.h"

#include "base/memory.h"
#include "tapedeck/ops.h"

static td_tensor *filled(td_shape shape, float scale) {
    td_tensor *tensor = td_tensor_create("filled", TD_FLOAT32, shape, NULL);
    assert_non_null(tensor);
    float *values = td_tensor_data(tensor);
    for (int64_t i = 0; i < td_tensor_count(tensor); i++) {
        values[i] = scale * (float)(i * 37 % 101 - 50) / 50.0f;
    }
    return tensor;
}

static void steps_of_sequence_layers_allocate_nothing_once_warm(void **state) {
    (void)state;
    td_error error = {0};
    td_tape *tape = td_tape_create(NULL, &error);
    td_tensor *x = filled(TD_SHAPE(6, 10, 8), 1), *gates = filled(TD_SHAPE(8, 32), 0.3f);
    td_tensor *bias = filled(TD_SHAPE(2, 24), 0.1f), *gru_gates = filled(TD_SHAPE(8, 24), 0.3f);
    uint64_t before = 0;
    for (int step = 0; step < 8; step++) {
        td_recurrent_options options = {.size = sizeof options, .return_sequences = true};
        td_tensor *y = td_lstm(tape, x, gates, gates, NULL, &options);
        y = td_gru(tape, y, gru_gates, gru_gates, bias, true, &options);
        y = td_layer_normalization(tape, y, NULL, NULL, 1e-3f);
        y = td_attention(tape, y, y, y, NULL);
        td_tensor *targets[] = {x, gates, bias, gru_gates}, *gradients[4];
        assert_ok(td_tape_gradient(tape, y, 4, targets, gradients, &error), error);
        td_tape_reset(tape);
        before = step == 2 ? td__allocation_count() : before;
    }
    assert_int_equal(td__allocation_count(), before);
    td_tensor_destroy(x);
    td_tensor_destroy(gates);
    td_tensor_destroy(bias);
    td_tensor_destroy(gru_gates);
    td_tape_destroy(tape);
}

static void a_query_that_may_see_nothing_gets_zeros(void **state) {
    (void)state;
    td_error error = {0};
    td_tape *tape = td_tape_create(NULL, &error);
    td_tensor *x = filled(TD_SHAPE(2, 3), 1);
    float hidden[] = {-INFINITY, -INFINITY, 0, -INFINITY};
    td_tensor *mask = td_tensor_from("mask", TD_FLOAT32, TD_SHAPE(2, 2), hidden, &error);
    td_attention_options options = {.size = sizeof options, .mask = mask};
    td_tensor *y = td_attention(tape, x, x, x, &options), *gradient;
    assert_ok(td_tape_gradient(tape, y, 1, &x, &gradient, &error), error);
    const float *values = td_tensor_data(y), *first = td_tensor_data(x);
    const float *slopes = td_tensor_data(gradient);
    for (int i = 0; i < 3; i++) {
        assert_close(values[i], 0, 0, 0);
        assert_close(values[3 + i], first[i], 1e-6, 0);
        assert_close(slopes[i], 1, 1e-6, 0);
        assert_close(slopes[3 + i], 0, 0, 1e-6);
    }
    td_tensor_destroy(x);
    td_tensor_destroy(mask);
    td_tape_destroy(tape);
}

static void a_hidden_position_cannot_be_seen_through_a_negative_scale(void **state) {
    (void)state;
    td_error error = {0};
    td_tape *tape = td_tape_create(NULL, &error);
    td_tensor *x = filled(TD_SHAPE(20, 4), 1);
    td_attention_options options = {.size = sizeof options, .scale = TD_SET(-0.5f), .causal = true};
    td_tensor *y = td_attention(tape, x, x, x, &options);
    assert_non_null(y);
    assert_memory_equal(td_tensor_data(y), td_tensor_data(x), 4 * sizeof(float));
    td_tensor_destroy(x);
    td_tape_destroy(tape);
}

static void max_pool_lets_nan_through(void **state) {
    (void)state;
    td_error error = {0};
    td_tape *tape = td_tape_create(NULL, &error);
    td_tensor *x = filled(TD_SHAPE(1, 2, 2, 33), 1);
    float *values = td_tensor_data(x);
    values[33 + 5] = values[2 * 33 + 32] = NAN;
    const float *y = td_tensor_data(td_max_pool2d(tape, x, NULL));
    for (int c = 0; c < 33; c++) {
        assert_int_equal(isnan(y[c]), c == 5 || c == 32);
    }
    td_tensor_destroy(x);
    td_tape_destroy(tape);
}

/* What rounding leaves of g - g would become full steps of Adam. */
static void one_row_normalized_has_no_gradient(void **state) {
    (void)state;
    td_error error;
    td_tape *tape = td_tape_create(NULL, &error);
    td_tape_set_training(tape, true);
    float values[] = {0.3f, -1.7f, 2.9f}, weights[] = {0.1f, 0.7f, 1.3f};
    td_tensor *x = td_tensor_from("x", TD_FLOAT32, TD_SHAPE(1, 3), values, &error);
    td_tensor *w = td_tensor_from("w", TD_FLOAT32, TD_SHAPE(1, 3), weights, &error);
    td_tensor *gamma = td_tensor_from("gamma", TD_FLOAT32, TD_SHAPE(3), weights, &error);
    td_tensor *mean = td_tensor_create("mean", TD_FLOAT32, TD_SHAPE(3), &error);
    td_tensor *variance = td_tensor_create("variance", TD_FLOAT32, TD_SHAPE(3), &error);
    td_tensor *y = td_batch_normalization(tape, x, gamma, NULL, mean, variance, NULL), *dx;
    td_tensor *loss = td_sum(tape, td_multiply(tape, y, w), NULL);
    assert_ok(td_tape_gradient(tape, loss, 1, &x, &dx, &error), error);
    for (int i = 0; i < 3; i++) {
        assert_true(((const float *)td_tensor_data(dx))[i] == 0);
    }
    td_tape_destroy(tape);
    td_tensor_destroy(x);
    td_tensor_destroy(w);
    td_tensor_destroy(gamma);
    td_tensor_destroy(mean);
    td_tensor_destroy(variance);
}

/* Two channels, mean 20000 and variance 1 and 4: a sum of squares would keep no digit of them. */
static void a_large_mean_costs_batch_normalization_no_digits(void **state) {
    (void)state;
    td_error error = {0};
    td_tape *tape = td_tape_create(NULL, &error);
    td_tape_set_training(tape, true);
    td_tensor *x = td_tensor_create("x", TD_FLOAT32, TD_SHAPE(1001, 2), &error);
    float *values = td_tensor_data(x);
    for (int i = 0; i < 1000; i++) {
        values[2 * i] = i % 2 ? 19999 : 20001;
        values[2 * i + 1] = i % 2 ? 19998 : 20002;
    }
    values[2000] = values[2001] = 20000;
    td_tensor *mean = td_tensor_create("mean", TD_FLOAT32, TD_SHAPE(2), &error);
    td_tensor *variance = td_tensor_create("variance", TD_FLOAT32, TD_SHAPE(2), &error);
    td_batch_normalization_options options = {.size = sizeof options, .momentum = TD_SET(0.75f)};
    assert_non_null(td_batch_normalization(tape, x, NULL, NULL, mean, variance, &options));
    const float *means = td_tensor_data(mean), *variances = td_tensor_data(variance);
    assert_close(means[0], 0.25 * 20000, 1e-6, 0);
    assert_close(means[1], 0.25 * 20000, 1e-6, 0);
    assert_close(variances[0], 0.25 * 1000 / 1001, 1e-5, 0);
    assert_close(variances[1], 0.25 * 4000 / 1001, 1e-5, 0);
    td_tensor_destroy(x);
    td_tensor_destroy(mean);
    td_tensor_destroy(variance);
    td_tape_destroy(tape);
}

/* float32 has no number near 0.99999999 but 1. */
static void moving_averages_move_by_the_gain(void **state) {
    (void)state;
    td_error error = {0};
    td_tape *tape = td_tape_create(NULL, &error);
    td_tape_set_training(tape, true);
    td_tensor *x = td_tensor_create("x", TD_FLOAT32, TD_SHAPE(8, 1), &error);
    td_tensor *mean = td_tensor_create("mean", TD_FLOAT32, TD_SHAPE(1), &error);
    td_tensor *variance = td_tensor_create("variance", TD_FLOAT32, TD_SHAPE(1), &error);
    for (int i = 0; i < 8; i++) {
        ((float *)td_tensor_data(x))[i] = 3;
    }
    td_batch_normalization_options options = {.size = sizeof options, .momentum = TD_SET(1 - 1e-8)};
    assert_non_null(td_batch_normalization(tape, x, NULL, NULL, mean, variance, &options));
    assert_close(td_tensor_scalar(mean), 3e-8, 1e-6, 0);
    td_tensor_destroy(x);
    td_tensor_destroy(mean);
    td_tensor_destroy(variance);
    td_tape_destroy(tape);
}

static void a_step_without_memory_leaves_the_moving_averages_alone(void **state) {
    (void)state;
    td_error error = {0};
    td_tensor *x = filled(TD_SHAPE(300, 700), 1);
    td_tensor *mean = td_tensor_create("mean", TD_FLOAT32, TD_SHAPE(700), &error);
    td_tensor *variance = td_tensor_create("variance", TD_FLOAT32, TD_SHAPE(700), &error);
    int failures = 0, successes = 0;
    for (uint64_t failing = 1; failing < 20; failing++) {
        float before = td_tensor_scalar(mean);
        td_tape *tape = td_tape_create(NULL, &error);
        assert_non_null(tape);
        td_tape_set_training(tape, true);
        td__allocation_fail_at(failing);
        bool failed = !td_batch_normalization(tape, x, NULL, NULL, mean, variance, NULL);
        td__allocation_fail_at(0);
        assert_int_equal(td_tensor_scalar(mean) == before, failed);
        failures += failed;
        successes += !failed;
        td_tape_destroy(tape);
    }
    assert_true(failures > 0);
    assert_true(successes > 0);
    td_tensor_destroy(x);
    td_tensor_destroy(mean);
    td_tensor_destroy(variance);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_of_sequence_layers_allocate_nothing_once_warm),
        cmocka_unit_test(a_query_that_may_see_nothing_gets_zeros),
        cmocka_unit_test(a_hidden_position_cannot_be_seen_through_a_negative_scale),
        cmocka_unit_test(max_pool_lets_nan_through),
        cmocka_unit_test(one_row_normalized_has_no_gradient),
        cmocka_unit_test(a_large_mean_costs_batch_normalization_no_digits),
        cmocka_unit_test(moving_averages_move_by_the_gain),
        cmocka_unit_test(a_step_without_memory_leaves_the_moving_averages_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
