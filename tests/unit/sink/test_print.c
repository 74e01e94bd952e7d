#include "fixture.h"

static fixture f;
static char *text;
static size_t length;
static FILE *stream;

static int open_print(void **state) {
    (void)state;
    stream = open_memstream(&text, &length);
    fixture_open(&f, &td__sink_print, stream);
    return 0;
}

static int remove_print(void **state) {
    (void)state;
    fixture_remove(&f);
    fclose(stream);
    free(text);
    return 0;
}

static const char *printed(void) {
    fixture_close(&f);
    fflush(stream);
    return text;
}

static void metrics_are_one_aligned_line_for_each_step(void **state) {
    (void)state;
    fixture_scalar(&f, "loss", 0, 9, 0.123456789);
    fixture_scalar(&f, "accuracy", 1, 9, 0.5);
    fixture_end_step(&f, 9);
    fixture_scalar(&f, "loss", 0, 10, 2);
    fixture_scalar(&f, "accuracy", 1, 10, NAN);
    fixture_end_step(&f, 10);
    assert_string_equal(printed(), "epoch   1 step       9  loss 0.123457  accuracy 0.5\n"
                                   "epoch   1 step      10  loss 2         accuracy nan\n");
}

static void tensors_are_printed_like_numpy(void **state) {
    (void)state;
    static const float values[] = {1, 2, 3, 4};
    fixture_view(&f, "x", 0, TD_TENSOR, 3,
                 (td_view){TD_FLOAT32, TD_SHAPE(2, 2), values, NULL, NULL}, NULL);
    const char *out = printed();
    assert_non_null(strstr(out, "epoch 1 step 3 \nx"));
    assert_non_null(strstr(out, "[[1"));
}

static void predictions_are_a_table_with_labels(void **state) {
    (void)state;
    static const float values[] = {0.25f, 0.75f};
    static const int32_t labels[] = {1};
    static const int64_t samples[] = {42};
    td_view view = {TD_FLOAT32, TD_SHAPE(1, 2), values, NULL, NULL};
    td_view label_view = {TD_INT32, TD_SHAPE(1), labels, NULL, NULL};
    td_record record = {.signal = "prediction",
                        .form = TD_ROWS,
                        .epoch = 2,
                        .step = 8,
                        .view = &view,
                        .samples = samples,
                        .labels = &label_view};
    assert_ok(fixture_write(&f, record), f.error);
    assert_string_equal(printed(), "epoch 2 step 8 prediction\n"
                                   "  sample       label\n"
                                   "      42           1        0.25        0.75\n");
}

static void statistics_share_a_header_and_histograms_are_bars(void **state) {
    (void)state;
    td_stats stats = {.count = 4, .mean = 0.5, .min = -1, .max = 2, .nan = 1};
    td_bin bins[] = {{2000, 1}, {2001, 8}};
    td_histogram histogram = {.bins = bins, .bin_count = 2};
    td_record record = {.signal = "a", .form = TD_STATS, .epoch = 1, .step = 1, .stats = &stats};
    assert_ok(fixture_write(&f, record), f.error);
    record.signal = "b";
    assert_ok(fixture_write(&f, record), f.error);
    record.form = TD_HISTOGRAM;
    record.histogram = &histogram;
    assert_ok(fixture_write(&f, record), f.error);
    const char *out = printed();
    const char *header = strstr(out, "mean");
    assert_non_null(header);
    assert_null(strstr(header + 1, "mean"));
    assert_non_null(strstr(out, "|▁█|"));
}

static void names_cannot_move_the_cursor(void **state) {
    (void)state;
    fixture_scalar(&f, "a\x1b[2J\r\n\x7f", 0, 1, 1);
    fixture_end_step(&f, 1);
    assert_string_equal(printed(), "epoch   1 step       1  a\\x1b[2J\\x0d\\x0a\\x7f 1\n");
}

static void a_stream_that_fails_is_reported(void **state) {
    (void)state;
    fixture_close(&f);
    FILE *full = fopen("/dev/full", "w");
    assert_non_null(full);
    td_sink_options options = {.size = sizeof options, .folder = f.folder, .stream = full};
    assert_ok(f.class->open(&options, &f.sink, &f.error), f.error);
    fixture_scalar(&f, "loss", 0, 1, 1);
    assert_int_equal(f.class->end_step(f.sink, 1, 1, &f.error), TD_IO);
    f.class->close(f.sink, NULL);
    fclose(full);
}

int main(void) {
#define PRINT_TEST(name) cmocka_unit_test_setup_teardown(name, open_print, remove_print)
    const struct CMUnitTest tests[] = {
        PRINT_TEST(metrics_are_one_aligned_line_for_each_step),
        PRINT_TEST(tensors_are_printed_like_numpy),
        PRINT_TEST(predictions_are_a_table_with_labels),
        PRINT_TEST(statistics_share_a_header_and_histograms_are_bars),
        PRINT_TEST(names_cannot_move_the_cursor),
        PRINT_TEST(a_stream_that_fails_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
