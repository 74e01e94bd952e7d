/* What has come into a store since somebody last looked: for each table and signal the earliest step. */
#ifndef TAPEDECK_STORE_CHANGES_H
#define TAPEDECK_STORE_CHANGES_H

#include "store/store.h"

#include <pthread.h>

/* TD__NO_STEP: nothing of the signal has changed. */
#define TD__NO_STEP INT64_MAX
typedef struct td__changes {
    pthread_mutex_t lock; /* of all that follows */
    bool all;             /* anything may have changed */
    bool tables[TD__TABLES];
    int64_t *steps[TD__TABLES]; /* by signal; of steps at index 0 */
    size_t counts[TD__TABLES], capacities[TD__TABLES];
    uint64_t rows; /* that have come in */
} td__changes;

void td__changes_init(td__changes *changes);
void td__changes_release(td__changes *changes);
/* The rows of a batch (batch.h) that has been committed. */
void td__changes_note(td__changes *changes, const uint8_t *rows, size_t size);
/* Moves everything to `taken`, which is empty. */
void td__changes_take(td__changes *changes, td__changes *taken);
/* Puts back what was taken and could not be used. */
void td__changes_return(td__changes *changes, td__changes *taken);
bool td__changes_any(td__changes *changes);

#endif
