/* Columns are what their names say, whatever their order. */
#include "support.h"

/* The inputs of the first row of a part. */
static void first_row(const td_dataset *data, td_part part, float *values) {
    int64_t row = 0;
    td_error error = {0};
    assert_ok(td_dataset_read(data, part, &row, 1, values, NULL, &error), error);
}

static void a_file_keeps_the_names_of_its_columns(void **state) {
    (void)state;
    const char *path = write_text("names.csv", "a,id,b,y\n1,9,2,0\n3,9,4,1\n");
    td_dataset *data =
        open_data(TD_DATA(.train = path, .label = TD_NAMES("last"), .ignore = TD_NAMES("id")));
    const td_data_info *info = td_dataset_info(data);
    assert_int_equal(info->inputs.count, 2);
    assert_string_equal(info->inputs.items[0], "a");
    assert_string_equal(info->inputs.items[1], "b");
    assert_int_equal(info->label_names.count, 1);
    assert_string_equal(info->label_names.items[0], "y");
    assert_int_equal(info->remarks.count, 0);
    td_dataset_close(data);
    data = open_data(TD_DATA(.train = write_text("names.csv", "1,2,0\n3,4,1\n")));
    assert_int_equal(td_dataset_info(data)->inputs.count, 0);
    td_dataset_close(data);
}

static void another_order_is_put_right_and_said(void **state) {
    (void)state;
    const char *path = write_text("order.csv", "y,b,a\n0,2,1\n1,4,3\n");
    td_dataset *data = open_data(TD_DATA(.train = path, .inputs = TD_NAMES("a", "b"),
                                         .label = TD_NAMES("y"), .ignore = TD_NAMES("id")));
    float values[2];
    first_row(data, TD_TRAINING, values);
    assert_float_equal(values[0], 1, 0);
    assert_float_equal(values[1], 2, 0);
    const td_data_info *info = td_dataset_info(data);
    assert_string_equal(info->inputs.items[0], "a");
    assert_int_equal(info->remarks.count, 1);
    assert_non_null(strstr(info->remarks.items[0], "order.csv: its columns are in another order"));
    td_dataset_close(data);
}

static void a_validation_file_is_matched_to_the_training_file(void **state) {
    (void)state;
    const char *train = write_text("train.csv", "a,b,y\n1,2,0\n3,4,1\n");
    const char *validation = write_text("validation.csv", "b,y,a\n20,0,10\n");
    td_dataset *data =
        open_data(TD_DATA(.train = train, .validation = validation, .label = TD_NAMES("last")));
    float values[2];
    first_row(data, TD_VALIDATION, values);
    assert_float_equal(values[0], 10, 0);
    assert_float_equal(values[1], 20, 0);
    assert_int_equal(td_dataset_info(data)->remarks.count, 1);
    td_dataset_close(data);
    validation = write_text("validation.csv", "a,c,y\n20,0,10\n");
    assert_refused(TD_DATA(.train = train, .validation = validation, .label = TD_NAMES("y")),
                   TD_FORMAT, "validation.csv", "missing 'b'", "unknown 'c'");
}

static void missing_and_unknown_names_are_listed(void **state) {
    (void)state;
    const char *path = write_text("other.csv", "widht,c,d\n1,2,3\n");
    assert_refused(TD_DATA(.train = path, .inputs = TD_NAMES("width", "height")), TD_FORMAT,
                   "other.csv", "missing 'width' (did you mean 'widht'?), 'height'",
                   "unknown 'widht', 'c', 'd'");
    path = write_text("other.csv", "c,d\n1,2\n");
    assert_refused(TD_DATA(.train = path, .inputs = TD_NAMES("a", "b")), TD_FORMAT,
                   "missing 'a', 'b'", "unknown 'c', 'd'");
    path = write_text("other.csv", "a,b,id\n1,2,3\n");
    assert_refused(TD_DATA(.train = path, .inputs = TD_NAMES("a", "b")), TD_FORMAT, "unknown 'id'",
                   "`ignore`");
}

static void without_a_header_the_count_decides_and_it_is_said(void **state) {
    (void)state;
    const char *path = write_text("plain.csv", "1,2\n3,4\n");
    td_dataset *data = open_data(TD_DATA(.train = path, .inputs = TD_NAMES("a", "b")));
    const td_data_info *info = td_dataset_info(data);
    assert_int_equal(info->remarks.count, 1);
    assert_non_null(strstr(info->remarks.items[0], "no header"));
    assert_non_null(strstr(info->remarks.items[0], "'a', 'b'"));
    td_dataset_close(data);
    assert_refused(TD_DATA(.train = path, .inputs = TD_NAMES("a", "b", "c")), TD_BAD_SHAPE,
                   "plain.csv", "2 columns", "3 inputs");
}

static void columns_of_one_name_are_told_apart(void **state) {
    (void)state;
    const char *path = write_text("twice.csv", "x,x,x.1\n1,2,3\n");
    td_dataset *data = open_data(TD_DATA(.train = path));
    const td_data_info *info = td_dataset_info(data);
    assert_string_equal(info->inputs.items[0], "x");
    assert_string_equal(info->inputs.items[1], "x.1");
    assert_string_equal(info->inputs.items[2], "x.1.1");
    td_dataset *again = open_data(TD_DATA(.train = path, .inputs = info->inputs));
    assert_int_equal(td_dataset_info(again)->remarks.count, 0);
    td_dataset_close(again);
    td_dataset_close(data);
}

/* A file that is large enough to be cached, opened twice. */
static void the_cache_knows_names_and_order(void **state) {
    (void)state;
    enum { ROWS = 300000, COLUMNS = 60 };
    char path[512];
    snprintf(path, sizeof path, "%s/large.csv", scratch);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int i = 0; i < COLUMNS; i++) {
        fprintf(file, "%sc%d", i ? "," : "", i);
    }
    fputc('\n', file);
    for (int row = 0; row < ROWS; row++) {
        for (int i = 0; i < COLUMNS; i++) {
            fprintf(file, i ? ",%d" : "%d", i);
        }
        fputc('\n', file);
    }
    assert_int_equal(fclose(file), 0);
    const char *reversed[COLUMNS];
    char names[COLUMNS][8];
    for (int i = 0; i < COLUMNS; i++) {
        snprintf(names[i], sizeof names[i], "c%d", COLUMNS - 1 - i);
        reversed[i] = names[i];
    }
    for (int round = 0; round < 4; round++) {
        bool turned = round % 2;
        td_names inputs = {reversed, turned ? COLUMNS : 0};
        td_dataset *data = open_data(TD_DATA(.train = path, .inputs = inputs));
        float values[COLUMNS];
        first_row(data, TD_TRAINING, values);
        assert_float_equal(values[0], turned ? COLUMNS - 1 : 0, 0);
        const td_data_info *info = td_dataset_info(data);
        assert_int_equal(info->inputs.count, COLUMNS);
        assert_string_equal(info->inputs.items[0], turned ? "c59" : "c0");
        assert_int_equal(info->remarks.count, turned);
        td_dataset_close(data);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_keeps_the_names_of_its_columns),
        cmocka_unit_test(another_order_is_put_right_and_said),
        cmocka_unit_test(a_validation_file_is_matched_to_the_training_file),
        cmocka_unit_test(missing_and_unknown_names_are_listed),
        cmocka_unit_test(without_a_header_the_count_decides_and_it_is_said),
        cmocka_unit_test(columns_of_one_name_are_told_apart),
        cmocka_unit_test(the_cache_knows_names_and_order),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
