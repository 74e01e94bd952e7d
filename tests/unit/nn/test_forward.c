/* Running models: outputs and errors by name, pre-activations, the watcher,
 * regularisers, memory. */
#include "test.h"

#include "base/memory.h"
#include "tapedeck/nn.h"

static td_tensor *ramp(td_shape shape) {
    td_error error = {0};
    td_tensor *x = td_tensor_create("x", TD_FLOAT32, shape, &error);
    for (int64_t i = 0; x && i < td_tensor_count(x); i++) {
        ((float *)td_tensor_data(x))[i] = (float)((i * 29) % 13) / 13.0f - 0.5f;
    }
    return x;
}

static td_model *small_network(void) {
    td_model *model = td_model_create("small", TD_SHAPE(6, 6, 1));
    td_add_conv2d(model, .name = "conv", .filters = 3, .kernel = {3}, .activation = TD_TANH,
                  .kernel_l2 = 0.1);
    td_add_batch_normalization(model, .name = "norm");
    td_add_max_pool2d(model, .name = "pool");
    td_add_flatten(model, .name = "flat");
    td_add_dropout(model, .name = "drop", .rate = 0.5);
    td_add_dense(model, .name = "hidden", .units = 5, .activation = TD_RELU, .kernel_l1 = 0.2,
                 .bias_l2 = 0.3);
    td_add_dense(model, .name = "class", .units = 3, .activation = TD_SOFTMAX);
    return model;
}

static void outputs_and_errors_are_reached_by_name(void **state) {
    (void)state;
    td_error error = {0};
    td_model *model = small_network();
    assert_ok(td_model_build(model, 5, &error), error);
    td_tape *tape = td_tape_create(NULL, &error);
    td_tensor *x = ramp(TD_SHAPE(2, 6, 6, 1));
    assert_null(td_model_output(model, "conv"));
    td_tensor *y = td_model_forward(model, tape, x);
    assert_ptr_equal(td_model_output(model, "class"), y);
    assert_ptr_equal(td_model_output(model, "input"), x);
    assert_ptr_equal(td_model_output_at(model, 0), td_model_output(model, "conv"));
    assert_string_equal(td_tensor_name(td_model_output(model, "conv")), "conv.output");
    assert_null(td_model_output(model, "nothing"));
    assert_null(td_model_preactivation(model, "conv"));
    td_tensor *wanted[] = {td_model_output(model, "conv"), td_model_output(model, "hidden"), x};
    td_tensor *gradients[3];
    assert_ok(td_tape_gradient(tape, td_sum(tape, td_square(tape, y), NULL), 3, wanted, gradients,
                               &error),
              error);
    for (int i = 0; i < 3; i++) {
        td_shape a = td_tensor_shape(wanted[i]), b = td_tensor_shape(gradients[i]);
        assert_true(td_shape_equal(&a, &b));
        assert_false(td_tensor_is_disconnected(gradients[i]));
    }
    td_tape_destroy(tape);
    td_tensor_destroy(x);
    td_model_destroy(model);
}

static void kept_preactivations_change_no_output(void **state) {
    (void)state;
    td_error error = {0};
    td_model *model = small_network();
    assert_ok(td_model_build(model, 5, &error), error);
    td_tape *tape = td_tape_create(NULL, &error);
    td_tensor *x = ramp(TD_SHAPE(2, 6, 6, 1));
    td_tensor *y = td_model_forward(model, tape, x);
    float before[6];
    memcpy(before, td_tensor_data(y), sizeof before);
    td_tape_reset(tape);

    assert_int_equal(td_model_keep_preactivation(model, "pool", true, &error), TD_UNSUPPORTED);
    assert_ok(td_model_keep_preactivation(model, "conv", true, &error), error);
    (void)td_model_forward(model, tape, x);
    assert_non_null(td_model_preactivation(model, "conv"));
    assert_null(td_model_preactivation(model, "hidden"));
    td_tape_reset(tape);

    assert_ok(td_model_keep_preactivation(model, NULL, true, &error), error);
    y = td_model_forward(model, tape, x);
    for (int i = 0; i < 6; i++) {
        assert_close(((float *)td_tensor_data(y))[i], before[i], 1e-6, 1e-7);
    }
    const float *z = td_tensor_data(td_model_preactivation(model, "conv"));
    const float *a = td_tensor_data(td_model_output(model, "conv"));
    for (int i = 0; i < 2 * 4 * 4 * 3; i++) {
        assert_close(a[i], tanhf(z[i]), 1e-6, 1e-7);
    }
    td_tensor *wanted = td_model_preactivation(model, "conv"), *gradient;
    assert_ok(td_tape_gradient(tape, td_sum(tape, td_square(tape, y), NULL), 1, &wanted, &gradient,
                               &error),
              error);
    assert_false(td_tensor_is_disconnected(gradient));
    td_tape_destroy(tape);
    td_tensor_destroy(x);
    td_model_destroy(model);
}

