/* A disk that fills up: what the counters call written is what the files hold, the rest is counted
 * as dropped, and no signal ends the program. The size of files is limited, which for the sinks is
 * the same as a full disk and raises SIGXFSZ where nobody takes care. */
#include "folder.h"

#include "tapedeck/deck.h"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

enum { STEPS = 3000, UNITS = 6 };

static void limit_files(rlim_t bytes) {
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static FILE *open_file(const char *name) {
    char path[160];
    (void)snprintf(path, sizeof path, "%s/run/%s", folder, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    return file;
}

/* Lines after the header; every one whole. */
static int64_t lines_in(const char *name) {
    FILE *file = open_file(name);
    int64_t lines = -1;
    int last = '\n';
    for (int c; (c = getc(file)) != EOF; last = c) {
        lines += c == '\n';
    }
    assert_int_equal(last, '\n');
    fclose(file);
    return lines;
}

static int64_t records_in(const char *name) {
    char header[129] = "";
    FILE *file = open_file(name);
    assert_int_equal(fread(header, 1, 128, file), 128);
    fclose(file);
    const char *shape = strstr(header + 10, "'shape': (");
    assert_non_null(shape);
    return strtoll(shape + 10, NULL, 10);
}

static void what_is_written_is_in_the_files(void **state) {
    (void)state;
    char run[96];
    (void)snprintf(run, sizeof run, "%s/run", folder);
    td_error error = {0};
    td_deck_options options = {.size = sizeof options, .no_index = true};
    td_deck *deck = td_deck_open_with(run, &options, &error);
    if (!deck) {
        fail_msg("%s", error.text);
    }
    assert_int_equal(td_deck_track(deck, .what = "loss, accuracy", .to = "csv"), TD_OK);
    assert_int_equal(td_deck_track(deck, .what = "w", .form = TD_TENSOR, .to = "npy"), TD_OK);
    assert_int_equal(td_deck_track(deck, .what = "w", .form = TD_STATS, .to = "csv"), TD_OK);
    limit_files(30000);
    float w[UNITS];
    for (int64_t step = 1; step <= STEPS; step++) {
        for (int k = 0; k < UNITS; k++) {
            w[k] = (float)step / 7 - (float)k;
        }
        td_deck_scalar(deck, "loss", 1.0 / (double)step);
        td_deck_scalar(deck, "accuracy", (double)step);
        td_deck_record(deck, "w",
                       (td_view){.dtype = TD_FLOAT32, .shape = TD_SHAPE(UNITS), .data = w});
        td_deck_step(deck, 1, step);
    }
    td_deck_counters now = {.size = sizeof now}, last = {.size = sizeof last};
    assert_int_not_equal(td_deck_flush(deck, &error), TD_OK);
    td_deck_count(deck, &now);
    assert_int_equal(now.submitted, 4 * STEPS);
    assert_int_equal(now.submitted, now.written + now.dropped + now.pending);
    int64_t there = 2 * lines_in("metrics.csv") + lines_in("w.csv") + records_in("w.npy");
    assert_int_equal(now.written, there);
    assert_true(now.pending > 0);
    td_status status = td_deck_close_with(deck, &last, &error);
    limit_files(RLIM_INFINITY);
    assert_int_equal(status, TD_IO);
    assert_int_equal(last.pending, 0);
    assert_int_equal(last.submitted, last.written + last.dropped);
    there = 2 * lines_in("metrics.csv") + lines_in("w.csv") + records_in("w.npy");
    assert_int_equal(last.written, there);
    assert_true(last.dropped > 0 && last.dropped == last.failed);
}

/* The folder's first files are made by the program's own thread. */
static void opening_is_an_error_and_no_signal(void **state) {
    (void)state;
    char run[96];
    (void)snprintf(run, sizeof run, "%s/run", folder);
    td_error error = {0};
    limit_files(512);
    td_deck *deck = td_deck_open(run, &error);
    limit_files(RLIM_INFINITY);
    assert_null(deck);
    assert_int_equal(error.status, TD_IO);
    sigset_t pending;
    assert_int_equal(sigpending(&pending), 0);
    assert_false(sigismember(&pending, SIGXFSZ));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_written_is_in_the_files, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(opening_is_an_error_and_no_signal, make_folder,
                                        remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
