/* A tape for inference gives what any other does, and makes of weights what it needs only once. */
#include "test.h"

#include "base/memory.h"
#include "base/random.h"
#include "tapedeck/ops.h"
#include "tensor/tensor.h"

static td_tensor *random_tensor(const char *name, td_shape shape, uint64_t seed) {
    td_error error = {0};
    td_tensor *tensor = td_tensor_create(name, TD_FLOAT32, shape, &error);
    td__random generator;
    td__random_seed(&generator, seed, 0);
    for (int64_t i = 0; i < tensor->count; i++) {
        td__floats(tensor)[i] = (float)(td__random_uniform(&generator) * 2 - 1);
    }
    return tensor;
}

/* A product with a kernel that is a weight. */
typedef struct product {
    const char *name;
    td_shape x, kernel;
    td_conv_options options;
} product;

static const product products[] = {
    {"dense, one row", {2, {1, 70}}, {2, {70, 48}}, {0}},
    {"dense, uneven", {2, {9, 300}}, {2, {300, 37}}, {0}},
    {"conv", {4, {1, 9, 9, 5}}, {4, {3, 3, 5, 40}}, {.padding = TD_PADDING_SAME}},
    {"grouped conv", {4, {1, 9, 9, 20}}, {4, {3, 3, 10, 40}}, {.groups = 2}},
    {"gru", {3, {1, 5, 40}}, {2, {40, 120}}, {0}},
    {"lstm", {3, {2, 5, 24}}, {2, {24, 96}}, {0}},
    {"simple rnn", {3, {1, 5, 37}}, {2, {37, 37}}, {0}},
    {"conv in transformed tiles", {4, {1, 14, 14, 16}}, {4, {3, 3, 16, 48}}, {0}},
};

/* A recurrence whose kernels are one. */
static td_tensor *run_recurrence(td_tape *tape, td_tensor *x, td_tensor *kernel) {
    td_recurrent_options options = {.size = sizeof options, .return_sequences = true};
    switch (kernel->shape.dims[1] / kernel->shape.dims[0]) {
    case 4:
        return td_lstm(tape, x, kernel, kernel, NULL, &options);
    case 3:
        return td_gru(tape, x, kernel, kernel, NULL, true, &options);
    default:
        return td_simple_rnn(tape, x, kernel, kernel, NULL, &options);
    }
}

static td_tensor *run(td_tape *tape, const product *p, td_tensor *x, td_tensor *kernel) {
    if (p->x.rank == 3) {
        return run_recurrence(tape, x, kernel);
    }
    return p->x.rank == 2 ? td_dense(tape, x, kernel, NULL, TD_RELU)
                          : td_conv2d(tape, x, kernel, NULL, &p->options);
}

static td_tape *tape_for(bool inference) {
    td_error error = {0};
    td_tape *tape = td_tape_create(&(td_tape_options){.size = sizeof(td_tape_options),
                                                      .no_history = true,
                                                      .inference = inference},
                                   &error);
    assert_non_null(tape);
    return tape;
}

static void expect_equal(const td_tensor *a, const td_tensor *b, const char *name) {
    assert_non_null(a);
    assert_non_null(b);
    for (int64_t i = 0; i < a->count; i++) {
        if (!(fabsf(td__floats(a)[i] - td__floats(b)[i]) <= 1e-6f)) {
            fail_msg("%s: element %lld is %.9g, not %.9g", name, (long long)i,
                     (double)td__floats(a)[i], (double)td__floats(b)[i]);
        }
    }
}

static void products_with_weights_are_as_ever(void **state) {
    (void)state;
    for (size_t i = 0; i < TD__COUNT(products); i++) {
        const product *p = &products[i];
        td_tape *usual = tape_for(false), *inference = tape_for(true);
        td_tensor *kernel = random_tensor("kernel", p->kernel, 1);
        kernel->weight = true;
        for (int step = 0; step < 3; step++) {
            td_tensor *x = random_tensor("x", p->x, 2 + (uint64_t)step);
            expect_equal(run(inference, p, x, kernel), run(usual, p, x, kernel), p->name);
            td_tape_reset(usual);
            td_tape_reset(inference);
            td_tensor_destroy(x);
        }
        td_tensor_destroy(kernel);
        td_tape_destroy(usual);
        td_tape_destroy(inference);
    }
}

