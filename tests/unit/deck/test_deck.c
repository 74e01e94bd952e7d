/* Tracks, schedules, forms, samples, history, notes: what reaches a sink, and when. */
#include "memory_sink.h"

#include <fcntl.h>
#include <sys/file.h>

static const float ramp[6] = {1, 2, 3, 4, 5, 6};

/* Records `loss` = step / 10 and the tensor `w` in each of some steps. */
static void train(td_deck *deck, int64_t first, int64_t last) {
    for (int64_t step = first; step <= last; step++) {
        float w[4] = {(float)step, 0, -1, 2};
        assert_int_equal(td_deck_scalar(deck, "loss", (double)step / 10), TD_OK);
        assert_int_equal(td_deck_record(deck, "w", floats(w, 4)), TD_OK);
        assert_int_equal(td_deck_step(deck, 1, step), TD_OK);
    }
}

static int64_t count_of(const char *signal) {
    int64_t count = 0;
    for (int64_t i = 0; i < mem.count; i++) {
        count += strcmp(mem.records[i].signal, signal) == 0;
    }
    return count;
}

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

static void check_steps(const char *signal, const int64_t *steps, size_t count) {
    size_t found = 0;
    for (int64_t i = 0; i < mem.count; i++) {
        if (strcmp(mem.records[i].signal, signal) == 0) {
            assert_true(found < count);
            assert_int_equal(mem.records[i].step, steps[found]);
            found++;
        }
    }
    assert_int_equal(found, count);
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

static void forms_carry_what_they_say(void **state) {
    (void)state;
    td_deck *deck = open_deck((td_deck_options){0});
    assert_int_equal(
        td_deck_track(deck, .what = "w",
                      .form = TD_TENSOR | TD_ROWS | TD_STATS | TD_HISTOGRAM | TD_SCALAR | TD_HASH),
        TD_OK);
    assert_int_equal(td_deck_track(deck, .what = "note"), TD_OK);
    td_view view = {.dtype = TD_FLOAT32, .shape = TD_SHAPE(3, 2), .data = ramp};
    int64_t rows[3] = {70, 80, 90};
    assert_int_equal(td_deck_batch(deck, rows, 3), TD_OK);
    assert_int_equal(td_deck_record(deck, "w", view), TD_OK);
    assert_int_equal(td_deck_text(deck, "note", "hello"), TD_OK);
    assert_int_equal(td_deck_step(deck, 3, 9), TD_OK);
    close_deck(deck);
    assert_int_equal(mem.count, 7);
    uint64_t hash;
    assert_int_equal(td_hash_of(&view, &hash, NULL), TD_OK);
    uint32_t forms = 0;
    for (int64_t i = 0; i < mem.count; i++) {
        const seen *s = &mem.records[i];
        forms |= s->form;
        assert_int_equal(s->step, 9);
        assert_int_equal(s->epoch, 3);
        if (s->form & (TD_TENSOR | TD_ROWS)) {
            assert_int_equal(s->rows, 3);
            assert_true(s->value == 1 && s->second == 2);
            assert_int_equal(s->first_sample, 70);
        }
        if (s->form & (TD_STATS | TD_HISTOGRAM)) {
            assert_close(s->stats.mean, 3.5, 1e-7, 0);
            assert_int_equal(s->stats.count, 6);
        }
        if (s->form == TD_HISTOGRAM) {
            assert_int_equal(s->bins, 6);
            assert_int_equal(s->bins_total, 6);
        }
        if (s->form == TD_SCALAR) {
            assert_close(s->value, 3.5, 1e-7, 0);
        }
        if (s->form == TD_HASH) {
            assert_true(s->hash == hash);
        }
        if (s->form == TD_TEXT) {
            assert_string_equal(s->text, "hello");
        }
    }
    assert_int_equal(forms,
                     TD_TENSOR | TD_ROWS | TD_STATS | TD_HISTOGRAM | TD_SCALAR | TD_HASH | TD_TEXT);
}

static void a_tensor_that_several_tracks_want_is_kept_once(void **state) {
    (void)state;
    td_deck *deck = open_deck((td_deck_options){0});
    assert_int_equal(td_deck_track(deck, .what = "w", .form = TD_TENSOR), TD_OK);
    assert_int_equal(td_deck_track(deck, .what = "*", .form = TD_TENSOR | TD_STATS), TD_OK);
    assert_int_equal(td_deck_track(deck, .what = "[w]", .every = 2, .form = TD_TENSOR), TD_OK);
    enum { LARGE = 100000 };
    float *w = calloc(LARGE, sizeof *w);
    assert_int_equal(td_deck_step(deck, 1, 1), TD_OK);
    assert_int_equal(td_deck_record(deck, "w", floats(w, LARGE)), TD_OK);
    td_deck_counters counters = counters_of(deck);
    assert_true(counters.queue_bytes < 2 * LARGE * (int64_t)sizeof *w);
    assert_int_equal(td_deck_step(deck, 1, 2), TD_OK);
    close_deck(deck);
    assert_int_equal(mem.count, 2); /* one tensor, one set of statistics */
    free(w);
}

/* Small tensors take a shorter way than large ones. */
static void tensors_of_any_size_are_written_in_the_order_they_came(void **state) {
    (void)state;
    enum { LARGE = 3000, STEPS = 40 };
    static const int64_t sizes[] = {2, LARGE, 3, 5, 600, LARGE, 1, 7};
    enum { TENSORS = sizeof sizes / sizeof sizes[0] };
    td_deck *deck = open_deck((td_deck_options){0});
    assert_int_equal(td_deck_track(deck, .what = "w,x", .form = TD_TENSOR), TD_OK);
    static float w[LARGE];
    int64_t rows[7] = {6, 5, 4, 3, 2, 1, 0};
    for (int64_t step = 1; step <= STEPS; step++) {
        for (int t = 0; t < TENSORS; t++) {
            w[0] = (float)(step * 100 + t);
            assert_int_equal(td_deck_batch(deck, rows + 6 - step % 7, 1 + step % 7), TD_OK);
            assert_int_equal(td_deck_record(deck, "w", floats(w, sizes[t])), TD_OK);
        }
        assert_int_equal(td_deck_step(deck, 1, 3 * step), TD_OK); /* not the step that it expects */
    }
    td_deck_counters counters = counters_of(deck);
    assert_int_equal(counters.submitted, STEPS * TENSORS);
    close_deck(deck);
    assert_int_equal(mem.count, STEPS * TENSORS);
    for (int64_t i = 0; i < mem.count; i++) {
        const seen *s = &mem.records[i];
        int64_t step = 1 + i / TENSORS, size = sizes[i % TENSORS];
        assert_true(s->value == (double)(step * 100 + i % TENSORS));
        assert_int_equal(s->step, 3 * step);
        assert_int_equal(s->rows, size);
        assert_int_equal(s->first_sample, size == 1 + step % 7 ? step % 7 : -1);
    }
}

/* At the end of an epoch what had no room yet is sent on, though the step's own holds the queue. */
static void the_end_of_a_step_never_waits_for_what_it_holds(void **state) {
    (void)state;
    enum { LARGE = 2000, SMALL = 1000 };
    static float w[LARGE];
    td_deck *deck = open_deck((td_deck_options){.queue_bytes = 16384});
    assert_int_equal(td_deck_track(deck, .what = "w", .every_epochs = 1, .form = TD_TENSOR), TD_OK);
    assert_int_equal(
        td_deck_track(deck, .what = "h", .form = TD_TENSOR, .when = "step == 8", .history = 3),
        TD_OK);
    assert_int_equal(td_deck_track(deck, .what = "s?", .form = TD_TENSOR), TD_OK);
    for (int64_t step = 1; step <= 10; step++) {
        assert_int_equal(td_deck_record(deck, "h", floats(w, LARGE / 2)), TD_OK);
        assert_int_equal(td_deck_record(deck, "w", floats(w, LARGE)), TD_OK);
        assert_int_equal(td_deck_record(deck, "s1", floats(w, SMALL)), TD_OK);
        assert_int_equal(td_deck_record(deck, "s2", floats(w, SMALL)), TD_OK);
        assert_int_equal(td_deck_record(deck, "s3", floats(w, SMALL)), TD_OK);
        assert_int_equal(td_deck_step_with(deck, 1, step, step == 5), TD_OK);
        assert_int_equal(td_deck_flush(deck, NULL), TD_OK);
    }
    td_deck_counters counters = counters_of(deck);
    assert_int_equal(counters.dropped, 0);
    assert_int_equal(counters.queue_bytes, 0);
    close_deck(deck);
    check_steps("w", (int64_t[]){5}, 1);
    check_steps("h", (int64_t[]){5, 6, 7, 8}, 4);
    check_steps("s3", (int64_t[]){1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 10);
}

static void a_step_of_many_small_tensors_has_one_number(void **state) {
    (void)state;
    enum { TENSORS = 300, ELEMENTS = 1000 }; /* more than a block holds */
    td_deck *deck = open_deck((td_deck_options){0});
    assert_int_equal(td_deck_track(deck, .form = TD_TENSOR), TD_OK);
    static float w[ELEMENTS];
    char name[16];
    for (int i = 0; i < TENSORS; i++) {
        snprintf(name, sizeof name, "w%d", i);
        assert_int_equal(td_deck_record(deck, name, floats(w, ELEMENTS)), TD_OK);
    }
    assert_int_equal(td_deck_step(deck, 3, 77), TD_OK);
    close_deck(deck);
    assert_int_equal(mem.count, TENSORS);
    for (int i = 0; i < TENSORS; i++) {
        assert_int_equal(mem.records[i].step, 77);
        assert_int_equal(mem.records[i].epoch, 3);
    }
    assert_int_equal(mem.step_count, 1);
}

static void samples_are_random_rows_and_the_same_for_the_same_seed(void **state) {
    (void)state;
    enum { ROWS = 50, TIMES = 20 };
    float x[ROWS], labels[ROWS];
    int64_t rows[ROWS], first[2][TIMES];
    for (int64_t i = 0; i < ROWS; i++) {
        x[i] = (float)i;
        labels[i] = (float)(2 * i);
        rows[i] = 1000 + i;
    }
    td_view label_view = floats(labels, ROWS);
    for (int round = 0; round < 2; round++) {
        mem.count = 0;
        td_deck *deck = open_deck((td_deck_options){.seed = 5});
        assert_int_equal(td_deck_track(deck, .what = "prediction", .sample = 5, .form = TD_ROWS),
                         TD_OK);
        for (int64_t step = 1; step <= TIMES; step++) {
            assert_int_equal(td_deck_batch_labels(deck, rows, ROWS, &label_view), TD_OK);
            assert_int_equal(td_deck_record(deck, "prediction", floats(x, ROWS)), TD_OK);
            assert_int_equal(td_deck_step(deck, 1, step), TD_OK);
        }
        close_deck(deck);
        assert_int_equal(mem.count, TIMES);
        for (int64_t i = 0; i < TIMES; i++) {
            const seen *s = &mem.records[i];
            assert_int_equal(s->rows, 5);
            assert_true(s->labels);
            assert_int_equal(s->first_sample, 1000 + (int64_t)s->value);
            assert_true(s->second > s->value);
            first[round][i] = s->first_sample;
        }
    }
    assert_memory_equal(first[0], first[1], sizeof first[0]);
    assert_memory_not_equal(first[0], first[0] + 1, sizeof first[0][0]);
}

static void rows_are_not_put_beside_parameters(void **state) {
    (void)state;
    td_deck *deck = open_deck((td_deck_options){0});
    assert_int_equal(td_deck_track(deck, .form = TD_ROWS), TD_OK);
    int64_t rows[6] = {9, 8, 7, 6, 5, 4};
    assert_non_null(td_deck_signal_with(
        deck, "kernel",
        &(td_signal_info){.size = sizeof(td_signal_info), .kind = TD_SIGNAL_PARAMETER}));
    assert_int_equal(td_deck_batch(deck, rows, 6), TD_OK);
    assert_int_equal(td_deck_record(deck, "kernel", floats(ramp, 6)), TD_OK);
    assert_int_equal(td_deck_record(deck, "other", floats(ramp, 5)), TD_OK);
    assert_int_equal(td_deck_record(deck, "output", floats(ramp, 6)), TD_OK);
    assert_int_equal(td_deck_step(deck, 1, 1), TD_OK);
    assert_int_equal(td_deck_record(deck, "output", floats(ramp, 6)), TD_OK); /* no batch */
    assert_int_equal(td_deck_step(deck, 1, 2), TD_OK);
    close_deck(deck);
    assert_int_equal(mem.records[0].first_sample, -1);
    assert_int_equal(mem.records[1].first_sample, -1);
    assert_int_equal(mem.records[2].first_sample, 9);
    assert_int_equal(mem.records[3].first_sample, -1);
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

static atomic_int released; /* by the writer, too */
static void count_release(void *owner) {
    released += *(int *)owner;
}

static void memory_with_an_owner_is_taken_over_and_given_back_once(void **state) {
    (void)state;
    int one = 1;
    released = 0;
    td_deck *deck = open_deck((td_deck_options){0});
    assert_int_equal(td_deck_track(deck, .what = "w", .every = 2, .form = TD_TENSOR), TD_OK);
    assert_int_equal(td_deck_track(deck, .what = "s", .form = TD_STATS), TD_OK);
    assert_int_equal(td_deck_track(deck, .what = "h", .when = "step == 3", .history = 5), TD_OK);
    for (int64_t step = 1; step <= 4; step++) {
        td_view view = floats(ramp, 6);
        view.release = count_release;
        view.owner = &one;
        assert_int_equal(td_deck_record(deck, "w", view), TD_OK);
        assert_int_equal(td_deck_record(deck, "s", view), TD_OK);
        assert_int_equal(td_deck_record(deck, "h", view), TD_OK);
        assert_int_equal(td_deck_record(deck, "nobody", view), TD_OK);
        view.shape.dims[0] = -1;
        assert_int_not_equal(td_deck_record(deck, "s", view), TD_OK);
        assert_int_equal(td_deck_step(deck, 1, step), TD_OK);
    }
    td_error error;
    assert_int_not_equal(td_deck_close(deck, &error), TD_OK); /* the bad shape is remembered */
    assert_non_null(strstr(error.text, "s: "));
    assert_int_equal(released, 4 * 5);
    check_steps("h", (int64_t[]){1, 2, 3}, 3);
    for (int64_t i = 0; i < mem.count; i++) {
        if (mem.records[i].form == TD_TENSOR) {
            assert_true(mem.records[i].value == 1 && mem.records[i].rows == 6);
        }
    }
}

/* What can be kept is summed up by the writer, what cannot at once: nobody sees a difference. */
static void a_tensor_is_summed_up_the_same_whoever_does_it(void **state) {
    (void)state;
    enum { COUNT = 50000 };
    int one = 1;
    static float w[COUNT];
    released = 0;
    for (int i = 0; i < COUNT; i++) {
        w[i] = (float)(i % 1000) * 0.25f - 60;
    }
    td_deck *deck = open_deck((td_deck_options){0});
    deck->core_to_spare = true; /* whatever the machine has */
    assert_int_equal(td_deck_track(deck, .form = TD_STATS | TD_HISTOGRAM | TD_HASH), TD_OK);
    td_view view = floats(w, COUNT);
    assert_int_equal(td_deck_track(deck, .what = "kept", .form = TD_TENSOR), TD_OK);
    assert_int_equal(td_deck_record(deck, "at once", view), TD_OK);
    view.release = count_release;
    view.owner = &one;
    assert_int_equal(td_deck_record(deck, "later", view), TD_OK);
    assert_int_equal(td_deck_record(deck, "kept", view), TD_OK);
    assert_true(counters_of(deck).queue_bytes >= (int64_t)sizeof w);
    /* The step is open, and nothing written: what is summed up is free, what is to be written is not. */
    td_error error = {0};
    assert_ok(td_deck_flush(deck, &error), error);
    assert_int_equal(mem.count, 0);
    assert_int_equal(released, 1);
    int64_t held = counters_of(deck).queue_bytes;
    assert_true(held >= (int64_t)sizeof w && held < 2 * (int64_t)sizeof w);
    assert_int_equal(td_deck_step(deck, 1, 1), TD_OK);
    close_deck(deck);
    assert_int_equal(released, 2);
    assert_int_equal(mem.count, 10);
    for (int i = 0; i < 3; i++) {
        seen *a = &mem.records[i], *b = &mem.records[3 + i];
        assert_string_equal(a->signal, "at once");
        assert_string_equal(b->signal, "later");
        assert_int_equal(a->form, b->form);
        assert_true(a->hash == b->hash && a->bins == b->bins && a->bins_total == b->bins_total);
        assert_memory_equal(&a->stats, &b->stats, sizeof a->stats);
    }
}

static int32_t parts_run;

/* In any order: here the last first. */
static void run_backwards(int32_t parts, void (*part)(void *context, int32_t index),
                          void *context) {
    for (int32_t i = parts; i-- > 0; parts_run++) {
        part(context, i);
    }
}

static void a_tensor_in_parts_is_summed_up_as_a_whole(void **state) {
    (void)state;
    enum { COUNT = 300001 };
    static float w[COUNT];
    for (int i = 0; i < COUNT; i++) {
        w[i] = (float)(i % 1000) * 0.25f - 60;
    }
    w[200000] = NAN;
    w[200005] = INFINITY;
    seen whole = {0};
    static const int64_t cores[] = {1, 2, 3, 5, 40};
    for (size_t c = 0; c < sizeof cores / sizeof *cores; c++) {
        td_deck *deck =
            open_deck((td_deck_options){.busy_cores = cores[c], .run_parts = run_backwards});
        parts_run = 0;
        mem.count = 0;
        assert_int_equal(td_deck_track(deck, .form = TD_STATS | TD_HISTOGRAM | TD_TENSOR), TD_OK);
        assert_int_equal(td_deck_record(deck, "w", floats(w, COUNT)), TD_OK);
        assert_int_equal(td_deck_step(deck, 1, 1), TD_OK);
        close_deck(deck);
        assert_int_equal(parts_run, c == 0 ? 0 : c == 4 ? 9 : cores[c]);
        assert_int_equal(mem.count, 3);
        for (int i = 0; i < 3; i++) {
            const seen *got = &mem.records[i];
            if (got->form == TD_HISTOGRAM && c == 0) {
                whole = *got;
            }
            if (got->form == TD_HISTOGRAM) {
                assert_int_equal(got->bins, whole.bins);
                assert_int_equal(got->bins_total, COUNT - 2);
                assert_int_equal(got->stats.first_nonfinite, 200000);
                assert_int_equal(got->stats.nan, 1);
                assert_int_equal(got->stats.inf, 1);
                assert_int_equal(got->stats.zeros, whole.stats.zeros);
                assert_true(got->stats.min == whole.stats.min);
                assert_true(got->stats.max == whole.stats.max);
                assert_close(got->stats.mean, whole.stats.mean, 1e-12, 0);
                assert_close(got->stats.std, whole.stats.std, 1e-12, 0);
                assert_close(got->stats.norm, whole.stats.norm, 1e-12, 0);
            } else if (got->form == TD_TENSOR) {
                assert_close(got->value, -60, 0, 0);
            }
        }
    }
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
        {{.form = TD_IMAGE}, TD_INVALID, "none of the standard sinks"},
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

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

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
        TEST(nothing_is_recorded_without_a_deck),
        TEST(arguments_that_are_null_are_refused),
        TEST(scalars_arrive_with_epoch_step_and_value_in_order),
        TEST(schedules_pick_their_steps),
        TEST(a_track_of_metrics_leaves_tensors_alone),
        TEST(epochs_end_with_the_last_tensor_and_the_latest_scalar),
        TEST(forms_carry_what_they_say),
        TEST(a_tensor_that_several_tracks_want_is_kept_once),
        TEST(tensors_of_any_size_are_written_in_the_order_they_came),
        TEST(the_end_of_a_step_never_waits_for_what_it_holds),
        TEST(a_step_of_many_small_tensors_has_one_number),
        TEST(samples_are_random_rows_and_the_same_for_the_same_seed),
        TEST(rows_are_not_put_beside_parameters),
        TEST(conditions_write_only_the_steps_for_which_they_hold),
        TEST(history_writes_the_steps_before_a_trigger_once),
        TEST(history_that_does_not_fit_is_said),
        TEST(conditions_see_statistics_that_no_track_records),
        TEST(memory_with_an_owner_is_taken_over_and_given_back_once),
        TEST(a_tensor_is_summed_up_the_same_whoever_does_it),
        TEST(a_tensor_in_parts_is_summed_up_as_a_whole),
        TEST(wrong_tracks_are_refused_with_a_reason),
        TEST(a_run_is_never_overwritten),
        TEST(notes_and_the_decks_own_cost_reach_the_sink),
        TEST(the_folder_is_locked_while_the_deck_is_open),
        TEST(a_folder_that_is_being_written_cannot_be_resumed),
        TEST(what_the_program_says_of_its_end_counts),
        TEST(hostile_names_are_signals_like_others),
        TEST(a_name_in_a_buffer_that_changes_is_looked_up_again),
        TEST(names_are_listed_and_escaped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
