/* Comparing, listing and exporting runs through the library. */
#include "test.h"

#include "base/memory.h"
#include "store/writer.h"
#include "tapedeck/run.h"

#include <sys/stat.h>
#include <unistd.h>

#define FIXTURES TD_TEST_FOLDER "/fixtures/"

static char base[64];
static td_error error;

static int setup(void **state) {
    (void)state;
    error = (td_error){0};
    strcpy(base, "/tmp/tapedeck-compare-XXXXXX");
    return mkdtemp(base) ? 0 : -1;
}

static int teardown(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", base);
    return system(command);
}

static const char *path(const char *name) {
    static char texts[4][128];
    static int next;
    char *text = texts[next++ % 4];
    snprintf(text, sizeof *texts, "%s/%s", base, name);
    return text;
}

/* Metrics at steps 1 … 100 with a shift from step `part` on, statistics every 10, hashes, a text. */
static void make_run(const char *name, int64_t part, double shift, const char *yaml) {
    td__store *store;
    td__writer writer;
    assert_int_equal(mkdir(path(name), 0777), 0);
    assert_ok(td__store_create(path(name), &store, &error), error);
    assert_ok(td__writer_init(&writer, store, 0, &error), error);
    for (int64_t step = 1; step <= 100; step++) {
        double moved = step >= part ? shift : 0;
        td_stats stats = {.count = 4, .mean = 0.5 + moved, .norm = 2};
        td_histogram histogram = {.bin_count = 2,
                                  .ranges = (const td_range[]){{0, 1, 3}, {1, 2, (double)step}}};
        td_record records[] = {
            {.signal = "accuracy", .form = TD_SCALAR, .value = (double)step / 100 + moved},
            {.signal = "h.error", .signal_index = 1, .form = TD_STATS, .stats = &stats},
            {.signal = "h.kernel",
             .signal_index = 2,
             .form = TD_HASH,
             .hash = step >= part && shift != 0 ? 1 : 2},
            {.signal = "h.output",
             .signal_index = 3,
             .form = TD_HISTOGRAM,
             .histogram = &histogram}};
        for (size_t i = 0; i < sizeof records / sizeof *records; i++) {
            records[i].step = step;
            records[i].epoch = 1;
            records[i].wall_time = 1.7e9 + (double)step;
            if (i == 0 || step % 10 == 0) {
                assert_ok(td__writer_record(&writer, &records[i], &error), error);
            }
        }
    }
    assert_ok(td__writer_note(&writer, "experiment.yaml", yaml, &error), error);
    assert_ok(td__writer_note(&writer, "state", "finished", &error), error);
    assert_ok(td__batch_sync(&writer.batch, &error), error);
    td__writer_release(&writer);
}

#define YAML "name: x\n# words\n\nseed: 3\ntrain:\n  optimizer:\n    adam:\n      learning_rate: "

static void runs_that_are_the_same_do_not_part(void **state) {
    (void)state;
    make_run("a", 1, 0, YAML "0.1\n");
    make_run("b", 1, 0, YAML "0.1\n");
    td_run *a = td_run_open(path("a"), &error), *b = td_run_open(path("b"), &error);
    td_comparison *c = td_run_compare(a, b, NULL, &error);
    assert_non_null(c);
    assert_int_equal(c->compared, 3);
    assert_int_equal(c->parting_count, 0);
    assert_int_equal(c->difference_count, 0);
    td_comparison_destroy(c);
    td_run_close(a);
    td_run_close(b);
}

