/* Models that are no stack: several inputs and outputs, layers used again, wrappers, masks. */
#include "test.h"

#include "tapedeck/nn.h"

#include <math.h>

static td_tensor *filled(td_shape shape, float first) {
    td_error error = {0};
    td_tensor *tensor = td_tensor_create("x", TD_FLOAT32, shape, &error);
    float *values = td_tensor_data(tensor);
    for (int64_t i = 0; i < td_tensor_count(tensor); i++) {
        values[i] = first + 0.1f * (float)(i % 7);
    }
    return tensor;
}

static td_model *two_inputs(void) {
    td_model *model = td_model_create("two", TD_SHAPE(99));
    td_add_input(model, .name = "image", .shape = TD_SHAPE(2, 3));
    td_add_input(model, .name = "facts", .shape = TD_SHAPE(4));
    td_add_flatten(model, .name = "flat", .from = {"image"});
    td_add_concatenate(model, .name = "all", .from = {"flat", "facts"});
    td_add_dense(model, .name = "price", .units = 1);
    td_add_dense(model, .name = "kind", .units = 3, .from = {"all"});
    td_error error = {0};
    assert_ok(td_model_set_outputs(model, 2, (const char *const[]){"price", "kind"}, &error),
              error);
    assert_ok(td_model_build(model, 1, &error), error);
    return model;
}

static void an_example_of_several_inputs_is_one_row(void **state) {
    (void)state;
    td_model *model = two_inputs();
    assert_int_equal(td_model_input_count(model), 2);
    td_shape shape = td_model_input_shape(model);
    assert_int_equal(shape.rank, 1);
    assert_int_equal(shape.dims[0], 10);
    assert_int_equal(td_model_output_count(model), 2);
    assert_int_equal(td_model_output_layer(model, 1), td_model_find(model, "kind"));

    td_tape *tape = td_tape_create(NULL, NULL);
    td_tensor *row = filled(TD_SHAPE(2, 10), 0), *image = filled(TD_SHAPE(2, 2, 3), 0),
              *facts = filled(TD_SHAPE(2, 4), 0);
    const float *rows = td_tensor_data(row);
    for (int64_t i = 0; i < 2; i++) {
        memcpy((float *)td_tensor_data(image) + i * 6, rows + i * 10, 6 * sizeof(float));
        memcpy((float *)td_tensor_data(facts) + i * 4, rows + i * 10 + 6, 4 * sizeof(float));
    }
    td_tensor *together = td_model_forward(model, tape, row);
    assert_ptr_equal(together, td_model_output(model, "price"));
    td_tensor *kind = td_model_output(model, "kind");
    td_tensor *apart = td_model_forward_inputs(model, tape, 2, (td_tensor *[]){image, facts});
    assert_memory_equal(td_tensor_data(together), td_tensor_data(apart), 2 * sizeof(float));
    assert_memory_equal(td_tensor_data(kind), td_tensor_data(td_model_output(model, "kind")),
                        6 * sizeof(float));
    td_error error = {0};
    assert_null(td_model_forward_inputs(model, tape, 1, (td_tensor *[]){image}));
    assert_int_equal(td_tape_status(tape, &error), TD_INVALID);
    td_tape_reset(tape);
    assert_null(td_model_forward_inputs(model, tape, 2, (td_tensor *[]){facts, image}));
    assert_int_equal(td_tape_status(tape, &error), TD_BAD_SHAPE);
    assert_non_null(strstr(error.text, "takes input image (batch, 2, 3), got (2, 4)"));
    td_tape_destroy(tape);
    td_tensor_destroy(row);
    td_tensor_destroy(image);
    td_tensor_destroy(facts);
    td_model_destroy(model);
}

static void one_open_dimension_takes_what_the_others_leave(void **state) {
    (void)state;
    td_error error = {0};
    td_model *model = td_model_create("open", TD_SHAPE(1));
    td_add_input(model, .name = "a", .shape = TD_SHAPE(-1, 2));
    td_add_input(model, .name = "b", .shape = TD_SHAPE(3));
    td_add_global_max_pool1d(model, .from = {"a"}, .name = "g");
    td_add_concatenate(model, .from = {"g", "b"});
    assert_ok(td_model_build(model, 1, &error), error);
    td_tape *tape = td_tape_create(NULL, NULL);
    td_tensor *row = filled(TD_SHAPE(2, 11), 0), *odd = filled(TD_SHAPE(2, 10), 0);
    assert_non_null(td_model_forward(model, tape, row));
    td_shape shape = td_tensor_shape(td_model_output(model, "a"));
    assert_int_equal(shape.dims[1], 4);
    assert_null(td_model_forward(model, tape, odd));
    assert_int_equal(td_tape_status(tape, &error), TD_BAD_SHAPE);
    td_tape_destroy(tape);
    td_tensor_destroy(row);
    td_tensor_destroy(odd);
    td_model_destroy(model);
}

