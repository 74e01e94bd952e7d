/* Every sink, with the n-th allocation failing, for every n: an error or not, but no crash, no leak
 * (the address sanitizer looks), and files that their readers take. */
#include "fixture.h"

#include "base/memory.h"

static const float values[64] = {1, -2, 3};

/* Everything the sink can write, twice; errors are allowed. */
static void write_everything(const td_sink_class *class, td_sink *sink) {
    td_view view = {TD_FLOAT32, TD_SHAPE(4, 4), values, NULL, NULL};
    td_stats stats = {.count = 16};
    static td_bin bins[TD_HISTOGRAM_BINS];
    td_histogram histogram = {.bins = bins};
    if (td_histogram_of(&view, &stats, bins, &histogram, NULL) != TD_OK) {
        return;
    }
    td_event event = {.kind = TD_EVENT_DROP, .text = "some", .signal = "x"};
    int64_t samples[] = {1, 2, 3, 4};
    if (class->expect) {
        (void)class->expect(sink, "x", class->forms, NULL);
    }
    for (int64_t step = 1; step <= 2; step++) {
        for (uint32_t form = 1; form <= TD_TEXT; form <<= 1) {
            td_place place = {0};
            td_record record = {.signal = form == TD_SCALAR ? "loss" : "x",
                                .signal_index = form == TD_SCALAR ? 20 : 3,
                                .form = (td_form)form,
                                .epoch = 1,
                                .step = step,
                                .view = &view,
                                .stats = &stats,
                                .histogram = &histogram,
                                .samples = samples,
                                .text = "text",
                                .text_length = 4,
                                .place = &place};
            if (class->forms & form) {
                (void)class->write(sink, &record, NULL);
            }
        }
        if (class->end_step) {
            (void)class->end_step(sink, 1, step, NULL);
        }
    }
    if (class->event) {
        (void)class->event(sink, &event, NULL);
    }
    (void)class->flush(sink, NULL);
}

/* Returns whether the allocation was reached. */
static bool try_with(const td_sink_class *class, uint64_t n, FILE *stream) {
    fixture f = {.class = class, .folder = "/tmp/tapedeck-sink-XXXXXX"};
    assert_non_null(mkdtemp(f.folder));
    td_sink_options options = {
        .size = sizeof options, .folder = f.folder, .run = "demo", .stream = stream};
    uint64_t before = td__allocation_count();
    td__allocation_fail_at(n);
    td_status status = class->open(&options, &f.sink, NULL);
    if (status == TD_OK) {
        write_everything(class, f.sink);
        (void)class->close(f.sink, NULL);
    } else {
        assert_int_equal(status, TD_MEMORY);
    }
    td__allocation_fail_at(0);
    bool reached = td__allocation_count() - before >= n;
    fixture_remove(&f);
    return reached;
}

static void check(const td_sink_class *class, uint64_t least) {
    FILE *nowhere = fopen("/dev/null", "w");
    uint64_t n = 1;
    while (try_with(class, n, nowhere)) {
        n++;
    }
    fclose(nowhere);
    assert_true(n > least);
}

static void csv(void **state) {
    (void)state;
    check(&td__sink_csv, 20);
}
static void npy(void **state) {
    (void)state;
    check(&td__sink_npy, 10);
}
static void tensorboard(void **state) {
    (void)state;
    check(&td__sink_tensorboard, 10);
}
static void sqlite(void **state) {
    (void)state;
    check(&td__sink_sqlite, 5);
}
static void png(void **state) {
    (void)state;
    check(&td__sink_png, 3);
}
static void print(void **state) {
    (void)state;
    check(&td__sink_print, 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(csv),    cmocka_unit_test(npy), cmocka_unit_test(tensorboard),
        cmocka_unit_test(sqlite), cmocka_unit_test(png), cmocka_unit_test(print),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
