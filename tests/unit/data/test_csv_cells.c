/* Separators, missing values and categories of CSV files. */
#include "support.h"

#include <math.h>

/* All inputs of a row. */
static void read_row(const td_dataset *data, td_part part, int64_t row, float *values) {
    td_error error = {0};
    assert_ok(td_dataset_read(data, part, &row, 1, values, NULL, &error), error);
}

static void check_row(const td_dataset *data, int64_t row, size_t count, const float *expected) {
    float values[16];
    assert_int_equal(td_dataset_info(data)->input.dims[0], count);
    read_row(data, TD_TRAINING, row, values);
    for (size_t i = 0; i < count; i++) {
        assert_float_equal(values[i], expected[i], 1e-6);
    }
}
#define CHECK_ROW(data, row, ...)                                                                  \
    check_row(data, row, sizeof((float[]){__VA_ARGS__}) / sizeof(float), (float[]){__VA_ARGS__})

static void separators_are_found_out(void **state) {
    (void)state;
    const char *const texts[] = {"a,b,y\n1,2,0\n3,4,1\n",
                                 "a;b;y\n1;2;0\n3;4;1\n",
                                 "a\tb\ty\n1\t2\t0\n3\t4\t1\n",
                                 "a|b|y\n1|2|0\n3|4|1\n",
                                 "1;2;0\n3;4;1\n",
                                 "a ; b ; y\r\n 1 ; 2 ;0\r\n3;4;1",
                                 "\"a,x\";b;y\n1;2;0\n3;4;1\n",
                                 "\"a;x\",b,y\n1,2,0\n3,4,1\n"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        td_dataset *data = open_data(
            TD_DATA(.train = write_text("separated.csv", texts[i]), .label = TD_NAMES("last")));
        assert_int_equal(td_dataset_info(data)->training, 2);
        CHECK_ROW(data, 0, 1, 2);
        CHECK_ROW(data, 1, 3, 4);
        td_dataset_close(data);
    }
}

static void the_separator_can_be_given(void **state) {
    (void)state;
    const char *path = write_text("given.csv", "x;1,y;2\nred;1,blue;2\n");
    td_dataset *data = open_data(TD_DATA(.train = path, .separator = ';', .header = TD_HEADER_YES,
                                         .ignore = TD_NAMES("x", "1,y")));
    CHECK_ROW(data, 0, 2);
    td_dataset_close(data);
}

static void empty_cells_between_tabs_are_missing(void **state) {
    (void)state;
    const char *path = write_text("tabs.csv", "a\tb\tc\n1\t\t3\n4\t5\t6\n");
    td_dataset *data =
        open_data(TD_DATA(.train = path, .missing = TD_MISSING_VALUE, .missing_value = -1));
    CHECK_ROW(data, 0, 1, -1, 3);
    td_dataset_close(data);
}

static void decimal_commas_are_named(void **state) {
    (void)state;
    assert_refused(TD_DATA(.train = write_text("comma.csv", "a;b\n1,5;2,25\n3,0;4,0\n")), TD_FORMAT,
                   "comma.csv line 2 (row 1)", "'1,5' has a decimal comma");
    assert_refused(TD_DATA(.train = write_text("comma.csv", "1,5;2,25\n3,0;4,0\n")), TD_FORMAT,
                   "decimal comma");
}

static void missing_values_are_counted(void **state) {
    (void)state;
    const char *path = write_text("holes.csv", "a,b,y\n1,,0\n\nNA,3,1\n2,?,0\n5,6,1\n");
    assert_refused(TD_DATA(.train = path, .label = TD_NAMES("y")), TD_FORMAT,
                   "holes.csv: 3 values are missing", "a: 1, the first in line 4",
                   "b: 2, the first in line 2", "`missing: mean`");
    path = write_text("holes.csv", "a,y\n1,0\n2,\n");
    assert_refused(TD_DATA(.train = path, .label = TD_NAMES("y"), .missing = TD_MISSING_MEAN),
                   TD_FORMAT, "y: 1, the first in line 3", "labels are not filled in");
}

