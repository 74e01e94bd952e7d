/* Names and texts as they go into files: whatever bytes a program called its signals. */
#ifndef TAPEDECK_SINK_TEXT_H
#define TAPEDECK_SINK_TEXT_H

#include "base/file.h"
#include "base/text.h"

/* One CSV cell (RFC 4180): cleaned, quoted where needed, and with a leading ' where a spreadsheet
 * would take it for a formula. Writes at most TD__CSV_CELL(length) bytes and returns how many. */
#define TD__CSV_CELL(length) (6 * (length) + 3)
size_t td__csv_cell(char *out, const char *text, size_t length);

/* The signal's file name without its ending: td__file_name, but never one that a sink uses for
 * something else: the first letter of `metrics`, `stats`, `predictions`, `hashes`, `texts` and the
 * last dot of NAME.steps and NAME.samples are percent-encoded. Sinks add '@' and a word for more
 * files of one signal; no name contains '@'. */
#define TD__SIGNAL_FILE_SIZE (TD__FILE_NAME_SIZE + 2)
char *td__signal_file(char out[TD__SIGNAL_FILE_SIZE], const char *signal);

#endif
