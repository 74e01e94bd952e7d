/* A run that is executed again: a trainer made from its experiment, put to one of its steps, and compared with
 * what the flight recorder kept while it goes on. */
#ifndef TAPEDECK_REPLAY_PLAYER_H
#define TAPEDECK_REPLAY_PLAYER_H

#include "base/cpu.h"
#include "tape/tape.h"
#include "tapedeck/replay.h"
#include "train/flight.h"
#include "train/trainer.h"

enum { TD__FACT = 64 };

typedef struct td__player {
    char folder[TD_REPLAY_PATH];
    td_experiment *experiment;
    td_trainer *trainer;
    td__flight_log flight;
    const td__track_spec *tracks; /* for each trainer that is made; borrowed */
    size_t track_count;
    /* Who looks at the operations of its steps, and at each step after it was compared and while its pass is
     * open; borrowed, NULL: nobody. */
    const td__tape_watch *watch;
    void (*stepped)(void *user, td_trainer *trainer, bool updated);
    void *user;
    bool ended; /* set by stepped: no other step follows */

    /* What the run says of itself. */
    td_run_state state;
    int64_t last_step;
    double step_seconds; /* NaN: not known */
    char kernels[TD__FACT], version[TD__FACT];
    int threads; /* 0: not known */
    char parent[TD_REPLAY_PATH];
    int64_t parent_step;
    bool is_ours; /* it has an experiment */
    td__cpu cpu;  /* that its steps are executed with */

    int64_t began;   /* the checkpoint's step */
    int64_t segment; /* the experiment in use holds for steps after this one */

    /* Comparing. */
    int64_t compared, identical_to, differs_at;
    const char *signal; /* what differs first */
} td__player;

/* Reads what the run says of itself. Whatever is returned, close it. */
TD_NODISCARD td_status td__player_open(td__player *player, const char *run, td_error *error);
void td__player_close(td__player *player);
/* TD_INVALID for a run that has no experiment, and so no steps that can be executed again. */
TD_NODISCARD td_status td__player_check(const td__player *player, td_error *error);
/* Makes the trainer (anew, where there is one) and puts it after the last checkpoint at or before `step`. The data must be what it was. */
TD_NODISCARD td_status td__player_start(td__player *player, int64_t step, td_error *error);
/* Executes steps up to and with `last`, comparing each with its record. Training may end before. */
TD_NODISCARD td_status td__player_advance(td__player *player, int64_t last, td_error *error);
/* Sets kernels and threads as the run had them: before anything is executed, where there are two players. */
void td__player_use(const td__player *player);
int64_t td__player_step(const td__player *player);
/* Why steps differ, as far as the run's notes say; "" where they say nothing. */
void td__player_reason(const td__player *player, char out[TD_REPLAY_TEXT]);

#endif
