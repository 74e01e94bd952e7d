#include "replay/player.h"

#include "base/memory.h"
#include "run/run.h"
#include "tape/kernels.h"
#include "train/sources.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- What the run says of itself ------------------------------------------------------------- */

static void keep_text(char *out, size_t size, const char *value) {
    (void)snprintf(out, size, "%s", value);
}

typedef struct timing {
    td__player *player;
    double seconds, steps;
} timing;

static void keep_note(void *user, const char *key, const char *value) {
    timing *t = user;
    td__player *player = t->player;
    if (!strcmp(key, "version")) {
        keep_text(player->version, sizeof player->version, value);
    } else if (!strcmp(key, "parent")) {
        keep_text(player->parent, sizeof player->parent, value);
    } else if (!strcmp(key, "parent.step")) {
        player->parent_step = strtoll(value, NULL, 10);
    } else if (!strcmp(key, "deck.step_seconds")) {
        t->seconds = strtod(value, NULL);
    } else if (!strcmp(key, "deck.steps")) {
        t->steps = strtod(value, NULL);
    }
}

static void keep_environment(void *user, const char *key, const char *value) {
    td__player *player = user;
    if (!strcmp(key, "kernels")) {
        keep_text(player->kernels, sizeof player->kernels, value);
    } else if (!strcmp(key, "threads")) {
        player->threads = (int)strtol(value, NULL, 10);
    }
}

/* Kernels of the run, where this machine has them; otherwise its own. */
static td__cpu choose_cpu(const char *kernels) {
    for (td__cpu cpu = TD__CPU_PORTABLE; cpu < TD__CPU_COUNT; cpu++) {
        if (td__cpu_has(cpu) && !strcmp(kernels, td__cpu_name(cpu))) {
            return cpu;
        }
    }
    return td__cpu_chosen();
}

static void read_facts(td__player *player, td_run *run) {
    timing t = {.player = player};
    td_run_info info = {.size = sizeof info};
    td_run_about(run, &info);
    player->state = info.state;
    player->last_step = info.last_step;
    (void)td_run_notes(run, "run", keep_note, &t, NULL);
    (void)td_run_notes(run, "environment", keep_environment, player, NULL);
    player->step_seconds = t.steps > 1 && t.seconds > 0 ? t.seconds / t.steps : (double)NAN;
    td_run_step first, last;
    if (isnan(player->step_seconds) && td_run_when(run, 1, &first) &&
        td_run_when(run, info.last_step, &last) && last.step > first.step) {
        player->step_seconds =
            (last.wall_time - first.wall_time) / (double)(last.step - first.step);
    }
}

/* A newer version may mean something else by what it wrote. */
static td_status check_version(const td__player *player, td_error *error) {
    int theirs[2] = {0}, ours[2] = {0};
    if (sscanf(player->version, "%d.%d", &theirs[0], &theirs[1]) == 2 &&
        sscanf(td_version(), "%d.%d", &ours[0], &ours[1]) == 2 &&
        (theirs[0] > ours[0] || (theirs[0] == ours[0] && theirs[1] > ours[1]))) {
        return td_error_set(error, TD_UNSUPPORTED,
                            "%s was written by Tapedeck %s, and this is %s: its steps are executed "
                            "again by that version or a later one",
                            player->folder, player->version, td_version());
    }
    return TD_OK;
}

td_status td__player_open(td__player *player, const char *path, td_error *error) {
    *player = (td__player){.step_seconds = (double)NAN};
    td_run *run = td_run_open(path, error);
    if (!run) {
        return error && error->status ? error->status : TD_NOT_FOUND;
    }
    keep_text(player->folder, sizeof player->folder, run->folder);
    if (!run->events) {
        read_facts(player, run);
    }
    td_run_close(run);
    char file[TD_REPLAY_PATH + 32];
    (void)snprintf(file, sizeof file, "%s/experiment.yaml", player->folder);
    player->is_ours = access(file, R_OK) == 0;
    player->cpu = choose_cpu(player->kernels);
    td_status status = check_version(player, error);
    status = status ? status : td__flight_read(player->folder, &player->flight, error);
    if (!status && player->flight.count &&
        player->flight.records[player->flight.count - 1].step > player->last_step) {
        player->last_step = player->flight.records[player->flight.count - 1].step;
    }
    return status;
}

static void drop_trainer(td__player *player) {
    td_trainer_destroy(player->trainer);
    td_experiment_destroy(player->experiment);
    player->trainer = NULL;
    player->experiment = NULL;
}

void td__player_close(td__player *player) {
    if (player->trainer) { /* its deck is closed by whoever opened it */
        drop_trainer(player);
    }
    td__flight_log_release(&player->flight);
    td__kernels_use(td__cpu_chosen());
    *player = (td__player){0};
}

