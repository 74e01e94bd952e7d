/* A saved model over new data: outputs to a file, and signals from inside it to a run. */
#include "data/table.h"
#include "tapedeck/apply.h"
#include "tensor/element.h"

#include "apply/predict_output.h"
#include "apply/saved.h"
#include "base/memory.h"
#include "base/options.h"
#include "deck/glob.h"
#include "deck/route.h"
#include "nn/model.h"
#include "pass/pass.h"
#include "tape/tape.h"
#include "tapedeck/data.h"
#include "tapedeck/deck.h"
#include "tapedeck/model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { BATCH = 256 };

/* A file or folder that predictions go to. */
typedef struct target {
    td__predict_output *output;
    size_t first; /* of the model's outputs that it takes */
    bool moves;   /* outputs are written with the channels first */
} target;

typedef struct predictor {
    td__saved saved;
    td__objective objective; /* what the outputs are scores by */
    td__pass pass;
    td__pass_signals signals;
    target *targets; /* for each `to` one that takes all outputs, or one for each */
    size_t target_count, target_capacity, output_count;
    td_deck *deck;
    td_metric *accuracy;
    int64_t examples;
    bool named; /* the model's file says what its columns are */
    bool keep_files;
    td_view shown; /* the batch's prediction, in the units of the labels */
    float *undone; /* room for that */
    size_t undone_capacity;
} predictor;

/* ---- Opening --------------------------------------------------------------------------------- */

/* Every pattern must mean something, and the pre-activations that it matches must be kept. */
static td_status keep_wanted(predictor *p, const char *record, td_error *error) {
    size_t count;
    char **patterns = td__glob_split(record, &count);
    td_status status = patterns ? TD_OK : td_error_set(error, TD_MEMORY, "out of memory");
    for (size_t k = 0; !status && k < count; k++) {
        if (!td__pass_signals_match(&p->signals, patterns[k])) {
            const char *nearest = td__pass_signals_nearest(&p->signals, patterns[k]);
            status = td_error_set(error, TD_NOT_FOUND,
                                  "no signal '%s'%s%s%s: a prediction has input, prediction, "
                                  "LAYER.output and LAYER.preactivation; errors and gradients are "
                                  "td_gradients' (tapedeck gradients)",
                                  patterns[k], nearest ? "; did you mean '" : "",
                                  nearest ? nearest : "", nearest ? "'?" : "");
        }
        for (size_t i = 0; !status && i < p->signals.count; i++) {
            const td__signal_entry *entry = &p->signals.entries[i];
            if (entry->kind == TD_SIGNAL_PREACTIVATION &&
                td__glob_match(patterns[k], entry->name)) {
                const char *layer = td_model_layer(p->saved.model, entry->index)->name;
                status = td_model_keep_preactivation(p->saved.model, layer, true, error);
            }
        }
    }
    td__free(patterns);
    return status;
}

/* The track that the options mean, checked before there is a folder. */
static td_status make_track(const td_predict_options *options, td_track *track, td_error *error) {
    bool chosen[TD__SINKS] = {false};
    *track = (td_track){.size = sizeof *track, .what = options->record, .to = options->sinks};
    char *forms = td__strdup(options->form ? options->form : "");
    td_status status = forms ? TD_OK : td_error_set(error, TD_MEMORY, "out of memory");
    char *rest = forms;
    for (char *form; !status && (form = strsep(&rest, ", "));) {
        uint32_t bit = td_form_find(form);
        track->form |= bit;
        if (*form && !bit) {
            status = td_error_set(error, TD_NOT_FOUND, "there is no form '%s'", form);
        }
    }
    td__free(forms);
    return status ? status : td__route(td_sinks(), track->form, track->to, chosen, error);
}

static td_status open_run(predictor *p, const td_predict_options *options, td_error *error) {
    td_track track;
    td_status status = keep_wanted(p, options->record, error);
    status = status ? status : make_track(options, &track, error);
    if (status) {
        return status;
    }
    td_deck_options deck = {.size = sizeof deck,
                            .stream = options->stream,
                            .busy_cores = td_threads(),
                            .run_parts = td_threads_run};
    p->deck = td_deck_open_with(options->out ? options->out : "runs/predict", &deck, error);
    status = p->deck ? td_deck_track_with(p->deck, &track, error) : TD_IO;
    status = status ? status : td__pass_signals_connect(&p->signals, p->deck, error);
    p->pass.signals = &p->signals;
    return status;
}

