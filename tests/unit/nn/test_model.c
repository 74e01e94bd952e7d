/* Building models: names, graphs, shapes, errors, settings, freezing, the summary. */
#include "test.h"

#include "tapedeck/nn.h"

/* Builds and returns the error's text, which must be there. */
static const char *build_error(td_model *model, td_status expected) {
    static td_error error;
    error = (td_error){0};
    assert_int_equal(td_model_build(model, 1, &error), expected);
    td_model_destroy(model);
    return error.text;
}

static td_setting number(const char *key, double value) {
    return (td_setting){key, {.kind = TD_VALUE_NUMBER, .number = value}};
}
static td_setting text(const char *key, const char *value) {
    return (td_setting){key, {.kind = TD_VALUE_TEXT, .text = value}};
}
static td_setting boolean(const char *key, bool value) {
    return (td_setting){key, {.kind = TD_VALUE_BOOL, .boolean = value}};
}

static void layers_without_a_name_get_keras_names(void **state) {
    (void)state;
    td_error error = {0};
    td_model *model = td_model_create("m", TD_SHAPE(8, 8, 1));
    td_add_conv2d(model, .filters = 2, .kernel = {3});
    td_add_max_pool2d(model);
    td_add_conv2d(model, .filters = 2, .kernel = {1});
    td_add_flatten(model);
    td_add_dense(model, .units = 3);
    td_add_dense(model, .name = "dense_2", .units = 3);
    td_add_dense(model, .units = 3);
    assert_ok(td_model_build(model, 1, &error), error);
    const char *names[] = {"conv2d", "max_pooling2d", "conv2d_1", "flatten",
                           "dense",  "dense_2",       "dense_1"};
    for (size_t i = 0; i < 7; i++) {
        assert_string_equal(td_model_layer(model, i)->name, names[i]);
        assert_int_equal(td_model_find(model, names[i]), i);
    }
    assert_null(td_model_layer(model, 7));
    assert_int_equal(td_model_find(model, "dense_9"), -1);
    td_model_destroy(model);
}

static void a_name_of_another_layer_is_refused(void **state) {
    (void)state;
    td_model *model = td_model_create("m", TD_SHAPE(4));
    td_add_dense(model, .name = "hidden", .units = 3);
    td_add_dropout(model, .name = "hidden", .rate = 0.5);
    assert_string_equal(build_error(model, TD_EXISTS),
                        "there is a layer 'hidden' already: give this dropout layer another name");
    model = td_model_create("m", TD_SHAPE(4));
    td_add_dense(model, .name = "hidden", .units = 3);
    td_add_dense(model, .name = "hidden", .units = 4);
    assert_string_equal(build_error(model, TD_EXISTS),
                        "layer 'hidden@2' (dense): there is a layer 'hidden' already, with another "
                        "'units': give this one another name, or the same options to use it again");
    model = td_model_create("m", TD_SHAPE(4));
    td_add_dense(model, .name = "input", .units = 3);
    assert_non_null(strstr(build_error(model, TD_INVALID), "is not 'input'"));
}

static void the_first_error_of_a_builder_sticks(void **state) {
    (void)state;
    td_model *model = td_model_create("m", TD_SHAPE(4));
    td_add_dense(model, .name = "first");
    td_add_conv2d(model, .name = "second", .filters = 1, .kernel = {3});
    assert_string_equal(build_error(model, TD_INVALID),
                        "layer 'first' (dense): 'units' must be given");
}

