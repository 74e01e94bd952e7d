/* Every layer against PyTorch (layers.txt) or Keras (keras_layers.txt): output, the error at the model's
 * input, gradients of its parameters, and what it leaves behind (moving averages). The layer is called
 * `it`, and is the last. */
#include "golden.h"

static double tolerance(const char *name) {
    return strstr(name, "long") ? 1e-4 : 1e-5;
}

/* `expect.output`, `expect.input.error`, `expect.it.kernel.gradient`, `expect.it.moving_mean` */
static void check(const golden_case *c, td_model *model, td_tape *tape, td_tensor *x,
                  td_tensor *loss) {
    td_error error = {0};
    for (size_t i = 0; i < c->tensor_count; i++) {
        const golden_tensor *expected = &c->tensors[i];
        char name[96];
        if (strncmp(expected->name, "expect.", 7) != 0) {
            continue;
        }
        (void)snprintf(name, sizeof name, "%s", expected->name + 7);
        td_tensor *wanted = NULL, *result = NULL;
        char *gradient = strstr(name, ".gradient");
        if (strcmp(name, "output") == 0) {
            result = td_model_output(model, "it");
        } else if (strcmp(name, "input.error") == 0) {
            wanted = x;
        } else if (gradient) {
            *gradient = 0;
            wanted = td_model_parameter(model, "it", name + 3);
            assert_non_null(wanted);
        } else {
            result = td_model_parameter(model, "it", name + 3);
        }
        if (wanted) {
            assert_ok(td_tape_gradient(tape, loss, 1, &wanted, &result, &error), error);
        }
        golden_compare(c->name, expected, result, tolerance(c->name));
    }
}

static void run_case(const golden_case *c, bool keep_preactivation) {
    td_error error = {0};
    td_model *model = golden_model(c);
    if (keep_preactivation) {
        assert_ok(td_model_keep_preactivation(model, NULL, true, &error), error);
    }
    const golden_tensor *input = golden_find(c, "x"), *weights = golden_find(c, "weight");
    td_tensor *x = td_tensor_from("x", TD_FLOAT32, input->shape, input->values, &error);
    td_tensor *weight =
        td_tensor_from("weight", TD_FLOAT32, weights->shape, weights->values, &error);
    td_tape *tape = td_tape_create(NULL, &error);
    td_tape_set_training(tape, c->training);
    td_tensor *y = td_model_forward(model, tape, x);
    td_tensor *loss = td_sum(tape, td_multiply(tape, y, weight), NULL);
    if (td_tape_status(tape, &error)) {
        fail_msg("%s: %s", c->name, error.text);
    }
    td_shape planned = td_model_layer(model, td_model_layer_count(model) - 1)->output;
    td_shape got = td_tensor_shape(y);
    assert_int_equal(planned.rank + 1, got.rank);
    for (int32_t i = 0; i < planned.rank; i++) {
        assert_int_equal(planned.dims[i], got.dims[i + 1]);
    }
    check(c, model, tape, x, loss);
    td_tape_destroy(tape);
    td_tensor_destroy(x);
    td_tensor_destroy(weight);
    td_model_destroy(model);
}

static size_t run_file(const char *name, bool keep_preactivation, bool *seen) {
    FILE *file = golden_open(name);
    static golden_case c;
    size_t count = 0;
    for (; golden_next(file, &c); count++) {
        for (size_t i = 0; i < c.layer_count; i++) {
            td_layer_kind kind;
            assert_ok(td_layer_kind_find(c.layers[i].kind, &kind, NULL), (td_error){0});
            seen[kind] = true;
        }
        run_case(&c, keep_preactivation);
        golden_release(&c);
    }
    (void)fclose(file);
    return count;
}

/* An input has no values of its own. */
static bool has_values(int kind) {
    return kind != TD_LAYER_CUSTOM && kind != TD_LAYER_INPUT;
}

static void run_all(bool keep_preactivation) {
    bool seen[TD_LAYER_KIND_COUNT] = {0};
    assert_true(run_file("layers.txt", keep_preactivation, seen) > 60);
    assert_true(run_file("keras_layers.txt", keep_preactivation, seen) > 50);
    for (int i = 0; i < TD_LAYER_KIND_COUNT; i++) {
        if (!seen[i] && has_values(i)) {
            fail_msg("no golden values for %s", td_layer_kind_name((td_layer_kind)i));
        }
    }
}

static void layers_agree_with_pytorch_and_keras(void **state) {
    (void)state;
    run_all(false);
}

static void layers_agree_with_others_when_preactivations_are_kept(void **state) {
    (void)state;
    run_all(true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_agree_with_pytorch_and_keras),
        cmocka_unit_test(layers_agree_with_others_when_preactivations_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
