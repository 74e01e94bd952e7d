/* Summaries in place of tensors, and further parts of what a step has recorded. */
#include "steps.h"

#include "deck/deck.h"

static td_bin room[TD_HISTOGRAM_BINS];

static td_summary summary_of(td_view view, bool more) {
    td_summary s = {.size = sizeof s, .dtype = view.dtype, .shape = view.shape, .more = more};
    assert_int_equal(td_histogram_of(&view, &s.stats, room, &s.histogram, NULL), TD_OK);
    return s;
}

static void a_summary_is_recorded_as_its_tensor_is(void **state) {
    (void)state;
    td_deck *deck = open_deck((td_deck_options){0});
    assert_int_equal(td_deck_track(deck, .what = "w", .form = TD_STATS | TD_HISTOGRAM), TD_OK);
    td_signal *signal = td_deck_signal(deck, "w");
    assert_int_equal(td_signal_forms(signal), TD_STATS | TD_HISTOGRAM);
    td_summary summary = summary_of(floats(ramp, 6), false);
    assert_int_equal(td_signal_record_summary(signal, &summary), TD_OK);
    assert_int_equal(td_deck_step(deck, 1, 1), TD_OK);
    td_deck_counters counters = counters_of(deck);
    assert_int_equal(counters.dropped, 0);
    close_deck(deck);
    assert_int_equal(mem.count, 2);
    for (int64_t i = 0; i < 2; i++) {
        assert_int_equal(mem.records[i].stats.count, 6);
        assert_close(mem.records[i].stats.mean, 3.5, 1e-7, 0);
    }
    assert_int_equal(mem.records[1].bins_total, 6);
}

static float many[4096];

/* first: how the first part is given; a view with an owner may be left to the writer. */
static void merge_into(bool owned) {
    td_deck *deck = open_deck((td_deck_options){0});
    assert_int_equal(td_deck_track(deck, .what = "w", .form = TD_STATS | TD_HISTOGRAM), TD_OK);
    td_signal *signal = td_deck_signal(deck, "w");
    for (size_t i = 0; i < 4096; i++) {
        many[i] = (float)(i + 1);
    }
    int owner = 1;
    td_view first = floats(many, 2048);
    first.release = owned ? count_release : NULL;
    first.owner = &owner;
    for (int64_t step = 1; step <= 20; step++) {
        assert_int_equal(td_signal_record(signal, first), TD_OK);
        td_summary more = summary_of(floats(many + 2048, 2048), true);
        assert_int_equal(td_signal_record_summary(signal, &more), TD_OK);
        assert_int_equal(td_deck_step(deck, 1, step), TD_OK);
    }
    close_deck(deck);
    td_summary whole = summary_of(floats(many, 4096), false);
    assert_int_equal(mem.count, 40);
    for (int64_t i = 0; i < mem.count; i++) {
        const seen *s = &mem.records[i];
        assert_int_equal(s->stats.count, 4096);
        assert_true(s->stats.min == 1 && s->stats.max == 4096);
        assert_close(s->stats.mean, whole.stats.mean, 1e-9, 0);
        assert_close(s->stats.std, whole.stats.std, 1e-6, 0);
        if (s->form == TD_HISTOGRAM) {
            assert_int_equal(s->bins, whole.histogram.bin_count);
            assert_int_equal(s->bins_total, 4096);
        }
    }
}

static void parts_are_merged(void **state) {
    (void)state;
    merge_into(false);
}

static void a_part_waits_for_what_is_left_to_the_writer(void **state) {
    (void)state;
    merge_into(true);
}

static void elements_stay_those_of_the_first_part(void **state) {
    (void)state;
    td_deck *deck = open_deck((td_deck_options){0});
    assert_int_equal(td_deck_track(deck, .what = "w", .form = TD_TENSOR), TD_OK);
    td_signal *signal = td_deck_signal(deck, "w");
    assert_true(td_signal_forms(signal) & TD_TENSOR);
    assert_int_equal(td_signal_record(signal, floats(ramp, 6)), TD_OK);
    td_summary more = summary_of(floats(ramp, 2), true);
    assert_int_equal(td_signal_record_summary(signal, &more), TD_OK);
    assert_int_equal(td_deck_step(deck, 1, 1), TD_OK);
    close_deck(deck);
    assert_int_equal(mem.count, 1);
    assert_int_equal(mem.records[0].rows, 6);
}

static void what_needs_elements_takes_no_summary(void **state) {
    (void)state;
    td_deck *deck = open_deck((td_deck_options){0});
    assert_int_equal(td_deck_track(deck, .what = "w", .form = TD_TENSOR), TD_OK);
    assert_int_equal(td_deck_track(deck, .what = "h", .form = TD_HISTOGRAM), TD_OK);
    td_summary summary = summary_of(floats(ramp, 6), false);
    assert_int_equal(td_signal_record_summary(td_deck_signal(deck, "w"), &summary), TD_INVALID);
    summary.stats.count = 7;
    assert_int_equal(td_signal_record_summary(td_deck_signal(deck, "h"), &summary), TD_INVALID);
    summary.histogram.bins = NULL;
    assert_int_equal(td_signal_record_summary(td_deck_signal(deck, "h"), &summary), TD_INVALID);
    assert_int_equal(td_signal_record_summary(td_deck_signal(deck, "unknown"), &summary), TD_OK);
    assert_int_equal(td_signal_record_summary(NULL, &summary), TD_INVALID);
    td_error error = {0};
    assert_int_equal(td_deck_close(deck, &error), TD_INVALID);
    assert_int_equal(mem.count, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_summary_is_recorded_as_its_tensor_is),
        TEST(parts_are_merged),
        TEST(a_part_waits_for_what_is_left_to_the_writer),
        TEST(elements_stay_those_of_the_first_part),
        TEST(what_needs_elements_takes_no_summary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
