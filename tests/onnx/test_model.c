/* Models that PyTorch and tf2onnx exported predict here what they predicted there, have names and
 * layouts of Keras's, and give PyTorch's gradients. Made by tests/fixtures/make_models_onnx.py. */
#define FOLDER TD_TEST_FOLDER "/fixtures/models/onnx/"
#include "saved_model.h"

#include "graph/source.h"

static const char *const fixtures[] = {"mlp_9",           "cnn_13",        "cnn_17",
                                       "residual_11",     "lstm_13",       "gru_17",
                                       "rnn_9",           "unet_13",       "bidirectional_11",
                                       "transformer_13",  "speech_13",     "transformer_17",
                                       "fixed_11",        "trained_13",    "paddle_11",
                                       "keras_images_13", "keras_text_15", "keras_attention_17",
                                       "steps_17",        "steps_text_17"};

static void assert_output(const char *name, const td_tape *tape, const td_tensor *got,
                          const td_tensor *want) {
    td_error error = {0};
    if (td_tape_status(tape, &error)) {
        fail_msg("%s: %s", name, error.text);
    }
    td_shape a = td_tensor_shape(got), b = td_tensor_shape(want);
    assert_true(td_shape_equal(&a, &b));
    for (int64_t i = 0; i < td_tensor_count(got); i++) {
        assert_close(((float *)td_tensor_data(got))[i], ((float *)td_tensor_data(want))[i], 1e-5,
                     1e-5);
    }
}

static void assert_predicts(const char *name, td_model *model) {
    td_error error = {0};
    td_tensor *x = read_npy(name, "input"), *want = read_npy(name, "output");
    td_tape *tape = td_tape_create(NULL, &error);
    assert_non_null(tape);
    td_tensor *got = td_model_forward(model, tape, x);
    assert_output(name, tape, got, want);
    for (size_t i = 0; i < td_model_layer_count(model); i++) { /* shapes are as announced */
        td_shape planned = td_model_layer(model, i)->output;
        td_shape output = td_tensor_shape(td_model_output_at(model, i));
        assert_int_equal(planned.rank + 1, output.rank);
        for (int32_t k = 0; k < planned.rank; k++) {
            assert_int_equal(planned.dims[k], output.dims[k + 1]);
        }
    }
    td_tape_destroy(tape);
    td_tensor_destroy(x);
    td_tensor_destroy(want);
}

static void every_fixture_predicts_what_the_original_did(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof fixtures / sizeof *fixtures; i++) {
        td_model *model = load_model(fixtures[i], ".onnx");
        assert_predicts(fixtures[i], model);
        td_model_destroy(model);
    }
}

static td_tape *inference_tape(void) {
    td_error error = {0};
    td_tape *tape = td_tape_create(
        &(td_tape_options){.size = sizeof(td_tape_options), .inference = true}, &error);
    assert_non_null(tape);
    return tape;
}

/* Three times: memory of the one before lies about. */
static void layers_that_run_as_one_predict_the_same(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof fixtures / sizeof *fixtures; i++) {
        td_model *model = load_model(fixtures[i], ".onnx");
        td_tensor *x = read_npy(fixtures[i], "input"), *want = read_npy(fixtures[i], "output");
        td_tape *tape = inference_tape();
        for (int k = 0; k < 3; k++) {
            assert_output(fixtures[i], tape, td_model_forward(model, tape, x), want);
            for (size_t n = 0; n + 1 < td_model_layer_count(model); n++) {
                assert_true(!td_model_output_at(model, n) || n == td_model_output_layer(model, 0));
            }
            td_tape_reset(tape);
        }
        td_tape_destroy(tape);
        td_tensor_destroy(x);
        td_tensor_destroy(want);
        td_model_destroy(model);
    }
}

static size_t count_inside(const char *name) {
    td_model *model = load_model(name, ".onnx");
    const td__graph_source *source = td__graph_source_of(model);
    size_t inside = 0;
    for (size_t n = 0; n < source->graph->node_count; n++) {
        inside += source->plan.steps[n].inside;
    }
    td_model_destroy(model);
    return inside;
}

static void known_patterns_are_found(void **state) {
    (void)state;
    /* swish 2, hard swish, sum and relu 2, clip, sum, leaky relu, tanh, elu, sum, softplus, swish 2 */
    assert_int_equal(count_inside("steps_17"), 14);
    /* of each block: biases 6, GELU 5; sums 1 (the first is to the input) and 2; relu */
    assert_int_equal(count_inside("steps_text_17"), 26);
}

/* What each layer puts out, as a copy. */
typedef struct outputs {
    td_tensor *of[64];
} outputs;

