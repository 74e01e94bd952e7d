/* The flight recorder: a few numbers of each step of a training, kept whatever the tracks ask for, so that a
 * step that is executed again can be compared with what it was.
 *
 * RUN/flight.bin: a header of HEADER bytes ("TDFLIGHT", version, size of a record), then records in the
 * order of their steps, little-endian. Fingerprints (XXH64) cost more than the rest: they are taken every
 * `every` steps, a power of two that keeps the flight recorder below 0.5 % of the time of a step. When the
 * file has TD__FLIGHT_RECORDS records, those of every other step go, and from then on only every second
 * step is recorded; the fingerprinted ones stay as long as they are multiples of the stride.
 *
 * A reader takes records as long as their steps ascend: what a crash cut short ends the file. */
#ifndef TAPEDECK_TRAIN_FLIGHT_H
#define TAPEDECK_TRAIN_FLIGHT_H

#include "tapedeck/base.h"

enum { TD__FLIGHT_RECORDS = 1 << 20, TD__FLIGHT_BUFFER = 256 };

typedef struct td__flight_record {
    int64_t step;
    double loss;         /* with penalties; as the step computed it, before its update */
    double rate;         /* of the update */
    double norm;         /* of all gradients together, before clipping; NaN: not taken */
    uint64_t parameters; /* fingerprint after the update; 0: not taken */
    uint64_t batch;      /* fingerprint of inputs and labels; 0: not taken */
} td__flight_record;

typedef struct td__flight {
    int file; /* valid while opened */
    bool opened;
    int64_t count;        /* records in the file */
    int64_t stride;       /* steps from record to record */
    int64_t every;        /* steps from fingerprint to fingerprint */
    int64_t next;         /* step of the next fingerprint */
    size_t held;          /* records in buffer */
    double last, written; /* when the last fingerprint was taken, and the buffer written last */
    int64_t last_step;
    double spent, cost,
        elapsed; /* seconds for fingerprints, all and the last; and of the training */
    td__flight_record buffer[TD__FLIGHT_BUFFER];
} td__flight;

/* What a run recorded; records from td__calloc. */
typedef struct td__flight_log {
    td__flight_record *records;
    size_t count;
} td__flight_log;

/* A run that has no flight.bin has an empty log. TD_FORMAT, TD_IO, TD_MEMORY. */
TD_NODISCARD td_status td__flight_read(const char *run, td__flight_log *log, td_error *error);
void td__flight_log_release(td__flight_log *log);
/* NULL when the step has no record. */
const td__flight_record *td__flight_find(const td__flight_log *log, int64_t step);

#endif