static const char *refused(td_model *model, td_status expected) {
    static td_error error;
    error = (td_error){0};
    assert_int_equal(td_model_build(model, 1, &error), expected);
    td_model_destroy(model);
    return error.text;
}

static void mistakes_with_inputs_and_outputs_are_refused(void **state) {
    (void)state;
    td_model *model = td_model_create("m", TD_SHAPE(4));
    td_add_dense(model, .units = 3);
    td_add_input(model, .name = "late", .shape = TD_SHAPE(2));
    assert_non_null(strstr(refused(model, TD_INVALID), "inputs come before all other layers"));
    model = td_model_create("m", TD_SHAPE(4));
    td_add_input(model, .name = "a", .shape = TD_SHAPE(2));
    td_add_dense(model, .units = 3, .from = {"input"});
    assert_non_null(strstr(refused(model, TD_NOT_FOUND), "the model's inputs have names: 'a'"));
    td_error error = {0};
    model = two_inputs();
    assert_int_equal(td_model_set_outputs(model, 1, (const char *const[]){"nothing"}, &error),
                     TD_NOT_FOUND);
    assert_int_equal(td_model_set_outputs(model, 2, (const char *const[]){"kind", "kind"}, &error),
                     TD_EXISTS);
    assert_int_equal(td_model_output_count(model), 2);
    td_model_destroy(model);
}

static void a_layer_used_again_has_the_same_parameters(void **state) {
    (void)state;
    td_error error = {0};
    td_model *model = td_model_create("m", TD_SHAPE(3));
    td_add_dense(model, .name = "tower", .units = 3);
    td_add_dense(model, .name = "tower", .units = 3);
    const td_setting settings[] = {{"name", {.kind = TD_VALUE_TEXT, .text = "tower"}}};
    assert_ok(td_model_add(model, "dense", settings, 1, &error), error); /* options as before */
    assert_ok(td_model_build(model, 1, &error), error);
    assert_int_equal(td_model_parameter_count(model), 2);
    assert_string_equal(td_model_layer(model, 2)->name, "tower@3");
    assert_int_equal(td_model_layer(model, 2)->shares, 0);
    assert_int_equal(td_model_layer(model, 0)->shares, -1);
    assert_int_equal(td_model_layer(model, 1)->parameter_elements, 0);
    td_tensor *kernel = td_model_parameter(model, "tower", "kernel"), *gradient;
    float *values = td_tensor_data(kernel);
    for (int i = 0; i < 9; i++) {
        values[i] = i % 4 == 0 ? 2 : 0;
    }
    td_tape *tape = td_tape_create(NULL, NULL);
    td_tensor *x = filled(TD_SHAPE(1, 3), 1);
    td_tensor *loss = td_sum(tape, td_model_forward(model, tape, x), NULL);
    assert_ok(td_tape_gradient(tape, loss, 1, &kernel, &gradient, &error), error);
    /* y = W^3 x with W = 2: each use adds 4 x */
    assert_float_equal(((const float *)td_tensor_data(gradient))[0], 12.0f, 1e-4f);
    assert_ok(td_model_freeze(model, "tower", true, &error), error);
    td_tensor *const *trainable;
    assert_int_equal(td_model_trainable(model, &trainable), 0);
    assert_true(td_model_layer(model, 2)->frozen);
    td_tape_destroy(tape);
    td_tensor_destroy(x);
    td_model_destroy(model);

    model = td_model_create("m", TD_SHAPE(3));
    td_add_dense(model, .name = "tower", .units = 2);
    td_add_dense(model, .name = "tower", .units = 2);
    assert_non_null(
        strstr(refused(model, TD_BAD_SHAPE),
               "it is 'tower' used again, but its kernel would be (2, 2) and not (3, 2)"));
}

