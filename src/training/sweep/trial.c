/* One trial, trained up to an epoch in this process. */
#include "base/memory.h"
#include "deck/folder.h"
#include "experiment/experiment.h"
#include "model/load.h"
#include "sweep/sweep.h"
#include "tapedeck/diagnose.h"
#include "tapedeck/train.h"
#include "train/stopping.h"
#include "train/trainer.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const char **td__trial_settings(const td_sweep *sweep, const td__trial *trial, size_t *count) {
    size_t most = sweep->fixed_count + sweep->key_count + 3, room = 128;
    for (size_t i = 0; i < sweep->key_count; i++) {
        room += strlen(sweep->keys[i]) + strlen(trial->values[i]) + 2;
    }
    const char **settings = td__calloc(1, most * sizeof *settings + room);
    if (!settings) {
        return NULL;
    }
    char *text = (char *)(settings + most);
    size_t n = 0;
    for (size_t i = 0; i < sweep->fixed_count; i++) {
        settings[n++] = sweep->fixed[i];
    }
    for (size_t i = 0; i < sweep->key_count; i++) {
        settings[n++] = text;
        text += sprintf(text, "%s=%s", sweep->keys[i], trial->values[i]) + 1;
    }
    settings[n++] = text;
    text += sprintf(text, "name=%s", trial->name) + 1;
    settings[n++] = text;
    (void)sprintf(text, "threads=%lld", (long long)sweep->facts.threads);
    *count = n;
    return settings;
}

/* The experiment as this trial has it. `threads` is set where neither the file nor a setting has them. */
static td_experiment *read_trial(const td_sweep *sweep, const td__trial *trial, td_error *error) {
    size_t count;
    const char **settings = td__trial_settings(sweep, trial, &count);
    if (!settings) {
        td_error_set(error, TD_MEMORY, "out of memory");
        return NULL;
    }
    td_experiment_options options = {
        .size = sizeof options, .set = settings, .set_count = count - 1};
    td_experiment *experiment = td_experiment_read(sweep->experiment, &options, error);
    if (experiment && !experiment->threads && sweep->facts.threads) {
        td_experiment_destroy(experiment);
        options.set_count = count;
        experiment = td_experiment_read(sweep->experiment, &options, error);
    }
    td__free((void *)settings);
    return experiment;
}

static const char *value_name(const td_train_value *values, size_t count, const char *wanted) {
    for (size_t i = 0; i < count; i++) {
        if (!strcmp(values[i].name, wanted)) {
            return values[i].name;
        }
    }
    return NULL;
}

static td_status take_facts(td_trainer *trainer, td_sweep_facts *facts, td_error *error) {
    const td_train_value *values;
    size_t count = td_trainer_values(trainer, &values);
    const char *metric = *facts->metric ? value_name(values, count, facts->metric)
                         : value_name(values, count, "val_loss") ? "val_loss"
                                                                 : "loss";
    if (!metric) {
        char all[512] = "";
        for (size_t i = 0, at = 0; i < count && at < sizeof all; i++) {
            at +=
                (size_t)snprintf(all + at, sizeof all - at, "%s%s", i ? ", " : "", values[i].name);
        }
        return td_error_set(error, TD_NOT_FOUND, "--metric %s: training has %s", facts->metric,
                            all);
    }
    (void)snprintf(facts->metric, sizeof facts->metric, "%s", metric);
    facts->threads = trainer->experiment->threads;
    facts->epochs = trainer->feed.epochs;
    facts->larger = td__monitor_better(&trainer->experiment->train, metric) == TD_BETTER_LARGER;
    return TD_OK;
}

td_status td_sweep_look(const td_sweep *sweep, td_sweep_facts *facts, td_error *error) {
    td_error own = {0};
    error = error ? error : &own;
    td_sweep_facts found = sweep->facts;
    td_experiment *experiment = read_trial(sweep, &sweep->trials[0], error);
    td_trainer_options options = {.size = sizeof options, .out = sweep->out};
    td_trainer *trainer = experiment ? td_trainer_create(experiment, &options, error) : NULL;
    td_status status = trainer ? take_facts(trainer, &found, error) : error->status;
    td_trainer_destroy(trainer);
    td_experiment_destroy(experiment);
    if (!status) {
        *facts = found;
    }
    return status;
}

void td_sweep_stop(td_sweep *sweep) {
    sweep->stop = 1;
    if (sweep->trainer) {
        td_trainer_stop(sweep->trainer);
    }
}

/* While a trial trains. */
typedef struct watch {
    td_sweep *sweep;
    int64_t until;
    int64_t from_step; /* of the checkpoint that it goes on from; 0: none */
    int log;
    bool paused, lost; /* at the task's epoch; a line of the log */
} watch;

static void take_epoch(void *user, const td_train_progress *progress) {
    watch *w = user;
    if (!progress->epoch_end) {
        return;
    }
    double value = (double)NAN;
    for (size_t i = 0; i < progress->value_count; i++) {
        if (!strcmp(progress->values[i].name, w->sweep->facts.metric)) {
            value = progress->values[i].value;
        }
    }
    w->lost |= !td__trial_log_epoch(w->log, progress->epoch, value);
    if (w->lost || (progress->epoch >= w->until && progress->epoch < progress->epochs)) {
        w->paused = progress->epoch >= w->until;
        td_trainer_stop(w->sweep->trainer);
    }
}

