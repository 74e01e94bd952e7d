#include "fixture.h"

#include <sqlite3.h>

static fixture f;

static int open_database(void **state) {
    (void)state;
    fixture_open(&f, &td__sink_sqlite, NULL);
    return 0;
}

static int remove_database(void **state) {
    (void)state;
    if (f.sink) {
        fixture_close(&f);
    }
    fixture_remove(&f);
    return 0;
}

/* The query's rows, columns joined by '|', each row ended by ';'. */
static const char *query(const char *sql) {
    static char text[4096];
    char path[128];
    sqlite3 *database;
    sqlite3_stmt *statement;
    snprintf(path, sizeof path, "%s/run.db", f.folder);
    assert_int_equal(sqlite3_open_v2(path, &database, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(database, sql, -1, &statement, NULL), SQLITE_OK);
    text[0] = 0;
    while (sqlite3_step(statement) == SQLITE_ROW) {
        for (int i = 0; i < sqlite3_column_count(statement); i++) {
            const char *cell = (const char *)sqlite3_column_text(statement, i);
            strcat(strcat(text, i ? "|" : ""), cell ? cell : "NULL");
        }
        strcat(text, ";");
    }
    sqlite3_finalize(statement);
    sqlite3_close(database);
    return text;
}

static void scalars_can_be_read_while_the_run_is_written(void **state) {
    (void)state;
    fixture_scalar(&f, "loss", 1, 1, 0.5);
    fixture_scalar(&f, "accuracy", 0, 1, 1);
    fixture_scalar(&f, "loss", 1, 2, NAN);
    assert_ok(f.class->flush(f.sink, &f.error), f.error);
    assert_string_equal(query("SELECT name, step, value FROM scalar JOIN signal ON id = signal "
                              "ORDER BY name, step"),
                        "accuracy|1|1.0;loss|1|0.5;loss|2|NULL;");
    assert_string_equal(query("SELECT step, epoch FROM step"), "1|1;2|1;");
    assert_string_equal(query("SELECT key, value FROM run WHERE key = 'name'"), "name|demo;");
}

static void a_record_that_comes_again_is_there_once(void **state) {
    (void)state;
    fixture_scalar(&f, "loss", 0, 1, 0.5);
    fixture_scalar(&f, "loss", 0, 2, 0.25);
    fixture_scalar(&f, "loss", 0, 1, 0.5); /* from a trigger's history */
    fixture_close(&f);
    assert_string_equal(query("SELECT step, value FROM scalar"), "1|0.5;2|0.25;");
}

static void statistics_histograms_tensors_and_events(void **state) {
    (void)state;
    static const float values[] = {1, 2, 3, 4};
    td_view view = {TD_FLOAT32, TD_SHAPE(2, 2), values, NULL, NULL};
    td_stats stats;
    static td_bin bins[TD_HISTOGRAM_BINS];
    td_histogram histogram;
    assert_ok(td_histogram_of(&view, &stats, bins, &histogram, &f.error), f.error);
    td_record record = {.signal = "x.error",
                        .form = TD_HISTOGRAM,
                        .epoch = 1,
                        .step = 5,
                        .wall_time = 1700000000.5,
                        .view = &view,
                        .stats = &stats,
                        .histogram = &histogram,
                        .hash = 0xdeadbeef,
                        .text = "caf\xe9",
                        .text_length = 4};
    const td_form forms[] = {TD_HISTOGRAM, TD_STATS, TD_HASH, TD_TEXT};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        record.form = forms[i];
        assert_ok(fixture_write(&f, record), f.error);
    }
    td_place place = {.file = "x.error.npy", .record = 3};
    record.form = TD_TENSOR;
    record.place = &place;
    assert_ok(f.class->write(f.sink, &record, &f.error), f.error);
    td_event event = {.kind = TD_EVENT_DROP, .epoch = 1, .step = 5, .count = 2, .text = "dropped"};
    assert_ok(f.class->event(f.sink, &event, &f.error), f.error);
    assert_ok(f.class->note(f.sink, "environment.host", "here", &f.error), f.error);
    assert_ok(f.class->note(f.sink, "experiment.yaml", "name: x", &f.error), f.error);
    assert_ok(f.class->note(f.sink, "experiment.yaml", "name: y", &f.error), f.error);
    fixture_close(&f);
    assert_string_equal(
        query("SELECT count, mean, min, max, zeros, nan, first_nonfinite FROM stats"),
        "4|2.5|1.0|4.0|0|0|-1;");
    assert_string_equal(query("SELECT sum(json_extract(value, '$[2]')), count(*), "
                              "min(json_extract(value, '$[0]')) FROM histogram, json_each(bins)"),
                        "4|4|1.0;");
    assert_string_equal(query("SELECT form, dtype, shape, file, record FROM tensor"),
                        "tensor|float32|[2,2]|x.error.npy|3;");
    assert_string_equal(query("SELECT hash FROM hash"), "00000000deadbeef;");
    assert_string_equal(query("SELECT text FROM text"), "caf%E9;");
    assert_string_equal(query("SELECT kind, count, signal, text FROM event"),
                        "drop|2|NULL|dropped;");
    assert_string_equal(query("SELECT * FROM environment"), "host|here;");
    assert_string_equal(query("SELECT * FROM experiment"), "yaml|name: y;");
    assert_string_equal(query("SELECT count(*) FROM finding"), "0;");
    assert_string_equal(query("SELECT wall_time FROM step"), "1700000000.5;");
}

