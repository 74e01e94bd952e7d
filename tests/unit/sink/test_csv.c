#include "fixture.h"

#include "base/little.h"

static fixture f;

static int open_csv(void **state) {
    (void)state;
    fixture_open(&f, &td__sink_csv, NULL);
    return 0;
}

static int remove_csv(void **state) {
    (void)state;
    if (f.sink) {
        fixture_close(&f);
    }
    fixture_remove(&f);
    return 0;
}

static void metrics_come_in_the_order_they_were_asked_for(void **state) {
    (void)state;
    assert_ok(f.class->expect(f.sink, "loss", TD_SCALAR, &f.error), f.error);
    assert_ok(f.class->expect(f.sink, "accuracy", TD_SCALAR, &f.error), f.error);
    assert_ok(f.class->expect(f.sink, "val_loss", TD_SCALAR, &f.error), f.error);
    assert_ok(f.class->expect(f.sink, "hidden.error", TD_SCALAR | TD_ROWS, &f.error), f.error);
    assert_ok(f.class->expect(f.sink, "rate", TD_SCALAR, &f.error), f.error);
    fixture_scalar(&f, "rate", 7, 1, 0.25);
    fixture_scalar(&f, "accuracy", 0, 1, 0.5);
    fixture_scalar(&f, "loss", 1, 1, (double)0.7f);
    fixture_end_step(&f, 1);
    fixture_scalar(&f, "loss", 1, 2, NAN);
    fixture_scalar(&f, "val_loss", 2, 2, 1e-9);
    fixture_end_step(&f, 2);
    fixture_close(&f);
    assert_string_equal(fixture_read(&f, "metrics.csv"), "epoch,step,loss,accuracy,val_loss,rate\n"
                                                         "1,1,0.7,0.5,,0.25\n"
                                                         "1,2,nan,,1e-9,\n");
}

static void a_metric_that_comes_late_gets_a_column_and_empty_cells(void **state) {
    (void)state;
    fixture_scalar(&f, "loss", 0, 1, 1);
    fixture_end_step(&f, 1);
    fixture_scalar(&f, "loss", 0, 2, 2);
    fixture_end_step(&f, 2);
    assert_ok(f.class->flush(f.sink, &f.error), f.error);
    assert_string_equal(fixture_read(&f, "metrics.csv"), "epoch,step,loss\n1,1,1\n1,2,2\n");
    fixture_scalar(&f, "=late,\n", 1, 3, 3);
    fixture_scalar(&f, "later", 2, 3, 4);
    fixture_end_step(&f, 3);
    fixture_scalar(&f, "loss", 0, 4, 5);
    fixture_end_step(&f, 4);
    fixture_close(&f);
    assert_string_equal(
        fixture_read(&f, "metrics.csv"),
        "epoch,step,loss,\"'=late,\n\",later\n1,1,1,,\n1,2,2,,\n1,3,,3,4\n1,4,5,,\n");
}

static void a_metric_given_twice_in_a_step_makes_two_rows(void **state) {
    (void)state;
    fixture_scalar(&f, "loss", 0, 1, 1);
    fixture_scalar(&f, "loss", 0, 1, 2);
    fixture_end_step(&f, 1);
    fixture_close(&f);
    assert_string_equal(fixture_read(&f, "metrics.csv"), "epoch,step,loss\n1,1,1\n1,1,2\n");
}

static void rows_have_one_line_for_each_example(void **state) {
    (void)state;
    static const float values[] = {1, 2.5f, -3, 0, NAN, INFINITY};
    static const int64_t samples[] = {17, 4};
    fixture_view(&f, "hidden.error", 0, TD_ROWS, 10,
                 (td_view){TD_FLOAT32, TD_SHAPE(2, 3), values, NULL, NULL}, samples);
    fixture_view(&f, "hidden.error", 0, TD_ROWS, 20,
                 (td_view){TD_FLOAT32, TD_SHAPE(1, 3), values, NULL, NULL}, NULL);
    fixture_close(&f);
    assert_string_equal(fixture_read(&f, "hidden.error.csv"),
                        "epoch,step,sample,error_0,error_1,error_2\n"
                        "1,10,17,1,2.5,-3\n1,10,4,0,nan,inf\n1,20,0,1,2.5,-3\n");
}

