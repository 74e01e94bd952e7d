/* Whether a run is being written, where locks cannot show it: the file `heartbeat` in its folder.
 *
 * On a network file system a lock may not exist, or not reach other machines. There a deck writes a small
 * text file every few seconds: which process writes the run, its clock's time, and at the end how the run ended. On
 * the machine of that process a reader looks whether the process is there; on another one a run counts as written
 * while the time is less than a minute away from the reader's clock. */
#ifndef TAPEDECK_DECK_HEARTBEAT_H
#define TAPEDECK_DECK_HEARTBEAT_H

#include "tapedeck/base.h"

typedef struct td__beat {
    int64_t count; /* how many there were before */
    double time;   /* seconds since 1970, by the writer's clock */
    char host[64]; /* the machine's name */
    char process
        [128]; /* machine, process number and when the process began; the same for no two processes */
    char state[16]; /* `running`, or how the run ended */
} td__beat;

/* Reads it; false when there is none, or when it is not one. */
bool td__beat_read(int folder, td__beat *beat);
/* Whether the process that wrote it is taken to be there still. */
bool td__beat_is_live(const td__beat *beat);

typedef struct td__heartbeat td__heartbeat;

/* Writes the first one, and from now on one every few seconds in a thread of its own. TD_BUSY when another process
 * writes the run. folder is borrowed until the stop. */
TD_NODISCARD td_status td__heartbeat_start(int folder, td__heartbeat **started, td_error *error);
/* Writes the last one, with how the run ended. Accepts NULL. */
void td__heartbeat_stop(td__heartbeat *heartbeat, const char *state);
/* Of a run that goes on where locks do: removes what an earlier session left. */
void td__heartbeat_remove(int folder);

#endif
