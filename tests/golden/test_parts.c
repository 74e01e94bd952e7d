/* Schedules and metrics against values that Keras 3.15 gave (tests/interop/test_keras_parts.py compares
 * more of them live). */
#include "test.h"

#include "tapedeck/nn.h"

typedef struct number_setting {
    const char *key;
    double value;
} number_setting;

static void schedules_have_the_rates_of_keras(void **state) {
    (void)state;
    static const uint64_t steps[] = {0, 1, 5, 10, 19, 25, 40, 77};
    static const struct {
        const char *kind;
        number_setting settings[3];
        double rates[8];
    } cases[] = {
        {"exponential_decay",
         {{"decay_steps", 7}, {"decay_rate", 0.9}},
         {0.1, 0.098506123, 0.09275046, 0.086026482, 0.07512787, 0.068640493, 0.054768212,
          0.031381052}},
        {"inverse_time_decay",
         {{"decay_steps", 5}, {"decay_rate", 0.5}},
         {0.1, 0.090909094, 0.06666667, 0.050000001, 0.034482758, 0.028571429, 0.02, 0.011494254}},
        {"polynomial_decay",
         {{"decay_steps", 20}, {"end_learning_rate", 0.01}, {"power", 2}},
         {0.1, 0.091224998, 0.060625002, 0.032499999, 0.010225, 0.0099999998, 0.0099999998,
          0.0099999998}},
        {"cosine_decay",
         {{"decay_steps", 30}, {"alpha", 0.1}},
         {0.1, 0.099753484, 0.093971148, 0.077500001, 0.036696848, 0.016028857, 0.010000001,
          0.010000001}},
        {"cosine_decay",
         {{"decay_steps", 30}, {"warmup_target", 0.4}, {"warmup_steps", 9}},
         {0.1, 0.13333334, 0.26666668, 0.39890438, 0.30000001, 0.17909428, 0, 0}},
        {"cosine_decay_restarts",
         {{"first_decay_steps", 9}, {"m_mul", 0.8}, {"alpha", 0.2}},
         {0.1, 0.097587705, 0.053054072, 0.083513848, 0.046443254, 0.021929836, 0.056419026,
          0.05725624}},
        {"cosine_decay_restarts",
         {{"first_decay_steps", 9}, {"t_mul", 1}},
         {0.1, 0.096984632, 0.041317586, 0.096984625, 0.096984625, 0.011697787, 0.058682378,
          0.041317623}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        td_setting settings[3];
        size_t count = 0;
        for (; count < 3 && cases[c].settings[count].key; count++) {
            settings[count] =
                (td_setting){cases[c].settings[count].key,
                             {.kind = TD_VALUE_NUMBER, .number = cases[c].settings[count].value}};
        }
        td_schedule schedule = {0};
        td_error error = {0};
        assert_ok(td_schedule_configure(&schedule, cases[c].kind, settings, count, &error), error);
        for (size_t i = 0; i < 8; i++) {
            assert_close(td_schedule_rate(&schedule, 0.1, steps[i]), cases[c].rates[i], 2e-6, 1e-9);
        }
    }
}

/* Seven rows in batches of four and three. */
static void metrics_have_the_values_of_keras(void **state) {
    (void)state;
    const float p[] = {.7f,  .2f,  .1f, .1f,  .6f, .3f, .2f, .3f, .5f, .4f, .35f,
                       .25f, .05f, .9f, .05f, .3f, .3f, .4f, .1f, .2f, .7f};
    const int32_t y[] = {0, 1, 1, 2, 1, 0, 2};
    const struct {
        const td_metric_options *options;
        double value;
    } cases[] = {
        {TD_METRIC(.kind = TD_METRIC_PRECISION), 1},
        {TD_METRIC(.kind = TD_METRIC_PRECISION, .threshold = TD_SET(0.25)), 0.5},
        {TD_METRIC(.kind = TD_METRIC_PRECISION, .k = 1), 0.5714286},
        {TD_METRIC(.kind = TD_METRIC_PRECISION, .class_id = TD_SET(1)), 1},
        {TD_METRIC(.kind = TD_METRIC_RECALL), 0.5714286},
        {TD_METRIC(.kind = TD_METRIC_RECALL, .threshold = TD_SET(0.25)), 0.85714287},
        {TD_METRIC(.kind = TD_METRIC_F1), 0.56666666},
        {TD_METRIC(.kind = TD_METRIC_F1, .average = TD_AVERAGE_MICRO), 0.57142854},
        {TD_METRIC(.kind = TD_METRIC_F1, .average = TD_AVERAGE_WEIGHTED), 0.59999996},
        {TD_METRIC(.kind = TD_METRIC_F1, .threshold = TD_SET(0.3)), 0.52222216},
        {TD_METRIC(.kind = TD_METRIC_AUC), 0.83673465},
        {TD_METRIC(.kind = TD_METRIC_AUC, .curve = TD_CURVE_PR), 0.78853482},
        {TD_METRIC(.kind = TD_METRIC_AUC, .thresholds = 5, .summation = TD_SUMMATION_MAJORING),
         0.93877548},
        {TD_METRIC(.kind = TD_METRIC_AUC, .thresholds = 5, .curve = TD_CURVE_PR,
                   .summation = TD_SUMMATION_MINORING),
         0.61904764},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        td_error error = {0};
        td_metric *metric = td_metric_create(cases[c].options, &error);
        assert_non_null(metric);
        for (int64_t from = 0; from < 7; from += 4) {
            int64_t rows = from ? 3 : 4;
            td_tensor *prediction =
                td_tensor_from("p", TD_FLOAT32, TD_SHAPE(rows, 3), p + 3 * from, &error);
            td_tensor *truth = td_tensor_from("y", TD_INT32, TD_SHAPE(rows), y + from, &error);
            assert_ok(td_metric_update(metric, prediction, truth, &error), error);
            td_tensor_destroy(prediction);
            td_tensor_destroy(truth);
        }
        assert_close(td_metric_value(metric), cases[c].value, 1e-6, 1e-7);
        td_metric_destroy(metric);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schedules_have_the_rates_of_keras),
        cmocka_unit_test(metrics_have_the_values_of_keras),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
