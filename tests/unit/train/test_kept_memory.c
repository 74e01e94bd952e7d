/* What a slow sink is handed is what the tensor was when it was recorded, whosever memory it was.
 *
 * Random networks are trained with every signal recorded into a sink that lags behind. Each tensor
 * is also summed up the moment it is recorded, as a deck without a writer thread would do it; the
 * two must agree. Errors of layers are only reported: the tape may write over them as soon as nobody holds
 * a view. The batch, the parameters and a constant of a custom layer live in memory that is
 * written over in the next step, as data's own buffers are. */
#include "test.h"

#include "tapedeck/deck.h"
#include "tapedeck/nn.h"

#include "deck/deck.h"

#include <unistd.h>

enum { BATCH = 32, SIDE = 32, WIDTH = SIDE * SIDE, LAYERS = 10, STEPS = 8, SIGNALS = 200 };

typedef struct expectation {
    uint64_t hash;
    double smallest, largest;
} expectation;

static struct {
    td_deck *deck;
    td_tape *tape;
    td_model *model;
    int64_t step;
    expectation expected[SIGNALS][STEPS + 1];
    int64_t compared, wrong;
} run;

static expectation sum_up(const td_view *view) {
    expectation e = {0};
    td_stats stats;
    assert_int_equal(td_hash_of(view, &e.hash, NULL), TD_OK);
    assert_int_equal(td_stats_of(view, &stats, NULL), TD_OK);
    e.smallest = stats.min;
    e.largest = stats.max;
    return e;
}

static void record(const char *name, td_view view) {
    td_signal *signal = td_deck_signal(run.deck, name);
    assert_true(signal && signal->index < SIGNALS);
    run.expected[signal->index][run.step] = sum_up(&view);
    assert_int_equal(td_signal_record(signal, view), TD_OK);
}

/* ---- The slow sink -------------------------------------------------------------------------- */

static td_status slow_open(const td_sink_options *options, td_sink **sink, td_error *error) {
    (void)options, (void)error;
    *sink = (td_sink *)&run;
    return TD_OK;
}

static td_status slow_write(td_sink *sink, const td_record *record, td_error *error) {
    (void)sink, (void)error;
    usleep(100);
    const expectation *e = &run.expected[record->signal_index][record->step];
    if (record->form == TD_TENSOR) {
        uint64_t hash = 0;
        bool same = td_hash_of(record->view, &hash, NULL) == TD_OK && hash == e->hash;
        run.wrong += !same;
        run.compared++;
    } else if (record->form == TD_HISTOGRAM) {
        run.wrong += record->stats->min != e->smallest || record->stats->max != e->largest;
        run.compared++;
    }
    return TD_OK;
}

static td_status slow_flush(td_sink *sink, td_error *error) {
    (void)sink, (void)error;
    return TD_OK;
}

static const td_sink_class slow = {
    .size = sizeof(td_sink_class),
    .name = "slow",
    .forms = TD_TENSOR | TD_HISTOGRAM,
    .default_forms = TD_TENSOR,
    .by_default = true,
    .open = slow_open,
    .write = slow_write,
    .flush = slow_flush,
    .close = slow_flush,
};

/* ---- Random networks ------------------------------------------------------------------------ */

static uint32_t random_state;

static uint32_t below(uint32_t limit) {
    random_state = random_state * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)random_state * limit) >> 32);
}

static float constant[BATCH * WIDTH];
static td_tensor *constant_tensor;

/* Passes on memory that is nobody's but the user's. */
static td_tensor *give_constant(void *user, td_tape *tape, td_tensor *const *inputs,
                                td_tensor *const *parameters) {
    (void)parameters, (void)user;
    td_shape shape = td_tensor_shape(inputs[0]);
    return td_reshape(tape, constant_tensor, shape);
}

static void add_random_layer(td_model *model, int index, bool *square, const char *residual) {
    static char names[LAYERS + 1][16];
    char *name = names[index];
    (void)snprintf(name, sizeof names[0], "l%d", index);
    td_shape shape = *square ? TD_SHAPE(SIDE, SIDE) : TD_SHAPE(WIDTH);
    int64_t last = *square ? SIDE : WIDTH;
    switch (below(9)) {
    case 0:
        td_add_flatten(model, .name = name);
        *square = false;
        break;
    case 1:
        td_add_reshape(model, .name = name, .shape = TD_SHAPE(SIDE, SIDE));
        *square = true;
        break;
    case 2:
        td_add_dropout(model, .name = name, .rate = 0);
        break;
    case 3:
        td_add_dropout(model, .name = name, .rate = 0.3);
        break;
    case 4:
        td_add_activation(model, .name = name, .function = TD_RELU);
        break;
    case 5:
        td_add_layer_normalization(model, .name = name);
        break;
    case 6:
        td_add_custom(model, .name = name, .output = shape, .forward = give_constant);
        break;
    case 7:
        if (residual) {
            td_add_reshape(model, .name = name, .from = {residual}, .shape = shape);
            break;
        }
        /* fall through */
    default:
        td_add_dense(model, .name = name, .units = last,
                     .activation = below(2) ? TD_TANH : TD_LINEAR);
    }
}

