/* Metrics against numbers worked out by hand (and by Keras and scikit-learn where noted). */
#include "test.h"

#include "tapedeck/nn.h"

static td_tensor *floats(td_shape shape, const float *values) {
    td_error error = {0};
    return td_tensor_from("t", TD_FLOAT32, shape, values, &error);
}

/* The value over one batch; both tensors are destroyed. */
static double value_of(const td_metric_options *options, td_tensor *prediction, td_tensor *truth) {
    td_error error = {0};
    td_metric *metric = td_metric_create(options, &error);
    assert_non_null(metric);
    assert_true(isnan(td_metric_value(metric)));
    assert_ok(td_metric_update(metric, prediction, truth, &error), error);
    double value = td_metric_value(metric);
    td_metric_destroy(metric);
    td_tensor_destroy(prediction);
    td_tensor_destroy(truth);
    return value;
}

static const float scores[] = {0.1f, 0.7f, 0.2f, 0.5f, 0.3f, 0.2f,
                               0.2f, 0.3f, 0.5f, 0.6f, 0.3f, 0.1f};

static td_tensor *classes(td_dtype dtype) {
    td_error error = {0};
    const int32_t small[] = {1, 2, 2, 1};
    const int64_t large[] = {1, 2, 2, 1};
    return td_tensor_from("y", dtype, TD_SHAPE(4), dtype == TD_INT32 ? (const void *)small : large,
                          &error);
}

static void accuracy_chooses_by_the_truth(void **state) {
    (void)state;
    const td_metric_options *accuracy = TD_METRIC(.kind = TD_METRIC_ACCURACY);
    assert_close(value_of(accuracy, floats(TD_SHAPE(4, 3), scores), classes(TD_INT32)), 0.5, 0, 0);
    assert_close(value_of(accuracy, floats(TD_SHAPE(4, 3), scores), classes(TD_INT64)), 0.5, 0, 0);
    const float one_hot[] = {0, 1, 0, 0, 0, 1, 0, 0, 1, 0, 1, 0};
    assert_close(
        value_of(accuracy, floats(TD_SHAPE(4, 3), scores), floats(TD_SHAPE(4, 3), one_hot)), 0.5, 0,
        0);
    const float probability[] = {0.9f, 0.4f, 0.5f, 0.6f}, truth[] = {1, 0, 1, 0};
    assert_close(
        value_of(accuracy, floats(TD_SHAPE(4, 1), probability), floats(TD_SHAPE(4), truth)), 0.5, 0,
        0);
    const float logits[] = {0.1f, -0.1f, 2.0f, -3.0f};
    assert_close(value_of(TD_METRIC(.kind = TD_METRIC_BINARY_ACCURACY, .threshold = TD_SET(0)),
                          floats(TD_SHAPE(4, 1), logits), floats(TD_SHAPE(4, 1), truth)),
                 1, 0, 0);
}

static void top_k_counts_the_k_largest(void **state) {
    (void)state;
    const double expected[] = {0.5, 0.75, 1};
    for (int64_t k = 1; k <= 3; k++) {
        assert_close(value_of(TD_METRIC(.kind = TD_METRIC_TOP_K_ACCURACY, .k = k),
                              floats(TD_SHAPE(4, 3), scores), classes(TD_INT32)),
                     expected[k - 1], 0, 0);
    }
}

static void errors_are_means_over_elements(void **state) {
    (void)state;
    const float p[] = {1, 2, 3, 4}, t[] = {1, 0, 4, 8};
    assert_close(value_of(TD_METRIC(.kind = TD_METRIC_MAE), floats(TD_SHAPE(2, 2), p),
                          floats(TD_SHAPE(2, 2), t)),
                 1.75, 1e-12, 0);
    assert_close(value_of(TD_METRIC(.kind = TD_METRIC_MSE), floats(TD_SHAPE(2, 2), p),
                          floats(TD_SHAPE(2, 2), t)),
                 5.25, 1e-12, 0);
}

