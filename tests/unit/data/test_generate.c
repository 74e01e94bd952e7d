#include "support.h"

/* All inputs and labels of a generated set, for the caller to free. */
typedef struct made {
    td_dataset *data;
    const td_data_info *info;
    float *input;
    float *label;
    int64_t width;
} made;

static made make(td_generate_options options, uint64_t seed) {
    made m = {.data = open_data(
                  TD_DATA(.generate = options, .seed = seed, .label_kind = TD_LABEL_VALUES))};
    m.info = td_dataset_info(m.data);
    m.width = 1;
    for (int d = 0; d < m.info->input.rank; d++) {
        m.width *= m.info->input.dims[d];
    }
    m.input = calloc((size_t)(m.info->training * m.width), sizeof *m.input);
    m.label = calloc((size_t)m.info->training, sizeof *m.label);
    assert_true(m.input && m.label);
    td_error error = {0};
    for (int64_t row = 0; row < m.info->training; row++) {
        assert_ok(td_dataset_read(m.data, TD_TRAINING, &row, 1, m.input + row * m.width,
                                  m.label + row, &error),
                  error);
    }
    return m;
}

static void release(made *m) {
    td_dataset_close(m->data);
    free(m->input);
    free(m->label);
}

static void the_adding_problem_sums_two_marked_numbers(void **state) {
    (void)state;
    made m = make((td_generate_options){.name = "adding", .length = 11, .examples = 200}, 3);
    char text[TD_SHAPE_TEXT_SIZE];
    assert_string_equal(td_shape_text(&m.info->input, text), "(11, 2)");
    assert_int_equal(m.info->training, 200);
    for (int64_t row = 0; row < 200; row++) {
        const float *x = m.input + row * 22;
        float sum = 0;
        int first = 0, second = 0;
        for (int t = 0; t < 11; t++) {
            assert_true(x[2 * t] >= 0 && x[2 * t] < 1);
            assert_true(x[2 * t + 1] == 0 || x[2 * t + 1] == 1);
            sum += x[2 * t + 1] * x[2 * t];
            first += t < 5 && x[2 * t + 1] == 1;
            second += t >= 5 && x[2 * t + 1] == 1;
        }
        assert_int_equal(first, 1);
        assert_int_equal(second, 1);
        assert_close(m.label[row], sum, 1e-6, 0);
    }
    release(&m);
}

/* A sine obeys x[t + 1] = 2 cos(step) x[t] - x[t - 1]. */
static void a_sine_series_is_followed_by_its_next_value(void **state) {
    (void)state;
    made m = make((td_generate_options){.name = "sine", .length = 20, .examples = 100}, 3);
    for (int64_t row = 0; row < 100; row++) {
        const float *x = m.input + row * 20;
        int t = 1;
        while (fabsf(x[t]) < 0.5f) {
            t++;
        }
        double twice_cosine = ((double)x[t + 1] + (double)x[t - 1]) / (double)x[t];
        assert_close(m.label[row], twice_cosine * (double)x[19] - (double)x[18], 0, 1e-4);
    }
    release(&m);
}

static void classes_can_be_told_from_the_inputs(void **state) {
    (void)state;
    made m = make((td_generate_options){.name = "xor", .examples = 8}, 1);
    for (int row = 0; row < 8; row++) {
        assert_true(m.label[row] == (float)(m.input[2 * row] != m.input[2 * row + 1]));
    }
    release(&m);

    m = make((td_generate_options){.name = "two_moons", .examples = 300}, 1);
    for (int row = 0; row < 300; row++) {
        double x = (double)m.input[2 * row], y = (double)m.input[2 * row + 1];
        double radius = m.label[row] == 0 ? hypot(x, y) : hypot(x - 1, y - 0.5);
        assert_close(radius, 1, 1e-5, 0);
    }
    release(&m);

    m = make(
        (td_generate_options){
            .name = "blobs", .classes = 4, .features = 3, .spread = 0.5, .examples = 4000},
        1);
    double mean[4][3] = {0}, square = 0;
    for (int row = 0; row < 4000; row++) {
        for (int i = 0; i < 3; i++) {
            mean[(int)m.label[row]][i] += (double)m.input[3 * row + i] / 1000;
        }
    }
    for (int row = 0; row < 4000; row++) {
        for (int i = 0; i < 3; i++) {
            double d = (double)m.input[3 * row + i] - mean[(int)m.label[row]][i];
            square += d * d / 12000;
        }
    }
    assert_close(sqrt(square), 0.5, 0.05, 0);
    release(&m);
}

