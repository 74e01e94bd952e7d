/* A run that goes on: its files lose what they have of steps after the one it goes on from.
 *
 * Called before anything is written. Torn ends that a killed program left behind go as well. */
#ifndef TAPEDECK_SINK_RESUME_H
#define TAPEDECK_SINK_RESUME_H

#include "sink/append.h"

/* Every CSV file whose columns begin with epoch and step. */
TD_NODISCARD td_status td__resume_csv(int folder, int64_t step, td_error *error);
/* Every NAME.npy that has a NAME.steps.npy; all files of one name are then equally long, or, when
 * one of them is not what a run writes, set aside, and said. */
TD_NODISCARD td_status td__resume_npy(const td__append_set *set, int64_t step, td_error *error);
/* How many records each NAME.npy that has a NAME.steps.npy holds; stops when each fails. */
typedef td_status td__records_function(void *context, const char *file, int64_t count,
                                       td_error *error);
TD_NODISCARD td_status td__resume_records(int folder, td__records_function *each, void *context,
                                          td_error *error);
/* images/SIGNAL/step-N.png and images/SIGNAL.tar */
TD_NODISCARD td_status td__resume_png(int folder, int64_t step, td_error *error);

/* Where the record (a line and its '\n') at text ends; end when it is not all there. A '\n' between
 * quotes belongs to the record. */
const char *td__csv_line_end(const char *text, const char *end);
/* Whether the columns of a CSV file begin with epoch and step; the step of one of its lines. */
bool td__csv_has_steps(const char *text, size_t size);
int64_t td__csv_step(const char *line, const char *end);

#endif