static td_model *random_model(uint32_t seed) {
    random_state = seed * 2654435761u + 1;
    bool square = false;
    td_error error = {0};
    td_model *model = td_model_create("random", TD_SHAPE(WIDTH));
    static char residual[16];
    for (int i = 0; i < LAYERS; i++) {
        add_random_layer(model, i, &square, i > 2 ? residual : NULL);
        if (i == 0 || below(3) == 0) {
            (void)snprintf(residual, sizeof residual, "l%d", i);
        }
    }
    td_add_flatten(model, .name = "flat");
    td_add_dropout(model, .name = "still", .rate = 0);
    td_add_add(model, .name = "sum", .from = {"flat", "still"});
    assert_ok(td_model_build(model, seed, &error), error);
    assert_ok(td_model_keep_preactivation(model, NULL, true, &error), error);
    return model;
}

/* ---- Training ------------------------------------------------------------------------------- */

static void watch(void *user, size_t layer, td_layer_signal signal, td_tensor *tensor) {
    (void)user;
    char name[32];
    (void)snprintf(name, sizeof name, "%s.%s", td_model_layer(run.model, layer)->name,
                   signal == TD_LAYER_OUTPUT ? "output" : "preactivation");
    record(name, td_tape_view(run.tape, tensor));
}

static void ready(void *user, size_t index, td_tensor *gradient) {
    (void)user;
    char name[32];
    (void)snprintf(name, sizeof name, "gradient%zu", index);
    record(name, td_tape_view(run.tape, gradient));
}

static void fill(float *values, int64_t step) {
    for (int64_t i = 0; i < BATCH * WIDTH; i++) {
        values[i] = (float)((i * 7919 + step * 104729) % 2003) / 2003.0f - 0.5f;
    }
}

static void train_step(td_tensor *input, td_tensor *truth, td_optimizer *optimizer) {
    td_tensor *const *weights;
    td_tensor *targets[SIGNALS], *gradients[SIGNALS];
    td_error error = {0};
    size_t kept = td_model_trainable(run.model, &weights), count = kept;
    record("input", td_tape_view(run.tape, input));
    td_tensor *y = td_model_forward(run.model, run.tape, input);
    td_tensor *loss = td_mse(run.tape, y, truth, NULL);
    for (size_t i = 0; i < count; i++) {
        targets[i] = weights[i];
    }
    for (size_t i = 0; i < td_model_layer_count(run.model); i++) {
        targets[count++] = td_model_output_at(run.model, i);
    }
    assert_ok(
        td_tape_gradient_keep(run.tape, loss, kept, count, targets, gradients, ready, NULL, &error),
        error);
    assert_ok(td_optimizer_step(optimizer, gradients, &error), error);
    for (size_t i = 0; i < td_model_trainable(run.model, &weights); i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "weight%zu", i);
        record(name, td_tape_view(run.tape, weights[i]));
    }
    assert_int_equal(td_deck_step(run.deck, 1, run.step), TD_OK);
    td_tape_reset(run.tape);
}

static void train(uint32_t seed, const char *folder, uint32_t form) {
    static const td_sink_class *const sinks[] = {&slow, NULL};
    static float batch[BATCH * WIDTH], labels[BATCH * WIDTH];
    td_error error = {0};
    memset(&run, 0, sizeof run);
    /* With all cores busy, passes are made at once and nobody holds a view. */
    td_deck_options options = {.size = sizeof options, .busy_cores = seed % 2 ? 1 : 1024};
    run.deck = td__deck_open(folder, &options, sinks, &error);
    run.tape = td_tape_create(NULL, &error);
    run.model = random_model(seed);
    td_tensor *const *weights;
    size_t count = td_model_trainable(run.model, &weights);
    td_optimizer *optimizer =
        td_optimizer_create(TD_OPTIMIZER(.kind = TD_SGD), count, weights, &error);
    td_tensor *input = td_tensor_borrow("x", TD_FLOAT32, TD_SHAPE(BATCH, WIDTH), batch, &error);
    td_tensor *truth = td_tensor_borrow("y", TD_FLOAT32, TD_SHAPE(BATCH, WIDTH), labels, &error);
    constant_tensor = td_tensor_borrow("c", TD_FLOAT32, TD_SHAPE(BATCH, WIDTH), constant, &error);
    assert_int_equal(td_deck_track(run.deck, .what = "*", .form = form), TD_OK);
    td_model_watch(run.model, watch, NULL);
    td_tape_set_training(run.tape, true);
    for (run.step = 1; run.step <= STEPS; run.step++) {
        fill(batch, run.step);
        fill(labels, run.step + 100);
        fill(constant, run.step + 200);
        train_step(input, truth, optimizer);
    }
    assert_ok(td_deck_close(run.deck, &error), error);
    assert_true(run.compared >= (int64_t)STEPS * (LAYERS + 3) * 2);
    if (run.wrong) {
        fail_msg("network %u: %lld of %lld records hold another step's values", seed,
                 (long long)run.wrong, (long long)run.compared);
    }
    td_tensor_destroy(constant_tensor);
    td_tensor_destroy(truth);
    td_tensor_destroy(input);
    td_optimizer_destroy(optimizer);
    td_model_destroy(run.model);
    td_tape_destroy(run.tape);
}

static void every_record_is_of_its_own_step(void **state) {
    (void)state;
    char folder[64] = "/tmp/tapedeck-XXXXXX", path[96];
    assert_non_null(mkdtemp(folder));
    for (uint32_t seed = 1; seed <= 9; seed++) {
        (void)snprintf(path, sizeof path, "%s/run", folder);
        train(seed, path, seed % 3 ? TD_TENSOR : TD_HISTOGRAM);
    }
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf '%s'", folder);
    assert_int_equal(system(command), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_record_is_of_its_own_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
