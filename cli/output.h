/* Where a command's output goes: to standard output, or to a file that is complete or not there. */
#ifndef TAPEDECK_CLI_OUTPUT_H
#define TAPEDECK_CLI_OUTPUT_H

#include "command.h"

#include <stdbool.h>
#include <stddef.h>

enum { OUTPUT_PATH = 4300 };

/* From now on what is printed to stdout goes to the file at path, which output_finish puts into place. A file that is
 * there already is only replaced with force. False when that is refused or not possible, after printing why. */
bool output_redirect(const char *path, bool force);
/* From now on notes, and with all also what is printed to stdout, go nowhere. */
void output_silence(bool all);
bool output_is_silent(void);
/* Called once, in the end, with the status of the command: puts the file into place, or removes it when an error was
 * reported. Returns the status to exit with. */
int output_finish(int status);

/* "-", or "-.npz" with the ending of a format. */
bool output_is_stdout(const char *to);
/* The file for a library call that writes to `to`: `to` itself or, for standard output, a file with that ending ("-"
 * alone: default_ending) in a temporary folder, until output_pass. NULL when there can be none, after printing why. */
const char *output_place(const char *to, const char *default_ending);
/* A folder for a call that writes files into a new folder, one of which, the only one, is to be `to` or goes to standard
 * output. */
const char *output_place_files(const char *to);
/* For a library that takes "-" itself: replaces "-.npy" by the place of such a file, which is *place then. *piped: one of
 * the names is standard output, which no two may be. */
int output_place_formats(const command *cmd, const char **to, size_t count, const char **place,
                         bool *piped);
/* Moves the file of output_place where it belongs when status is EXIT_GOOD, and removes what is temporary; nothing to do
 * for another path. Returns the status to exit with. */
int output_pass(const char *place, int status);

/* Writes a file that is complete or not there; "-" is standard output. EXIT_GOOD, or the mistake has been printed. */
int output_write(const char *path, const void *bytes, size_t size);

/* Where to write what is to replace path: beside it, until output_replace. path itself when nothing is there. NULL when
 * it is not to be replaced, after printing why. */
const char *output_place_beside(const char *path);
/* When status is EXIT_GOOD and the new one has all files of the old one, puts it at path and removes the old one; else
 * removes the new one. Returns the status to exit with. */
int output_replace(const char *path, int status);

#endif
