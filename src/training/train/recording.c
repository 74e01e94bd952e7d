/* The run's folder and its deck; and what happens when something cannot be recorded. */
#include "train/network.h"
#include "train/sources.h"
#include "train/trainer.h"

#include "base/folder.h"
#include "base/memory.h"
#include "deck/deck.h"
#include "deck/folder.h"
#include "deck/state.h"
#include "sink/extents.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Opening --------------------------------------------------------------------------------- */

/* "a,b.*" of a list of names; NULL when memory is exhausted or the list is empty. */
static char *join_names(const td_names *names) {
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
    char *what = join_names(&spec->what), *to = join_names(&spec->to);
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
        status = td_deck_track_with(trainer->recording.deck, &track, &reason);
    }
    if (status) {
        td__experiment_problem(trainer->experiment, spec->node, status, error, "record: %s",
                               *reason.text ? reason.text : "out of memory");
    }
    td__free(what);
    td__free(to);
    return status;
}

static td_status add_alert(td_trainer *trainer, const td__alert_spec *spec, td_error *error) {
    td_error reason = {0};
    const char **run = td__calloc(spec->run.count + 1, sizeof *run);
    for (size_t i = 0; run && i < spec->run.count; i++) {
        run[i] = spec->run.items[i];
    }
    td_alert alert = {.size = sizeof alert,
                      .when = spec->when,
                      .run = spec->run.count ? run : NULL,
                      .webhook = spec->webhook};
    td_status status = run ? td_deck_alert(trainer->recording.deck, &alert, &reason) : TD_MEMORY;
    if (status) {
        td__experiment_problem(trainer->experiment, spec->node, status, error, "%s",
                               *reason.text ? reason.text : "alert: out of memory");
    }
    td__free(run);
    return status;
}

/* The last experiment that a resumed run went on with: "experiment.yaml" or "experiment.STEP.yaml". Those of
 * steps that are executed anew are removed. */
static void find_last_experiment(const td_trainer *trainer, char name[64]) {
    DIR *listing = td__folder_list(trainer->recording.opened);
    int64_t last = 0;
    for (struct dirent *entry; listing && (entry = readdir(listing));) {
        long long step;
        int length = 0;
        if (sscanf(entry->d_name, "experiment.%lld.yaml%n", &step, &length) == 1 && length &&
            !entry->d_name[length]) {
            if (step > trainer->at.step) {
                (void)unlinkat(trainer->recording.opened, entry->d_name, 0);
            }
            last = step <= trainer->at.step && step > last ? step : last;
        }
    }
    if (listing) {
        closedir(listing);
    }
    (void)snprintf(name, 64, last ? "experiment.%" PRId64 ".yaml" : "experiment.yaml", last);
}

/* Whether a file of the run's folder has just this text. */
static bool has_text(const td_trainer *trainer, const char *name, const char *text, size_t size) {
    struct stat about;
    int file = td__file_open(trainer->recording.opened, name, O_RDONLY | O_NOFOLLOW);
    char *found = file >= 0 && fstat(file, &about) == 0 && (size_t)about.st_size == size
                      ? td__calloc(size + 1, 1)
                      : NULL;
    bool same = found && td__read_all(file, found, size, 0) && !memcmp(found, text, size);
    td__free(found);
    if (file >= 0) {
        close(file);
    }
    return same;
}

static td_status publish_experiment(td_trainer *trainer, td_error *error) {
    size_t size = 0;
    char *text = td__experiment_write(trainer->experiment, &size);
    td_status status = text ? TD_OK : td_error_set(error, TD_MEMORY, "out of memory");
    /* What a run began with stays as it was; what it goes on with, where that differs, stands beside it. */
    char name[64] = "experiment.yaml";
    bool there = false;
    if (!status && trainer->resume) {
        find_last_experiment(trainer, name);
        there = has_text(trainer, name, text, size);
        (void)snprintf(name, sizeof name, "experiment.%" PRId64 ".yaml", trainer->at.step);
    }
    if (!status && !there) {
        status = td__file_publish(trainer->recording.opened, name, text, size, false, error);
    }
    if (!status) {
        (void)td_deck_note(trainer->recording.deck, "experiment.yaml", text);
    }
    td__free(text);
    return status;
}

