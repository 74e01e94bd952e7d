#include "pass/pass.h"

#include "base/memory.h"
#include "nn/kind.h"
#include "nn/model.h"
#include "tape/tape.h"
#include "tensor/element.h"
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
        size_t row = sizeof(float) * (size_t)td__elements_from(&view.shape, 1);
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

/* ---- Recording ------------------------------------------------------------------------------- */

static void record_tensor(td__pass *pass, const td__signal_entry *entry, td_tensor *tensor) {
    if (td__pass_signals_want(pass->signals, entry)) {
        td__pass_signals_record(pass->signals, entry,
                                cut_short(pass, td_tape_view(pass->tape, tensor)));
    }
}

/* What is asked about the layer that has just run. */
static void record_views(td__pass *pass, size_t layer) {
    const td__pass_signals *signals = pass->signals;
    for (size_t i = signals->of_layers; i < signals->of_layers_end; i++) {
        const td__signal_entry *entry = &signals->entries[i];
        if (entry->index == layer && td__pass_signals_want(signals, entry)) {
            const td__layer_kind *kind =
                td__layer_kind_of(td_model_layer(pass->model, layer)->kind);
            td_tensor *tensor =
                kind->views[entry->which].compute(pass->model->layers[layer], pass->tape);
            if (tensor) {
                td__pass_signals_record(signals, entry,
                                        cut_short(pass, td_tape_view(pass->tape, tensor)));
            }
        }
    }
}

static void record_layer(void *user, size_t layer, td_layer_signal which, td_tensor *tensor) {
    td__pass *pass = user;
    const td__pass_signals *signals = pass->signals;
    bool output = which == TD_LAYER_OUTPUT;
    record_tensor(pass, output ? signals->outputs[layer] : signals->preactivations[layer], tensor);
    if (output) {
        record_views(pass, layer);
    }
    if (output && signals->layer_done) {
        signals->layer_done(signals->user, layer, tensor);
    }
}

static void record_batch(const td__pass_signals *signals, const td_batch *batch) {
    td__pass_signals_label(signals, batch);
    if (td__pass_signals_want(signals, signals->input)) {
        td__pass_signals_record(signals, signals->input, batch->input);
    }
    if (td__pass_signals_want(signals, signals->label)) {
        td__pass_signals_record(signals, signals->label, batch->label);
    }
}

/* ---- Forward --------------------------------------------------------------------------------- */

/* What the prediction is compared with; its data is NULL where the batch has none. The truth takes
 * the prediction's shape where only the shape differs. */
static td_view truth_of(const td__pass *pass, const td_tensor *prediction) {
    const td__objective *objective = pass->objective;
    td_view truth = objective->target == TD__TARGET_INPUT ? pass->batch->input : pass->batch->label;
    int64_t count = td__elements_from(&truth.shape, 0);
    if (objective->loss != TD_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY && truth.dtype == TD_FLOAT32 &&
        count == prediction->count) {
        truth.shape = prediction->shape;
    }
    return truth;
}

static td_shape rows_of(int64_t rows, const td_shape *each) {
    td_shape shape = {.rank = each->rank + 1, .dims = {rows}};
    memcpy(shape.dims + 1, each->dims, (size_t)each->rank * sizeof *each->dims);
    return shape;
}

/* The shape of a head's part of the labels, as it is handed over. */
static td_shape part_shape(const td__head *head, const td_tensor *prediction, int64_t rows) {
    const td_data_piece *piece = head->label;
    int64_t count = rows * piece->count;
    if (head->kind == TD_LABEL_ONE_HOT ||
        (head->kind == TD_LABEL_VALUES && count == prediction->count)) {
        return prediction->shape;
    }
    td_shape each =
        piece->count == 1 && head->kind == TD_LABEL_CLASS ? (td_shape){0} : piece->shape;
    return rows_of(rows, &each);
}

