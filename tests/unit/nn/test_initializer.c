/* Initial values: spreads as Keras has them, orthogonality, independence of other layers. */
#include "test.h"

#include "tapedeck/nn.h"

static td_model *one_dense(td_initializer initializer, int64_t in, int64_t units, uint64_t seed) {
    td_error error = {0};
    td_model *model = td_model_create("m", TD_SHAPE(in));
    td_add_dense(model, .name = "d", .units = units, .kernel_initializer = initializer);
    assert_ok(td_model_build(model, seed, &error), error);
    return model;
}

static void spreads_are_keras(void **state) {
    (void)state;
    const double in = 300, out = 500;
    const struct {
        td_initializer initializer;
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
        cmocka_unit_test(orthogonal_is_orthogonal),
        cmocka_unit_test(a_parameter_does_not_depend_on_other_layers),
        cmocka_unit_test(the_forget_gate_starts_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
