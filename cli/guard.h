/* What the program prints, to a terminal or elsewhere, is text: whatever a file, a layer, a run or a
 * class is called, it moves no cursor and changes no colour (td_visible). Only what goes through
 * guard_escape reaches the terminal as it is. Where there is no UTF-8, what is drawn is ASCII. */
#ifndef TAPEDECK_CLI_GUARD_H
#define TAPEDECK_CLI_GUARD_H

#include "tapedeck/base.h"

#include <stdio.h>

/* From now on stdout and stderr show what is hidden; false when memory is exhausted. */
bool guard_streams(void);
/* A control sequence of the program's own, to stdout or stderr. */
void guard_escape(FILE *stream, const char *format, ...) TD_PRINTF(2, 3);
/* Whether everything printed to stdout so far could be written. */
bool guard_flush(void);

#endif