static void rows_of_another_width_have_their_own_file(void **state) {
    (void)state;
    static const int32_t values[] = {1, 2, 3, 4};
    fixture_view(&f, "x", 0, TD_ROWS, 1, (td_view){TD_INT32, TD_SHAPE(1, 2), values, NULL, NULL},
                 NULL);
    fixture_view(&f, "x", 0, TD_ROWS, 2, (td_view){TD_INT32, TD_SHAPE(1, 4), values, NULL, NULL},
                 NULL);
    fixture_view(&f, "x", 0, TD_ROWS, 3, (td_view){TD_INT32, TD_SHAPE(2, 2), values, NULL, NULL},
                 NULL);
    fixture_close(&f);
    assert_string_equal(fixture_read(&f, "x.csv"), "epoch,step,sample,x_0,x_1\n"
                                                   "1,1,0,1,2\n1,3,0,1,2\n1,3,1,3,4\n");
    assert_string_equal(fixture_read(&f, "x@4.csv"), "epoch,step,sample,x_0,x_1,x_2,x_3\n"
                                                     "1,2,0,1,2,3,4\n");
}

static void a_batch_is_one_row_and_a_short_one_leaves_cells_empty(void **state) {
    (void)state;
    static const float values[] = {1, 2, 3, 4, 5, 6};
    const int64_t rows[] = {2, 1, 3, 2};
    for (int64_t step = 1; step <= 4; step++) {
        td_view view = {TD_FLOAT32, TD_SHAPE(rows[step - 1], 2), values, NULL, NULL};
        fixture_view(&f, "hidden.error", 0, TD_BATCH, step, view, NULL);
    }
    fixture_close(&f);
    assert_string_equal(fixture_read(&f, "hidden.error.csv"),
                        "epoch,step,error_0,error_1,error_2,error_3\n"
                        "1,1,1,2,3,4\n1,2,1,2,,\n");
    assert_string_equal(fixture_read(&f, "hidden.error@batch.csv"),
                        "epoch,step,error_0,error_1,error_2,error_3,error_4,error_5\n"
                        "1,3,1,2,3,4,5,6\n1,4,1,2,3,4,,\n");
}

/* Columns are called by what the signal is, whatever its name. */
static void columns_are_named_by_what_the_signal_is(void **state) {
    (void)state;
    static const float values[] = {1, 2};
    static const struct {
        const char *name;
        td_signal_info info;
        const char *file, *header;
    } cases[] = {
        {"a.b", {.kind = TD_SIGNAL_ERROR, .layer = "a", .parameter = ""}, "a.b.csv", "error_0"},
        {"c", {.kind = TD_SIGNAL_PARAMETER, .parameter = "kernel"}, "c.csv", "kernel_0"},
        {"c.d", {.kind = TD_SIGNAL_UNKNOWN, .parameter = ""}, "c.d.csv", "d_0"},
        {"guess", {.kind = TD_SIGNAL_PREDICTION, .parameter = ""}, "guess.csv", "class_0"},
    };
    td_view view = {TD_FLOAT32, TD_SHAPE(1, 2), values, NULL, NULL};
    for (int32_t i = 0; i < 4; i++) {
        td_record record = {.signal = cases[i].name,
                            .signal_index = i,
                            .form = TD_ROWS,
                            .step = 1,
                            .view = &view,
                            .info = &cases[i].info};
        assert_ok(fixture_write(&f, record), f.error);
    }
    fixture_close(&f);
    for (int32_t i = 0; i < 4; i++) {
        if (!strstr(fixture_read(&f, cases[i].file), cases[i].header)) {
            fail_msg("%s has no column %s", cases[i].file, cases[i].header);
        }
    }
}

