/* Operations against PyTorch: activations, softmax, matrix products and losses; outputs, and the
 * gradients of all inputs. */
#include "golden.h"

static double number(const golden_item *item, const char *key, double otherwise) {
    for (size_t i = 0; i < item->count; i++) {
        if (strcmp(item->settings[i].key, key) == 0) {
            const td_value *value = &item->settings[i].value;
            return value->kind == TD_VALUE_BOOL ? (double)value->boolean : value->number;
        }
    }
    return otherwise;
}

static bool flag(const golden_item *item, const char *key) {
    return number(item, key, 0) > 0;
}

enum { X, B, TRUTH, SAMPLE_WEIGHT, COTANGENT, INPUTS };
static const char *const input_names[INPUTS] = {"x", "b", "truth", "sample_weight", "cotangent"};

static td_tensor *build(td_tape *tape, const golden_item *op, td_tensor *const in[INPUTS]) {
    td_activation activation;
    td_loss loss;
    if (strcmp(op->kind, "matmul") == 0) {
        return td_matmul(tape, in[X], in[B],
                         &(td_matmul_options){.size = sizeof(td_matmul_options),
                                              .transpose_a = flag(op, "transpose_a"),
                                              .transpose_b = flag(op, "transpose_b")});
    }
    if (strcmp(op->kind, "softmax") == 0) {
        return td_softmax(tape, in[X], (int32_t)number(op, "axis", -1));
    }
    if (strcmp(op->kind, "log_softmax") == 0) {
        return td_log_softmax(tape, in[X], (int32_t)number(op, "axis", -1));
    }
    if (td_activation_find(op->kind, &activation, NULL) == TD_OK) {
        return td_activate(tape, in[X], activation, TD_DEFAULT);
    }
    td_error error = {0};
    assert_ok(td_loss_find(op->kind, &loss, &error), error);
    double delta = number(op, "delta", 0);
    return td_loss_compute(tape, loss, in[X], in[TRUTH],
                           &(td_loss_options){.size = sizeof(td_loss_options),
                                              .from_logits = flag(op, "from_logits"),
                                              .per_example = flag(op, "per_example"),
                                              .sample_weight = in[SAMPLE_WEIGHT],
                                              .delta = delta > 0 ? TD_SET(delta) : TD_DEFAULT,
                                              .label_smoothing = number(op, "label_smoothing", 0)});
}

/* The truth of sparse losses is class numbers. */
static td_tensor *make_input(const golden_case *c, int i) {
    const golden_tensor *given = golden_find(c, input_names[i]);
    if (!given) {
        return NULL;
    }
    td_error error = {0};
    bool classes = i == TRUTH && strncmp(c->layers[0].kind, "sparse", 6) == 0;
    td_tensor *tensor =
        classes ? td_tensor_create(given->name, TD_INT64, given->shape, &error)
                : td_tensor_from(given->name, TD_FLOAT32, given->shape, given->values, &error);
    assert_non_null(tensor);
    for (int64_t k = 0; classes && k < given->count; k++) {
        ((int64_t *)td_tensor_data(tensor))[k] = (int64_t)given->values[k];
    }
    return tensor;
}

static void run_case(const golden_case *c) {
    td_error error = {0};
    td_tensor *in[INPUTS];
    for (int i = 0; i < INPUTS; i++) {
        in[i] = make_input(c, i);
    }
    td_tape *tape = td_tape_create(NULL, &error);
    td_tensor *y = build(tape, &c->layers[0], in);
    td_tensor *loss = td_sum(tape, td_multiply(tape, y, in[COTANGENT]), NULL);
    if (td_tape_status(tape, &error)) {
        fail_msg("%s: %s", c->name, error.text);
    }
    const golden_tensor *output = golden_find(c, "expect.output");
    assert_non_null(output);
    golden_compare(c->name, output, y, 1e-5);
    for (int i = 0; i < INPUTS; i++) {
        char name[96];
        (void)snprintf(name, sizeof name, "expect.%s.gradient", input_names[i]);
        const golden_tensor *expected = golden_find(c, name);
        td_tensor *gradient = NULL;
        if (expected) {
            assert_ok(td_tape_gradient(tape, loss, 1, &in[i], &gradient, &error), error);
            golden_compare(c->name, expected, gradient, 1e-5);
        }
    }
    td_tape_destroy(tape);
    for (int i = 0; i < INPUTS; i++) {
        td_tensor_destroy(in[i]);
    }
}

static void operations_agree_with_pytorch(void **state) {
    (void)state;
    FILE *file = fopen(TD_TEST_FOLDER "/golden/ops.txt", "r");
    assert_non_null(file);
    static golden_case c;
    int count = 0;
    for (; golden_next(file, &c); count++) {
        assert_int_equal(c.layer_count, 1);
        run_case(&c);
        golden_release(&c);
    }
    fclose(file);
    assert_true(count > 90); /* all of them were read */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(operations_agree_with_pytorch)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
