/* A batch cut into `train.shards` parts, and the processes that share them out.
 *
 *     shards.c   one step: each part's gradient, and their sum
 *     lanes.c    parts that run in step, where layers compute over all of them
 *     gather.c   what is recorded of the parts, put together in rank 0
 *     group.c    what the processes of a group agree on
 *
 * The number of processes changes no bit: each part is computed by itself, with its own random numbers, and what the
 * parts have is added in a tree over the parts, ((0 + 1) + (2 + 3)) + …. A process has `own` neighbouring parts, a
 * subtree; td_group_add adds the subtrees. What is added: gradients, changes of moving averages, sums of losses and
 * metrics. A part without examples adds zeros; where parts run in step it goes along with a row of another one, so that it
 * gets to the same places.
 */
#ifndef TAPEDECK_TRAIN_SHARDS_H
#define TAPEDECK_TRAIN_SHARDS_H

#include "pass/pass.h"
#include "tapedeck/group.h"
#include "tapedeck/train.h"

enum { TD__SHARD_LEVELS = 11, TD__SHARD_TEXT = 700 };

/* Gradients of some neighbouring weights, which are exchanged together. */
typedef struct td__bucket {
    size_t begin, end; /* floats */
    size_t weights;    /* how many it has */
    size_t left;       /* of them, that are not complete in this step */
    td_group_request *request;
} td__bucket;

/* A tensor that a step records, of this process's parts or of the whole batch. */
typedef struct td__gathered {
    td_dtype dtype;
    td_shape shape;
    uint8_t *data;
    size_t size, room; /* bytes */
} td__gathered;

typedef struct td__shards {
    int64_t count;      /* 1: a batch is not cut, and nothing below is used */
    td_group *group;    /* borrowed; NULL: one process */
    int rank, size;     /* 0 and 1 without a group */
    int64_t first, own; /* the parts of this process */
    td_batch part;      /* under way: the pass's batch */

    /* One row of floats: the weights' gradients, the last weight first, then the moving averages. Levels are partial
     * sums: level k has 2^k parts; the last one is the process's, and then that of all. */
    float *levels[TD__SHARD_LEVELS];
    int level_count;
    size_t total;
    size_t *starts;      /* of weights */
    size_t *bucket_of;   /* by weight */
    td__bucket *buckets; /* in the order in which they are exchanged */
    size_t bucket_count, started;
    td_tensor **sums; /* heads over the last level, by weight */
    size_t sum_count;
    size_t *averages;                  /* parameters that are moving averages … */
    size_t average_count, averages_at; /* … and where they begin */
    size_t average_floats;             /* how many they have, with gaps */
    float *before;                     /* their values when the step began */
    int64_t at;                        /* the part under way, from 0 among those of this process */
    float share;                       /* of the batch's examples that it has */
    bool idle;                         /* it has none, and what it makes counts nothing */
    struct td__lanes *lanes;           /* NULL: one part after the other */
    td_error not_finite; /* a part's loss, while parts run in step; status TD_OK: none */
    td_status exchange;  /* of what was started meanwhile */

    /* Sums of losses and metrics, as td__measure_save writes them, behind AGREED numbers. */
    double *numbers[TD__SHARD_LEVELS], *part_numbers;
    size_t number_count,
        measure_count; /* behind those of measures: the losses of layers' targets */
    bool stop;         /* some process is to stop */
    bool torn;         /* parameters are of the next step, numbers not yet */

    td_tensor *loss; /* of the whole batch */
    float loss_value;

    td__signal_tap tap;
    uint8_t *wanted;        /* by entry: recorded in this step */
    td__gathered *gathered; /* by entry */
    size_t entry_count;
    bool out_of_memory; /* while something was gathered */
    uint8_t *packed;    /* what goes to rank 0 */
    size_t packed_size, packed_room;
} td__shards;

/* Before anything is known of the model: how many parts there are, by experiment, batch and group. */
TD_NODISCARD td_status td__shards_choose(td_trainer *trainer, td_error *error);
/* Once model, signals and measures are there. */
TD_NODISCARD td_status td__shards_init(td_trainer *trainer, td_error *error);
void td__shards_release(td__shards *shards);

/* Forward and backward, over all parts, by all processes: afterwards the measures have the step, learner.gradients are
 * the sums, and the pass is open with the whole batch and its loss. TD_RANGE when the loss is not finite and training
 * stops for that. */
TD_NODISCARD td_status td__shards_compute(td_trainer *trainer, const td_batch *batch,
                                          td_error *error);
/* From now on each process reads its part of every batch. */
void td__shards_share_batches(td_trainer *trainer);
/* The loss of a layer's target, weighted with the share of the part under way. */
void td__shards_add_target(td_trainer *trainer, size_t target, double loss);
/* td__validate, with batch i in part i modulo count. */
TD_NODISCARD td_status td__shards_validate(td_trainer *trainer, td_error *error);

/* Runs one part, trainer->shards.at, of the batch. */
typedef td_status td__part_run(td_trainer *trainer, const td_batch *batch, td_error *error);
/* lanes.c */
/* NULL, and TD_OK, where no layer computes over all parts. */
TD_NODISCARD td_status td__lanes_create(td_trainer *trainer, td_error *error);
void td__lanes_destroy(struct td__lanes *lanes);
/* All parts of this process; the first error of them. */
TD_NODISCARD td_status td__lanes_run(td_trainer *trainer, td__part_run *run, const td_batch *batch,
                                     td_error *error);
/* shards.c: values of the part under way are added to the sums of the parts before it, in levels of the tree: 2^k parts
 * in levels[k]. NULL: zeros. */
void td__fold_doubles(double *const *levels, int64_t part, const double *values, size_t count);
/* shards.c: moving averages of the model, one behind the other: from it, or to it. */
void td__averages_copy(td_trainer *trainer, float *values, bool to_model);

/* gather.c */
/* Which entries are recorded in this step, in all processes. */
TD_NODISCARD td_status td__gather_begin(td_trainer *trainer, td_error *error);
/* Records them in rank 0. */
TD_NODISCARD td_status td__gather_end(td_trainer *trainer, const td_batch *batch, td_error *error);

/* group.c */
/* Whether this process writes the run. */
bool td__trainer_writes(const td_trainer *trainer);
/* The state of rank 0 in all processes. */
TD_NODISCARD td_status td__group_share_state(td_trainer *trainer, td_error *error);
/* Threads of this process: the experiment's, or its share of the machine's cores. */
int td__group_threads(const td_trainer *trainer);
/* After numbers were added up, of which the first is how many processes failed: the same error in all. mine: that of
 * this process. */
TD_NODISCARD td_status td__group_agree(td_trainer *trainer, double failures, td_status status,
                                       const td_error *mine, td_error *error);

#endif