static void missing_values_become_the_mean_or_a_number(void **state) {
    (void)state;
    const char *path = write_text("holes.csv", "a,b,y\n1,,0\n,3,1\n2,5,0\n");
    td_dataset *data =
        open_data(TD_DATA(.train = path, .label = TD_NAMES("y"), .missing = TD_MISSING_MEAN));
    CHECK_ROW(data, 0, 1, 4);
    CHECK_ROW(data, 1, 1.5, 3);
    const td_data_info *info = td_dataset_info(data);
    assert_int_equal(info->fill_count, 2);
    assert_float_equal(info->fill[1], 4, 0);
    /* Other data with the same fill: predictions see what training saw. */
    td_dataset *other =
        open_data(TD_DATA(.train = write_text("new.csv", "a,b\n,\n7,8\n"), .inputs = info->inputs,
                          .missing = TD_MISSING_MEAN, .fill = info->fill, .fill_count = 2));
    CHECK_ROW(other, 0, 1.5, 4);
    td_dataset_close(other);
    td_dataset_close(data);
    data = open_data(TD_DATA(.train = path, .label = TD_NAMES("y"), .missing = TD_MISSING_VALUE,
                             .missing_value = -9, .scale = 2));
    CHECK_ROW(data, 0, 2, -18);
    td_dataset_close(data);
}

static void the_mean_is_standardised_to_zero(void **state) {
    (void)state;
    const char *path = write_text("holes.csv", "a,y\n1,0\n,1\n3,0\n");
    td_dataset *data = open_data(TD_DATA(.train = path, .label = TD_NAMES("y"), .standardize = true,
                                         .missing = TD_MISSING_MEAN));
    CHECK_ROW(data, 1, 0);
    CHECK_ROW(data, 0, -1 / sqrtf(2.f / 3));
    td_dataset_close(data);
}

static void rows_with_missing_values_are_left_out(void **state) {
    (void)state;
    const char *path = write_text("holes.csv", "a,y\n1,0\n,1\n3,\n4,1\n5,cow\n");
    assert_refused(TD_DATA(.train = path, .label = TD_NAMES("y"), .missing = TD_MISSING_DROP),
                   TD_FORMAT, "line 6", "'cow'");
    path = write_text("holes.csv", "a,y\n1,ant\n,bee\n3,\n4,cow\n5,ant\n6,\n");
    td_dataset *data = open_data(TD_DATA(.train = path, .label = TD_NAMES("y"), .in_order = true,
                                         .missing = TD_MISSING_DROP));
    const td_data_info *info = td_dataset_info(data);
    assert_int_equal(info->training, 3);
    assert_int_equal(info->remarks.count, 1);
    assert_non_null(strstr(info->remarks.items[0], "3 of 6 rows are left out"));
    td_error error = {0};
    td_batches *batches = td_batches_create(data, TD_TRAINING, 0, &error);
    td_batch batch;
    assert_non_null(batches);
    assert_true(td_batches_next(batches, &batch));
    const int64_t rows[] = {0, 3, 4};
    const float inputs[] = {1, 4, 5};
    assert_int_equal(batch.count, 3);
    assert_memory_equal(batch.rows, rows, sizeof rows);
    assert_memory_equal(batch.input.data, inputs, sizeof inputs);
    td_batches_destroy(batches);
    td_dataset_close(data);
    data = open_data(TD_DATA(.train = path, .label = TD_NAMES("y"), .validation_share = 0.34,
                             .missing = TD_MISSING_DROP));
    assert_int_equal(td_dataset_info(data)->training, 2);
    assert_int_equal(td_dataset_info(data)->validation, 1);
    td_dataset_close(data);
}

static void text_among_the_inputs_is_listed(void **state) {
    (void)state;
    const char *path = write_text("text.csv", "a,colour,city,y\n1,red,Bonn,0\n");
    assert_refused(TD_DATA(.train = path, .label = TD_NAMES("y")), TD_FORMAT, "text.csv line 2",
                   "'colour', 'city'", "`categories`");
}