static void predictions_stand_beside_their_labels(void **state) {
    (void)state;
    static const float values[] = {0.25f, 0.75f, 1, 0};
    static const int64_t labels[] = {1, 0}, samples[] = {100, 3};
    td_view view = {TD_FLOAT32, TD_SHAPE(2, 2), values, NULL, NULL};
    td_view label_view = {TD_INT64, TD_SHAPE(2), labels, NULL, NULL};
    td_record record = {.signal = "prediction",
                        .form = TD_ROWS,
                        .epoch = 2,
                        .step = 8,
                        .view = &view,
                        .samples = samples,
                        .labels = &label_view};
    assert_ok(fixture_write(&f, record), f.error);
    fixture_close(&f);
    assert_string_equal(fixture_read(&f, "predictions.csv"),
                        "epoch,step,sample,label,class_0,class_1\n"
                        "2,8,100,1,0.25,0.75\n2,8,3,0,1,0\n");
}

static void long_form_has_the_index_of_each_element(void **state) {
    (void)state;
    static const double values[] = {0.1, -2, 3, 4};
    static const int64_t samples[] = {9, 8};
    fixture_view(&f, "k", 0, TD_LONG, 1,
                 (td_view){TD_FLOAT64, TD_SHAPE(2, 1, 2), values, NULL, NULL}, samples);
    fixture_view(&f, "b", 1, TD_LONG, 1, (td_view){TD_FLOAT64, TD_SHAPE(2), values, NULL, NULL},
                 NULL);
    fixture_view(&f, "c", 2, TD_LONG, 1, (td_view){TD_FLOAT64, {0}, values, NULL, NULL}, NULL);
    fixture_close(&f);
    assert_string_equal(fixture_read(&f, "k.csv"),
                        "epoch,step,sample,index,value\n"
                        "1,1,9,\"0,0\",0.1\n1,1,9,\"0,1\",-2\n1,1,8,\"0,0\",3\n1,1,8,\"0,1\",4\n");
    assert_string_equal(fixture_read(&f, "b.csv"),
                        "epoch,step,sample,index,value\n1,1,,0,0.1\n1,1,,1,-2\n");
    assert_string_equal(fixture_read(&f, "c.csv"), "epoch,step,sample,index,value\n1,1,,0,0.1\n");
}

static void statistics_go_to_the_signal_and_to_all(void **state) {
    (void)state;
    td_stats stats = {.count = 4,
                      .zeros = 1,
                      .nan = 1,
                      .inf = 0,
                      .mean = 0.5,
                      .std = 0.25,
                      .min = 0,
                      .max = (double)0.1f,
                      .norm = NAN};
    td_record record = {.signal = "-a,b", .form = TD_STATS, .epoch = 1, .step = 3, .stats = &stats};
    assert_ok(fixture_write(&f, record), f.error);
    fixture_close(&f);
    const char *expected = "epoch,step,signal,count,mean,std,min,max,norm,zeros,nan,inf\n"
                           "1,3,\"'-a,b\",4,0.5,0.25,0,0.1,nan,1,1,0\n";
    assert_string_equal(fixture_read(&f, "stats.csv"), expected);
    assert_string_equal(fixture_read(&f, "-a%2Cb.csv"), expected);
}

/* Thousands of files help nobody; a signal that a track names has its own. */
static void statistics_of_many_signals_are_in_one_file(void **state) {
    (void)state;
    enum { SIGNALS = 1000 };
    assert_ok(f.class->expect(f.sink, "named", TD_STATS, &f.error), f.error);
    td_stats stats = {.count = 4, .mean = 0.5};
    for (int64_t step = 1; step <= 2; step++) {
        for (int32_t i = 0; i <= SIGNALS; i++) {
            char name[16];
            snprintf(name, sizeof name, i < SIGNALS ? "s%d" : "named", i);
            td_record record = {
                .signal = name, .signal_index = i, .form = TD_STATS, .step = step, .stats = &stats};
            assert_ok(fixture_write(&f, record), f.error);
        }
    }
    fixture_close(&f);
    char command[256];
    snprintf(command, sizeof command,
             "test $(ls %s/*.csv | wc -l) = 302 && test $(wc -l <%s/stats.csv) = %d", f.folder,
             f.folder, 2 * (SIGNALS + 1) + 1);
    assert_int_equal(system(command), 0);
    assert_true(fixture_has(&f, "named.csv"));
    assert_true(fixture_has(&f, "s0.csv"));
    assert_false(fixture_has(&f, "s999.csv"));
}