static void images_show_one_figure_each(void **state) {
    (void)state;
    made m = make((td_generate_options){.name = "images", .classes = 6, .examples = 60}, 1);
    char text[TD_SHAPE_TEXT_SIZE];
    assert_string_equal(td_shape_text(&m.info->input, text), "(16, 16, 1)");
    for (int64_t row = 0; row < 60; row++) {
        int lit = 0;
        for (int64_t i = 0; i < m.width; i++) {
            float value = m.input[row * m.width + i];
            assert_true(value == 0 || (value >= 0.5f && value <= 1));
            lit += value > 0;
        }
        assert_true(lit >= 8 && lit <= 128);
        assert_true(m.label[row] >= 0 && m.label[row] < 6);
    }
    release(&m);
}

static void a_set_depends_on_its_seed_alone(void **state) {
    (void)state;
    td_generate_options options = {.name = "sine", .examples = 50, .noise = 0.1};
    made a = make(options, 1), b = make(options, 1), c = make(options, 2);
    size_t size = (size_t)(50 * a.width) * sizeof(float);
    assert_memory_equal(a.input, b.input, size);
    assert_memory_not_equal(a.input, c.input, size);
    release(&a);
    release(&b);
    release(&c);
}

static void fields_are_set_by_name(void **state) {
    (void)state;
    td_error error = {0};
    td_generate_options options = {.name = "adding"};
    assert_ok(td_generate_set(&options, "length", 7, &error), error);
    assert_int_equal(options.length, 7);
    assert_int_equal(td_generate_set(&options, "lenght", 7, &error), TD_NOT_FOUND);
    assert_non_null(strstr(error.text, "did you mean 'length'"));
    assert_non_null(strstr(error.text, "examples, length"));
    assert_int_equal(td_generate_set(&options, "noise", 7, &error), TD_NOT_FOUND);
    assert_int_equal(td_generate_set(&options, "length", 7.5, &error), TD_RANGE);
    assert_int_equal(td_generate_set(&options, "length", NAN, &error), TD_RANGE);
    assert_int_equal(options.length, 7);
    options.name = "ading";
    assert_int_equal(td_generate_set(&options, "length", 7, &error), TD_NOT_FOUND);
    assert_non_null(strstr(error.text, "did you mean 'adding'"));
}

static void impossible_sets_are_refused(void **state) {
    (void)state;
    assert_refused(TD_DATA(.generate = {.name = "moons"}), TD_NOT_FOUND, "'moons'", "two_moons");
    assert_refused(TD_DATA(.generate = {.name = "images", .classes = 7}), TD_RANGE, "classes is 7",
                   "2 to 6");
    assert_refused(TD_DATA(.generate = {.name = "xor", .length = 7}), TD_NOT_FOUND, "'length'");
    assert_refused(
        TD_DATA(.generate = {.name = "adding", .length = 1000000, .examples = INT32_MAX}), TD_RANGE,
        "`memory`");
    assert_refused(TD_DATA(.generate = {.name = "adding", .length = INT64_MIN}), TD_RANGE,
                   "length");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_adding_problem_sums_two_marked_numbers),
        cmocka_unit_test(a_sine_series_is_followed_by_its_next_value),
        cmocka_unit_test(classes_can_be_told_from_the_inputs),
        cmocka_unit_test(images_show_one_figure_each),
        cmocka_unit_test(a_set_depends_on_its_seed_alone),
        cmocka_unit_test(fields_are_set_by_name),
        cmocka_unit_test(impossible_sets_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