static void each_signal_parts_at_its_first_step(void **state) {
    (void)state;
    make_run("a", 1, 0, YAML "0.1\n");
    make_run("b", 45, 1e-3, YAML "0.2\nfresh: 1\n");
    td_run *a = td_run_open(path("a"), &error), *b = td_run_open(path("b"), &error);
    td_comparison *c = td_run_compare(a, b, NULL, &error);
    assert_int_equal(c->parting_count, 3);
    static const struct {
        const char *signal, *by;
        int64_t step;
    } expected[] = {{"accuracy", "value", 45}, {"h.error", "mean", 50}, {"h.kernel", "hash", 50}};
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(c->partings[i].signal, expected[i].signal);
        assert_string_equal(c->partings[i].by, expected[i].by);
        assert_int_equal(c->partings[i].step, expected[i].step);
    }
    assert_true(c->partings[0].a == 0.45 && c->partings[0].b == 0.45 + 1e-3);
    assert_true(isnan(c->partings[2].a));
    assert_int_equal(c->difference_count, 3);
    assert_string_equal(c->differences[0].text, "train: optimizer: adam: learning_rate: 0.1");
    assert_int_equal(c->differences[0].run, 0);
    assert_string_equal(c->differences[2].text, "fresh: 1");
    assert_int_equal(c->differences[2].run, 1);
    td_comparison_destroy(c);
    td_compare_options options = {
        .size = sizeof options, .what = "accuracy,h.e*", .tolerance = 0.1};
    c = td_run_compare(a, b, &options, &error);
    assert_int_equal(c->compared, 2);
    assert_int_equal(c->parting_count, 0);
    td_comparison_destroy(c);
    td_run_close(a);
    td_run_close(b);
}

static void comparing_says_when_memory_runs_out(void **state) {
    (void)state;
    make_run("a", 1, 0, YAML "0.1\n");
    make_run("b", 45, 1, YAML "0.2\n");
    td_run *a = td_run_open(path("a"), &error), *b = td_run_open(path("b"), &error);
    const char *const *problems;
    bool failed = true;
    for (uint64_t n = 1; failed; n++) {
        uint64_t before = td__allocation_count();
        error = (td_error){0};
        td__allocation_fail_at(n);
        td_comparison *c = td_run_compare(a, b, NULL, &error);
        failed = td__allocation_count() - before >= n;
        td__allocation_fail_at(0);
        size_t said = td_run_problems(a, &problems) + td_run_problems(b, &problems);
        assert_true(c ? c->parting_count == 3 || said > 0 : error.status == TD_MEMORY);
        td_comparison_destroy(c);
    }
    td_run_close(a);
    td_run_close(b);
}

/* ---- Lists ---------------------------------------------------------------------------------- */

typedef struct listed {
    int count, errors;
    double best, last;
    int64_t step;
} listed;

static td_status look_at(void *user, const td_run_summary *summary, td_error *reason) {
    (void)reason;
    listed *l = user;
    l->count++;
    if (summary->error) {
        l->errors++;
        return TD_OK;
    }
    assert_int_equal(summary->problem_count, 0);
    for (size_t i = 0; i < summary->metric_count; i++) {
        if (strcmp(summary->metrics[i].name, "accuracy") == 0) {
            l->best = summary->metrics[i].best;
            l->last = summary->metrics[i].values.last;
        }
    }
    l->step = summary->info->last_step;
    return TD_OK;
}

static void runs_are_listed_with_their_best(void **state) {
    (void)state;
    listed l = {0};
    make_run("a", 1, 0, "");
    assert_ok(td_runs_list(base, look_at, &l, &error), error);
    assert_int_equal(l.count, 1);
    assert_true(l.best == 1 && l.last == 1);
    assert_int_equal(l.step, 100);
    assert_int_equal(mkdir(path("bad"), 0777), 0);
    FILE *file = fopen(path("bad/run.db"), "w");
    fputs("this is no database, but long enough to look like one ......................", file);
    fclose(file);
    l = (listed){0};
    assert_ok(td_runs_list(base, look_at, &l, &error), error);
    assert_int_equal(l.count, 2);
    assert_int_equal(l.errors, 1);
    l = (listed){0};
    assert_ok(td_runs_list(FIXTURES "events", look_at, &l, &error), error);
    assert_int_equal(l.count, 5);
    l = (listed){0};
    assert_ok(td_runs_list(FIXTURES "runs", look_at, &l, &error), error); /* of an older version */
    assert_int_equal(l.step, 10);
    assert_int_equal(td_runs_list("/nowhere", look_at, &l, &error), TD_NOT_FOUND);
}

