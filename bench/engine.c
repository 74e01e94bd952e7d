/* Tapedeck's training step for the networks of the engine benchmark.
 *
 *     engine NETWORK THREADS
 */
#include "tools/networks.h"

static void step(worker *w) {
    td_tensor *y = td_model_forward(w->model, w->tape, w->inputs);
    td_tensor *loss =
        w->classes ? td_sparse_categorical_crossentropy(w->tape, y, w->targets, TD_FROM_LOGITS)
                   : td_mse(w->tape, y, w->targets, NULL);
    if (td_tape_gradient(w->tape, loss, w->count, w->weights, w->gradients, &w->error) ||
        td_optimizer_step(w->optimizer, w->gradients, &w->error)) {
        fail("step", &w->error);
    }
    td_tape_reset(w->tape);
}

int main(int argc, char **argv) {
    const struct network *network = argc == 3 ? find_network(argv[1]) : NULL;
    if (!network || atoi(argv[2]) < 1) {
        fprintf(stderr, "usage: engine NETWORK THREADS\n");
        return 2;
    }
    td_threads_set(atoi(argv[2]));
    worker w = {0};
    start(&w, network);
    answer_lines(&w, step, NULL);
    stop(&w);
    return 0;
}
