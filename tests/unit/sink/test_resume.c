#include "fixture.h"

static fixture f;

static void open_sink(const td_sink_class *class) {
    fixture_open(&f, class, NULL);
}

static void close_and_resume(int64_t step) {
    fixture_close(&f);
    fixture_reopen(&f, step);
}

static void write_raw(const char *name, const char *text) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", f.folder, name);
    FILE *file = fopen(path, "a");
    fputs(text, file);
    fclose(file);
}

static td_view view_of(const float *values, td_shape shape) {
    return (td_view){TD_FLOAT32, shape, values, NULL, NULL};
}

static void metrics_go_on_with_their_columns(void **state) {
    (void)state;
    open_sink(&td__sink_csv);
    for (int64_t step = 1; step <= 4; step++) {
        fixture_scalar(&f, "a,\n", 0, step, (double)step);
        fixture_scalar(&f, "b", 1, step, 10);
        fixture_end_step(&f, step);
    }
    fixture_close(&f);
    write_raw("metrics.csv", "1,5,torn");
    fixture_reopen(&f, 2);
    fixture_scalar(&f, "b", 0, 3, 11); /* other indices this time */
    fixture_scalar(&f, "c", 1, 3, 12);
    fixture_end_step(&f, 3);
    fixture_scalar(&f, "a,\n", 2, 4, 13);
    fixture_end_step(&f, 4);
    fixture_close(&f);
    assert_string_equal(fixture_read(&f, "metrics.csv"),
                        "epoch,step,\"a,\n\",b,c\n"
                        "1,1,1,10,\n1,2,2,10,\n1,3,,11,12\n1,4,13,,\n");
    fixture_remove(&f);
}

static void expect(const char *name) {
    assert_ok(f.class->expect(f.sink, name, TD_SCALAR, &f.error), f.error);
}

static void metrics_without_a_value_before_the_stop_keep_their_place(void **state) {
    (void)state;
    open_sink(&td__sink_csv);
    for (int session = 0; session < 2; session++) {
        expect("loss");
        expect("val_loss");
        expect("rate");
        fixture_scalar(&f, "other", 2, 1 + session, 7);
        fixture_scalar(&f, "rate", 1, 1 + session, 0.5);
        fixture_scalar(&f, "loss", 0, 1 + session, 1);
        if (session == 0) { /* stopped within the first epoch */
            fixture_end_step(&f, 1);
            close_and_resume(1);
        }
    }
    fixture_scalar(&f, "val_loss", 3, 2, 3);
    fixture_end_step(&f, 2);
    fixture_close(&f);
    assert_string_equal(fixture_read(&f, "metrics.csv"), "epoch,step,loss,val_loss,rate,other\n"
                                                         "1,1,1,,0.5,7\n1,2,1,3,0.5,7\n");
    fixture_remove(&f);
}

static void rows_after_the_step_go_wherever_they_are(void **state) {
    (void)state;
    static const float values[] = {1, 2, 3};
    static const int64_t steps[] = {1, 2, 5, 2, 6}; /* the second 2 is history of 5 */
    open_sink(&td__sink_csv);
    for (size_t i = 0; i < 5; i++) {
        fixture_view(&f, "x", 0, TD_ROWS, steps[i], view_of(values, TD_SHAPE(1, 2)), NULL);
        fixture_view(&f, "x", 0, TD_LONG, steps[i], view_of(values, TD_SHAPE(1)), NULL);
        td_record text = {.signal = "t\n,", .signal_index = 1, .form = TD_TEXT, .step = steps[i]};
        text.text = "\"\n";
        text.text_length = 2;
        assert_ok(fixture_write(&f, text), f.error);
    }
    close_and_resume(3);
    assert_string_equal(fixture_read(&f, "x.csv"), "epoch,step,sample,x_0,x_1\n"
                                                   "1,1,0,1,2\n1,2,0,1,2\n1,2,0,1,2\n");
    assert_string_equal(fixture_read(&f, "texts.csv"),
                        "epoch,step,signal,text\n0,1,\"t\n,\",\"\"\"\n\"\n"
                        "0,2,\"t\n,\",\"\"\"\n\"\n0,2,\"t\n,\",\"\"\"\n\"\n");
    /* the long form comes first this time and still finds its file; another width
     * finds a new one */
    fixture_view(&f, "x", 0, TD_LONG, 4, view_of(values, TD_SHAPE(1)), NULL);
    fixture_view(&f, "x", 0, TD_ROWS, 4, view_of(values, TD_SHAPE(1, 3)), NULL);
    fixture_view(&f, "x", 0, TD_ROWS, 4, view_of(values, TD_SHAPE(1, 2)), NULL);
    fixture_close(&f);
    assert_non_null(strstr(fixture_read(&f, "x.csv"), "1,2,0,1,2\n1,4,0,1,2\n"));
    assert_non_null(strstr(fixture_read(&f, "x@long.csv"), "1,4,,0,1\n"));
    assert_string_equal(fixture_read(&f, "x@3.csv"),
                        "epoch,step,sample,x_0,x_1,x_2\n1,4,0,1,2,3\n");
    fixture_remove(&f);
}

