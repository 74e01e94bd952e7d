/* A run: its folder, its epochs, its end.
 *
 *     trainer->step, ->epoch   steps and epochs done; ->batch: batches done of the epoch under way
 *
 * A step is closed in the deck before a checkpoint is written, and the counters move on before
 * either, so that whatever is on disk agrees.
 */
#include "train/network.h"
#include "train/trainer.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "deck/deck.h"
#include "deck/folder.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- Opening ----------------------------------------------------------------------------------
 */

/* "a,b.*" of a list of names; NULL when memory is exhausted or the list is empty. */
static char *join(const td_names *names) {
    size_t room = 1;
    for (size_t i = 0; i < names->count; i++) {
        room += strlen(names->items[i]) + 1;
    }
    char *text = names->count ? td__calloc(room, 1) : NULL;
    for (size_t i = 0; text && i < names->count; i++) {
        size_t length = strlen(text);
        (void)snprintf(text + length, room - length, "%s%s", i ? "," : "", names->items[i]);
    }
    return text;
}

static td_status add_track(td_trainer *trainer, const td__track_spec *spec, td_error *error) {
    char *what = join(&spec->what), *to = join(&spec->to);
    td_error reason = {0};
    td_status status = TD_MEMORY;
    if (what && (to || spec->to.count == 0)) {
        td_track track = {.size = sizeof track,
                          .what = what,
                          .every = spec->every.steps,
                          .every_epochs = spec->every.epochs,
                          .at = spec->at,
                          .start = spec->start,
                          .end = spec->end,
                          .sample = spec->sample,
                          .when = spec->when,
                          .history = spec->history,
                          .form = spec->form,
                          .to = to};
        status = td_deck_track_with(trainer->deck, &track, &reason);
    }
    if (status) {
        td__experiment_problem(trainer->experiment, spec->node, status, error, "record: %s",
                               *reason.text ? reason.text : "out of memory");
    }
    td__free(what);
    td__free(to);
    return status;
}

static td_status publish_experiment(td_trainer *trainer, td_error *error) {
    size_t size = 0;
    char *text = td__experiment_write(trainer->experiment, &size);
    int folder = td__folder_open(trainer->folder, error);
    td_status status = text ? TD_OK : td_error_set(error, TD_MEMORY, "out of memory");
    if (!status && folder < 0) {
        status = TD_IO;
    }
    /* What a run began with stays as it was. */
    if (!status && !trainer->resume) {
        status = td__file_publish(folder, "experiment.yaml", text, size, false, error);
    }
    if (!status) {
        (void)td_deck_note(trainer->deck, "experiment.yaml", text);
    }
    if (folder >= 0) {
        close(folder);
    }
    td__free(text);
    return status;
}

static void note_number(td_trainer *trainer, const char *key, int64_t number) {
    char text[32];
    (void)snprintf(text, sizeof text, "%" PRId64, number);
    (void)td_deck_note(trainer->deck, key, text);
}

static void add_notes(td_trainer *trainer) {
    int64_t elements = 0;
    for (size_t i = 0; i < trainer->parameter_count; i++) {
        elements += td_tensor_count(td_model_parameter_at(trainer->model, i)->tensor);
    }
    td__note_network(trainer);
    (void)td_deck_note(trainer->deck, "experiment.name", trainer->experiment->name);
    note_number(trainer, "experiment.seed", (int64_t)trainer->experiment->seed);
    note_number(trainer, "experiment.parameters", elements);
    note_number(trainer, "experiment.steps", trainer->steps);
    note_number(trainer, "environment.threads", td_threads());
}

/* A run that cannot begin leaves nothing behind. */
static void abandon(td_trainer *trainer) {
    (void)td_deck_close(trainer->deck, NULL);
    trainer->deck = NULL;
    if (trainer->folder && !trainer->resume) {
        td__folder_disclaim(trainer->folder);
    }
    td__free(trainer->folder);
    trainer->folder = NULL;
}