static void copy_output(void *user, size_t layer, td_layer_signal signal, td_tensor *tensor) {
    outputs *all = user;
    td_error error = {0};
    if (signal == TD_LAYER_OUTPUT) {
        assert_true(layer < 64);
        all->of[layer] =
            td_tensor_from("", TD_FLOAT32, td_tensor_shape(tensor), td_tensor_data(tensor), &error);
        assert_non_null(all->of[layer]);
    }
}

/* A watcher is called for every layer, whatever the tape is for. */
static void watched_layers_put_out_what_they_do_alone(void **state) {
    (void)state;
    static const char *const watched[] = {"steps_17", "steps_text_17", "residual_11"};
    for (size_t i = 0; i < sizeof watched / sizeof *watched; i++) {
        td_model *model = load_model(watched[i], ".onnx");
        td_tensor *x = read_npy(watched[i], "input");
        td_error error = {0};
        td_tape *tape = inference_tape(), *usual = td_tape_create(NULL, &error);
        outputs told = {0};
        td_model_watch(model, copy_output, &told);
        assert_non_null(td_model_forward(model, tape, x));
        td_model_watch(model, NULL, NULL);
        assert_non_null(td_model_forward(model, usual, x));
        for (size_t n = 0; n < td_model_layer_count(model); n++) {
            assert_output(td_model_layer(model, n)->name, tape, told.of[n],
                          td_model_output_at(model, n));
            td_tensor_destroy(told.of[n]);
        }
        td_tape_destroy(tape);
        td_tape_destroy(usual);
        td_tensor_destroy(x);
        td_model_destroy(model);
    }
}

static void assert_parameter(const td_model *model, const char *layer, const char *parameter,
                             td_shape shape) {
    td_tensor *tensor = td_model_parameter(model, layer, parameter);
    if (!tensor) {
        fail_msg("no %s.%s", layer, parameter);
    }
    td_shape got = td_tensor_shape(tensor);
    assert_true(td_shape_equal(&got, &shape));
}

static void layers_and_parameters_have_the_names_and_layouts_of_keras(void **state) {
    (void)state;
    td_model *model = load_model("trained_13", ".onnx");
    assert_parameter(model, "conv1", "kernel", TD_SHAPE(3, 3, 2, 4));
    assert_parameter(model, "conv1", "bias", TD_SHAPE(4));
    assert_parameter(model, "bn1", "moving_variance", TD_SHAPE(4));
    assert_parameter(model, "fc", "kernel", TD_SHAPE(5, 3));
    assert_string_equal(td_model_layer(model, 0)->name, "conv1");
    assert_string_equal(td_model_layer(model, 0)->type, "Conv");
    td_shape input = td_model_input_shape(model);
    assert_true(td_shape_equal(&input, &TD_SHAPE(6, 6, 2)));
    td_tensor *const *trained;
    assert_int_equal(td_model_trainable(model, &trained), td_model_parameter_count(model) - 2);
    td_model_destroy(model);

    model = load_model("lstm_13", ".onnx");
    assert_parameter(model, "rnn", "kernel", TD_SHAPE(5, 24));
    assert_parameter(model, "rnn", "recurrent_kernel", TD_SHAPE(6, 24));
    assert_parameter(model, "rnn", "bias", TD_SHAPE(24));
    td_model_destroy(model);

    model = load_model("residual_11", ".onnx");
    assert_parameter(model, "layer1.1.conv2", "kernel", TD_SHAPE(3, 3, 8, 8));
    td_model_destroy(model);

    model = load_model("paddle_11", ".onnx"); /* weights in Constant nodes */
    assert_parameter(model, "conv2d_0", "kernel", TD_SHAPE(3, 3, 3, 40));
    assert_parameter(model, "conv2d_0", "b_0", TD_SHAPE(1, 40, 1, 1));
    assert_parameter(model, "linear_0", "kernel", TD_SHAPE(40, 30));
    assert_parameter(model, "linear_0", "b_0", TD_SHAPE(30));
    assert_int_equal(td_model_trainable(model, &trained), 4);
    td_model_destroy(model);

    model = load_model("transformer_13", ".onnx");
    assert_int_equal(td_model_input_dtype(model), TD_INT32);
    assert_parameter(model, "embedding", "embeddings", TD_SHAPE(20, 12));
    td_model_destroy(model);
}

