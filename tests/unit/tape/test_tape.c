#include "test.h"

#include "base/memory.h"
#include "tapedeck/ops.h"
#include "tensor/tensor.h"

/* y = relu(x W + b), one row: values by hand. */
static void gradients_of_a_dense_layer_are_right_by_hand(void **state) {
    (void)state;
    td_error error = {0};
    td_tape *tape = td_tape_create(NULL, &error);
    td_tensor *x = td_tensor_from("x", TD_FLOAT32, TD_SHAPE(1, 2), (float[]){1, 2}, &error);
    td_tensor *w = td_tensor_from("w", TD_FLOAT32, TD_SHAPE(2, 2), (float[]){1, -1, 3, -4}, &error);
    td_tensor *b = td_tensor_from("b", TD_FLOAT32, TD_SHAPE(2), (float[]){0.5f, 0.5f}, &error);
    td_tensor *y = td_dense(tape, x, w, b, TD_RELU);
    assert_non_null(y);
    const float *values = td_tensor_data(y);
    assert_close(values[0], 7.5, 0, 0);
    assert_close(values[1], 0, 0, 0);
    td_tensor *targets[] = {x, w, b, y}, *gradients[4];
    assert_ok(td_tape_gradient(tape, y, 4, targets, gradients, &error), error);
    const float *dx = td_tensor_data(gradients[0]), *dw = td_tensor_data(gradients[1]);
    const float *db = td_tensor_data(gradients[2]), *dy = td_tensor_data(gradients[3]);
    assert_close(dx[0], 1, 0, 0);
    assert_close(dx[1], 3, 0, 0);
    assert_close(dw[0], 1, 0, 0);
    assert_close(dw[1], 0, 0, 0);
    assert_close(dw[2], 2, 0, 0);
    assert_close(dw[3], 0, 0, 0);
    assert_close(db[0], 1, 0, 0);
    assert_close(db[1], 0, 0, 0);
    assert_close(dy[0], 1, 0, 0);
    td_tensor_destroy(x);
    td_tensor_destroy(w);
    td_tensor_destroy(b);
    td_tape_destroy(tape);
}

static void a_target_the_tape_never_saw_is_named(void **state) {
    (void)state;
    td_error error = {0};
    td_tape *tape = td_tape_create(NULL, &error);
    td_tensor *x = td_tensor_create("x", TD_FLOAT32, TD_SHAPE(3), &error);
    td_tensor *stranger = td_tensor_create("stranger", TD_FLOAT32, TD_SHAPE(3, 2), &error);
    td_tensor *y = td_tanh(tape, x), *gradient = NULL;
    assert_int_equal(td_tape_gradient(tape, y, 1, &stranger, &gradient, &error), TD_NOT_FOUND);
    assert_string_equal(
        error.text, "gradient: the tape never saw target 0, 'stranger' of shape (3, 2); give it "
                    "to an operation on this tape first");
    assert_null(gradient);
    td_tensor_destroy(x);
    td_tensor_destroy(stranger);
    td_tape_destroy(tape);
}

static void a_target_the_loss_does_not_depend_on_gets_zeros_and_says_so(void **state) {
    (void)state;
    td_error error = {0};
    td_tape *tape = td_tape_create(NULL, &error);
    td_tensor *x = td_tensor_create("x", TD_FLOAT32, TD_SHAPE(3), &error);
    td_tensor *y = td_tanh(tape, x), *aside = td_sigmoid(tape, x);
    td_tensor *targets[] = {aside, x}, *gradients[2];
    assert_ok(td_tape_gradient(tape, y, 2, targets, gradients, &error), error);
    assert_true(td_tensor_is_disconnected(gradients[0]));
    assert_close(td_tensor_scalar(gradients[0]), 0, 0, 0);
    assert_false(td_tensor_is_disconnected(gradients[1]));
    assert_close(td_tensor_scalar(gradients[1]), 1, 1e-6, 0);
    td_tensor_destroy(x);
    td_tape_destroy(tape);
}

static void a_step_after_the_first_two_allocates_nothing(void **state) {
    (void)state;
    td_error error = {0};
    td_tape *tape = td_tape_create(NULL, &error);
    td_tensor *x = td_tensor_create("x", TD_FLOAT32, TD_SHAPE(64, 300), &error);
    td_tensor *w = td_tensor_create("w", TD_FLOAT32, TD_SHAPE(300, 300), &error);
    uint64_t before = 0;
    for (int step = 0; step < 10; step++) {
        td_tensor *h = td_dense(tape, x, w, NULL, TD_TANH);
        td_tensor *y = td_dense(tape, h, w, NULL, TD_GELU), *gradient;
        assert_ok(td_tape_gradient(tape, y, 1, &w, &gradient, &error), error);
        td_tape_reset(tape);
        if (step == 2) {
            before = td__allocation_count();
        }
    }
    assert_int_equal(td__allocation_count(), before);
    td_tensor_destroy(x);
    td_tensor_destroy(w);
    td_tape_destroy(tape);
}

