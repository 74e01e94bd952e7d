/* The program's commands. Each has a file of its own, which defines its entry of the table in
 * main.c. */
#ifndef TAPEDECK_CLI_COMMAND_H
#define TAPEDECK_CLI_COMMAND_H

#include "tapedeck/base.h"

#include <stdbool.h>
#include <stdio.h>

/* What the program exits with. */
enum { EXIT_GOOD = 0, EXIT_BAD = 1, EXIT_USAGE = 2, EXIT_INCOMPLETE = 3, EXIT_STOPPED = 130 };

/* What it prints is no result that --to could write; it cannot be quiet, as what it prints is all it does. */
enum { LACKS_TO = 1, LACKS_QUIET = 2 };

typedef struct command {
    const char *name;
    const char *summary;                     /* one line */
    const char *help;                        /* all of it */
    int (*run)(int count, char **arguments); /* without the program's and the command's name */
    unsigned lacks; /* LACKS_…: which of every command's options it has not */
} command;

extern const command command_train, command_predict, command_weights, command_gradients,
    command_inspect, command_runs, command_show, command_export, command_push, command_compare,
    command_view, command_report, command_diagnose, command_replay, command_check, command_list,
    command_sql, command_assert, command_mcp, command_demo, command_evaluate, command_init,
    command_origin, command_diff, command_tag, command_note, command_rename, command_rm,
    command_pull, command_sweep, command_tracks;

/* "tapedeck: " and the text, to stderr; returns status. */
int fail(int status, const char *format, ...) TD_PRINTF(2, 3);
/* Whether fail or misuse has reported an error. */
bool has_failed(void);
/* The same line about something that is left out of what is printed: the rest is printed, and kept. */
void complain(const char *format, ...) TD_PRINTF(1, 2);
/* What should be known though nothing failed, to stderr. */
void note(const char *text);
/* What is wrong with the arguments, and where help is. Returns EXIT_USAGE. */
int misuse(const command *cmd, const char *format, ...) TD_PRINTF(2, 3);
/* The status that an error of the library means. */
int status_of(td_status status);

#endif
