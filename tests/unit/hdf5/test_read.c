/* Files that h5py made (tests/fixtures/make_hdf5.py): what is in them is found, and where it can be
 * used as it lies, it is not copied. */
#include "support.h"

#include "base/little.h"

static const char *const both[] = {"earliest.h5", "latest.h5"};

static td__hdf5_array read_at(td__hdf5 *file, const char *path) {
    td_error error = {0};
    td__hdf5_array array = {0};
    assert_ok(td__hdf5_read(file, find(file, path), path, &array, &error), error);
    return array;
}

static void check_array(td__hdf5 *file, const char *path, td_dtype dtype, td_shape shape,
                        const void *values, bool borrowed) {
    td__hdf5_array array = read_at(file, path);
    int64_t count = 0;
    assert_int_equal(td_shape_check(&shape, dtype, &count, NULL), TD_OK);
    assert_int_equal(array.view.dtype, dtype);
    assert_true(td_shape_equal(&array.view.shape, &shape));
    assert_memory_equal(array.view.data, values, (size_t)count * td_dtype_size(dtype));
    bool lies_so = TD__LITTLE_ENDIAN || td_dtype_size(dtype) == 1;
    assert_int_equal(array.owned == NULL, borrowed && lies_so);
    td__hdf5_release(&array);
}

static void arrays_have_their_types_shapes_and_values(void **state) {
    (void)state;
    static const float kernel[6] = {0, 0.5f, 1, 1.5f, 2, 2.5f};
    static const double big[6] = {0, 0.5, 1, 1.5, 2, 2.5};
    static const uint8_t flags[6] = {0, 0, 0, 1, 1, 1};
    static const int32_t counts[2] = {-1, 300};
    static const int64_t scalar = (int64_t)1 << 40;
    for (size_t i = 0; i < 2; i++) {
        image bytes = load_fixture(both[i]);
        td__hdf5 *file = open_image(&bytes);
        check_array(file, "model/dense/kernel", TD_FLOAT32, TD_SHAPE(2, 3), kernel, true);
        check_array(file, "model/dense/big", TD_FLOAT64, TD_SHAPE(2, 3), big, false);
        check_array(file, "model/dense/half", TD_FLOAT32, TD_SHAPE(2, 3), kernel, false);
        check_array(file, "model/dense/flags", TD_UINT8, TD_SHAPE(2, 3), flags, true);
        check_array(file, "model/dense/counts", TD_INT32, TD_SHAPE(2), counts, false);
        check_array(file, "model/dense/scalar", TD_INT64, (td_shape){0}, &scalar, true);
        check_array(file, "/model/soft", TD_FLOAT32, TD_SHAPE(2, 3), kernel, true);
        check_array(file, "//many/./19/", TD_FLOAT32, TD_SHAPE(2, 3), kernel, true);
        td__hdf5_close(file);
        free(bytes.bytes);
    }
}

static void chunks_are_put_together(void **state) {
    (void)state;
    int32_t plain[35], part[16];
    float packed[35];
    for (int i = 0; i < 35; i++) {
        plain[i] = i;
        packed[i] = (float)i;
    }
    for (int i = 0; i < 16; i++) {
        part[i] = i / 4 < 2 && i % 4 < 2 ? 1 : 9;
    }
    image bytes = load_fixture("chunked.h5");
    td__hdf5 *file = open_image(&bytes);
    check_array(file, "plain", TD_INT32, TD_SHAPE(5, 7), plain, false);
    check_array(file, "packed", TD_FLOAT32, TD_SHAPE(5, 7), packed, false);
    check_array(file, "part", TD_INT32, TD_SHAPE(4, 4), part, false);
    td__hdf5_close(file);
    free(bytes.bytes);
}

static void check_texts(td__hdf5 *file, const char *path, const char *attribute, size_t count,
                        const char *const *expected) {
    td_error error = {0};
    char **texts = NULL;
    size_t found = 0;
    assert_ok(td__hdf5_texts(file, find(file, path), attribute, &texts, &found, &error), error);
    assert_int_equal(found, count);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(texts[i], expected[i]);
    }
    assert_int_equal(texts != NULL, count > 0);
    td__free(texts);
}