static void bad_shapes_name_the_layer_and_both_shapes(void **state) {
    (void)state;
    td_model *model = td_model_create("m", TD_SHAPE(4, 4, 1));
    td_add_conv2d(model, .name = "conv", .filters = 1, .kernel = {5, 2});
    assert_string_equal(build_error(model, TD_BAD_SHAPE),
                        "layer 'conv' (conv2d): a kernel that spans (5, 2) does not fit into its "
                        "input (4, 4, 1)");
    model = td_model_create("m", TD_SHAPE(4, 4, 1));
    td_add_max_pool2d(model, .name = "pool", .window = {5});
    assert_string_equal(
        build_error(model, TD_BAD_SHAPE),
        "layer 'pool' (max_pool2d): a window of (5, 5) does not fit into its input (4, 4, 1)");
    model = td_model_create("m", TD_SHAPE(4));
    td_add_lstm(model, .name = "memory", .units = 2);
    assert_string_equal(build_error(model, TD_BAD_SHAPE),
                        "layer 'memory' (lstm): its input is (4,), it must be (steps, features) "
                        "(of one example)");
    model = td_model_create("m", TD_SHAPE(4));
    td_add_dense(model, .name = "a", .units = 3);
    td_add_add(model, .name = "sum", .from = {"a", "input"});
    assert_string_equal(build_error(model, TD_BAD_SHAPE),
                        "layer 'sum' (add): inputs (3,) and (4,) do not fit");
    model = td_model_create("m", TD_SHAPE(4));
    td_add_reshape(model, .name = "turn", .shape = TD_SHAPE(3, -1));
    assert_string_equal(build_error(model, TD_BAD_SHAPE),
                        "layer 'turn' (reshape): input (4,) does not reshape to (3, -1)");
    model = td_model_create("m", TD_SHAPE(4, 4, 3));
    td_add_conv2d(model, .name = "c", .filters = 4, .kernel = {1}, .groups = 2);
    assert_string_equal(
        build_error(model, TD_BAD_SHAPE),
        "layer 'c' (conv2d): 2 groups do not divide 3 input channels and 4 filters");
}

static void sizes_that_would_overflow_are_refused(void **state) {
    (void)state;
    td_model *model = td_model_create("m", TD_SHAPE(4));
    td_add_dense(model, .name = "wide", .units = INT64_MAX);
    assert_non_null(strstr(build_error(model, TD_RANGE), "layer 'wide' (dense): 'units' is"));
    model = td_model_create("m", TD_SHAPE(2000000000));
    td_add_reshape(model, .shape = TD_SHAPE(2000000000, 1, 1));
    td_add_up_sampling2d(model, .name = "up", .factor = {2000000000});
    assert_non_null(strstr(build_error(model, TD_RANGE), "layer 'up' (up_sampling2d): its output"));
}

static void reading_a_layer_that_is_not_there_is_an_error(void **state) {
    (void)state;
    td_model *model = td_model_create("m", TD_SHAPE(4));
    td_add_dense(model, .name = "a", .units = 3, .from = {"b"});
    assert_string_equal(build_error(model, TD_NOT_FOUND),
                        "layer 'a' (dense): it reads 'b', but no layer before it has that name");
    model = td_model_create("m", TD_SHAPE(4));
    td_add_add(model, .name = "sum");
    assert_string_equal(build_error(model, TD_INVALID), "layer 'sum' (add): it reads 1 layer, it "
                                                        "must read 2 or more: say which with "
                                                        "'from'");
}

static void an_empty_model_does_not_build(void **state) {
    (void)state;
    assert_string_equal(build_error(td_model_create("m", TD_SHAPE(4)), TD_INVALID),
                        "model 'm' has no layers");
    assert_int_equal(td_model_build(NULL, 1, NULL), TD_MEMORY);
}

static void misspelt_words_get_the_nearest_valid_one(void **state) {
    (void)state;
    td_error error = {0};
    td_model *model = td_model_create("m", TD_SHAPE(4));
    assert_int_equal(td_model_add(model, "dnese", NULL, 0, &error), TD_NOT_FOUND);
    assert_string_equal(error.text, "there is no layer 'dnese'; did you mean 'dense'?");
    td_setting settings[] = {text("name", "h"), number("unit", 3)};
    assert_int_equal(td_model_add(model, "dense", settings, 2, &error), TD_NOT_FOUND);
    assert_string_equal(error.text, "layer 'h' (dense): there is no 'unit'; did you mean 'units'?");
    settings[1] = text("activation", "rleu");
    assert_int_equal(td_model_add(model, "dense", settings, 2, &error), TD_NOT_FOUND);
    assert_string_equal(error.text,
                        "layer 'h' (dense): there is no activation 'rleu'; did you mean 'relu'?");
    settings[1] = text("units", "ten");
    assert_int_equal(td_model_add(model, "dense", settings, 2, &error), TD_INVALID);
    assert_string_equal(
        error.text, "layer 'h' (dense): 'units' must be a whole number of at least 1, not 'ten'");
    settings[1] = number("units", 2.5);
    assert_int_equal(td_model_add(model, "dense", settings, 2, &error), TD_INVALID);
    assert_string_equal(error.text,
                        "layer 'h' (dense): 'units' must be a whole number of at least 1, not 2.5");
    settings[1] = text("activation", NULL);
    assert_int_equal(td_model_add(model, "dense", settings, 2, &error), TD_INVALID);
    assert_string_equal(error.text, "layer 'h' (dense): 'activation' has no value");
    td_setting twice[] = {number("units", 2), number("units", 3)};
    assert_int_equal(td_model_add(model, "dense", twice, 2, &error), TD_INVALID);
    assert_string_equal(error.text, "layer 0 (dense): 'units' is given twice");
    assert_int_equal(td_model_layer_count(model), 0);

    settings[1] = number("units", 3); /* none of this harmed the model */
    assert_ok(td_model_add(model, "dense", settings, 2, &error), error);
    assert_ok(td_model_build(model, 1, &error), error);
    assert_int_equal(td_model_add(model, "dense", settings, 2, &error), TD_STATE);
    td_model_destroy(model);
}

