/* Loss and metrics: of one batch, over an epoch, over the validation part. */
#ifndef TAPEDECK_TRAIN_MEASURE_H
#define TAPEDECK_TRAIN_MEASURE_H

#include "pass/pass.h"

/* Over all batches since the last reset. Each metric accumulates in its own way: an accuracy is a
 * mean over examples, r2 is not a mean of anything. */
typedef struct td__measure {
    double loss; /* the sum of loss * examples */
    double examples;
    td_metric **metrics;
} td__measure;

typedef struct td__measures {
    size_t count; /* of metrics */
    td__measure step, epoch, validation;
} td__measures;

/* from_logits: an output is class 1 above 0. Whatever is returned, release it. */
TD_NODISCARD td_status td__measures_init(td__measures *measures, const td_names *metrics,
                                         bool from_logits, td_error *error);
void td__measures_release(td__measures *measures);

void td__measure_reset(const td__measures *measures, td__measure *measure);
/* Adds the pass's batch. */
TD_NODISCARD td_status td__measure_add(const td__measures *measures, td__measure *measure,
                                       const td__pass *pass, td_error *error);
/* 0: the loss; then the metrics. NaN when nothing was added. */
double td__measure_value(const td__measure *measure, size_t index);

/* What a measure has summed up, for a checkpoint: how many numbers, and the numbers to and fro. */
size_t td__measure_size(const td__measures *measures, const td__measure *measure);
void td__measure_save(const td__measures *measures, const td__measure *measure, double *state);
TD_NODISCARD td_status td__measure_restore(const td__measures *measures, td__measure *measure,
                                           const double *state, size_t size, td_error *error);

#endif
