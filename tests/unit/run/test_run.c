/* A run read back through the library: while it is written, after it, and when memory runs out. */
#include "test.h"

#include "base/memory.h"
#include "tapedeck/run.h"

#include <unistd.h>

enum { STEPS = 40 };

static char base[64], folder[96];

static int setup(void **state) {
    (void)state;
    strcpy(base, "/tmp/tapedeck-XXXXXX");
    if (!mkdtemp(base)) {
        return -1;
    }
    snprintf(folder, sizeof folder, "%s/run", base);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", base);
    return system(command);
}

/* loss = 1/step at every step; w: a tensor, its statistics and its histogram every 10. */
static td_deck *record(void) {
    td_error error = {0};
    td_deck *deck = td_deck_open(folder, &error);
    assert_non_null(deck);
    td_deck_track(deck, .what = "loss");
    td_deck_track(deck, .what = "w", .every = 10, .form = TD_TENSOR, .to = "npy");
    td_deck_track(deck, .what = "w", .every = 10, .form = TD_STATS | TD_HISTOGRAM, .to = "csv");
    for (int64_t step = 1; step <= STEPS; step++) {
        float w[4] = {(float)step, 0, -1, 0.5f};
        td_view view = {.dtype = TD_FLOAT32, .shape = TD_SHAPE(2, 2), .data = w};
        assert_int_equal(td_deck_scalar(deck, "loss", 1.0 / (double)step), TD_OK);
        assert_int_equal(td_deck_record(deck, "w", view), TD_OK);
        assert_int_equal(td_deck_step(deck, 1 + step / 20, step), TD_OK);
    }
    assert_ok(td_deck_flush(deck, &error), error);
    return deck;
}

static td_run_state state_now(void) {
    td_error error = {0};
    td_run *run = td_run_open(folder, &error);
    assert_non_null(run);
    td_run_info info = {.size = sizeof info};
    td_run_about(run, &info);
    assert_int_equal(info.last_step, STEPS);
    assert_string_equal(info.name, "run");
    td_run_close(run);
    return info.state;
}

static void a_run_is_read_while_it_is_written_and_after(void **state) {
    (void)state;
    td_error error = {0};
    td_deck *deck = record();
    assert_int_equal(state_now(), TD_RUN_RUNNING);
    assert_ok(td_deck_close(deck, &error), error);
    assert_int_equal(state_now(), TD_RUN_FINISHED);
}

static void points_are_single_steps_or_keep_lowest_and_highest(void **state) {
    (void)state;
    td_error error = {0};
    assert_ok(td_deck_close(record(), &error), error);
    td_run *run = td_run_open(folder, &error);
    assert_null(td_run_signal_at(run, td_run_signal_count(run)));
    const td_run_signal *loss = td_run_signal_find(run, "loss");
    assert_non_null(loss);
    assert_int_equal(loss->forms, TD_SCALAR);
    td_point points[STEPS];
    assert_int_equal(td_run_points(run, loss, NULL, INT64_MIN, INT64_MAX, points, STEPS, NULL),
                     STEPS);
    for (int i = 0; i < STEPS; i++) {
        assert_int_equal(points[i].step, i + 1);
        assert_true(points[i].value == 1.0 / (i + 1));
    }
    bool sampled = true;
    assert_int_equal(td_run_points(run, loss, NULL, INT64_MIN, INT64_MAX, points, 4, &sampled), 4);
    assert_false(sampled);
    assert_int_equal(points[1].step, 20);
    assert_true(points[1].low == 1.0 / 20 && points[1].high == 1.0 / 11);
    const td_run_signal *w = td_run_signal_find(run, "w");
    assert_int_equal(w->forms, TD_TENSOR | TD_STATS | TD_HISTOGRAM);
    assert_int_equal(td_run_points(run, w, "max", 15, 35, points, STEPS, NULL), 2);
    assert_true(points[0].value == 20 && points[1].value == 30);
    assert_int_equal(td_run_points(run, w, "nonsense", 1, 40, points, STEPS, NULL), 0);
    td_run_close(run);
}

typedef struct seen {
    int64_t records, last_step, tensors, bins;
    bool undated; /* steps may have no epoch: memory ran out, and that is reported */
} seen;

static td_status look(void *user, const td_record *record, td_error *error) {
    (void)error;
    seen *s = user;
    assert_true(record->step >= s->last_step);
    s->last_step = record->step;
    s->records++;
    if (!s->undated || record->epoch) {
        assert_int_equal(record->epoch, 1 + record->step / 20);
        assert_true(record->wall_time > 1.6e9);
    }
    if (record->form == TD_TENSOR) {
        s->tensors++;
        assert_true(((const float *)record->view->data)[0] == (float)record->step);
        assert_int_equal(record->view->shape.rank, 2);
    } else if (record->form == TD_HISTOGRAM) {
        for (int32_t i = 0; i < record->histogram->bin_count; i++) {
            s->bins += (int64_t)td_histogram_range(record->histogram, i).count;
        }
    }
    return TD_OK;
}