/* ---- The trainer ----------------------------------------------------------------------------- */

/* experiment.yaml, or experiment.N.yaml of a run that was resumed after step N with other settings: the
 * last of those at or before `step`; *next is the step after which another one holds, or INT64_MAX. */
static void find_experiment(const char *run, int64_t step, char *path, size_t size, int64_t *begins,
                            int64_t *next) {
    DIR *listing = opendir(run);
    *begins = 0;
    *next = INT64_MAX;
    for (struct dirent *entry; listing && (entry = readdir(listing));) {
        long long number;
        int length = 0;
        if (sscanf(entry->d_name, "experiment.%lld.yaml%n", &number, &length) == 1 && length &&
            !entry->d_name[length] && number > 0) {
            *begins = number <= step && number > *begins ? number : *begins;
            *next = number > step && number < *next ? number : *next;
        }
    }
    if (listing) {
        closedir(listing);
    }
    if (*begins) {
        (void)snprintf(path, size, "%s/experiment.%lld.yaml", run, (long long)*begins);
    } else {
        (void)snprintf(path, size, "%s/experiment.yaml", run);
    }
}

void td_replay_experiment(const char *run, int64_t step, char path[TD_REPLAY_PATH]) {
    int64_t begins, next;
    find_experiment(run, step > 0 ? step - 1 : 0, path, TD_REPLAY_PATH, &begins, &next);
}

typedef struct sources_check {
    td_run *run;
    const char *folder;
    const td__source_file *source;
    char noted[TD__SOURCE_TEXT];
} sources_check;

static void find_note(void *user, const char *key, const char *value) {
    sources_check *c = user;
    if (!strcmp(key, c->source->key)) {
        keep_text(c->noted, sizeof c->noted, value);
    }
}

static td_status check_source(void *user, const td__source_file *source, td_error *error) {
    sources_check *c = user;
    char now[TD__SOURCE_TEXT];
    td_error reason = {0};
    c->source = source;
    *c->noted = 0;
    td_status status = td__source_describe(source->path, -1, now, &reason);
    if (status) {
        return td_error_set(error, status, "%s: its data (%s) cannot be read: %s", c->folder,
                            source->key, reason.text);
    }
    (void)td_run_notes(c->run, "run", find_note, c, NULL);
    if (*c->noted && strcmp(c->noted, now) != 0) {
        return td_error_set(
            error, TD_FORMAT,
            "%s: %s is %s, and the run was trained on %s: put the old file back, or "
            "train again",
            c->folder, source->path, now, c->noted);
    }
    return TD_OK;
}

static td_status check_sources(const td__player *player, td_error *error) {
    sources_check c = {.folder = player->folder, .run = td_run_open(player->folder, error)};
    if (!c.run) {
        return error && error->status ? error->status : TD_IO;
    }
    td_status status = td__sources_visit(player->experiment, check_source, &c, error);
    td_run_close(c.run);
    return status;
}

static void see_step(void *user, td_trainer *trainer, bool updated);

static td_status make_trainer(td__player *player, int64_t step, td_error *error) {
    char path[TD_REPLAY_PATH + 64];
    int64_t next;
    find_experiment(player->folder, step, path, sizeof path, &player->segment, &next);
    td_experiment *experiment = td_experiment_read(path, NULL, error);
    if (!experiment) {
        return error && error->status ? error->status : TD_FORMAT;
    }
    player->experiment = experiment;
    td_status status = check_sources(player, error);
    if (status) {
        return status;
    }
    experiment->tracks = (td__track_spec *)(uintptr_t)player->tracks;
    experiment->track_count = player->track_count;
    experiment->unrecorded = false;
    experiment->stop_on_nan = false; /* what follows from it is of interest */
    if (player->threads > 0) {
        experiment->threads = player->threads;
    }
    td__player_use(player);
    td_trainer_options options = {.size = sizeof options};
    player->trainer = td_trainer_create(experiment, &options, error);
    if (!player->trainer) {
        return error && error->status ? error->status : TD_FORMAT;
    }
    player->trainer->replaying = true;
    player->trainer->stepped = see_step;
    player->trainer->stepped_user = player;
    player->trainer->pass.tape->watch = player->watch;
    return TD_OK;
}

void td__player_use(const td__player *player) {
    td__kernels_use(player->cpu);
    if (player->threads > 0) {
        td_threads_set(player->threads);
    }
}

td_status td__player_check(const td__player *player, td_error *error) {
    if (!player->is_ours) {
        return td_error_set(
            error, TD_INVALID,
            "%s has no experiment.yaml: only steps of `tapedeck train` can be executed "
            "again (of a PyTorch or Keras run, see capsules)",
            player->folder);
    }
    return TD_OK;
}

