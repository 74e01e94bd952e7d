/* What conditions remember, as bytes: restored it is the same, and bytes that are not what a deck wrote are
 * refused without harm. */
#include "folder.h"

#include "base/memory.h"
#include "deck/state.h"

static td_deck *open_deck(const char *when) {
    static int runs;
    char run[96];
    (void)snprintf(run, sizeof run, "%s/run%d", folder, runs++);
    td_error error = {0};
    td_deck_options options = {.size = sizeof options, .no_index = true};
    td_deck *deck = td_deck_open_with(run, &options, &error);
    if (!deck) {
        fail_msg("%s", error.text);
    }
    assert_int_equal(td_deck_track(deck, .what = "loss, note, x", .when = when, .history = 3,
                                   .to = "csv,npy,tensorboard"),
                     TD_OK);
    assert_int_equal(td_deck_track(deck, .what = "x, y", .when = "delta(loss) > 100",
                                   .form = TD_ROWS | TD_HISTOGRAM, .history = 2,
                                   .to = "csv,tensorboard"),
                     TD_OK);
    return deck;
}

static const char usual[] = "mean(loss, 5) > 100 or x.max > 1e9";

static void record(td_deck *deck, int64_t first, int64_t last) {
    for (int64_t step = first; step <= last; step++) {
        float x[6] = {(float)step, 1, -2, 3, 0.5f, 0}, label[2] = {1, 2};
        int64_t rows[2] = {step, step + 1};
        td_view labels = {.dtype = TD_FLOAT32, .shape = TD_SHAPE(2), .data = label};
        td_deck_batch_labels(deck, rows, 2, &labels);
        td_deck_scalar(deck, "loss", 1.0 / (double)step);
        td_deck_text(deck, "note", "a text");
        td_deck_record(deck, "x",
                       (td_view){.dtype = TD_FLOAT32, .shape = TD_SHAPE(2, 3), .data = x});
        td_deck_record(deck, "y", (td_view){.dtype = TD_FLOAT32, .shape = TD_SHAPE(6), .data = x});
        td_deck_step(deck, 1, step);
    }
}

static uint8_t *save(td_deck *deck, size_t *size) {
    td_error error = {0};
    uint8_t *bytes = NULL;
    assert_ok(td_deck_flush(deck, &error), error);
    assert_ok(td__deck_save_state(deck, &bytes, size, &error), error);
    return bytes;
}

static void restored_state_is_the_same(void **state) {
    (void)state;
    td_error error = {0};
    size_t size, again;
    td_deck *deck = open_deck(usual), *other = open_deck(usual);
    record(deck, 1, 8);
    uint8_t *bytes = save(deck, &size);
    assert_ok(td__deck_restore_state(other, bytes, size, &error), error);
    uint8_t *same = save(other, &again);
    assert_int_equal(size, again);
    assert_memory_equal(bytes, same, size);
    td__free(same);
    record(deck, 9, 10);
    record(other, 9, 10);
    same = save(other, &again);
    td__free(bytes);
    bytes = save(deck, &size);
    assert_int_equal(size, again);
    td__free(bytes);
    td__free(same);
    assert_ok(td_deck_close(deck, &error), error);
    assert_ok(td_deck_close(other, &error), error);
}

static void state_of_other_tracks_is_not_used(void **state) {
    (void)state;
    td_error error = {0};
    size_t size, none;
    td_deck *deck = open_deck(usual), *other = open_deck("mean(loss, 6) > 100");
    uint8_t *fresh = save(other, &none);
    record(deck, 1, 8);
    uint8_t *bytes = save(deck, &size);
    assert_int_equal(td__deck_restore_state(other, bytes, size, &error), TD_NOT_FOUND);
    uint8_t *still = save(other, &size);
    assert_int_equal(size, none);
    assert_memory_equal(still, fresh, none);
    td__free(bytes);
    td__free(fresh);
    td__free(still);
    assert_ok(td_deck_close(deck, &error), error);
    assert_ok(td_deck_close(other, &error), error);
}

static void bytes_that_make_no_sense_are_refused(void **state) {
    (void)state;
    td_error error = {0};
    size_t size;
    td_deck *deck = open_deck(usual), *other = open_deck(usual);
    record(deck, 1, 8);
    uint8_t *bytes = save(deck, &size);
    for (size_t i = 0; i < size; i++) {
        uint8_t *cut = malloc(i + 1); /* of just that size: reading behind it is noticed */
        memcpy(cut, bytes, i);
        assert_int_equal(td__deck_restore_state(other, cut, i, &error), TD_FORMAT);
        free(cut);
        static const uint8_t others[] = {0x00, 0x01, 0x7F, 0x80, 0xFF};
        uint8_t right = bytes[i];
        for (size_t k = 0; k < sizeof others; k++) {
            bytes[i] = others[k];
            (void)!td__deck_restore_state(other, bytes, size, &error);
        }
        bytes[i] = right;
    }
    td__free(bytes);
    record(other, 9, 12);
    assert_ok(td_deck_close(deck, &error), error);
    assert_ok(td_deck_close(other, &error), error);
}

static void without_memory_nothing_is_lost_but_the_state(void **state) {
    (void)state;
    td_error error = {0};
    size_t size;
    td_deck *deck = open_deck(usual);
    record(deck, 1, 8);
    uint8_t *bytes = save(deck, &size);
    for (uint64_t failing = 1; failing < 60; failing++) {
        td_deck *other = open_deck(usual);
        td__allocation_fail_at(failing);
        (void)!td__deck_restore_state(other, bytes, size, &error);
        td__allocation_fail_at(0);
        (void)!td_deck_close(other, &error);
    }
    td__free(bytes);
    assert_ok(td_deck_close(deck, &error), error);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(restored_state_is_the_same),
        cmocka_unit_test(state_of_other_tracks_is_not_used),
        cmocka_unit_test(bytes_that_make_no_sense_are_refused),
        cmocka_unit_test(without_memory_nothing_is_lost_but_the_state),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