/* One row of a head's part; a class that there is none of is no class at all. */
static void read_part(const td__head *head, const float *from, int64_t units, int64_t row,
                      td_tensor *truth) {
    int64_t count = head->label->count;
    for (int64_t i = 0; i < count; i++) {
        int64_t at = row * count + i;
        if (head->kind == TD_LABEL_CLASS) {
            ((int32_t *)truth->data)[at] = (int32_t)from[i];
        } else if (head->kind == TD_LABEL_VALUES) {
            td__floats(truth)[at] = from[i];
        } else if (from[i] >= 0 && from[i] < (float)units) {
            td__floats(truth)[at * units + (int64_t)from[i]] = 1;
        }
    }
}

/* A head's part of the batch's labels; NULL when there are none, or memory is exhausted. */
static td_tensor *part_of_labels(const td__pass *pass, const td__head *head,
                                 const td_tensor *prediction) {
    const td_view *label = &pass->batch->label;
    int64_t rows = pass->batch->count;
    if (!label->data) {
        return NULL;
    }
    int64_t width = label->shape.rank > 1 ? label->shape.dims[1] : 1;
    td_shape shape = part_shape(head, prediction, rows);
    int64_t units = shape.dims[shape.rank - 1];
    td_tensor *truth =
        td__output(pass->tape, head->kind == TD_LABEL_CLASS ? TD_INT32 : TD_FLOAT32, &shape);
    if (truth && head->kind == TD_LABEL_ONE_HOT) {
        memset(truth->data, 0, (size_t)truth->count * sizeof(float));
    }
    for (int64_t row = 0; truth && row < rows; row++) {
        read_part(head, (const float *)label->data + row * width + head->label->first, units, row,
                  truth);
    }
    return truth;
}

/* Steps that do not count have no weight, and the mean is over those that do: mask * steps / those that
 * count, times the weight of each example, as in Keras. */
static td_tensor *masked_weight(td_tape *tape, const td_tensor *mask, const td_tensor *weight) {
    td_tensor *all = td__output(tape, TD_FLOAT32, &mask->shape);
    double valid = 0;
    for (int64_t i = 0; i < mask->count; i++) {
        valid += (double)td__floats(mask)[i];
    }
    float share = valid > 0 ? (float)((double)mask->count / valid) : 0;
    int64_t steps = mask->shape.dims[0] ? mask->count / mask->shape.dims[0] : 0;
    for (int64_t i = 0; all && i < all->count; i++) {
        float own = weight ? td__floats(weight)[i / steps] : 1;
        td__floats(all)[i] = td__floats(mask)[i] * share * own;
    }
    return all;
}

/* The objective's, with the weights of the batch's examples and of steps that count. */
static td_loss_options loss_options(td__pass *pass, const td__objective *objective,
                                    const td_tensor *mask) {
    td_loss_options options = objective->options;
    if (pass->batch->weight.data) {
        td__tensor_point(pass->weight, &pass->batch->weight);
        options.sample_weight = pass->weight;
    }
    if (mask) {
        options.sample_weight = masked_weight(pass->tape, mask, options.sample_weight);
    }
    return options;
}

static const td__objective *objective_of(const td__pass *pass, size_t output) {
    return pass->head_count ? &pass->heads[output].objective : pass->objective;
}

size_t td__pass_outcome_count(const td__pass *pass) {
    return pass->head_count ? pass->head_count : 1;
}

/* The loss of one output, where there is something to compare it with. */
static void take_loss(td__pass *pass, size_t output) {
    td__outcome *outcome = &pass->outcomes[output];
    const td__head *head = pass->head_count ? &pass->heads[output] : NULL;
    if (head && head->label) {
        outcome->truth = part_of_labels(pass, head, outcome->prediction);
    } else {
        td_view truth = truth_of(pass, outcome->prediction);
        outcome->truth = truth.data ? pass->truth : NULL;
        if (truth.data) {
            td__tensor_point(pass->truth, &truth);
        }
    }
    if (outcome->truth) {
        const td__objective *objective = objective_of(pass, output);
        outcome->mask = td__model_mask(pass->model, td_model_output_layer(pass->model, output));
        td_loss_options options = loss_options(pass, objective, outcome->mask);
        outcome->loss = td_loss_compute(pass->tape, objective->loss, outcome->prediction,
                                        outcome->truth, &options);
    }
}