typedef struct seen {
    size_t layers[32];
    td_layer_signal signals[32];
    const td_tensor *tensors[32];
    size_t count;
} seen;

static void watch(void *user, size_t layer, td_layer_signal signal, td_tensor *tensor) {
    seen *s = user;
    s->layers[s->count] = layer;
    s->signals[s->count] = signal;
    s->tensors[s->count++] = tensor;
}

static void the_watcher_hears_of_every_tensor_in_order(void **state) {
    (void)state;
    td_error error = {0};
    td_model *model = small_network();
    assert_ok(td_model_build(model, 5, &error), error);
    assert_ok(td_model_keep_preactivation(model, "hidden", true, &error), error);
    td_tape *tape = td_tape_create(NULL, &error);
    td_tensor *x = ramp(TD_SHAPE(2, 6, 6, 1));
    seen s = {0};
    td_model_watch(model, watch, &s);
    (void)td_model_forward(model, tape, x);
    assert_int_equal(s.count, 8);
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(s.layers[i], i < 6 ? i : i - 1);
        assert_int_equal(s.signals[i], i == 5 ? TD_LAYER_PREACTIVATION : TD_LAYER_OUTPUT);
    }
    assert_ptr_equal(s.tensors[5], td_model_preactivation(model, "hidden"));
    assert_ptr_equal(s.tensors[6], td_model_output(model, "hidden"));
    td_model_watch(model, NULL, NULL);
    (void)td_model_forward(model, tape, x);
    assert_int_equal(s.count, 8);
    td_tape_destroy(tape);
    td_tensor_destroy(x);
    td_model_destroy(model);
}

static double penalty(const td_tensor *w, double l1, double l2) {
    double sum = 0;
    for (int64_t i = 0; i < td_tensor_count(w); i++) {
        double value = (double)((const float *)td_tensor_data(w))[i];
        sum += l1 * fabs(value) + l2 * value * value;
    }
    return sum;
}

static void regularisers_add_to_the_loss(void **state) {
    (void)state;
    td_error error = {0};
    td_model *model = small_network();
    assert_ok(td_model_build(model, 5, &error), error);
    td_tensor *bias = td_model_parameter(model, "hidden", "bias");
    for (int i = 0; i < 5; i++) {
        ((float *)td_tensor_data(bias))[i] = (float)i;
    }
    td_tape *tape = td_tape_create(NULL, &error);
    td_tensor *x = ramp(TD_SHAPE(2, 6, 6, 1));
    td_tensor *loss = td_sum(tape, td_model_forward(model, tape, x), NULL);
    td_tensor *total = td_model_regularize(model, tape, loss);
    double expected = (double)td_tensor_scalar(loss) +
                      penalty(td_model_parameter(model, "conv", "kernel"), 0, 0.1) +
                      penalty(td_model_parameter(model, "hidden", "kernel"), 0.2, 0) +
                      penalty(bias, 0, 0.3);
    assert_close(td_tensor_scalar(total), expected, 1e-5, 0);
    assert_ok(td_model_freeze(model, NULL, true, &error), error);
    assert_ptr_equal(td_model_regularize(model, tape, loss), loss);
    td_tape_destroy(tape);
    td_tensor_destroy(x);
    td_model_destroy(model);
}