static td_status open_deck(td_trainer *trainer, td_error *error) {
    td_experiment *experiment = trainer->experiment;
    td_deck_options options = {.size = sizeof options,
                               .policy = (td_policy)experiment->policy,
                               .queue_bytes = experiment->queue,
                               .history_bytes = experiment->history,
                               .overhead = experiment->overhead,
                               .seed = experiment->seed,
                               .stream = trainer->options.stream,
                               .resume = trainer->resume ? trainer->step : 0,
                               .busy_cores = td_threads()};
    size_t room = strlen(trainer->out) + strlen(experiment->name) + 2;
    char *folder = td__calloc(room, 1);
    if (!folder) {
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    (void)snprintf(folder, room, "%s/%s", trainer->out, experiment->name);
    trainer->norms = td__norms_create();
    trainer->deck = trainer->norms ? td__norms_open_deck(trainer->norms,
                                                         trainer->resume ? trainer->resume : folder,
                                                         &options, error)
                                   : NULL;
    td__free(folder);
    if (!trainer->deck) {
        return error && error->status ? error->status : TD_IO;
    }
    trainer->folder = td__strdup(td_deck_folder(trainer->deck));
    td_status status = trainer->folder ? TD_OK : td_error_set(error, TD_MEMORY, "out of memory");
    for (size_t i = 0; !status && i < experiment->track_count; i++) {
        status = add_track(trainer, &experiment->tracks[i], error);
    }
    if (!status) {
        status = td__trainer_keep_initial(trainer, error);
    }
    if (!status) {
        status = publish_experiment(trainer, error);
    }
    if (!status) {
        add_notes(trainer);
        status = td__trainer_signals_connect(trainer, error);
    }
    if (status) {
        abandon(trainer);
    }
    return status;
}

/* ---- Early stopping ---------------------------------------------------------------------------
 */

static td_status keep_weights(td_trainer *trainer, td_error *error) {
    if (!trainer->best_weights) {
        trainer->best_weights = td__calloc(trainer->parameter_count + 1, sizeof(float *));
    }
    for (size_t i = 0; trainer->best_weights && i < trainer->parameter_count; i++) {
        const td_tensor *tensor = td_model_parameter_at(trainer->model, i)->tensor;
        size_t count = (size_t)td_tensor_count(tensor);
        float **kept = &trainer->best_weights[i];
        *kept = *kept ? *kept : td__calloc(count + 1, sizeof(float));
        if (!*kept) {
            return td_error_set(error, TD_MEMORY, "out of memory");
        }
        memcpy(*kept, td_tensor_data(tensor), count * sizeof(float));
    }
    return trainer->best_weights ? TD_OK : td_error_set(error, TD_MEMORY, "out of memory");
}

static void restore_weights(td_trainer *trainer) {
    for (size_t i = 0; trainer->best_weights && i < trainer->parameter_count; i++) {
        const td_tensor *tensor = td_model_parameter_at(trainer->model, i)->tensor;
        memcpy(td_tensor_data(tensor), trainer->best_weights[i],
               (size_t)td_tensor_count(tensor) * sizeof(float));
    }
}

static bool larger_is_better(const td__train_spec *train) {
    td_signal_info info;
    char text[TD_SIGNAL_TEXT_SIZE];
    td_signal_guess(train->stop_monitor, &info, text);
    return train->stop_mode == TD__MODE_AUTO ? info.better == TD_BETTER_LARGER
                                             : train->stop_mode == TD__MODE_MAX;
}

void td__stop_when_patience_ends(td_trainer *trainer) {
    const td__train_spec *train = &trainer->experiment->train;
    if (train->stop_monitor && trainer->waited >= train->stop_patience) {
        (void)snprintf(trainer->stopped_text, sizeof trainer->stopped_text,
                       "%.60s has not improved on %.6g (epoch %lld) for %lld epochs",
                       train->stop_monitor, trainer->best, (long long)trainer->best_epoch,
                       (long long)trainer->waited);
        trainer->stopped_early = trainer->stopped_text;
    }
}

static td_status consider_stopping(td_trainer *trainer, td_error *error) {
    const td__train_spec *train = &trainer->experiment->train;
    double value = NAN;
    for (size_t i = 0; train->stop_monitor && i < trainer->told_count; i++) {
        if (!strcmp(trainer->told[i].name, train->stop_monitor)) {
            value = trainer->told[i].value;
        }
    }
    if (isnan(value)) {
        return TD_OK;
    }
    double gain = larger_is_better(train) ? value - trainer->best : trainer->best - value;
    if (trainer->best_epoch == 0 || gain > train->stop_min_delta) {
        trainer->best = value;
        trainer->best_epoch = trainer->epoch;
        trainer->waited = 0;
        return train->stop_restore_best ? keep_weights(trainer, error) : TD_OK;
    }
    trainer->waited++;
    td__stop_when_patience_ends(trainer);
    return TD_OK;
}

/* ---- Errors of recording ----------------------------------------------------------------------
 */

void td__trainer_unrecorded(td_trainer *trainer, const td_error *error) {
    if (trainer->recording.status) {
        return;
    }
    trainer->recording = *error;
    if (trainer->options.remark) {
        char text[TD_ERROR_TEXT_SIZE + 64];
        (void)snprintf(text, sizeof text, "not recorded: %s; training goes on", error->text);
        trainer->options.remark(trainer->options.user, text);
    }
}

/* What the policy, a full queue or a sink has cost. */
static void say_losses(const td_trainer *trainer, const td_deck_counters *counters) {
    const struct {
        int64_t count;
        const char *what;
    } losses[] = {
        {counters->dropped, "were dropped: they could not be written, or not fast enough"},
        {counters->degraded, "were written in a smaller form: there was no room for more"},
    };
    for (size_t i = 0; trainer->options.remark && i < sizeof losses / sizeof *losses; i++) {
        char text[160];
        (void)snprintf(text, sizeof text, "%lld of %lld records %s", (long long)losses[i].count,
                       (long long)counters->submitted, losses[i].what);
        if (losses[i].count) {
            trainer->options.remark(trainer->options.user, text);
        }
    }
}

/* An error of a sink, said when it happens and not at the next flush. */
static void notice_problem(td_trainer *trainer) {
    const char *problem = td__norms_problem(trainer->norms);
    if (problem && !trainer->recording.status) {
        td_error error = {0};
        td_error_set(&error, TD_IO, "%s", problem);
        td__trainer_unrecorded(trainer, &error);
    }
}

/* ---- The loop ---------------------------------------------------------------------------------
 */

static void tell(td_trainer *trainer, int64_t epoch, int64_t batch, bool epoch_end) {
    if (!trainer->options.progress) {
        return;
    }
    double now = td__seconds();
    double interval =
        trainer->options.progress_interval > 0 ? trainer->options.progress_interval : 0.1;
    if (!epoch_end && now - trainer->told_at < interval) {
        return;
    }
    trainer->told_at = now;
    double seconds = now - trainer->began;
    double done = (double)(trainer->step - trainer->began_step);
    td_train_progress progress = {
        .epoch = epoch,
        .epochs = trainer->epochs,
        .step = trainer->step,
        .steps = trainer->steps,
        .batch = batch,
        .batches = trainer->batches,
        .epoch_end = epoch_end,
        .learning_rate = td_optimizer_rate(trainer->optimizer),
        .seconds = seconds,
        .seconds_left = done > 0 ? seconds / done * (double)(trainer->steps - trainer->step) : NAN,
        .epoch_seconds = now - trainer->epoch_began,
        .steps_per_second = seconds > 0 ? done / seconds : 0,
        .values = trainer->told,
        .value_count = trainer->told_count,
    };
    trainer->options.progress(trainer->options.user, &progress);
}

static bool is_due(const td__interval *every, int64_t step, int64_t epoch, bool epoch_end) {
    return (every->steps && step % every->steps == 0) ||
           (every->epochs && epoch_end && epoch % every->epochs == 0);
}

/* What follows the update: validation and predictions belong to the step, and then it is closed. */
static td_status close_step(td_trainer *trainer, bool epoch_end, td_error *error) {
    td_status status = TD_OK;
    if (epoch_end && trainer->validation) {
        status = td__validate(trainer, error);
    }
    td_error reason = {0};
    if (!status && td__predict_sample(trainer, &reason)) {
        td__trainer_unrecorded(trainer, &reason);
    }
    (void)td_deck_step_with(trainer->deck, trainer->epoch + 1, trainer->step + 1, epoch_end);
    notice_problem(trainer);
    return status;
}

static bool is_done(const td_trainer *trainer) {
    return trainer->step >= trainer->steps || trainer->stopped_early || trainer->stop;
}

static td_status step(td_trainer *trainer, const td_batch *batch, td_error *error) {
    const td__train_spec *train = &trainer->experiment->train;
    bool last = batch->index + 1 == trainer->batches;
    bool epoch_end = last || trainer->step + 1 == trainer->steps;
    td_status status = td__step_run(trainer, batch, epoch_end, error);
    if (status) {
        /* What was recorded up to here is what one wants to look at. */
        (void)td_deck_step_with(trainer->deck, trainer->epoch + 1, trainer->step + 1, epoch_end);
        return status;
    }
    status = close_step(trainer, epoch_end, error);
    trainer->step++;
    trainer->batch = last ? 0 : batch->index + 1;
    trainer->epoch += last;
    if (!status && epoch_end) {
        status = consider_stopping(trainer, error);
    }
    tell(trainer, trainer->epoch + !last, batch->index + 1, epoch_end);
    if (last) {
        trainer->sums.examples = 0;
        memset(trainer->sums.sums, 0, (trainer->metric_count + 1) * sizeof(double));
        trainer->epoch_began = td__seconds();
    }
    if (!status && !is_done(trainer) &&
        is_due(&train->checkpoint_every, trainer->step, trainer->epoch, last)) {
        td__checkpoint_save(trainer);
    }
    return status;
}

static td_status train(td_trainer *trainer, td_error *error) {
    td_status status = TD_OK;
    trainer->began = trainer->epoch_began = trainer->told_at = td__seconds();
    trainer->began_step = trainer->step;
    while (!status && !is_done(trainer)) {
        td_batch batch;
        td_batches_start(trainer->training, (uint64_t)trainer->epoch + 1);
        td_batches_seek(trainer->training, trainer->batch);
        int64_t epoch = trainer->epoch;
        while (!status && !is_done(trainer) && epoch == trainer->epoch &&
               td_batches_next(trainer->training, &batch)) {
            status = step(trainer, &batch, error);
        }
    }
    return status;
}

/* What was asked for and never came. A run that was resumed may have it from before. */
static void say_idle_tracks(td_trainer *trainer) {
    const td_experiment *experiment = trainer->experiment;
    for (size_t i = 0; !trainer->resume && i < experiment->track_count; i++) {
        const td__track_spec *track = &experiment->tracks[i];
        if (td__deck_recorded(trainer->deck, (int32_t)i)) {
            continue;
        }
        td__trainer_remark(trainer, track->node, "record[%zu]: nothing was recorded%s%s", i,
                           track->when ? ": it never held that " : ": no value in any of its steps",
                           track->when ? track->when : "");
    }
}

/* A checkpoint to go on from, and, unless there is more to do, the model. */
static td_status finish(td_trainer *trainer, bool interrupted, td_error *error) {
    td__checkpoint_save(trainer);
    if (interrupted) {
        return TD_OK;
    }
    if (trainer->stopped_early && trainer->best_weights) {
        restore_weights(trainer);
    }
    return td__model_publish(trainer, error);
}

td_status td_trainer_run(td_trainer *trainer, td_error *error) {
    td_error reason = {0};
    if (trainer->ran) {
        return td_error_set(error, TD_STATE, "a trainer runs once");
    }
    trainer->ran = true;
    td_status status = TD_OK;
    if (trainer->experiment->train.stop_restore_best) {
        status = keep_weights(trainer, &reason);
    }
    if (!status && trainer->resume) {
        status = td__checkpoint_resume(trainer, &reason);
    }
    if (!status) {
        status = open_deck(trainer, &reason);
    }
    if (!status) {
        td_model_watch(trainer->model, td__step_watch, trainer);
        status = train(trainer, &reason);
        td_model_watch(trainer->model, NULL, NULL);
    }
    bool interrupted = trainer->stop && trainer->step < trainer->steps && !trainer->stopped_early;
    if (!status && trainer->step > 0) {
        status = finish(trainer, interrupted, &reason);
    }
    if (trainer->deck && (status || interrupted)) {
        (void)td_deck_note(trainer->deck, "state", status ? "failed" : "interrupted");
    }
    if (!status && !interrupted) {
        say_idle_tracks(trainer);
    }
    td_error closing = {0};
    td_deck_counters counters = {.size = sizeof counters};
    if (td_deck_close_with(trainer->deck, &counters, &closing)) {
        td__trainer_unrecorded(trainer, &closing);
    }
    say_losses(trainer, &counters);
    trainer->deck = NULL;
    if (!status && interrupted) {
        return td_error_set(error, TD_INTERRUPTED, "stopped after step %lld",
                            (long long)trainer->step);
    }
    if (!status && trainer->recording.status) {
        return td_error_set(error, TD_INCOMPLETE, "not everything was recorded: %s",
                            trainer->recording.text);
    }
    return status ? td_error_set(error, status, "%s", reason.text) : TD_OK;
}
