/* Models that real Keras wrote predict here what they predicted there. The files and Keras's outputs
 * are made by tests/fixtures/make_models_keras.py. */
#define FOLDER TD_TEST_FOLDER "/fixtures/models/keras/"
#include "saved_model.h"

static void assert_predicts(td_model *model, const char *name) {
    td_error error = {0};
    td_tensor *x = read_npy(name, "input"), *want = read_npy(name, "output");
    td_tape *tape = td_tape_create(NULL, &error);
    assert_non_null(tape);
    td_tensor *got = td_model_forward(model, tape, x);
    assert_ok(td_tape_status(tape, &error), error);
    assert_int_equal(td_tensor_count(got), td_tensor_count(want));
    const float *a = td_tensor_data(got), *b = td_tensor_data(want);
    for (int64_t i = 0; i < td_tensor_count(got); i++) {
        assert_close(a[i], b[i], 1e-5, 1e-5);
    }
    td_tape_destroy(tape);
    td_tensor_destroy(x);
    td_tensor_destroy(want);
}

static void every_fixture_predicts_what_keras_predicted(void **state) {
    (void)state;
    static const struct {
        const char *file, *data;
    } fixtures[] = {{"images.keras", "images"},
                    {"text.keras", "text"},
                    {"graph.keras", "graph"},
                    {"graph.h5", "graph"},
                    {"picture.keras", "picture"},
                    {"pools.keras", "pools"},
                    {"masks.keras", "masks"},
                    {"split.h5", "split"},
                    {"halves.h5", "halves"},
                    {"graph_2_13.keras", "graph_2_13"},
                    {"images_2_13.h5", "images_2_13"},
                    {"text_2_15.keras", "text_2_15"},
                    {"gates_2_21.keras", "gates_2_21"},
                    {"gates_2_21.h5", "gates_2_21"}};
    for (size_t i = 0; i < sizeof fixtures / sizeof *fixtures; i++) {
        td_model *model = load_model(fixtures[i].file, "");
        assert_predicts(model, fixtures[i].data);
        td_model_destroy(model);
    }
}

static double number_setting(const td_layer_info *layer, const char *key) {
    for (size_t i = 0; i < layer->setting_count; i++) {
        if (!strcmp(layer->settings[i].key, key)) {
            return layer->settings[i].value.number;
        }
    }
    return 0;
}

static void names_freezing_and_penalties_are_kept(void **state) {
    (void)state;
    static const char *const files[] = {"images.keras", "images_2_13.h5"};
    for (size_t i = 0; i < 2; i++) {
        td_model *model = load_model(files[i], "");
        assert_string_equal(td_model_name(model), "images");
        assert_true(td_model_layer(model, 0)->frozen);
        assert_string_equal(td_model_layer(model, 0)->name, "first");
        const td_layer_info *second = td_model_layer(model, 2);
        assert_false(second->frozen);
        assert_close(number_setting(second, "kernel_l1"), 0.01, 1e-6, 0);
        assert_close(number_setting(second, "kernel_l2"), 0.02, 1e-6, 0);
        assert_non_null(td_model_parameter(model, "hidden", "kernel"));
        td_model_destroy(model);
    }
}

static void layers_of_a_model_in_the_model_keep_their_names_where_they_can(void **state) {
    (void)state;
    td_model *model = load_model("graph.keras", "");
    assert_true(td_model_find(model, "inner") < 0);
    assert_true(td_model_find(model, "dense") >= 0);
    assert_true(td_model_find(model, "batch_normalization") >= 0);
    size_t count = td_model_layer_count(model);
    assert_string_equal(td_model_layer(model, count - 1)->name, "main"); /* the first output */
    assert_true(td_model_find(model, "side") >= 0);
    td_model_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_fixture_predicts_what_keras_predicted),
        cmocka_unit_test(names_freezing_and_penalties_are_kept),
        cmocka_unit_test(layers_of_a_model_in_the_model_keep_their_names_where_they_can),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