static void a_wrong_batch_is_an_error_with_both_shapes(void **state) {
    (void)state;
    td_error error = {0};
    td_model *model = small_network();
    td_tape *tape = td_tape_create(NULL, &error);
    td_tensor *x = ramp(TD_SHAPE(2, 6, 5, 1));
    assert_null(td_model_forward(model, tape, x));
    assert_int_equal(td_tape_status(tape, &error), TD_STATE);
    assert_string_equal(error.text, "model 'small' is not built: call td_model_build first");
    td_tape_reset(tape);
    assert_ok(td_model_build(model, 5, &error), error);
    assert_null(td_model_forward(model, tape, x));
    assert_int_equal(td_tape_status(tape, &error), TD_BAD_SHAPE);
    assert_string_equal(error.text, "model 'small' takes input (batch, 6, 6, 1), got (2, 6, 5, 1)");
    td_tape_destroy(tape);
    td_tensor_destroy(x);
    td_model_destroy(model);
}

static void training_and_inference_differ_where_they_should(void **state) {
    (void)state;
    td_error error = {0};
    td_model *model = small_network();
    assert_ok(td_model_build(model, 5, &error), error);
    td_tape *tape = td_tape_create(NULL, &error);
    td_tensor *x = ramp(TD_SHAPE(2, 6, 6, 1));
    const float *mean = td_tensor_data(td_model_parameter(model, "norm", "moving_mean"));
    (void)td_model_forward(model, tape, x);
    assert_true(mean[0] == 0 && mean[1] == 0);
    td_tape_set_training(tape, true);
    (void)td_model_forward(model, tape, x);
    assert_true(mean[0] != 0);
    const float *dropped = td_tensor_data(td_model_output(model, "drop"));
    int zeros = 0;
    for (int i = 0; i < 24; i++) {
        zeros += dropped[i] == 0;
    }
    assert_in_range(zeros, 3, 21);
    float kept = mean[0];
    assert_ok(td_model_freeze(model, "norm", true, &error), error);
    (void)td_model_forward(model, tape, x);
    assert_true(mean[0] == kept);
    assert_true(td_tape_is_training(tape));
    td_tape_destroy(tape);
    td_tensor_destroy(x);
    td_model_destroy(model);
}

static void a_momentum_of_zero_is_not_the_default(void **state) {
    (void)state;
    td_error error = {0};
    td_model *model = td_model_create("m", TD_SHAPE(1));
    td_add_batch_normalization(model, .name = "n", .momentum = TD_SET(0), .epsilon = TD_SET(0));
    assert_ok(td_model_build(model, 1, &error), error);
    td_tape *tape = td_tape_create(NULL, &error);
    td_tape_set_training(tape, true);
    td_tensor *x = td_tensor_from("x", TD_FLOAT32, TD_SHAPE(2, 1), (float[]){1, 5}, &error);
    td_tensor *y = td_model_forward(model, tape, x);
    assert_close(((float *)td_tensor_data(y))[1], 1, 1e-6, 0);
    assert_close(td_tensor_scalar(td_model_parameter(model, "n", "moving_mean")), 3, 1e-6, 0);
    assert_close(td_tensor_scalar(td_model_parameter(model, "n", "moving_variance")), 4, 1e-6, 0);
    td_tape_destroy(tape);
    td_tensor_destroy(x);
    td_model_destroy(model);
}