static void note_number(td_trainer *trainer, const char *key, int64_t number) {
    char text[32];
    (void)snprintf(text, sizeof text, "%" PRId64, number);
    (void)td_deck_note(trainer->recording.deck, key, text);
}

/* The data set still has the files open that it read. */
static int find_opened(const td_trainer *trainer, const char *path) {
    int opened = td__dataset_descriptor(trainer->feed.data, path);
    for (size_t i = 0; opened < 0 && i < trainer->layer_target_count; i++) {
        opened = td__dataset_descriptor(trainer->layer_targets[i].data, path);
    }
    return opened;
}

/* A file that was read a moment ago and cannot be read now has no fingerprint; a replay reports that. */
static td_status note_source(void *user, const td__source_file *source, td_error *error) {
    td_trainer *trainer = user;
    char text[TD__SOURCE_TEXT];
    if (!td__source_describe(source->path, find_opened(trainer, source->path), text, error)) {
        (void)td_deck_note(trainer->recording.deck, source->key, text);
    }
    return TD_OK;
}

static void add_notes(td_trainer *trainer) {
    int64_t elements = 0;
    for (size_t i = 0; i < trainer->parameter_count; i++) {
        elements += td_tensor_count(td_model_parameter_at(trainer->model, i)->tensor);
    }
    td__note_network(trainer);
    (void)td_deck_note(trainer->recording.deck, "experiment.name", trainer->experiment->name);
    note_number(trainer, "experiment.seed", (int64_t)trainer->experiment->seed);
    note_number(trainer, "experiment.parameters", elements);
    note_number(trainer, "experiment.steps", trainer->feed.steps);
    note_number(trainer, "environment.threads", td_threads());
    if (trainer->parent) {
        (void)td_deck_note(trainer->recording.deck, "parent", trainer->parent);
        note_number(trainer, "parent.step", trainer->parent_step);
    }
    if (!trainer->resume) {
        (void)!td__sources_visit(trainer->experiment, note_source, trainer, NULL);
    }
}