static void each_form_of_a_signal_has_its_own_file(void **state) {
    (void)state;
    static const float values[] = {1, 2};
    td_view view = {TD_FLOAT32, TD_SHAPE(1, 2), values, NULL, NULL};
    td_stats stats = {.count = 2};
    td_bin bins[] = {{2048, 3}, {2100, 1}};
    td_histogram histogram = {.bins = bins, .bin_count = 2};
    fixture_view(&f, "x", 0, TD_ROWS, 1, view, NULL);
    fixture_view(&f, "x", 0, TD_LONG, 1, view, NULL);
    td_record record = {.signal = "x",
                        .form = TD_STATS,
                        .epoch = 1,
                        .step = 1,
                        .stats = &stats,
                        .histogram = &histogram,
                        .hash = 0xabc,
                        .text = "a\"b",
                        .text_length = 3};
    const td_form forms[] = {TD_STATS, TD_HISTOGRAM, TD_HASH, TD_TEXT};
    for (size_t i = 0; i < 4; i++) {
        record.form = forms[i];
        assert_ok(fixture_write(&f, record), f.error);
    }
    fixture_close(&f);
    static const char *const names[] = {"x.csv",           "x@long.csv", "x@stats.csv",
                                        "x@histogram.csv", "stats.csv",  "hashes.csv"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_true(fixture_has(&f, names[i]));
    }
    assert_string_equal(fixture_read(&f, "hashes.csv"),
                        "epoch,step,signal,hash\n1,1,x,x0000000000000abc\n");
    assert_string_equal(fixture_read(&f, "texts.csv"),
                        "epoch,step,signal,text\n1,1,x,\"a\"\"b\"\n");
    assert_non_null(
        strstr(fixture_read(&f, "x@histogram.csv"), "epoch,step,left,right,count\n1,1,0,"));
}

static void a_form_asked_for_by_name_has_the_signal_s_file(void **state) {
    (void)state;
    static const float values[] = {1, 2};
    td_stats stats = {.count = 2, .mean = 1.5};
    assert_ok(f.class->expect(f.sink, "x", TD_STATS | TD_ROWS, &f.error), f.error);
    assert_ok(f.class->expect(f.sink, "x", TD_STATS, &f.error), f.error);
    td_record record = {.signal = "x", .form = TD_STATS, .epoch = 1, .step = 1, .stats = &stats};
    assert_ok(fixture_write(&f, record), f.error);
    fixture_view(&f, "x", 0, TD_ROWS, 2, (td_view){TD_FLOAT32, TD_SHAPE(1, 2), values, NULL, NULL},
                 NULL);
    fixture_close(&f);
    assert_string_equal(fixture_read(&f, "x.csv"), "epoch,step,sample,x_0,x_1\n1,2,0,1,2\n");
    assert_true(fixture_has(&f, "x@stats.csv"));
}

static void hostile_names_make_files_in_the_folder_only(void **state) {
    (void)state;
    static const float value = 1;
    td_view view = {TD_FLOAT32, TD_SHAPE(1, 1), &value, NULL, NULL};
    static char name[10001];
    memset(name, '/', 10000);
    fixture_view(&f, name, 0, TD_ROWS, 1, view, NULL);
    fixture_view(&f, "../../evil", 1, TD_ROWS, 1, view, NULL);
    fixture_view(&f, "metrics", 2, TD_ROWS, 1, view, NULL);
    fixture_view(&f, "\xff\n", 3, TD_ROWS, 1, view, NULL);
    fixture_view(&f, "", 4, TD_ROWS, 1, view, NULL);
    fixture_scalar(&f, "loss", 5, 1, 1);
    fixture_close(&f);
    assert_true(fixture_has(&f, "%2E.%2F..%2Fevil.csv"));
    assert_true(fixture_has(&f, "%6Detrics.csv"));
    assert_true(fixture_has(&f, "%FF%0A.csv"));
    assert_true(fixture_has(&f, "%00.csv"));
    assert_string_equal(fixture_read(&f, "metrics.csv"), "epoch,step,loss\n1,1,1\n");
    DIR *folder = opendir(f.folder);
    int count = 0;
    for (struct dirent *entry; (entry = readdir(folder));) {
        count += entry->d_name[0] != '.';
    }
    closedir(folder);
    assert_int_equal(count, 6);
}