/* Everything from creating a model to a step, giving up at the first failure. */
static bool whole_life(void) {
    td_error error = {0};
    td_model *model = small_network();
    td_tensor *x = NULL;
    td_tape *tape = NULL;
    td_optimizer *optimizer = NULL;
    td_tensor *const *weights, *gradients[16];
    bool done = false, ramp_failed = false;
    if (td_model_build(model, 5, &error) ||
        td_model_keep_preactivation(model, NULL, true, &error) ||
        td_model_freeze(model, "hidden", true, &error)) {
        goto cleanup;
    }
    size_t count = td_model_trainable(model, &weights);
    optimizer = td_optimizer_create(TD_OPTIMIZER(.kind = TD_ADAM), count, weights, &error);
    x = optimizer ? ramp(TD_SHAPE(2, 6, 6, 1)) : NULL;
    ramp_failed = optimizer && !x;
    tape = x ? td_tape_create(NULL, &error) : NULL;
    if (!tape || td_optimizer_keep_update(optimizer, SIZE_MAX, &error)) {
        goto cleanup;
    }
    td_tape_set_training(tape, true);
    td_tensor *loss = td_sum(tape, td_model_forward(model, tape, x), NULL);
    loss = td_model_regularize(model, tape, loss);
    done = !td_tape_gradient(tape, loss, count, weights, gradients, &error) &&
           !td_optimizer_step(optimizer, gradients, &error);
cleanup:
    assert_int_equal(error.status, done || ramp_failed ? TD_OK : TD_MEMORY);
    td_optimizer_destroy(optimizer);
    td_tape_destroy(tape);
    td_tensor_destroy(x);
    td_model_destroy(model);
    return done;
}

static void exhausted_memory_is_an_error_at_every_allocation(void **state) {
    (void)state;
    uint64_t before = td__allocation_count();
    assert_true(whole_life());
    uint64_t allocations = td__allocation_count() - before;
    assert_true(allocations > 50);
    uint64_t unnoticed = 0;
    for (uint64_t n = 1; n <= allocations; n++) {
        td__allocation_fail_at(n);
        unnoticed += whole_life();
        td__allocation_fail_at(0);
    }
    assert_in_range(unnoticed, 0, 4); /* the tape can do without its list of memory to reuse */
}

static void a_training_step_allocates_nothing_once_warm(void **state) {
    (void)state;
    td_error error = {0};
    td_model *model = small_network();
    assert_ok(td_model_build(model, 5, &error), error);
    assert_ok(td_model_keep_preactivation(model, NULL, true, &error), error);
    td_tensor *const *weights, *gradients[16];
    size_t count = td_model_trainable(model, &weights);
    td_optimizer *optimizer = td_optimizer_create(
        TD_OPTIMIZER(.kind = TD_ADAM, .clip_norm = 1, .clip_value = 0.5), count, weights, &error);
    assert_ok(td_optimizer_keep_update(optimizer, SIZE_MAX, &error), error);
    td_tape *tape = td_tape_create(NULL, &error);
    td_tape_set_training(tape, true);
    td_tensor *x = ramp(TD_SHAPE(2, 6, 6, 1));
    uint64_t warm = 0;
    for (int step = 0; step < 20; step++) {
        warm = step == 3 ? td__allocation_count() : warm;
        td_tensor *y = td_model_forward(model, tape, x);
        td_tensor *loss = td_model_regularize(model, tape, td_sum(tape, td_square(tape, y), NULL));
        assert_ok(td_tape_gradient(tape, loss, count, weights, gradients, &error), error);
        assert_ok(td_optimizer_step(optimizer, gradients, &error), error);
        td_tape_reset(tape);
    }
    assert_int_equal(td__allocation_count(), warm);
    td_optimizer_destroy(optimizer);
    td_tape_destroy(tape);
    td_tensor_destroy(x);
    td_model_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outputs_and_errors_are_reached_by_name),
        cmocka_unit_test(kept_preactivations_change_no_output),
        cmocka_unit_test(the_watcher_hears_of_every_tensor_in_order),
        cmocka_unit_test(regularisers_add_to_the_loss),
        cmocka_unit_test(a_wrong_batch_is_an_error_with_both_shapes),
        cmocka_unit_test(training_and_inference_differ_where_they_should),
        cmocka_unit_test(a_momentum_of_zero_is_not_the_default),
        cmocka_unit_test(exhausted_memory_is_an_error_at_every_allocation),
        cmocka_unit_test(a_training_step_allocates_nothing_once_warm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
