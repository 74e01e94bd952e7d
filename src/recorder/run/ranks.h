/* Runs that several processes wrote: FOLDER/rank-00000, …, and FOLDER/attempt-2/rank-00000, … */
#ifndef TAPEDECK_RUN_RANKS_H
#define TAPEDECK_RUN_RANKS_H

#include "run/run.h"

/* Whether the folder has those of ranks, at least one with a run.db. */
bool td__ranks_are_in(const char *folder);
/* Of FOLDER/rank-00003: when later attempts have that rank, the run is FOLDER and only this rank of it. TD_NOT_FOUND
 * when FOLDER has ranks, and not this one. */
td_status td__ranks_select(td_run *run, td_error *error);
/* The same of URL#NAME and URL#NAME/rank-00003, and whether several processes wrote it. */
td_status td__ranks_select_remote(td_run *run, td_error *error);
/* A store that merges those of all ranks. What cannot be read of a rank is a problem of the run. */
td_status td__ranks_open(td_run *run, td__store **store, td_error *error);
/* Running when a rank is; otherwise the worst end of the last attempt's. A rank that crashed is a problem
 * of the run that names it. */
td_run_state td__ranks_state(td_run *run);

#endif
