/* Where tensors are, as run.db keeps it: a row of tensor_series for each stretch of records of one
 * signal that follow one another in one file at equal distances, however many there are. The view
 * `tensor` shows them one by one. */
#ifndef TAPEDECK_STORE_TENSORS_H
#define TAPEDECK_STORE_TENSORS_H

#include "store/batch.h"
#include "tapedeck/deck.h"

typedef struct td__stretch {
    int64_t signal; /* its row in `signal`; 0: nothing here yet */
    int64_t step, last, every, record, count;
    td_dtype dtype;
    td_shape shape;
    char file[sizeof((td_place *)0)->file];
    bool unwritten; /* has grown since it was last put into the batch */
} td__stretch;

typedef struct td__tensors {
    td__stretch *stretches; /* the last of each signal: tensors, then pictures */
    size_t count;
} td__tensors;

/* Takes up a tensor or picture of a signal with that row in `signal`. */
TD_NODISCARD td_status td__tensors_put(td__tensors *tensors, td__batch *batch, int64_t signal,
                                       const td_record *record, td_error *error);
/* Puts what has grown into the batch: its `gather`, with the tensors as owner. */
TD_NODISCARD td_status td__tensors_gather(void *tensors, td__batch *batch, td_error *error);
void td__tensors_release(td__tensors *tensors);

#endif
