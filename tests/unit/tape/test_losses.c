/* What the table of operations cannot show: clipped probabilities, extreme logits, NaN, names. */
#include "test.h"

#include "tapedeck/ops.h"

/* The loss and its gradient in the prediction, for one row of n probabilities or logits. */
static float loss_of_row(td_loss loss, bool from_logits, int64_t n, float *p, float *t,
                         float *gradient) {
    td_error error = {0};
    td_tape *tape = td_tape_create(NULL, &error);
    td_tensor *prediction = td_tensor_borrow("p", TD_FLOAT32, TD_SHAPE(1, n), p, &error);
    td_tensor *truth = td_tensor_borrow("t", TD_FLOAT32, TD_SHAPE(1, n), t, &error), *dp;
    td_loss_options options = {.size = sizeof options, .from_logits = from_logits};
    td_tensor *value = td_loss_compute(tape, loss, prediction, truth, &options);
    assert_ok(td_tape_gradient(tape, value, 1, &prediction, &dp, &error), error);
    memcpy(gradient, td_tensor_data(dp), (size_t)n * sizeof *gradient);
    float result = td_tensor_scalar(value);
    td_tensor_destroy(prediction);
    td_tensor_destroy(truth);
    td_tape_destroy(tape);
    return result;
}

/* Keras's epsilon is 1e-7: a probability of 0 costs -ln 1e-7, and no slope leads out of there. */
static void impossible_probabilities_cost_a_finite_amount(void **state) {
    (void)state;
    float d[2];
    float value =
        loss_of_row(TD_LOSS_BINARY_CROSSENTROPY, false, 2, (float[]){0, 1}, (float[]){1, 0}, d);
    assert_close(value, (16.11809565 + 15.94238515) / 2, 1e-5, 0); /* 1 - 1e-7 in float32 */
    assert_close(d[0], 0, 0, 0);
    assert_close(d[1], 0, 0, 0);
    value = loss_of_row(TD_LOSS_CATEGORICAL_CROSSENTROPY, false, 2, (float[]){0, 1},
                        (float[]){1, 0}, d);
    assert_close(value, 16.11809565, 1e-5, 0);
    value = loss_of_row(TD_LOSS_KL_DIVERGENCE, false, 2, (float[]){0, 1}, (float[]){1, 0}, d);
    assert_close(value, 16.11809565, 1e-5, 1e-5);
    assert_close(d[0], 0, 0, 0);
}

static void the_right_answer_costs_nothing(void **state) {
    (void)state;
    float d[2], p[2] = {1, 0};
    assert_close(loss_of_row(TD_LOSS_BINARY_CROSSENTROPY, false, 2, p, (float[]){1, 0}, d), 0, 0,
                 2e-7);
    assert_close(loss_of_row(TD_LOSS_CATEGORICAL_CROSSENTROPY, false, 2, p, (float[]){1, 0}, d), 0,
                 0, 2e-7);
    assert_close(loss_of_row(TD_LOSS_MAE, false, 2, p, (float[]){1, 0}, d), 0, 0, 0);
    assert_close(d[0], 0, 0, 0); /* no slope at the tip */
}

static void a_nan_is_not_hidden(void **state) {
    (void)state;
    for (int loss = 0; loss < TD_LOSS_COUNT; loss++) {
        float d[3];
        if (loss == TD_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY) {
            continue;
        }
        float p[] = {0.25f, NAN, 0.5f}, t[] = {0.5f, 0.25f, 0.25f};
        assert_true(isnan(loss_of_row((td_loss)loss, false, 3, p, t, d)));
    }
    float d[3];
    assert_true(isnan(loss_of_row(TD_LOSS_CATEGORICAL_CROSSENTROPY, true, 3, (float[]){0, NAN, 1},
                                  (float[]){1, 0, 0}, d)));
    assert_true(isnan(loss_of_row(TD_LOSS_BINARY_CROSSENTROPY, true, 3, (float[]){0, NAN, 1},
                                  (float[]){1, 0, 0}, d)));
}

static void extreme_logits_have_finite_values_and_gradients(void **state) {
    (void)state;
    float d[3], z[] = {1e5f, -1e5f, 0}, t[] = {0, 1, 0};
    assert_close(loss_of_row(TD_LOSS_CATEGORICAL_CROSSENTROPY, true, 3, z, t, d), 2e5, 1e-6, 0);
    assert_close(d[0], 1, 1e-6, 0);
    assert_close(d[1], -1, 1e-6, 0);
    assert_close(d[2], 0, 0, 1e-6);
    assert_close(loss_of_row(TD_LOSS_BINARY_CROSSENTROPY, true, 3, z, t, d), (2e5 + 0.69314718) / 3,
                 1e-6, 0);
    assert_close(d[1], -1.0 / 3, 1e-6, 0);
}

static void losses_are_found_by_name(void **state) {
    (void)state;
    for (int i = 0; i < TD_LOSS_COUNT; i++) {
        td_loss loss = TD_LOSS_COUNT;
        td_error error = {0};
        assert_ok(td_loss_find(td_loss_name((td_loss)i), &loss, &error), error);
        assert_int_equal(loss, i);
    }
    td_loss loss = TD_LOSS_MAE;
    td_error error = {0};
    assert_int_equal(td_loss_find("hubert", &loss, &error), TD_NOT_FOUND);
    assert_string_equal(error.text, "there is no loss 'hubert'; did you mean 'huber'?");
    assert_int_equal(loss, TD_LOSS_MAE);
    assert_int_equal(td_loss_find("perplexity", &loss, &error), TD_NOT_FOUND);
    assert_non_null(strstr(error.text, "there is no loss 'perplexity'; there are mse, mae, "));
    assert_null(td_loss_name(TD_LOSS_COUNT));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(impossible_probabilities_cost_a_finite_amount),
        cmocka_unit_test(the_right_answer_costs_nothing),
        cmocka_unit_test(a_nan_is_not_hidden),
        cmocka_unit_test(extreme_logits_have_finite_values_and_gradients),
        cmocka_unit_test(losses_are_found_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