static void pandas_reads_back_the_same_floats(void **state) {
    (void)state;
    enum { N = 5000 };
    static float values[N];
    uint32_t bits = 12345;
    char path[128];
    for (int i = 0; i < N; i++) {
        do {
            bits = bits * 1664525 + 1013904223;
            memcpy(&values[i], &bits, 4);
        } while (isnan(values[i]));
    }
    values[0] = NAN, values[1] = -0.0f, values[2] = -INFINITY;
    fixture_view(&f, "x", 0, TD_ROWS, 1,
                 (td_view){TD_FLOAT32, TD_SHAPE(N / 5, 5), values, NULL, NULL}, NULL);
    fixture_close(&f);
    snprintf(path, sizeof path, "%s/raw", f.folder);
    FILE *raw = fopen(path, "wb");
    td__little_copy(values, values, N * sizeof *values, sizeof *values);
    fwrite(values, 4, N, raw);
    fclose(raw);
    fixture_python(&f, "import numpy as np, pandas as pd\n"
                       "t = pd.read_csv('x.csv')\n"
                       "got = t[[f'x_{i}' for i in range(5)]].to_numpy().astype('f4')\n"
                       "want = np.fromfile('raw', '<f4').reshape(-1, 5)\n"
                       "assert np.array_equal(got, want, equal_nan=True)\n"
                       "assert np.array_equal(np.signbit(got[0, 1]), True)\n"
                       "assert t['sample'].tolist() == list(range(1000))");
}

static void a_vanished_folder_is_reported_and_what_waits_is_kept(void **state) {
    (void)state;
    char away[80];
    snprintf(away, sizeof away, "%s-away", f.folder);
    fixture_scalar(&f, "loss", 0, 1, 1);
    fixture_end_step(&f, 1);
    assert_ok(f.class->flush(f.sink, &f.error), f.error);
    char path[128], hidden[128];
    snprintf(path, sizeof path, "%s/metrics.csv", f.folder);
    snprintf(hidden, sizeof hidden, "%s/other", f.folder);
    assert_int_equal(rename(path, hidden), 0);
    fixture_scalar(&f, "loss", 0, 2, 2);
    fixture_end_step(&f, 2);
    assert_int_equal(f.class->flush(f.sink, &f.error), TD_IO);
    assert_non_null(strstr(f.error.text, "metrics.csv: cannot open: No such file"));
    assert_int_equal(rename(hidden, path), 0);
    assert_int_equal(rename(f.folder, away), 0); /* a moved folder goes on */
    fixture_close(&f);
    assert_int_equal(rename(away, f.folder), 0);
    assert_string_equal(fixture_read(&f, "metrics.csv"), "epoch,step,loss\n1,1,1\n1,2,2\n");
}

int main(void) {
#define CSV_TEST(name) cmocka_unit_test_setup_teardown(name, open_csv, remove_csv)
    const struct CMUnitTest tests[] = {
        CSV_TEST(metrics_come_in_the_order_they_were_asked_for),
        CSV_TEST(a_metric_that_comes_late_gets_a_column_and_empty_cells),
        CSV_TEST(a_metric_given_twice_in_a_step_makes_two_rows),
        CSV_TEST(rows_have_one_line_for_each_example),
        CSV_TEST(rows_of_another_width_have_their_own_file),
        CSV_TEST(predictions_stand_beside_their_labels),
        CSV_TEST(a_batch_is_one_row_and_a_short_one_leaves_cells_empty),
        CSV_TEST(columns_are_named_by_what_the_signal_is),
        CSV_TEST(long_form_has_the_index_of_each_element),
        CSV_TEST(statistics_go_to_the_signal_and_to_all),
        CSV_TEST(statistics_of_many_signals_are_in_one_file),
        CSV_TEST(each_form_of_a_signal_has_its_own_file),
        CSV_TEST(a_form_asked_for_by_name_has_the_signal_s_file),
        CSV_TEST(hostile_names_make_files_in_the_folder_only),
        CSV_TEST(pandas_reads_back_the_same_floats),
        CSV_TEST(a_vanished_folder_is_reported_and_what_waits_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
