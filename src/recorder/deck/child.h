/* Programs that the writer thread starts and never waits for. */
#ifndef TAPEDECK_DECK_CHILD_H
#define TAPEDECK_DECK_CHILD_H

#include <sys/types.h>

/* Starts words[0], found in PATH; words end with NULL. in and out become its standard input and output, -1:
 * /dev/null; its standard error is the process's own when loud. 0, or errno. */
int td__child_start(char *const words[], int in, int out, _Bool loud, pid_t *process);

#endif