/* Only of weights: anything else may have changed since. */
static void what_is_made_of_weights_is_made_once(void **state) {
    (void)state;
    for (size_t i = 0; i < TD__COUNT(products); i++) {
        for (int weight = 0; weight < 2; weight++) {
            const product *p = &products[i];
            td_tape *inference = tape_for(true);
            td_tensor *kernel = random_tensor("kernel", p->kernel, 1);
            td_tensor *x = random_tensor("x", p->x, 2);
            kernel->weight = weight;
            td_tensor *first = run(inference, p, x, kernel);
            td_error error = {0};
            td_tensor *before =
                td_tensor_from("before", TD_FLOAT32, first->shape, first->data, &error);
            td_tape_reset(inference);
            memset(kernel->data, 0, (size_t)kernel->count * sizeof(float));
            td_tensor *second = run(inference, p, x, kernel);
            if (weight) {
                expect_equal(second, before, p->name);
            } else {
                memset(before->data, 0, (size_t)before->count * sizeof(float));
                expect_equal(second, before, p->name);
            }
            td_tensor_destroy(before);
            td_tensor_destroy(kernel);
            td_tensor_destroy(x);
            td_tape_destroy(inference);
        }
    }
}

/* Threads share the columns of each step. */
static void a_recurrence_of_one_example_has_the_same_bits_for_any_number_of_threads(void **state) {
    (void)state;
    for (int64_t gates = 1; gates <= 4; gates++) {
        td_tensor *kernel = random_tensor("kernel", TD_SHAPE(320, gates * 320), 1), *first = NULL;
        td_tensor *x = random_tensor("x", TD_SHAPE(1, 4, 320), 2);
        td_error error = {0};
        for (int threads = 1; threads <= 4 && gates != 2; threads++) {
            td_tape *tape = tape_for(false);
            td_threads_set(threads);
            td_tensor *y = run_recurrence(tape, x, kernel);
            assert_non_null(y);
            first = first ? first : td_tensor_from("y", TD_FLOAT32, y->shape, y->data, &error);
            assert_memory_equal(y->data, first->data, (size_t)y->count * sizeof(float));
            td_tape_destroy(tape);
        }
        td_tensor_destroy(first);
        td_tensor_destroy(x);
        td_tensor_destroy(kernel);
    }
}

/* Whichever allocation fails, the next step is right. */
static void a_lack_of_memory_leaves_nothing_half_made(void **state) {
    (void)state;
    for (size_t i = 0; i < TD__COUNT(products); i++) {
        for (uint64_t fail = 1; fail < 12; fail++) {
            const product *p = &products[i];
            td_tape *usual = tape_for(false), *inference = tape_for(true);
            td_tensor *kernel = random_tensor("kernel", p->kernel, 1);
            td_tensor *x = random_tensor("x", p->x, 2);
            kernel->weight = true;
            td__allocation_fail_at(fail);
            (void)run(inference, p, x, kernel);
            td__allocation_fail_at(0);
            td_tape_reset(inference);
            expect_equal(run(inference, p, x, kernel), run(usual, p, x, kernel), p->name);
            td_tensor_destroy(kernel);
            td_tensor_destroy(x);
            td_tape_destroy(usual);
            td_tape_destroy(inference);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_with_weights_are_as_ever),
        cmocka_unit_test(what_is_made_of_weights_is_made_once),
        cmocka_unit_test(a_recurrence_of_one_example_has_the_same_bits_for_any_number_of_threads),
        cmocka_unit_test(a_lack_of_memory_leaves_nothing_half_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
