/* From td_deck_open to files on disk, through the built-in sinks: what was recorded is what CSV,
 * NPY and SQLite hold. */
#include "folder.h"

#include "base/little.h"
#include "tapedeck/deck.h"

#include <sqlite3.h>
#include <unistd.h>

enum { STEPS = 40, UNITS = 3 };

static double loss_at(int64_t step) {
    return step == 30 ? 9.5 : 1.0 / (double)step;
}

static void weight_at(int64_t step, float weight[UNITS]) {
    for (int k = 0; k < UNITS; k++) {
        weight[k] = (float)step / 7 - (float)k;
    }
}

static void record(const char *run) {
    td_error error = {0};
    td_deck *deck = td_deck_open(run, &error);
    if (!deck) {
        fail_msg("%s", error.text);
    }
    assert_int_equal(td_deck_track(deck, .what = "accuracy, loss", .to = "csv,tensorboard"), TD_OK);
    assert_int_equal(td_deck_track(deck, .what = "w", .form = TD_TENSOR, .to = "npy"), TD_OK);
    assert_int_equal(td_deck_track(deck, .what = "w", .every = 10, .form = TD_STATS, .to = "csv"),
                     TD_OK);
    assert_int_equal(td_deck_track(deck, .what = "hidden.error", .when = "loss > 1.5", .history = 2,
                                   .form = TD_ROWS, .to = "csv"),
                     TD_OK);
    for (int64_t step = 1; step <= STEPS; step++) {
        float w[UNITS], error_rows[2 * UNITS];
        int64_t rows[2] = {100 + step, 200 + step};
        weight_at(step, w);
        weight_at(step + 1, error_rows);
        weight_at(step + 2, error_rows + UNITS);
        td_deck_batch(deck, rows, 2);
        td_deck_scalar(deck, "loss", loss_at(step));
        if (step % 4 == 0) {
            td_deck_scalar(deck, "accuracy", (double)step / STEPS);
        }
        td_deck_record(
            deck, "hidden.error",
            (td_view){.dtype = TD_FLOAT32, .shape = TD_SHAPE(2, UNITS), .data = error_rows});
        td_deck_record(deck, "w",
                       (td_view){.dtype = TD_FLOAT32, .shape = TD_SHAPE(UNITS), .data = w});
        td_deck_step(deck, 1 + (step - 1) / 10, step);
    }
    td_deck_counters counters = {.size = sizeof counters};
    assert_ok(td_deck_flush(deck, &error), error);
    td_deck_count(deck, &counters);
    assert_int_equal(counters.dropped, 0);
    assert_int_equal(counters.submitted, counters.written);
    assert_ok(td_deck_close(deck, &error), error);
}

static FILE *open_file(const char *run, const char *name) {
    char path[160];
    (void)snprintf(path, sizeof path, "%s/%s", run, name);
    FILE *file = fopen(path, "rb");
    if (!file) {
        fail_msg("%s is missing", path);
    }
    return file;
}

static void check_metrics(const char *run) {
    FILE *file = open_file(run, "metrics.csv");
    char line[256];
    assert_non_null(fgets(line, sizeof line, file));
    assert_string_equal(line, "epoch,step,accuracy,loss\n");
    for (int64_t step = 1; step <= STEPS; step++) {
        assert_non_null(fgets(line, sizeof line, file));
        char *cell = line;
        assert_int_equal(strtoll(cell, &cell, 10), 1 + (step - 1) / 10);
        assert_int_equal(strtoll(cell + 1, &cell, 10), step);
        cell++;
        if (step % 4 == 0) {
            assert_true(strtod(cell, &cell) == (double)step / STEPS);
        }
        assert_int_equal(*cell, ',');
        assert_true(strtod(cell + 1, &cell) == loss_at(step));
        assert_string_equal(cell, "\n");
    }
    assert_null(fgets(line, sizeof line, file));
    fclose(file);
}

/* The trigger is in step 30; two steps of history come with it, two rows each. */
static void check_rows(const char *run) {
    FILE *file = open_file(run, "hidden.error.csv");
    char line[256];
    assert_non_null(fgets(line, sizeof line, file));
    assert_string_equal(line, "epoch,step,sample,error_0,error_1,error_2\n");
    for (int64_t row = 0; row < 6; row++) {
        int64_t step = 28 + row / 2;
        float expected[UNITS];
        weight_at(step + 1 + row % 2, expected);
        assert_non_null(fgets(line, sizeof line, file));
        char *cell = line;
        assert_int_equal(strtoll(cell, &cell, 10), 3);
        assert_int_equal(strtoll(cell + 1, &cell, 10), step);
        assert_int_equal(strtoll(cell + 1, &cell, 10), (row % 2 ? 200 : 100) + step);
        for (int k = 0; k < UNITS; k++) {
            assert_true(strtof(cell + 1, &cell) == expected[k]);
        }
    }
    assert_null(fgets(line, sizeof line, file));
    fclose(file);
}