/* Records that follow one another in a file at equal distances are one row, and seen one by one. */
static void tensors_at_equal_distances_are_kept_as_one(void **state) {
    (void)state;
    static const float values[] = {1, 2, 3, 4};
    static const struct {
        int64_t step, record;
        const char *file;
    } records[] = {{10, 0, "w.npy"}, {20, 1, "w.npy"}, {30, 2, "w.npy"},  {45, 3, "w.npy"},
                   {12, 4, "w.npy"}, {55, 5, "w.npy"}, {60, 0, "w@4.npy"}};
    td_view view = {TD_FLOAT32, TD_SHAPE(2, 2), values, NULL, NULL};
    for (size_t i = 0; i < sizeof records / sizeof *records; i++) {
        td_place place = {.record = records[i].record};
        snprintf(place.file, sizeof place.file, "%s", records[i].file);
        td_record record = {.signal = "w",
                            .form = TD_TENSOR,
                            .step = records[i].step,
                            .view = &view,
                            .place = &place};
        assert_ok(f.class->write(f.sink, &record, &f.error), f.error);
        fixture_scalar(&f, "loss", 1, records[i].step + 1, 0); /* steps without the tensor */
        if (i == 1) {
            assert_ok(f.class->flush(f.sink, &f.error), f.error); /* it goes on after a commit */
        }
    }
    fixture_close(&f);
    assert_string_equal(query("SELECT step, file, record FROM tensor ORDER BY step"),
                        "10|w.npy|0;12|w.npy|4;20|w.npy|1;30|w.npy|2;45|w.npy|3;55|w.npy|5;"
                        "60|w@4.npy|0;");
    assert_string_equal(query("SELECT step, last, every FROM tensor_series ORDER BY step"),
                        "10|30|10;12|55|43;45|45|0;60|60|0;");
    fixture_reopen(&f, 25);
    fixture_close(&f);
    assert_string_equal(query("SELECT step, last, every FROM tensor_series ORDER BY step"),
                        "10|20|10;12|12|43;");
    assert_string_equal(query("SELECT step, record FROM tensor ORDER BY step"), "10|0;12|2;20|1;");
}

/* As the arrays do when the run goes on: history after a step that is taken out moves up. */
static void tensors_are_renumbered_where_others_are_taken_out(void **state) {
    (void)state;
    static const int64_t steps[] = {10, 20, 12, 13, 14, 22};
    static const float values[] = {1, 2};
    td_view view = {TD_FLOAT32, TD_SHAPE(2), values, NULL, NULL};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        td_place place = {.file = "w.npy", .record = (int64_t)i};
        td_record record = {
            .signal = "w", .form = TD_TENSOR, .step = steps[i], .view = &view, .place = &place};
        assert_ok(f.class->write(f.sink, &record, &f.error), f.error);
    }
    fixture_close(&f);
    fixture_reopen(&f, 15);
    fixture_close(&f);
    assert_string_equal(query("SELECT step, record FROM tensor ORDER BY step"),
                        "10|0;12|1;13|2;14|3;");
}

/* Also when rows that wait leave no room for it. */
static void what_waits_is_written_before_more_is_gathered(void **state) {
    (void)state;
    static const float values[] = {1, 2};
    enum { ROWS = 2000000 };
    float *many = calloc(ROWS, sizeof *many);
    td_view view = {TD_FLOAT32, TD_SHAPE(2), values, NULL, NULL};
    td_view rows = {TD_FLOAT32, TD_SHAPE(ROWS, 1), many, NULL, NULL};
    for (int64_t step = 1; step <= 3; step++) {
        td_place place = {.file = "w.npy", .record = step - 1};
        td_record tensor = {
            .signal = "w", .form = TD_TENSOR, .step = step, .view = &view, .place = &place};
        td_record examples = {
            .signal = "p", .signal_index = 1, .form = TD_ROWS, .step = step, .view = &rows};
        assert_ok(f.class->write(f.sink, &tensor, &f.error), f.error);
        (void)!f.class->write(f.sink, &examples, &f.error); /* may be too much at once */
        assert_ok(f.class->flush(f.sink, &f.error), f.error);
    }
    fixture_close(&f);
    assert_string_equal(query("SELECT count(*) FROM tensor"), "3;");
    free(many);
}

