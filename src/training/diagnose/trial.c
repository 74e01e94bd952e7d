#include "diagnose/trial.h"

#include "base/clock.h"
#include "base/memory.h"
#include "nn/kind.h"
#include "tensor/element.h"
#include "tensor/tensor.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Growth of a layer's output beyond which updates, not the data, have blown it up … */
#define GROWN 1e3
#define MOVED 1.5 /* … with that of the weights' norm: without it, the data did */
#define HALF 0.5  /* of the outputs that are finite: their size then says whether they grew */
#define LARGE_INPUT 1e15 /* squares of it may overflow in a normalisation */

typedef struct state {
    const td__trial_options *options;
    td__trial *trial;
    td_trainer *trainer;
    int64_t step;    /* done */
    double loss_sum; /* since the last point */
    int64_t loss_count;
    double first_size; /* of the prediction: its root mean square at the first step */
    double first_norm; /* of all weights, before it */
    double size;       /* and lately */
    double loss;
    float *room; /* for a batch's standardised labels */
} state;

td_trainer *td__trial_open(const td__trial_options *options, td_experiment **experiment,
                           td_error *error) {
    td_experiment_options reading = {.size = sizeof reading,
                                     .set = options->set,
                                     .set_count = options->set_count,
                                     .problem = options->problem,
                                     .user = options->user};
    *experiment = td_experiment_read(options->path, &reading, error);
    if (!*experiment) {
        return NULL;
    }
    (*experiment)->track_count = 0;
    (*experiment)->unrecorded = false;
    (*experiment)->train.metric_count = 0;
    (*experiment)->weights = options->redraw ? NULL : (*experiment)->weights;
    if (options->on_validation) {
        td_data_options *data = &(*experiment)->data;
        data->train = data->validation;
        data->labels = data->validation_labels;
        data->validation = data->validation_labels = NULL;
        data->validation_share = 0.5;
    }
    const char *monitor = (*experiment)->train.stop_monitor; /* a metric, and there are none */
    (*experiment)->train.stop_monitor = NULL;
    const td_trainer_options how = {.size = sizeof how, .read_first = !options->while_reading};
    td_trainer *trainer = td_trainer_create(*experiment, &how, error);
    (*experiment)->train.stop_monitor = monitor;
    if (!trainer) {
        td_experiment_destroy(*experiment);
        *experiment = NULL;
    }
    return trainer;
}

/* ---- Where a number stops being finite ------------------------------------------------------ */

static bool has_nonfinite(const td_tensor *tensor, td_stats *stats) {
    td_view view = td__view_of(tensor);
    return tensor->dtype == TD_FLOAT32 && td_stats_of(&view, stats, NULL) == TD_OK &&
           stats->nan + stats->inf > 0;
}

static int64_t row_of(const td_batch *batch, const td_tensor *tensor, const td_stats *stats) {
    return batch->rows[stats->first_nonfinite / (tensor->count / batch->count)];
}

static double size_of(const td_tensor *tensor) {
    td_view view = td__view_of(tensor);
    td_stats stats;
    if (tensor->dtype != TD_FLOAT32 || td_stats_of(&view, &stats, NULL) || stats.count == 0) {
        return 0;
    }
    return stats.nan + stats.inf ? INFINITY : stats.norm / sqrt((double)stats.count);
}

/* exp turns what grows step by step into what overflows at once: then it is the layer. -1: none. */
static ptrdiff_t exponential_layer(const td_model *model) {
    for (size_t i = 0; i < td_model_layer_count(model); i++) {
        const td_layer_info *layer = td_model_layer(model, i);
        for (size_t k = 0; k < layer->setting_count; k++) {
            const td_setting *setting = &layer->settings[k];
            bool activation =
                !strcmp(setting->key, "activation") || !strcmp(setting->key, "function");
            if (activation && setting->value.kind == TD_VALUE_TEXT &&
                !strcmp(setting->value.text, td_activation_name(TD_EXPONENTIAL))) {
                return (ptrdiff_t)i;
            }
        }
    }
    return -1;
}

