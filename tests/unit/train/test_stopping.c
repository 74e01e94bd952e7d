/* The best epoch, patience, and when a checkpoint is cheap. */
#include "test.h"

#include "train/trainer.h"

#include <math.h>

static const td__train_spec plain = {0};

static void what_is_better_follows_the_name_or_the_mode(void **state) {
    (void)state;
    assert_false(td__best_of(&plain, "val_loss", TD__MODE_AUTO, 0).larger);
    assert_true(td__best_of(&plain, "val_accuracy", TD__MODE_AUTO, 0).larger);
    assert_true(td__best_of(&plain, "r2", TD__MODE_AUTO, 0).larger);
    assert_true(td__best_of(&plain, "val_loss", TD__MODE_MAX, 0).larger);
    assert_false(td__best_of(&plain, "accuracy", TD__MODE_MIN, 0).larger);
}

static void a_metric_is_what_it_is_by_any_name(void **state) {
    (void)state;
    td__metric_spec specs[] = {{.name = "loss_of_money", .options.kind = TD_METRIC_RECALL},
                               {.name = "accuracy_gap", .options.kind = TD_METRIC_MAE}};
    td__train_spec train = {.metrics = specs, .metric_count = 2};
    assert_true(td__best_of(&train, "val_loss_of_money", TD__MODE_AUTO, 0).larger);
    assert_true(td__best_of(&train, "loss_of_money_12", TD__MODE_AUTO, 0).larger);
    assert_false(td__best_of(&train, "accuracy_gap", TD__MODE_AUTO, 0).larger);
    assert_false(td__best_of(&train, "val_loss", TD__MODE_AUTO, 0).larger);
}

static void the_best_is_better_by_the_margin_and_no_nan(void **state) {
    (void)state;
    td__best best = td__best_of(&plain, "loss", TD__MODE_AUTO, 0.1);
    assert_false(td__best_take(&best, (double)NAN, 1));
    assert_true(td__best_take(&best, 1.0, 2));
    assert_false(td__best_take(&best, 0.95, 3));
    assert_true(td__best_take(&best, 0.85, 4));
    assert_int_equal(best.epoch, 4);
    assert_false(td__best_take(&best, (double)NAN, 5));
    assert_true(best.value == 0.85);
}

static void patience_ends_and_the_best_weights_come_back(void **state) {
    (void)state;
    td_error error = {0};
    td_model *model = td_model_create("", TD_SHAPE(2));
    td_setting units = {"units", {.kind = TD_VALUE_NUMBER, .number = 3}};
    assert_int_equal(td_model_add(model, "dense", &units, 1, &error), TD_OK);
    assert_int_equal(td_model_build(model, 1, &error), TD_OK);
    td__train_spec train = {
        .stop_monitor = "val_loss", .stop_patience = 2, .stop_restore_best = true};
    td__stopping stopping = {0};
    assert_int_equal(td__stopping_init(&stopping, &train, model, &error), TD_OK);
    float *kernel = td_tensor_data(td_model_parameter_at(model, 0)->tensor);
    const double losses[] = {3, 1, 2, (double)NAN, 1.5};
    for (int i = 0; i < 5; i++) {
        kernel[0] = (float)i;
        assert_false(stopping.stopped);
        td__stopping_take(&stopping, losses[i], i + 1, model);
    }
    assert_true(stopping.stopped);
    assert_string_equal(stopping.text, "val_loss has not improved on 1 (epoch 2) for 2 epochs");
    td__stopping_restore(&stopping, model);
    assert_true(kernel[0] == 1);
    td__stopping_release(&stopping);
    td_model_destroy(model);
}

static void checkpoints_take_a_hundredth_of_the_time_at_most(void **state) {
    (void)state;
    assert_false(td__checkpoint_is_cheap(0, 0.01, 0.5));
    assert_true(td__checkpoint_is_cheap(0, 0.01, 1.5));
    assert_false(td__checkpoint_is_cheap(0.01, 0.01, 1.5));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_better_follows_the_name_or_the_mode),
        cmocka_unit_test(a_metric_is_what_it_is_by_any_name),
        cmocka_unit_test(the_best_is_better_by_the_margin_and_no_nan),
        cmocka_unit_test(patience_ends_and_the_best_weights_come_back),
        cmocka_unit_test(checkpoints_take_a_hundredth_of_the_time_at_most),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