/* One run of the first would take gigabytes; the second has windows that few sizes fit. */
static void shapes_are_learnt_without_the_memory_of_a_run(void **state) {
    (void)state;
    td_model *model = load_model("large_11", ".onnx");
    td_shape output = td_model_layer(model, td_model_layer_count(model) - 1)->output;
    assert_true(td_shape_equal(&output, &TD_SHAPE(3000, 3000, 1)));
    td_model_destroy(model);

    model = load_model("windows_11", ".onnx");
    output = td_model_layer(model, 0)->output;
    assert_true(td_shape_equal(&output, &TD_SHAPE(-1, 4)));
    td_model_destroy(model);
}

/* mean(output^2), and its gradients against those in the .npz, taken for another model's weights. */
static void assert_gradients(const char *name, bool training) {
    char path[512];
    td_error error = {0};
    td_model *model = load_model(name, ".onnx"), *expected = load_model(name, ".onnx");
    snprintf(path, sizeof path, FOLDER "%s.gradients.npz", name);
    assert_ok(td_weights_load(expected, path, &error), error);
    td_tensor *x = read_npy(name, "input");
    td_tape *tape = td_tape_create(NULL, &error);
    td_tape_set_training(tape, training);
    td_tensor *loss = td_mean(tape, td_square(tape, td_model_forward(model, tape, x)), NULL);
    td_tensor *const *trained, *const *wanted;
    size_t count = td_model_trainable(model, &trained);
    assert_int_equal(td_model_trainable(expected, &wanted), count);
    td_tensor *gradients[64];
    assert_in_range(count, 1, 64);
    assert_ok(td_tape_gradient(tape, loss, count, trained, gradients, &error), error);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(td_tensor_name(trained[i]), td_tensor_name(wanted[i]));
        assert_false(td_tensor_is_disconnected(gradients[i]));
        const float *a = td_tensor_data(gradients[i]), *b = td_tensor_data(wanted[i]);
        for (int64_t k = 0; k < td_tensor_count(gradients[i]); k++) {
            if (!(fabsf(a[k] - b[k]) <= 1e-5f + 1e-4f * fabsf(b[k]))) {
                fail_msg("%s[%lld]: %g, PyTorch has %g", td_tensor_name(trained[i]), (long long)k,
                         (double)a[k], (double)b[k]);
            }
        }
    }
    td_tensor_destroy(x);
    td_tape_destroy(tape);
    td_model_destroy(model);
    td_model_destroy(expected);
}

static void gradients_are_pytorch_s(void **state) {
    (void)state;
    assert_gradients("lstm_13", false);
    assert_gradients("trained_13", true);
}

/* Training through every operator of the fixtures lowers the loss, whatever is frozen. */
static void loaded_models_train(void **state) {
    (void)state;
    static const char *const names[] = {"cnn_17",          "residual_11", "unet_13",
                                        "transformer_17",  "gru_17",      "speech_13",
                                        "keras_images_13", "paddle_11"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        td_error error = {0};
        td_model *model = load_model(names[i], ".onnx");
        td_tensor *x = read_npy(names[i], "input");
        td_tape *tape = td_tape_create(NULL, &error);
        assert_ok(td_model_freeze(model, td_model_layer(model, 0)->name, true, &error), error);
        td_tensor *const *trained;
        size_t count = td_model_trainable(model, &trained);
        td_tensor *gradients[64];
        assert_in_range(count, 1, 64);
        td_optimizer *optimizer = td_optimizer_create(
            TD_OPTIMIZER(.kind = TD_ADAM, .learning_rate = TD_SET(0.01)), count, trained, &error);
        float first = 0, last = 0;
        for (int step = 0; step < 20; step++) {
            td_tensor *y = td_model_forward(model, tape, x);
            td_tensor *loss = td_mean(tape, td_square(tape, td_affine(tape, y, 1, -0.3f)), NULL);
            assert_ok(td_tape_gradient(tape, loss, count, trained, gradients, &error), error);
            assert_ok(td_optimizer_step(optimizer, gradients, &error), error);
            last = td_tensor_scalar(loss);
            first = step ? first : last;
            td_tape_reset(tape);
        }
        if (!(last < 0.99f * first)) {
            fail_msg("%s: from %g to %g", names[i], (double)first, (double)last);
        }
        td_optimizer_destroy(optimizer);
        td_tape_destroy(tape);
        td_tensor_destroy(x);
        td_model_destroy(model);
    }
}

/* --- refusing ------------------------------------------------------------------------------- */