/* The first layer that puts out numbers whose squares are not finite: a loss of them is not to blame. -1: none. */
static ptrdiff_t beyond_squares(const td_trainer *trainer) {
    for (size_t i = 0; i < trainer->layer_count; i++) {
        const td_tensor *output = td_model_output_at(trainer->model, i);
        td_stats stats;
        td_view view = output ? td__view_of(output) : (td_view){0};
        if (output && output->dtype == TD_FLOAT32 && td_stats_of(&view, &stats, NULL) == TD_OK &&
            fmax(fabs(stats.min), fabs(stats.max)) > sqrt((double)FLT_MAX)) {
            return (ptrdiff_t)i;
        }
    }
    return -1;
}

static double norm_of_weights(const td_trainer *trainer) {
    double squares = 0;
    for (size_t i = 0; i < trainer->learner.weight_count; i++) {
        td_view view = td__view_of(trainer->learner.weights[i]);
        td_stats stats;
        if (td_stats_of(&view, &stats, NULL) == TD_OK) {
            squares += stats.nan + stats.inf ? INFINITY : stats.norm * stats.norm;
        }
    }
    return sqrt(squares);
}

/* Whether outputs had grown over the steps before. One example that is not finite does not say so, nor do
 * outputs of weights that hardly moved. */
static bool has_grown(const state *s, const td_tensor *prediction) {
    td_view view = td__view_of(prediction);
    td_stats stats;
    if (s->step == 0 || prediction->dtype != TD_FLOAT32 || td_stats_of(&view, &stats, NULL)) {
        return false;
    }
    double finite = (double)(stats.count - stats.nan - stats.inf);
    bool most = finite > HALF * (double)stats.count;
    double size = most ? stats.norm / sqrt(finite) : INFINITY;
    double moved = norm_of_weights(s->trainer) / fmax(s->first_norm, 1e-30);
    return size > GROWN * fmax(s->first_size, 1e-30) && (most || moved > MOVED);
}

/* Whether a normalisation made it of numbers of usual size. */
static bool is_division(const td_trainer *trainer, size_t index) {
    const td_layer_info *layer = td_model_layer(trainer->model, index);
    ptrdiff_t from = layer->input_count ? layer->inputs[0] : -1;
    const td_tensor *input =
        from >= 0 ? td_model_output_at(trainer->model, (size_t)from) : trainer->pass.input;
    td_stats stats;
    td_view view = input ? td__view_of(input) : (td_view){0};
    return td__layer_kind_of(layer->kind)->role == TD__ROLE_NORMALIZATION && input &&
           input->dtype == TD_FLOAT32 && td_stats_of(&view, &stats, NULL) == TD_OK &&
           fmax(fabs(stats.min), fabs(stats.max)) < LARGE_INPUT;
}

/* From the data through the layers to the loss: the first that is not finite while all that it is
 * made of is. A parameter that was finite at the start was spoilt by an update; so was an output
 * that grew over the steps. */
static void find_origin(state *s, const td_batch *batch, const td_tensor *prediction) {
    td_trainer *trainer = s->trainer;
    td__origin *origin = &s->trial->origin;
    td_stats stats;
    *origin = (td__origin){.layer = -1, .parameter = -1, .row = -1, .step = s->step + 1};
    if (has_nonfinite(trainer->pass.input, &stats)) {
        origin->cause = "input";
        origin->row = row_of(batch, trainer->pass.input, &stats);
        return;
    }
    for (size_t i = 0; i < td__pass_outcome_count(&trainer->pass); i++) {
        const td_tensor *truth = trainer->pass.outcomes[i].truth;
        if (truth && has_nonfinite(truth, &stats)) {
            origin->cause = "label";
            origin->row = row_of(batch, truth, &stats);
            return;
        }
    }
    origin->grown = has_grown(s, prediction);
    for (size_t i = 0; i < trainer->layer_count; i++) {
        const td_layer_info *layer = td_model_layer(trainer->model, i);
        const td_tensor *output = td_model_output_at(trainer->model, i);
        origin->layer = (ptrdiff_t)i;
        for (size_t k = 0; k < layer->parameter_count; k++) {
            const td_parameter_info *parameter =
                td_model_parameter_at(trainer->model, layer->first_parameter + k);
            if (has_nonfinite(parameter->tensor, &stats)) {
                origin->parameter = (ptrdiff_t)(layer->first_parameter + k);
                origin->cause = s->step == 0 ? "parameter" : "update";
                return;
            }
        }
        if (output && has_nonfinite(output, &stats)) {
            origin->divides = is_division(trainer, i);
            origin->grown &= !origin->divides;
            origin->cause = origin->grown ? "update" : "layer";
            origin->row = origin->grown ? -1 : row_of(batch, output, &stats);
            return;
        }
    }
    origin->layer = origin->grown ? -1 : beyond_squares(trainer);
    origin->cause = origin->grown ? "update" : origin->layer >= 0 ? "layer" : "loss";
}

