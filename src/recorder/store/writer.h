/* Records, events and notes on their way into a store, as rows of its tables. */
#ifndef TAPEDECK_STORE_WRITER_H
#define TAPEDECK_STORE_WRITER_H

#include "store/batch.h"
#include "store/bins.h"
#include "store/tags.h"
#include "store/tensors.h"

/* A metric's last, smallest and largest value so far, so that a reader need not read all of them. */
typedef struct td__summary {
    int64_t last_step, least_step, greatest_step;
    double last, least, greatest; /* least, greatest: NaN when there is no number yet */
    bool any, unwritten;
} td__summary;

/* What is known of a signal, by td_record.signal_index. */
typedef struct td__written {
    int64_t id; /* its row in `signal`; 0: not yet there */
    td__summary summary;
} td__written;

typedef struct td__writer {
    td__batch batch;
    td__tensors tensors;
    td__written *signals;
    size_t signal_count;
    td__tags known; /* signals of the run that goes on, by name; user is the row */
    int64_t next_id;
    int64_t last_step; /* that `step` has a row of */
    bool any_step;
    char *text; /* a histogram's bins, an example's values */
    size_t text_capacity;
} td__writer;

/* Writes into store, which it takes over in any case. resume: not 0 for a run that goes on after
 * that step; what is of later steps is removed. */
TD_NODISCARD td_status td__writer_init(td__writer *writer, td__store *store, int64_t resume,
                                       td_error *error);
/* The same for adding to a run that is complete: nothing is removed. */
TD_NODISCARD td_status td__writer_append(td__writer *writer, td__store *store, td_error *error);
/* Closes the store; what was not committed is lost. */
void td__writer_release(td__writer *writer);

TD_NODISCARD td_status td__writer_record(td__writer *writer, const td_record *record,
                                         td_error *error);
/* Marks a record that was just written: its step was executed again. */
TD_NODISCARD td_status td__writer_replayed(td__writer *writer, const td_record *record,
                                           td_error *error);
TD_NODISCARD td_status td__writer_event(td__writer *writer, const td_event *event, td_error *error);
/* environment.KEY and experiment.KEY have tables of their own. */
TD_NODISCARD td_status td__writer_note(td__writer *writer, const char *key, const char *value,
                                       td_error *error);
TD_NODISCARD td_status td__writer_finding(td__writer *writer, const td_run_finding *finding,
                                          td_error *error);

#endif
