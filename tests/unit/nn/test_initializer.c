/* Initial values: spreads as Keras has them, orthogonality, independence of other layers. */
#include "test.h"

#include "tapedeck/nn.h"

static td_model *one_dense_of(td_initializer initializer, int64_t in, int64_t units,
                              uint64_t seed) {
    td_error error = {0};
    td_model *model = td_model_create("m", TD_SHAPE(in));
    td_add_dense(model, .name = "d", .units = units, .kernel_initializer = initializer);
    assert_ok(td_model_build(model, seed, &error), error);
    return model;
}

static td_model *one_dense(td_initializer_kind kind, int64_t in, int64_t units, uint64_t seed) {
    return one_dense_of((td_initializer){.kind = kind}, in, units, seed);
}

static void spreads_are_keras(void **state) {
    (void)state;
    const double in = 300, out = 500;
    const struct {
        td_initializer_kind initializer;
        double deviation, largest;
    } cases[] = {
        {TD_GLOROT_UNIFORM, sqrt(2 / (in + out)), sqrt(6 / (in + out))},
        {TD_GLOROT_NORMAL, sqrt(2 / (in + out)), 2 * sqrt(2 / (in + out)) / 0.8796},
        {TD_HE_UNIFORM, sqrt(2 / in), sqrt(6 / in)},
        {TD_HE_NORMAL, sqrt(2 / in), 2 * sqrt(2 / in) / 0.8796},
        {TD_LECUN_UNIFORM, sqrt(1 / in), sqrt(3 / in)},
        {TD_LECUN_NORMAL, sqrt(1 / in), 2 * sqrt(1 / in) / 0.8796},
        {TD_RANDOM_UNIFORM, 0.05 / sqrt(3), 0.05},
        {TD_RANDOM_NORMAL, 0.05, 0.05 * 6},
        {TD_TRUNCATED_NORMAL, 0.05 * 0.8796, 0.1},
        {TD_ONES, 0, 1},
        {TD_ZEROS, 0, 0},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        td_model *model = one_dense(cases[c].initializer, (int64_t)in, (int64_t)out, 11);
        const td_tensor *kernel = td_model_parameter(model, "d", "kernel");
        const float *values = td_tensor_data(kernel);
        double sum = 0, squares = 0, largest = 0, count = in * out;
        for (int64_t i = 0; i < td_tensor_count(kernel); i++) {
            double value = (double)values[i];
            sum += value;
            squares += value * value;
            largest = fmax(largest, fabs(value));
        }
        double mean = sum / count;
        assert_close(sqrt(fmax(0, squares / count - mean * mean)), cases[c].deviation, 0.01, 1e-6);
        assert_true(largest <= cases[c].largest * 1.0001);
        assert_true(largest >= cases[c].largest * 0.6);
        td_model_destroy(model);
    }
}

typedef struct spread {
    double mean, deviation, least, most;
} spread;

static spread spread_of(td_initializer initializer, int64_t in, int64_t out) {
    td_model *model = one_dense_of(initializer, in, out, 11);
    const td_tensor *kernel = td_model_parameter(model, "d", "kernel");
    const float *values = td_tensor_data(kernel);
    double sum = 0, squares = 0, count = (double)td_tensor_count(kernel);
    spread s = {.least = INFINITY, .most = -INFINITY};
    for (int64_t i = 0; i < td_tensor_count(kernel); i++) {
        double value = (double)values[i];
        sum += value;
        squares += value * value;
        s.least = fmin(s.least, value);
        s.most = fmax(s.most, value);
    }
    s.mean = sum / count;
    s.deviation = sqrt(fmax(0, squares / count - s.mean * s.mean));
    td_model_destroy(model);
    return s;
}

/* 150 000 numbers: a mean is off by 0.0026 deviations, a deviation by 0.2 %; five of those are
 * allowed. */
