/* A training step that records every layer's output and error and every parameter's gradient.
 *
 *     deck NETWORK THREADS MODE
 *
 * MODE is one of the rows of `modes`. A worker, see tools/networks.h; what is still in the queue after a
 * run is written before the next, untimed.
 */
#include "tapedeck/deck.h"
#include "tools/networks.h"

#include <ftw.h>
#include <unistd.h>

static const struct mode {
    const char *name;
    uint32_t form; /* 0: record nothing */
    int64_t every;
    const char *to;
} modes[] = {
    {"bare", 0, 1, NULL},
    {"stats", TD_STATS, 1, "csv"},
    {"histogram", TD_STATS | TD_HISTOGRAM, 1, "tensorboard"},
    {"every100", TD_STATS | TD_HISTOGRAM, 100, "tensorboard"},
    {"npy", TD_TENSOR, 1, "npy"},
    {"rows", TD_ROWS, 1, "csv"},
};

enum { MAXIMUM_TARGETS = 256 };

static td_deck *deck;
static int64_t steps_done;
static td_signal *outputs[MAXIMUM_TARGETS], *target_signals[MAXIMUM_TARGETS];
static td_tensor *targets[MAXIMUM_TARGETS], *found[MAXIMUM_TARGETS];

static void watch(void *user, size_t layer, td_layer_signal signal, td_tensor *tensor) {
    const worker *w = user;
    if (signal == TD_LAYER_OUTPUT && td_signal_wants(outputs[layer])) {
        (void)td_signal_record(outputs[layer], td_tape_view(w->tape, tensor));
    }
}

static void ready(void *user, size_t index, td_tensor *gradient) {
    const worker *w = user;
    if (td_signal_wants(target_signals[index])) {
        (void)td_signal_record(target_signals[index], td_tape_view(w->tape, gradient));
    }
}

static void recorded_step(worker *w) {
    td_tensor *y = td_model_forward(w->model, w->tape, w->inputs);
    td_tensor *loss =
        w->classes ? td_sparse_categorical_crossentropy(w->tape, y, w->targets, TD_FROM_LOGITS)
                   : td_mse(w->tape, y, w->targets, NULL);
    size_t count = w->count, layers = td_model_layer_count(w->model);
    for (size_t i = 0; deck && i < layers; i++) {
        if (td_signal_wants(target_signals[w->count + i])) {
            targets[count++] = td_model_output_at(w->model, i);
        }
    }
    if (td_tape_gradient_keep(w->tape, loss, w->count, count, targets, found, deck ? ready : NULL,
                              w, &w->error) ||
        td_optimizer_step(w->optimizer, found, &w->error)) {
        fail("step", &w->error);
    }
    if (deck) {
        (void)td_deck_step(deck, 1, ++steps_done);
    }
    td_tape_reset(w->tape);
}

static void settle(worker *w) {
    if (deck && td_deck_flush(deck, &w->error)) {
        fail("flush", &w->error);
    }
}

static void open_deck(worker *w, const struct mode *mode, const char *folder) {
    td_deck_options options = {
        .size = sizeof options, .busy_cores = td_threads(), .run_parts = td_threads_run};
    deck = td_deck_open_with(folder, &options, &w->error);
    if (!deck) {
        fail("deck", &w->error);
    }
    td_deck_track(deck, .what = "*", .every = mode->every, .form = mode->form, .to = mode->to);
    char name[256];
    for (size_t i = 0; i < w->count; i++) {
        snprintf(name, sizeof name, "%s.gradient", td_tensor_name(w->weights[i]));
        target_signals[i] = td_deck_signal(deck, name);
    }
    for (size_t i = 0; i < td_model_layer_count(w->model); i++) {
        const char *layer = td_model_layer(w->model, i)->name;
        snprintf(name, sizeof name, "%s.output", layer);
        outputs[i] = td_deck_signal(deck, name);
        snprintf(name, sizeof name, "%s.error", layer);
        target_signals[w->count + i] = td_deck_signal(deck, name);
    }
    td_model_watch(w->model, watch, w);
}

static int remove_entry(const char *path, const struct stat *status, int flag, struct FTW *walk) {
    (void)status, (void)flag, (void)walk;
    return remove(path);
}

int main(int argc, char **argv) {
    const struct network *network = argc == 4 ? find_network(argv[1]) : NULL;
    const struct mode *mode = NULL;
    for (size_t i = 0; argc == 4 && i < sizeof modes / sizeof modes[0]; i++) {
        mode = strcmp(argv[3], modes[i].name) == 0 ? &modes[i] : mode;
    }
    if (!network || !mode || atoi(argv[2]) < 1) {
        fprintf(stderr, "usage: deck NETWORK THREADS bare|stats|histogram|every100|npy|rows\n");
        return 2;
    }
    td_threads_set(atoi(argv[2]));
    worker w = {0};
    start(&w, network);
    memcpy(targets, w.weights, w.count * sizeof targets[0]);
    char folder[] = "/tmp/tapedeck-bench-XXXXXX", run[64];
    if (mode->form) {
        if (!mkdtemp(folder)) {
            perror("deck");
            return 1;
        }
        snprintf(run, sizeof run, "%s/run", folder);
        open_deck(&w, mode, run);
    }
    answer_lines(&w, recorded_step, settle);
    td_status status = td_deck_close(deck, &w.error);
    stop(&w);
    if (mode->form) {
        (void)nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    }
    if (status) {
        fail("close", &w.error);
    }
    return 0;
}
