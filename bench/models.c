/* Tapedeck's side of the benchmark of ONNX models; see models.py.
 *
 *     models MODEL.onnx THREADS     a step: the model over one example
 */
#include "tools/worker.h"

#include "tapedeck/model.h"

static void forward(worker *w) {
    (void)td_model_forward(w->model, w->tape, w->inputs);
    if (td_tape_status(w->tape, &w->error)) {
        fail("forward", &w->error);
    }
    td_tape_reset(w->tape);
}

static void start_model(worker *w, const char *path) {
    td_tape_options inference = {.size = sizeof inference, .inference = true};
    w->model = td_model_load(path, &w->error);
    w->tape = w->model ? td_tape_create(&inference, &w->error) : NULL;
    if (!w->tape) {
        fail("start", &w->error);
    }
    w->inputs =
        td_tensor_create("x", TD_FLOAT32, with_batch(1, td_model_input_shape(w->model)), &w->error);
    if (!w->inputs) {
        fail("start", &w->error);
    }
    fill_normal(w->inputs, 1);
}

int main(int argc, char **argv) {
    worker w = {0};
    if (argc != 3 || atoi(argv[2]) < 1) {
        fprintf(stderr, "usage: models MODEL.onnx THREADS\n");
        return 2;
    }
    td_threads_set(atoi(argv[2]));
    start_model(&w, argv[1]);
    answer_lines(&w, forward, NULL);
    stop(&w);
    return 0;
}