/* Files are written through the opened folder, so that it may be renamed meanwhile. */
static td_status open_folder(td__recording *recording, td_error *error) {
    char *folder = td__strdup(td_deck_folder(recording->deck));
    if (!folder) {
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    recording->opened = td__folder_open(folder, error);
    if (recording->opened < 0) {
        td__free(folder);
        return TD_IO;
    }
    recording->folder = folder;
    recording->place =
        td__folder_follow(recording->opened, recording->path) ? recording->path : folder;
    return TD_OK;
}

void td__recording_release(td__recording *recording) {
    if (recording->folder) {
        close(recording->opened);
    }
    td__free(recording->folder);
    recording->folder = NULL;
}

/* Before the deck opens them, while nobody else writes them. */
static td_status cut_files(td_trainer *trainer, td_error *error) {
    const td__remembered *from = &trainer->recording.remembered;
    int folder = -1;
    td_status status = from->files ? td__folder_lock(trainer->resume, &folder, error) : TD_OK;
    if (folder >= 0) {
        status =
            td__extents_restore(folder, from->files, from->files_size, trainer->at.step, error);
        close(folder);
    }
    return status;
}

static td_status claim_folder(td_trainer *trainer, td_error *error) {
    const td_experiment *experiment = trainer->experiment;
    td__recording *recording = &trainer->recording;
    td_deck_options options = {.size = sizeof options,
                               .policy = (td_policy)experiment->policy,
                               .queue_bytes = experiment->queue,
                               .history_bytes = experiment->history,
                               .overhead = experiment->overhead,
                               .seed = experiment->seed,
                               .stream = trainer->options.stream,
                               .resume = trainer->resume ? trainer->at.step : 0,
                               .busy_cores = td_threads(),
                               .run_parts = td_threads_run,
                               .diff_bytes = 256 << 10};
    const char *store = getenv("TAPEDECK_STORE");
    options.store = experiment->store ? experiment->store : store && *store ? store : NULL;
    size_t room = strlen(trainer->out) + strlen(experiment->name) + 2;
    char *folder = td__calloc(room, 1);
    recording->norms = td__norms_create();
    if (!folder || !recording->norms) {
        td__free(folder);
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    (void)snprintf(folder, room, "%s/%s", trainer->out, experiment->name);
    recording->deck = td__norms_open_deck(
        recording->norms, trainer->resume ? trainer->resume : folder, &options, error);
    td__free(folder);
    if (!recording->deck) {
        return error && error->status ? error->status : TD_IO;
    }
    return open_folder(recording, error);
}

/* A run that cannot begin leaves nothing behind. */
static void abandon(td_trainer *trainer) {
    td__recording *recording = &trainer->recording;
    if (recording->folder) {
        td__room_release(trainer);
    }
    (void)td_deck_close(recording->deck, NULL);
    recording->deck = NULL;
    if (recording->folder) {
        td__room_release_index(recording);
    }
    if (recording->folder && !trainer->resume) {
        (void)td__folder_remove(recording->folder);
    }
    td__recording_release(recording);
}

/* So that mean(), delta() and history go on where the run was stopped. */
static td_status restore_conditions(td_trainer *trainer, td_error *error) {
    td__recording *recording = &trainer->recording;
    td_error reason = {0};
    const td__remembered *from = &recording->remembered;
    td_status status = from->state ? td__deck_restore_state(recording->deck, from->state,
                                                            from->state_size, &reason)
                                   : TD_OK;
    td__remembered_release(&recording->remembered);
    if (status == TD_NOT_FOUND) {
        td__trainer_remark(trainer, NULL,
                           "record: mean(), delta() and history begin anew: the checkpoint is of "
                           "other tracks");
        return TD_OK;
    }
    return status ? td_error_set(error, status, "%s: training/recording: %s", trainer->resume,
                                 reason.text)
                  : TD_OK;
}

td_status td__recording_open(td_trainer *trainer, td_error *error) {
    const td_experiment *experiment = trainer->experiment;
    td_status status = cut_files(trainer, error);
    status = status ? status : claim_folder(trainer, error);
    status = status ? status : td__room_reserve(trainer, error);
    for (size_t i = 0; !status && i < experiment->track_count; i++) {
        status = add_track(trainer, &experiment->tracks[i], error);
    }
    for (size_t i = 0; !status && i < experiment->alert_count; i++) {
        status = add_alert(trainer, &experiment->alerts[i], error);
    }
    status = status ? status : td__trainer_keep_initial(trainer, error);
    status = status ? status : publish_experiment(trainer, error);
    if (!status) {
        add_notes(trainer);
        status = td__pass_signals_connect(&trainer->signals, trainer->recording.deck, error);
    }
    status = status ? status : restore_conditions(trainer, error);
    if (status) {
        abandon(trainer);
    } else {
        trainer->pass.signals = &trainer->signals;
        td__flight_open(trainer);
    }
    return status;
}

td_status td__recording_open_replay(td_trainer *trainer, const char *folder, const char *note,
                                    td_error *error) {
    const td_experiment *experiment = trainer->experiment;
    td__recording *recording = &trainer->recording;
    td_deck_options options = {.size = sizeof options,
                               .queue_bytes = experiment->queue,
                               .history_bytes = experiment->history,
                               .seed = experiment->seed,
                               .exact_folder = true,
                               .busy_cores = td_threads(),
                               .run_parts = td_threads_run};
    recording->norms = td__norms_create();
    recording->deck =
        recording->norms ? td__norms_open_deck(recording->norms, folder, &options, error) : NULL;
    if (!recording->deck) {
        return error && error->status ? error->status
                                      : td_error_set(error, TD_MEMORY, "out of memory");
    }
    td_status status = TD_OK;
    for (size_t i = 0; !status && i < experiment->track_count; i++) {
        status = add_track(trainer, &experiment->tracks[i], error);
    }
    status = status ? status : td__pass_signals_connect(&trainer->signals, recording->deck, error);
    if (status) {
        (void)td_deck_close(recording->deck, NULL);
        recording->deck = NULL;
        (void)td__folder_remove(folder);
        return status;
    }
    (void)td_deck_note(recording->deck, "replayed", note);
    trainer->pass.signals = &trainer->signals;
    return TD_OK;
}

td_status td__recording_move(td_trainer *from, td_trainer *to, td_error *error) {
    td_status status = td__pass_signals_connect(&to->signals, from->recording.deck, error);
    if (!status) {
        to->recording = from->recording;
        from->recording = (td__recording){0};
        to->pass.signals = &to->signals;
    }
    return status;
}

/* ---- Errors ---------------------------------------------------------------------------------- */

void td__trainer_unrecorded(td_trainer *trainer, const td_error *error) {
    if (!trainer->recording.error.status) {
        trainer->recording.error = *error;
        td__trainer_remark(trainer, NULL, "not recorded: %s; training goes on", error->text);
    }
}

void td__recording_notice(td_trainer *trainer) {
    const char *problem = td__norms_problem(trainer->recording.norms);
    if (problem && !trainer->recording.error.status) {
        td_error error = {0};
        td_error_set(&error, TD_IO, "%s", problem);
        td__trainer_unrecorded(trainer, &error);
    }
}

static bool prints(const td_experiment *experiment) {
    for (size_t i = 0; i < experiment->track_count; i++) {
        const td_names *to = &experiment->tracks[i].to;
        for (size_t k = 0; k < to->count; k++) {
            if (!strcmp(to->items[k], "print")) {
                return true;
            }
        }
    }
    return false;
}

void td__recording_catch_up(td_trainer *trainer) {
    td_error error = {0};
    if (prints(trainer->experiment) && td_deck_flush(trainer->recording.deck, &error)) {
        td__trainer_unrecorded(trainer, &error);
    }
}

/* A run that was resumed may have it from before. */
void td__recording_say_idle(td_trainer *trainer) {
    const td_experiment *experiment = trainer->experiment;
    for (size_t i = 0; !trainer->resume && i < experiment->track_count; i++) {
        const td__track_spec *track = &experiment->tracks[i];
        if (!td__deck_recorded(trainer->recording.deck, (int32_t)i)) {
            td__trainer_remark(trainer, track->node, "record[%zu]: nothing was recorded%s%s", i,
                               track->when ? ": it never held that "
                                           : ": no value in any of its steps",
                               track->when ? track->when : "");
        }
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
    for (size_t i = 0; i < sizeof losses / sizeof *losses; i++) {
        if (losses[i].count) {
            td__trainer_remark(trainer, NULL, "%lld of %lld records %s", (long long)losses[i].count,
                               (long long)counters->submitted, losses[i].what);
        }
    }
}

/* Where to look for a run that was renamed while it was trained. */
static void notice_move(td_trainer *trainer) {
    td__recording *recording = &trainer->recording;
    struct stat opened, named;
    if (fstat(recording->opened, &opened) != 0 ||
        (stat(recording->folder, &named) == 0 && named.st_dev == opened.st_dev &&
         named.st_ino == opened.st_ino)) {
        return;
    }
    char *now = td__folder_whereabouts(recording->opened);
    if (now) {
        td__trainer_remark(trainer, NULL, "the run's folder %s is called %s now", recording->folder,
                           now);
        td__free(recording->folder);
        recording->folder = now;
    }
}

void td__recording_close(td_trainer *trainer) {
    td_error closing = {0};
    td_deck_counters counters = {.size = sizeof counters};
    td__flight_close(trainer);
    td__verify_note(trainer);
    td__room_release(trainer); /* what still waits to be recorded may take it */
    if (td_deck_close_with(trainer->recording.deck, &counters, &closing)) {
        td__trainer_unrecorded(trainer, &closing);
    }
    td__room_release_index(&trainer->recording);
    say_losses(trainer, &counters);
    notice_move(trainer);
    trainer->recording.deck = NULL;
    trainer->pass.signals = NULL;
}
