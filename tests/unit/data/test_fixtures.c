/* Files written by numpy, pandas and by hand, against what tests/fixtures/make_data.py says is in
 * them. */
#include "support.h"

#define FOLDER TD_TEST_FOLDER "/fixtures/data/"

static float next_float(char **text) {
    char *end;
    float value = strtof(*text, &end);
    assert_ptr_not_equal(end, *text);
    *text = end;
    return value;
}

static void check_row(const td_dataset *data, const char *path, int64_t row, char *line) {
    const td_data_info *info = td_dataset_info(data);
    float input[64], label[8] = {0};
    int64_t inputs = 1, labels = info->label_kind == TD_LABEL_NONE ? 0 : 1;
    for (int d = 0; d < info->input.rank; d++) {
        inputs *= info->input.dims[d];
    }
    for (int d = 0; d < info->label.rank; d++) {
        labels *= info->label.dims[d];
    }
    td_error error = {0};
    assert_ok(td_dataset_read(data, TD_TRAINING, &row, 1, input, label, &error), error);
    for (int64_t i = 0; i < inputs + labels; i++) {
        float wanted = next_float(&line), found = i < inputs ? input[i] : label[i - inputs];
        if (memcmp(&wanted, &found, sizeof found) != 0) {
            fail_msg("%s row %d value %d is %.9g, expected %.9g", path, (int)row, (int)i,
                     (double)found, (double)wanted);
        }
    }
}

static td_dataset *open_fixture(const char *path, char *label) {
    char whole[512];
    const char *names[8];
    size_t count = 0;
    snprintf(whole, sizeof whole, FOLDER "%s", path);
    if (strcmp(label, "-") != 0) {
        for (char *name = strtok(label, ","); name; name = strtok(NULL, ",")) {
            names[count++] = name;
        }
    }
    return open_data(
        TD_DATA(.train = whole, .label = {names, count}, .label_kind = TD_LABEL_VALUES));
}

static void every_file_reads_as_numpy_and_pandas_read_it(void **state) {
    (void)state;
    FILE *file = fopen(FOLDER "expected.txt", "r");
    assert_non_null(file);
    static char line[65536];
    int files = 0;
    while (fgets(line, sizeof line, file)) {
        char path[256], label[256];
        int rows, inputs, labels;
        assert_int_equal(sscanf(line, "%255s %255s %d %d %d", path, label, &rows, &inputs, &labels),
                         5);
        td_dataset *data = open_fixture(path, label);
        const td_data_info *info = td_dataset_info(data);
        assert_int_equal(info->training, rows);
        assert_int_equal(info->label_kind, labels ? TD_LABEL_VALUES : TD_LABEL_NONE);
        for (int64_t row = 0; row < rows; row++) {
            assert_non_null(fgets(line, sizeof line, file));
            check_row(data, path, row, line);
        }
        td_dataset_close(data);
        files++;
    }
    fclose(file);
    assert_true(files > 70);
}

