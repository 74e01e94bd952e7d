/* A training loop of one's own: a data set, a network, a tape, an optimizer and a deck, each used by itself.
 *
 *     own_loop [DATA.csv LABEL [FOLDER]]     default: a generated set of two classes, runs/own_loop
 *
 * Checkpoints, resuming and the diagnosis while training belong to `tapedeck train`, not to such a loop.
 */
#include "tapedeck/tapedeck.h"

#include <stdio.h>

enum { EPOCHS = 5, MAX_PARAMETERS = 8 };

typedef struct training {
    td_dataset *data;
    td_batches *batches;
    td_model *model;
    td_tape *tape;
    td_optimizer *optimizer;
    td_deck *deck;
} training;

/* One batch: the gradients of the weights and of the hidden layer's output (the layer's error), an update, and what the
 * deck gets of it. A batch's memory is not copied. */
static td_status train_batch(training *t, const td_batch *batch, td_error *error) {
    td_tensor *const *weights, *gradients[MAX_PARAMETERS + 1], *wanted[MAX_PARAMETERS + 1];
    size_t count = td_model_trainable(t->model, &weights);
    td_tensor *x =
        td_tensor_borrow("input", TD_FLOAT32, batch->input.shape, (void *)batch->input.data, error);
    td_tensor *y =
        td_tensor_borrow("label", TD_INT32, batch->label.shape, (void *)batch->label.data, error);
    td_tensor *logits = td_model_forward(t->model, t->tape, x);
    td_tensor *loss = td_sparse_categorical_crossentropy(t->tape, logits, y, TD_FROM_LOGITS);
    for (size_t i = 0; i < count; i++) {
        wanted[i] = weights[i];
    }
    wanted[count] = td_model_output(t->model, "hidden");
    td_status status = td_tape_gradient(t->tape, loss, count + 1, wanted, gradients, error);
    status = status ? status : td_optimizer_step(t->optimizer, gradients, error);
    if (!status) {
        td_deck_batch(t->deck, batch->rows, batch->count);
        td_deck_scalar(t->deck, "loss", (double)td_tensor_scalar(loss));
        td_deck_record(t->deck, "hidden.error", td_view_of(gradients[count]));
    }
    td_tape_reset(t->tape);
    td_tensor_destroy(y);
    td_tensor_destroy(x);
    return status;
}

static td_status train(training *t, td_error *error) {
    td_status status = TD_OK;
    int64_t step = 0;
    for (uint64_t epoch = 1; epoch <= EPOCHS && !status; epoch++) {
        td_batches_start(t->batches, epoch);
        for (td_batch batch; !status && td_batches_next(t->batches, &batch);) {
            td_tape_seed(t->tape, 7, (uint64_t)++step); /* of dropout, in networks that have it */
            td_deck_begin(t->deck, (int64_t)epoch, step, false);
            status = train_batch(t, &batch, error);
            td_deck_step(t->deck, (int64_t)epoch, step);
        }
    }
    return status ? status : td_batches_status(t->batches, error);
}

int main(int argc, char **argv) {
    td_error error = {0};
    const char *file = argc > 2 ? argv[1] : NULL;
    td_names label = TD_NAMES(argc > 2 ? argv[2] : "");
    training t = {.data = td_dataset_open(
                      TD_DATA(.train = file, .label = file ? label : (td_names){0},
                              .generate.name = file ? NULL : "two_moons", .batch = 32, .seed = 7),
                      &error)};
    if (!t.data) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    const td_data_info *info = td_dataset_info(t.data);
    t.batches = td_batches_create(t.data, TD_TRAINING, 0, &error);
    t.tape = td_tape_create(NULL, &error);
    t.model = td_model_create("own", info->input);
    td_add_dense(t.model, .name = "hidden", .units = 16, .activation = TD_RELU);
    td_add_dense(t.model, .name = "logits", .units = info->classes);
    const char *folder = argc > 3 ? argv[3] : "runs/own_loop";
    if (!error.status && !td_model_build(t.model, 7, &error)) {
        td_tensor *const *weights;
        size_t count = td_model_trainable(t.model, &weights);
        t.optimizer = td_optimizer_create(
            TD_OPTIMIZER(.kind = TD_ADAM, .learning_rate = TD_SET(0.01)), count, weights, &error);
        t.deck = t.optimizer ? td_deck_open(folder, &error) : NULL;
    }
    if (t.deck) {
        td_deck_track(t.deck, .what = "loss", .to = "csv,sqlite");
        td_deck_track(t.deck, .what = "hidden.error", .form = TD_ROWS, .to = "csv");
        td_deck_track(t.deck, .what = "hidden.error", .every = 10, .form = TD_STATS,
                      .to = "sqlite");
        char path[4096];
        snprintf(path, sizeof path, "%s/first.safetensors", td_deck_folder(t.deck));
        if (!td_model_save(t.model, path, 0, NULL, &error) && !train(&t, &error)) {
            snprintf(path, sizeof path, "%s/model.safetensors", td_deck_folder(t.deck));
            if (!td_model_save(t.model, path, 0, NULL, &error)) {
                printf("trained; in %s\n", td_deck_folder(t.deck));
            }
        }
        td_error last = {0};
        if (td_deck_close(t.deck, &last) && !error.status) {
            error = last;
        }
    }
    if (error.status) {
        fprintf(stderr, "%s\n", error.text);
    }
    td_optimizer_destroy(t.optimizer);
    td_tape_destroy(t.tape);
    td_model_destroy(t.model);
    td_batches_destroy(t.batches);
    td_dataset_close(t.data);
    return error.status != TD_OK;
}
