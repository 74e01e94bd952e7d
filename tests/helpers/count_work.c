/* Does one kind of work inside of measured_work(), so that callgrind can count its instructions:
 * tests/checks/test_callgrind.py.
 *
 *     count_work step_dense|step_convolution|step_sequence|record|csv_row|event FOLDER
 */
#include "deck/deck.h"
#include "sink/classes.h"
#include "tapedeck/nn.h"
#include "tapedeck/ops.h"
#include "tapedeck/tape.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static td_error error;

static void check(bool good) {
    if (!good) {
        fprintf(stderr, "count_work: %s\n", error.text);
        exit(1);
    }
}

/* --- a training step ------------------------------------------------------------------------ */

typedef struct network {
    td_model *model;
    td_tape *tape;
    td_optimizer *optimizer;
    td_tensor *input, *target;
    td_tensor *const *weights;
    td_tensor *gradients[64];
    size_t count;
} network;

static void fill(td_tensor *tensor) {
    float *values = td_tensor_data(tensor);
    for (int64_t i = 0; i < td_tensor_count(tensor); i++) {
        values[i] = (float)(i * 37 % 101 - 50) / 50.0f;
    }
}

static void start_network(network *n, const char *name, td_shape batch) {
    td_shape example = {.rank = batch.rank - 1};
    memcpy(example.dims, batch.dims + 1, (size_t)example.rank * sizeof example.dims[0]);
    n->model = td_model_create(name, example);
    if (strcmp(name, "step_dense") == 0) {
        td_add_dense(n->model, .units = 10, .activation = TD_RELU);
        td_add_dense(n->model, .units = 5);
    } else if (strcmp(name, "step_convolution") == 0) {
        td_add_conv2d(n->model, .filters = 16, .kernel = {3}, .activation = TD_RELU);
        td_add_conv2d(n->model, .filters = 16, .kernel = {3}, .padding = TD_PADDING_SAME);
        td_add_conv2d(n->model, .filters = 16, .kernel = {3}, .groups = 16, .activation = TD_RELU);
        td_add_max_pool2d(n->model);
        td_add_flatten(n->model);
        td_add_dense(n->model, .units = 5);
    } else {
        td_add_lstm(n->model, .units = 16, .return_sequences = true);
        td_add_layer_normalization(n->model);
        td_add_multi_head_attention(n->model, .heads = 2, .key_dim = 8);
        td_add_gru(n->model, .units = 16);
        td_add_dense(n->model, .units = 5);
    }
    n->tape = td_tape_create(NULL, &error);
    check(n->tape && !td_model_build(n->model, 7, &error));
    td_tape_set_training(n->tape, true);
    n->count = td_model_trainable(n->model, &n->weights);
    n->optimizer = td_optimizer_create(TD_OPTIMIZER(.kind = TD_ADAM), n->count, n->weights, &error);
    n->input = td_tensor_create("input", TD_FLOAT32, batch, &error);
    n->target = td_tensor_create("target", TD_FLOAT32, TD_SHAPE(batch.dims[0], 5), &error);
    check(n->optimizer && n->input && n->target && n->count <= 64);
    fill(n->input);
    fill(n->target);
}

static void step(network *n) {
    td_tensor *y = td_model_forward(n->model, n->tape, n->input);
    td_tensor *loss = td_mse(n->tape, y, n->target, NULL);
    check(!td_tape_gradient(n->tape, loss, n->count, n->weights, n->gradients, &error) &&
          !td_optimizer_step(n->optimizer, n->gradients, &error));
    td_tape_reset(n->tape);
}

static void stop_network(network *n) {
    td_optimizer_destroy(n->optimizer);
    td_tape_destroy(n->tape);
    td_model_destroy(n->model);
    td_tensor_destroy(n->input);
    td_tensor_destroy(n->target);
}

/* --- recording ------------------------------------------------------------------------------ */

enum { WIDTH = 10 };
static float row[WIDTH] = {0.25f, -1.5f, 3.14159274f, 1e-9f, 0, 1, -0.333333343f, 42, 6e8f, 0.1f};

