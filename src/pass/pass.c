#include "pass/pass.h"

#include "base/memory.h"
#include "tensor/tensor.h"

#include <string.h>

td_status td__pass_init(td__pass *pass, td_model *model, const td__objective *objective,
                        const td_tape_options *options, td_error *error) {
    float nothing = 0;
    pass->model = model;
    pass->objective = objective;
    pass->tape = td_tape_create(options, error);
    pass->input = td_tensor_borrow("input", TD_FLOAT32, TD_SHAPE(1), &nothing, error);
    pass->truth = td_tensor_borrow("label", TD_FLOAT32, TD_SHAPE(1), &nothing, error);
    pass->weight = td_tensor_borrow("weight", TD_FLOAT32, TD_SHAPE(1), &nothing, error);
    pass->cut = td_tensor_borrow("prediction", TD_FLOAT32, TD_SHAPE(1), &nothing, error);
    bool room = pass->tape && pass->input && pass->truth && pass->weight && pass->cut;
    return room ? TD_OK : TD_MEMORY;
}

void td__pass_release(td__pass *pass) {
    td_tape_destroy(pass->tape);
    td_tensor_destroy(pass->input);
    td_tensor_destroy(pass->truth);
    td_tensor_destroy(pass->weight);
    td_tensor_destroy(pass->cut);
    td__free(pass->padded);
    *pass = (td__pass){0};
}

/* ---- A batch that is not full ---------------------------------------------------------------- */

static bool is_short(const td__pass *pass) {
    return pass->fixed && pass->batch->count < pass->fixed;
}

static td_status set_input(td__pass *pass, td_error *error) {
    const td_batch *batch = pass->batch;
    td_view view = batch->input;
    if (is_short(pass)) {
        size_t row = sizeof(float);
        for (int32_t i = 1; i < view.shape.rank; i++) {
            row *= (size_t)view.shape.dims[i];
        }
        pass->padded = pass->padded ? pass->padded : td__calloc((size_t)pass->fixed, row);
        if (!pass->padded) {
            return td_error_set(error, TD_MEMORY, "out of memory for a batch");
        }
        memcpy(pass->padded, view.data, (size_t)batch->count * row);
        for (int64_t i = batch->count; i < pass->fixed; i++) {
            memcpy((char *)pass->padded + (size_t)i * row,
                   (const char *)view.data + (size_t)(batch->count - 1) * row, row);
        }
        view.data = pass->padded;
        view.shape.dims[0] = pass->fixed;
    }
    td__tensor_point(pass->input, &view);
    return TD_OK;
}

/* Without what was filled up. */
static td_view cut_short(const td__pass *pass, td_view view) {
    if (is_short(pass) && view.shape.rank > 0 && view.shape.dims[0] == pass->fixed) {
        view.shape.dims[0] = pass->batch->count;
    }
    return view;
}

/* ---- Telling the deck ------------------------------------------------------------------------ */

static void tell(td__pass *pass, td_signal *signal, td_tensor *tensor) {
    if (signal && td_signal_wants(signal)) {
        (void)td_signal_record(signal, cut_short(pass, td_tape_view(pass->tape, tensor)));
    }
}

static void tell_layer(void *user, size_t layer, td_layer_signal which, td_tensor *tensor) {
    td__pass *pass = user;
    const td__pass_signals *signals = pass->signals;
    bool output = which == TD_LAYER_OUTPUT;
    tell(pass, output ? signals->outputs[layer] : signals->preactivations[layer], tensor);
    if (output && signals->layer_done) {
        signals->layer_done(signals->user, layer, tensor);
    }
}

static void tell_batch(const td__pass_signals *signals, const td_batch *batch) {
    (void)td_deck_batch_labels(signals->deck, batch->rows, batch->count,
                               batch->label.data ? &batch->label : NULL);
    if (td_signal_wants(signals->input)) {
        (void)td_signal_record(signals->input, batch->input);
    }
    if (signals->label && td_signal_wants(signals->label)) {
        (void)td_signal_record(signals->label, batch->label);
    }
}

/* ---- Forward --------------------------------------------------------------------------------- */

/* What the prediction is compared with; its data is NULL where the batch has none. The truth takes
 * the prediction's shape where only the shape differs. */
static td_view truth_of(const td__pass *pass) {
    const td__objective *objective = pass->objective;
    td_view truth = objective->target == TD__TARGET_INPUT ? pass->batch->input : pass->batch->label;
    int64_t count = 1;
    for (int32_t i = 0; i < truth.shape.rank; i++) {
        count *= truth.shape.dims[i];
    }
    if (objective->loss != TD_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY && truth.dtype == TD_FLOAT32 &&
        count == pass->prediction->count) {
        truth.shape = pass->prediction->shape;
    }
    return truth;
}

/* The objective's, with the weights of the batch's examples. */
static td_loss_options loss_options(td__pass *pass) {
    td_loss_options options = pass->objective->options;
    if (pass->batch->weight.data) {
        td__tensor_point(pass->weight, &pass->batch->weight);
        options.sample_weight = pass->weight;
    }
    return options;
}

td_status td__pass_forward(td__pass *pass, const td_batch *batch, td_error *error) {
    td__pass_signals *signals = pass->signals;
    pass->batch = batch;
    pass->bare = pass->loss = NULL;
    pass->prediction = NULL;
    td_status status = set_input(pass, error);
    if (status) {
        return status;
    }
    if (signals) {
        tell_batch(signals, batch);
        td_model_watch(pass->model, tell_layer, pass);
    }
    pass->prediction = td_model_forward(pass->model, pass->tape, pass->input);
    if (signals) {
        td_model_watch(pass->model, NULL, NULL);
    }
    if (pass->prediction && is_short(pass)) {
        td_view kept = cut_short(pass, td_view_of(pass->prediction));
        td__tensor_point(pass->cut, &kept);
        pass->prediction = pass->cut;
    }
    td_view truth = pass->prediction && pass->objective ? truth_of(pass) : (td_view){.data = NULL};
    if (truth.data) {
        td_loss_options options = loss_options(pass);
        td__tensor_point(pass->truth, &truth);
        pass->bare = td_loss_compute(pass->tape, pass->objective->loss, pass->prediction,
                                     pass->truth, &options);
        pass->loss = td_model_regularize(pass->model, pass->tape, pass->bare);
    }
    return td_tape_status(pass->tape, error);
}

td_status td__pass_example_losses(td__pass *pass, const td_tensor **losses, td_error *error) {
    td_loss_options options = pass->objective->options;
    options.per_example = true;
    *losses =
        td_loss_compute(pass->tape, pass->objective->loss, pass->prediction, pass->truth, &options);
    return td_tape_status(pass->tape, error);
}

/* ---- Backward -------------------------------------------------------------------------------- */

typedef struct listener {
    td__pass *pass;
    td_signal *const *tell;
} listener;

static void gradient_ready(void *user, size_t index, td_tensor *gradient) {
    const listener *l = user;
    if (l->tell && l->tell[index]) {
        (void)td_signal_record(l->tell[index], td_tape_view(l->pass->tape, gradient));
    }
}

td_status td__pass_backward(td__pass *pass, size_t count, td_tensor *const targets[],
                            td_tensor *gradients[], td_signal *const to_tell[], td_error *error) {
    listener l = {pass, to_tell};
    return td_tape_gradient_notify(pass->tape, pass->loss, count, targets, gradients,
                                   gradient_ready, &l, error);
}

void td__pass_end(td__pass *pass) {
    td_tape_reset(pass->tape);
    pass->batch = NULL;
    pass->prediction = pass->bare = pass->loss = NULL;
}
