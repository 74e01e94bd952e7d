/* Loss and metrics: of one batch, over an epoch, over the validation part. */
#ifndef TAPEDECK_TRAIN_MEASURE_H
#define TAPEDECK_TRAIN_MEASURE_H

#include "experiment/experiment.h"
#include "pass/pass.h"

/* Over all batches since the last reset. Each metric accumulates in its own way: an accuracy is a
 * mean over examples, r2 is not a mean of anything. */
typedef struct td__measure {
    double losses[1 + TD_MAX_OUTPUTS]; /* the sum of loss * examples: of all, then of each output */
    double examples;
    td_metric **metrics;
    double *values; /* as td__measure_read left them: the losses, then the metrics' */
} td__measure;

typedef struct td__measures {
    const td__metric_spec *specs;  /* borrowed */
    size_t count;                  /* of metrics */
    size_t *output_of;             /* each metric's output */
    int64_t units[TD_MAX_OUTPUTS]; /* of each output, in its last axis */
    size_t loss_count;             /* 1, and where there are several outputs one for each */
    size_t value_count;            /* the losses, and the values of all metrics but matrices */
    size_t most_values;            /* of one metric */
    double *room;                  /* for those */
    float *matrix;
    td__measure step, epoch, validation, shard; /* shard: of a part of a batch */
} td__measures;

/* Whatever is returned, release it. */
TD_NODISCARD td_status td__measures_init(td__measures *measures, const td__train_spec *train,
                                         const td_model *model, const td__head *heads,
                                         size_t head_count, td_error *error);
void td__measures_release(td__measures *measures);
/* A confusion matrix is a tensor; the other metrics are one number or more. */
bool td__measures_is_matrix(const td__measures *measures, size_t metric);
size_t td__measures_values_of(const td__measures *measures, size_t metric);

void td__measure_reset(const td__measures *measures, td__measure *measure);
/* Adds the pass's batch. */
TD_NODISCARD td_status td__measure_add(const td__measures *measures, td__measure *measure,
                                       const td__pass *pass, td_error *error);
/* Takes what several measures had saved, added up number by number; measure has been added to before. */
void td__measure_take_sum(const td__measures *measures, td__measure *measure, const double *state);
/* Adds what another measure has summed up. */
TD_NODISCARD td_status td__measure_merge(const td__measures *measures, td__measure *measure,
                                         const td__measure *other, td_error *error);
/* Reckons all values: [0] is the loss, then come those of several outputs, then the metrics'. NaN when nothing was added. */
const double *td__measure_read(const td__measures *measures, td__measure *measure);
/* The counts of a metric that is a matrix, (true class, predicted class); valid until the next. */
td_view td__measure_matrix(const td__measures *measures, const td__measure *measure, size_t metric);

/* What a measure has summed up, for a checkpoint: how many numbers, and the numbers to and fro. */
size_t td__measure_size(const td__measures *measures, const td__measure *measure);
void td__measure_save(const td__measures *measures, const td__measure *measure, double *state);
TD_NODISCARD td_status td__measure_restore(const td__measures *measures, td__measure *measure,
                                           const double *state, size_t size, td_error *error);

#endif