static void shapes_are_those_of_the_file(void **state) {
    (void)state;
    static const struct {
        const char *path;
        td_shape input;
    } cases[] = {{"npy/f4_little_F.npy", {2, {2, 4}}},
                 {"npy/version_1.npy", {1, {1}}},
                 {"idx/images-idx3-ubyte", {2, {3, 3}}},
                 {"images_colour", {3, {3, 4, 3}}},
                 {"images_grey", {3, {3, 4, 1}}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char none[] = "-";
        td_dataset *data = open_fixture(cases[i].path, none);
        assert_true(td_shape_equal(&td_dataset_info(data)->input, &cases[i].input));
        td_dataset_close(data);
    }
}

static void labels_become_classes_and_one_hot_rows(void **state) {
    (void)state;
    td_dataset *data = open_data(TD_DATA(.train = FOLDER "idx/images-idx3-ubyte"));
    assert_int_equal(td_dataset_info(data)->label_kind, TD_LABEL_CLASS);
    assert_int_equal(td_dataset_info(data)->classes, 4);
    assert_int_equal(td_dataset_info(data)->label.rank, 0);
    int64_t rows[] = {0, 2};
    int32_t classes[2];
    float input[2 * 9], hot[2 * 4];
    td_error error = {0};
    assert_ok(td_dataset_read(data, TD_TRAINING, rows, 2, input, classes, &error), error);
    assert_int_equal(classes[0], 3);
    assert_int_equal(classes[1], 1);
    td_dataset_close(data);

    data =
        open_data(TD_DATA(.train = FOLDER "idx/images-idx3-ubyte", .label_kind = TD_LABEL_ONE_HOT));
    assert_int_equal(td_dataset_info(data)->label.dims[0], 4);
    assert_ok(td_dataset_read(data, TD_TRAINING, rows, 2, input, hot, &error), error);
    const float expected[] = {0, 0, 0, 1, 0, 1, 0, 0};
    assert_memory_equal(hot, expected, sizeof expected);
    td_dataset_close(data);
}

static void text_labels_are_classes_in_alphabetical_order(void **state) {
    (void)state;
    td_dataset *data =
        open_data(TD_DATA(.train = FOLDER "csv/text_labels.csv", .label = TD_NAMES("kind")));
    const td_data_info *info = td_dataset_info(data);
    assert_int_equal(info->classes, 3);
    assert_string_equal(info->class_names[0], "ant");
    assert_string_equal(info->class_names[1], "bee, honey");
    assert_string_equal(info->class_names[2], "zebra \"Z\"");
    td_dataset_close(data);
}

static void images_are_made_grey_or_coloured_when_asked(void **state) {
    (void)state;
    float one[12], three[36], luma[12];
    int64_t row = 0;
    td_error error = {0};
    td_dataset *data =
        open_data(TD_DATA(.train = FOLDER "images_grey", .input = TD_SHAPE(3, 4, 3)));
    assert_ok(td_dataset_read(data, TD_TRAINING, &row, 1, three, NULL, &error), error);
    td_dataset_close(data);
    data = open_data(TD_DATA(.train = FOLDER "images_grey"));
    assert_ok(td_dataset_read(data, TD_TRAINING, &row, 1, one, NULL, &error), error);
    td_dataset_close(data);
    for (int i = 0; i < 36; i++) {
        assert_true(three[i] == one[i / 3]);
    }
    data = open_data(TD_DATA(.train = FOLDER "images_colour"));
    assert_ok(td_dataset_read(data, TD_TRAINING, &row, 1, three, NULL, &error), error);
    td_dataset_close(data);
    data = open_data(TD_DATA(.train = FOLDER "images_colour", .input = TD_SHAPE(3, 4, 1)));
    assert_ok(td_dataset_read(data, TD_TRAINING, &row, 1, luma, NULL, &error), error);
    td_dataset_close(data);
    for (int i = 0; i < 12; i++) {
        float expected =
            0.299f * three[3 * i] + 0.587f * three[3 * i + 1] + 0.114f * three[3 * i + 2];
        assert_close(luma[i], expected, 0, 0.51);
    }
}

static void arrays_of_other_things_than_numbers_are_refused(void **state) {
    (void)state;
    assert_refused(TD_DATA(.train = FOLDER "refused/objects.npy"), TD_UNSUPPORTED, "objects.npy",
                   "Python objects", "astype");
    assert_refused(TD_DATA(.train = FOLDER "refused/records.npy"), TD_UNSUPPORTED, "records");
    assert_refused(TD_DATA(.train = FOLDER "refused/text.npy"), TD_UNSUPPORTED, "<U2");
    assert_refused(TD_DATA(.train = FOLDER "refused/complex.npy"), TD_UNSUPPORTED, "<c8");
    assert_refused(TD_DATA(.train = FOLDER "refused/scalar.npy"), TD_BAD_SHAPE, "0 dimensions");
    assert_refused(TD_DATA(.train = FOLDER "refused/empty.npy"), TD_BAD_SHAPE, "no examples");
}

static void a_missing_array_names_those_that_are_there(void **state) {
    (void)state;
    assert_refused(TD_DATA(.train = FOLDER "npz/stored.npz", .x = "x_tset"), TD_NOT_FOUND,
                   "stored.npz", "x_tset", "did you mean 'x_test'", "x, y, x_test");
    assert_refused(TD_DATA(.train = FOLDER "npz/packed.npz", .x = "x_test", .y = "y"), TD_BAD_SHAPE,
                   "2 examples", "5 labels");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_file_reads_as_numpy_and_pandas_read_it),
        cmocka_unit_test(shapes_are_those_of_the_file),
        cmocka_unit_test(labels_become_classes_and_one_hot_rows),
        cmocka_unit_test(text_labels_are_classes_in_alphabetical_order),
        cmocka_unit_test(images_are_made_grey_or_coloured_when_asked),
        cmocka_unit_test(arrays_of_other_things_than_numbers_are_refused),
        cmocka_unit_test(a_missing_array_names_those_that_are_there),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
