/* What an experiment's data are like, as the model gets to see them: one pass over the examples. */
#ifndef TAPEDECK_DIAGNOSE_FACTS_H
#define TAPEDECK_DIAGNOSE_FACTS_H

#include "diagnose/task.h"

typedef struct td__column {
    double mean, deviation, minimum, maximum; /* of the finite values */
    int64_t count, nonfinite;
} td__column;

enum { TD__MOST_CLASSES = 1024, TD__LABEL_ORDERS = 39 };

typedef struct td__labels {
    int64_t width; /* numbers an example; 1 for class numbers */
    bool whole;    /* all are whole numbers */
    bool binary;   /* all are 0 or 1 */
    bool one_hot;  /* binary, and each row has exactly one 1 */
    int distinct;  /* numbers among them, counted up to 3 */
    double first[2];
    td__column all;
    int64_t classes;                 /* of whole numbers from 0, at most TD__MOST_CLASSES; else 0 */
    double shares[TD__MOST_CLASSES]; /* of each class (one-hot and binary columns too) */
    int64_t nonfinite_row;           /* -1: none */
} td__labels;

typedef struct td__facts {
    int64_t rows, validation_rows; /* all there are */
    int64_t looked_at;             /* of the training rows */
    int64_t width;                 /* inputs of one example */
    bool table;                    /* examples are rows of columns, not images or sequences */
    bool indices;                  /* an embedding reads them: whole numbers that are no sizes */
    td__column *columns;           /* of the inputs */
    td__column inputs;             /* all together */
    double largest_deviation, smallest_deviation; /* of columns that change at all */
    int64_t largest_column, constant_columns;
    int64_t nonfinite_row, nonfinite_column; /* of the inputs; -1: none */
    int64_t validation_nonfinite, validation_nonfinite_row, validation_nonfinite_column;
    td__labels labels, validation_labels;
    td__labels *
        heads; /* of each output that has its own, of the training part; NULL: there is one output */
    double order; /* share of rows, in the file's order, whose label is that of the row before */
    /* How alike the labels of nearest neighbours are, within training and within validation: 1 the
     * same, 0 as by chance; NaN: not known. */
    double training_agreement, validation_agreement;
    double chance;                                 /* by how much they may differ by chance */
    double training_distance, validation_distance; /* of nearest neighbours, the median */
    /* Neither nearest neighbours nor single columns of the training part say more of the labels than of the same
     * labels in other orders. */
    bool unrelated;
    int64_t duplicates; /* validation rows that are training rows too, of those looked at */
    td__task task;
} td__facts;

/* What labels of that kind are to be learnt as. */
td__task td__task_of(const td__labels *labels, const td__objective *objective, td_label_kind kind);
/* orders: `unrelated` too, which takes longer. */
TD_NODISCARD td_status td__facts_gather(td__facts *facts, td_trainer *trainer, bool orders,
                                        td_error *error);
/* Whether training inputs lie farther apart than validation inputs, beyond chance: they carry noise. */
bool td__inputs_are_farther(const td__facts *facts);
/* The cross-entropy of always giving the shares of the classes, or of each label; NaN: of values. */
double td__constant_loss(const td__facts *facts, const td__labels *labels);
void td__facts_release(td__facts *facts);

#endif
