/* A step computed twice: the operation is named whose bits are others the second time. */
#include "test.h"

#include "tape/op.h"
#include "tapedeck/ops.h"
#include "train/verify.h"

#include <string.h>

enum fault { NO_FAULT, FORWARD_FAULT, BACKWARD_FAULT, UPDATE_FAULT };

typedef struct network {
    td_tape *tape;
    td_tensor *x, *truth, *a, *b;
} network;

static td_tensor *filled(const char *name, td_shape shape, float scale) {
    td_tensor *tensor = td_tensor_create(name, TD_FLOAT32, shape, NULL);
    assert_non_null(tensor);
    float *values = td_tensor_data(tensor);
    for (int64_t i = 0; i < td_tensor_count(tensor); i++) {
        values[i] = scale * (float)(i * 37 % 11 - 5);
    }
    return tensor;
}

/* One bit of one number, as a fault of the hardware would. */
static void flip(td_tensor *tensor) {
    uint32_t bits;
    float *value = (float *)td_tensor_data(tensor) + 1;
    memcpy(&bits, value, sizeof bits);
    bits ^= 1 << 18;
    memcpy(value, &bits, sizeof bits);
}

static void compute(const network *n, td__verify *verify, bool second, enum fault fault) {
    td_tensor *targets[] = {n->a, n->b}, *gradients[2];
    td__verify_begin(verify, n->tape, second);
    if (second && fault == FORWARD_FAULT) {
        flip(n->b);
    }
    td__label(n->tape, "layer 'first'");
    td_tensor *h = td_dense(n->tape, n->x, n->a, NULL, TD_TANH);
    td__label(n->tape, "layer 'second'");
    td_tensor *y = td_dense(n->tape, h, n->b, NULL, TD_LINEAR);
    td__label(n->tape, NULL);
    td_tensor *loss = td_mse(n->tape, y, n->truth, NULL);
    if (second && fault == BACKWARD_FAULT) {
        flip(n->b);
    }
    assert_int_equal(td_tape_gradient(n->tape, loss, 2, targets, gradients, NULL), TD_OK);
    if (second && fault == UPDATE_FAULT) {
        flip(n->a);
    }
    td__verify_parameter(verify, 0, n->a, "sgd");
    td__verify_parameter(verify, 1, n->b, "sgd");
    td__verify_end(verify, n->tape);
    td_tape_reset(n->tape);
}

static void check_fault(enum fault fault, const char *expected) {
    network n = {.tape = td_tape_create(NULL, NULL),
                 .x = filled("x", TD_SHAPE(3, 4), 0.1f),
                 .truth = filled("truth", TD_SHAPE(3, 2), 0.3f),
                 .a = filled("first.kernel", TD_SHAPE(4, 5), 0.05f),
                 .b = filled("second.kernel", TD_SHAPE(5, 2), 0.07f)};
    td__verify verify = {0};
    compute(&n, &verify, false, fault);
    compute(&n, &verify, true, fault);
    assert_string_equal(verify.differs, expected);
    assert_int_equal(verify.steps, 1);
    assert_int_equal(verify.differing, fault != NO_FAULT);
    assert_null(n.tape->watch);
    td__verify_release(&verify);
    td_tensor_destroy(n.x);
    td_tensor_destroy(n.truth);
    td_tensor_destroy(n.a);
    td_tensor_destroy(n.b);
    td_tape_destroy(n.tape);
}

static void same_bits_are_no_difference(void **state) {
    (void)state;
    check_fault(NO_FAULT, "");
}

static void the_operation_is_named(void **state) {
    (void)state;
    check_fault(FORWARD_FAULT, "dense of layer 'second', forward");
    check_fault(BACKWARD_FAULT, "dense of layer 'second', backward");
    check_fault(UPDATE_FAULT, "sgd, the update of first.kernel");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_are_no_difference),
        cmocka_unit_test(the_operation_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
