/* Files of TensorFlow Lite: what its interpreter computed (tests/fixtures/make_models_tflite.py), and
 * files that are damaged or have what is not supported. */
#define FOLDER TD_TEST_FOLDER "/fixtures/models/tflite/"
#include "model_file.h"

#include "tflite/flat.h"

static void files_predict_what_the_interpreter_computed(void **state) {
    (void)state;
    assert_file_predicts("images_float32", ".tflite", 1e-5);
    assert_file_predicts("words_float32", ".tflite", 1e-5);
    assert_file_predicts("dilated_float32", ".tflite", 1e-5);
}

static void numbers_of_few_bits_are_off_by_one_step_at_most(void **state) {
    (void)state;
    assert_file_predicts("images_uint8", ".tflite", 0.004); /* 1 / 256 */
}

static void kernels_have_the_layout_of_keras(void **state) {
    (void)state;
    td_model *model = load_model("images_float32", ".tflite");
    const td_shape wanted = {.rank = 4, .dims = {3, 3, 3, 8}};
    bool found = false;
    for (size_t i = 0; td_model_parameter_at(model, i); i++) {
        td_shape shape = td_tensor_shape(td_model_parameter_at(model, i)->tensor);
        found |= td_shape_equal(&shape, &wanted);
    }
    assert_true(found);
    td_model_destroy(model);
}

static void a_file_cut_anywhere_is_refused(void **state) {
    (void)state;
    file_bytes whole = read_fixture_file("images_float32.tflite");
    for (size_t size = 9; size < whole.size; size += 97) {
        assert_bytes_refused("short.tflite", whole.data, size,
                             "short.tflite: not a sound file of TensorFlow Lite");
    }
    free(whole.data);
}

static void any_changed_word_is_loaded_or_refused_with_a_reason(void **state) {
    (void)state;
    static const unsigned char words[][4] = {
        {0xff, 0xff, 0xff, 0xff}, {0, 0, 0, 0}, {0xff, 0xff, 0xff, 0x7f}};
    file_bytes whole = read_fixture_file("words_float32.tflite");
    for (size_t at = 8; at + 4 <= whole.size; at += 20) {
        unsigned char kept[4];
        memcpy(kept, whole.data + at, 4);
        memcpy(whole.data + at, words[at / 20 % 3], 4);
        assert_bytes_survived("changed.tflite", whole.data, whole.size);
        memcpy(whole.data + at, kept, 4);
    }
    free(whole.data);
}

/* The position of an operator's code in the file: model, operator_codes[i], field. */
static size_t code_field(file_bytes file, size_t i, unsigned field) {
    td__flat flat = {file.data, file.size, false};
    size_t count, codes = td__flat_vector(&flat, td__flat_u32(&flat, 0), 1, 4, &count);
    assert_true(i < count);
    size_t at = td__flat_field(&flat, td__flat_follow(&flat, codes + 4 * i), field);
    assert_false(flat.bad);
    return at;
}

static void an_operator_that_is_not_supported_is_named(void **state) {
    (void)state;
    file_bytes file = read_fixture_file("images_float32.tflite");
    size_t old = code_field(file, 0, 0), code = code_field(file, 0, 3);
    assert_true(old);
    file.data[old] = 16; /* LSTM */
    if (code) {
        memcpy(file.data + code, "\x10\0\0\0", 4);
    }
    assert_bytes_refused("operator.tflite", file.data, file.size,
                         "operators of TensorFlow Lite that are not supported: LSTM (operator ");
    free(file.data);
}

static void positions_outside_of_the_file_read_as_nothing(void **state) {
    (void)state;
    const uint8_t bytes[8] = {8, 0, 0, 0, 0xff, 0xff, 0xff, 0xff};
    td__flat flat = {bytes, sizeof bytes, false};
    assert_int_equal(td__flat_u32(&flat, 4), UINT32_MAX);
    assert_false(flat.bad);
    assert_int_equal(td__flat_u32(&flat, 5), 0);
    assert_true(flat.bad);
    flat.bad = false;
    assert_int_equal(td__flat_follow(&flat, 4), 0);
    assert_true(flat.bad);
    flat.bad = false;
    assert_int_equal(td__flat_field(&flat, 4, 0), 0); /* its vtable is at 5, which is cut off */
    assert_int_equal(td__flat_field(&flat, 0, 0), 0);
    assert_false(td__flat_has(&flat, SIZE_MAX, 4));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_predict_what_the_interpreter_computed),
        cmocka_unit_test(numbers_of_few_bits_are_off_by_one_step_at_most),
        cmocka_unit_test(kernels_have_the_layout_of_keras),
        cmocka_unit_test(a_file_cut_anywhere_is_refused),
        cmocka_unit_test(any_changed_word_is_loaded_or_refused_with_a_reason),
        cmocka_unit_test(an_operator_that_is_not_supported_is_named),
        cmocka_unit_test(positions_outside_of_the_file_read_as_nothing),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
