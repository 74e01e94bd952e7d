/* Opens and checks what an experiment needs. */
#include "train/trainer.h"

#include "base/memory.h"
#include "onnx/model.h"
#include "tensor/tensor.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- Data -------------------------------------------------------------------------------------
 */

static td_status check_labels(const td_trainer *trainer, td_error *error) {
    const td__train_spec *train = &trainer->experiment->train;
    td_label_kind kind = trainer->info->label_kind;
    if (train->target == TD__TARGET_INPUT) {
        return TD_OK;
    }
    if (kind == TD_LABEL_NONE) {
        return td__experiment_problem(trainer->experiment, NULL, TD_INVALID, error,
                                      "data: no labels, and so no loss; name the column in "
                                      "data.label, or give train.target: input");
    }
    if (train->loss == TD_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY && kind != TD_LABEL_CLASS) {
        return td__experiment_problem(trainer->experiment, NULL, TD_INVALID, error,
                                      "train.loss: sparse_categorical_crossentropy needs class "
                                      "numbers, and the labels are other numbers");
    }
    return TD_OK;
}

/* steps and epochs bound each other. */
static void settle_length(td_trainer *trainer) {
    const td__train_spec *train = &trainer->experiment->train;
    trainer->batches = td_batches_count(trainer->training);
    int64_t steps = train->steps;
    if (train->epochs) {
        int64_t all;
        bool fits = td__multiply(train->epochs, trainer->batches, &all);
        steps = fits && (!steps || all < steps) ? all : steps;
    }
    trainer->steps = steps;
    trainer->epochs = (steps + trainer->batches - 1) / trainer->batches;
}

static bool same_names(td_names a, td_names b) {
    bool same = a.count == b.count;
    for (size_t i = 0; same && i < a.count; i++) {
        same = !strcmp(a.items[i], b.items[i]);
    }
    return same;
}

/* Columns and classes are what they were when the model was trained, whatever their order now. */
static void match_model(const td_trainer *trainer, td_data_options *options) {
    const td__data_notes *notes = &trainer->notes.data;
    options->inputs = notes->inputs;
    options->classes = notes->classes;
    if (trainer->resume && same_names(options->label, notes->label)) {
        options->label_names = notes->label_names;
    }
}

/* A model's file that has the channels first takes data that has, too. */
static void match_layout(const td_model *model, td_data_options *options) {
    bool input_first, output_first;
    td__onnx_channels_first(model, &input_first, &output_first);
    options->takes = td_model_input_shape(model);
    if (input_first && options->layout == TD_LAYOUT_AS_IS) {
        options->layout = TD_LAYOUT_FIRST_IF_FITS;
    }
}

static td_status open_data(td_trainer *trainer, td_error *error) {
    td_experiment *experiment = trainer->experiment;
    td_data_options options = experiment->data;
    td_error reason = {0};
    bool given = options.input.rank > 0;
    match_model(trainer, &options);
    if (trainer->model && !given) {
        options.input = td__known_input(trainer->model);
        options.input_as_is = true;
        match_layout(trainer->model, &options);
        trainer->data = td_dataset_open(&options, NULL);
    }
    if (!trainer->data) { /* that it does not fit the model is said of the model */
        options.input = experiment->data.input;
        options.input_as_is = false;
        options.layout = experiment->data.layout;
        trainer->data = td_dataset_open(&options, &reason);
    }
    const td_data_info *info = trainer->data ? td_dataset_info(trainer->data) : NULL;
    if (info && options.label_kind == TD_LABEL_AUTO &&
        experiment->train.target == TD__TARGET_LABEL) {
        options.label_kind = td__labels_for(experiment->train.loss, info->label_kind);
        if (options.label_kind != info->label_kind) {
            td_dataset_close(trainer->data);
            trainer->data = td_dataset_open(&options, &reason);
            info = trainer->data ? td_dataset_info(trainer->data) : NULL;
        }
    }
    if (!info) {
        return td__experiment_problem(experiment, NULL, reason.status, error, "data: %s",
                                      reason.text);
    }
    trainer->info = info;
    if (info->training == 0) {
        return td__experiment_problem(experiment, NULL, TD_INVALID, error,
                                      "data: no examples to train on");
    }
    td_status status = check_labels(trainer, error);
    if (!status) {
        trainer->training = td_batches_create(trainer->data, TD_TRAINING, 0, error);
        status = trainer->training ? TD_OK : TD_MEMORY;
    }
    if (!status && info->validation > 0) {
        trainer->validation = td_batches_create(trainer->data, TD_VALIDATION, 0, error);
        status = trainer->validation ? TD_OK : TD_MEMORY;
    }
    if (!status) {
        settle_length(trainer);
    }
    return status;
}

