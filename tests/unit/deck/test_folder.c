/* The folder of a run, notes and names; a deck that is not there, and arguments that are NULL. */
#include "steps.h"

#include <fcntl.h>
#include <sys/file.h>

static void a_run_is_never_overwritten(void **state) {
    (void)state;
    td_deck *first = open_deck((td_deck_options){0});
    td_deck *second = open_deck((td_deck_options){0});
    char expected[128];
    assert_string_equal(td_deck_folder(first), run_folder());
    (void)snprintf(expected, sizeof expected, "%s-2", run_folder());
    assert_string_equal(td_deck_folder(second), expected);
    struct stat status;
    assert_int_equal(stat(expected, &status), 0);
    td_error error;
    static const td_sink_class *const sinks[] = {&memory_class, NULL};
    td_deck_options exact = {.size = sizeof exact, .exact_folder = true};
    assert_null(td__deck_open(run_folder(), &exact, sinks, &error));
    assert_int_equal(error.status, TD_EXISTS);
    (void)snprintf(expected, sizeof expected, "%s/a/b/c/", base_folder);
    td_deck *deep = td__deck_open(expected, NULL, sinks, &error);
    assert_non_null(deep);
    close_deck(deep);
    close_deck(first);
    close_deck(second);
    assert_null(td__deck_open("/proc/nowhere/run", NULL, sinks, &error));
    assert_int_equal(error.status, TD_IO);
}

static void notes_and_the_decks_own_cost_reach_the_sink(void **state) {
    (void)state;
    td_deck *deck = open_deck((td_deck_options){0});
    assert_int_equal(td_deck_track(deck, .what = "loss"), TD_OK);
    assert_int_equal(td_deck_note(deck, "model", "two\nlayers"), TD_OK);
    train(deck, 1, 50);
    td_deck_counters counters = counters_of(deck);
    assert_int_equal(counters.steps, 50);
    assert_true(counters.cost_seconds > 0 && counters.cost_seconds < 10);
    close_deck(deck);
    assert_non_null(strstr(mem.notes, "model\ntwo\nlayers\n"));
    assert_non_null(strstr(mem.notes, "deck.steps\n50\n"));
    assert_non_null(strstr(mem.notes, "deck.cost_seconds\n"));
}

static void hostile_names_are_signals_like_others(void **state) {
    (void)state;
    td_deck *deck = open_deck((td_deck_options){0});
    char *longest = calloc(10001, 1);
    memset(longest, 'x', 10000);
    const char *names[] = {"", "../../etc", "a/b", "\xff\xfe", "=1+1", "*", "\n\t\x01", longest};
    size_t count = sizeof names / sizeof names[0];
    assert_int_equal(td_deck_track(deck, .what = "*"), TD_OK);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(td_deck_scalar(deck, names[i], (double)i), TD_OK);
        assert_ptr_equal(td_deck_signal(deck, names[i]), td_deck_signal(deck, names[i]));
    }
    assert_int_equal(td_deck_step(deck, 1, 1), TD_OK);
    close_deck(deck);
    assert_int_equal(mem.count, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(strncmp(mem.records[i].signal, names[i], 63), 0);
        assert_true(mem.records[i].value == (double)i);
    }
    free(longest);
}

static void a_name_in_a_buffer_that_changes_is_looked_up_again(void **state) {
    (void)state;
    td_deck *deck = open_deck((td_deck_options){0});
    assert_int_equal(td_deck_track(deck, .what = "*"), TD_OK);
    char name[32];
    for (int i = 0; i < 3000; i++) {
        (void)snprintf(name, sizeof name, "s%d", i % 1000);
        assert_int_equal(td_deck_scalar(deck, name, i % 1000), TD_OK);
    }
    assert_int_equal(td_deck_step(deck, 1, 1), TD_OK);
    close_deck(deck);
    assert_int_equal(mem.count, 3000);
    for (int64_t i = 0; i < mem.count; i++) {
        (void)snprintf(name, sizeof name, "s%d", (int)mem.records[i].value);
        assert_string_equal(mem.records[i].signal, name);
    }
}

static void names_are_listed_and_escaped(void **state) {
    (void)state;
    td_deck *deck = open_deck((td_deck_options){0});
    assert_int_equal(td_deck_track(deck, .what = "b, a\\,c ,x\\*, *.error"), TD_OK);
    const char *names[] = {"a", "b", "a,c", "x*", "xy", "deep.er.error", "error"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_int_equal(td_deck_scalar(deck, names[i], 1), TD_OK);
    }
    assert_int_equal(td_deck_step(deck, 1, 1), TD_OK);
    close_deck(deck);
    assert_int_equal(mem.count, 4);
    assert_string_equal(mem.records[3].signal, "deep.er.error");
    assert_string_equal(mem.expected, "b\na,c\nx*\n");
}

static bool is_locked(const char *folder) {
    int opened = open(folder, O_RDONLY | O_DIRECTORY);
    assert_true(opened >= 0);
    bool locked = flock(opened, LOCK_SH | LOCK_NB) != 0;
    close(opened);
    return locked;
}

static void the_folder_is_locked_while_the_deck_is_open(void **state) {
    (void)state;
    td_deck *deck = open_deck((td_deck_options){0});
    assert_int_equal(td_deck_track(deck, .what = "*"), TD_OK);
    char folder[4096];
    snprintf(folder, sizeof folder, "%s", td_deck_folder(deck));
    assert_true(is_locked(folder));
    close_deck(deck);
    assert_false(is_locked(folder));
    assert_non_null(strstr(mem.notes, "state\nfinished\n"));
}