static void errors_are_sticky_and_the_first_one_is_kept(void **state) {
    (void)state;
    td_error error = {0};
    td_tape *tape = td_tape_create(NULL, &error);
    td_tensor *x = td_tensor_create("x", TD_FLOAT32, TD_SHAPE(4, 3), &error);
    td_tensor *w = td_tensor_create("w", TD_FLOAT32, TD_SHAPE(2, 5), &error);
    td_tensor *y = td_dense(tape, x, w, NULL, TD_LINEAR);
    assert_null(y);
    assert_null(td_tanh(tape, y));
    assert_int_equal(td_tape_status(tape, &error), TD_BAD_SHAPE);
    assert_string_equal(error.text, "dense: input (4, 3) does not fit kernel (2, 5): the input's "
                                    "last dimension must be the kernel's first");
    td_tape_reset(tape);
    assert_int_equal(td_tape_status(tape, &error), TD_OK);
    assert_non_null(td_tanh(tape, x));
    td_tensor_destroy(x);
    td_tensor_destroy(w);
    td_tape_destroy(tape);
}

static void a_kept_view_outlives_the_reset(void **state) {
    (void)state;
    td_error error = {0};
    td_tape *tape = td_tape_create(NULL, &error);
    td_tensor *x = td_tensor_create("x", TD_FLOAT32, TD_SHAPE(64, 1024), &error);
    td_tensor *zero = td_tensor_create("zero", TD_FLOAT32, TD_SHAPE(64, 1024), &error);
    *(float *)td_tensor_data(x) = 0.5f;
    td_tensor *y = td_tanh(tape, x);
    float expected = td_tensor_scalar(y);
    td_view view = td_tape_view(tape, y);
    assert_non_null(view.release);
    for (int step = 0; step < 3; step++) {
        td_tape_reset(tape);
        assert_non_null(td_tanh(tape, zero));
    }
    assert_close(*(const float *)view.data, expected, 0, 0);
    td_tape_destroy(tape);
    assert_close(*(const float *)view.data, expected, 0, 0);
    view.release(view.owner);
    td_tensor_destroy(x);
    td_tensor_destroy(zero);
}

static void a_step_beside_a_kept_view_takes_its_memory_in_one_piece(void **state) {
    (void)state;
    enum { OPERATIONS = 12 };
    td_error error = {0};
    td_tape *tape = td_tape_create(NULL, &error);
    td_tensor *x = td_tensor_create("x", TD_FLOAT32, TD_SHAPE(64, 1024), &error);
    td_view kept = {0};
    size_t reserved = 0;
    for (int step = 0; step < 2; step++) {
        for (int i = 0; i < OPERATIONS; i++) {
            td_tensor *y = td_tanh(tape, x);
            assert_non_null(y);
            if (step == 0 && i == 0) {
                kept = td_tape_view(tape, y);
            }
        }
        assert_true(step == 0 || td_tape_memory(tape) == reserved);
        td_tape_reset(tape);
        reserved = td_tape_memory(tape);
    }
    kept.release(kept.owner);
    td_tensor_destroy(x);
    td_tape_destroy(tape);
}

static void memory_that_is_not_the_tapes_is_not_kept(void **state) {
    (void)state;
    td_error error = {0};
    td_tape *tape = td_tape_create(NULL, &error);
    td_tensor *x = td_tensor_create("x", TD_FLOAT32, TD_SHAPE(64, 1024), &error);
    td_tensor *passed = td_stop_gradient(tape, td_reshape(tape, x, TD_SHAPE(64, 32, 32)));
    assert_ptr_equal(td_tensor_data(passed), td_tensor_data(x));
    assert_null(td_tape_view(tape, passed).release);
    assert_null(td_tape_view(tape, x).release);
    td_view own = td_tape_view(tape, td_reshape(tape, td_tanh(tape, x), TD_SHAPE(65536)));
    assert_non_null(own.release);
    own.release(own.owner);
    td_tensor_destroy(x);
    td_tape_destroy(tape);
}

enum { TOLD_STEPS = 6, TOLD_WIDTH = 1 << 18 };

typedef struct told {
    td_tape *tape;
    float expected[TOLD_STEPS]; /* all elements of each gradient are equal */
    td_view held;               /* of the gradient that is reported first, if `hold` */
    bool hold;
    int count;
} told;