static void wrappers_take_options_of_what_they_wrap(void **state) {
    (void)state;
    td_error error = {0};
    td_model *model = td_model_create("m", TD_SHAPE(5, 4));
    td_add_bidirectional(model, .name = "both", .layer = TD_LAYER_GRU,
                         .options = &(td_gru_layer){
                             .size = sizeof(td_gru_layer), .units = 3, .return_sequences = true});
    td_add_time_distributed(model, .name = "each", .layer = TD_LAYER_DENSE,
                            .options = &(td_dense_layer){
                                .size = sizeof(td_dense_layer), .units = 2, .activation = TD_RELU});
    assert_ok(td_model_build(model, 1, &error), error);
    assert_int_equal(td_model_layer(model, 0)->output.dims[1], 6);
    assert_int_equal(td_model_layer(model, 1)->output.dims[1], 2);
    assert_non_null(td_model_parameter(model, "both", "backward_recurrent_kernel"));
    assert_non_null(td_model_parameter(model, "each", "kernel"));
    /* Settings make the same layers again. */
    td_model *again = td_model_create("m", TD_SHAPE(5, 4));
    for (size_t i = 0; i < 2; i++) {
        const td_layer_info *layer = td_model_layer(model, i);
        assert_ok(td_model_add(again, td_layer_kind_name(layer->kind), layer->settings,
                               layer->setting_count, &error),
                  error);
    }
    assert_ok(td_model_build(again, 1, &error), error);
    assert_int_equal(td_model_parameter_count(again), td_model_parameter_count(model));
    td_model_destroy(again);
    td_model_destroy(model);

    model = td_model_create("m", TD_SHAPE(5, 4));
    td_add_bidirectional(model, .layer = TD_LAYER_FLATTEN);
    assert_non_null(strstr(refused(model, TD_UNSUPPORTED), "it must be lstm, gru or simple_rnn"));
    model = td_model_create("m", TD_SHAPE(5, 4));
    td_add_time_distributed(model, .layer = TD_LAYER_BIDIRECTIONAL);
    assert_non_null(strstr(refused(model, TD_UNSUPPORTED), "cannot wrap bidirectional"));
}

static void a_mask_that_ends_is_told(void **state) {
    (void)state;
    td_error error = {0};
    td_model *model = td_model_create("m", TD_SHAPE(6, 4));
    td_add_masking(model);
    td_add_dense(model, .units = 3);
    td_add_conv1d(model, .filters = 2, .kernel = {2});
    td_add_lstm(model, .units = 2);
    assert_ok(td_model_build(model, 1, &error), error);
    assert_false(td_model_layer(model, 1)->mask_dropped);
    assert_true(td_model_layer(model, 2)->mask_dropped);
    assert_false(td_model_layer(model, 3)->mask_dropped);
    td_model_destroy(model);
    model = td_model_create("m", TD_SHAPE(6, 4));
    td_add_masking(model);
    td_add_global_average_pool1d(model); /* leaves steps out */
    assert_ok(td_model_build(model, 1, &error), error);
    assert_false(td_model_layer(model, 1)->mask_dropped);
    td_model_destroy(model);
}

/* In training a share of features, of units, of weights is dropped; otherwise nothing is. */
static void dropout_inside_layers_acts_in_training_alone(void **state) {
    (void)state;
    td_error error = {0};
    td_model *model = td_model_create("m", TD_SHAPE(5, 4));
    td_add_lstm(model, .name = "r", .units = 8, .return_sequences = true, .dropout = 0.5,
                .recurrent_dropout = 0.5);
    td_add_multi_head_attention(model, .name = "a", .heads = 2, .key_dim = 3, .dropout = 0.5);
    td_add_dropout(model, .name = "d", .rate = 0.5, .noise_shape = TD_SHAPE(1, -1));
    assert_ok(td_model_build(model, 1, &error), error);
    td_tape *tape = td_tape_create(NULL, NULL);
    td_tensor *x = filled(TD_SHAPE(2, 5, 4), 1);
    float first[80], other[80];
    memcpy(first, td_tensor_data(td_model_forward(model, tape, x)), sizeof first);
    memcpy(other, td_tensor_data(td_model_forward(model, tape, x)), sizeof other);
    assert_memory_equal(first, other, sizeof first);
    td_tape_set_training(tape, true);
    const float *trained = td_tensor_data(td_model_forward(model, tape, x));
    int zeros = 0;
    for (int unit = 0; unit < 8; unit++) { /* a unit is dropped at all steps or at none */
        for (int step = 1; step < 5; step++) {
            assert_int_equal(trained[unit] == 0, trained[step * 8 + unit] == 0);
        }
        zeros += trained[unit] == 0;
    }
    assert_true(zeros > 0 && zeros < 8);
    assert_memory_not_equal(first, trained, sizeof first);
    assert_ok(td_tape_status(tape, &error), error);
    td_tape_destroy(tape);
    td_tensor_destroy(x);
    td_model_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_example_of_several_inputs_is_one_row),
        cmocka_unit_test(one_open_dimension_takes_what_the_others_leave),
        cmocka_unit_test(mistakes_with_inputs_and_outputs_are_refused),
        cmocka_unit_test(a_layer_used_again_has_the_same_parameters),
        cmocka_unit_test(wrappers_take_options_of_what_they_wrap),
        cmocka_unit_test(a_mask_that_ends_is_told),
        cmocka_unit_test(dropout_inside_layers_acts_in_training_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
