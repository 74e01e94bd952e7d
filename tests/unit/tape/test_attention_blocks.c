/* Attention over sequences that take several blocks of queries, beside the same in products and a
 * softmax: values, gradients, bits, memory. */
#include "test.h"

#include "tape/attention.h"
#include "tape/tape.h"
#include "tapedeck/ops.h"

#include <math.h>

typedef struct sizes {
    int64_t heads, t, s, d, e;
    bool causal, masked;
} sizes;

typedef struct inputs {
    td_tensor *q, *k, *v, *mask, *hidden, *weight;
} inputs;

static td_tensor *filled(td_shape shape, int64_t step) {
    td_tensor *tensor = td_tensor_create("filled", TD_FLOAT32, shape, NULL);
    assert_non_null(tensor);
    float *values = td_tensor_data(tensor);
    for (int64_t i = 0; i < td_tensor_count(tensor); i++) {
        values[i] = (float)(i * step % 211 - 105) / 105.0f;
    }
    return tensor;
}

static inputs make_inputs(const sizes *z) {
    inputs in = {.q = filled(TD_SHAPE(z->heads, z->t, z->d), 37),
                 .k = filled(TD_SHAPE(z->heads, z->s, z->d), 41),
                 .v = filled(TD_SHAPE(z->heads, z->s, z->e), 43),
                 .mask = filled(TD_SHAPE(1, z->s), 47),
                 .hidden = filled(TD_SHAPE(z->t, z->s), 1),
                 .weight = filled(TD_SHAPE(z->heads, z->t, z->e), 53)};
    float *hidden = td_tensor_data(in.hidden);
    for (int64_t i = 0; i < z->t * z->s; i++) {
        hidden[i] = z->causal && i % z->s > i / z->s ? -INFINITY : 0.0f;
    }
    return in;
}

static void free_inputs(inputs *in) {
    td_tensor *all[] = {in->q, in->k, in->v, in->mask, in->hidden, in->weight};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        td_tensor_destroy(all[i]);
    }
}

static td_tensor *attention(td_tape *tape, const sizes *z, const inputs *in) {
    td_attention_options options = {
        .size = sizeof options, .mask = z->masked ? in->mask : NULL, .causal = z->causal};
    return td_attention(tape, in->q, in->k, in->v, &options);
}

static td_tensor *in_products(td_tape *tape, const sizes *z, const inputs *in) {
    td_tensor *scores =
        td_matmul(tape, in->q, td_transpose(tape, in->k, (int32_t[]){0, 2, 1}), NULL);
    scores = td_affine(tape, scores, 1.0f / sqrtf((float)z->d), 0);
    scores = z->masked ? td_add(tape, scores, in->mask) : scores;
    scores = z->causal ? td_add(tape, scores, in->hidden) : scores;
    return td_matmul(tape, td_softmax(tape, scores, -1), in->v, NULL);
}

/* The gradients of q, k and v. */
static void differentiate(td_tape *tape, const inputs *in, td_tensor *y, td_tensor *gradients[3]) {
    td_error error = {0};
    td_tensor *loss = td_sum(tape, td_multiply(tape, y, in->weight), NULL);
    td_tensor *targets[] = {in->q, in->k, in->v};
    assert_ok(td_tape_gradient(tape, loss, 3, targets, gradients, &error), error);
}

static void assert_near(const td_tensor *got, const td_tensor *expected) {
    const float *a = td_tensor_data(got), *b = td_tensor_data(expected);
    double largest = 0;
    for (int64_t i = 0; i < td_tensor_count(expected); i++) {
        largest = fabs((double)b[i]) > largest ? fabs((double)b[i]) : largest;
    }
    for (int64_t i = 0; i < td_tensor_count(expected); i++) {
        assert_close(a[i], b[i], 1e-5, 1e-5 * largest);
    }
}