/* The sum of the outputs' losses, by their weights. */
static td_tensor *sum_losses(td__pass *pass) {
    td_tensor *sum = NULL;
    for (size_t i = 0; i < td__pass_outcome_count(pass); i++) {
        double weight = pass->head_count ? pass->heads[i].weight : 1;
        td_tensor *loss = pass->outcomes[i].loss;
        if (loss && weight != 1) {
            loss = td_affine(pass->tape, loss, (float)weight, 0);
        }
        sum = sum && loss ? td_add(pass->tape, sum, loss) : loss;
        if (!loss) {
            return NULL;
        }
    }
    return sum;
}

/* Predictions of all outputs; what was filled up is cut off the first, which such a model has alone. */
static void take_predictions(td__pass *pass) {
    for (size_t i = 0; pass->prediction && i < td__pass_outcome_count(pass); i++) {
        size_t layer = td_model_output_layer(pass->model, i);
        pass->outcomes[i] = (td__outcome){.prediction = td_model_output_at(pass->model, layer)};
    }
    if (pass->prediction && is_short(pass)) {
        td_view kept = cut_short(pass, td_view_of(pass->prediction));
        td__tensor_point(pass->cut, &kept);
        pass->prediction = pass->outcomes[0].prediction = pass->cut;
    }
}

/* The weighted mean of a row; rows that do not count have none. */
static float row_mean(const float *values, const float *mask, int64_t n) {
    double sum = 0, count = 0;
    for (int64_t i = 0; i < n; i++) {
        double weight = mask ? (double)mask[i] : 1;
        sum += weight != 0 ? weight * (double)values[i] : 0;
        count += weight;
    }
    return (float)(sum / count);
}

/* The loss of each example: the mean over its elements that count, summed over the outputs by their weights. It is
 * computed apart, so that the operations of the step are the same with and without it. */
static td_status record_rows(td__pass *pass, td_error *error) {
    td_tensor *rows = td__output(pass->tape, TD_FLOAT32, &TD_SHAPE(pass->batch->count));
    bool no_history = pass->tape->no_history;
    td_status status = TD_OK;
    for (int64_t i = 0; rows && i < rows->count; i++) {
        td__floats(rows)[i] = 0;
    }
    for (size_t k = 0; rows && !status && k < td__pass_outcome_count(pass); k++) {
        const td_tensor *losses, *mask = pass->outcomes[k].mask;
        float weight = pass->head_count ? (float)pass->heads[k].weight : 1;
        pass->tape->no_history = true;
        status = td__pass_example_losses(pass, k, &losses, error);
        pass->tape->no_history = no_history;
        int64_t each = status ? 0 : losses->count / rows->count;
        bool masked = !status && mask && mask->count == losses->count;
        for (int64_t i = 0; !status && i < rows->count; i++) {
            td__floats(rows)[i] +=
                weight * row_mean(td__floats(losses) + i * each,
                                  masked ? td__floats(mask) + i * each : NULL, each);
        }
    }
    if (rows && !status) {
        td__pass_signals_record(pass->signals, pass->signals->loss_rows,
                                td_tape_view(pass->tape, rows));
    }
    return status;
}

/* Some of what is asked about layers is cheapest while they run. */
static void announce_views(td__pass *pass) {
    const td__pass_signals *signals = pass->signals;
    for (size_t i = signals->of_layers; i < signals->of_layers_end; i++) {
        const td__signal_entry *entry = &signals->entries[i];
        const td_layer_info *layer = td_model_layer(pass->model, entry->index);
        const td__layer_view *view = &td__layer_kind_of(layer->kind)->views[entry->which];
        if (view->announce && td__pass_signals_want(signals, entry)) {
            view->announce(pass->tape);
        }
    }
}