/* ---- Histograms ----------------------------------------------------------------------------- */

typedef struct kept {
    int64_t steps[16];
    size_t count;
    double median;
} kept;

static td_status keep(void *user, const td_record *record, td_error *reason) {
    (void)reason;
    kept *k = user;
    k->steps[k->count++] = record->step;
    k->median = td_histogram_quantile(record->histogram, 0.5);
    return k->count == 16 ? TD_RANGE : TD_OK;
}

static void histograms_are_the_last_of_each_part(void **state) {
    (void)state;
    make_run("a", 1, 0, "");
    td_run *run = td_run_open(path("a"), &error);
    const td_run_signal *output = td_run_signal_find(run, "h.output");
    kept k = {0};
    assert_ok(td_run_histograms(run, output, INT64_MIN, INT64_MAX, 3, keep, &k, &error), error);
    assert_int_equal(k.count, 3);
    assert_int_equal(k.steps[0], 30); /* 10 … 39, 40 … 69, 70 … 100 */
    assert_int_equal(k.steps[2], 100);
    assert_close(k.median, 1 + (103 / 2.0 - 3) / 100, 1e-12, 0);
    k = (kept){0};
    assert_ok(td_run_histograms(run, output, 15, 34, 100, keep, &k, &error), error);
    assert_int_equal(k.count, 2);
    td_histogram empty = {0};
    assert_true(isnan(td_histogram_quantile(&empty, 0.5)));
    td_range zeros[] = {{0, 1, 0}, {1, 2, 0}}, half[] = {{0, 1, 4}, {1, 2, 0}};
    td_histogram empty_bins = {.ranges = zeros, .bin_count = 2};
    assert_true(isnan(td_histogram_quantile(&empty_bins, 0.5)));
    td_histogram half_empty = {.ranges = half, .bin_count = 2};
    assert_close(td_histogram_quantile(&half_empty, 1), 1, 0, 0);
    td_run_close(run);
}

/* ---- Exports -------------------------------------------------------------------------------- */

static bool is_there(const char *name) {
    return access(path(name), F_OK) == 0;
}

static void a_run_is_exported_to_each_format(void **state) {
    (void)state;
    make_run("a", 1, 0, "");
    static const struct {
        const char *to, *file;
        int64_t written, left_out;
    } formats[] = {{"csv", "out-csv/metrics.csv", 130, 0},
                   {"npy", "out-npy/accuracy.npy", 110, 20},
                   {"npz", "out-npz", 110, 20},
                   {"sqlite", "out-sqlite/run.db", 130, 0},
                   {"png", "out-png", 0, 130}};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        char out[32];
        snprintf(out, sizeof out, "out-%s", formats[i].to);
        td_export_options options = {.size = sizeof options, .to = formats[i].to, .out = path(out)};
        static td_exported done;
        done = (td_exported){.size = sizeof done};
        assert_ok(td_run_export(path("a"), &options, &done, &error), error);
        assert_int_equal(done.written, formats[i].written);
        assert_int_equal(done.left_out, formats[i].left_out);
        assert_int_equal(done.runs, 1);
        assert_true(is_there(formats[i].file));
        assert_int_equal(td_run_export(path("a"), &options, NULL, &error), TD_EXISTS);
    }
    td_run *a = td_run_open(path("a"), &error), *copy = td_run_open(path("out-sqlite"), &error);
    td_comparison *c = td_run_compare(a, copy, NULL, &error);
    assert_int_equal(c->compared, 3);
    assert_int_equal(c->parting_count, 0);
    td_comparison_destroy(c);
    td_run_close(a);
    td_run_close(copy);
}

