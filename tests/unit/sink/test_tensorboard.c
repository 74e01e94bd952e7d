#include "fixture.h"

static fixture f;

static int open_events(void **state) {
    (void)state;
    fixture_open(&f, &td__sink_tensorboard, NULL);
    return 0;
}

static int remove_events(void **state) {
    (void)state;
    if (f.sink) {
        fixture_close(&f);
    }
    fixture_remove(&f);
    return 0;
}

#define READ                                                                                       \
    "import sys, glob, numpy as np\n"                                                              \
    "sys.path.insert(0, '" TD_TEST_FOLDER "/crash')\n"                                             \
    "import events\n"                                                                              \
    "files = sorted(glob.glob('events.out.tfevents.*'))\n"                                         \
    "v = [x for name in files for x in events.values(open(name, 'rb').read())]\n"

static void scalars_keep_their_tag_plugin_and_value(void **state) {
    (void)state;
    fixture_scalar(&f, "loss", 0, 1, 0.5);
    fixture_scalar(&f, "a/\xff", 1, 1, NAN);
    fixture_scalar(&f, "loss", 0, 1000000, 0.25);
    fixture_close(&f);
    fixture_python(&f, READ "assert [x[:3] for x in v] == [(1, 'loss', 'scalars'), "
                            "(1, 'a/%FF', 'scalars'), (1000000, 'loss', 'scalars')]\n"
                            "assert v[0][3] == 0.5 and np.isnan(v[1][3]) and v[2][3] == 0.25");
}

static void histograms_count_every_value_within_its_range(void **state) {
    (void)state;
    enum { N = 4000 };
    static float values[N];
    for (int i = 0; i < N; i++) {
        values[i] = (float)(i - N / 2) * 0.37f;
    }
    td_view view = {TD_FLOAT32, TD_SHAPE(N), values, NULL, NULL};
    td_stats stats;
    static td_bin bins[TD_HISTOGRAM_BINS];
    td_histogram histogram;
    assert_ok(td_histogram_of(&view, &stats, bins, &histogram, &f.error), f.error);
    td_record record = {.signal = "h",
                        .form = TD_HISTOGRAM,
                        .epoch = 1,
                        .step = 3,
                        .stats = &stats,
                        .histogram = &histogram};
    assert_ok(fixture_write(&f, record), f.error);
    record.histogram = &(td_histogram){.bins = bins};
    assert_ok(fixture_write(&f, record), f.error);
    record.form = TD_STATS;
    assert_ok(fixture_write(&f, record), f.error);
    fixture_close(&f);
    fixture_python(
        &f,
        READ "step, tag, plugin, t = v[0]\n"
             "x = (np.arange(4000) - 2000).astype('f4') * np.float32(0.37)\n"
             "assert plugin == 'histograms' and t.dtype == np.float64\n"
             "assert t.shape[1] == 3 and t[:, 2].sum() == 4000\n"
             "assert t[0, 0] == x.min() and t[-1, 1] == x.max()\n"
             "assert (t[:, 0] < t[:, 1]).all()\n"
             "assert (t[1:, 0] >= t[:-1, 1]).all()\n"
             "for left, right, count in t[1:-1]:\n"
             "    inside = (x >= left) & (x < right) if left >= 0 else (x > left) & (x <= right)\n"
             "    assert inside.sum() == count\n"
             "assert v[1][3].shape == (0, 3)\n"
             "assert [x[1] for x in v[2:]] == ['h/' + n for n in "
             "'mean std min max norm zeros nan inf'.split()]");
}

static void pictures_and_texts(void **state) {
    (void)state;
    static const float values[] = {0, 0.5f, 1, 0.25f};
    fixture_view(&f, "p", 0, TD_IMAGE, 2, (td_view){TD_FLOAT32, TD_SHAPE(2, 2), values, NULL, NULL},
                 NULL);
    td_record record = {.signal = "t", .signal_index = 1, .form = TD_TEXT, .step = 2};
    record.text = "hello";
    record.text_length = 5;
    assert_ok(fixture_write(&f, record), f.error);
    fixture_close(&f);
    fixture_python(&f, READ "assert v[0][2] == 'images' and v[0][3][:2] == [b'32', b'32']\n"
                            "assert v[0][3][2][:8] == b'\\x89PNG\\r\\n\\x1a\\n'\n"
                            "assert v[1][1:] == ('t', 'text', b'hello')");
}

static void a_run_that_goes_on_gets_a_new_file(void **state) {
    (void)state;
    fixture_scalar(&f, "loss", 0, 1, 1);
    fixture_close(&f);
    fixture_reopen(&f, 1);
    fixture_scalar(&f, "loss", 0, 2, 2);
    fixture_close(&f);
    fixture_python(
        &f,
        READ "assert len(files) == 2 and [x[0] for x in v] == [1, 2]\n"
             "log = [events.message(r) for r in events.records(open(files[1], 'rb').read())][1]\n"
             "assert log[2] == [2] and log[7] == [b'\\x08\\x01']");
}

static void a_new_file_sorts_behind_all_others_when_the_clock_went_back(void **state) {
    (void)state;
    fixture_scalar(&f, "loss", 0, 1, 0.5);
    fixture_close(&f);
    fixture_python(&f,
                   "import glob\n" /* as if it were written in the year 2096 */
                   "os.rename(glob.glob('events.*')[0], 'events.out.tfevents.4000000000.zz.9.0')\n"
                   "open('events.out.tfevents.x', 'w').close()");
    fixture_reopen(&f, 1);
    fixture_scalar(&f, "loss", 0, 2, 0.25);
    fixture_close(&f);
    fixture_python(&f, "os.remove('events.out.tfevents.x')\n" READ
                       "assert len(files) == 2 and files[0].endswith('zz.9.0'), files\n"
                       "assert [x[0] for x in v] == [1, 2]");
}

int main(void) {
#define EVENTS_TEST(name) cmocka_unit_test_setup_teardown(name, open_events, remove_events)
    const struct CMUnitTest tests[] = {
        EVENTS_TEST(scalars_keep_their_tag_plugin_and_value),
        EVENTS_TEST(histograms_count_every_value_within_its_range),
        EVENTS_TEST(pictures_and_texts),
        EVENTS_TEST(a_run_that_goes_on_gets_a_new_file),
        EVENTS_TEST(a_new_file_sorts_behind_all_others_when_the_clock_went_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
