/* Optimizers and schedules: state by name, resuming, updates, clipping, threads, errors. Equations
 * are checked in golden/test_optimizers.c. */
#include "test.h"

#include "tapedeck/nn.h"

#define LARGE 100003 /* more than one thread's worth, and no multiple of anything */

static td_tensor *tensor(const char *name, int64_t count, int seed) {
    td_error error = {0};
    td_tensor *t = td_tensor_create(name, TD_FLOAT32, TD_SHAPE(count), &error);
    assert_non_null(t);
    for (int64_t i = 0; i < count; i++) {
        ((float *)td_tensor_data(t))[i] = (float)((i * 31 + seed) % 17) / 17.0f - 0.45f;
    }
    return t;
}

static td_optimizer *create(const td_optimizer_options *options, size_t count,
                            td_tensor *const *parameters) {
    td_error error = {0};
    td_optimizer *optimizer = td_optimizer_create(options, count, parameters, &error);
    if (!optimizer) {
        fail_msg("%s", error.text);
    }
    return optimizer;
}

static void step(td_optimizer *optimizer, td_tensor *const *gradients) {
    td_error error = {0};
    assert_ok(td_optimizer_step(optimizer, gradients, &error), error);
}

static void defaults_are_keras(void **state) {
    (void)state;
    td_optimizer *adam = create(TD_OPTIMIZER(.kind = TD_ADAM), 0, NULL);
    const td_optimizer_options *o = td_optimizer_settled(adam);
    assert_true(o->learning_rate.value == 0.001 && o->beta_1.value == 0.9 &&
                o->beta_2.value == 0.999 && o->epsilon.value == 1e-7);
    td_optimizer_destroy(adam);
    td_optimizer *sgd = create(TD_OPTIMIZER(.kind = TD_SGD), 0, NULL);
    assert_true(td_optimizer_settled(sgd)->learning_rate.value == 0.01);
    td_optimizer_destroy(sgd);
    td_optimizer *zero = create(TD_OPTIMIZER(.kind = TD_ADAM, .beta_1 = TD_SET(0)), 0, NULL);
    assert_true(td_optimizer_settled(zero)->beta_1.value == 0);
    const td_setting *settings;
    assert_int_equal(td_optimizer_settings(zero, &settings), 6);
    assert_string_equal(settings[0].key, "learning_rate");
    assert_true(settings[1].value.number == 0 && !signbit(settings[1].value.number));
    td_optimizer_destroy(zero);
}

static void state_is_named_after_the_parameter(void **state) {
    (void)state;
    td_tensor *w[] = {tensor("conv1.kernel", 4, 0), tensor("conv1.bias", 2, 1)};
    td_optimizer *adam = create(TD_OPTIMIZER(.kind = TD_ADAM), 2, w);
    assert_int_equal(td_optimizer_state_count(adam), 4);
    assert_string_equal(td_tensor_name(td_optimizer_state(adam, 0)), "conv1.kernel.m");
    assert_ptr_equal(td_optimizer_find_state(adam, "conv1.bias.v"), td_optimizer_state(adam, 3));
    assert_null(td_optimizer_find_state(adam, "conv2.bias.v"));
    assert_null(td_optimizer_state(adam, 4));
    td_optimizer_destroy(adam);
    td_optimizer *sgd = create(TD_OPTIMIZER(.kind = TD_SGD), 2, w);
    assert_int_equal(td_optimizer_state_count(sgd), 0);
    td_optimizer_destroy(sgd);
    td_optimizer *momentum = create(TD_OPTIMIZER(.kind = TD_SGD, .momentum = 0.9), 2, w);
    assert_int_equal(td_optimizer_state_count(momentum), 2);
    td_optimizer_destroy(momentum);
    td_tensor_destroy(w[0]);
    td_tensor_destroy(w[1]);
}

