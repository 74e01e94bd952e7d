/* What the commands that read runs share. */
#ifndef TAPEDECK_CLI_READING_H
#define TAPEDECK_CLI_READING_H

#include "command.h"
#include "tapedeck/run.h"

/* Opens a run and reads all of its event files; NULL when that has failed, after printing the reason. */
td_run *open_run(const char *path);
/* The folder of one rank in each of the runs (--rank N), in the place of the runs' own; false when that has failed, after
 * printing the reason. Without a rank nothing changes. */
bool choose_rank(const command *cmd, const char *rank, int count, const char **paths);
/* Prints what could not be read to stderr, from problem number *reported on. */
void report_problems(const td_run *run, size_t *reported);

/* "A..B", "A..", "..B" or "A"; false when it is none. */
bool parse_steps(const char *text, int64_t *first, int64_t *last);

/* "2026-11-16 06:44" in local time, "-" for 0; out has 32 bytes. Returns out. */
const char *format_when(char *out, double seconds);
/* A number for people; out has 32 bytes. Returns out. */
const char *format_number(char *out, double value);

#endif
