/* Recurrent operations from given states, attention between sequences, batched products: against
 * PyTorch, values and gradients of every input. */
#include "golden.h"

#include "tapedeck/ops.h"

enum { MOST_INPUTS = 6 };

typedef td_tensor *build(td_tape *tape, td_tensor *const in[MOST_INPUTS], bool variant);

static td_recurrent_options from_states(td_tensor *const in[MOST_INPUTS], bool backwards) {
    return (td_recurrent_options){.size = sizeof(td_recurrent_options),
                                  .return_sequences = true,
                                  .go_backwards = backwards,
                                  .initial_state = in[4],
                                  .initial_cell = in[5]};
}

static td_tensor *simple_rnn(td_tape *tape, td_tensor *const in[MOST_INPUTS], bool backwards) {
    td_recurrent_options options = from_states(in, backwards);
    return td_simple_rnn(tape, in[0], in[1], in[2], in[3], &options);
}

static td_tensor *lstm(td_tape *tape, td_tensor *const in[MOST_INPUTS], bool backwards) {
    td_recurrent_options options = from_states(in, backwards);
    return td_lstm(tape, in[0], in[1], in[2], in[3], &options);
}

static td_tensor *gru(td_tape *tape, td_tensor *const in[MOST_INPUTS], bool backwards) {
    td_recurrent_options options = from_states(in, backwards);
    return td_gru(tape, in[0], in[1], in[2], in[3], true, &options);
}

static td_tensor *attention(td_tape *tape, td_tensor *const in[MOST_INPUTS], bool causal) {
    td_attention_options options = {.size = sizeof options, .mask = in[3], .causal = causal};
    return td_attention(tape, in[0], in[1], in[2], &options);
}

static td_tensor *matmul(td_tape *tape, td_tensor *const in[MOST_INPUTS], bool transposed) {
    td_matmul_options options = {
        .size = sizeof options, .transpose_a = transposed, .transpose_b = transposed};
    return td_matmul(tape, in[0], in[1], &options);
}

static const struct {
    const char *name;
    build *build;
    bool variant;
} builds[] = {
    {"simple_rnn", simple_rnn, false},
    {"lstm", lstm, false},
    {"lstm_backwards", lstm, true},
    {"lstm_wide", lstm, false},
    {"gru", gru, false},
    {"gru_backwards", gru, true},
    {"attention", attention, false},
    {"attention_causal", attention, true},
    {"attention_mask", attention, false},
    {"attention_mask_of_heads", attention, true},
    {"matmul", matmul, false},
    {"matmul_transposed", matmul, true},
};
enum { BUILDS = sizeof builds / sizeof builds[0] };

static td_tensor *tensor_of(const golden_case *c, const char *name) {
    const golden_tensor *values = golden_find(c, name);
    return values ? td_tensor_from(name, TD_FLOAT32, values->shape, values->values, NULL) : NULL;
}

static void compare(const golden_case *c, size_t which) {
    td_error error = {0};
    td_tape *tape = td_tape_create(NULL, &error);
    td_tensor *in[MOST_INPUTS], *targets[MOST_INPUTS], *gradients[MOST_INPUTS];
    td_tensor *weight = tensor_of(c, "weight");
    char name[32];
    size_t count = 0;
    for (size_t i = 0; i < MOST_INPUTS; i++) {
        (void)snprintf(name, sizeof name, "in%zu", i);
        in[i] = tensor_of(c, name);
        count += in[i] != NULL;
        targets[i] = in[i];
    }
    td_tensor *y = builds[which].build(tape, in, builds[which].variant);
    td_tensor *loss = td_sum(tape, td_multiply(tape, y, weight), NULL);
    assert_ok(td_tape_gradient(tape, loss, count, targets, gradients, &error), error);
    golden_compare(c->name, golden_find(c, "expect.output"), y, 1e-5);
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(name, sizeof name, "expect.in%zu", i);
        golden_compare(c->name, golden_find(c, name), gradients[i], 1e-5);
        td_tensor_destroy(in[i]);
    }
    td_tensor_destroy(weight);
    td_tape_destroy(tape);
}

static void sequences_give_what_pytorch_gives(void **state) {
    (void)state;
    FILE *file = golden_open("sequences.txt");
    golden_case *c = calloc(1, sizeof *c);
    assert_non_null(c);
    size_t compared = 0;
    while (golden_next(file, c)) {
        for (size_t i = 0; i < BUILDS; i++) {
            if (strcmp(builds[i].name, c->name) == 0) {
                compare(c, i);
                compared++;
            }
        }
        golden_release(c);
    }
    assert_int_equal(compared, BUILDS);
    free(c);
    (void)fclose(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(sequences_give_what_pytorch_gives)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
