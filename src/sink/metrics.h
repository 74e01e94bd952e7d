/* metrics.csv: epoch, step and a column for each metric, in the order they were asked for, also after
 * the run was interrupted before all of them had a value.
 *
 * A step's values are gathered and written as one row. A column appears when its metric first has a
 * value: the file is then replaced, in one instant, by one with a longer header and empty cells in
 * the rows so far. */
#ifndef TAPEDECK_SINK_METRICS_H
#define TAPEDECK_SINK_METRICS_H

#include "sink/append.h"

typedef struct td__metric {
    char *cell; /* the name as the header has it */
    double value;
    bool present; /* in the row being gathered */
    bool in_file; /* the file has the column */
} td__metric;

typedef struct td__metrics {
    td__append_set *set; /* set it; all else is zero at first */
    td__append *file;    /* NULL until the first row */
    td__metric *columns; /* in their order */
    size_t count, capacity;
    size_t expected;    /* columns up to here were asked for: the next one that is, comes here */
    size_t header_size; /* bytes of the file's header */
    int32_t *by_signal; /* signal index -> column + 1 */
    size_t signal_count;
    int64_t epoch, step; /* of the row being gathered */
    bool gathering;
    bool widening; /* and it has a metric that the file has no column for */
} td__metrics;

/* Takes up the file of an earlier session, if there is one. */
TD_NODISCARD td_status td__metrics_resume(td__metrics *metrics, td_error *error);
/* A place among the columns for name, unless it has one. */
TD_NODISCARD td_status td__metrics_expect(td__metrics *metrics, const char *name, td_error *error);
/* A value; writes the row so far first when it is of another step or has this metric already. */
TD_NODISCARD td_status td__metrics_put(td__metrics *metrics, const char *name, int32_t signal,
                                       int64_t epoch, int64_t step, double value, td_error *error);
/* Writes the row that is being gathered, if any. */
td_status td__metrics_end_row(td__metrics *metrics, td_error *error);
void td__metrics_release(td__metrics *metrics);

#endif
