/* How far a command has come with its examples, and Ctrl-C that ends it properly. */
#ifndef TAPEDECK_CLI_PROGRESS_H
#define TAPEDECK_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct progress {
    double began, shown; /* when */
    bool live;
} progress;

/* From now on Ctrl-C makes show_progress false, and a second one ends the program. */
progress progress_begin(bool quiet);
/* Of a progress; false when the command is to stop. */
bool show_progress(void *user, int64_t done, int64_t examples);

#endif