static void texts_of_fixed_and_variable_length(void **state) {
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        image bytes = load_fixture(both[i]);
        td__hdf5 *file = open_image(&bytes);
        check_texts(file, "/", "name", 1, (const char *[]){"hällo"});
        check_texts(file, "model", "names", 3, (const char *[]){"dense", "", "soft"});
        check_texts(file, "model", "fixed", 2, (const char *[]){"kernel:0", "b:0"});
        check_texts(file, "model", "name", 0, NULL);
        check_texts(file, "many", "a11", i, (const char *[]){"value 11"}); /* of latest.h5 */
        td__hdf5_close(file);
        free(bytes.bytes);
    }
}

static void what_is_not_there_is_not_found(void **state) {
    (void)state;
    image bytes = load_fixture("earliest.h5");
    td__hdf5 *file = open_image(&bytes);
    assert_int_equal(find(file, "nothing"), 0);
    assert_int_equal(find(file, "model/dense/kerne"), 0);
    assert_int_equal(find(file, "model/dense/kernel/below"), 0);
    assert_int_equal(find(file, "nothing/dense"), 0);
    assert_int_equal(find(file, ""), td__hdf5_root(file));
    td_error error = {0};
    td__hdf5_array array = {0};
    assert_int_equal(td__hdf5_read(file, find(file, "model"), "model", &array, &error), TD_DTYPE);
    assert_string_equal(error.text, "x.h5: model is not a dataset");
    td__hdf5_close(file);
    free(bytes.bytes);
}

static void all_of_a_file_is_met(void **state) {
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        image bytes = load_fixture(both[i]);
        census all = take_census(bytes.bytes, bytes.size);
        assert_int_equal(all.failures, 0);
        assert_int_equal(all.groups, 4);
        assert_int_equal(all.arrays, 27);
        assert_int_equal(all.texts, 6 + i);
        free(bytes.bytes);
    }
}

static td_status stop_at_second(void *user, const char *name, td__hdf5_object object,
                                td_error *error) {
    assert_true(name[0] && object);
    return ++*(int *)user == 2 ? td_error_set(error, TD_INTERRUPTED, "enough") : TD_OK;
}

static void a_listing_ends_when_it_is_told_to(void **state) {
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        image bytes = load_fixture(both[i]);
        td__hdf5 *file = open_image(&bytes);
        td_error error = {0};
        int calls = 0;
        assert_int_equal(td__hdf5_list(file, find(file, "many"), stop_at_second, &calls, &error),
                         TD_INTERRUPTED);
        assert_int_equal(calls, 2);
        td__hdf5_close(file);
        free(bytes.bytes);
    }
}

static void links_and_values_outside_the_file_are_refused(void **state) {
    (void)state;
    image bytes = load_fixture("outside.h5");
    td__hdf5 *file = open_image(&bytes);
    td_error error = {0};
    td__hdf5_object found = 0;
    td__hdf5_array array = {0};
    assert_int_equal(td__hdf5_find(file, td__hdf5_root(file), "link", &found, &error),
                     TD_UNSUPPORTED);
    assert_string_equal(error.text, "x.h5: 'link' is an external or user-defined link; only links "
                                    "inside the file are followed");
    assert_int_equal(td__hdf5_read(file, find(file, "stored"), "stored", &array, &error),
                     TD_UNSUPPORTED);
    assert_string_equal(error.text,
                        "x.h5: stored: a dataset whose values are in other files cannot be read");
    td__hdf5_close(file);
    free(bytes.bytes);
}

static void links_that_lead_to_each_other_are_refused(void **state) {
    (void)state;
    image bytes = load_fixture("loops.h5");
    td__hdf5 *file = open_image(&bytes);
    td_error error = {0};
    td__hdf5_object found = 0;
    assert_int_equal(td__hdf5_find(file, td__hdf5_root(file), "a", &found, &error), TD_FORMAT);
    assert_non_null(strstr(error.text, "soft links"));
    assert_int_equal(find(file, "inner/self/inner/self"), td__hdf5_root(file));
    td__hdf5_close(file);
    free(bytes.bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays_have_their_types_shapes_and_values),
        cmocka_unit_test(chunks_are_put_together),
        cmocka_unit_test(texts_of_fixed_and_variable_length),
        cmocka_unit_test(what_is_not_there_is_not_found),
        cmocka_unit_test(all_of_a_file_is_met),
        cmocka_unit_test(a_listing_ends_when_it_is_told_to),
        cmocka_unit_test(links_and_values_outside_the_file_are_refused),
        cmocka_unit_test(links_that_lead_to_each_other_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