static void files_that_cannot_be_had_are_refused_with_a_sentence(void **state) {
    (void)state;
    static const struct {
        const char *name, *text;
        td_status status;
    } refused[] = {
        {"operators",
         "operators of opset 13 that are not supported: Frobnicate (2 times, first node "
         "0), Transmogrify (node 'last')",
         TD_UNSUPPORTED},
        {"both", "operators of opset 13 that are not supported: Frobnicate (node 0)",
         TD_UNSUPPORTED},
        {"inputs",
         "it has 2 inputs and 1 outputs, a model has one input; `tapedeck predict MODEL "
         "--input NAME=FILE … --output NAME=FILE …` runs it",
         TD_NO_MODEL},
        {"output",
         "its output 'y' () (float) is not float with the batch in front; `tapedeck predict MODEL "
         "--input NAME=FILE --output NAME=FILE` runs it as it is",
         TD_UNSUPPORTED},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        char path[512], text[1024];
        snprintf(path, sizeof path, FOLDER "refused_%s.onnx", refused[i].name);
        snprintf(text, sizeof text, "%s: %s", path, refused[i].text);
        td_error error = {0};
        assert_null(td_model_load(path, &error));
        assert_int_equal(error.status, refused[i].status);
        assert_string_equal(error.text, text);
    }
}

/* --- saving --------------------------------------------------------------------------------- */

static const char *const saved_names[] = {"trained_13",       "gru_17",         "lstm_13",
                                          "bidirectional_11", "transformer_13", "unet_13",
                                          "keras_images_13",  "keras_text_15",  "paddle_11"};

static char folder[] = "/tmp/tapedeck-onnx-XXXXXX";

static const char *inside(const char *name, const char *ending) {
    static char path[512];
    snprintf(path, sizeof path, "%s/%s.%s", folder, name, ending);
    return path;
}

static void a_model_survives_safetensors(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof saved_names / sizeof *saved_names; i++) {
        td_error error = {0};
        td_model *model = load_model(saved_names[i], ".onnx");
        assert_ok(td_model_freeze(model, td_model_layer(model, 1)->name, true, &error), error);
        const char *path = inside(saved_names[i], "safetensors");
        assert_ok(td_model_save(model, path, 0, NULL, &error), error);
        td_model *again = td_model_load(path, &error);
        if (!again) {
            fail_msg("%s", error.text);
        }
        assert_string_equal(td_model_name(again), td_model_name(model));
        assert_false(td_model_layer(again, 0)->frozen);
        assert_true(td_model_layer(again, 1)->frozen);
        assert_predicts(saved_names[i], again);
        td_model_destroy(model);
        td_model_destroy(again);
        (void)remove(path);
    }
}

static void parameters_are_written_back_into_an_onnx_file(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof saved_names / sizeof *saved_names; i++) {
        td_error error = {0};
        td_model *model = load_model(saved_names[i], ".onnx");
        for (size_t k = 0; k < td_model_parameter_count(model); k++) {
            td_tensor *tensor = td_model_parameter_at(model, k)->tensor;
            float *values = td_tensor_data(tensor);
            for (int64_t j = 0; j < td_tensor_count(tensor); j++) {
                values[j] = 2 * values[j] + (float)j;
            }
        }
        const char *path = inside(saved_names[i], "onnx");
        assert_ok(td_weights_save(model, path, &error), error);
        td_model *again = td_model_load(path, &error);
        if (!again) {
            fail_msg("%s", error.text);
        }
        assert_int_equal(td_model_parameter_count(again), td_model_parameter_count(model));
        for (size_t k = 0; k < td_model_parameter_count(model); k++) {
            const td_parameter_info *a = td_model_parameter_at(model, k);
            const td_parameter_info *b = td_model_parameter_at(again, k);
            assert_string_equal(a->name, b->name);
            assert_memory_equal(td_tensor_data(a->tensor), td_tensor_data(b->tensor),
                                (size_t)td_tensor_count(a->tensor) * sizeof(float));
        }
        td_model_destroy(model);
        td_model_destroy(again);
        (void)remove(path);
    }
}

int main(void) {
    if (!mkdtemp(folder)) {
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_fixture_predicts_what_the_original_did),
        cmocka_unit_test(layers_that_run_as_one_predict_the_same),
        cmocka_unit_test(known_patterns_are_found),
        cmocka_unit_test(watched_layers_put_out_what_they_do_alone),
        cmocka_unit_test(layers_and_parameters_have_the_names_and_layouts_of_keras),
        cmocka_unit_test(shapes_are_learnt_without_the_memory_of_a_run),
        cmocka_unit_test(gradients_are_pytorch_s),
        cmocka_unit_test(loaded_models_train),
        cmocka_unit_test(files_that_cannot_be_had_are_refused_with_a_sentence),
        cmocka_unit_test(a_model_survives_safetensors),
        cmocka_unit_test(parameters_are_written_back_into_an_onnx_file),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)remove(folder);
    return failed;
}
