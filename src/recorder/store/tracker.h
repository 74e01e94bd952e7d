/* Databases of other trackers, which are read and never written. */
#ifndef TAPEDECK_STORE_TRACKER_H
#define TAPEDECK_STORE_TRACKER_H

#include "tapedeck/base.h"

typedef enum td__tracker_query {
    TD__TRACKIO_RUNS,    /* the run's name: its own, or its id where several runs have that name */
    TD__TRACKIO_METRICS, /* step, time, metrics as JSON; of a run, in the order they were logged */
    TD__TRACKIO_LOAD,    /* step of the last metrics before, time, metrics as JSON */
    TD__TRACKIO_CONFIG,  /* settings as JSON */
    TD__TRACKER_QUERIES
} td__tracker_query;

enum { TD__TRACKER_COLUMNS = 3 };
typedef td_status td__tracker_function(void *user, const char *const texts[TD__TRACKER_COLUMNS],
                                       td_error *error);

/* Hands on the rows; texts are "" where there is nothing. run: whose; NULL for TD__TRACKIO_RUNS. A database without
 * such tables has no rows. TD_FORMAT when the file is no database. */
TD_NODISCARD td_status td__tracker_read(const char *path, td__tracker_query query, const char *run,
                                        td__tracker_function *each, void *user, td_error *error);
/* Whether the file is an SQLite database with a table `metrics` as trackio has it. */
bool td__tracker_is_trackio(const char *path);

#endif
