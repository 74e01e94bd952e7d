/* What the commands that read runs share. */
#ifndef TAPEDECK_CLI_READING_H
#define TAPEDECK_CLI_READING_H

#include "command.h"
#include "tapedeck/run.h"

/* Opens a run, of event files with all that is in them; NULL when that has failed, and said. */
td_run *open_run(const char *path);
/* What could not be read, to stderr, from problem number *said on. */
void say_problems(const td_run *run, size_t *said);

/* "A..B", "A..", "..B" or "A"; false when it is none. */
bool parse_steps(const char *text, int64_t *first, int64_t *last);

/* "2026-11-16 06:44" in local time, "-" for 0; out has 32 bytes. Returns out. */
const char *format_when(char *out, double seconds);
/* A number for people; out has 32 bytes. Returns out. */
const char *format_number(char *out, double value);

#endif