static void examples_stand_beside_their_labels(void **state) {
    (void)state;
    static const float values[] = {0.25f, -3, NAN, INFINITY};
    static const int64_t samples[] = {17, 4};
    static const int32_t classes[] = {1, 0};
    td_view view = {TD_FLOAT32, TD_SHAPE(2, 2), values, NULL, NULL};
    td_view label = {TD_INT32, TD_SHAPE(2), classes, NULL, NULL};
    td_record record = {.signal = "prediction",
                        .form = TD_ROWS,
                        .epoch = 1,
                        .step = 3,
                        .view = &view,
                        .samples = samples,
                        .labels = &label};
    assert_ok(fixture_write(&f, record), f.error);
    label = (td_view){TD_FLOAT32, TD_SHAPE(2, 2), values, NULL, NULL};
    record.step = 4;
    assert_ok(fixture_write(&f, record), f.error);
    record.step = 5;
    record.labels = NULL;
    record.samples = NULL;
    assert_ok(fixture_write(&f, record), f.error);
    assert_ok(f.class->flush(f.sink, &f.error), f.error);
    assert_string_equal(query("SELECT step, sample, label, typeof(label), value FROM example"),
                        "3|4|0|integer|[null,9e999];3|17|1|integer|[0.25,-3];"
                        "4|4|[null,9e999]|text|[null,9e999];4|17|[0.25,-3]|text|[0.25,-3];"
                        "5|0|NULL|null|[0.25,-3];5|1|NULL|null|[null,9e999];");
}

static void names_are_readable_and_their_bytes_kept(void **state) {
    (void)state;
    fixture_scalar(&f, "\xff", 0, 1, 1);
    fixture_scalar(&f, "%FF", 1, 1, 2);
    fixture_scalar(&f, "'); DROP TABLE scalar; --", 2, 1, 3);
    fixture_close(&f);
    assert_string_equal(query("SELECT name, hex(raw) FROM signal ORDER BY id"),
                        "%FF|FF;%FF|;'); DROP TABLE scalar; --|;");
}

static void a_run_that_goes_on_loses_what_came_later(void **state) {
    (void)state;
    fixture_scalar(&f, "a", 0, 1, 1);
    fixture_scalar(&f, "b", 1, 1, 2);
    fixture_scalar(&f, "b", 1, 2, 3);
    fixture_close(&f);
    fixture_reopen(&f, 1);
    fixture_scalar(&f, "b", 0, 2, 4); /* another index this time */
    fixture_scalar(&f, "c", 1, 2, 5);
    fixture_close(&f);
    assert_string_equal(query("SELECT name, step, value FROM scalar JOIN signal ON id = signal "
                              "ORDER BY name, step"),
                        "a|1|1.0;b|1|2.0;b|2|4.0;c|2|5.0;");
}

static void an_existing_database_is_not_overwritten(void **state) {
    (void)state;
    fixture_close(&f);
    td_sink_options options = {.size = sizeof options, .folder = f.folder, .run = "demo"};
    assert_int_equal(f.class->open(&options, &f.sink, &f.error), TD_EXISTS);
    assert_null(f.sink);
}

int main(void) {
#define DATABASE_TEST(name) cmocka_unit_test_setup_teardown(name, open_database, remove_database)
    const struct CMUnitTest tests[] = {
        DATABASE_TEST(scalars_can_be_read_while_the_run_is_written),
        DATABASE_TEST(a_record_that_comes_again_is_there_once),
        DATABASE_TEST(statistics_histograms_tensors_and_events),
        DATABASE_TEST(tensors_at_equal_distances_are_kept_as_one),
        DATABASE_TEST(tensors_are_renumbered_where_others_are_taken_out),
        DATABASE_TEST(what_waits_is_written_before_more_is_gathered),
        DATABASE_TEST(examples_stand_beside_their_labels),
        DATABASE_TEST(names_are_readable_and_their_bytes_kept),
        DATABASE_TEST(a_run_that_goes_on_loses_what_came_later),
        DATABASE_TEST(an_existing_database_is_not_overwritten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
