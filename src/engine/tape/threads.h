/* The compute threads of the process: they wait briefly for work by spinning, then sleep. */
#ifndef TAPEDECK_TAPE_THREADS_H
#define TAPEDECK_TAPE_THREADS_H

#include <stdint.h>

#define TD__MAX_THREADS 256

/* body does share number share of shares; each is run exactly once, by some thread. */
typedef void td__threads_body(void *context, int share);

/* Runs shares 0 … shares - 1, the calling thread among those that do, with its rounding and
 * denormals, and returns when all are done. Where cores are busy with other programs' work fewer
 * threads take part; a second thread that calls meanwhile, or a body that does, runs its shares
 * alone. */
void td__threads_run(int shares, td__threads_body *body, void *context);

/* Regions have no more threads than this, whatever their shares; 0: as many as they have shares. */
void td__threads_limit(int threads);
/* The cores that this process may use. */
int td__threads_cores(void);

#endif