static void tables_of_others_are_left_alone(void **state) {
    (void)state;
    open_sink(&td__sink_csv);
    fixture_close(&f);
    write_raw("weights.csv", "layer,parameter,index,value\na,b,9,1\n");
    write_raw("empty.csv", "");
    fixture_reopen(&f, 1);
    fixture_close(&f);
    assert_string_equal(fixture_read(&f, "weights.csv"), "layer,parameter,index,value\na,b,9,1\n");
    fixture_remove(&f);
}

static void arrays_go_on_after_the_step(void **state) {
    (void)state;
    static const int64_t steps[] = {1, 2, 5, 2, 6}, samples[] = {4, 5};
    float values[4];
    open_sink(&td__sink_npy);
    for (size_t i = 0; i < 5; i++) {
        for (int k = 0; k < 4; k++) {
            values[k] = (float)(10 * steps[i] + k);
        }
        fixture_view(&f, "x", 0, TD_TENSOR, steps[i], view_of(values, TD_SHAPE(2, 2)), samples);
        fixture_view(&f, "x", 0, TD_TENSOR, steps[i], view_of(values, TD_SHAPE(1, 2)), NULL);
        fixture_view(&f, "empty", 1, TD_TENSOR, steps[i], view_of(values, TD_SHAPE(0)), NULL);
    }
    close_and_resume(3);
    fixture_view(&f, "x", 0, TD_TENSOR, 4, view_of(values, TD_SHAPE(1, 2)), NULL);
    assert_string_equal(f.place.file, "x@1x2.npy");
    assert_int_equal(f.place.record, 3);
    fixture_view(&f, "x", 0, TD_TENSOR, 4, view_of(values, TD_SHAPE(2, 2)), NULL);
    assert_string_equal(f.place.file, "x.npy");
    fixture_view(&f, "empty", 1, TD_TENSOR, 4, view_of(values, TD_SHAPE(0)), NULL);
    fixture_close(&f);
    fixture_python(&f, "import numpy as np\n"
                       "for name in 'x', 'x@1x2', 'empty':\n"
                       "    assert np.load(name + '.steps.npy').tolist() == [1, 2, 2, 4], name\n"
                       "x = np.load('x.npy')\n"
                       "assert x[:, 0, 0].tolist() == [10, 20, 20, 60] and x.shape == (4, 2, 2)\n"
                       "assert np.load('x@1x2.npy')[:, 0, 1].tolist() == [11, 21, 21, 61]\n"
                       "assert np.load('empty.npy').shape == (4, 0)\n"
                       "assert np.load('x.samples.npy').tolist() == 3 * [[4, 5]] + [[-1, -1]]");
    fixture_remove(&f);
}

static void an_array_without_records_still_gets_its_samples(void **state) {
    (void)state;
    static const float values[] = {1, 2};
    static const int64_t samples[] = {4, 5};
    open_sink(&td__sink_npy);
    fixture_view(&f, "x", 0, TD_TENSOR, 2, view_of(values, TD_SHAPE(2)), samples);
    fixture_close(&f);
    /* as if killed between creating the array and creating its samples */
    char path[128];
    snprintf(path, sizeof path, "%s/x.samples.npy", f.folder);
    assert_int_equal(unlink(path), 0);
    fixture_reopen(&f, 1);
    fixture_view(&f, "x", 0, TD_TENSOR, 2, view_of(values, TD_SHAPE(2)), samples);
    fixture_close(&f);
    fixture_python(&f, "import numpy as np\n"
                       "assert np.load('x.npy').tolist() == [[1, 2]]\n"
                       "assert np.load('x.samples.npy').tolist() == [[4, 5]]");
    fixture_remove(&f);
}

