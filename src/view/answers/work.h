/* Steps that a page asks to execute again: sub-commands of the program, each a process of its own, because
 * executing steps sets the kernels and threads of its whole process and may take minutes.
 *
 * Threads: any. */
#ifndef TAPEDECK_VIEW_WORK_H
#define TAPEDECK_VIEW_WORK_H

#include "answers/output.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

enum { TD__MAX_JOBS = 16, TD__MAX_RUNNING = 2 };

typedef struct td__job {
    int64_t id; /* 0: none */
    pid_t process;
    bool running;
    bool writes; /* into the run that it is about */
    int status;  /* its exit status, once it has ended; -1: a signal ended it */
    FILE *output, *errors;
} td__job;

typedef struct td__work {
    const char *program; /* borrowed; NULL: nothing can be executed */
    pthread_mutex_t lock;
    td__job jobs[TD__MAX_JOBS]; /* lock */
    int64_t last;               /* lock: the id given last */
} td__work;

void td__work_init(td__work *work, const char *program);
/* Ends the processes that are still running. */
void td__work_release(td__work *work);

/* Starts `program arguments…`; arguments ends with NULL. TD_BUSY when as many run as may run at once. */
TD_NODISCARD td_status td__work_start(td__work *work, const char *const *arguments, bool writes,
                                      int64_t *id, td_error *error);
/* {"running":true}, or {"running":false,"status":0,"output":what it printed, JSON,"error":"…"}, and then
 * *written where it wrote into its run. */
TD_NODISCARD td_status td__work_put(td__work *work, int64_t id, td__output *out, bool *written,
                                    td_error *error);

#endif
