/* Which runs of a database have changed: its server notifies it (LISTEN), so that nobody has to ask for each run. Of one
 * thread. */
#ifndef TAPEDECK_RUN_WATCH_H
#define TAPEDECK_RUN_WATCH_H

#include "tapedeck/run.h"

typedef struct td__watch td__watch;

/* Connects later. NULL when memory is exhausted. */
td__watch *td__watch_open(const char *url);
void td__watch_close(td__watch *watch); /* accepts NULL */
/* Takes what was notified since the last call, without waiting for more. False while the server notifies nothing, because it
 * cannot be reached or is a standby: anything may have changed. *any (where true is returned): something was notified. */
bool td__watch_take(td__watch *watch, bool *any);
/* Whether an open run of the database was notified since *seen (0 at first), which is brought up to date. */
bool td__watch_run(const td__watch *watch, const td_run *run, uint64_t *seen);

#endif