static void r2_is_the_mean_over_outputs(void **state) {
    (void)state;
    /* sklearn.metrics.r2_score([[0.5, 1], [-1, 1], [7, -6]], [[0, 2], [-1, 2], [8, -5]]) */
    const float t[] = {0.5f, 1, -1, 1, 7, -6}, p[] = {0, 2, -1, 2, 8, -5};
    assert_close(value_of(TD_METRIC(.kind = TD_METRIC_R2), floats(TD_SHAPE(3, 2), p),
                          floats(TD_SHAPE(3, 2), t)),
                 0.9368005266622779, 1e-9, 0);
}

static void batches_accumulate_until_a_reset(void **state) {
    (void)state;
    td_error error = {0};
    for (int kind = 0; kind < TD_METRIC_KIND_COUNT; kind++) {
        td_metric *whole =
            td_metric_create(TD_METRIC(.kind = (td_metric_kind)kind, .k = 2), &error);
        td_metric *parts =
            td_metric_create(TD_METRIC(.kind = (td_metric_kind)kind, .k = 2), &error);
        bool sparse = kind == TD_METRIC_SPARSE_CATEGORICAL_ACCURACY;
        const float truth[] = {0, 1, 0, 0, 0, 1, 0, 0, 1, 0, 1, 0};
        td_tensor *p = floats(TD_SHAPE(4, 3), scores);
        td_tensor *t = sparse ? classes(TD_INT32) : floats(TD_SHAPE(4, 3), truth);
        assert_ok(td_metric_update(whole, p, t, &error), error);
        td_tensor_destroy(p);
        td_tensor_destroy(t);
        for (int pass = 0; pass < 2; pass++) {
            td_metric_reset(parts);
            for (int64_t from = 0; from < 4; from += 3) {
                int64_t rows = from ? 1 : 3;
                p = floats(TD_SHAPE(rows, 3), scores + 3 * from);
                const int32_t numbers[] = {1, 2, 2, 1};
                t = sparse ? td_tensor_from("y", TD_INT32, TD_SHAPE(rows), numbers + from, &error)
                           : floats(TD_SHAPE(rows, 3), truth + 3 * from);
                assert_ok(td_metric_update(parts, p, t, &error), error);
                td_tensor_destroy(p);
                td_tensor_destroy(t);
            }
        }
        double one[9] = {0}, two[9] = {0};
        td_metric_values(parts, one);
        td_metric_values(whole, two);
        for (int i = 0; i < 9; i++) {
            assert_close(one[i], two[i], 1e-12, 0);
        }
        td_metric_destroy(whole);
        td_metric_destroy(parts);
    }
}

static void shapes_that_do_not_fit_are_refused(void **state) {
    (void)state;
    td_error error = {0};
    td_metric *mae = td_metric_create(TD_METRIC(.kind = TD_METRIC_MAE), &error);
    td_tensor *p = floats(TD_SHAPE(4, 3), scores), *t = classes(TD_INT32);
    assert_int_equal(td_metric_update(mae, p, t, &error), TD_BAD_SHAPE);
    assert_string_equal(error.text,
                        "mae: prediction float32 (4, 3) and truth int32 (4,) do not fit");
    td_metric_kind kind;
    assert_int_equal(td_metric_kind_find("acuracy", &kind, &error), TD_NOT_FOUND);
    assert_string_equal(error.text, "there is no metric 'acuracy'; did you mean 'accuracy'?");
    td_metric_destroy(mae);
    td_tensor_destroy(p);
    td_tensor_destroy(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accuracy_chooses_by_the_truth),
        cmocka_unit_test(top_k_counts_the_k_largest),
        cmocka_unit_test(errors_are_means_over_elements),
        cmocka_unit_test(r2_is_the_mean_over_outputs),
        cmocka_unit_test(batches_accumulate_until_a_reset),
        cmocka_unit_test(shapes_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
