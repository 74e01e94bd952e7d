/* One batch through a model: prediction, loss with and without penalties, losses of examples,
 * gradients; a batch that is not full; what can be recorded. */
#include "test.h"

#include "pass/pass.h"

#include <math.h>
#include <string.h>

static const float inputs[] = {1, 2, 3, 4, 5, 6};
static const float truths[] = {1, 0, 2};

static td_model *make_model(void) {
    td_error error = {0};
    td_model *model = td_model_create("", TD_SHAPE(2));
    const td_setting settings[] = {
        {"name", {.kind = TD_VALUE_TEXT, .text = "out"}},
        {"units", {.kind = TD_VALUE_NUMBER, .number = 1}},
        {"activation", {.kind = TD_VALUE_TEXT, .text = "sigmoid"}},
    };
    assert_int_equal(td_model_add(model, "dense", settings, 3, &error), TD_OK);
    assert_int_equal(td_model_build(model, 3, &error), TD_OK);
    return model;
}

static td_batch make_batch(int64_t count) {
    static const int64_t rows[] = {0, 1, 2};
    return (td_batch){.count = count,
                      .rows = rows,
                      .input = {TD_FLOAT32, TD_SHAPE(count, 2), inputs, NULL, NULL},
                      .label = {TD_FLOAT32, TD_SHAPE(count), truths, NULL, NULL}};
}

static const td__objective mse = {.loss = TD_LOSS_MSE,
                                  .options = {.size = sizeof(td_loss_options)}};

static void the_loss_is_the_mean_of_the_examples_losses(void **state) {
    (void)state;
    td_error error = {0};
    td_model *model = make_model();
    td__pass pass = {0};
    td_batch batch = make_batch(3);
    const td_tensor *losses;
    assert_int_equal(td__pass_init(&pass, model, &mse, NULL, &error), TD_OK);
    assert_int_equal(td__pass_forward(&pass, &batch, &error), TD_OK);
    assert_int_equal(td__pass_example_losses(&pass, 0, &losses, &error), TD_OK);
    assert_int_equal(td_tensor_count(losses), 3);
    const float *each = td_tensor_data(losses);
    assert_true(fabsf((each[0] + each[1] + each[2]) / 3 - td_tensor_scalar(pass.bare)) < 1e-6f);
    assert_true(td_tensor_scalar(pass.loss) == td_tensor_scalar(pass.bare));
    td_tensor *kernel = td_model_parameter_at(model, 0)->tensor, *gradient = NULL;
    assert_int_equal(td__pass_backward(&pass, 1, 1, &kernel, &gradient, NULL, &error), TD_OK);
    assert_int_equal(td_tensor_count(gradient), 2);
    td__pass_end(&pass);
    assert_null(pass.loss);
    td__pass_release(&pass);
    td_model_destroy(model);
}

static void without_an_objective_or_a_label_there_is_no_loss(void **state) {
    (void)state;
    td_error error = {0};
    td_model *model = make_model();
    td__pass pass = {0};
    td_batch batch = make_batch(2);
    assert_int_equal(td__pass_init(&pass, model, NULL, NULL, &error), TD_OK);
    assert_int_equal(td__pass_forward(&pass, &batch, &error), TD_OK);
    assert_non_null(pass.prediction);
    assert_null(pass.loss);
    td__pass_end(&pass);
    pass.objective = &mse;
    batch.label.data = NULL;
    assert_int_equal(td__pass_forward(&pass, &batch, &error), TD_OK);
    assert_null(pass.loss);
    td__pass_end(&pass);
    td__pass_release(&pass);
    td_model_destroy(model);
}

static void a_batch_that_is_not_full_is_filled_up_and_cut(void **state) {
    (void)state;
    td_error error = {0};
    td_model *model = make_model();
    td__pass pass = {0}, plain = {0};
    td_batch batch = make_batch(2);
    assert_int_equal(td__pass_init(&pass, model, NULL, NULL, &error), TD_OK);
    assert_int_equal(td__pass_init(&plain, model, NULL, NULL, &error), TD_OK);
    pass.fixed = 3;
    assert_int_equal(td__pass_forward(&plain, &batch, &error), TD_OK);
    float expected[2];
    memcpy(expected, td_tensor_data(plain.prediction), sizeof expected);
    td__pass_end(&plain);
    assert_int_equal(td__pass_forward(&pass, &batch, &error), TD_OK);
    assert_int_equal(td_tensor_count(pass.prediction), 2);
    assert_memory_equal(td_tensor_data(pass.prediction), expected, sizeof expected);
    td__pass_end(&pass);
    td__pass_release(&pass);
    td__pass_release(&plain);
    td_model_destroy(model);
}

static void what_a_model_can_tell_is_listed(void **state) {
    (void)state;
    td_model *model = make_model();
    const td_data_info info = {.input = TD_SHAPE(2), .label_kind = TD_LABEL_VALUES};
    td__pass_signals forward = {0}, all = {0};
    assert_true(td__pass_signals_add_model(&forward, model, &info, &mse, false));
    assert_true(td__pass_signals_add_model(&all, model, &info, &mse, true));
    assert_true(td__pass_signals_match(&forward, "out.preactivation"));
    assert_true(td__pass_signals_match(&forward, "*.output"));
    assert_false(td__pass_signals_match(&forward, "out.error"));
    assert_true(td__pass_signals_match(&all, "out.kernel.update"));
    assert_string_equal(td__pass_signals_nearest(&all, "out.kernl"), "out.kernel");
    assert_null(td__pass_signals_nearest(&all, "nothing.like.it"));
    td__pass_signals_release(&forward);
    td__pass_signals_release(&all);
    td_model_destroy(model);
}

static void what_an_objective_means(void **state) {
    (void)state;
    double threshold;
    td_shape one = TD_SHAPE(1), ten = TD_SHAPE(10);
    td__objective objective = {.loss = TD_LOSS_BINARY_CROSSENTROPY, .options.from_logits = true};
    assert_int_equal(td__scored_classes(&objective, &one, &threshold), 2);
    assert_true(threshold == 0);
    objective.loss = TD_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY;
    assert_int_equal(td__scored_classes(&objective, &ten, &threshold), 10);
    objective.target = TD__TARGET_INPUT;
    assert_int_equal(td__scored_classes(&objective, &ten, &threshold), 0);
    assert_int_equal(td__labels_for(TD_LOSS_CATEGORICAL_CROSSENTROPY, TD_LABEL_CLASS),
                     TD_LABEL_ONE_HOT);
    assert_int_equal(td__labels_for(TD_LOSS_MSE, TD_LABEL_CLASS), TD_LABEL_VALUES);
    assert_int_equal(td__labels_for(TD_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, TD_LABEL_VALUES),
                     TD_LABEL_CLASS);
    assert_string_equal(td__probabilities_by(TD_LOSS_BINARY_CROSSENTROPY), "sigmoid");
    assert_null(td__probabilities_by(TD_LOSS_MSE));
    td_model *model = make_model();
    assert_string_equal(td__output_activation(model, 0), "sigmoid");
    assert_int_equal(td__known_input(model).dims[0], 2);
    td_model_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_loss_is_the_mean_of_the_examples_losses),
        cmocka_unit_test(without_an_objective_or_a_label_there_is_no_loss),
        cmocka_unit_test(a_batch_that_is_not_full_is_filled_up_and_cut),
        cmocka_unit_test(what_a_model_can_tell_is_listed),
        cmocka_unit_test(what_an_objective_means),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