static void categories_become_an_input_for_each_text(void **state) {
    (void)state;
    const char *path =
        write_text("colours.csv", "a,colour,b,y\n1,red,2,0\n3,\"blue, dark\",4,1\n5,red,6,0\n");
    td_dataset *data =
        open_data(TD_DATA(.train = path, .label = TD_NAMES("y"), .categories = TD_NAMES("colour")));
    const td_data_info *info = td_dataset_info(data);
    assert_int_equal(info->inputs.count, 4);
    assert_string_equal(info->inputs.items[1], "colour=blue, dark");
    assert_string_equal(info->inputs.items[2], "colour=red");
    assert_int_equal(info->remarks.count, 0);
    CHECK_ROW(data, 0, 1, 0, 1, 2);
    CHECK_ROW(data, 1, 3, 1, 0, 4);
    /* Known texts keep their places, whatever a new file has and in whichever order. */
    td_dataset *other =
        open_data(TD_DATA(.train = write_text("new.csv", "colour,b,a\nred,8,7\n"),
                          .inputs = info->inputs, .categories = TD_NAMES("colour")));
    CHECK_ROW(other, 0, 7, 0, 1, 8);
    td_dataset_close(other);
    other = open_data(TD_DATA(.train = write_text("new.csv", "7,red,8\n7,red,8\n"),
                              .header = TD_HEADER_NO, .inputs = info->inputs,
                              .categories = TD_NAMES("colour")));
    CHECK_ROW(other, 0, 7, 0, 1, 8);
    assert_int_equal(td_dataset_info(other)->remarks.count, 1);
    td_dataset_close(other);
    assert_refused(TD_DATA(.train = write_text("new.csv", "colour,b,a\nred,8,7\nmauve,1,2\n"),
                           .inputs = info->inputs, .categories = TD_NAMES("colour")),
                   TD_FORMAT, "new.csv line 3 (row 2), column 'colour'", "'mauve'", "2 categories");
    td_dataset_close(data);
}

static void categories_may_be_numbers_and_have_no_header(void **state) {
    (void)state;
    const char *path = write_text("codes.csv", "1,7,0.5\n2,9,0.25\n1,9,1\n");
    td_dataset *data = open_data(TD_DATA(.train = path, .categories = TD_NAMES("1")));
    const td_data_info *info = td_dataset_info(data);
    assert_string_equal(info->inputs.items[0], "0");
    assert_string_equal(info->inputs.items[1], "1=7");
    assert_string_equal(info->inputs.items[3], "2");
    assert_int_equal(info->remarks.count, 0);
    CHECK_ROW(data, 1, 2, 0, 1, 0.25f);
    td_dataset_close(data);
}

static void missing_categories_are_missing_values(void **state) {
    (void)state;
    const char *path = write_text("colours.csv", "a,colour\n1,red\n2,\n3,blue\n");
    assert_refused(TD_DATA(.train = path, .categories = TD_NAMES("colour")), TD_FORMAT,
                   "colour: 1, the first in line 3");
    td_dataset *data = open_data(TD_DATA(.train = path, .categories = TD_NAMES("colour"),
                                         .missing = TD_MISSING_VALUE, .missing_value = 0));
    CHECK_ROW(data, 1, 2, 0, 0);
    td_dataset_close(data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(separators_are_found_out),
        cmocka_unit_test(the_separator_can_be_given),
        cmocka_unit_test(empty_cells_between_tabs_are_missing),
        cmocka_unit_test(decimal_commas_are_named),
        cmocka_unit_test(missing_values_are_counted),
        cmocka_unit_test(missing_values_become_the_mean_or_a_number),
        cmocka_unit_test(the_mean_is_standardised_to_zero),
        cmocka_unit_test(rows_with_missing_values_are_left_out),
        cmocka_unit_test(text_among_the_inputs_is_listed),
        cmocka_unit_test(categories_become_an_input_for_each_text),
        cmocka_unit_test(categories_may_be_numbers_and_have_no_header),
        cmocka_unit_test(missing_categories_are_missing_values),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