static void check(const sizes *z) {
    td_tape *tape = td_tape_create(NULL, NULL), *plain = td_tape_create(NULL, NULL);
    inputs in = make_inputs(z);
    td_tensor *got[3], *expected[3];
    td_tensor *y = attention(tape, z, &in), *z_plain = in_products(plain, z, &in);
    assert_near(y, z_plain);
    differentiate(tape, &in, y, got);
    differentiate(plain, &in, z_plain, expected);
    for (int i = 0; i < 3; i++) {
        assert_near(got[i], expected[i]);
    }
    free_inputs(&in);
    td_tape_destroy(tape);
    td_tape_destroy(plain);
}

static void blocks_agree_with_products_and_softmax(void **state) {
    (void)state;
    td_threads_set(2);
    /* The last three are too long for their probabilities to be kept. */
    const sizes all[] = {{3, 170, 600, 5, 7, false, false}, {2, 301, 290, 16, 16, true, true},
                         {1, 40, 90, 4, 3, true, false},    {1, 90, 40, 4, 3, true, false},
                         {1, 611, 7001, 4, 3, false, true}, {2, 1500, 1501, 6, 16, true, false},
                         {1, 2100, 2050, 16, 9, true, true}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        check(&all[i]);
    }
}

/* The entropy of a row of weights, in double precision. */
static double entropy_of(const sizes *z, const inputs *in, int64_t row) {
    const float *q = (const float *)td_tensor_data(in->q) + row * z->d;
    const float *k = (const float *)td_tensor_data(in->k) + row / z->t * z->s * z->d;
    const float *mask = td_tensor_data(in->mask);
    int64_t seen = z->causal && row % z->t + 1 < z->s ? row % z->t + 1 : z->s;
    double sum = 0, weighted = 0;
    for (int64_t i = 0; i < seen; i++) {
        double score = 0;
        for (int64_t j = 0; j < z->d; j++) {
            score += (double)q[j] * (double)k[i * z->d + j];
        }
        score = score / sqrt((double)z->d) + (z->masked ? (double)mask[i] : 0);
        sum += exp(score);
        weighted += exp(score) * score;
    }
    return log(sum) - weighted / sum;
}

/* Rows of every length from one to several vectors, and of several blocks. */
static void entropies_are_right_and_change_no_bit(void **state) {
    (void)state;
    td_threads_set(2);
    const sizes long_ones[] = {{2, 170, 600, 5, 7, false, true},
                               {1, 2100, 2050, 4, 3, true, false}};
    for (int64_t n = 1; n <= 70; n++) {
        sizes z = {3, 5, n, 4, 3, n % 3 == 0, n % 2 == 0};
        z = n > 68 ? long_ones[n - 69] : z;
        inputs in = make_inputs(&z);
        td_tape *with = td_tape_create(NULL, NULL), *without = td_tape_create(NULL, NULL);
        with->keeps_entropy = true;
        td_tensor *y = attention(with, &z, &in), *bare = attention(without, &z, &in);
        assert_memory_equal(td_tensor_data(y), td_tensor_data(bare),
                            (size_t)td_tensor_count(y) * sizeof(float));
        const td__attention *a = with->nodes[0].saved, *b = without->nodes[0].saved;
        assert_null(b->entropies);
        for (int64_t row = 0; row < z.heads * z.t; row++) {
            assert_close(a->entropies[row], entropy_of(&z, &in, row), 1e-5, 1e-6);
        }
        free_inputs(&in);
        td_tape_destroy(with);
        td_tape_destroy(without);
    }
}

static void masked_and_undefined_rows_have_an_entropy_of_their_own(void **state) {
    (void)state;
    sizes z = {1, 1, 20, 2, 2, false, true};
    inputs in = make_inputs(&z);
    float *mask = td_tensor_data(in.mask);
    for (int64_t i = 0; i < z.s; i++) {
        mask[i] = i == 7 ? 0 : -INFINITY;
    }
    td_tape *tape = td_tape_create(NULL, NULL);
    tape->keeps_entropy = true;
    assert_non_null(attention(tape, &z, &in));
    mask[7] = -INFINITY;
    assert_non_null(attention(tape, &z, &in));
    mask[7] = NAN;
    assert_non_null(attention(tape, &z, &in));
    const td__attention *one = tape->nodes[0].saved, *none = tape->nodes[1].saved,
                        *undefined = tape->nodes[2].saved;
    assert_true(one->entropies[0] == 0 && none->entropies[0] == 0);
    assert_true(isnan(undefined->entropies[0]));
    free_inputs(&in);
    td_tape_destroy(tape);
}