/* Steps, then a second optimizer with the copied state goes on where the first one is. */
static void copied_state_resumes_to_the_same_bits(void **state) {
    (void)state;
    for (int kind = 0; kind < TD_OPTIMIZER_KIND_COUNT; kind++) {
        const td_optimizer_options *options =
            TD_OPTIMIZER(.kind = (td_optimizer_kind)kind,
                         .schedule = {.kind = TD_SCHEDULE_COSINE, .steps = 20, .warmup = 3});
        td_tensor *w = tensor("w", 37, 0), *g = tensor("g", 37, 5), *copy = tensor("w", 37, 1);
        td_optimizer *first = create(options, 1, &w), *second = create(options, 1, &copy);
        for (int i = 0; i < 10; i++) {
            step(first, &g);
        }
        memcpy(td_tensor_data(copy), td_tensor_data(w), 37 * sizeof(float));
        for (size_t i = 0; i < td_optimizer_state_count(first); i++) {
            memcpy(td_tensor_data(td_optimizer_state(second, i)),
                   td_tensor_data(td_optimizer_state(first, i)), 37 * sizeof(float));
        }
        td_optimizer_set_steps(second, td_optimizer_steps(first));
        for (int i = 0; i < 5; i++) {
            step(first, &g);
            step(second, &g);
        }
        assert_memory_equal(td_tensor_data(w), td_tensor_data(copy), 37 * sizeof(float));
        assert_int_equal(td_optimizer_steps(second), 15);
        td_optimizer_destroy(first);
        td_optimizer_destroy(second);
        td_tensor_destroy(w);
        td_tensor_destroy(g);
        td_tensor_destroy(copy);
    }
}

static void updates_are_what_the_step_added(void **state) {
    (void)state;
    td_error error = {0};
    td_tensor *w[] = {tensor("a", 50, 0), tensor("b", 50, 1)};
    td_tensor *g[] = {tensor("ga", 50, 2), NULL};
    td_optimizer *adam = create(TD_OPTIMIZER(.kind = TD_ADAM, .clip_value = 0.1), 2, w);
    assert_null(td_optimizer_update(adam, 0));
    assert_ok(td_optimizer_keep_update(adam, SIZE_MAX, &error), error);
    assert_string_equal(td_tensor_name(td_optimizer_update(adam, 0)), "a.update");
    float before[50];
    memcpy(before, td_tensor_data(w[0]), sizeof before);
    step(adam, g);
    for (int i = 0; i < 50; i++) {
        float after = ((float *)td_tensor_data(w[0]))[i];
        assert_true(((float *)td_tensor_data(td_optimizer_update(adam, 0)))[i] ==
                    after - before[i]);
        assert_true(((float *)td_tensor_data(td_optimizer_update(adam, 1)))[i] == 0);
    }
    assert_int_equal(td_optimizer_keep_update(adam, 2, &error), TD_RANGE);
    td_optimizer_destroy(adam);
    td_tensor_destroy(w[0]);
    td_tensor_destroy(w[1]);
    td_tensor_destroy(g[0]);
}

static void clipping_leaves_the_gradients_alone(void **state) {
    (void)state;
    td_tensor *w = tensor("w", 3000, 0), *g = tensor("g", 3000, 1), *same = tensor("g", 3000, 1);
    double squares = 0;
    for (int i = 0; i < 3000; i++) {
        double value = (double)((float *)td_tensor_data(g))[i];
        squares += value * value;
    }
    td_optimizer *sgd =
        create(TD_OPTIMIZER(.kind = TD_SGD, .learning_rate = TD_SET(1), .clip_norm = 2), 1, &w);
    float before = ((float *)td_tensor_data(w))[2999];
    step(sgd, &g);
    assert_close(td_optimizer_norm(sgd), sqrt(squares), 1e-6, 0);
    double moved = (double)(before - ((float *)td_tensor_data(w))[2999]);
    assert_close(moved, (double)((float *)td_tensor_data(g))[2999] * 2 / sqrt(squares), 1e-4, 1e-7);
    assert_memory_equal(td_tensor_data(g), td_tensor_data(same), 3000 * sizeof(float));
    td_optimizer_destroy(sgd);
    td_tensor_destroy(w);
    td_tensor_destroy(g);
    td_tensor_destroy(same);
}