td_status td__pass_forward(td__pass *pass, const td_batch *batch, td_error *error) {
    td__pass_signals *signals = pass->signals;
    pass->batch = batch;
    pass->bare = pass->loss = NULL;
    pass->prediction = NULL;
    pass->outcomes[0] = (td__outcome){0};
    td_status status = set_input(pass, error);
    if (status) {
        return status;
    }
    if (signals) {
        record_batch(signals, batch);
        announce_views(pass);
        td_model_watch(pass->model, record_layer, pass);
    }
    pass->prediction = td_model_forward(pass->model, pass->tape, pass->input);
    if (signals) {
        td_model_watch(pass->model, NULL, NULL);
    }
    take_predictions(pass);
    bool has_loss = pass->prediction && (pass->objective || pass->head_count);
    for (size_t i = 0; has_loss && i < td__pass_outcome_count(pass); i++) {
        take_loss(pass, i);
    }
    pass->bare = has_loss ? sum_losses(pass) : NULL;
    if (pass->bare) {
        td_tensor *loss =
            pass->more_loss ? pass->more_loss(pass->more_user, pass->tape, pass->bare) : pass->bare;
        pass->loss = td_model_regularize(pass->model, pass->tape, loss);
        if (pass->loss && signals && td__pass_signals_want(signals, signals->loss_rows)) {
            status = record_rows(pass, error);
        }
    }
    return status ? status : td_tape_status(pass->tape, error);
}

/* Of x, whose first axes are the mask's, the rows that count: (rows, rest). */
static td_tensor *counted(td_tape *tape, const td_tensor *x, const td_tensor *mask, int64_t rows) {
    int64_t width = x->count / mask->count, kept = 0;
    td_shape shape = x->shape.rank > mask->shape.rank ? TD_SHAPE(rows, width) : TD_SHAPE(rows);
    td_tensor *y = td__output(tape, x->dtype, &shape);
    size_t size = (size_t)width * td_dtype_size(x->dtype);
    for (int64_t i = 0; y && i < mask->count; i++) {
        if (td__floats(mask)[i] != 0) {
            memcpy((char *)y->data + (size_t)kept++ * size,
                   (const char *)x->data + (size_t)i * size, size);
        }
    }
    return y;
}

bool td__pass_counted(const td__pass *pass, size_t output, const td_tensor **prediction,
                      const td_tensor **truth) {
    const td__outcome *outcome = &pass->outcomes[output];
    const td_tensor *mask = outcome->mask;
    int64_t rows = 0;
    *prediction = outcome->prediction;
    *truth = outcome->truth;
    if (!mask || outcome->prediction->count % mask->count || outcome->truth->count % mask->count) {
        return true;
    }
    for (int64_t i = 0; i < mask->count; i++) {
        rows += td__floats(mask)[i] != 0;
    }
    *prediction = rows ? counted(pass->tape, outcome->prediction, mask, rows) : NULL;
    *truth = rows ? counted(pass->tape, outcome->truth, mask, rows) : NULL;
    return *prediction && *truth;
}

td_status td__pass_example_losses(td__pass *pass, size_t output, const td_tensor **losses,
                                  td_error *error) {
    const td__outcome *outcome = &pass->outcomes[output];
    const td__objective *objective = objective_of(pass, output);
    td_loss_options options = objective->options;
    options.per_example = true;
    *losses =
        td_loss_compute(pass->tape, objective->loss, outcome->prediction, outcome->truth, &options);
    return td_tape_status(pass->tape, error);
}

/* ---- Backward -------------------------------------------------------------------------------- */

typedef struct listener {
    td__pass *pass;
    td__signal_entry *const *signals; /* may be NULL, as may each of them */
} listener;

static void gradient_ready(void *user, size_t index, td_tensor *gradient) {
    const listener *l = user;
    const td__pass *pass = l->pass;
    if (l->signals && l->signals[index]) {
        td__pass_signals_record(pass->signals, l->signals[index],
                                td_tape_view(pass->tape, gradient));
    }
    if (pass->gradient_ready) {
        pass->gradient_ready(pass->ready_user, index, gradient);
    }
}

td_status td__pass_backward(td__pass *pass, size_t kept, size_t count, td_tensor *const targets[],
                            td_tensor *gradients[], td__signal_entry *const signals[],
                            td_error *error) {
    listener l = {pass, signals};
    td_tensor *loss = pass->loss;
    if (pass->scale != 0 && pass->scale != 1) {
        loss = td_affine(pass->tape, loss, pass->scale, 0);
    }
    return td_tape_gradient_keep(pass->tape, loss, kept, count, targets, gradients, gradient_ready,
                                 &l, error);
}

void td__pass_end(td__pass *pass) {
    td_tape_reset(pass->tape);
    pass->batch = NULL;
    pass->prediction = pass->bare = pass->loss = NULL;
}
