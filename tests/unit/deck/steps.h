/* What tests of a deck share: a short training, and what its records must be. */
#ifndef TAPEDECK_TESTS_DECK_STEPS_H
#define TAPEDECK_TESTS_DECK_STEPS_H

#include "memory_sink.h"

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const float ramp[6] = {1, 2, 3, 4, 5, 6};

/* Records `loss` = step / 10 and the tensor `w` in each of some steps. */
static inline void train(td_deck *deck, int64_t first, int64_t last) {
    for (int64_t step = first; step <= last; step++) {
        float w[4] = {(float)step, 0, -1, 2};
        assert_int_equal(td_deck_scalar(deck, "loss", (double)step / 10), TD_OK);
        assert_int_equal(td_deck_record(deck, "w", floats(w, 4)), TD_OK);
        assert_int_equal(td_deck_step(deck, 1, step), TD_OK);
    }
}

static inline int64_t count_of(const char *signal) {
    int64_t count = 0;
    for (int64_t i = 0; i < mem.count; i++) {
        count += strcmp(mem.records[i].signal, signal) == 0;
    }
    return count;
}

static inline void check_steps(const char *signal, const int64_t *steps, size_t count) {
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

static atomic_int released; /* by the writer, too */
static inline void count_release(void *owner) {
    released += *(int *)owner;
}

#endif
