/* Small networks trained for 25 steps: the loss of every step against PyTorch's. */
#include "golden.h"

#include "base/memory.h"

static td_tensor *class_numbers(const golden_tensor *values) {
    td_error error = {0};
    td_tensor *classes = td_tensor_create("y", TD_INT32, values->shape, &error);
    int32_t *to = td_tensor_data(classes);
    for (int64_t i = 0; i < values->count; i++) {
        to[i] = (int32_t)values->values[i];
    }
    return classes;
}

static void run_case(const golden_case *c) {
    td_error error = {0};
    td_model *model = golden_model(c);
    td_loss loss_kind;
    assert_ok(td_loss_find(c->loss, &loss_kind, &error), error);
    td_optimizer_options options = {.size = sizeof options};
    assert_ok(td_optimizer_configure(&options, c->optimizer.kind, c->optimizer.settings,
                                     c->optimizer.count, &error),
              error);
    td_tensor *const *weights, *gradients[GOLDEN_MOST_TENSORS];
    size_t count = td_model_trainable(model, &weights);
    td_optimizer *optimizer = td_optimizer_create(&options, count, weights, &error);
    assert_non_null(optimizer);
    const golden_tensor *input = golden_find(c, "x"), *truth = golden_find(c, "y");
    td_tensor *x = td_tensor_from("x", TD_FLOAT32, input->shape, input->values, &error);
    td_tensor *y = loss_kind == TD_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY
                       ? class_numbers(truth)
                       : td_tensor_from("y", TD_FLOAT32, truth->shape, truth->values, &error);
    td_loss_options loss_options = {.size = sizeof loss_options,
                                    .from_logits = loss_kind != TD_LOSS_MSE};
    td_tape *tape = td_tape_create(NULL, &error);
    td_tape_set_training(tape, c->training);
    const golden_tensor *expected = golden_find(c, "expect.losses");
    td_tensor *losses = td_tensor_create("losses", TD_FLOAT32, expected->shape, &error);
    uint64_t allocations = 0;
    for (int64_t t = 0; t < expected->count; t++) {
        if (t == 3) {
            allocations = td__allocation_count();
        }
        td_tensor *output = td_model_forward(model, tape, x);
        td_tensor *loss = td_loss_compute(tape, loss_kind, output, y, &loss_options);
        if (td_tape_gradient(tape, loss, count, weights, gradients, &error)) {
            fail_msg("%s: %s", c->name, error.text);
        }
        ((float *)td_tensor_data(losses))[t] = td_tensor_scalar(loss);
        assert_ok(td_optimizer_step(optimizer, gradients, &error), error);
        td_tape_reset(tape);
    }
    assert_int_equal(td__allocation_count(), allocations); /* none once warm */
    golden_compare(c->name, expected, losses, 1e-4);
    td_tensor_destroy(losses);
    td_tape_destroy(tape);
    td_tensor_destroy(x);
    td_tensor_destroy(y);
    td_optimizer_destroy(optimizer);
    td_model_destroy(model);
}

static void networks_train_along_pytorchs_loss_curve(void **state) {
    (void)state;
    FILE *file = golden_open("networks.txt");
    static golden_case c;
    size_t count = 0;
    for (; golden_next(file, &c); count++) {
        run_case(&c);
        golden_release(&c);
    }
    (void)fclose(file);
    assert_int_equal(count, 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(networks_train_along_pytorchs_loss_curve)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