static void parameters_shape_the_distribution(void **state) {
    (void)state;
    const int64_t in = 300, out = 500;
    const struct {
        td_initializer initializer;
        double mean, deviation, least, most;
    } cases[] = {
        {{.kind = TD_RANDOM_NORMAL, .mean = 1, .stddev = TD_SET(2)}, 1, 2, -20, 20},
        {{.kind = TD_RANDOM_NORMAL, .stddev = TD_SET(0), .mean = -3}, -3, 0, -3, -3},
        {{.kind = TD_TRUNCATED_NORMAL, .mean = 1, .stddev = TD_SET(2)}, 1, 2 * 0.8796, -3, 5},
        {{.kind = TD_RANDOM_UNIFORM, .minval = TD_SET(1), .maxval = TD_SET(3)},
         2,
         1 / sqrt(3),
         1,
         3},
        {{.kind = TD_RANDOM_UNIFORM, .minval = TD_SET(0), .maxval = TD_SET(1)},
         0.5,
         sqrt(1.0 / 12),
         0,
         1},
        {{.kind = TD_VARIANCE_SCALING}, 0, sqrt(1.0 / 300), -0.14, 0.14},
        {{.kind = TD_VARIANCE_SCALING, .scale = TD_SET(3), .mode = TD_FAN_OUT},
         0,
         sqrt(3.0 / 500),
         -0.18,
         0.18},
        {{.kind = TD_VARIANCE_SCALING, .mode = TD_FAN_AVG, .distribution = TD_DISTRIBUTION_UNIFORM},
         0,
         sqrt(1.0 / 400),
         -0.0867,
         0.0867},
        {{.kind = TD_VARIANCE_SCALING, .distribution = TD_DISTRIBUTION_UNTRUNCATED_NORMAL},
         0,
         sqrt(1.0 / 300),
         -1,
         1},
        {{.kind = TD_CONSTANT, .value = 0.25}, 0.25, 0, 0.25, 0.25},
        {{.kind = TD_CONSTANT}, 0, 0, 0, 0},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        spread s = spread_of(cases[c].initializer, in, out);
        assert_close(s.mean, cases[c].mean, 0, 0.013 * cases[c].deviation + 1e-7);
        assert_close(s.deviation, cases[c].deviation, 0.01, 1e-6);
        assert_true(s.least >= cases[c].least && s.most <= cases[c].most);
    }
    /* Three standard deviations of an untruncated distribution are reached, of a truncated not. */
    spread open = spread_of((td_initializer){.kind = TD_VARIANCE_SCALING,
                                             .distribution = TD_DISTRIBUTION_UNTRUNCATED_NORMAL},
                            in, out);
    assert_true(open.most > 3 * sqrt(1.0 / 300));
}

static void identity_is_exact(void **state) {
    (void)state;
    td_model *model =
        one_dense_of((td_initializer){.kind = TD_IDENTITY, .gain = TD_SET(-2)}, 3, 5, 1);
    const float *w = td_tensor_data(td_model_parameter(model, "d", "kernel"));
    for (int i = 0; i < 15; i++) {
        assert_true(w[i] == (i % 6 == 0 ? -2.0f : 0.0f));
    }
    td_model_destroy(model);
    td_error error = {0};
    model = td_model_create("m", TD_SHAPE(4, 4, 1));
    td_add_conv2d(model, .name = "c", .filters = 2, .kernel = {3},
                  .kernel_initializer = {.kind = TD_IDENTITY});
    assert_int_equal(td_model_build(model, 1, &error), TD_BAD_SHAPE);
    assert_non_null(strstr(error.text, "layer 'c' (conv2d): kernel (3, 3, 1, 2) is no matrix"));
    td_model_destroy(model);
}

static void equal_seeds_give_equal_numbers(void **state) {
    (void)state;
    td_error error = {0};
    td_model *model = td_model_create("m", TD_SHAPE(6));
    td_initializer zero = {.kind = TD_HE_NORMAL, .seed = TD_SET(0)},
                   five = {.kind = TD_HE_NORMAL, .seed = TD_SET(5)};
    td_add_dense(model, .name = "a", .units = 6, .kernel_initializer = zero);
    td_add_dense(model, .name = "b", .units = 6, .kernel_initializer = zero);
    td_add_dense(model, .name = "c", .units = 6, .kernel_initializer = five);
    assert_ok(td_model_build(model, 77, &error), error);
    const void *a = td_tensor_data(td_model_parameter(model, "a", "kernel"));
    const void *b = td_tensor_data(td_model_parameter(model, "b", "kernel"));
    const void *c = td_tensor_data(td_model_parameter(model, "c", "kernel"));
    assert_memory_equal(a, b, 36 * sizeof(float));
    assert_memory_not_equal(a, c, 36 * sizeof(float));
    td_model_destroy(model);
}

static td_setting number(const char *key, double value) {
    return (td_setting){key, {.kind = TD_VALUE_NUMBER, .number = value}};
}

