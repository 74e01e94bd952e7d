/* What could not be read of a run, one sentence each; reading goes on. */
#ifndef TAPEDECK_STORE_PROBLEMS_H
#define TAPEDECK_STORE_PROBLEMS_H

#include "tapedeck/base.h"

enum { TD__MAX_PROBLEMS = 64 };

/* All zero at first. */
typedef struct td__problems {
    char *texts[TD__MAX_PROBLEMS];
    size_t count;
    size_t more; /* that found no room */
} td__problems;

/* A sentence that is there already is not added again. */
void td__run_problem(td__problems *problems, const char *format, ...) TD_PRINTF(2, 3);
void td__problems_release(td__problems *problems);

#endif
