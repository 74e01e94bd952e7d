/* What a deck warns of while it records, and pictures that a program brings along. */
#include "folder.h"

#include "tapedeck/run.h"

#include <string.h>

typedef struct said {
    char text[4096];
    size_t count;
} said;

static void hear(void *user, const char *text) {
    said *s = user;
    (void)snprintf(s->text + strlen(s->text), sizeof s->text - strlen(s->text), "%s\n", text);
    s->count++;
}

static said ask(td_deck *deck, bool ending) {
    said s = {0};
    td_deck_warnings(deck, ending, hear, &s);
    return s;
}

static td_deck *open_deck(void) {
    td_error error = {0};
    char path[200];
    (void)snprintf(path, sizeof path, "%s/run", folder);
    td_deck *deck = td_deck_open(path, &error);
    if (!deck) {
        fail_msg("%s", error.text);
    }
    return deck;
}

static void record_step(td_deck *deck, int64_t step) {
    const float ones[3] = {1, 1, 1};
    td_deck_record(deck, "h.error",
                   (td_view){.dtype = TD_FLOAT32, .shape = TD_SHAPE(3), .data = ones});
    td_deck_scalar(deck, "loss", 1);
    td_deck_step(deck, 1, step);
}

static void names_and_conditions_that_no_signal_has(void **state) {
    (void)state;
    td_error error = {0};
    td_deck *deck = open_deck();
    assert_int_equal(td_deck_track(deck, .what = "h.eror, *.error", .to = "csv"), TD_OK);
    assert_int_equal(td_deck_track(deck, .what = "*.error", .when = "lss > 1", .to = "csv"), TD_OK);
    record_step(deck, 1);
    assert_int_equal(ask(deck, false).count, 0); /* not all signals need be known by then */
    record_step(deck, 2);
    said s = ask(deck, false);
    assert_int_equal(s.count, 2);
    assert_non_null(
        strstr(s.text, "track \"h.eror\": no signal has such a name; did you mean h.error?"));
    assert_non_null(strstr(s.text, "there is no signal lss; did you mean loss?"));
    td_deck_scalar(deck, "lss", 1);
    td_deck_step(deck, 1, 3);
    assert_int_equal(ask(deck, false).count, 1);
    assert_ok(td_deck_close(deck, &error), error);
}

static void tracks_that_were_never_due(void **state) {
    (void)state;
    td_error error = {0};
    td_deck *deck = open_deck();
    assert_int_equal(td_deck_track(deck, .what = "h.error", .every = 100, .to = "csv"), TD_OK);
    assert_int_equal(td_deck_track(deck, .what = "loss", .every_epochs = 2, .to = "csv"), TD_OK);
    record_step(deck, 1);
    assert_int_equal(ask(deck, false).count, 0);
    said s = ask(deck, true);
    assert_int_equal(s.count, 2);
    assert_non_null(strstr(s.text, "every 100 steps: nothing was recorded"));
    assert_non_null(strstr(s.text, "every 2 epochs: nothing was recorded"));
    assert_ok(td_deck_close(deck, &error), error);
}

/* The smallest PNG: one grey pixel. */
static const uint8_t pixel[] = {0x89, 'P', 'N', 'G',  '\r', '\n', 0x1a, '\n', 0,    0, 0, 13,
                                'I',  'H', 'D', 'R',  0,    0,    0,    1,    0,    0, 0, 1,
                                8,    0,   0,   0,    0,    0x3a, 0x7e, 0x9b, 0x55, 0, 0, 0,
                                10,   'I', 'D', 'A',  'T',  0x78, 0x9c, 0x63, 0x60, 0, 0, 0,
                                2,    0,   1,   0x48, 0xaf, 0xa4, 0x71, 0,    0,    0, 0, 'I',
                                'E',  'N', 'D', 0xae, 0x42, 0x60, 0x82};

static td_status compare_picture(void *user, const td_record *record, td_error *error) {
    (void)error;
    assert_int_equal(record->png_size, sizeof pixel);
    assert_memory_equal(record->png, pixel, sizeof pixel);
    ++*(int *)user;
    return TD_OK;
}

static void a_picture_is_written_as_it_is(void **state) {
    (void)state;
    td_error error = {0};
    int seen = 0;
    td_deck *deck = open_deck();
    assert_int_equal(td_deck_track(deck, .what = "*", .metrics = true, .form = TD_IMAGE,
                                   .to = "png,tensorboard"),
                     TD_OK);
    assert_false(td_deck_due(deck, 1)); /* no step records tensors because of it */
    assert_int_equal(td_deck_picture(deck, "x", pixel, sizeof pixel), TD_OK);
    td_deck_scalar(deck, "loss", 1); /* of another form */
    td_deck_step(deck, 1, 1);
    assert_int_equal(td_deck_picture(deck, "x", "no PNG at all", 13), TD_FORMAT);
    char path[300];
    (void)snprintf(path, sizeof path, "%s", td_deck_folder(deck));
    assert_int_equal(td_deck_close(deck, &error), TD_FORMAT);
    td_run *run = td_run_open(path, &error);
    assert_non_null(run);
    assert_int_equal(td_run_signal_count(run), 1);
    assert_int_equal(td_run_signal_at(run, 0)->forms, TD_IMAGE);
    assert_ok(td_run_at(run, td_run_signal_at(run, 0), TD_IMAGE, 1, compare_picture, &seen, &error),
              error);
    assert_int_equal(seen, 1);
    td_run_close(run);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(names_and_conditions_that_no_signal_has, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(tracks_that_were_never_due, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_picture_is_written_as_it_is, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
