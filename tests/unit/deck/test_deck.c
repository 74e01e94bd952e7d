/* Tracks: which steps of a signal reach a sink, by schedule, condition and history. */
#include "steps.h"

static void scalars_arrive_with_epoch_step_and_value_in_order(void **state) {
    (void)state;
    td_deck *deck = open_deck((td_deck_options){0});
    assert_int_equal(td_deck_track(deck, .what = "loss"), TD_OK);
    train(deck, 1, 100);
    close_deck(deck);
    assert_int_equal(mem.count, 100);
    for (int64_t i = 0; i < 100; i++) {
        assert_string_equal(mem.records[i].signal, "loss");
        assert_int_equal(mem.records[i].form, TD_SCALAR);
        assert_int_equal(mem.records[i].step, i + 1);
        assert_int_equal(mem.records[i].epoch, 1);
        assert_true(mem.records[i].value == (double)(i + 1) / 10);
        assert_int_equal(mem.steps_ended[i], i + 1);
    }
    assert_int_equal(mem.step_count, 100);
    assert_int_equal(mem.opens, 1);
    assert_int_equal(mem.closes, 1);
    assert_string_equal(mem.expected, "loss\n");
}

static void schedules_pick_their_steps(void **state) {
    (void)state;
    const struct {
        td_track track;
        int64_t steps[8];
        size_t count;
    } cases[] = {
        {{.every = 7}, {7, 14, 21, 28}, 4},
        {{.every = 7, .start = 10}, {10, 17, 24}, 3},
        {{.every = 5, .end = 12}, {5, 10}, 2},
        {{.at = TD_AT(3, 1, 30)}, {1, 3, 30}, 3},
        {{.at = TD_AT(2, 4), .every = 10}, {2, 4, 10, 20, 30}, 5},
        {{.start = 28}, {28, 29, 30}, 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        mem.count = 0;
        td_deck *deck = open_deck((td_deck_options){0});
        td_track track = cases[i].track;
        track.size = sizeof track;
        track.what = "w";
        td_error error = {0};
        assert_ok(td_deck_track_with(deck, &track, &error), error);
        for (int64_t step = 1; step <= 30; step++) {
            bool due = false;
            for (size_t k = 0; k < cases[i].count; k++) {
                due = due || cases[i].steps[k] == step;
            }
            assert_int_equal(td_deck_wants(deck, "w"), due);
            assert_false(td_deck_wants(deck, "v"));
            train(deck, step, step);
        }
        close_deck(deck);
        check_steps("w", cases[i].steps, cases[i].count);
    }
}

static void a_track_of_metrics_leaves_tensors_alone(void **state) {
    (void)state;
    td_deck *deck = open_deck((td_deck_options){0});
    assert_int_equal(td_deck_track(deck, .what = "*", .metrics = true), TD_OK);
    assert_false(td_deck_due(deck, 1));
    assert_false(td_deck_wants(deck, "w"));
    train(deck, 1, 3);
    assert_int_equal(td_deck_track(deck, .what = "w", .every = 5), TD_OK);
    assert_true(td_deck_due(deck, 10));
    assert_false(td_deck_due(deck, 11));
    assert_int_equal(td_deck_track(deck, .what = "w", .every_epochs = 2, .start = 100), TD_OK);
    assert_true(td_deck_due(deck, 101)); /* may be an epoch's last */
    assert_int_equal(td_deck_begin(deck, 1, 101, false), TD_OK);
    assert_false(td_deck_due(deck, 101)); /* it was announced not to be */
    close_deck(deck);
    check_steps("loss", (const int64_t[]){1, 2, 3}, 3);
    check_steps("w", NULL, 0);
    deck = open_deck((td_deck_options){0});
    td_track track = {.size = sizeof track, .metrics = true, .when = "loss > 1"};
    assert_int_equal(td_deck_track_with(deck, &track, NULL), TD_INVALID);
    (void)td_deck_close(deck, NULL);
}

/* Three epochs of four steps; announced says whether the loop uses td_deck_begin. */
static void train_epochs(td_deck *deck, bool announced) {
    for (int64_t step = 1; step <= 12; step++) {
        int64_t epoch = (step + 3) / 4;
        bool last = step % 4 == 0;
        if (announced) {
            assert_int_equal(td_deck_begin(deck, epoch, step, last), TD_OK);
            assert_int_equal(td_deck_wants(deck, "w"), last && epoch % 2 == 0);
        }
        float w = (float)step;
        if (step % 4 == 1) {
            assert_int_equal(td_deck_scalar(deck, "loss", (double)epoch), TD_OK);
        }
        assert_int_equal(td_deck_record(deck, "w", floats(&w, 1)), TD_OK);
        assert_int_equal(announced ? td_deck_step(deck, epoch, step)
                                   : td_deck_step_with(deck, epoch, step, last),
                         TD_OK);
    }
}

static void epochs_end_with_the_last_tensor_and_the_latest_scalar(void **state) {
    (void)state;
    for (int announced = 0; announced < 2; announced++) {
        mem.count = 0;
        td_deck *deck = open_deck((td_deck_options){0});
        assert_int_equal(td_deck_track(deck, .what = "w", .every_epochs = 2, .form = TD_TENSOR),
                         TD_OK);
        assert_int_equal(td_deck_track(deck, .what = "loss", .every_epochs = 1), TD_OK);
        train_epochs(deck, announced);
        close_deck(deck);
        check_steps("w", (int64_t[]){8}, 1);
        check_steps("loss", (int64_t[]){4, 8, 12}, 3);
        assert_int_equal(mem.count, 4);
        for (int64_t i = 0; i < mem.count; i++) {
            double expected = mem.records[i].form == TD_SCALAR ? (double)mem.records[i].epoch : 8;
            assert_true(mem.records[i].value == expected);
        }
    }
}

static void conditions_write_only_the_steps_for_which_they_hold(void **state) {
    (void)state;
    td_deck *deck = open_deck((td_deck_options){0});
    assert_int_equal(td_deck_track(deck, .what = "w", .when = "loss > 1.0 and step < 14"), TD_OK);
    train(deck, 1, 20);
    td_deck_counters counters = counters_of(deck);
    assert_int_equal(counters.history_held, 0);
    assert_int_equal(counters.triggers, 3);
    close_deck(deck);
    check_steps("w", (int64_t[]){11, 12, 13}, 3);
    assert_int_equal(count_of("loss"), 0);
    assert_non_null(strstr(mem.events, "trigger@11: loss > 1.0 and step < 14"));
}

static void history_writes_the_steps_before_a_trigger_once(void **state) {
    (void)state;
    td_deck *deck = open_deck((td_deck_options){0});
    assert_int_equal(
        td_deck_track(deck, .what = "w", .when = "loss == 1.2 or loss == 1.4", .history = 4),
        TD_OK);
    train(deck, 1, 20);
    close_deck(deck);
    check_steps("w", (int64_t[]){8, 9, 10, 11, 12, 13, 14}, 7);
    for (int64_t i = 0; i < mem.count; i++) {
        assert_true(mem.records[i].value == (double)mem.records[i].step);
        bool fired = mem.records[i].step == 12 || mem.records[i].step == 14;
        assert_int_equal(mem.records[i].history, !fired);
    }
}

static void history_that_does_not_fit_is_said(void **state) {
    (void)state;
    enum { LARGE = 4096 };
    td_deck *deck = open_deck((td_deck_options){.history_bytes = 100000});
    assert_int_equal(td_deck_track(deck, .what = "w", .when = "step == 30", .history = 20), TD_OK);
    static float w[LARGE];
    for (int64_t step = 1; step <= 30; step++) {
        w[0] = (float)step;
        assert_int_equal(td_deck_record(deck, "w", floats(w, LARGE)), TD_OK);
        assert_int_equal(td_deck_step(deck, 1, step), TD_OK);
        assert_true(counters_of(deck).history_held <= 100000);
    }
    assert_true(counters_of(deck).history_lost > 0);
    close_deck(deck);
    assert_true(mem.count >= 4 && mem.count < 8); /* the latest ones that fit */
    assert_int_equal(mem.records[mem.count - 1].step, 30);
    assert_int_equal(mem.records[mem.count - 2].step, 29);
    char expected[160];
    (void)snprintf(
        expected, sizeof expected,
        "history@30: of the 20 steps before step 30, steps 10 to %lld did not fit 100000",
        (long long)mem.records[0].step - 1);
    assert_non_null(strstr(mem.events, expected));
}

static void conditions_see_statistics_that_no_track_records(void **state) {
    (void)state;
    td_deck *deck = open_deck((td_deck_options){0});
    assert_int_equal(td_deck_track(deck, .what = "loss", .when = "nan(*) or *.error.norm > 9"),
                     TD_OK);
    for (int64_t step = 1; step <= 10; step++) {
        float error[2] = {(float)step, 0};
        float other[2] = {1, step == 3 ? NAN : 1};
        assert_true(td_deck_wants(deck, "a.error"));
        assert_int_equal(td_deck_record(deck, "a.error", floats(error, 2)), TD_OK);
        assert_int_equal(td_deck_record(deck, "b", floats(other, 2)), TD_OK);
        assert_int_equal(td_deck_scalar(deck, "loss", 1), TD_OK);
        assert_int_equal(td_deck_step(deck, 1, step), TD_OK);
    }
    close_deck(deck);
    check_steps("loss", (int64_t[]){3, 10}, 2);
    assert_int_equal(mem.count, 2);
}

static void wrong_tracks_are_refused_with_a_reason(void **state) {
    (void)state;
    const struct {
        td_track track;
        td_status status;
        const char *text;
    } cases[] = {
        {{.to = "memry"}, TD_NOT_FOUND, "did you mean memory?"},
        {{.to = " , "}, TD_INVALID, ".to names no sink"},
        {{.what = ","}, TD_INVALID, ".what names no signal"},
        {{.form = TD_IMAGE, .to = "memory"}, TD_INVALID, "memory cannot write the form image"},
        {{.form = TD_IMAGE}, TD_INVALID, "none of the default sinks"},
        {{.form = 1 << 15}, TD_INVALID, "no form"},
        {{.every = -1}, TD_INVALID, ".every is -1"},
        {{.start = 9, .end = 8}, TD_INVALID, ".end (8) is before .start (9)"},
        {{.history = 3}, TD_INVALID, "give .when too"},
        {{.when = "loss >"}, TD_INVALID, "loss >\n          ^"},
    };
    td_deck *deck = open_deck((td_deck_options){0});
    td_error error = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        td_track track = cases[i].track;
        assert_int_equal(td_deck_track_with(deck, &track, &error), TD_INVALID); /* no size */
        track.size = sizeof track;
        assert_int_equal(td_deck_track_with(deck, &track, &error), cases[i].status);
        if (!strstr(error.text, cases[i].text)) {
            fail_msg("\"%s\" does not say \"%s\"", error.text, cases[i].text);
        }
        assert_int_equal(td_deck_flush(deck, &error), TD_INVALID);
    }
    assert_ok(td_deck_flush(deck, &error), error); /* told once */
    train(deck, 1, 3);
    close_deck(deck);
    assert_int_equal(mem.count, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(scalars_arrive_with_epoch_step_and_value_in_order),
        TEST(schedules_pick_their_steps),
        TEST(a_track_of_metrics_leaves_tensors_alone),
        TEST(epochs_end_with_the_last_tensor_and_the_latest_scalar),
        TEST(conditions_write_only_the_steps_for_which_they_hold),
        TEST(history_writes_the_steps_before_a_trigger_once),
        TEST(history_that_does_not_fit_is_said),
        TEST(conditions_see_statistics_that_no_track_records),
        TEST(wrong_tracks_are_refused_with_a_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