static void arrays_that_a_crash_left_uneven_are_made_even(void **state) {
    (void)state;
    static const float values[] = {1, 2};
    open_sink(&td__sink_npy);
    for (int64_t step = 1; step <= 3; step++) {
        fixture_view(&f, "x", 0, TD_TENSOR, step, view_of(values, TD_SHAPE(2)), NULL);
    }
    fixture_close(&f);
    /* as if killed after steps were written and before the data's header was */
    fixture_python(&f,
                   "import re\n"
                   "d = open('x.npy', 'rb').read()\n"
                   "open('x.npy', 'wb').write(d.replace(b'%21d' % 3, b'%21d' % 2, 1) + b'junk')");
    fixture_reopen(&f, 10);
    fixture_view(&f, "x", 0, TD_TENSOR, 11, view_of(values, TD_SHAPE(2)), NULL);
    fixture_close(&f);
    fixture_python(&f, "import numpy as np\n"
                       "assert np.load('x.npy').shape == (3, 2)\n"
                       "assert np.load('x.steps.npy').tolist() == [1, 2, 11]");
    fixture_remove(&f);
}

static void later_pictures_go(void **state) {
    (void)state;
    static const float values[] = {1, 2};
    open_sink(&td__sink_png);
    for (int64_t step = 1; step <= 3; step++) {
        fixture_view(&f, "x", 0, TD_IMAGE, step, view_of(values, TD_SHAPE(2)), NULL);
    }
    close_and_resume(2);
    fixture_close(&f);
    assert_true(fixture_has(&f, "images/x/step-000002.png"));
    assert_false(fixture_has(&f, "images/x/step-000003.png"));
    fixture_remove(&f);
}

/* A trigger's history comes after later steps; half a picture is what a kill leaves. */
static void later_pictures_go_from_archives(void **state) {
    (void)state;
    static const float values[] = {1, 2};
    static const int64_t steps[] = {1, 4, 2, 5};
    assert_int_equal(setenv("TAPEDECK_FILES", "network", 1), 0);
    open_sink(&td__sink_png);
    for (size_t i = 0; i < 4; i++) {
        fixture_view(&f, "x", 0, TD_IMAGE, steps[i], view_of(values, TD_SHAPE(2)), NULL);
    }
    fixture_close(&f);
    fixture_python(&f, "open('images/x.tar', 'ab').write(b'torn')");
    fixture_reopen(&f, 3);
    fixture_view(&f, "x", 0, TD_IMAGE, 4, view_of(values, TD_SHAPE(2)), NULL);
    fixture_close(&f);
    fixture_python(&f, "import tarfile\n"
                       "names = tarfile.open('images/x.tar').getnames()\n"
                       "assert [int(name[5:11]) for name in names] == [1, 4, 2, 4], names");
    fixture_reopen(&f, -1);
    fixture_close(&f);
    assert_false(fixture_has(&f, "images/x.tar"));
    unsetenv("TAPEDECK_FILES");
    fixture_remove(&f);
}

/* The first batch after the pause may be the last, short one of an epoch. */
static void batches_keep_their_columns(void **state) {
    (void)state;
    static const float values[] = {1, 2, 3, 4};
    open_sink(&td__sink_csv);
    fixture_view(&f, "x", 0, TD_BATCH, 1, view_of(values, TD_SHAPE(2, 2)), NULL);
    close_and_resume(1);
    fixture_view(&f, "x", 0, TD_BATCH, 2, view_of(values, TD_SHAPE(1, 2)), NULL);
    fixture_view(&f, "x", 0, TD_BATCH, 3, view_of(values, TD_SHAPE(2, 2)), NULL);
    fixture_close(&f);
    assert_string_equal(fixture_read(&f, "x.csv"),
                        "epoch,step,x_0,x_1,x_2,x_3\n1,1,1,2,3,4\n1,2,1,2,,\n1,3,1,2,3,4\n");
    fixture_remove(&f);
}

/* ---- Files that somebody else had in hand --------------------------------------------------- */

static td_error heard;
static int64_t held;

static void listen(void *listener, const td_error *problem) {
    (void)listener;
    heard = *problem;
}

static td_status resume_tampered(const char *name, const char *text) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", f.folder, name);
    (void)unlink(path);
    write_raw(name, text);
    heard = (td_error){0};
    held = 0;
    td_sink_options options = {
        .size = sizeof options, .folder = f.folder, .resume = 2, .report = listen, .held = &held};
    return f.class->open(&options, &f.sink, &f.error);
}