static void blame_exponential(td__origin *origin, const td_model *model) {
    ptrdiff_t layer = exponential_layer(model);
    if (layer >= 0 && origin->cause && !strcmp(origin->cause, "update")) {
        origin->cause = "layer";
        origin->layer = layer;
        origin->parameter = -1;
    }
}

/* ---- A step --------------------------------------------------------------------------------- */

/* The batch with labels that are numbers of mean 0 and variance 1, where that is asked for. */
static td_batch scale_labels(state *s, const td_batch *batch) {
    const td__trial_options *o = s->options;
    td_batch scaled = *batch;
    if (!o->standardize_labels || batch->label.dtype != TD_FLOAT32 || !batch->label.data) {
        return scaled;
    }
    int64_t count = td__elements_from(&batch->label.shape, 0);
    const float *from = batch->label.data;
    for (int64_t i = 0; i < count; i++) {
        s->room[i] = (float)(((double)from[i] - o->label_shift) / o->label_scale);
    }
    scaled.label.data = s->room;
    return scaled;
}

static void note_clipping(state *s) {
    double limit = s->trainer->experiment->train.clip_norm;
    double norm = limit > 0 ? td_optimizer_norm(s->trainer->learner.optimizer) : 0;
    if (limit > 0 && norm > limit) {
        s->trial->clipped += 1;
        s->trial->cut += limit / norm;
    }
}

static td_status step(state *s, const td_batch *batch, td_error *error) {
    td_trainer *trainer = s->trainer;
    td__pass *pass = &trainer->pass;
    td_batch scaled = scale_labels(s, batch);
    td_tape_seed(pass->tape, trainer->experiment->seed, (uint64_t)s->step + 1);
    td_tape_set_training(pass->tape, true);
    td_status status = td__pass_forward(pass, &scaled, error);
    const td_tensor *prediction = pass->prediction;
    if (!status) {
        double value = (double)td_tensor_scalar(pass->loss);
        if (s->step == 0) {
            s->trial->first_loss = value;
            s->trial->penalty =
                value > 0 ? (value - (double)td_tensor_scalar(pass->bare)) / value : 0;
            s->first_size = size_of(prediction);
            s->first_norm = norm_of_weights(trainer);
        }
        if (!s->trial->origin.cause && s->step % 16 == 0) {
            s->size = size_of(prediction);
        }
        if (s->options->seen) {
            s->options->seen(s->options->user, s->step + 1, value);
        }
        s->loss = value;
        s->loss_sum += value;
        s->loss_count++;
        if (!isfinite(value)) {
            find_origin(s, batch, prediction);
            blame_exponential(&s->trial->origin, trainer->model);
            s->trial->origin.loss = (float)value;
            status = TD_RANGE;
        }
    }
    if (!status) {
        size_t count = trainer->learner.weight_count;
        status = td__pass_backward(pass, count, count, trainer->learner.targets,
                                   trainer->learner.gradients, NULL, error);
    }
    if (!status) {
        status = td_optimizer_step(trainer->learner.optimizer, trainer->learner.gradients, error);
        note_clipping(s);
    }
    td__pass_end(pass);
    return status;
}

