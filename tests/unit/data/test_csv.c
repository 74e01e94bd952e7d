#include "support.h"

static int32_t first_class(const td_dataset *data) {
    int64_t row = 0;
    float input[64];
    int32_t class = -1;
    td_error error = {0};
    assert_ok(td_dataset_read(data, TD_TRAINING, &row, 1, input, &class, &error), error);
    return class;
}

static void a_header_is_found_where_text_stands_over_numbers(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int rows;
    } cases[] = {{"a,b\n1,2\n3,4\n", 2},
                 {"1,2\n3,4\n", 2},
                 {"3,1,kind\n1,2,x\n", 2}, /* text only where the row below has text: data */
                 {"1.5,2,x\n3,4,y\n5,6,x", 3},
                 {"a,b,kind\n1,2,x\n", 1},
                 {",b\n1,2\n", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *path = write_text("header.csv", cases[i].text);
        td_dataset *data = open_data(TD_DATA(.train = path, .label = TD_NAMES("last")));
        assert_int_equal(td_dataset_info(data)->training, cases[i].rows);
        td_dataset_close(data);
    }
}

static void a_first_line_that_counts_the_columns_is_asked_about(void **state) {
    (void)state;
    static const char *const asked[] = {"0,1,2,3\n5,6,7,8\n", "0,1\n5,6\n", "0,1,kind\n1,2,x\n",
                                        ",0,1\n0,5,6\n1,7,8\n", "1,2,3\n4,5,6\n"};
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        const char *path = write_text("pandas.csv", asked[i]);
        assert_refused(TD_DATA(.train = path, .label = TD_NAMES("last")), TD_INVALID, "pandas.csv",
                       "a header or the first example? `header: true`");
        td_dataset *data =
            open_data(TD_DATA(.train = path, .label = TD_NAMES("last"), .header = TD_HEADER_YES));
        td_dataset_close(data);
    }
    static const char *const data_lines[] = {"1,2\n3,4\n", "0,1,2\n", "0.0,1,2\n3,4,5\n"};
    for (size_t i = 0; i < sizeof data_lines / sizeof *data_lines; i++) {
        const char *path = write_text("rows.csv", data_lines[i]);
        td_dataset_close(open_data(TD_DATA(.train = path, .label = TD_NAMES("last"))));
    }
    /* A model that was trained on columns of these names knows. */
    const char *path = write_text("pandas.csv", "0,1,2\n5,6,7\n");
    td_dataset *data = open_data(TD_DATA(.train = path, .inputs = TD_NAMES("0", "1", "2")));
    assert_int_equal(td_dataset_info(data)->training, 1);
    td_dataset_close(data);
}

static void a_line_that_the_options_name_a_cell_of_is_a_header(void **state) {
    (void)state;
    const char *path = write_text("text.csv", "size,colour,kind\nbig,red,cat\nsmall,red,dog\n");
    td_dataset *data = open_data(TD_DATA(.train = path, .label = TD_NAMES("kind"),
                                         .categories = TD_NAMES("size", "colour")));
    assert_int_equal(td_dataset_info(data)->training, 2);
    assert_int_equal(td_dataset_info(data)->classes, 2);
    td_dataset_close(data);
    data = open_data(TD_DATA(.train = path, .label = TD_NAMES("last"),
                             .categories = TD_NAMES("size", "colour")));
    assert_int_equal(td_dataset_info(data)->training, 2);
    td_dataset_close(data);
}

static void classes_with_leading_zeros_are_texts(void **state) {
    (void)state;
    static const char *const texts[] = {"a,y\n1,01\n2,1\n3,1\n", "a,y\n1,1\n2,1\n3,01\n",
                                        "a,y\n1,1\n2,\"01\"\n3, 1 \n"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const char *path = write_text("codes.csv", texts[i]);
        td_dataset *data = open_data(TD_DATA(.train = path, .label = TD_NAMES("y")));
        assert_int_equal(td_dataset_info(data)->classes, 2);
        assert_string_equal(td_dataset_info(data)->class_names[0], "01");
        assert_string_equal(td_dataset_info(data)->class_names[1], "1");
        td_dataset_close(data);
    }
    /* In the validation part, and in new data, 1 is the class of that name, not class number 1. */
    const char *path = write_text("codes.csv", "a,y\n1,01\n2,02\n3,1\n");
    char *train = strdup(path);
    path = write_text("other.csv", "a,y\n1,1\n");
    td_dataset *data =
        open_data(TD_DATA(.train = train, .validation = path, .label = TD_NAMES("y")));
    int64_t row = 0;
    float input;
    int32_t class = -1;
    td_error error = {0};
    assert_ok(td_dataset_read(data, TD_VALIDATION, &row, 1, &input, &class, &error), error);
    assert_int_equal(class, 2);
    td_dataset_close(data);
    data = open_data(
        TD_DATA(.train = path, .label = TD_NAMES("y"), .classes = TD_NAMES("01", "02", "1")));
    assert_int_equal(first_class(data), 2);
    td_dataset_close(data);
    data =
        open_data(TD_DATA(.train = train, .label = TD_NAMES("y"), .label_kind = TD_LABEL_VALUES));
    assert_int_equal(td_dataset_info(data)->classes, 0);
    td_dataset_close(data);
    free(train);
}