static td_status add_choice(td_model *model, const char *name, const td_setting *inner,
                            size_t count, td_error *error) {
    td_setting settings[] = {
        number("units", 2),
        {"kernel_initializer",
         {.kind = TD_VALUE_CHOICE, .text = name, .settings = inner, .count = count}},
    };
    return td_model_add(model, "dense", settings, 2, error);
}

static void choices_are_read_and_written(void **state) {
    (void)state;
    td_error error = {0};
    td_model *model = td_model_create("m", TD_SHAPE(3));
    td_setting inner[] = {number("stddev", 0), number("seed", 0)};
    assert_ok(add_choice(model, "random_normal", inner, 2, &error), error);
    td_setting usual[] = {number("stddev", 0.05)};
    assert_ok(add_choice(model, "random_normal", usual, 1, &error), error);
    const td_layer_info *first = td_model_layer(model, 0), *second = td_model_layer(model, 1);
    for (size_t i = 0; i < first->setting_count; i++) {
        const td_value *one = &first->settings[i].value, *two = &second->settings[i].value;
        if (!strcmp(first->settings[i].key, "kernel_initializer")) {
            assert_int_equal(one->kind, TD_VALUE_CHOICE);
            assert_int_equal(one->count, 3);
            assert_string_equal(one->settings[1].key, "stddev");
            assert_true(one->settings[1].value.number == 0);
            assert_string_equal(one->settings[2].key, "seed");
            assert_int_equal(two->kind, TD_VALUE_TEXT); /* nothing but defaults */
            assert_string_equal(two->text, "random_normal");
        }
    }
    assert_ok(td_model_build(model, 1, &error), error);
    const float *w = td_tensor_data(td_model_parameter(model, "dense", "kernel"));
    assert_true(w[0] == 0 && w[5] == 0);
    td_model_destroy(model);
}