static const td_value *find_setting(const td_layer_info *info, const char *key) {
    for (size_t i = 0; i < info->setting_count; i++) {
        if (strcmp(info->settings[i].key, key) == 0) {
            return &info->settings[i].value;
        }
    }
    return NULL;
}

static void settings_say_everything_with_defaults(void **state) {
    (void)state;
    td_error error = {0};
    td_model *model = td_model_create("m", TD_SHAPE(8, 8, 2));
    td_add_conv2d(model, .filters = 4, .kernel = {3}, .no_bias = true, .kernel_l2 = 0.25);
    td_add_max_pool2d(model, .window = {2, 3});
    td_add_batch_normalization(model, .epsilon = TD_SET(1e-5), .frozen = true);
    assert_ok(td_model_build(model, 1, &error), error);
    const td_layer_info *conv = td_model_layer(model, 0);
    assert_string_equal(conv->settings[0].key, "name");
    assert_string_equal(conv->settings[0].value.text, "conv2d");
    assert_true(find_setting(conv, "filters")->number == 4);
    assert_int_equal(find_setting(conv, "kernel")->count, 2);
    assert_true(find_setting(conv, "kernel")->numbers[1] == 3);
    assert_true(find_setting(conv, "stride")->numbers[0] == 1);
    assert_false(find_setting(conv, "use_bias")->boolean);
    assert_string_equal(find_setting(conv, "padding")->text, "valid");
    assert_string_equal(find_setting(conv, "kernel_initializer")->text, "glorot_uniform");
    assert_true(find_setting(conv, "kernel_l2")->number == 0.25);
    assert_null(find_setting(conv, "kernel_l1"));
    assert_null(find_setting(conv, "from"));
    assert_null(find_setting(conv, "frozen"));
    const td_layer_info *pool = td_model_layer(model, 1);
    assert_true(find_setting(pool, "stride")->numbers[1] == 3);
    const td_layer_info *norm = td_model_layer(model, 2);
    assert_true(find_setting(norm, "momentum")->number == 0.99);
    assert_true(find_setting(norm, "epsilon")->number == 1e-5);
    assert_true(find_setting(norm, "frozen")->boolean);
    td_model_destroy(model);
}

/* One of every kind of layer, with options that are not the defaults. */
static td_model *every_kind(void) {
    td_model *model = td_model_create("all", TD_SHAPE(8, 8, 2));
    td_add_conv2d(model, .filters = 4, .kernel = {3}, .padding = TD_PADDING_SAME,
                  .activation = TD_ELU);
    td_add_conv2d_transpose(model, .filters = 4, .kernel = {2}, .stride = {2});
    td_add_conv2d_transpose(model, .filters = 4, .kernel = {3}, .stride = {2},
                            .padding = TD_PADDING_SAME, .output_padding = {TD_SET(0)});
    td_add_max_pool2d(model);
    td_add_average_pool2d(model, .window = {2}, .stride = {1}, .padding = TD_PADDING_SAME);
    td_add_batch_normalization(model, .momentum = TD_SET(0));
    td_add_up_sampling2d(model, .interpolation = TD_BILINEAR);
    td_add_dropout(model, .rate = 0.25);
    td_add_global_max_pool2d(model, .name = "largest");
    td_add_global_average_pool2d(model, .name = "average", .from = {"dropout"});
    td_add_multiply(model, .from = {"largest", "average"});
    td_add_activation(model, .function = TD_LEAKY_RELU, .alpha = TD_SET(0.1));
    td_add_activation(model, .function = TD_LEAKY_RELU, .alpha = TD_SET(0));
    td_add_reshape(model, .shape = TD_SHAPE(2, -1));
    td_add_layer_normalization(model, .no_center = true);
    td_add_conv1d(model, .filters = 6, .kernel = {2}, .padding = TD_PADDING_CAUSAL);
    td_add_multi_head_attention(model, .heads = 2, .key_dim = 3, .value_dim = 2, .causal = true);
    td_add_concatenate(model, .from = {"multi_head_attention", "conv1d"}, .axis = 1);
    td_add_simple_rnn(model, .units = 3, .return_sequences = true, .activation = TD_SET(TD_LINEAR));
    td_add_lstm(model, .units = 3, .return_sequences = true, .no_unit_forget_bias = true);
    td_add_gru(model, .units = 5, .reset_before = true, .go_backwards = true);
    td_add_flatten(model);
    td_add_dense(model, .name = "a", .units = 3, .kernel_initializer = {.kind = TD_HE_NORMAL});
    td_add_dense(model, .name = "b", .units = 3, .from = {"flatten"}, .bias_l1 = 0.5);
    td_add_add(model, .from = {"a", "b"});
    return model;
}

