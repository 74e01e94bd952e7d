/* What a training is to learn, found from its labels alone, and how well a model does it.
 *
 * Losses of different experiments cannot be compared; how much of the task was learnt can. The score
 * is 1 for perfect, 0 for what a constant answer achieves: accuracy above the most common class's, or
 * R2. */
#ifndef TAPEDECK_DIAGNOSE_TASK_H
#define TAPEDECK_DIAGNOSE_TASK_H

#include "train/trainer.h"

typedef enum td__task_kind {
    TD__TASK_VALUES,  /* numbers */
    TD__TASK_CLASSES, /* one of several */
    TD__TASK_BINARY,  /* one number, 0 or 1 */
    TD__TASK_LABELS,  /* several numbers, each 0 or 1 */
} td__task_kind;

typedef struct td__task {
    td__task_kind kind;
    int64_t classes; /* of TD__TASK_CLASSES */
} td__task;

/* How a model does over a part of the data; as in inference. */
typedef struct td__marks {
    int64_t rows;   /* looked at; 0: there are none */
    double score;   /* NaN when the predictions are not finite */
    double loss;    /* mean, without penalties */
    double highest; /* share of the rows that got the most common prediction (classes) */
    double right;   /* share of the answers that are right (not of values) */
    double renamed; /* … that would be right were the classes called otherwise, each by one name */
} td__marks;

enum { TD__MARKED_ROWS = 2048 };

/* Evenly spread rows of the part, TD__MARKED_ROWS at most. shift and scale: what was done to
 * labels that are values, (label - shift) / scale. */
TD_NODISCARD td_status td__marks_of(td_trainer *trainer, const td__task *task, td_part part,
                                    double shift, double scale, td__marks *marks, td_error *error);

#endif