static void exports_that_make_no_sense_are_refused(void **state) {
    (void)state;
    make_run("a", 1, 0, "");
    char out[128];
    snprintf(out, sizeof out, "%s/o", base);
    td_export_options options = {.size = sizeof options, .to = "cvs", .out = out};
    assert_int_equal(td_run_export(path("a"), &options, NULL, &error), TD_INVALID);
    assert_non_null(strstr(error.text, "did you mean 'csv'"));
    options.to = "npy";
    options.form = TD_ROWS;
    assert_int_equal(td_run_export(path("a"), &options, NULL, &error), TD_INVALID);
    options.form = TD_FORM_DEFAULT;
    assert_int_equal(td_run_export(path("none"), &options, NULL, &error), TD_NOT_FOUND);
    make_run("b", 1, 0, "");
    options.to = "npz";
    assert_int_equal(td_run_export(base, &options, NULL, &error), TD_UNSUPPORTED);
    options.to = "csv";
    snprintf(out, sizeof out, "%s/both", base);
    options.what = "accuracy";
    options.first_step = options.last_step = 7;
    td_exported done = {.size = sizeof done};
    assert_ok(td_run_export(base, &options, &done, &error), error);
    assert_int_equal(done.runs, 2);
    assert_int_equal(done.written, 2);
    assert_true(is_there("both/b/metrics.csv"));
}

/* ---- Settings ------------------------------------------------------------------------------- */

static void list_setting(void *user, const char *key, const char *value) {
    char *text = user;
    size_t used = strlen(text);
    snprintf(text + used, 2048 - used, "%s=%s\n", key, value);
}

static void test_settings_are_reported_one_by_one(void **state) {
    (void)state;
    make_run(
        "a", 1, 0,
        "name: a\ndata:\n  input: [8, 8, 1]\n  label: \"a: {b\"\nmodel:\n- conv2d:\n    name: c\n"
        "    kernel: [3, 3]\n- dense: {name: hidden, units: 64,\n    bias: zeros}\ntrain:\n  "
        "optimizer:\n"
        "    adam: {learning_rate: 0.3, other: {x: 1}}\n  epochs: 4\nrecord:\n- what: loss\n"
        "  to: [csv]\n- what: x\nlast: 1\n");
    td_run *run = td_run_open(path("a"), &error);
    assert_non_null(run);
    char text[2048] = "";
    assert_ok(td_run_settings(run, list_setting, text, &error), error);
    assert_string_equal(
        text,
        "name=a\ndata.input=[8, 8, 1]\ndata.label=a: {b\nmodel.0.conv2d.name=c\n"
        "model.0.conv2d.kernel=[3, 3]\nmodel.1.dense.name=hidden\nmodel.1.dense.units=64\n"
        "model.1.dense.bias=zeros\ntrain.optimizer.adam.learning_rate=0.3\n"
        "train.optimizer.adam.other.x=1\ntrain.epochs=4\nrecord.0.what=loss\nrecord.0.to=[csv]\n"
        "record.1.what=x\nlast=1\n");
    td_run_close(run);
}

/* Whatever stands there: it ends, and nothing is read beyond it. */
static void test_settings_of_a_damaged_file_end(void **state) {
    (void)state;
    static const char *const texts[] = {"a: {b: \"",     "- - - - x", "{{{{", ":",
                                        "a:\n- ",        "\"",        "a: [", "- a: {b: {c: {d",
                                        "  \n \n  - \n", "a: 'x\\"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char name[16], text[2048] = "";
        snprintf(name, sizeof name, "r%zu", i);
        make_run(name, 1, 0, texts[i]);
        td_run *run = td_run_open(path(name), &error);
        assert_non_null(run);
        assert_ok(td_run_settings(run, list_setting, text, &error), error);
        td_run_close(run);
    }
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_settings_are_reported_one_by_one),  TEST(test_settings_of_a_damaged_file_end),
        TEST(runs_that_are_the_same_do_not_part),     TEST(each_signal_parts_at_its_first_step),
        TEST(comparing_says_when_memory_runs_out),    TEST(runs_are_listed_with_their_best),
        TEST(histograms_are_the_last_of_each_part),   TEST(a_run_is_exported_to_each_format),
        TEST(exports_that_make_no_sense_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
