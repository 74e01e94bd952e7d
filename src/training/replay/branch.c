/* A branch: a new run that shares the past of another one up to a step. */
#include "replay/player.h"

#include "base/memory.h"
#include "base/options.h"
#include "tape/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static td_status check_step(const td__player *player, int64_t step, td_error *error) {
    return step >= 1 && step <= player->last_step
               ? TD_OK
               : td_error_set(error, TD_INVALID, "%s has steps 1 to %lld, and not %lld",
                              player->folder, (long long)player->last_step, (long long)step);
}

static td_status check_reached(const td__player *player, int64_t step, td_error *error) {
    if (player->differs_at) {
        char reason[TD_REPLAY_TEXT];
        td__player_reason(player, reason);
        return td_error_set(error, TD_FORMAT,
                            "%s: step %lld differs from what was recorded (%s)%s%s, so there is "
                            "nothing to branch off from",
                            player->folder, (long long)player->differs_at, player->signal,
                            *reason ? "; " : "", reason);
    }
    return td__player_step(player) == step
               ? TD_OK
               : td_error_set(error, TD_INVALID, "%s: training ended with step %lld",
                              player->folder, (long long)td__player_step(player));
}

/* The folder that the run is in. */
static void find_above(const char *folder, char above[TD_REPLAY_PATH]) {
    const char *slash = strrchr(folder, '/');
    (void)snprintf(above, TD_REPLAY_PATH, "%.*s", slash ? (int)(slash - folder) : 1,
                   slash == folder ? "/"
                   : slash         ? folder
                                   : ".");
}

/* What is stored as the parent: its name where the branch is beside it, so that both may be moved together;
 * otherwise its path. */
static char *describe_parent(const char *folder, const char *out) {
    char above[TD_REPLAY_PATH], *text = NULL;
    find_above(folder, above);
    char *parent = realpath(folder, NULL), *here = realpath(above, NULL),
         *there = realpath(out, NULL);
    bool beside = here && there && !strcmp(here, there);
    const char *slash = parent ? strrchr(parent, '/') : NULL;
    if (parent) {
        text = td__strdup(beside && slash && slash[1] ? slash + 1 : parent);
    }
    free(parent); // NOLINT: realpath's own
    free(here);   // NOLINT: likewise
    free(there);  // NOLINT: likewise
    return text;
}

/* The new run has the past's state, and its flight record. */
static td_status take_over(td_trainer *trainer, td__player *player, const td__state *state,
                           int64_t step, td_error *error) {
    td_status status = td__state_restore(trainer, state, player->trainer, error);
    if (status) {
        return status;
    }
    if (step >= trainer->feed.steps) {
        return td_error_set(error, TD_STATE,
                            "the branch would end with step %lld, and it begins after step %lld: "
                            "for more, --set train.epochs=N or train.steps=N",
                            (long long)trainer->feed.steps, (long long)step);
    }
    td__stopping_decide(&trainer->stopping);
    trainer->parent = describe_parent(player->folder, trainer->out);
    trainer->parent_step = step;
    trainer->past = player->flight;
    player->flight = (td__flight_log){0};
    return trainer->parent ? TD_OK : td_error_set(error, TD_MEMORY, "out of memory");
}

static td_trainer *make_branch(td__player *player, int64_t step, td_experiment *experiment,
                               const td_trainer_options *options, td_error *error) {
    td__state state = {0};
    td_trainer *trainer = NULL;
    td_status status = td__state_save(player->trainer, &state, error);
    td__kernels_use(td__cpu_chosen());
    if (!status) {
        trainer = td_trainer_create(experiment, options, error);
    }
    if (trainer && take_over(trainer, player, &state, step, error)) {
        td_trainer_destroy(trainer);
        trainer = NULL;
    }
    td__state_release(&state);
    return trainer;
}

td_trainer *td_replay_branch(const char *run, int64_t step, td_experiment *experiment,
                             const td_trainer_options *options, td_error *error) {
    td_trainer_options how;
    char above[TD_REPLAY_PATH];
    (void)td__options(&how, sizeof how, options);
    td__player *player = td__calloc(1, sizeof *player);
    if (!player) {
        td_error_set(error, TD_MEMORY, "out of memory");
        return NULL;
    }
    td_trainer *trainer = NULL;
    td_error reason = {0};
    td_status status = how.resume ? td_error_set(&reason, TD_INVALID, "a branch is a new run")
                                  : td__player_open(player, run, &reason);
    status = status ? status : check_step(player, step, &reason);
    status = status ? status : td__player_start(player, step, &reason);
    status = status ? status : td__player_advance(player, step, &reason);
    status = status ? status : check_reached(player, step, &reason);
    if (!status) {
        find_above(player->folder, above);
        how.out = how.out ? how.out : above;
        trainer = make_branch(player, step, experiment, &how, &reason);
    }
    td__player_close(player);
    td__free(player);
    if (!trainer) {
        td_error_set(error, reason.status ? reason.status : TD_MEMORY, "%s",
                     *reason.text ? reason.text : "out of memory");
    }
    return trainer;
}