static void a_folder_that_is_being_written_cannot_be_resumed(void **state) {
    (void)state;
    td_deck *deck = open_deck((td_deck_options){0});
    td_error error = {0};
    td_deck_options options = {.size = sizeof options, .resume = 1, .no_index = true};
    assert_null(td_deck_open_with(td_deck_folder(deck), &options, &error));
    assert_int_equal(error.status, TD_BUSY);
    assert_non_null(strstr(error.text, "another process is writing"));
    close_deck(deck);
}

static void what_the_program_says_of_its_end_counts(void **state) {
    (void)state;
    td_deck *deck = open_deck((td_deck_options){0});
    assert_int_equal(td_deck_track(deck, .what = "*"), TD_OK);
    assert_int_equal(td_deck_note(deck, "state", "interrupted"), TD_OK);
    close_deck(deck);
    assert_non_null(strstr(mem.notes, "state\ninterrupted\n"));
    assert_null(strstr(mem.notes, "finished"));
}

/* What a program does whose td_deck_open failed and that does not look. */
static void nothing_is_recorded_without_a_deck(void **state) {
    (void)state;
    int one = 1;
    released = 0;
    td_view owned = floats(ramp, 6);
    owned.release = count_release;
    owned.owner = &one;
    td_error error = {0};
    assert_int_equal(td_deck_track_with(NULL, &(td_track){.size = sizeof(td_track)}, &error),
                     TD_INVALID);
    assert_non_null(strstr(error.text, "NULL"));
    assert_null(td_deck_signal(NULL, "w"));
    assert_null(td_deck_signal_with(NULL, "w", NULL));
    assert_null(td_signal_about(NULL));
    assert_null(td_deck_folder(NULL));
    assert_false(td_deck_wants(NULL, "w") || td_signal_wants(NULL) || td_deck_due(NULL, 1));
    assert_int_equal(td_deck_record(NULL, "w", owned), TD_INVALID);
    assert_int_equal(td_signal_record(NULL, owned), TD_INVALID);
    assert_int_equal(released, 2);
    assert_int_equal(td_deck_scalar(NULL, "loss", 1), TD_INVALID);
    assert_int_equal(td_signal_scalar(NULL, 1), TD_INVALID);
    assert_int_equal(td_signal_scalar_epoch(NULL, 1), TD_INVALID);
    assert_int_equal(td_deck_text(NULL, "note", "text"), TD_INVALID);
    assert_int_equal(td_deck_note(NULL, "key", "value"), TD_INVALID);
    assert_int_equal(td_deck_batch(NULL, (const int64_t[]){1}, 1), TD_INVALID);
    assert_int_equal(td_deck_begin(NULL, 1, 1, false), TD_INVALID);
    assert_int_equal(td_deck_step(NULL, 1, 1), TD_INVALID);
    assert_int_equal(td_deck_flush(NULL, &error), TD_INVALID);
    td_deck_counters counters = {.size = sizeof counters, .written = 7};
    td_deck_count(NULL, &counters);
    assert_int_equal(counters.written, 0);
    assert_int_equal(td_deck_close(NULL, NULL), TD_OK);
    assert_null(td_deck_open(NULL, &error));
    assert_int_equal(error.status, TD_INVALID);
}

/* Each is refused and kept as the deck's error; what is sound is recorded as before. */
static void arguments_that_are_null_are_refused(void **state) {
    (void)state;
    int one = 1;
    released = 0;
    td_view owned = floats(ramp, 6), nowhere = {.dtype = TD_FLOAT32, .shape = TD_SHAPE(2)};
    owned.release = count_release;
    owned.owner = &one;
    td_deck *deck = open_deck((td_deck_options){0});
    assert_int_equal(td_deck_track(deck, .what = "*"), TD_OK);
    assert_int_equal(td_deck_flush(deck, NULL), TD_OK);
    const td_status refused[] = {
        td_deck_record(deck, NULL, owned),
        td_deck_record(deck, "w", nowhere),
        td_deck_record(deck, "w", (td_view){.dtype = TD_DTYPE_COUNT, .data = ramp}),
        td_deck_scalar(deck, NULL, 1),
        td_deck_text(deck, NULL, "text"),
        td_deck_text(deck, "note", NULL),
        td_deck_note(deck, NULL, "value"),
        td_deck_note(deck, "key", NULL),
        td_deck_batch(deck, NULL, 2),
        td_deck_batch_labels(deck, (const int64_t[]){1, 2}, 2, &nowhere),
        td_deck_track_with(deck, NULL, NULL),
    };
    td_error error = {0};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        assert_int_not_equal(refused[i], TD_OK);
    }
    assert_int_equal(released, 1);
    assert_false(td_deck_wants(deck, NULL));
    assert_null(td_deck_signal_with(deck, NULL, NULL));
    assert_int_equal(td_deck_flush(deck, &error), TD_INVALID);
    assert_string_equal(error.text, "the name of a signal is NULL");
    train(deck, 1, 2);
    close_deck(deck);
    assert_int_equal(count_of("loss"), 2);
    assert_int_equal(count_of("w"), 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_run_is_never_overwritten),
        TEST(notes_and_the_decks_own_cost_reach_the_sink),
        TEST(hostile_names_are_signals_like_others),
        TEST(a_name_in_a_buffer_that_changes_is_looked_up_again),
        TEST(names_are_listed_and_escaped),
        TEST(the_folder_is_locked_while_the_deck_is_open),
        TEST(a_folder_that_is_being_written_cannot_be_resumed),
        TEST(what_the_program_says_of_its_end_counts),
        TEST(nothing_is_recorded_without_a_deck),
        TEST(arguments_that_are_null_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