static td_status take(const td_sink_options *options, td_sink **sink, td_error *why) {
    (void)options, (void)why;
    static int nothing;
    *sink = (td_sink *)&nothing;
    return TD_OK;
}

static td_status drop(td_sink *sink, const td_record *record, td_error *why) {
    (void)sink, (void)record, (void)why;
    return TD_OK;
}

static td_status rest(td_sink *sink, td_error *why) {
    (void)sink, (void)why;
    return TD_OK;
}

static const td_sink_class null_class = {.size = sizeof(td_sink_class),
                                         .name = "null",
                                         .forms = UINT16_MAX,
                                         .default_forms = TD_TENSOR,
                                         .by_default = true,
                                         .open = take,
                                         .write = drop,
                                         .flush = rest,
                                         .close = rest};

static td_deck *open_deck(const char *folder) {
    static const td_sink_class *const sinks[] = {&null_class, NULL};
    td_deck *deck = td__deck_open(folder, NULL, sinks, &error);
    check(deck != NULL);
    td_deck_track(deck, .what = "loss");
    td_deck_track(deck, .what = "hidden.output", .form = TD_STATS);
    return deck;
}

static void record_step(td_deck *deck, int64_t number) {
    td_view view = {.dtype = TD_FLOAT32, .shape = TD_SHAPE(1, WIDTH), .data = row};
    td_deck_scalar(deck, "loss", 0.5);
    td_deck_record(deck, "hidden.output", view);
    td_deck_step(deck, 1, number);
}

static void write_one(const td_sink_class *class, td_sink *sink, int64_t number) {
    td_view view = {.dtype = TD_FLOAT32, .shape = TD_SHAPE(1, WIDTH), .data = row};
    bool rows = class == &td__sink_csv;
    td_record record = {.signal = rows ? "hidden.output" : "loss",
                        .form = rows ? TD_ROWS : TD_SCALAR,
                        .epoch = 1,
                        .step = number,
                        .value = 0.5,
                        .view = rows ? &view : NULL};
    check(!class->write(sink, &record, &error));
}

/* --- what is counted ------------------------------------------------------------------------ */

typedef struct work {
    network *network;
    td_deck *deck;
    const td_sink_class *class;
    td_sink *sink;
} work;

static void do_work(const work *w, int64_t first, int64_t last) {
    for (int64_t i = first; i <= last; i++) {
        if (w->network) {
            step(w->network);
        } else if (w->deck) {
            record_step(w->deck, i);
        } else {
            write_one(w->class, w->sink, i);
        }
    }
}

void measured_work(const work *w, int64_t first, int64_t last);
__attribute__((noinline)) void measured_work(const work *w, int64_t first, int64_t last) {
    do_work(w, first, last);
}

enum { WARM = 3, MEASURED = 10 };

int main(int count, char **arguments) {
    if (count != 3) {
        return 2;
    }
    const char *what = arguments[1], *folder = arguments[2];
    td_threads_set(1);
    work w = {0};
    network n = {0};
    if (strncmp(what, "step_", 5) == 0) {
        td_shape batch = strcmp(what, "step_dense") == 0         ? TD_SHAPE(32, 5)
                         : strcmp(what, "step_convolution") == 0 ? TD_SHAPE(2, 16, 16, 3)
                                                                 : TD_SHAPE(4, 12, 8);
        start_network(&n, what, batch);
        w.network = &n;
    } else if (strcmp(what, "record") == 0) {
        w.deck = open_deck(folder);
    } else {
        w.class = strcmp(what, "csv_row") == 0 ? &td__sink_csv : &td__sink_tensorboard;
        td_sink_options options = {.size = sizeof options, .folder = folder, .run = "count"};
        check(!w.class->open(&options, &w.sink, &error));
    }
    do_work(&w, 1, WARM);
    measured_work(&w, WARM + 1, WARM + MEASURED);
    if (w.network) {
        stop_network(&n);
    } else if (w.deck) {
        check(!td_deck_close(w.deck, &error));
    } else {
        check(!w.class->close(w.sink, &error));
    }
    return 0;
}
