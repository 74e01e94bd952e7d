/* Tapedeck's side of the prediction benchmark; see predict.py.
 *
 *     predict forward NETWORK THREADS BATCH     a step: the network over one batch
 *     predict whole NETWORK THREADS EXAMPLES    a step: td_predict, from a saved model and an .npy
 *                                               file to a CSV file, opening and loading included
 *     predict csv ROWS CLASSES                  a step: ROWS predictions with labels to a CSV file
 */
#include "tools/networks.h"

#include "apply/predict_output.h"
#include "data/npy.h"
#include "tapedeck/apply.h"
#include "tapedeck/model.h"

#include <unistd.h>

enum { BATCH_ROWS = 256 };

static void forward(worker *w) {
    (void)td_model_forward(w->model, w->tape, w->inputs);
    if (td_tape_status(w->tape, &w->error)) {
        fail("forward", &w->error);
    }
    td_tape_reset(w->tape);
}

static void start_forward(worker *w, const struct network *network, int64_t batch) {
    struct network resized = *network;
    resized.batch = batch;
    start(w, &resized);
    td_tape_destroy(w->tape);
    td_tape_options inference = {.size = sizeof inference, .inference = true};
    w->tape = td_tape_create(&inference, &w->error);
    if (!w->tape) {
        fail("start", &w->error);
    }
}

static char model_path[64], data_path[64], csv_path[64];

static void remove_files(void) {
    (void)unlink(model_path);
    (void)unlink(data_path);
    (void)unlink(csv_path);
}

static void predict_whole(worker *w) {
    td_predict_options options = {.size = sizeof options, .to = csv_path};
    if (td_predict(model_path, data_path, &options, NULL, &w->error)) {
        fail("predict", &w->error);
    }
}

static void start_whole(worker *w, const struct network *network, int64_t examples) {
    struct network resized = *network;
    char header[TD__NPY_HEADER];
    resized.batch = examples;
    start(w, &resized);
    snprintf(model_path, sizeof model_path, "/tmp/td_predict_%ld.safetensors", (long)getpid());
    snprintf(data_path, sizeof data_path, "/tmp/td_predict_%ld.npy", (long)getpid());
    snprintf(csv_path, sizeof csv_path, "/tmp/td_predict_%ld.csv", (long)getpid());
    (void)atexit(remove_files);
    td_shape shape = td_tensor_shape(w->inputs);
    FILE *file = fopen(data_path, "wb");
    bool good = file && fwrite(header, 1, td__npy_header(header, TD_FLOAT32, &shape), file) > 0 &&
                fwrite(td_tensor_data(w->inputs), sizeof(float), (size_t)td_tensor_count(w->inputs),
                       file) > 0;
    if (!good || fclose(file) || td_model_save(w->model, model_path, 0, NULL, &w->error)) {
        fail("start", &w->error);
    }
}

/* inputs are the predictions here, targets the labels. */
static void write_csv(worker *w) {
    char path[64];
    snprintf(path, sizeof path, "/tmp/td_predict_%ld.csv", (long)getpid());
    int64_t rows = td_tensor_shape(w->inputs).dims[0], classes = td_tensor_shape(w->inputs).dims[1];
    td__predict_output_about about = {
        .data = td_dataset_open(
            TD_DATA(.generate = {.name = "blobs", .examples = 8, .classes = classes}), &w->error),
        .count = 1,
        .outputs = {{.label_count = 1}}};
    td__predict_output *output =
        about.data ? td__predict_output_open(path, &about, &w->error) : NULL;
    td_status status = output ? TD_OK : TD_IO;
    for (int64_t first = 0; !status && first < rows; first += BATCH_ROWS) {
        int64_t count = rows - first < BATCH_ROWS ? rows - first : BATCH_ROWS;
        td_view prediction = {.dtype = TD_FLOAT32,
                              .shape = TD_SHAPE(count, classes),
                              .data = (float *)td_tensor_data(w->inputs) + first * classes};
        td_batch batch = {.count = count,
                          .label = {.dtype = TD_INT32,
                                    .shape = TD_SHAPE(count),
                                    .data = (int32_t *)td_tensor_data(w->targets) + first}};
        status = td__predict_output_write(output, &prediction, &batch, &w->error);
    }
    if (status || td__predict_output_close(output, true, &w->error)) {
        fail("csv", &w->error);
    }
    td_dataset_close((td_dataset *)about.data);
    (void)unlink(path);
}

/* Rows as a softmax puts them out. */
static void start_csv(worker *w, int64_t rows, int64_t classes) {
    w->inputs = td_tensor_create("p", TD_FLOAT32, TD_SHAPE(rows, classes), &w->error);
    w->targets = td_tensor_create("label", TD_INT32, TD_SHAPE(rows), &w->error);
    if (!w->inputs || !w->targets) {
        fail("start", &w->error);
    }
    td__random random;
    td__random_seed(&random, 1, 0);
    float *values = td_tensor_data(w->inputs);
    for (int64_t i = 0; i < rows; i++) {
        double sum = 0;
        for (int64_t k = 0; k < classes; k++) {
            double value = td__random_uniform(&random);
            values[i * classes + k] = (float)value;
            sum += value;
        }
        for (int64_t k = 0; k < classes; k++) {
            values[i * classes + k] /= (float)sum;
        }
        ((int32_t *)td_tensor_data(w->targets))[i] = (int32_t)(i * 7 % classes);
    }
}

int main(int argc, char **argv) {
    worker w = {0};
    if (argc == 5 && !strcmp(argv[1], "forward") && find_network(argv[2]) && atoi(argv[3]) > 0) {
        td_threads_set(atoi(argv[3]));
        start_forward(&w, find_network(argv[2]), atoi(argv[4]));
        answer_lines(&w, forward, NULL);
    } else if (argc == 5 && !strcmp(argv[1], "whole") && find_network(argv[2]) &&
               atoi(argv[3]) > 0) {
        td_threads_set(atoi(argv[3]));
        start_whole(&w, find_network(argv[2]), atoi(argv[4]));
        answer_lines(&w, predict_whole, NULL);
    } else if (argc == 4 && !strcmp(argv[1], "csv")) {
        start_csv(&w, atoi(argv[2]), atoi(argv[3]));
        answer_lines(&w, write_csv, NULL);
    } else {
        fprintf(stderr, "usage: predict forward NETWORK THREADS BATCH | whole NETWORK THREADS "
                        "EXAMPLES | csv ROWS CLASSES\n");
        return 2;
    }
    stop(&w);
    return 0;
}