static void commas_in_numbers_are_named(void **state) {
    (void)state;
    static const struct {
        const char *text, *said;
    } cases[] = {{"a;y\n1,5;2\n", "a decimal comma"},
                 {"a,y\n\"1,234,567\",2\n", "'1,234,567' has commas between thousands"},
                 {"a,y\n\"1,234.5\",2\n", "'1,234.5' has commas between thousands"},
                 {"a,y\n\"1,234\",2\n", "a comma between thousands, or a decimal comma"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *path = write_text("commas.csv", cases[i].text);
        assert_refused(TD_DATA(.train = path, .label = TD_NAMES("y")), TD_FORMAT, cases[i].said);
    }
}

static void a_layout_of_rows_without_channels_is_refused(void **state) {
    (void)state;
    const char *path = write_text("rows.csv", "a,b,y\n3,2,0\n4,5,1\n");
    assert_refused(
        TD_DATA(.train = path, .label = TD_NAMES("y"), .layout = TD_LAYOUT_CHANNELS_FIRST),
        TD_INVALID, "`layout`", "a row of 2 numbers");
    assert_refused(
        TD_DATA(.train = path, .label = TD_NAMES("y"), .layout = TD_LAYOUT_CHANNELS_LAST),
        TD_INVALID, "`layout`");
    td_dataset_close(
        open_data(TD_DATA(.train = path, .label = TD_NAMES("y"), .input = TD_SHAPE(1, 2),
                          .layout = TD_LAYOUT_CHANNELS_LAST)));
}

static void weights_of_classes_that_are_all_zero_are_refused(void **state) {
    (void)state;
    const char *path = write_text("rows.csv", "a,y\n3,0\n4,1\n");
    const double none[] = {0, 0};
    assert_refused(TD_DATA(.train = path, .label = TD_NAMES("y"),
                           .weighted_classes = TD_NAMES("0", "1"), .class_weights = none),
                   TD_INVALID, "`class_weight`", "a weight above 0");
    td_dataset_close(open_data(TD_DATA(.train = path, .label = TD_NAMES("y"),
                                       .weighted_classes = TD_NAMES("0"), .class_weights = none)));
}

static void missing_labels_can_only_be_dropped(void **state) {
    (void)state;
    const char *path = write_text("missing.csv", "a,y\n1,cat\n2,\n");
    td_error error = {0};
    assert_null(td_dataset_open(TD_DATA(.train = path, .label = TD_NAMES("y")), &error));
    assert_non_null(strstr(error.text, "labels are not filled in; `missing: drop`"));
    assert_null(strstr(error.text, "mean"));
}

static void the_header_can_be_forced(void **state) {
    (void)state;
    const char *path = write_text("forced.csv", "0,1\n5,6\n7,8\n");
    td_dataset *data =
        open_data(TD_DATA(.train = path, .header = TD_HEADER_YES, .label = TD_NAMES("1")));
    assert_int_equal(td_dataset_info(data)->training, 2);
    assert_int_equal(first_class(data), 6);
    td_dataset_close(data);
    path = write_text("forced.csv", "a,1\n");
    assert_refused(TD_DATA(.train = path, .header = TD_HEADER_NO), TD_FORMAT, "line 1",
                   "text among the inputs, in '0'");
}

static void a_column_called_last_comes_before_the_last_column(void **state) {
    (void)state;
    const char *path = write_text("last.csv", "a,last,c\n1,2,3\n");
    td_dataset *data = open_data(TD_DATA(.train = path, .label = TD_NAMES("last")));
    assert_int_equal(first_class(data), 2);
    td_dataset_close(data);
}

static void ignored_columns_may_hold_anything(void **state) {
    (void)state;
    const char *path = write_text("ignore.csv", "id,a,note,y\nx1,1.5,\"two\nlines, \"\"q\"\"\",0\n"
                                                "x2,2.5,,1\n");
    td_dataset *data =
        open_data(TD_DATA(.train = path, .label = TD_NAMES("y"), .ignore = TD_NAMES("id", "note")));
    assert_int_equal(td_dataset_info(data)->input.dims[0], 1);
    assert_int_equal(td_dataset_info(data)->training, 2);
    td_dataset_close(data);
}

static void a_missing_value_names_column_and_line(void **state) {
    (void)state;
    const char *const missing[] = {"", "NA", "nan", "null", "\"\"", "?"};
    for (size_t i = 0; i < sizeof missing / sizeof *missing; i++) {
        char text[128];
        snprintf(text, sizeof text, "age,\"size\nin cm\",y\n1,2,0\n\n3,%s,1\n", missing[i]);
        const char *path = write_text("missing.csv", text);
        assert_refused(TD_DATA(.train = path, .label = TD_NAMES("y")), TD_FORMAT, "missing.csv",
                       "1 value is missing", "size\nin cm: 1, the first in line 5");
    }
    const char *path = write_text("missing.csv", "a,y\n1,cat\n2,\n");
    assert_refused(TD_DATA(.train = path, .label = TD_NAMES("y")), TD_FORMAT,
                   "y: 1, the first in line 3");
}

static void what_is_no_number_is_shown(void **state) {
    (void)state;
    const char *path = write_text("bad.csv", "1,2\n3,x4\n");
    assert_refused(TD_DATA(.train = path), TD_FORMAT, "line 2 (row 2)", "column '1'", "'x4'");
    path = write_text("bad.csv", "1,2\n3,1e39\n");
    assert_refused(TD_DATA(.train = path), TD_RANGE, "line 2", "'1e39'", "finite");
    path = write_text("bad.csv", "1,2\n3,4 5\n");
    assert_refused(TD_DATA(.train = path), TD_FORMAT, "line 2", "'4 5'");
    path = write_text("bad.csv", "1,2\r3,4\r\n");
    assert_refused(TD_DATA(.train = path), TD_FORMAT, "line 1");
    path = write_text("bad.csv", "a,y\n1,cat\n2,5\n");
    assert_refused(TD_DATA(.train = path, .label = TD_NAMES("y")), TD_FORMAT, "line 3",
                   "class name", "'5'");
}

static void rows_of_another_width_are_refused(void **state) {
    (void)state;
    const char *path = write_text("width.csv", "a,b,c\n1,2,3\n4,5\n");
    assert_refused(TD_DATA(.train = path), TD_FORMAT, "line 3 (row 2)", "2 fields", "header has 3");
    path = write_text("width.csv", "1,2,3\n4,5,6,7\n");
    assert_refused(TD_DATA(.train = path), TD_FORMAT, "line 2 (row 2)", "4 fields",
                   "first row has 3");
}

static void quotes_must_be_closed_and_doubled(void **state) {
    (void)state;
    const char *path = write_text("quote.csv", "a,b\n1,\"2\n3,4\n");
    assert_refused(TD_DATA(.train = path), TD_FORMAT, "line 2", "never closed");
    path = write_text("quote.csv", "a,b\n1,2\n3,\"4\"5\n");
    assert_refused(TD_DATA(.train = path), TD_FORMAT, "line 3", "closing quote");
}

static void an_unknown_column_suggests_the_one_that_was_meant(void **state) {
    (void)state;
    const char *path = write_text("columns.csv", "width,height,label\n1,2,0\n");
    assert_refused(TD_DATA(.train = path, .label = TD_NAMES("lable")), TD_NOT_FOUND, "columns.csv",
                   "'lable'", "did you mean 'label'");
    assert_refused(TD_DATA(.train = path, .label = TD_NAMES("weight_of_it")), TD_NOT_FOUND,
                   "'width' to 'label'");
    path = write_text("columns.csv", "1,2,0\n");
    assert_refused(TD_DATA(.train = path, .label = TD_NAMES("label")), TD_NOT_FOUND, "no header",
                   "0 to 2", "`last`");
    assert_refused(TD_DATA(.train = path, .label = TD_NAMES("3")), TD_NOT_FOUND, "'3'");
    assert_refused(TD_DATA(.train = path, .label = TD_NAMES("2", "last")), TD_INVALID, "'2'",
                   "twice");
    assert_refused(TD_DATA(.train = path, .label = TD_NAMES("0", "1", "2")), TD_INVALID,
                   "no input");
    path = write_text("columns.csv", "a,a,b\n1,2,3\n");
    assert_refused(TD_DATA(.train = path, .label = TD_NAMES("a")), TD_FORMAT, "columns 1 and 2");
}

static void files_without_rows_are_refused(void **state) {
    (void)state;
    const char *path = write_text("empty.csv", "");
    assert_refused(TD_DATA(.train = path), TD_FORMAT, "empty.csv", "empty");
    path = write_text("empty.csv", "\n\r\n\n");
    assert_refused(TD_DATA(.train = path), TD_FORMAT, "empty");
    path = write_text("empty.csv", "a,b\n");
    assert_refused(TD_DATA(.train = path), TD_FORMAT, "no rows");
    assert_refused(TD_DATA(.train = "/nonexistent/x.csv"), TD_NOT_FOUND, "/nonexistent/x.csv",
                   "No such file");
    assert_refused(TD_DATA(.train = "/dev/zero"), TD_IO, "regular file");
}

/* Rows of all lengths, so that the buffer's end falls on every kind of byte. */
static void rows_may_cross_the_buffer_anywhere(void **state) {
    (void)state;
    enum { ROWS = 120000 };
    char *text = malloc(ROWS * 64), *p = text;
    assert_non_null(text);
    for (int i = 0; i < ROWS; i++) {
        const char *form = i % 2 ? "%d, %de0 ,%d\n" : "%d,\"%d.25\",%d\r\n";
        p += sprintf(p, form, i, i * 7 % 1000003, i % 13);
    }
    const char *path = write_bytes("long.csv", text, (size_t)(p - text));
    assert_true(p - text > 2 << 20);
    free(text);
    td_dataset *data = open_data(TD_DATA(.train = path, .label = TD_NAMES("last")));
    assert_int_equal(td_dataset_info(data)->training, ROWS);
    for (int64_t row = 0; row < ROWS; row++) {
        float input[2];
        int32_t class;
        td_error error = {0};
        assert_ok(td_dataset_read(data, TD_TRAINING, &row, 1, input, &class, &error), error);
        float second = (float)(row * 7 % 1000003) + (row % 2 ? 0.0f : 0.25f);
        if (input[0] != (float)row || input[1] != second || class != row % 13) {
            fail_msg("row %d is %g, %g, %d", (int)row, (double)input[0], (double)input[1], class);
        }
    }
    td_dataset_close(data);
}

static void a_row_without_end_is_refused(void **state) {
    (void)state;
    size_t size = (size_t)70 << 20;
    char *text = malloc(size);
    assert_non_null(text);
    memset(text, '1', size);
    memcpy(text, "a,b\n1,\"", 7);
    const char *path = write_bytes("endless.csv", text, size);
    free(text);
    assert_refused(TD_DATA(.train = path), TD_RANGE, "line 2", "64 MiB", "quote");
    unlink(path);
}

static void labels_are_values_unless_they_are_whole(void **state) {
    (void)state;
    const char *path = write_text("kind.csv", "a,y\n1,0.5\n2,1\n");
    td_dataset *data = open_data(TD_DATA(.train = path, .label = TD_NAMES("y")));
    assert_int_equal(td_dataset_info(data)->label_kind, TD_LABEL_VALUES);
    assert_int_equal(td_dataset_info(data)->label.dims[0], 1);
    assert_int_equal(td_dataset_info(data)->classes, 0);
    td_dataset_close(data);
    assert_refused(TD_DATA(.train = path, .label = TD_NAMES("y"), .label_kind = TD_LABEL_CLASS),
                   TD_FORMAT, "row 1", "0.5");
    path = write_text("kind.csv", "a,y\n1,-1\n2,1\n");
    data = open_data(TD_DATA(.train = path, .label = TD_NAMES("y")));
    assert_int_equal(td_dataset_info(data)->label_kind, TD_LABEL_VALUES);
    td_dataset_close(data);
    path = write_text("kind.csv", "a,y,z\n1,1,2\n2,1,3\n");
    data = open_data(TD_DATA(.train = path, .label = TD_NAMES("z", "y")));
    assert_int_equal(td_dataset_info(data)->label_kind, TD_LABEL_VALUES);
    assert_int_equal(td_dataset_info(data)->label.dims[0], 2);
    td_dataset_close(data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_header_is_found_where_text_stands_over_numbers),
        cmocka_unit_test(the_header_can_be_forced),
        cmocka_unit_test(a_first_line_that_counts_the_columns_is_asked_about),
        cmocka_unit_test(a_line_that_the_options_name_a_cell_of_is_a_header),
        cmocka_unit_test(classes_with_leading_zeros_are_texts),
        cmocka_unit_test(commas_in_numbers_are_named),
        cmocka_unit_test(a_layout_of_rows_without_channels_is_refused),
        cmocka_unit_test(weights_of_classes_that_are_all_zero_are_refused),
        cmocka_unit_test(missing_labels_can_only_be_dropped),
        cmocka_unit_test(a_column_called_last_comes_before_the_last_column),
        cmocka_unit_test(ignored_columns_may_hold_anything),
        cmocka_unit_test(a_missing_value_names_column_and_line),
        cmocka_unit_test(what_is_no_number_is_shown),
        cmocka_unit_test(rows_of_another_width_are_refused),
        cmocka_unit_test(quotes_must_be_closed_and_doubled),
        cmocka_unit_test(an_unknown_column_suggests_the_one_that_was_meant),
        cmocka_unit_test(files_without_rows_are_refused),
        cmocka_unit_test(rows_may_cross_the_buffer_anywhere),
        cmocka_unit_test(a_row_without_end_is_refused),
        cmocka_unit_test(labels_are_values_unless_they_are_whole),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