/* Parts that threads take begin and end inside of tensors. */
static void two_threads_reach_the_values_of_one(void **state) {
    (void)state;
    float *reference[3] = {0};
    for (int threads = 1; threads <= 3; threads++) {
        td_threads_set(threads);
        td_tensor *w[] = {tensor("a", LARGE, 0), tensor("b", 7, 1), tensor("c", LARGE / 3, 2)};
        td_tensor *g[] = {tensor("a", LARGE, 3), tensor("b", 7, 4), tensor("c", LARGE / 3, 5)};
        td_optimizer *adam = create(TD_OPTIMIZER(.kind = TD_ADAM, .clip_norm = 1), 3, w);
        for (int i = 0; i < 3; i++) {
            step(adam, g);
        }
        for (int i = 0; i < 3; i++) {
            size_t count = (size_t)td_tensor_count(w[i]);
            const float *values = td_tensor_data(w[i]);
            if (threads == 1) {
                reference[i] = malloc(count * sizeof(float));
                memcpy(reference[i], values, count * sizeof(float));
            }
            for (size_t k = 0; k < count; k++) {
                assert_close(values[k], reference[i][k], 1e-6, 1e-7);
            }
            td_tensor_destroy(w[i]);
            td_tensor_destroy(g[i]);
        }
        td_optimizer_destroy(adam);
    }
    for (int i = 0; i < 3; i++) {
        free(reference[i]);
    }
    td_threads_set(1);
}

static void mistakes_are_reported(void **state) {
    (void)state;
    td_error error = {0};
    td_tensor *w = tensor("w", 3, 0), *g = tensor("g", 4, 0);
    td_optimizer *sgd = create(TD_OPTIMIZER(.kind = TD_SGD), 1, &w);
    assert_int_equal(td_optimizer_step(sgd, &g, &error), TD_BAD_SHAPE);
    assert_string_equal(error.text,
                        "the gradient of 'w' is float32 (4,), the parameter float32 (3,)");
    assert_int_equal(td_optimizer_steps(sgd), 0);
    td_optimizer_destroy(sgd);
    assert_null(
        td_optimizer_create(TD_OPTIMIZER(.kind = TD_ADAM, .beta_1 = TD_SET(1)), 1, &w, &error));
    assert_string_equal(error.text, "optimizer: 'beta_1' is 1, it must be less than 1");
    td_optimizer_options options = {.size = sizeof options};
    assert_int_equal(td_optimizer_configure(&options, "adamm", NULL, 0, &error), TD_NOT_FOUND);
    assert_string_equal(error.text, "there is no optimizer 'adamm'; did you mean 'adam'?");
    td_setting setting = {"learning_rat", {.kind = TD_VALUE_NUMBER, .number = 1}};
    assert_int_equal(td_optimizer_configure(&options, "adam", &setting, 1, &error), TD_NOT_FOUND);
    assert_string_equal(
        error.text, "optimizer adam: there is no 'learning_rat'; did you mean 'learning_rate'?");
    setting = (td_setting){"learning_rate", {.kind = TD_VALUE_NUMBER, .number = -1}};
    assert_int_equal(td_optimizer_configure(&options, "adam", &setting, 1, &error), TD_RANGE);
    td_tensor_destroy(w);
    td_tensor_destroy(g);
}

/* --- schedules ---------------------------------------------------------------------------- */

