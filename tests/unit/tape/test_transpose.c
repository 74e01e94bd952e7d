#include "test.h"

#include "tapedeck/ops.h"
#include "tensor/tensor.h"

static uint32_t random_state = 1;

static int64_t below(int64_t n) {
    random_state = random_state * 1664525u + 1013904223u;
    return (int64_t)(random_state >> 8) % n;
}

/* Elements are their own numbers, so that each says where it was. */
static td_tensor *numbered(td_shape shape) {
    td_error error = {0};
    td_tensor *x = td_tensor_create("x", TD_FLOAT32, shape, &error);
    assert_non_null(x);
    for (int64_t i = 0; i < x->count; i++) {
        td__floats(x)[i] = (float)i;
    }
    return x;
}

/* By the definition: y[i_p0, i_p1, …] = x[i_0, i_1, …]. */
static void check(td_tape *tape, td_shape shape, const int32_t *permutation) {
    td_tensor *x = numbered(shape), *y = td_transpose(tape, x, permutation);
    assert_non_null(y);
    int64_t strides[TD_MAX_RANK], stride = 1;
    for (int32_t i = shape.rank - 1; i >= 0; i--) {
        strides[i] = stride;
        stride *= shape.dims[i];
    }
    for (int64_t number = 0; number < y->count; number++) {
        int64_t rest = number, place = 0;
        for (int32_t i = shape.rank - 1; i >= 0; i--) {
            assert_int_equal(y->shape.dims[i], shape.dims[permutation[i]]);
            place += rest % y->shape.dims[i] * strides[permutation[i]];
            rest /= y->shape.dims[i];
        }
        if (td__floats(y)[number] != (float)place) {
            char text[TD_SHAPE_TEXT_SIZE];
            fail_msg("%s: element %lld is %g, not %lld", td_shape_text(&shape, text),
                     (long long)number, (double)td__floats(y)[number], (long long)place);
        }
    }
    td_tensor_destroy(x);
    td_tape_reset(tape);
}

static void every_element_goes_to_its_place(void **state) {
    (void)state;
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 130};
    enum { SIZES = sizeof sizes / sizeof *sizes };
    td_error error = {0};
    td_tape *tape = td_tape_create(NULL, &error);
    check(tape, TD_SHAPE(2100, 70), (int32_t[]){1, 0});
    check(tape, TD_SHAPE(3, 70, 1030), (int32_t[]){0, 2, 1});
    for (int i = 0; i < SIZES * SIZES; i++) { /* squares, strips and what is left of them */
        check(tape, TD_SHAPE(sizes[i / SIZES], sizes[i % SIZES]), (int32_t[]){1, 0});
    }
    for (int i = 0; i < 300; i++) {
        td_shape shape = {.rank = (int32_t)(1 + below(5))};
        int32_t order[TD_MAX_RANK];
        for (int32_t k = 0; k < shape.rank; k++) {
            shape.dims[k] = 1 + below(shape.rank < 4 ? 40 : 9);
            int64_t at = below(k + 1);
            order[k] = order[at];
            order[at] = k;
        }
        td_threads_set(1 + i % 3);
        check(tape, shape, order);
    }
    td_threads_set(1);
    td_tape_destroy(tape);
}

static void a_tensor_without_elements_stays_one(void **state) {
    (void)state;
    td_error error = {0};
    td_tape *tape = td_tape_create(NULL, &error);
    check(tape, TD_SHAPE(3, 0, 5), (int32_t[]){2, 0, 1});
    check(tape, TD_SHAPE(0, 5), (int32_t[]){1, 0});
    td_tape_destroy(tape);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_element_goes_to_its_place),
        cmocka_unit_test(a_tensor_without_elements_stays_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