static void hear(void *user, size_t index, td_tensor *gradient) {
    told *t = user;
    for (int64_t i = 0; i < TOLD_WIDTH; i++) {
        assert_close(td__floats(gradient)[i], t->expected[index], 0, 1e-6);
    }
    td_view view = td_tape_view(t->tape, gradient);
    assert_non_null(view.release);
    if (t->hold && t->count == 0) {
        t->held = view;
    } else {
        view.release(view.owner);
    }
    t->count++;
}

/* y = relu(relu(… 2 x)), whose gradients go back in place; returns the tape's memory. */
static size_t tell(told *t, size_t kept) {
    td_error error = {0};
    t->tape = td_tape_create(NULL, &error);
    td_tensor *x = td_tensor_create("x", TD_FLOAT32, TD_SHAPE(TOLD_WIDTH), &error);
    for (int64_t i = 0; i < TOLD_WIDTH; i++) {
        td__floats(x)[i] = 1;
    }
    td_tensor *y = x, *targets[TOLD_STEPS], *gradients[TOLD_STEPS] = {0};
    for (int i = 0; i < TOLD_STEPS; i++) {
        targets[i] = y = td_relu(t->tape, td_affine(t->tape, y, 2, 0));
        t->expected[i] = (float)(1 << (TOLD_STEPS - 1 - i));
    }
    t->count = 0;
    assert_ok(
        td_tape_gradient_keep(t->tape, y, kept, TOLD_STEPS, targets, gradients, hear, t, &error),
        error);
    assert_int_equal(t->count, TOLD_STEPS);
    for (size_t i = 0; i < TOLD_STEPS; i++) {
        assert_true(i < kept ? gradients[i] != NULL : gradients[i] == NULL);
        assert_true(i >= kept || td__floats(gradients[i])[7] == t->expected[i]);
    }
    size_t memory = td_tape_memory(t->tape);
    if (t->hold) {
        for (int64_t i = 0; i < TOLD_WIDTH; i++) {
            assert_close(((const float *)t->held.data)[i], t->expected[TOLD_STEPS - 1], 0, 0);
        }
        t->held.release(t->held.owner);
    }
    td_tensor_destroy(x);
    td_tape_destroy(t->tape);
    return memory;
}

static void gradients_that_are_only_told_of_take_no_memory_of_their_own(void **state) {
    (void)state;
    told t = {0};
    size_t all = tell(&t, TOLD_STEPS), none = tell(&t, 0);
    assert_true(all >= none + 3 * TOLD_WIDTH * sizeof(float));
    (void)tell(&t, 2);
}

static void a_view_that_is_held_keeps_a_gradient_that_was_only_told_of(void **state) {
    (void)state;
    told t = {.hold = true};
    (void)tell(&t, 0);
}

static void a_target_that_is_kept_and_told_of_is_kept(void **state) {
    (void)state;
    td_error error = {0};
    told t = {.tape = td_tape_create(NULL, &error), .expected = {2, 2}};
    td_tensor *x = td_tensor_create("x", TD_FLOAT32, TD_SHAPE(TOLD_WIDTH), &error);
    td_tensor *y = td_affine(t.tape, x, 1, 0), *z = td_affine(t.tape, y, 2, 0);
    td_tensor *targets[] = {y, y}, *gradients[1];
    assert_ok(td_tape_gradient_keep(t.tape, z, 1, 2, targets, gradients, hear, &t, &error), error);
    assert_int_equal(t.count, 2);
    assert_close(td__floats(gradients[0])[9], 2, 0, 0);
    td_tensor_destroy(x);
    td_tape_destroy(t.tape);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_of_a_dense_layer_are_right_by_hand),
        cmocka_unit_test(a_target_the_tape_never_saw_is_named),
        cmocka_unit_test(a_target_the_loss_does_not_depend_on_gets_zeros_and_says_so),
        cmocka_unit_test(a_step_after_the_first_two_allocates_nothing),
        cmocka_unit_test(errors_are_sticky_and_the_first_one_is_kept),
        cmocka_unit_test(a_kept_view_outlives_the_reset),
        cmocka_unit_test(a_step_beside_a_kept_view_takes_its_memory_in_one_piece),
        cmocka_unit_test(memory_that_is_not_the_tapes_is_not_kept),
        cmocka_unit_test(gradients_that_are_only_told_of_take_no_memory_of_their_own),
        cmocka_unit_test(a_view_that_is_held_keeps_a_gradient_that_was_only_told_of),
        cmocka_unit_test(a_target_that_is_kept_and_told_of_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
