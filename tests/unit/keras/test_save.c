/* What is written as .keras reads back as the same model; tests/interop/test_keras_files.py has Keras
 * read it. */
#include "test.h"

#include "base/memory.h"
#include "keras_archive.h"
#include "tapedeck/model.h"

#include <sys/stat.h>

static char folder[] = "/tmp/td_keras_XXXXXX";
static char path[64];

static int make_folder(void **state) {
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/x.keras", folder);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static td_model *load(const char *from) {
    td_error error = {0};
    td_model *model = td_model_load(from, &error);
    if (!model) {
        fail_msg("%s", error.text);
    }
    return model;
}

static void assert_same_value(const td_value *a, const td_value *b, const char *key) {
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->boolean, b->boolean);
    assert_close(a->number, b->number, 1e-12, 0);
    if (a->kind == TD_VALUE_TEXT && strcmp(a->text, b->text) != 0) {
        fail_msg("%s: '%s' has become '%s'", key, a->text, b->text);
    }
    assert_int_equal(a->count, b->count);
    for (size_t i = 0; i < a->count; i++) {
        if (a->kind == TD_VALUE_NUMBERS) {
            assert_close(a->numbers[i], b->numbers[i], 0, 0);
        }
    }
}

/* Layers of one name have the same kind, options, inputs and values; the order may differ. */
static void assert_same_model(const td_model *a, const td_model *b) {
    assert_int_equal(td_model_layer_count(a), td_model_layer_count(b));
    td_shape input = td_model_input_shape(a), other = td_model_input_shape(b);
    assert_true(td_shape_equal(&input, &other));
    for (size_t i = 0; i < td_model_layer_count(a); i++) {
        const td_layer_info *from = td_model_layer(a, i);
        ptrdiff_t found = td_model_find(b, from->name);
        if (found < 0) {
            fail_msg("layer '%s' is gone", from->name);
        }
        const td_layer_info *to = td_model_layer(b, (size_t)found);
        assert_int_equal(from->kind, to->kind);
        assert_int_equal(from->frozen, to->frozen);
        assert_int_equal(from->input_count, to->input_count);
        for (size_t k = 0, m = 0; k < from->setting_count; k++, m++) {
            const char *key = from->settings[k].key;
            if (strcmp(key, "from") == 0) {
                continue;
            }
            for (m = 0; m < to->setting_count && strcmp(to->settings[m].key, key) != 0; m++) {
            }
            if (m == to->setting_count) {
                fail_msg("%s has lost %s", from->name, key);
            }
            assert_same_value(&from->settings[k].value, &to->settings[m].value, key);
        }
    }
    assert_int_equal(td_model_parameter_count(a), td_model_parameter_count(b));
    for (size_t i = 0; i < td_model_parameter_count(a); i++) {
        const td_parameter_info *from = td_model_parameter_at(a, i);
        const td_tensor *to =
            td_model_parameter(b, td_model_layer(a, from->layer)->name, from->parameter);
        assert_non_null(to);
        assert_int_equal(td_tensor_count(from->tensor), td_tensor_count(to));
        assert_memory_equal(td_tensor_data(from->tensor), td_tensor_data(to),
                            sizeof(float) * (size_t)td_tensor_count(to));
    }
}

static void a_model_from_keras_is_the_same_after_a_round_trip(void **state) {
    (void)state;
    static const char *const names[] = {"images.keras",     "text.keras", "graph.keras",
                                        "graph_2_13.keras", "split.h5",   "picture.keras",
                                        "pools.keras",      "masks.keras"};
    td_error error = {0};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char from[512];
        snprintf(from, sizeof from, KERAS_FOLDER "%s", names[i]);
        td_model *model = load(from);
        assert_ok(td_model_save(model, path, 0, NULL, &error), error);
        td_model *again = load(path);
        assert_same_model(model, again);
        td_model_destroy(again);
        td_model_destroy(model);
    }
}