/* A new column makes the file be written anew, from what is in it. */
static void go_on(void) {
    fixture_scalar(&f, "new", 0, 3, 5);
    fixture_end_step(&f, 3);
    fixture_scalar(&f, "newer", 1, 4, 6);
    fixture_end_step(&f, 4);
    fixture_close(&f);
    assert_int_equal(held, 0);
}

static void metrics_that_are_not_ours_are_set_aside(void **state) {
    (void)state;
    static const char *const tampered[] = {
        "",
        "\n",
        "epoch,step",
        "epoch,step,",
        "epoch,step,loss",
        "epoch,step,\"loss\n1,1,2\n",
        "epoch,step,loss\n1,1,2,3,4,5,6,7,8,9,10,11,12\n",
        "epoch,step,loss\n1\n",
        "epoch,step,loss\n\n\n\n",
        "epoch,step,loss\n1,1\n1,2,3\n",
        "epoch,step,loss\n1,1,\"a,b\"\n",
        "epoch,step,loss\n1,1,hello\n",
        "step,epoch,loss\n1,1,2\n",
        "epoch,step,loss\n,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,"
        "\n",
    };
    for (size_t i = 0; i < sizeof tampered / sizeof *tampered; i++) {
        open_sink(&td__sink_csv);
        fixture_close(&f);
        assert_ok(resume_tampered("metrics.csv", tampered[i]), f.error);
        go_on();
        if (heard.status != TD_FORMAT || !fixture_has(&f, "metrics.csv.damaged")) {
            fail_msg("'%s' was taken for metrics.csv: %s", tampered[i], heard.text);
        }
        assert_string_equal(fixture_read(&f, "metrics.csv"),
                            "epoch,step,new,newer\n1,3,5,\n1,4,,6\n");
        fixture_remove(&f);
    }
}

static void metrics_changed_under_way_are_set_aside(void **state) {
    (void)state;
    open_sink(&td__sink_csv);
    fixture_close(&f);
    assert_ok(resume_tampered("metrics.csv", "epoch,step,loss\n1,1,2\n1,2,3\n"), f.error);
    assert_int_equal(heard.status, TD_OK);
    char path[128];
    snprintf(path, sizeof path, "%s/metrics.csv", f.folder);
    FILE *file = fopen(path, "r+");
    fputs("epoch,step,loss\n1,,,,,,,,,,\n", file);
    fclose(file);
    go_on();
    assert_int_equal(heard.status, TD_FORMAT);
    assert_true(fixture_has(&f, "metrics.csv.damaged"));
    fixture_remove(&f);
}

static void arrays_that_are_not_ours_are_set_aside(void **state) {
    (void)state;
    static const float values[] = {1, 2};
    static const char *const names[] = {"x.npy", "x.steps.npy"};
    for (size_t i = 0; i < 2; i++) {
        open_sink(&td__sink_npy);
        fixture_view(&f, "x", 0, TD_TENSOR, 1, view_of(values, TD_SHAPE(2)), NULL);
        fixture_close(&f);
        assert_ok(resume_tampered(names[i], "\x93NUMPY\x01 rubbish"), f.error);
        assert_int_equal(heard.status, TD_FORMAT);
        assert_true(fixture_has(&f, "x.npy.damaged") && fixture_has(&f, "x.steps.npy.damaged"));
        fixture_view(&f, "x", 0, TD_TENSOR, 3, view_of(values, TD_SHAPE(2)), NULL);
        fixture_close(&f);
        fixture_python(&f, "import numpy\n"
                           "assert numpy.load('x.steps.npy').tolist() == [3]\n"
                           "assert numpy.load('x.npy').tolist() == [[1, 2]]");
        fixture_remove(&f);
    }
}

/* A power cut may keep a header and lose data that it speaks of: nothing is made up. */
static void an_array_shorter_than_it_says_is_cut(void **state) {
    (void)state;
    float values[] = {1, 2};
    open_sink(&td__sink_npy);
    for (int64_t step = 1; step <= 4; step++) {
        fixture_view(&f, "x", 0, TD_TENSOR, step, view_of(values, TD_SHAPE(2)), NULL);
    }
    fixture_close(&f);
    char path[128];
    struct stat about;
    snprintf(path, sizeof path, "%s/x.npy", f.folder);
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(truncate(path, about.st_size - 12), 0);
    fixture_reopen(&f, 4);
    values[0] = 7;
    fixture_view(&f, "x", 0, TD_TENSOR, 5, view_of(values, TD_SHAPE(2)), NULL);
    fixture_close(&f);
    fixture_python(&f, "import numpy\n"
                       "assert numpy.load('x.steps.npy').tolist() == [1, 2, 5]\n"
                       "assert numpy.load('x.npy').tolist() == [[1, 2], [1, 2], [7, 2]]");
    fixture_remove(&f);
}

