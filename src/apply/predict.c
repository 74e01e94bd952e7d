/* A saved model over new data: outputs to a file, and signals from inside it to a run. */
#include "tapedeck/apply.h"

#include "apply/predict_output.h"
#include "apply/saved.h"
#include "base/memory.h"
#include "deck/glob.h"
#include "tape/tape.h"
#include "tapedeck/data.h"
#include "tapedeck/deck.h"
#include "tapedeck/model.h"
#include "tensor/tensor.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NAME_SIZE = 512, BATCH = 256 };

typedef struct predictor {
    td__saved saved;
    td_model *model; /* the saved one */
    td_tape *tape;
    td_tensor *input;
    td__predict_output *output;
    td_deck *deck;
    td_metric *accuracy;
    int64_t examples;
    bool moves;     /* outputs are written with the channels first */
    int64_t fixed;  /* examples of every batch; 0: any number */
    int64_t count;  /* of this batch: with a fixed one, what follows is not looked at */
    float *padded;  /* room for a batch that is not full */
    td_tensor *cut; /* a prediction without what was padded */
} predictor;

/* ---- Opening ----------------------------------------------------------------------------------
 */

/* A signal's name; part is "output" or "preactivation". */
static const char *signal_name(char *out, size_t size, const td_layer_info *layer,
                               const char *part) {
    (void)snprintf(out, size, "%s.%s", layer->name, part);
    return out;
}

static bool matches_any(const td_model *model, const char *pattern) {
    char name[NAME_SIZE];
    bool found = td__glob_match(pattern, "input") || td__glob_match(pattern, "prediction");
    for (size_t i = 0; !found && i < td_model_layer_count(model); i++) {
        const td_layer_info *layer = td_model_layer(model, i);
        found = td__glob_match(pattern, signal_name(name, sizeof name, layer, "output")) ||
                (layer->has_activation &&
                 td__glob_match(pattern, signal_name(name, sizeof name, layer, "preactivation")));
    }
    return found;
}

/* Every pattern must mean something, and pre-activations that are meant must be kept. */
static td_status keep_wanted(predictor *p, const char *record, td_error *error) {
    size_t count;
    char **patterns = td__glob_split(record, &count);
    td_status status = patterns ? TD_OK : td_error_set(error, TD_MEMORY, "out of memory");
    for (size_t k = 0; !status && k < count; k++) {
        if (!matches_any(p->model, patterns[k])) {
            status = td_error_set(error, TD_NOT_FOUND,
                                  "no signal '%s': a prediction has input, prediction, "
                                  "LAYER.output and LAYER.preactivation; errors and gradients are "
                                  "td_gradients' (tapedeck gradients)",
                                  patterns[k]);
        }
        for (size_t i = 0; !status && i < td_model_layer_count(p->model); i++) {
            const td_layer_info *layer = td_model_layer(p->model, i);
            char name[NAME_SIZE];
            if (layer->has_activation &&
                td__glob_match(patterns[k],
                               signal_name(name, sizeof name, layer, "preactivation"))) {
                status = td_model_keep_preactivation(p->model, layer->name, true, error);
            }
        }
    }
    td__free(patterns);
    return status;
}

static td_status open_run(predictor *p, const td_predict_options *options,
                          const td_signal_info *scores, td_error *error) {
    td_status wanted = keep_wanted(p, options->record, error);
    if (wanted) {
        return wanted;
    }
    td_deck_options deck = {
        .size = sizeof deck, .stream = options->stream, .busy_cores = td_threads()};
    p->deck = td_deck_open_with(options->out ? options->out : "runs/predict", &deck, error);
    if (!p->deck) {
        return TD_IO;
    }
    td_track track = {.size = sizeof track, .what = options->record, .to = options->sinks};
    char *forms = td__strdup(options->form ? options->form : "");
    td_status status = forms ? TD_OK : td_error_set(error, TD_MEMORY, "out of memory");
    char *rest = forms;
    for (char *form; !status && (form = strsep(&rest, ", "));) {
        uint32_t bit = td_form_find(form);
        track.form |= bit;
        if (*form && !bit) {
            status = td_error_set(error, TD_NOT_FOUND, "there is no form '%s'", form);
        }
    }
    td__free(forms);
    if (!status) {
        status = td_deck_track_with(p->deck, &track, error);
    }
    if (!status && !td_deck_signal_with(p->deck, "prediction", scores)) {
        status = td_error_set(error, TD_MEMORY, "out of memory");
    }
    return status;
}