/* Branches of different lengths, whose classes Keras counts in an order of its own. */
static td_model *make_branches(void) {
    td_model *model = td_model_create("with/slash", TD_SHAPE(6));
    td_add_dense(model, .name = "short", .units = 4, .activation = TD_LEAKY_RELU);
    td_add_dense(model, .name = "long_1", .units = 5, .from = {"input"});
    td_add_dense(model, .name = "long_2", .units = 4, .no_bias = true);
    td_add_activation(model, .name = "leaky", .function = TD_LEAKY_RELU, .alpha = TD_SET(0.05));
    td_add_activation(model, .name = "elu", .function = TD_ELU, .alpha = TD_SET(0.7));
    td_add_dense(model, .name = "dangling", .units = 2, .from = {"short"}, .frozen = true);
    td_add_add(model, .name = "input_layer", .from = {"short", "elu"});
    td_add_dense(model, .name = "out", .units = 3, .kernel_l1 = 0.5, .bias_l2 = 0.25);
    td_error error = {0};
    assert_ok(td_model_build(model, 3, &error), error);
    return model;
}

static void a_graph_of_our_own_comes_back(void **state) {
    (void)state;
    td_error error = {0};
    td_model *model = make_branches();
    assert_ok(td_weights_save(model, path, &error), error);
    td_model *again = load(path);
    assert_same_model(model, again);
    const td_layer_info *last = td_model_layer(again, td_model_layer_count(again) - 1);
    assert_string_equal(last->name, "out");
    td_model_destroy(again);
    td_model_destroy(model);
}

static void the_same_model_is_the_same_bytes(void **state) {
    (void)state;
    td_error error = {0};
    td_model *model = make_branches();
    td__bytes first = {0}, second = {0};
    assert_ok(td_model_save(model, path, 0, NULL, &error), error);
    assert_ok(td__bytes_map(&first, path, &error), error);
    assert_ok(td_model_save(model, path, 0, NULL, &error), error);
    assert_ok(td__bytes_map(&second, path, &error), error);
    assert_int_equal(first.size, second.size);
    assert_memory_equal(first.data, second.data, first.size);
    td__bytes_release(&first);
    td__bytes_release(&second);
    td_model_destroy(model);
}

static void what_keras_lacks_is_listed(void **state) {
    (void)state;
    td_error error = {0};
    td_model *model = td_model_create("m", TD_SHAPE(6));
    td_add_dense(model, .name = "a/b", .units = 4);
    td_add_dense(model, .name = "c", .units = 4, .activation = TD_GELU_TANH);
    td_add_activation(model, .name = "d", .function = TD_GELU_TANH);
    assert_ok(td_model_build(model, 3, &error), error);
    unlink(path);
    assert_int_equal(td_model_save(model, path, 0, NULL, &error), TD_UNSUPPORTED);
    assert_non_null(strstr(error.text, "3 problems: Keras allows no '/' in the name 'a/b'; dense "
                                       "layer 'c': Keras 3 has no name for gelu_tanh; activation "
                                       "layer 'd': Keras 3 has no name for gelu_tanh"));
    struct stat about;
    assert_int_not_equal(stat(path, &about), 0);
    td_model_destroy(model);
}

static void a_failed_write_leaves_the_old_file(void **state) {
    (void)state;
    td_error error = {0};
    td_model *model = make_branches();
    FILE *old = fopen(path, "w");
    fputs("old", old);
    fclose(old);
    bool saved = false;
    size_t failures = 0;
    for (uint64_t n = 1; !saved && n < 5000; n++) {
        memset(&error, 0, sizeof error);
        td__allocation_fail_at(n);
        saved = td_model_save(model, path, 0, NULL, &error) == TD_OK;
        td__allocation_fail_at(0);
        if (!saved) {
            assert_true(error.text[0]);
            td__bytes bytes = {0};
            assert_ok(td__bytes_map(&bytes, path, &error), error);
            assert_int_equal(bytes.size, 3);
            td__bytes_release(&bytes);
            failures++;
        }
    }
    assert_true(saved && failures > 10);
    assert_int_equal(td_model_save(model, "/nowhere/x.keras", 0, NULL, &error), TD_IO);
    td_model_destroy(load(path));
    td_model_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_from_keras_is_the_same_after_a_round_trip),
        cmocka_unit_test(a_graph_of_our_own_comes_back),
        cmocka_unit_test(the_same_model_is_the_same_bytes),
        cmocka_unit_test(what_keras_lacks_is_listed),
        cmocka_unit_test(a_failed_write_leaves_the_old_file),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