static void schedules_follow_their_equations(void **state) {
    (void)state;
    td_schedule cosine = {
        .kind = TD_SCHEDULE_COSINE, .steps = 100, .end = TD_SET(0.1), .warmup = 10};
    assert_close(td_schedule_rate(&cosine, 2, 0), 0, 0, 0);
    assert_close(td_schedule_rate(&cosine, 2, 5), 1, 1e-12, 0);
    assert_close(td_schedule_rate(&cosine, 2, 10), 2, 1e-12, 0);
    assert_close(td_schedule_rate(&cosine, 2, 60), 2 * (0.9 * 0.5 + 0.1), 1e-12, 0);
    assert_close(td_schedule_rate(&cosine, 2, 110), 0.2, 1e-12, 0);
    assert_close(td_schedule_rate(&cosine, 2, 1000), 0.2, 1e-12, 0);
    td_schedule exponential = {.kind = TD_SCHEDULE_EXPONENTIAL, .steps = 10, .factor = TD_SET(0.5)};
    assert_close(td_schedule_rate(&exponential, 1, 15), pow(0.5, 1.5), 1e-12, 0);
    td_schedule steps = {.kind = TD_SCHEDULE_STEP, .steps = 10};
    assert_close(td_schedule_rate(&steps, 1, 29), 0.01, 1e-12, 0);
    td_schedule linear = {.kind = TD_SCHEDULE_LINEAR, .steps = 10, .end = TD_SET(0)};
    assert_close(td_schedule_rate(&linear, 1, 4), 0.6, 1e-12, 0);
    assert_close(td_schedule_rate(&linear, 1, 40), 0, 0, 1e-15);
    td_schedule polynomial = {.kind = TD_SCHEDULE_POLYNOMIAL, .steps = 10, .power = TD_SET(2)};
    assert_close(td_schedule_rate(&polynomial, 1, 5), (1 - 1e-4) * 0.25 + 1e-4, 1e-12, 0);
    td_schedule pieces = {.kind = TD_SCHEDULE_PIECEWISE,
                          .boundary_count = 2,
                          .value_count = 3,
                          .boundaries = {10, 20},
                          .values = {1, 0.5, 0.1}};
    assert_true(td_schedule_rate(&pieces, 7, 10) == 1);
    assert_true(td_schedule_rate(&pieces, 7, 11) == 0.5);
    assert_true(td_schedule_rate(&pieces, 7, 21) == 0.1);
    td_schedule none = {0};
    assert_true(td_schedule_rate(&none, 7, 21) == 7);
    td_schedule unknown = {.kind = TD_SCHEDULE_COSINE};
    assert_true(td_schedule_rate(&unknown, 7, 21) == 7);
}

static void schedules_are_configured_by_name(void **state) {
    (void)state;
    td_error error = {0};
    td_schedule schedule = {0};
    double values[] = {1, 0.5};
    td_setting pieces[] = {{"boundaries", {.kind = TD_VALUE_NUMBER, .number = 5}},
                           {"values", {.kind = TD_VALUE_NUMBERS, .numbers = values, .count = 2}}};
    assert_ok(td_schedule_configure(&schedule, "piecewise", pieces, 2, &error), error);
    assert_true(td_schedule_rate(&schedule, 9, 6) == 0.5);
    assert_int_equal(td_schedule_configure(&schedule, "piecewise", pieces, 1, &error), TD_INVALID);
    assert_string_equal(error.text, "schedule piecewise: 1 boundaries need 2 values, not 0");
    td_setting end[] = {{"end", {.kind = TD_VALUE_NUMBER, .number = 0}},
                        {"steps", {.kind = TD_VALUE_NUMBER, .number = 4}}};
    assert_ok(td_schedule_configure(&schedule, "linear", end, 2, &error), error);
    td_tensor *w = tensor("w", 1, 0);
    td_optimizer *sgd = create(
        TD_OPTIMIZER(.kind = TD_SGD, .learning_rate = TD_SET(1), .schedule = schedule), 1, &w);
    td_tensor *g = tensor("g", 1, 0);
    for (int i = 0; i < 5; i++) {
        step(sgd, &g);
        assert_close(td_optimizer_rate(sgd), 1 - 0.25 * i, 1e-12, 1e-12);
    }
    const td_setting *settings;
    assert_int_equal(td_schedule_settings(sgd, &settings), 3);
    assert_string_equal(settings[2].key, "end");
    assert_int_equal(td_schedule_configure(&schedule, "cosinus", NULL, 0, &error), TD_NOT_FOUND);
    assert_string_equal(error.text,
                        "there is no learning-rate schedule 'cosinus'; did you mean 'cosine'?");
    td_optimizer_destroy(sgd);
    td_tensor_destroy(w);
    td_tensor_destroy(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_keras),
        cmocka_unit_test(state_is_named_after_the_parameter),
        cmocka_unit_test(copied_state_resumes_to_the_same_bits),
        cmocka_unit_test(updates_are_what_the_step_added),
        cmocka_unit_test(clipping_leaves_the_gradients_alone),
        cmocka_unit_test(two_threads_reach_the_values_of_one),
        cmocka_unit_test(mistakes_are_reported),
        cmocka_unit_test(schedules_follow_their_equations),
        cmocka_unit_test(schedules_are_configured_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