/* ---- All of them ---------------------------------------------------------------------------- */

static td_status add_point(state *s, td_error *error) {
    const td__trial_options *o = s->options;
    td__trial_point *point = &s->trial->curve[s->trial->points++];
    double shift = o->standardize_labels ? o->label_shift : 0;
    double scale = o->standardize_labels ? o->label_scale : 1;
    *point = (td__trial_point){.step = s->step,
                               .loss = s->loss_count ? s->loss_sum / (double)s->loss_count : NAN};
    s->loss_sum = 0;
    s->loss_count = 0;
    td_status status =
        td__marks_of(s->trainer, o->task, TD_TRAINING, shift, scale, &point->training, error);
    return status ? status
                  : td__marks_of(s->trainer, o->task, TD_VALIDATION, shift, scale,
                                 &point->validation, error);
}

static td_status train(state *s, int64_t steps, td_error *error) {
    td_trainer *trainer = s->trainer;
    double began = td__seconds();
    td_status status = TD_OK;
    bool late = false;
    for (uint64_t epoch = 1; !status && !late && s->step < steps; epoch++) {
        td_batches_start(trainer->feed.training, epoch);
        for (td_batch batch; !status && !late && s->step < steps &&
                             td_batches_next(trainer->feed.training, &batch);) {
            status = step(s, &batch, error);
            s->step += !status;
            late = td__seconds() - began > s->options->seconds;
            int64_t next = steps * (int64_t)(s->trial->points + 1) / TD__TRIAL_CURVE;
            if (!status && s->step >= next && s->trial->points + 1 < TD__TRIAL_CURVE) {
                status = add_point(s, error);
            }
        }
        status = status ? status : td__feed_status(trainer->feed.training, error);
    }
    if (!status && s->size > GROWN * GROWN * fmax(s->first_size, 1)) {
        s->trial->origin = (td__origin){.cause = "update",
                                        .layer = -1,
                                        .parameter = -1,
                                        .row = -1,
                                        .step = s->step,
                                        .grown = true,
                                        .loss = (float)s->loss};
        blame_exponential(&s->trial->origin, trainer->model);
    }
    s->trial->steps = s->step;
    s->trial->complete = s->step == steps;
    s->trial->seconds = td__seconds() - began;
    if (s->trial->clipped > 0) {
        s->trial->cut /= s->trial->clipped;
        s->trial->clipped /= (double)s->step;
    }
    return status;
}

static double score_of(const td__trial *trial) {
    const td__trial_point *end = &trial->curve[trial->points - 1];
    double score = end->validation.rows ? end->validation.score : end->training.score;
    return isfinite(score) && !trial->origin.cause ? score : 0;
}

static td_status run(state *s, td_error *error) {
    const td__trial_options *o = s->options;
    td_trainer *trainer = s->trainer;
    int64_t label = td__elements_from(&trainer->feed.info->label, 0);
    if (o->standardize_labels) {
        s->room = td__calloc((size_t)(trainer->feed.info->batch * label), sizeof(float));
        if (!s->room) {
            return td_error_set(error, TD_MEMORY, "out of memory");
        }
    }
    td_status status = train(s, o->steps ? o->steps : trainer->feed.steps, error);
    if (status == TD_RANGE && s->trial->origin.cause) {
        status = TD_OK; /* that is a result too */
    }
    if (!status) {
        status = add_point(s, error);
    }
    if (!status && o->visit) {
        status = o->visit(o->user, trainer, error);
    }
    s->trial->score = status ? 0 : score_of(s->trial);
    return status;
}

td_status td__trial_run(const td__trial_options *options, td__trial *trial, td_error *error) {
    td_experiment *experiment;
    *trial = (td__trial){0};
    state s = {.options = options, .trial = trial};
    s.trainer = td__trial_open(options, &experiment, error);
    if (!s.trainer) {
        return error && error->status ? error->status : TD_INVALID;
    }
    td_status status = run(&s, error);
    td__free(s.room);
    td_trainer_destroy(s.trainer);
    td_experiment_destroy(experiment);
    return status;
}