static void check_array(const char *run) {
    FILE *file = open_file(run, "w.npy");
    unsigned char start[10];
    char header[1024] = {0};
    assert_int_equal(fread(start, 1, sizeof start, file), sizeof start);
    assert_memory_equal(start, "\x93NUMPY\x01\x00", 8);
    size_t size = start[8] + 256u * start[9];
    assert_true(size < sizeof header);
    assert_int_equal(fread(header, 1, size, file), size);
    char compact[1024];
    size_t used = 0;
    for (size_t i = 0; i < size; i++) {
        if (header[i] != ' ') {
            compact[used++] = header[i];
        }
    }
    compact[used] = 0;
    assert_non_null(strstr(compact, "'descr':'<f4'"));
    assert_non_null(strstr(compact, "'shape':(40,3)"));
    for (int64_t step = 1; step <= STEPS; step++) {
        float expected[UNITS], read[UNITS];
        weight_at(step, expected);
        assert_int_equal(fread(read, sizeof read[0], UNITS, file), UNITS);
        td__little_copy(read, read, sizeof read, sizeof read[0]);
        assert_memory_equal(read, expected, sizeof read);
    }
    assert_int_equal(fgetc(file), EOF);
    fclose(file);
}

/* The one number that a query yields. */
static double query(sqlite3 *db, const char *sql) {
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    double value = sqlite3_column_double(statement, 0);
    sqlite3_finalize(statement);
    return value;
}

static void check_database(const char *run) {
    char path[160];
    (void)snprintf(path, sizeof path, "%s/run.db", run);
    sqlite3 *db;
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
#define SCALARS "FROM scalar JOIN signal ON signal.id = scalar.signal WHERE name = "
    assert_true(query(db, "SELECT count(*) " SCALARS "'loss'") == STEPS);
    assert_true(query(db, "SELECT count(*) " SCALARS "'accuracy'") == 10);
    assert_true(query(db, "SELECT value " SCALARS "'loss' AND step = 30") == loss_at(30));
    assert_true(query(db, "SELECT epoch FROM step WHERE step = 40") == 4);
    assert_true(query(db, "SELECT count(*) FROM stats") == 4);
    float w[UNITS];
    weight_at(20, w);
    double mean = ((double)w[0] + (double)w[1] + (double)w[2]) / 3;
    assert_close(query(db, "SELECT mean FROM stats WHERE step = 20"), mean, 1e-6, 0);
    assert_true(query(db, "SELECT count(*) FROM tensor WHERE file = 'w.npy'") == STEPS);
    assert_true(query(db, "SELECT count(*) FROM event WHERE kind = 'trigger' AND step = 30") == 1);
    assert_true(query(db, "SELECT value > 0 FROM run WHERE key = 'deck.cost_seconds'") == 1);
    sqlite3_close(db);
}

static void what_is_recorded_is_what_the_files_hold(void **state) {
    (void)state;
    char run[96];
    (void)snprintf(run, sizeof run, "%s/run", folder);
    record(run);
    check_metrics(run);
    check_rows(run);
    check_array(run);
    check_database(run);
}

static void a_second_run_leaves_the_first_alone(void **state) {
    (void)state;
    char run[96], second[112];
    (void)snprintf(run, sizeof run, "%s/run", folder);
    (void)snprintf(second, sizeof second, "%s-2", run);
    record(run);
    record(run);
    check_metrics(run);
    check_metrics(second);
    check_array(second);
}

/* Texts to a sink that writes none take room until the step ends, and nobody gives it back. */
static void what_nobody_writes_does_not_fill_the_queue(void **state) {
    (void)state;
    char run[96];
    (void)snprintf(run, sizeof run, "%s/run", folder);
    td_error error = {0};
    td_deck_options options = {.size = sizeof options, .queue_bytes = 16384, .no_index = true};
    td_deck *deck = td_deck_open_with(run, &options, &error);
    assert_non_null(deck);
    assert_int_equal(td_deck_track(deck, .to = "npy"), TD_OK);
    for (int i = 0; i < 200; i++) {
        assert_int_equal(td_deck_text(deck, "note", "not for an array"), TD_OK);
    }
    assert_int_equal(td_deck_step(deck, 1, 1), TD_OK);
    assert_ok(td_deck_close(deck, &error), error);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_nobody_writes_does_not_fill_the_queue, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(what_is_recorded_is_what_the_files_hold, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(a_second_run_leaves_the_first_alone, make_folder,
                                        remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