td_status td__player_start(td__player *player, int64_t step, td_error *error) {
    char checkpoint[TD_REPLAY_PATH + 300];
    td_status ours = td__player_check(player, error);
    if (ours) {
        return ours;
    }
    if (step < player->parent_step) {
        return td_error_set(error, TD_INVALID,
                            "%s branches off after step %lld: what was before is the past of %s",
                            player->folder, (long long)player->parent_step, player->parent);
    }
    int64_t found = td__checkpoint_nearest(player->folder, step, checkpoint, sizeof checkpoint);
    if (player->parent_step && found < player->parent_step) {
        return td_error_set(error, TD_NOT_FOUND,
                            "%s: the checkpoint of step %lld, from which it branches off, is gone",
                            player->folder, (long long)player->parent_step);
    }
    if (player->trainer) {
        drop_trainer(player);
    }
    td_status status = make_trainer(player, found, error);
    if (!status && found) {
        status = td__checkpoint_read(player->trainer, checkpoint, error);
    }
    player->began = found;
    return status;
}

/* After the last step of one experiment comes the next one, in the same state. */
static td_status change_experiment(td__player *player, td_error *error) {
    td__state state = {0};
    td_trainer *before = player->trainer;
    td_experiment *experiment = player->experiment;
    td_status status = td__state_save(before, &state, error);
    if (!status) {
        player->trainer = NULL;
        player->experiment = NULL;
        status = make_trainer(player, before->at.step, error);
        status = status ? status : td__state_restore(player->trainer, &state, NULL, error);
        if (!status && before->recording.deck) {
            status = td__recording_move(before, player->trainer, error);
        }
        td_trainer_destroy(before);
        td_experiment_destroy(experiment);
    }
    td__state_release(&state);
    return status;
}

td_status td__player_advance(td__player *player, int64_t last, td_error *error) {
    td_status status = TD_OK;
    for (int64_t before = -1; !status && !player->ended && before != player->trainer->at.step;) {
        char path[TD_REPLAY_PATH + 64];
        int64_t begins, next;
        before = player->trainer->at.step;
        if (before >= last) {
            break;
        }
        find_experiment(player->folder, before, path, sizeof path, &begins, &next);
        if (begins != player->segment) {
            status = change_experiment(player, error);
        }
        td__player_use(player);
        status = status ? status
                        : td__trainer_advance(player->trainer, next < last ? next : last, error);
    }
    return status;
}

int64_t td__player_step(const td__player *player) {
    return player->trainer->at.step;
}

/* ---- Comparing ------------------------------------------------------------------------------- */

static bool same_bits(double a, double b) {
    return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

/* In execution order: the batch, the loss, the parameters. */
static void compare_step(td__player *player, td_trainer *trainer, bool updated) {
    int64_t step = trainer->at.step + 1;
    const td__flight_record *record = td__flight_find(&player->flight, step);
    if (!record || player->differs_at) {
        return;
    }
    const char *differs = NULL;
    double loss = (double)td_tensor_scalar(trainer->pass.loss);
    if (record->batch && record->batch != td__batch_fingerprint(trainer)) {
        differs = "batch";
    } else if (!same_bits(record->loss, loss)) {
        differs = "loss";
    } else if (updated && record->rate > 0 && record->parameters &&
               record->parameters != td__trainer_fingerprint(trainer)) {
        differs = "parameters";
    }
    player->compared++;
    if (differs) {
        player->differs_at = step;
        player->signal = differs;
    } else {
        player->identical_to = step;
    }
}

static void see_step(void *user, td_trainer *trainer, bool updated) {
    td__player *player = user;
    compare_step(player, trainer, updated);
    if (player->stepped) {
        player->stepped(player->user, trainer, updated);
        if (player->ended) {
            trainer->limit = trainer->at.step + 1;
        }
    }
}

void td__player_reason(const td__player *player, char out[TD_REPLAY_TEXT]) {
    const char *kernels = td__cpu_name(player->cpu);
    *out = 0;
    if (*player->kernels && strcmp(player->kernels, kernels) != 0) {
        (void)snprintf(
            out, TD_REPLAY_TEXT,
            "the run was made with the kernels %s, which this machine does not have; these "
            "are of %s",
            player->kernels, kernels);
    } else if (*player->version && strcmp(player->version, td_version()) != 0) {
        (void)snprintf(out, TD_REPLAY_TEXT, "the run was made by Tapedeck %s, this is %s",
                       player->version, td_version());
    } else if (player->threads > 0 && player->threads != td_threads()) {
        (void)snprintf(out, TD_REPLAY_TEXT, "the run was made with %d threads, this has %d",
                       player->threads, td_threads());
    } else if (player->signal && !strcmp(player->signal, "batch")) {
        (void)snprintf(out, TD_REPLAY_TEXT,
                       "the examples are not those that the run was trained on");
    }
}