static void a_number_of_a_step_without_end_is_no_step(void **state) {
    (void)state;
    open_sink(&td__sink_csv);
    fixture_close(&f);
    assert_ok(resume_tampered("metrics.csv", "epoch,step,loss\n1,1,2\n"
                                             "1,99999999999999999999999999999999,3\n"),
              f.error);
    fixture_close(&f);
    assert_string_equal(fixture_read(&f, "metrics.csv"), "epoch,step,loss\n1,1,2\n");
    fixture_remove(&f);
}

/* Neither waits for a FIFO's other end nor writes where a link leads. */
static void only_regular_files_are_opened(void **state) {
    (void)state;
    const struct {
        const td_sink_class *class;
        const char *name;
    } files[] = {{&td__sink_csv, "metrics.csv"},
                 {&td__sink_csv, "x.csv"},
                 {&td__sink_npy, "x.steps.npy"},
                 {&td__sink_sqlite, "run.db"}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        for (int link = 0; link < 2; link++) {
            open_sink(files[i].class);
            fixture_close(&f);
            char path[128], other[128];
            snprintf(path, sizeof path, "%s/%s", f.folder, files[i].name);
            snprintf(other, sizeof other, "%s/other", f.folder);
            (void)unlink(path);
            write_raw("other", "epoch,step,a\n1,9,2\n");
            assert_int_equal(link ? symlink(other, path) : mkfifo(path, 0600), 0);
            td_sink_options options = {.size = sizeof options, .folder = f.folder, .resume = 1};
            td_status status = f.class->open(&options, &f.sink, &f.error);
            if (status == TD_OK) {
                fail_msg("%s: a %s was opened", files[i].name, link ? "link" : "FIFO");
            }
            assert_string_equal(fixture_read(&f, "other"), "epoch,step,a\n1,9,2\n");
            fixture_remove(&f);
        }
    }
}

static void a_database_that_is_removed_is_missed(void **state) {
    (void)state;
    fixture_open(&f, &td__sink_sqlite, NULL);
    fixture_scalar(&f, "loss", 0, 1, 2);
    fixture_end_step(&f, 1);
    assert_ok(f.class->flush(f.sink, &f.error), f.error);
    char path[128];
    snprintf(path, sizeof path, "%s/run.db", f.folder);
    assert_int_equal(unlink(path), 0);
    fixture_scalar(&f, "loss", 0, 2, 2);
    assert_int_equal(f.class->flush(f.sink, &f.error), TD_IO);
    assert_non_null(strstr(f.error.text, "run.db was removed"));
    assert_int_equal(f.class->close(f.sink, &f.error), TD_IO);
    fixture_remove(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(metrics_go_on_with_their_columns),
        cmocka_unit_test(metrics_without_a_value_before_the_stop_keep_their_place),
        cmocka_unit_test(rows_after_the_step_go_wherever_they_are),
        cmocka_unit_test(tables_of_others_are_left_alone),
        cmocka_unit_test(arrays_go_on_after_the_step),
        cmocka_unit_test(an_array_without_records_still_gets_its_samples),
        cmocka_unit_test(arrays_that_a_crash_left_uneven_are_made_even),
        cmocka_unit_test(later_pictures_go),
        cmocka_unit_test(later_pictures_go_from_archives),
        cmocka_unit_test(batches_keep_their_columns),
        cmocka_unit_test(metrics_that_are_not_ours_are_set_aside),
        cmocka_unit_test(metrics_changed_under_way_are_set_aside),
        cmocka_unit_test(arrays_that_are_not_ours_are_set_aside),
        cmocka_unit_test(an_array_shorter_than_it_says_is_cut),
        cmocka_unit_test(a_number_of_a_step_without_end_is_no_step),
        cmocka_unit_test(only_regular_files_are_opened),
        cmocka_unit_test(a_database_that_is_removed_is_missed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