static void compare_values(const td_value *a, const td_value *b) {
    assert_int_equal(a->kind, b->kind);
    assert_true(a->number == b->number && a->boolean == b->boolean && a->count == b->count);
    if (a->text) {
        assert_string_equal(a->text, b->text);
    }
    for (size_t i = 0; i < a->count; i++) {
        if (a->numbers) {
            assert_true(a->numbers[i] == b->numbers[i]);
        } else {
            assert_string_equal(a->texts[i], b->texts[i]);
        }
    }
}

static void settings_build_the_same_model_again(void **state) {
    (void)state;
    td_error error = {0};
    td_model *model = every_kind();
    assert_ok(td_model_build(model, 3, &error), error);
    td_model *copy = td_model_create("all", td_model_input_shape(model));
    for (size_t i = 0; i < td_model_layer_count(model); i++) {
        const td_layer_info *info = td_model_layer(model, i);
        assert_ok(td_model_add(copy, td_layer_kind_name(info->kind), info->settings,
                               info->setting_count, &error),
                  error);
        const td_layer_info *again = td_model_layer(copy, i);
        assert_true(td_shape_equal(&info->output, &again->output));
        assert_int_equal(info->setting_count, again->setting_count);
        for (size_t k = 0; k < info->setting_count; k++) {
            assert_string_equal(info->settings[k].key, again->settings[k].key);
            compare_values(&info->settings[k].value, &again->settings[k].value);
        }
    }
    assert_ok(td_model_build(copy, 3, &error), error);
    assert_int_equal(td_model_parameter_count(model), td_model_parameter_count(copy));
    for (size_t i = 0; i < td_model_parameter_count(model); i++) {
        const td_tensor *a = td_model_parameter_at(model, i)->tensor;
        const td_tensor *b = td_model_parameter_at(copy, i)->tensor;
        assert_string_equal(td_tensor_name(a), td_tensor_name(b));
        assert_memory_equal(td_tensor_data(a), td_tensor_data(b),
                            (size_t)td_tensor_count(a) * sizeof(float));
    }
    td_model_destroy(model);
    td_model_destroy(copy);
}

static void every_kind_runs_forward_and_backward(void **state) {
    (void)state;
    td_error error = {0};
    td_model *model = every_kind();
    assert_ok(td_model_build(model, 3, &error), error);
    td_tensor *const *weights, *gradients[64];
    size_t count = td_model_trainable(model, &weights);
    td_tensor *x = td_tensor_create("x", TD_FLOAT32, TD_SHAPE(2, 8, 8, 2), &error);
    for (int64_t i = 0; i < td_tensor_count(x); i++) {
        ((float *)td_tensor_data(x))[i] = (float)((i * 37) % 11) / 11.0f - 0.4f;
    }
    td_tape *tape = td_tape_create(NULL, &error);
    td_tape_set_training(tape, true);
    td_tensor *loss = td_sum(tape, td_model_forward(model, tape, x), NULL);
    assert_ok(td_tape_gradient(tape, td_model_regularize(model, tape, loss), count, weights,
                               gradients, &error),
              error);
    for (size_t i = 0; i < count; i++) {
        assert_false(td_tensor_is_disconnected(gradients[i]));
    }
    for (size_t i = 0; i < td_model_layer_count(model); i++) {
        const td_layer_info *info = td_model_layer(model, i);
        td_shape shape = td_tensor_shape(td_model_output_at(model, i));
        assert_int_equal(shape.rank, info->output.rank + 1);
        assert_int_equal(shape.dims[0], 2);
        for (int32_t d = 1; d < shape.rank; d++) {
            assert_int_equal(shape.dims[d], info->output.dims[d - 1]);
        }
    }
    td_tape_destroy(tape);
    td_tensor_destroy(x);
    td_model_destroy(model);
}

