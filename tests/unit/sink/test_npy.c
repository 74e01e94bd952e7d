#include "fixture.h"

static fixture f;

static int open_npy(void **state) {
    (void)state;
    fixture_open(&f, &td__sink_npy, NULL);
    return 0;
}

static int remove_npy(void **state) {
    (void)state;
    if (f.sink) {
        fixture_close(&f);
    }
    fixture_remove(&f);
    return 0;
}

static float values[1 << 20];

static void record(const char *signal, int32_t index, int64_t step, td_shape shape,
                   const int64_t *samples) {
    for (int64_t i = 0; i < 16; i++) {
        values[i] = (float)(step * 100 + i);
    }
    fixture_view(&f, signal, index, TD_TENSOR, step,
                 (td_view){TD_FLOAT32, shape, values, NULL, NULL}, samples);
}

static void numpy_loads_what_was_recorded(void **state) {
    (void)state;
    static const int64_t samples[] = {7, 9};
    for (int64_t step = 1; step <= 300; step++) {
        record("hidden.output", 3, step, TD_SHAPE(2, 3), samples);
        assert_int_equal(f.place.record, step - 1);
    }
    assert_string_equal(f.place.file, "hidden.output.npy");
    fixture_close(&f);
    fixture_python(&f, "import numpy as np\n"
                       "a = np.load('hidden.output.npy'); s = np.load('hidden.output.steps.npy')\n"
                       "assert a.shape == (300, 2, 3) and a.dtype == np.float32\n"
                       "assert s.tolist() == list(range(1, 301))\n"
                       "assert (a == (s * 100)[:, None, None] + np.arange(6).reshape(2, 3)).all()\n"
                       "assert (np.load('hidden.output.samples.npy') == [7, 9]).all()\n"
                       "m = np.load('hidden.output.npy', mmap_mode='r'); assert (m == a).all()");
}

static void every_type_and_rank(void **state) {
    (void)state;
    static const int32_t i32[] = {1, -2};
    static const int64_t i64[] = {INT64_MIN, 5};
    static const uint8_t u8[] = {0, 255};
    static const double f64[] = {0.1, -1e300};
    fixture_view(&f, "i32", 0, TD_TENSOR, 1, (td_view){TD_INT32, TD_SHAPE(2), i32, NULL, NULL},
                 NULL);
    fixture_view(&f, "i64", 1, TD_TENSOR, 1, (td_view){TD_INT64, TD_SHAPE(2, 1), i64, NULL, NULL},
                 NULL);
    fixture_view(&f, "u8", 2, TD_TENSOR, 1, (td_view){TD_UINT8, TD_SHAPE(1, 2), u8, NULL, NULL},
                 NULL);
    fixture_view(&f, "f64", 3, TD_TENSOR, 1,
                 (td_view){TD_FLOAT64, TD_SHAPE(1, 1, 1, 1, 1, 1, 1, 2), f64, NULL, NULL}, NULL);
    fixture_view(&f, "zero", 4, TD_TENSOR, 1, (td_view){TD_FLOAT64, {0}, f64, NULL, NULL}, NULL);
    fixture_view(&f, "empty", 5, TD_TENSOR, 1,
                 (td_view){TD_FLOAT64, TD_SHAPE(0, 3), f64, NULL, NULL}, NULL);
    fixture_view(&f, "empty", 5, TD_TENSOR, 2,
                 (td_view){TD_FLOAT64, TD_SHAPE(0, 3), f64, NULL, NULL}, NULL);
    fixture_scalar(&f, "loss", 6, 1, 0.1);
    fixture_scalar(&f, "loss", 6, 2, 0.2);
    fixture_close(&f);
    fixture_python(&f, "import numpy as np\n"
                       "assert np.load('i32.npy').tolist() == [[1, -2]]\n"
                       "assert np.load('i64.npy').tolist() == [[[-2**63], [5]]]\n"
                       "assert np.load('u8.npy').dtype == np.uint8\n"
                       "assert np.load('f64.npy').shape == (1, 1, 1, 1, 1, 1, 1, 1, 2)\n"
                       "assert np.load('zero.npy').tolist() == [0.1]\n"
                       "assert np.load('empty.npy').shape == (2, 0, 3)\n"
                       "assert np.load('loss.npy').tolist() == [0.1, 0.2]");
}

static void a_short_batch_gets_an_array_of_its_own(void **state) {
    (void)state;
    static const int64_t samples[] = {0, 1, 2, 3};
    for (int64_t epoch = 0; epoch < 2; epoch++) {
        record("x", 0, 3 * epoch + 1, TD_SHAPE(4, 2), samples);
        record("x", 0, 3 * epoch + 2, TD_SHAPE(4, 2), samples);
        record("x", 0, 3 * epoch + 3, TD_SHAPE(1, 2), samples + 3);
    }
    static const double other[] = {1, 2};
    fixture_view(&f, "x", 0, TD_TENSOR, 7, (td_view){TD_FLOAT64, TD_SHAPE(1, 2), other, NULL, NULL},
                 NULL);
    fixture_close(&f);
    fixture_python(&f, "import numpy as np\n"
                       "assert np.load('x.npy').shape == (4, 4, 2)\n"
                       "assert np.load('x.steps.npy').tolist() == [1, 2, 4, 5]\n"
                       "assert np.load('x@1x2.npy').tolist() == [[[300, 301]], [[600, 601]]]\n"
                       "assert np.load('x@1x2.steps.npy').tolist() == [3, 6]\n"
                       "assert np.load('x@1x2.samples.npy').tolist() == [[3], [3]]\n"
                       "assert np.load('x@1x2-float64.npy').tolist() == [[[1, 2]]]");
}

static void large_records_pass_the_buffer_and_are_there_at_once(void **state) {
    (void)state;
    record("small", 0, 1, TD_SHAPE(2, 3), NULL);
    for (int64_t step = 1; step <= 3; step++) {
        record("big", 1, step, TD_SHAPE(4, 1 << 16), NULL);
        fixture_python(&f, "import numpy as np\n"
                           "a = np.load('big.npy'); s = np.load('big.steps.npy')\n"
                           "assert len(a) >= 1 and len(s) >= len(a)\n"
                           "assert (a[:, 0, 0] == s[:len(a)] * 100).all()");
    }
    fixture_close(&f);
}

static void names_of_steps_files_are_not_taken(void **state) {
    (void)state;
    record("x", 0, 1, TD_SHAPE(1), NULL);
    record("x.steps", 1, 1, TD_SHAPE(1), NULL);
    fixture_close(&f);
    fixture_python(&f, "import numpy as np\n"
                       "assert np.load('x.steps.npy').tolist() == [1]\n"
                       "assert np.load('x%2Esteps.npy').tolist() == [[100]]");
}

int main(void) {
#define NPY_TEST(name) cmocka_unit_test_setup_teardown(name, open_npy, remove_npy)
    const struct CMUnitTest tests[] = {
        NPY_TEST(numpy_loads_what_was_recorded),
        NPY_TEST(every_type_and_rank),
        NPY_TEST(a_short_batch_gets_an_array_of_its_own),
        NPY_TEST(large_records_pass_the_buffer_and_are_there_at_once),
        NPY_TEST(names_of_steps_files_are_not_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