static void values_are_what_was_recorded_step_by_step(void **state) {
    (void)state;
    td_error error = {0};
    assert_ok(td_deck_close(record(), &error), error);
    td_run *run = td_run_open(folder, &error);
    td_run_value values[STEPS];
    const td_run_signal *loss = td_run_signal_find(run, "loss"), *w = td_run_signal_find(run, "w");
    assert_int_equal(td_run_values(run, loss, NULL, 3, INT64_MAX, values, 5), 5);
    assert_int_equal(values[4].step, 7);
    assert_true(values[4].value == 1.0 / 7);
    assert_int_equal(values[4].nonfinite, 0);
    assert_int_equal(td_run_values(run, w, "max", INT64_MIN, INT64_MAX, values, STEPS), 4);
    assert_int_equal(values[1].step, 20);
    assert_true(values[1].value == 20);
    assert_int_equal(td_run_values(run, w, "step; --", INT64_MIN, INT64_MAX, values, STEPS), 0);
    td_run_step when;
    assert_true(td_run_when(run, 19, &when));
    assert_int_equal(when.epoch, 1);
    assert_true(td_run_when(run, -5, &when));
    assert_int_equal(when.step, 1);
    assert_true(td_run_when(run, INT64_MAX, &when));
    assert_int_equal(when.epoch, 3);
    td_run_close(run);
}

static td_status keep_example(void *user, const td_example *example, td_error *error) {
    (void)error;
    td_example *kept = user;
    assert_int_equal(example->count, 2);
    assert_true(isnan(example->values[1]));
    *kept = *example;
    return TD_OK;
}

static void examples_are_read_with_their_labels(void **state) {
    (void)state;
    td_error error = {0};
    td_deck *deck = td_deck_open(folder, &error);
    td_deck_track(deck, .what = "prediction", .form = TD_ROWS, .to = "sqlite");
    const int64_t rows[2] = {11, 7};
    const float labels[2] = {1, 0}, values[4] = {0.5f, NAN, 2, NAN};
    td_view label_view = {.dtype = TD_FLOAT32, .shape = TD_SHAPE(2), .data = labels};
    td_view view = {.dtype = TD_FLOAT32, .shape = TD_SHAPE(2, 2), .data = values};
    assert_int_equal(td_deck_batch_labels(deck, rows, 2, &label_view), TD_OK);
    assert_int_equal(td_deck_record(deck, "prediction", view), TD_OK);
    assert_int_equal(td_deck_step(deck, 1, 4), TD_OK);
    assert_ok(td_deck_close(deck, &error), error);
    td_run *run = td_run_open(folder, &error);
    const td_run_signal *prediction = td_run_signal_find(run, "prediction");
    assert_int_equal(prediction->forms, TD_ROWS);
    td_example last = {0};
    assert_ok(td_run_examples(run, prediction, 9, keep_example, &last, &error), error);
    assert_int_equal(last.step, 4);
    assert_int_equal(last.sample, 11);
    assert_true(last.label == 1);
    assert_int_equal(td_run_examples(run, prediction, 3, keep_example, &last, &error),
                     TD_NOT_FOUND);
    td_run_close(run);
}

static void records_come_by_step_with_their_tensors(void **state) {
    (void)state;
    td_error error = {0};
    assert_ok(td_deck_close(record(), &error), error);
    td_run *run = td_run_open(folder, &error);
    seen s = {0};
    assert_ok(td_run_read(run, NULL, look, &s, &error), error);
    assert_int_equal(s.records, STEPS + 3 * STEPS / 10);
    assert_int_equal(s.tensors, STEPS / 10);
    assert_int_equal(s.bins, 4 * STEPS / 10);
    s = (seen){0};
    td_run_query query = {.size = sizeof query, .what = "w", .first_step = 15, .last_step = 30};
    assert_ok(td_run_read(run, &query, look, &s, &error), error);
    assert_int_equal(s.records, 6);
    const char *const *problems;
    assert_int_equal(td_run_problems(run, &problems), 0);
    td_run_close(run);
}

static td_status look_at_place(void *user, const td_record *record, td_error *error) {
    (void)error;
    assert_null(record->view);
    assert_string_equal(record->place->file, "w.npy");
    assert_int_equal(record->place->record, (*(int64_t *)user)++);
    return TD_OK;
}

static void places_of_tensors_are_listed_without_loading_them(void **state) {
    (void)state;
    td_error error = {0};
    assert_ok(td_deck_close(record(), &error), error);
    td_run *run = td_run_open(folder, &error);
    td_run_query query = {.size = sizeof query, .what = "w", .forms = TD_TENSOR, .places = true};
    int64_t count = 0;
    assert_ok(td_run_read(run, &query, look_at_place, &count, &error), error);
    assert_int_equal(count, STEPS / 10);
    td_run_close(run);
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    td_error error = {0};
    assert_ok(td_deck_close(record(), &error), error);
    bool failed = true;
    for (uint64_t n = 1; failed; n++) {
        seen s = {.undated = true};
        error = (td_error){0};
        td__allocation_fail_at(n);
        uint64_t before = td__allocation_count();
        td_run *run = td_run_open(folder, &error);
        td_status status = run ? td_run_read(run, NULL, look, &s, &error) : error.status;
        failed = td__allocation_count() - before >= n;
        td__allocation_fail_at(0);
        const char *const *problems;
        bool said = status || (run && td_run_problems(run, &problems) > 0);
        assert_true(said || s.records == STEPS + 3 * STEPS / 10);
        td_run_close(run);
    }
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_run_is_read_while_it_is_written_and_after),
        TEST(points_are_single_steps_or_keep_lowest_and_highest),
        TEST(values_are_what_was_recorded_step_by_step),
        TEST(examples_are_read_with_their_labels),
        TEST(records_come_by_step_with_their_tensors),
        TEST(places_of_tensors_are_listed_without_loading_them),
        TEST(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
