/* The files that a training reads, and a fingerprint of each: noted when a run starts, compared before its
 * steps are executed again. */
#ifndef TAPEDECK_TRAIN_SOURCES_H
#define TAPEDECK_TRAIN_SOURCES_H

#include "experiment/experiment.h"

enum { TD__SOURCE_KEY = 80, TD__SOURCE_TEXT = 120 };

typedef struct td__source_file {
    char key[TD__SOURCE_KEY]; /* "data.train"; a note of the run */
    const char *path;         /* borrowed from the experiment */
} td__source_file;

/* Calls each with every file or folder of data that the experiment names; what it returns other than TD_OK
 * ends that and is returned. */
typedef td_status td__source_function(void *user, const td__source_file *source, td_error *error);
TD_NODISCARD td_status td__sources_visit(const td_experiment *experiment, td__source_function *each,
                                         void *user, td_error *error);

/* "5230 bytes, xxh64 1f…": of a file its size and contents (of one beyond 64 MiB, 64 pieces of 1 MiB, evenly
 * spaced); of a folder the names and sizes of its files. opened is the file if it is open already; -1: path is
 * opened. TD_NOT_FOUND, TD_IO. */
TD_NODISCARD td_status td__source_describe(const char *path, int opened, char out[TD__SOURCE_TEXT],
                                           td_error *error);

#endif
