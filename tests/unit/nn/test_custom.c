/* Layers that a program brings along. */
#include "test.h"

#include "base/memory.h"
#include "tapedeck/nn.h"

static int destroyed;
static void count_destroyed(void *user) {
    assert_ptr_equal(user, &destroyed);
    destroyed++;
}

/* x kernel + bias */
static td_tensor *affine(void *user, td_tape *tape, td_tensor *const *inputs,
                         td_tensor *const *parameters) {
    assert_ptr_equal(user, &destroyed);
    return td_add(tape, td_matmul(tape, inputs[0], parameters[0], NULL), parameters[1]);
}

static const float kernel[] = {1, 2, 3, 4, 5, 6};

static void add_affine(td_model *model, const char *name) {
    td_custom_parameter parameters[] = {
        {.name = "kernel", .shape = TD_SHAPE(3, 2), .values = kernel},
        {.name = "bias", .shape = TD_SHAPE(2), .initializer = {.kind = TD_ONES}},
    };
    td_add_custom(model, .name = name, .word = "Affine", .output = TD_SHAPE(2),
                  .parameters = parameters, .parameter_count = 2, .forward = affine,
                  .user = &destroyed, .destroy = count_destroyed);
    memset(parameters, 0xff, sizeof parameters); /* borrowed for the call only */
}

static void a_custom_layer_runs_and_gives_gradients(void **state) {
    (void)state;
    td_error error = {0};
    destroyed = 0;
    td_model *model = td_model_create("m", TD_SHAPE(3));
    add_affine(model, "mine");
    assert_ok(td_model_build(model, 1, &error), error);
    td_tape *tape = td_tape_create(NULL, &error);
    td_tensor *x = td_tensor_from("x", TD_FLOAT32, TD_SHAPE(1, 3), (float[]){1, 10, 100}, &error);
    td_tensor *y = td_model_forward(model, tape, x);
    assert_non_null(y);
    assert_string_equal(td_tensor_name(y), "mine.output");
    const float *values = td_tensor_data(y);
    assert_close(values[0], 1 + 30 + 500 + 1, 0, 0);
    assert_close(values[1], 2 + 40 + 600 + 1, 0, 0);
    td_tensor *wanted[] = {td_model_parameter(model, "mine", "kernel"),
                           td_model_parameter(model, "mine", "bias")};
    td_tensor *gradient[2];
    assert_ok(td_tape_gradient(tape, y, 2, wanted, gradient, &error), error);
    assert_close(((float *)td_tensor_data(gradient[0]))[4], 100, 0, 0);
    assert_close(((float *)td_tensor_data(gradient[1]))[1], 1, 0, 0);
    td_tensor_destroy(x);
    td_tape_destroy(tape);
    td_model_destroy(model);
    assert_int_equal(destroyed, 1);
}

static void it_is_named_summed_up_frozen_and_described_like_any_other(void **state) {
    (void)state;
    td_error error = {0};
    td_model *model = td_model_create("m", TD_SHAPE(3));
    add_affine(model, NULL);
    td_add_dense(model, .units = 4);
    assert_ok(td_model_build(model, 1, &error), error);
    const td_layer_info *info = td_model_layer(model, 0);
    assert_string_equal(info->name, "custom");
    assert_string_equal(info->type, "Affine");
    assert_string_equal(td_model_layer(model, 1)->type, "Dense");
    assert_int_equal(info->parameter_elements, 8);
    td_tensor *const *trained;
    assert_int_equal(td_model_trainable(model, &trained), 4);
    assert_ok(td_model_freeze(model, "custom", true, &error), error);
    assert_int_equal(td_model_trainable(model, &trained), 2);
    char text[4096] = "";
    FILE *stream = fmemopen(text, sizeof text, "w");
    assert_int_equal(td_model_summary(model, stream), TD_OK);
    (void)fclose(stream);
    assert_non_null(strstr(text, "custom (Affine)"));
    assert_non_null(strstr(text, "Non-trainable params: 8"));
    td_model_destroy(model);
}

static bool was_training;
static td_tensor *note_training(void *user, td_tape *tape, td_tensor *const *inputs,
                                td_tensor *const *parameters) {
    (void)user;
    (void)parameters;
    was_training = td_tape_is_training(tape);
    return td_affine(tape, inputs[0], 2, 0);
}