static void sizes_may_be_left_open(void **state) {
    (void)state;
    td_error error = {0};
    td_model *model = td_model_create("m", TD_SHAPE(-1, 3));
    td_add_conv1d(model, .filters = 4, .kernel = {2});
    td_add_gru(model, .units = 2);
    assert_ok(td_model_build(model, 1, &error), error);
    assert_int_equal(td_model_layer(model, 0)->output.dims[0], -1);
    td_tape *tape = td_tape_create(NULL, &error);
    for (int64_t steps = 5; steps < 8; steps++) {
        td_tensor *x = td_tensor_create("x", TD_FLOAT32, TD_SHAPE(2, steps, 3), &error);
        td_tensor *y = td_model_forward(model, tape, x);
        assert_ok(td_tape_status(tape, &error), error);
        assert_int_equal(td_tensor_shape(y).dims[1], 2);
        td_tape_reset(tape);
        td_tensor_destroy(x);
    }
    td_tape_destroy(tape);
    td_model_destroy(model);
    model = td_model_create("m", TD_SHAPE(-1, 3));
    td_add_flatten(model);
    td_add_dense(model, .name = "d", .units = 1);
    assert_string_equal(build_error(model, TD_BAD_SHAPE),
                        "layer 'd' (dense): its input is (-1,), the last dimension must be known");
}

static void frozen_layers_are_not_trained(void **state) {
    (void)state;
    td_error error = {0};
    td_model *model = td_model_create("m", TD_SHAPE(3));
    td_add_dense(model, .name = "a", .units = 2, .frozen = true);
    td_add_batch_normalization(model, .name = "n");
    td_add_dense(model, .name = "b", .units = 2);
    assert_ok(td_model_build(model, 1, &error), error);
    td_tensor *const *weights;
    assert_int_equal(td_model_parameter_count(model), 8);
    assert_int_equal(td_model_trainable(model, &weights), 4); /* gamma, beta, kernel, bias */
    assert_ptr_equal(weights[2], td_model_parameter(model, "b", "kernel"));
    assert_ok(td_model_freeze(model, "a", false, &error), error);
    assert_int_equal(td_model_trainable(model, &weights), 6);
    assert_ptr_equal(weights[0], td_model_parameter(model, "a", "kernel"));
    assert_ok(td_model_freeze(model, NULL, true, &error), error);
    assert_int_equal(td_model_trainable(model, &weights), 0);
    assert_true(td_model_layer(model, 2)->frozen);
    assert_true(find_setting(td_model_layer(model, 2), "frozen")->boolean);
    assert_int_equal(td_model_freeze(model, "c", true, &error), TD_NOT_FOUND);
    assert_null(td_model_parameter(model, "a", "gamma"));
    td_model_destroy(model);
}

static void an_embedding_makes_the_input_integer(void **state) {
    (void)state;
    td_error error = {0};
    td_model *model = td_model_create("m", TD_SHAPE(3));
    td_add_embedding(model, .name = "tokens", .vocabulary = 5, .width = 2);
    assert_ok(td_model_build(model, 1, &error), error);
    assert_int_equal(td_model_input_dtype(model), TD_INT32);
    td_tensor *x = td_tensor_from("x", TD_FLOAT32, TD_SHAPE(1, 3), (float[]){0, 1.5f, 2}, &error);
    td_tape *tape = td_tape_create(NULL, &error);
    assert_null(td_model_forward(model, tape, x));
    assert_int_equal(td_tape_status(tape, &error), TD_RANGE);
    assert_string_equal(error.text,
                        "layer 'tokens': embedding: 1.5 is no index: it must be a whole number");
    td_tape_destroy(tape);
    td_tensor_destroy(x);
    td_model_destroy(model);
}

