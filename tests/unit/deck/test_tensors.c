/* Tensors on their way to a sink: forms, sizes, samples of rows, and memory that has an owner. */
#include "steps.h"

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

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(forms_carry_what_they_say),
        TEST(a_tensor_that_several_tracks_want_is_kept_once),
        TEST(tensors_of_any_size_are_written_in_the_order_they_came),
        TEST(the_end_of_a_step_never_waits_for_what_it_holds),
        TEST(a_step_of_many_small_tensors_has_one_number),
        TEST(samples_are_random_rows_and_the_same_for_the_same_seed),
        TEST(rows_are_not_put_beside_parameters),
        TEST(memory_with_an_owner_is_taken_over_and_given_back_once),
        TEST(a_tensor_is_summed_up_the_same_whoever_does_it),
        TEST(a_tensor_in_parts_is_summed_up_as_a_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
