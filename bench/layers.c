/* Forward and backward pass of one layer, for the benchmark of layers.
 *
 *     layers THREADS BATCH,DIMENSION,… KIND [KEY=VALUE …]
 *
 * The gradients of its input and of all its parameters, of the sum of its output. A VALUE is a number, a
 * list of whole numbers (3,3), true, false or a word. Of an embedding the input is indices.
 */
#include "tools/worker.h"

enum { MOST = 12 };

static bool wants_indices;

static void step(worker *w) {
    td_tensor *y = td_model_forward(w->model, w->tape, w->inputs);
    td_tensor *sum = td_sum(w->tape, y, NULL);
    if (td_tape_gradient(w->tape, sum, w->count, w->weights, w->gradients, &w->error)) {
        fail("step", &w->error);
    }
    td_tape_reset(w->tape);
}

static size_t read_numbers(const char *text, double *numbers) {
    size_t count = 0;
    for (const char *at = text; count < TD_MAX_RANK; at++) {
        char *end;
        numbers[count] = strtod(at, &end);
        if (end == at) {
            return 0;
        }
        count++;
        at = end;
        if (*at != ',') {
            return *at ? 0 : count;
        }
    }
    return 0;
}

static td_value read_value(const char *text, double *numbers) {
    size_t count = read_numbers(text, numbers);
    if (count) {
        return (td_value){.kind = count > 1 ? TD_VALUE_NUMBERS : TD_VALUE_NUMBER,
                          .number = numbers[0],
                          .numbers = numbers,
                          .count = count};
    }
    bool yes = strcmp(text, "true") == 0;
    if (yes || strcmp(text, "false") == 0) {
        return (td_value){.kind = TD_VALUE_BOOL, .boolean = yes};
    }
    return (td_value){.kind = TD_VALUE_TEXT, .text = text};
}

static void start(worker *w, td_shape shape, const char *kind, const td_setting *settings,
                  size_t count) {
    td_shape one = {.rank = shape.rank - 1};
    memcpy(one.dims, shape.dims + 1, (size_t)one.rank * sizeof one.dims[0]);
    w->model = td_model_create("layer", one);
    if (td_model_add(w->model, kind, settings, count, &w->error) ||
        td_model_build(w->model, 7, &w->error)) {
        fail(kind, &w->error);
    }
    wants_indices = td_model_input_dtype(w->model) == TD_INT32;
    w->tape = td_tape_create(NULL, &w->error);
    w->inputs = td_tensor_create("input", wants_indices ? TD_INT32 : TD_FLOAT32, shape, &w->error);
    if (!w->tape || !w->inputs) {
        fail("memory", &w->error);
    }
    td_tape_set_training(w->tape, true);
    if (wants_indices) {
        int32_t *indices = td_tensor_data(w->inputs);
        for (int64_t i = 0; i < td_tensor_count(w->inputs); i++) {
            indices[i] = (int32_t)(i * 7919 % 1000);
        }
    } else {
        fill_normal(w->inputs, 1);
    }
    td_tensor *const *weights;
    size_t own = td_model_trainable(w->model, &weights);
    td_tensor **targets = calloc(own + 1, sizeof *targets);
    w->gradients = calloc(own + 1, sizeof *w->gradients);
    if (!targets || !w->gradients) {
        fail("memory", &w->error);
    }
    if (own) {
        memcpy(targets, weights, own * sizeof *targets);
    }
    if (!wants_indices) {
        targets[own++] = w->inputs;
    }
    w->weights = targets;
    w->count = own;
}

int main(int argc, char **argv) {
    double numbers[MOST][TD_MAX_RANK];
    td_setting settings[MOST];
    size_t rank = argc >= 4 ? read_numbers(argv[2], numbers[0]) : 0;
    if (!rank || atoi(argv[1]) < 1 || argc - 4 > MOST) {
        fprintf(stderr, "usage: layers THREADS BATCH,DIMENSION,… KIND [KEY=VALUE …]\n");
        return 2;
    }
    td_shape shape = {.rank = (int32_t)rank};
    for (size_t i = 0; i < rank; i++) {
        shape.dims[i] = (int64_t)numbers[0][i];
    }
    size_t count = 0;
    for (int i = 4; i < argc; i++, count++) {
        char *value = strchr(argv[i], '=');
        if (!value) {
            fprintf(stderr, "layers: '%s' is not KEY=VALUE\n", argv[i]);
            return 2;
        }
        *value++ = 0;
        settings[count] = (td_setting){argv[i], read_value(value, numbers[count])};
    }
    td_threads_set(atoi(argv[1]));
    worker w = {0};
    start(&w, shape, argv[3], settings, count);
    answer_lines(&w, step, NULL);
    free((void *)w.weights);
    stop(&w);
    return 0;
}