static void wrong_parameters_are_named(void **state) {
    (void)state;
    td_model *model = td_model_create("m", TD_SHAPE(3));
    td_setting deviation[] = {number("deviation", 1)};
    td_setting negative[] = {number("stddev", -1)};
    td_setting turned[] = {number("minval", 2), number("maxval", 1)};
    td_setting word[] = {{"mode", {.kind = TD_VALUE_TEXT, .text = "fan_inn"}}};
    const struct {
        const char *name, *text;
        const td_setting *inner;
        size_t count;
    } cases[] = {
        {"random_normal", "there is no 'deviation'; there are mean, stddev, seed", deviation, 1},
        {"random_normal", "'stddev' is -1, it must be 0 or more", negative, 1},
        {"random_uniform", "'minval' 2 is above 'maxval' 1", turned, 2},
        {"variance_scaling", "there is no mode 'fan_inn'; did you mean 'fan_in'?", word, 1},
        {"zeros", "zeros has no options", negative, 1},
        {"random_norml", "there is no initializer 'random_norml'; did you mean 'random_normal'?",
         NULL, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        td_error error = {0};
        assert_true(add_choice(model, cases[i].name, cases[i].inner, cases[i].count, &error) !=
                    TD_OK);
        if (!strstr(error.text, cases[i].text)) {
            fail_msg("'%s' lacks '%s'", error.text, cases[i].text);
        }
        assert_non_null(strstr(error.text, "'kernel_initializer'"));
    }
    td_model_destroy(model);
}

/* rows x columns with orthonormal columns, or rows when there are fewer of those. */
static void check_orthogonal(int64_t rows, int64_t columns) {
    td_model *model = one_dense(TD_ORTHOGONAL, rows, columns, 3);
    const float *w = td_tensor_data(td_model_parameter(model, "d", "kernel"));
    bool by_rows = rows <= columns;
    int64_t vectors = by_rows ? rows : columns, length = by_rows ? columns : rows;
    for (int64_t a = 0; a < vectors; a++) {
        for (int64_t b = 0; b <= a; b++) {
            double dot = 0;
            for (int64_t i = 0; i < length; i++) {
                dot += by_rows ? (double)w[a * columns + i] * (double)w[b * columns + i]
                               : (double)w[i * columns + a] * (double)w[i * columns + b];
            }
            assert_close(dot, a == b ? 1 : 0, 0, 1e-5);
        }
    }
    td_model_destroy(model);
}

static void orthogonal_is_orthogonal(void **state) {
    (void)state;
    check_orthogonal(30, 30);
    check_orthogonal(17, 60);
    check_orthogonal(60, 17);
    check_orthogonal(1, 5);
    for (int64_t rows = 4; rows <= 8; rows += 4) { /* both ways round */
        td_model *plain = one_dense(TD_ORTHOGONAL, rows, 6, 3);
        td_model *scaled =
            one_dense_of((td_initializer){.kind = TD_ORTHOGONAL, .gain = TD_SET(2)}, rows, 6, 3);
        const float *a = td_tensor_data(td_model_parameter(plain, "d", "kernel"));
        const float *b = td_tensor_data(td_model_parameter(scaled, "d", "kernel"));
        for (int64_t i = 0; i < rows * 6; i++) {
            assert_true(2 * a[i] == b[i]);
        }
        td_model_destroy(plain);
        td_model_destroy(scaled);
    }
}

static void normalizations_start_as_told(void **state) {
    (void)state;
    td_error error = {0};
    td_model *model = td_model_create("m", TD_SHAPE(4));
    td_add_batch_normalization(model, .name = "b",
                               .gamma_initializer = {.kind = TD_CONSTANT, .value = 3},
                               .moving_variance_initializer = {.kind = TD_CONSTANT, .value = 0.5});
    td_add_layer_normalization(model, .name = "l", .beta_initializer = {.kind = TD_ONES});
    assert_ok(td_model_build(model, 1, &error), error);
    const char *const names[][2] = {{"b", "gamma"},           {"b", "beta"}, {"b", "moving_mean"},
                                    {"b", "moving_variance"}, {"l", "beta"}, {"l", "gamma"}};
    const float expected[] = {3, 0, 0, 0.5f, 1, 1};
    for (size_t i = 0; i < 6; i++) {
        const float *values = td_tensor_data(td_model_parameter(model, names[i][0], names[i][1]));
        assert_true(values[0] == expected[i] && values[3] == expected[i]);
    }
    td_model_destroy(model);
}

static void a_parameter_does_not_depend_on_other_layers(void **state) {
    (void)state;
    td_error error = {0};
    td_model *alone = one_dense(TD_GLOROT_UNIFORM, 4, 6, 9);
    td_model *other = one_dense(TD_GLOROT_UNIFORM, 4, 6, 10);
    td_model *among = td_model_create("m", TD_SHAPE(4));
    td_add_dense(among, .name = "before", .units = 4);
    td_add_dense(among, .name = "d", .units = 6);
    assert_ok(td_model_build(among, 9, &error), error);
    const void *a = td_tensor_data(td_model_parameter(alone, "d", "kernel"));
    const void *b = td_tensor_data(td_model_parameter(among, "d", "kernel"));
    const void *c = td_tensor_data(td_model_parameter(other, "d", "kernel"));
    assert_memory_equal(a, b, 24 * sizeof(float));
    assert_memory_not_equal(a, c, 24 * sizeof(float));
    td_model_destroy(alone);
    td_model_destroy(other);
    td_model_destroy(among);
}

static void the_forget_gate_starts_open(void **state) {
    (void)state;
    td_error error = {0};
    td_model *model = td_model_create("m", TD_SHAPE(5, 2));
    td_add_lstm(model, .name = "open", .units = 3, .return_sequences = true);
    td_add_lstm(model, .name = "plain", .units = 3, .no_unit_forget_bias = true);
    assert_ok(td_model_build(model, 1, &error), error);
    const float *open = td_tensor_data(td_model_parameter(model, "open", "bias"));
    const float *plain = td_tensor_data(td_model_parameter(model, "plain", "bias"));
    for (int i = 0; i < 12; i++) {
        assert_true(open[i] == (i >= 3 && i < 6 ? 1 : 0));
        assert_true(plain[i] == 0);
    }
    td_model_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spreads_are_keras),
        cmocka_unit_test(parameters_shape_the_distribution),
        cmocka_unit_test(identity_is_exact),
        cmocka_unit_test(equal_seeds_give_equal_numbers),
        cmocka_unit_test(choices_are_read_and_written),
        cmocka_unit_test(wrong_parameters_are_named),
        cmocka_unit_test(normalizations_start_as_told),
        cmocka_unit_test(orthogonal_is_orthogonal),
        cmocka_unit_test(a_parameter_does_not_depend_on_other_layers),
        cmocka_unit_test(the_forget_gate_starts_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