static void one_tensor_may_be_queries_keys_and_values(void **state) {
    (void)state;
    td_tape *tape = td_tape_create(NULL, NULL);
    sizes z = {2, 1600, 1600, 8, 8, true, false};
    inputs in = make_inputs(&z);
    td_tensor *sum, *together;
    inputs copies = in;
    copies.k = td_affine(tape, in.q, 1, 0);
    copies.v = td_affine(tape, in.q, 1, 0);
    td_error error = {0};
    td_tensor *y = attention(tape, &z, &copies);
    td_tensor *loss = td_sum(tape, td_multiply(tape, y, in.weight), NULL);
    assert_ok(td_tape_gradient(tape, loss, 1, &in.q, &sum, &error), error);
    td_tape *other = td_tape_create(NULL, NULL);
    inputs same = in;
    same.k = same.v = in.q;
    y = attention(other, &z, &same);
    loss = td_sum(other, td_multiply(other, y, in.weight), NULL);
    assert_ok(td_tape_gradient(other, loss, 1, &in.q, &together, &error), error);
    assert_near(together, sum);
    free_inputs(&in);
    td_tape_destroy(tape);
    td_tape_destroy(other);
}

/* Heads beside each other are those before the steps, moved: to the same bits. */
static void check_beside(int64_t t, int64_t s, int64_t d, int64_t e, bool causal, bool masked) {
    enum { BATCH = 2, HEADS = 3 };
    td_tape *tapes[2];
    td_tensor *in[] = {filled(TD_SHAPE(BATCH, t, HEADS, d), 37),
                       filled(TD_SHAPE(BATCH, s, HEADS, d), 41),
                       filled(TD_SHAPE(BATCH, s, HEADS, e), 43)};
    td_tensor *mask = filled(TD_SHAPE(HEADS, t, s), 47),
              *weight = filled(TD_SHAPE(BATCH, t, HEADS, e), 53), *results[2][4];
    td_attention_options options = {
        .size = sizeof options, .mask = masked ? mask : NULL, .causal = causal};
    const int32_t swap[] = {0, 2, 1, 3};
    for (int i = 0; i < 2; i++) {
        td_tape *tape = tapes[i] = td_tape_create(NULL, NULL);
        td_tensor *y = i ? td__attention_beside(tape, in[0], in[1], in[2], &options)
                         : td_transpose(tape,
                                        td_attention(tape, td_transpose(tape, in[0], swap),
                                                     td_transpose(tape, in[1], swap),
                                                     td_transpose(tape, in[2], swap), &options),
                                        swap);
        td_error error = {0};
        td_tensor *loss = td_sum(tape, td_multiply(tape, y, weight), NULL);
        assert_ok(td_tape_gradient(tape, loss, 3, in, results[i], &error), error);
        results[i][3] = y;
    }
    for (int i = 0; i < 4; i++) {
        assert_memory_equal(td_tensor_data(results[0][i]), td_tensor_data(results[1][i]),
                            (size_t)td_tensor_count(results[0][i]) * sizeof(float));
    }
    for (int i = 0; i < 3; i++) {
        td_tensor_destroy(in[i]);
    }
    td_tensor_destroy(mask);
    td_tensor_destroy(weight);
    td_tape_destroy(tapes[0]);
    td_tape_destroy(tapes[1]);
}