/* Only the last batch of a model with a fixed one is longer than what it holds. */
static td_view cut_short(const predictor *p, td_tensor *tensor) {
    td_view view = td_tape_view(p->tape, tensor);
    if (p->fixed && view.shape.rank > 0 && view.shape.dims[0] == p->fixed) {
        view.shape.dims[0] = p->count;
    }
    return view;
}

static void watch(void *user, size_t layer, td_layer_signal signal, td_tensor *tensor) {
    predictor *p = user;
    char name[NAME_SIZE];
    signal_name(name, sizeof name, td_model_layer(p->model, layer),
                signal == TD_LAYER_OUTPUT ? "output" : "preactivation");
    if (td_deck_wants(p->deck, name)) {
        (void)td_deck_record(p->deck, name, cut_short(p, tensor));
    }
}

static bool has_one_output(const td_model *model) {
    td_shape output = td_model_layer(model, td_model_layer_count(model) - 1)->output;
    return output.rank == 0 || output.dims[output.rank - 1] == 1;
}

/* What the outputs score: as the loss of training says, else (a model of others) as its last
 * activation or the labels do. */
static td_signal_info describe_scores(const td__saved *saved) {
    const td_data_info *info = td_dataset_info(saved->data);
    const td__notes *notes = &saved->notes;
    td_signal_info scores = {.size = sizeof scores,
                             .kind = TD_SIGNAL_PREDICTION,
                             .batched = true,
                             .units = notes->data.classes.items,
                             .unit_count = notes->data.classes.count};
    if (!scores.unit_count && info->class_names) {
        scores.units = info->class_names;
        scores.unit_count = (size_t)info->classes;
    }
    const td_layer_info *last =
        td_model_layer(saved->model, td_model_layer_count(saved->model) - 1);
    td_loss loss = notes->loss;
    bool from_logits = notes->loss_options.from_logits;
    if (!notes->has_loss) {
        bool classes = info->label_kind == TD_LABEL_CLASS && !has_one_output(saved->model);
        const char *activation = td__last_activation(saved->model);
        bool categories = classes || (activation && !strcmp(activation, "softmax"));
        bool two = activation && !strcmp(activation, "sigmoid") && has_one_output(saved->model);
        loss = categories ? TD_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY
               : two      ? TD_LOSS_BINARY_CROSSENTROPY
                          : TD_LOSS_MSE;
        from_logits = false;
    }
    if (notes->target == TD__TARGET_LABEL) {
        scores.classes = td__scored_classes(loss, from_logits, &last->output, &scores.threshold);
    }
    return scores;
}