static bool has_one_output(const td_model *model) {
    td_shape output = td__output_layer(model, 0)->output;
    return output.rank == 0 || output.dims[output.rank - 1] == 1;
}

/* What the outputs score by: the objective of training, else (a model of others) what its last
 * activation or the labels say. */
static td__objective guess_objective(const td__saved *saved) {
    const td_data_info *info = td_dataset_info(saved->data);
    bool classes = info->label_kind == TD_LABEL_CLASS && !has_one_output(saved->model);
    const char *activation = td__output_activation(saved->model, 0);
    bool named = td__model_facts_of(saved->model)->class_count > 0;
    bool categories = classes || named || (activation && !strcmp(activation, "softmax"));
    bool two = activation && !strcmp(activation, "sigmoid") && has_one_output(saved->model);
    return (td__objective){.loss = categories ? TD_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY
                                   : two      ? TD_LOSS_BINARY_CROSSENTROPY
                                              : TD_LOSS_MSE};
}

static td_status list_signals(predictor *p, td_error *error) {
    const td__notes *notes = &p->saved.notes;
    p->objective = notes->has_loss ? notes->objective : guess_objective(&p->saved);
    if (!td__pass_signals_add_model(&p->signals, p->saved.model, td_dataset_info(p->saved.data),
                                    &p->objective, false)) {
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    const td__model_facts *facts = td__model_facts_of(p->saved.model);
    p->named = facts->class_count && !notes->data.classes.count;
    if (notes->data.classes.count || p->named) {
        p->signals.scores.units = p->named ? facts->classes : notes->data.classes.items;
        p->signals.scores.unit_count = p->named ? facts->class_count : notes->data.classes.count;
    }
    bool named = p->signals.scores.units && p->objective.target == TD__TARGET_LABEL;
    p->signals.scores.values = notes->has_loss && !named && p->signals.scores.values;
    return TD_OK;
}

/* Above which output of one unit the second of two classes is predicted, and why, where the model does not
 * say what it was trained for. */
static void say_threshold(const predictor *p, const td_predict_options *options) {
    if (options->remark && !p->saved.notes.has_loss && has_one_output(p->saved.model) &&
        p->objective.loss != TD_LOSS_BINARY_CROSSENTROPY) {
        options->remark(options->user,
                        "accuracy: the model does not say what its output means; above "
                        "0.5 is taken as class 1 (of logits, 0 would be the border)");
    }
}

static td_status make_accuracy(predictor *p, const td_predict_options *options, td_error *error) {
    const td_data_info *info = td_dataset_info(p->saved.data);
    if (p->output_count > 1 || info->label_kind != TD_LABEL_CLASS ||
        (info->classes != 2 && has_one_output(p->saved.model))) {
        return TD_OK;
    }
    p->accuracy = td_metric_create(
        TD_METRIC(.kind = TD_METRIC_ACCURACY, .link = td__link_of(&p->objective)), error);
    say_threshold(p, options);
    return p->accuracy ? TD_OK : TD_MEMORY;
}

/* What one of the outputs is, as files are to know it. */
static td__predicted_output describe_output(const predictor *p, size_t output) {
    const td_data_info *info = td_dataset_info(p->saved.data);
    td__predicted_output result = {.scores = p->signals.scores};
    if (p->output_count == 1) {
        result.label_count = p->saved.labelled ? td__elements_from(&info->label, 0) : 0;
        return result;
    }
    const td_layer_info *layer = td__output_layer(p->saved.model, output);
    const td__head *head = p->saved.head_count ? &p->saved.heads[output] : NULL;
    result = (td__predicted_output){.name = layer->name, .scores = {.size = sizeof result.scores}};
    for (size_t i = 0; i < info->label_piece_count; i++) {
        if (!strcmp(info->label_pieces[i].name, layer->name)) {
            result.first_label = info->label_pieces[i].first;
            result.label_count = info->label_pieces[i].count;
        }
    }
    if (head) {
        result.scores.classes =
            td__scored_classes(&head->objective, &layer->output, &result.scores.threshold);
    }
    return result;
}

/* "outputs.npy" of output "price": "outputs.price.npy"; "pictures/": "pictures/price/". From td__calloc. */
static char *name_file(const char *path, const char *output) {
    size_t length = strlen(path), room = length + strlen(output) + 3;
    char *name = td__calloc(room, 1);
    bool folder = length && path[length - 1] == '/';
    const char *dot = strrchr(path, '.');
    size_t stem = folder || !dot ? length : (size_t)(dot - path);
    if (name && folder) {
        (void)mkdir(path, 0777); /* there already, or what is in it cannot be made */
        (void)snprintf(name, room, "%s%s/", path, output);
    } else if (name) {
        (void)snprintf(name, room, "%.*s.%s%s", (int)stem, path, output, path + stem);
    }
    return name;
}

static td_status open_outputs(predictor *p, const char *to, td_layout layout, td_error *error) {
    bool together = p->output_count == 1 || td__predict_output_takes_several(to);
    size_t files = together ? 1 : p->output_count;
    if (!td__grow(&p->targets, &p->target_capacity, p->target_count + files, 1 << 16,
                  sizeof *p->targets)) {
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    for (size_t i = 0; i < files; i++) {
        td__predict_output_about about = {
            .data = p->saved.data, .named = p->named, .keep_files = p->keep_files};
        about.count = together ? p->output_count : 1;
        for (size_t k = 0; k < about.count; k++) {
            about.outputs[k] = describe_output(p, together ? k : i);
        }
        char *path =
            together ? td__strdup(to) : name_file(to, td__output_layer(p->saved.model, i)->name);
        target opened = {.output = path ? td__predict_output_open(path, &about, error) : NULL,
                         .first = i};
        td__free(path);
        if (!opened.output) {
            return error->status ? error->status : TD_IO;
        }
        opened.moves = p->saved.output_first && layout != TD_LAYOUT_CHANNELS_LAST &&
                       !td__predict_output_is_pictures(opened.output);
        p->targets[p->target_count++] = opened;
    }
    return TD_OK;
}

static td_status open_all_outputs(predictor *p, const td_predict_options *options,
                                  td_error *error) {
    p->keep_files = options->keep_files;
    td_status status = options->to ? open_outputs(p, options->to, options->layout, error) : TD_OK;
    for (size_t i = 0; !status && i < options->also_to.count; i++) {
        status = open_outputs(p, options->also_to.items[i], options->layout, error);
    }
    return status;
}

static td_status prepare_predictor(predictor *p, const td_predict_options *options,
                                   td_error *error) {
    td_tape_options inference = {.size = sizeof inference, .inference = true};
    td_status status = td__pass_init(&p->pass, p->saved.model, NULL, &inference, error);
    p->pass.fixed = p->saved.fixed_batch;
    p->output_count = td_model_output_count(p->saved.model);
    status = status ? status : list_signals(p, error);
    status = status ? status : make_accuracy(p, options, error);
    if (status) {
        return status;
    }
    td__tape_limit(p->pass.tape, options->memory > 0 ? (size_t)options->memory : td__memory_half());
    status = open_all_outputs(p, options, error);
    return status || !options->record ? status : open_run(p, options, error);
}

/* ---- Running --------------------------------------------------------------------------------- */

static td_status measure_prediction(predictor *p, const td_tensor *prediction,
                                    const td_batch *batch, td_error *error) {
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
    td_view views[TD_MAX_OUTPUTS];
    td_tensor *moved = NULL;
    for (size_t i = 0; i < p->target_count && !moved; i++) {
        moved = p->targets[i].moves ? channels_first(p->pass.tape, prediction) : NULL;
    }
    td_status status = td_tape_status(p->pass.tape, error);
    if (status) {
        return status;
    }
    for (size_t i = 1; i < p->output_count; i++) {
        size_t layer = td_model_output_layer(p->saved.model, i);
        views[i] = td_view_of(td_model_output_at(p->saved.model, layer));
    }
    for (size_t i = 0; !status && i < p->target_count; i++) {
        const target *to = &p->targets[i];
        views[0] = to->moves ? td_view_of(moved) : p->shown;
        status = td__predict_output_write(to->output, &views[to->first], batch, error);
    }
    return status;
}

/* The prediction in the units of the labels, where training had standardised those: p->shown. */
static td_status show(predictor *p, td_tensor *prediction, td_error *error) {
    const td__data_notes *notes = &p->saved.notes.data;
    int64_t rows = p->pass.batch->count, count = notes->label_normal_count;
    td_view view = td_view_of(prediction);
    p->shown = view;
    if (count == 0 || td__elements_from(&view.shape, 1) != count) {
        return TD_OK;
    }
    size_t needed = (size_t)(rows * count);
    if (!td__grow(&p->undone, &p->undone_capacity, needed, SIZE_MAX / sizeof(float),
                  sizeof(float))) {
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    memcpy(p->undone, view.data, needed * sizeof(float));
    td__labels_undo(notes->label_mean, notes->label_deviation, count, p->undone, rows);
    p->shown.data = p->undone;
    return TD_OK;
}

static td_status run_batch(predictor *p, const td_batch *batch, td_error *error) {
    int64_t step = batch->index + 1;
    if (p->deck) {
        (void)td_deck_begin(p->deck, 1, step, false);
    }
    td_status status = td__pass_forward(&p->pass, batch, error);
    td_tensor *prediction = p->pass.prediction;
    if (!status) {
        status = show(p, prediction, error);
    }
    if (!status && p->target_count) {
        status = write_out(p, prediction, batch, error);
    }
    if (!status) {
        status = measure_prediction(p, prediction, batch, error);
        p->examples += batch->count;
    }
    if (!status && p->deck) {
        (void)td_signal_record(p->signals.prediction->signal,
                               p->shown.data == p->undone ? p->shown
                                                          : td_tape_view(p->pass.tape, prediction));
        (void)td_deck_step(p->deck, 1, step);
    }
    td__pass_end(&p->pass);
    return status;
}

static void report_remarks(const predictor *p, const td_predict_options *options) {
    td_names remarks = td_dataset_info(p->saved.data)->remarks;
    for (size_t i = 0; options->remark && i < remarks.count; i++) {
        options->remark(options->user, remarks.items[i]);
    }
    int64_t fixed = p->saved.fixed_batch;
    if (options->remark && fixed && fixed != options->batch) {
        char text[160];
        (void)snprintf(text, sizeof text,
                       "the model's file has a fixed batch: it runs on %lld at a time, the last "
                       "ones filled up",
                       (long long)fixed);
        options->remark(options->user, text);
    }
}

static void describe_prediction(const predictor *p, td_prediction *result) {
    if (result) {
        *result = (td_prediction){.examples = p->examples,
                                  .labelled = p->saved.labelled,
                                  .accuracy = p->accuracy ? td_metric_value(p->accuracy) : NAN};
        (void)snprintf(result->folder, sizeof result->folder, "%s",
                       p->deck ? td_deck_folder(p->deck) : "");
    }
}

static void release_predictor(predictor *p) {
    td__free(p->undone);
    td__free(p->targets);
    td_metric_destroy(p->accuracy);
    td__pass_release(&p->pass);
    td__pass_signals_release(&p->signals);
    td__saved_release(&p->saved);
}

td_status td_predict(const char *model, const char *data, const td_predict_options *options,
                     td_prediction *result, td_error *error) {
    td_predict_options all;
    td_error reason = {0};
    predictor p = {0};
    (void)td__options(&all, sizeof all, options);
    td__saved_options opening = TD__SAVED_OPTIONS(&all, BATCH, .scaled_labels = false);
    td_status status = td__saved_load(&p.saved, model, &reason);
    if (!status) {
        status = td__saved_open(&p.saved, data, &opening, &reason);
    }
    if (!status) {
        report_remarks(&p, &all);
        status = prepare_predictor(&p, &all, &reason);
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
        describe_prediction(&p, result);
    }
    td_error closing = {0};
    td_status closed = TD_OK;
    for (size_t i = 0; i < p.target_count; i++) {
        td_status one = td__predict_output_close(p.targets[i].output, !status, &closing);
        closed = closed ? closed : one;
    }
    td_status recorded = td_deck_close(p.deck, closed ? NULL : &closing);
    if (!status && (closed || recorded)) {
        status = closed ? closed : recorded;
        reason = closing;
    }
    release_predictor(&p);
    return status ? td_error_set(error, status, "%s", reason.text) : TD_OK;
}