static void heads_may_lie_beside_each_other(void **state) {
    (void)state;
    td_threads_set(2);
    check_beside(5, 7, 3, 2, false, true);
    check_beside(64, 64, 32, 32, false, false);
    check_beside(170, 600, 5, 16, false, true);
    check_beside(40, 90, 4, 3, true, false);
    check_beside(1100, 1101, 4, 16, true, true); /* probabilities are computed again */
    td_tape *tape = td_tape_create(NULL, NULL);
    td_tensor *q = filled(TD_SHAPE(2, 4, 3, 5), 37), *k = filled(TD_SHAPE(2, 4, 2, 5), 37);
    assert_null(td__attention_beside(tape, q, k, k, NULL));
    assert_non_null(strstr(tape->error.text, "(..., t, heads, d)"));
    td_tensor_destroy(q);
    td_tensor_destroy(k);
    td_tape_destroy(tape);
}

static void threads_do_not_change_bits(void **state) {
    (void)state;
    const sizes all[] = {{3, 170, 600, 5, 7, false, false}, {3, 1300, 1301, 4, 4, true, true}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        inputs in = make_inputs(&all[i]);
        td_tape *first = td_tape_create(NULL, NULL);
        td_threads_set(1);
        td_tensor *y = attention(first, &all[i], &in), *expected[3];
        differentiate(first, &in, y, expected);
        for (int threads = 2; threads <= 4; threads++) {
            td_threads_set(threads);
            td_tape *tape = td_tape_create(NULL, NULL);
            td_tensor *again = attention(tape, &all[i], &in), *got[3];
            differentiate(tape, &in, again, got);
            assert_memory_equal(td_tensor_data(y), td_tensor_data(again),
                                (size_t)td_tensor_count(y) * sizeof(float));
            for (int k = 0; k < 3; k++) {
                assert_memory_equal(td_tensor_data(got[k]), td_tensor_data(expected[k]),
                                    (size_t)td_tensor_count(got[k]) * sizeof(float));
            }
            td_tape_destroy(tape);
        }
        free_inputs(&in);
        td_tape_destroy(first);
    }
}

static void memory_grows_with_the_length_not_its_square(void **state) {
    (void)state;
    td_threads_set(2);
    /* Two heads' probabilities alone would be 200 MB. */
    td_tape *tape = td_tape_create(NULL, NULL);
    td__tape_limit(tape, 24 << 20);
    sizes z = {2, 5000, 5000, 8, 8, false, false};
    inputs in = {.q = filled(TD_SHAPE(2, 5000, 8), 37), .weight = filled(TD_SHAPE(2, 5000, 8), 41)};
    in.k = in.v = in.q;
    td_tensor *gradients[3];
    td_tensor *y = attention(tape, &z, &in);
    assert_non_null(y);
    differentiate(tape, &in, y, gradients);
    td_tensor_destroy(in.q);
    td_tensor_destroy(in.weight);
    td_tape_destroy(tape);
}

static void sizes_beyond_all_memory_fail(void **state) {
    (void)state;
    td_error error = {0};
    td_tape *tape = td_tape_create(NULL, NULL);
    td_tensor *empty = td_tensor_create("empty", TD_FLOAT32, TD_SHAPE(1, 1LL << 40, 0), &error);
    if (empty) {
        assert_null(td_attention(tape, empty, empty, empty, NULL));
        assert_int_equal(td_tape_status(tape, &error), TD_MEMORY);
        td_tensor_destroy(empty);
    }
    td_tape_destroy(tape);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_agree_with_products_and_softmax),
        cmocka_unit_test(entropies_are_right_and_change_no_bit),
        cmocka_unit_test(masked_and_undefined_rows_have_an_entropy_of_their_own),
        cmocka_unit_test(one_tensor_may_be_queries_keys_and_values),
        cmocka_unit_test(threads_do_not_change_bits),
        cmocka_unit_test(memory_grows_with_the_length_not_its_square),
        cmocka_unit_test(sizes_beyond_all_memory_fail),
        cmocka_unit_test(heads_may_lie_beside_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