static td_status prepare(predictor *p, const td_predict_options *options, td_error *error) {
    td_signal_info scores = describe_scores(&p->saved);
    td_tape_options inference = {.size = sizeof inference, .no_history = true};
    const td_data_info *info = td_dataset_info(p->saved.data);
    float nothing = 0;
    p->tape = td_tape_create(&inference, error);
    p->input = td_tensor_borrow("input", TD_FLOAT32, TD_SHAPE(1), &nothing, error);
    p->cut = td_tensor_borrow("prediction", TD_FLOAT32, TD_SHAPE(1), &nothing, error);
    if (!p->tape || !p->input || !p->cut) {
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    td__tape_limit(p->tape, options->memory > 0 ? (size_t)options->memory : td__memory_half());
    if (info->label_kind == TD_LABEL_CLASS && (info->classes == 2 || !has_one_output(p->model))) {
        p->accuracy = td_metric_create(TD_METRIC(.kind = TD_METRIC_ACCURACY), error);
        if (!p->accuracy) {
            return TD_MEMORY;
        }
    }
    if (options->to) {
        const td__predict_output_about about = {p->saved.data, p->saved.labelled, scores};
        p->output = td__predict_output_open(options->to, &about, error);
        if (!p->output) {
            return error->status ? error->status : TD_IO;
        }
        p->moves = p->saved.output_first && options->layout != TD_LAYOUT_CHANNELS_LAST &&
                   !td__predict_output_is_pictures(p->output);
    }
    td_status status = options->record ? open_run(p, options, &scores, error) : TD_OK;
    if (!status && p->deck) {
        td_model_watch(p->model, watch, p);
    }
    return status;
}

/* ---- Running ----------------------------------------------------------------------------------
 */

static td_status measure(predictor *p, const td_tensor *prediction, const td_batch *batch,
                         td_error *error) {
    if (!p->accuracy) {
        return TD_OK;
    }
    td_tensor *truth = td_tensor_borrow("label", batch->label.dtype, batch->label.shape,
                                        (void *)(uintptr_t)batch->label.data, error);
    td_status status = truth ? td_metric_update(p->accuracy, prediction, truth, NULL) : TD_MEMORY;
    td_tensor_destroy(truth);
    if (status == TD_MEMORY) {
        return status;
    }
    if (status) { /* labels that this model's outputs cannot be compared with */
        td_metric_destroy(p->accuracy);
        p->accuracy = NULL;
    }
    return TD_OK;
}

static td_tensor *channels_first(td_tape *tape, td_tensor *x) {
    int32_t rank = td_tensor_shape(x).rank, order[TD_MAX_RANK] = {0, rank - 1};
    for (int32_t i = 2; i < rank; i++) {
        order[i] = i - 1;
    }
    return td_transpose(tape, x, order);
}

static td_status write_out(predictor *p, td_tensor *prediction, const td_batch *batch,
                           td_error *error) {
    td_tensor *written = p->moves ? channels_first(p->tape, prediction) : prediction;
    td_status status = td_tape_status(p->tape, error);
    if (status) {
        return status;
    }
    td_view view = td_view_of(written);
    return td__predict_output_write(p->output, &view, batch, error);
}

/* The batch as it is, or filled up with its last example. */
static td_status set_input(predictor *p, const td_batch *batch, td_error *error) {
    td_view view = batch->input;
    p->count = batch->count;
    if (p->fixed && batch->count < p->fixed) {
        size_t row = sizeof(float);
        for (int32_t i = 1; i < view.shape.rank; i++) {
            row *= (size_t)view.shape.dims[i];
        }
        p->padded = p->padded ? p->padded : td__calloc((size_t)p->fixed, row);
        if (!p->padded) {
            return td_error_set(error, TD_MEMORY, "out of memory for a batch");
        }
        memcpy(p->padded, view.data, (size_t)batch->count * row);
        for (int64_t i = batch->count; i < p->fixed; i++) {
            memcpy((char *)p->padded + (size_t)i * row,
                   (const char *)view.data + (size_t)(batch->count - 1) * row, row);
        }
        view.data = p->padded;
        view.shape.dims[0] = p->fixed;
    }
    td__head_set(p->input, &view);
    return TD_OK;
}

static td_status run_batch(predictor *p, const td_batch *batch, td_error *error) {
    int64_t step = batch->index + 1;
    if (p->deck) {
        (void)td_deck_begin(p->deck, 1, step, false);
        (void)td_deck_batch_labels(p->deck, batch->rows, batch->count,
                                   p->saved.labelled ? &batch->label : NULL);
        (void)td_deck_record(p->deck, "input", batch->input);
    }
    td_status status = set_input(p, batch, error);
    td_tensor *made = status ? NULL : td_model_forward(p->model, p->tape, p->input);
    td_tensor *prediction = made;
    status = status ? status : td_tape_status(p->tape, error);
    if (!status && p->fixed) {
        td_view kept = td_view_of(made);
        kept.shape.dims[0] = p->count;
        td__head_set(p->cut, &kept);
        prediction = p->cut;
    }
    if (!status && p->output) {
        status = write_out(p, prediction, batch, error);
    }
    if (!status) {
        status = measure(p, prediction, batch, error);
        p->examples += batch->count;
    }
    if (!status && p->deck) {
        (void)td_deck_record(p->deck, "prediction", cut_short(p, made));
        (void)td_deck_step(p->deck, 1, step);
    }
    td_tape_reset(p->tape);
    return status;
}

static void tell_remarks(const predictor *p, const td_predict_options *options) {
    td_names remarks = td_dataset_info(p->saved.data)->remarks;
    for (size_t i = 0; options->remark && i < remarks.count; i++) {
        options->remark(options->user, remarks.items[i]);
    }
    if (options->remark && p->fixed && p->fixed != options->batch) {
        char text[160];
        (void)snprintf(text, sizeof text,
                       "the model's file has a fixed batch: it runs on %lld at a time, the last "
                       "ones filled up",
                       (long long)p->fixed);
        options->remark(options->user, text);
    }
}

static void tell(const predictor *p, td_prediction *result) {
    if (result) {
        *result = (td_prediction){.examples = p->examples,
                                  .labelled = p->saved.labelled,
                                  .accuracy = p->accuracy ? td_metric_value(p->accuracy) : NAN};
        (void)snprintf(result->folder, sizeof result->folder, "%s",
                       p->deck ? td_deck_folder(p->deck) : "");
    }
}

static void release(predictor *p) {
    td_metric_destroy(p->accuracy);
    td_tensor_destroy(p->input);
    td_tensor_destroy(p->cut);
    td__free(p->padded);
    td_tape_destroy(p->tape);
    td__saved_release(&p->saved);
}

td_status td_predict(const char *model, const char *data, const td_predict_options *options,
                     td_prediction *result, td_error *error) {
    td_predict_options all = {0};
    td_error reason = {0};
    predictor p = {0};
    if (options) {
        memcpy(&all, options, options->size < sizeof all ? options->size : sizeof all);
    }
    td__saved_options opening = {.labels = all.labels,
                                 .label = all.label,
                                 .scale = all.scale,
                                 .layout = all.layout,
                                 .batch = all.batch > 0 ? all.batch : BATCH};
    td_status status = td__saved_load(&p.saved, model, &reason);
    if (!status) {
        p.fixed = p.saved.fixed_batch;
        status = td__saved_open(&p.saved, data, &opening, &reason);
    }
    if (!status) {
        tell_remarks(&p, &all);
        p.model = p.saved.model;
        status = prepare(&p, &all, &reason);
    }
    if (!status) {
        td_batches_start(p.saved.batches, 1);
    }
    for (td_batch batch; !status && td_batches_next(p.saved.batches, &batch);) {
        status = run_batch(&p, &batch, &reason);
        if (!status && all.progress &&
            !all.progress(all.user, p.examples, td_dataset_info(p.saved.data)->training)) {
            status = td_error_set(&reason, TD_INTERRUPTED, "stopped after %lld examples",
                                  (long long)p.examples);
        }
    }
    if (!status) {
        tell(&p, result);
    }
    td_error closing = {0};
    td_status closed = td__predict_output_close(p.output, !status, &closing);
    td_status recorded = td_deck_close(p.deck, closed ? NULL : &closing);
    if (!status && (closed || recorded)) {
        status = closed ? closed : recorded;
        reason = closing;
    }
    release(&p);
    return status ? td_error_set(error, status, "%s", reason.text) : TD_OK;
}