static td_status log_or_fail(const td_sweep *sweep, const td__trial *trial, bool logged,
                             td_error *error) {
    return logged ? TD_OK
                  : td_error_set(error, TD_IO, "%s/%s.log: cannot be written: %s", sweep->folder,
                                 trial->name, strerror(errno));
}

/* The process was killed after the last checkpoint of the task, and before its last line. */
static bool is_there_already(const td_trainer *trainer, const watch *w) {
    return w->from_step > 0 && w->until < INT64_MAX / trainer->feed.batches &&
           w->from_step == w->until * trainer->feed.batches && w->from_step < trainer->feed.steps;
}

static td_status run_trial(td_sweep *sweep, td__trial *trial, watch *w, td_trainer *trainer,
                           td_error *error) {
    if (is_there_already(trainer, w)) {
        return log_or_fail(sweep, trial, td__trial_log_pause(w->log, w->until), error);
    }
    sweep->trainer = trainer;
    if (sweep->stop) {
        td_trainer_stop(trainer);
    }
    td_status status = td_trainer_run(trainer, error);
    sweep->trainer = NULL;
    if (w->lost) {
        return log_or_fail(sweep, trial, false, error);
    }
    if (status == TD_INTERRUPTED && w->paused) {
        return log_or_fail(sweep, trial, td__trial_log_pause(w->log, td_trainer_epochs(trainer)),
                           error);
    }
    bool done = status == TD_OK || status == TD_INCOMPLETE;
    /* All of it was done, and only this line not yet written. */
    bool was_done = status == TD_STATE;
    if (done || was_done || status == TD_RANGE) {
        td__trial_end end = status == TD_RANGE ? TD__TRIAL_DIVERGED : TD__TRIAL_FINISHED;
        td_status logged = log_or_fail(sweep, trial, td__trial_log_end(w->log, end), error);
        return logged ? logged : done ? status : TD_OK;
    }
    return status;
}

/* With a checkpoint a trial goes on, and without one it begins anew. */
static td_status train_trial(td_sweep *sweep, td__trial *trial, td_experiment *experiment,
                             int64_t until, td_error *error) {
    char path[TD__SWEEP_PATH];
    bool go_on = td__last_checkpoint(trial->folder, path, sizeof path);
    if (!go_on && access(trial->folder, F_OK) == 0 && !td__folder_remove(trial->folder)) {
        return td_error_set(error, TD_IO, "%s cannot be removed: %s", trial->folder,
                            strerror(errno));
    }
    const char *slash = go_on ? strrchr(path, '/') : NULL;
    watch w = {
        .sweep = sweep, .until = until, .from_step = slash ? td__checkpoint_step(slash + 1) : 0};
    w.log = td__trial_log(sweep, trial, go_on, error);
    if (w.log < 0) {
        return error->status;
    }
    FILE *nowhere = fopen("/dev/null", "w");
    td_monitor *monitor = td_monitor_create(experiment, NULL, NULL);
    td_trainer_options options = {.size = sizeof options,
                                  .out = sweep->folder,
                                  .resume = go_on ? trial->folder : NULL,
                                  .stream = nowhere,
                                  .progress = take_epoch,
                                  .user = &w,
                                  .observer = monitor ? td_monitor_observer(monitor) : NULL};
    td_status status =
        !nowhere   ? td_error_set(error, TD_IO, "/dev/null cannot be opened: %s", strerror(errno))
        : !monitor ? td_error_set(error, TD_MEMORY, "out of memory")
                   : TD_OK;
    td_trainer *trainer = status ? NULL : td_trainer_create(experiment, &options, error);
    status = status    ? status
             : trainer ? run_trial(sweep, trial, &w, trainer, error)
                       : error->status;
    if (trainer && td_monitor_keep(monitor, trial->folder, NULL)) {
        /* Findings are a comment on the trial; it is trained without them too. */
    }
    td_trainer_destroy(trainer);
    td_monitor_destroy(monitor);
    if (nowhere) {
        (void)fclose(nowhere);
    }
    close(w.log);
    return status;
}

td_status td_sweep_train(td_sweep *sweep, const td_sweep_task *task, td_error *error) {
    td_error own = {0};
    error = error ? error : &own;
    td__trial *trial = &sweep->trials[task->trial];
    td_experiment *experiment = read_trial(sweep, trial, error);
    td_status status =
        experiment ? train_trial(sweep, trial, experiment, task->epoch, error) : error->status;
    td_experiment_destroy(experiment);
    td_error later = {0};
    bool failed = status && status != TD_INCOMPLETE && status != TD_INTERRUPTED;
    td_status read = td_sweep_ended(sweep, task->trial, failed, &later);
    return status ? status : read ? td_error_set(error, read, "%s", later.text) : TD_OK;
}

td_status td_sweep_ended(td_sweep *sweep, size_t index, bool failed, td_error *error) {
    td__trial *trial = &sweep->trials[index];
    td_status status = td__trial_read(sweep, trial, error);
    trial->busy = false;
    trial->failed = failed || status;
    return status;
}