/* ---- Optimizer --------------------------------------------------------------------------------
 */

static td_status make_optimizer(td_trainer *trainer, td_error *error) {
    td_experiment *experiment = trainer->experiment;
    td__train_spec *train = &experiment->train;
    td_optimizer_options options = {.struct_size = sizeof options};
    td_status status = td_optimizer_configure(
        &options, train->optimizer.name, train->optimizer.settings, train->optimizer.count, error);
    if (!status && train->schedule.name) {
        status = td_schedule_configure(&options.schedule, train->schedule.name,
                                       train->schedule.settings, train->schedule.count, error);
        if (!status && options.schedule.steps == 0) {
            int64_t left = trainer->steps - options.schedule.warmup;
            options.schedule.steps = left > 0 ? left : 1;
        }
    }
    if (status) {
        return status;
    }
    if (train->clip_norm > 0) {
        options.clip_norm = train->clip_norm;
    }
    if (train->clip_value > 0) {
        options.clip_value = train->clip_value;
    }
    trainer->optimizer =
        td_optimizer_create(&options, trainer->weight_count, trainer->weights, error);
    if (!trainer->optimizer) {
        return TD_MEMORY;
    }
    const td_setting *settings;
    size_t count = td_optimizer_settings(trainer->optimizer, &settings);
    bool bad = td__choice_settle(experiment->yaml, &train->optimizer, settings, count);
    if (train->schedule.name) {
        count = td_schedule_settings(trainer->optimizer, &settings);
        bad = td__choice_settle(experiment->yaml, &train->schedule, settings, count) || bad;
    }
    return bad ? td_error_set(error, TD_MEMORY, "out of memory") : TD_OK;
}