static void frozen_a_layer_with_moving_averages_runs_as_in_inference(void **state) {
    (void)state;
    td_error error = {0};
    td_model *model = td_model_create("m", TD_SHAPE(3));
    td_custom_parameter average = {
        .name = "moving_mean", .shape = TD_SHAPE(3), .moving_average = true};
    td_add_custom(model, .name = "norm", .output = TD_SHAPE(3), .parameters = &average,
                  .parameter_count = 1, .forward = note_training);
    assert_ok(td_model_build(model, 1, &error), error);
    td_tape *tape = td_tape_create(NULL, &error);
    td_tape_set_training(tape, true);
    td_tensor *x = td_tensor_create("x", TD_FLOAT32, TD_SHAPE(2, 3), &error);
    td_tensor *const *trained;
    assert_int_equal(td_model_trainable(model, &trained), 0);
    assert_non_null(td_model_forward(model, tape, x));
    assert_true(was_training);
    assert_ok(td_model_freeze(model, "norm", true, &error), error);
    assert_non_null(td_model_forward(model, tape, x));
    assert_false(was_training);
    assert_true(td_tape_is_training(tape));
    td_tensor_destroy(x);
    td_tape_destroy(tape);
    td_model_destroy(model);
}

static void mistakes_are_told_and_the_user_pointer_is_let_go_of(void **state) {
    (void)state;
    td_error error = {0};
    destroyed = 0;
    td_model *model = td_model_create("m", TD_SHAPE(3));
    td_add_custom(model, .name = "empty", .user = &destroyed, .destroy = count_destroyed);
    assert_int_equal(destroyed, 1);
    add_affine(model, "after"); /* the first error sticks: not added */
    assert_int_equal(destroyed, 2);
    assert_int_equal(td_model_build(model, 1, &error), TD_INVALID);
    assert_string_equal(error.text, "layer 'empty' (custom): it has no function: a custom layer is "
                                    "added by a C program, with td_add_custom");
    td_model_destroy(model);
    assert_int_equal(destroyed, 2);

    model = td_model_create("m", TD_SHAPE(3));
    td_custom_parameter twice[] = {{.name = "w", .shape = TD_SHAPE(1)},
                                   {.name = "w", .shape = TD_SHAPE(1)}};
    td_add_custom(model, .name = "two", .forward = affine, .parameters = twice,
                  .parameter_count = 2);
    assert_int_equal(td_model_build(model, 1, &error), TD_INVALID);
    assert_non_null(strstr(error.text, "layer 'two' (custom): parameter 1"));
    td_model_destroy(model);
}

static td_tensor *nothing(void *user, td_tape *tape, td_tensor *const *inputs,
                          td_tensor *const *parameters) {
    (void)user, (void)tape, (void)inputs, (void)parameters;
    return NULL;
}

static void a_function_that_returns_nothing_is_an_error(void **state) {
    (void)state;
    td_error error = {0};
    td_model *model = td_model_create("m", TD_SHAPE(3));
    td_add_custom(model, .name = "none", .output = TD_SHAPE(3), .forward = nothing);
    assert_ok(td_model_build(model, 1, &error), error);
    td_tape *tape = td_tape_create(NULL, &error);
    td_tensor *x = td_tensor_create("x", TD_FLOAT32, TD_SHAPE(1, 3), &error);
    assert_null(td_model_forward(model, tape, x));
    assert_int_equal(td_tape_status(tape, &error), TD_INVALID);
    assert_string_equal(error.text, "layer 'none': its function returned nothing");
    td_tensor_destroy(x);
    td_tape_destroy(tape);
    td_model_destroy(model);
}

static void adding_survives_exhausted_memory(void **state) {
    (void)state;
    for (uint64_t n = 1;; n++) {
        destroyed = 0;
        td_model *model = td_model_create("m", TD_SHAPE(3));
        td__allocation_fail_at(n);
        add_affine(model, "mine");
        td__allocation_fail_at(0);
        td_error error = {0};
        td_status status = td_model_build(model, 1, &error);
        td_model_destroy(model);
        assert_int_equal(destroyed, 1);
        if (!status) {
            assert_true(n > 5);
            return;
        }
        assert_int_equal(status, TD_MEMORY);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_custom_layer_runs_and_gives_gradients),
        cmocka_unit_test(it_is_named_summed_up_frozen_and_described_like_any_other),
        cmocka_unit_test(frozen_a_layer_with_moving_averages_runs_as_in_inference),
        cmocka_unit_test(mistakes_are_told_and_the_user_pointer_is_let_go_of),
        cmocka_unit_test(a_function_that_returns_nothing_is_an_error),
        cmocka_unit_test(adding_survives_exhausted_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