static void the_summary_looks_like_keras(void **state) {
    (void)state;
    td_error error = {0};
    td_model *model = td_model_create("digits", TD_SHAPE(28, 28, 1));
    td_add_conv2d(model, .name = "conv1", .filters = 32, .kernel = {3}, .activation = TD_RELU);
    td_add_batch_normalization(model);
    td_add_flatten(model);
    td_add_dense(model, .name = "logits", .units = 10);
    assert_ok(td_model_build(model, 1, &error), error);
    char *printed = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&printed, &size);
    assert_int_equal(td_model_summary(model, stream), TD_OK);
    (void)fclose(stream);
    assert_string_equal(
        printed,
        "Model: \"digits\"\n"
        "┏━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━━┓\n"
        "┃ Layer (type)                             ┃ Output Shape           ┃       Param # ┃\n"
        "┡━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━━┩\n"
        "│ conv1 (Conv2D)                           │ (None, 26, 26, 32)     │           320 │\n"
        "├──────────────────────────────────────────┼────────────────────────┼───────────────┤\n"
        "│ batch_normalization (BatchNormalization) │ (None, 26, 26, 32)     │           128 │\n"
        "├──────────────────────────────────────────┼────────────────────────┼───────────────┤\n"
        "│ flatten (Flatten)                        │ (None, 21632)          │             0 │\n"
        "├──────────────────────────────────────────┼────────────────────────┼───────────────┤\n"
        "│ logits (Dense)                           │ (None, 10)             │       216,330 │\n"
        "└──────────────────────────────────────────┴────────────────────────┴───────────────┘\n"
        " Total params: 216,778 (846.79 KB)\n"
        " Trainable params: 216,714 (846.54 KB)\n"
        " Non-trainable params: 64 (256.00 B)\n");
    free(printed);
    td_model_destroy(model);
}

static void the_summary_of_a_graph_shows_what_reads_what(void **state) {
    (void)state;
    td_error error = {0};
    td_model *model = td_model_create("graph", TD_SHAPE(4));
    td_add_dense(model, .name = "a", .units = 4);
    td_add_add(model, .name = "sum", .from = {"a", "input"});
    assert_ok(td_model_build(model, 1, &error), error);
    char *printed = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&printed, &size);
    assert_int_equal(td_model_summary(model, stream), TD_OK);
    (void)fclose(stream);
    assert_non_null(strstr(printed, "┃ Connected to         ┃\n"));
    assert_non_null(strstr(printed, "│ a, input             │\n"));
    free(printed);
    td_model_destroy(model);
}

static void bools_and_aliases_are_understood(void **state) {
    (void)state;
    td_error error = {0};
    td_model *model = td_model_create("m", TD_SHAPE(9, 9, 1));
    double kernel[] = {3, 5};
    td_setting settings[] = {
        number("filters", 2),
        {"kernel_size", {.kind = TD_VALUE_NUMBERS, .numbers = kernel, .count = 2}},
        number("strides", 2),
        boolean("use_bias", false),
        text("activation", "silu")};
    assert_ok(td_model_add(model, "conv2d", settings, 5, &error), error);
    assert_ok(td_model_build(model, 1, &error), error);
    const td_layer_info *info = td_model_layer(model, 0);
    assert_int_equal(info->output.dims[0], 4);
    assert_int_equal(info->output.dims[1], 3);
    assert_int_equal(info->parameter_count, 1);
    assert_string_equal(find_setting(info, "activation")->text, "swish");
    td_model_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_without_a_name_get_keras_names),
        cmocka_unit_test(a_name_of_another_layer_is_refused),
        cmocka_unit_test(the_first_error_of_a_builder_sticks),
        cmocka_unit_test(bad_shapes_name_the_layer_and_both_shapes),
        cmocka_unit_test(sizes_that_would_overflow_are_refused),
        cmocka_unit_test(reading_a_layer_that_is_not_there_is_an_error),
        cmocka_unit_test(an_empty_model_does_not_build),
        cmocka_unit_test(misspelt_words_get_the_nearest_valid_one),
        cmocka_unit_test(bools_and_aliases_are_understood),
        cmocka_unit_test(settings_say_everything_with_defaults),
        cmocka_unit_test(settings_build_the_same_model_again),
        cmocka_unit_test(every_kind_runs_forward_and_backward),
        cmocka_unit_test(sizes_may_be_left_open),
        cmocka_unit_test(frozen_layers_are_not_trained),
        cmocka_unit_test(an_embedding_makes_the_input_integer),
        cmocka_unit_test(the_summary_looks_like_keras),
        cmocka_unit_test(the_summary_of_a_graph_shows_what_reads_what),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