static td_status make_metrics(td_trainer *trainer, td_error *error) {
    const td__train_spec *train = &trainer->experiment->train;
    trainer->metrics = td__calloc(train->metrics.count + 1, sizeof *trainer->metrics);
    if (!trainer->metrics) {
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    for (size_t i = 0; i < train->metrics.count; i++) {
        td_metric_kind kind;
        td_status status = td_metric_kind_find(train->metrics.items[i], &kind, error);
        if (status) {
            return status;
        }
        /* A logit is class 1 above 0. */
        double threshold = train->loss_options.from_logits ? TD_ZERO : 0;
        trainer->metrics[i] =
            td_metric_create(TD_METRIC(.kind = kind, .threshold = threshold), error);
        if (!trainer->metrics[i]) {
            return TD_MEMORY;
        }
        trainer->metric_count++;
    }
    return TD_OK;
}

/* ---- Working memory ---------------------------------------------------------------------------
 */

/* loss and metrics over the epoch, then over the validation part. */
static td_status make_told(td_trainer *trainer, td_error *error) {
    size_t each = trainer->metric_count + 1, found = 0;
    trainer->told_count = trainer->validation ? 2 * each : each;
    trainer->told = td__calloc(trainer->told_count, sizeof *trainer->told);
    trainer->step_values = td__calloc(2 * each, sizeof(double));
    if (!trainer->told || !trainer->step_values) {
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    trainer->sums.sums = trainer->step_values + each;
    for (size_t i = 0; i < trainer->entry_count && found < trainer->told_count; i++) {
        const td__signal_entry *entry = &trainer->entries[i];
        bool epoch = entry->source == TD__SOURCE_VALUE && found < each;
        if (epoch || (entry->source == TD__SOURCE_EPOCH && found >= each)) {
            trainer->told[found++] = (td_train_value){entry->name, NAN};
        }
    }
    return TD_OK;
}

static td_status make_room(td_trainer *trainer, td_error *error) {
    size_t most = trainer->weight_count + trainer->layer_count;
    td_tape_options inference = {
        .size = sizeof inference, .seed = trainer->experiment->seed, .no_history = true};
    td_tape_options training = {.size = sizeof training, .seed = trainer->experiment->seed};
    float nothing = 0;
    trainer->tape = td_tape_create(&training, error);
    trainer->inference = td_tape_create(&inference, error);
    trainer->input = td_tensor_borrow("input", TD_FLOAT32, TD_SHAPE(1), &nothing, error);
    trainer->truth = td_tensor_borrow("label", TD_FLOAT32, TD_SHAPE(1), &nothing, error);
    trainer->targets = td__calloc(most + 1, sizeof *trainer->targets);
    trainer->gradients = td__calloc(most + 1, sizeof *trainer->gradients);
    trainer->ready = td__calloc(most + 1, sizeof *trainer->ready);
    trainer->weight_of = td__calloc(trainer->parameter_count + 1, sizeof *trainer->weight_of);
    trainer->layer_targets = td__calloc(trainer->layer_count, sizeof *trainer->layer_targets);
    if (!trainer->tape || !trainer->inference || !trainer->input || !trainer->truth ||
        !trainer->targets || !trainer->gradients || !trainer->ready || !trainer->weight_of ||
        !trainer->layer_targets) {
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    for (size_t i = 0; i < trainer->weight_count; i++) {
        trainer->targets[i] = trainer->weights[i];
    }
    size_t found = 0;
    for (size_t i = 0; i < trainer->parameter_count; i++) {
        const td_parameter_info *parameter = td_model_parameter_at(trainer->model, i);
        trainer->weight_of[i] = parameter->trainable ? (ptrdiff_t)found++ : -1;
    }
    return TD_OK;
}

/* A forward pass over a few examples finds what fits on paper only: labels against outputs. */
static td_status try_model(td_trainer *trainer, td_error *error) {
    td_batch batch;
    td_batches_start(trainer->training, 1);
    if (!td_batches_next(trainer->training, &batch)) {
        return td_error_set(error, TD_INVALID, "no examples to train on");
    }
    const td__train_spec *train = &trainer->experiment->train;
    bool from_input = train->target == TD__TARGET_INPUT;
    td__head_set(trainer->input, &batch.input);
    td__head_set(trainer->truth, from_input ? &batch.input : &batch.label);
    td_tensor *prediction = td_model_forward(trainer->model, trainer->inference, trainer->input);
    td_error reason = {0};
    td_status status = TD_OK;
    if (prediction) {
        td__truth_fit(train->loss, trainer->truth, prediction);
        td_loss_compute(trainer->inference, train->loss, prediction, trainer->truth,
                        &train->loss_options);
    }
    status = td_tape_status(trainer->inference, &reason);
    for (size_t i = 0; !status && i < trainer->metric_count; i++) {
        status = td_metric_update(trainer->metrics[i], prediction, trainer->truth, &reason);
    }
    td_tape_reset(trainer->inference);
    return status ? td__experiment_problem(trainer->experiment, NULL, status, error, "train: %s",
                                           reason.text)
                  : TD_OK;
}

/* ---- The object -------------------------------------------------------------------------------
 */

static td_status check_monitor(td_trainer *trainer, td_error *error) {
    const td__train_spec *train = &trainer->experiment->train;
    for (size_t i = 0; train->stop_monitor && i < trainer->told_count; i++) {
        if (!strcmp(trainer->told[i].name, train->stop_monitor)) {
            return TD_OK;
        }
    }
    return !train->stop_monitor
               ? TD_OK
               : td__experiment_problem(trainer->experiment, NULL, TD_NOT_FOUND, error,
                                        "train.early_stopping.monitor: no value '%s'; loss, a "
                                        "metric, or val_ with either where there is a validation "
                                        "part",
                                        train->stop_monitor);
}

static td_status prepare(td_trainer *trainer, td_error *error) {
    td_threads_set((int)trainer->experiment->threads);
    td_threads_bind(); /* unbound, two threads now and then share a core for seconds */
    td_status (*const stages[])(td_trainer *, td_error *) = {
        td__trainer_load_model,
        open_data,
        td__trainer_make_model,
        td__trainer_check_labels,
        make_optimizer,
        make_metrics,
        make_room,
        try_model,
        td__trainer_signals_list,
        make_told,
        check_monitor,
        td__trainer_check_sense,
        td__trainer_signals_check,
        td__plan_make,
    };
    td_status status = TD_OK;
    for (size_t i = 0; !status && i < sizeof stages / sizeof *stages; i++) {
        status = stages[i](trainer, error);
    }
    return status;
}

td_trainer *td_trainer_create(td_experiment *experiment, const td_trainer_options *options,
                              td_error *error) {
    td_trainer *trainer = td__calloc(1, sizeof *trainer);
    if (!trainer) {
        td_error_set(error, TD_MEMORY, "out of memory");
        return NULL;
    }
    trainer->experiment = experiment;
    if (options) {
        size_t size = options->size < sizeof *options ? options->size : sizeof *options;
        memcpy(&trainer->options, options, size);
    }
    trainer->out = td__strdup(trainer->options.out ? trainer->options.out : "runs");
    trainer->resume = trainer->options.resume ? td__strdup(trainer->options.resume) : NULL;
    td_status status = trainer->out && (trainer->resume || !trainer->options.resume)
                           ? prepare(trainer, error)
                           : td_error_set(error, TD_MEMORY, "out of memory");
    if (status) {
        td_trainer_destroy(trainer);
        return NULL;
    }
    return trainer;
}

static void release_lists(td_trainer *trainer) {
    for (size_t i = 0; i < trainer->metric_count; i++) {
        td_metric_destroy(trainer->metrics[i]);
    }
    for (size_t i = 0; i < trainer->layer_target_count; i++) {
        td_dataset_close(trainer->layer_targets[i].data);
        td__free(trainer->layer_targets[i].rows);
    }
    for (size_t i = 0; trainer->best_weights && i < trainer->parameter_count; i++) {
        td__free(trainer->best_weights[i]);
    }
    td__free(trainer->metrics);
    td__free(trainer->layer_targets);
    td__free(trainer->best_weights);
    td__free(trainer->targets);
    td__free(trainer->gradients);
    td__free(trainer->ready);
    td__free(trainer->weight_of);
    td__free(trainer->told);
    td__free(trainer->step_values);
}

void td_trainer_destroy(td_trainer *trainer) {
    if (!trainer) {
        return;
    }
    (void)td_deck_close(trainer->deck, NULL);
    td__norms_destroy(trainer->norms);
    td__trainer_signals_release(trainer);
    td_optimizer_destroy(trainer->optimizer);
    td_tape_destroy(trainer->tape);
    td_tape_destroy(trainer->inference);
    td_tensor_destroy(trainer->input);
    td_tensor_destroy(trainer->truth);
    release_lists(trainer);
    td_model_destroy(trainer->model);
    td_batches_destroy(trainer->training);
    td_batches_destroy(trainer->validation);
    td_dataset_close(trainer->data);
    td__free(trainer->plan);
    td__free(trainer->folder);
    td__free(trainer->out);
    td__free(trainer->resume);
    td__notes_release(&trainer->notes);
    td__free(trainer);
}

void td_trainer_stop(td_trainer *trainer) {
    trainer->stop = 1;
}

const td_model *td_trainer_model(const td_trainer *trainer) {
    return trainer->model;
}

const char *td_trainer_folder(const td_trainer *trainer) {
    return trainer->folder;
}

size_t td_trainer_values(const td_trainer *trainer, const td_train_value **values) {
    *values = trainer->told;
    return trainer->told_count;
}

int64_t td_trainer_steps(const td_trainer *trainer) {
    return trainer->step;
}

int64_t td_trainer_epochs(const td_trainer *trainer) {
    return trainer->epoch;
}

const char *td_trainer_stopped_early(const td_trainer *trainer) {
    return trainer->stopped_early;
}

size_t td_trainer_error_norms(td_trainer *trainer, const td_norm_history **histories) {
    *histories = NULL;
    return trainer->norms && !trainer->deck
               ? td__norms_tell(trainer->norms, trainer->model, histories)
               : 0;
}
