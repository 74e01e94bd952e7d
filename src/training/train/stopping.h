/* The best epoch so far by one value, and early stopping when it does not get better. */
#ifndef TAPEDECK_TRAIN_STOPPING_H
#define TAPEDECK_TRAIN_STOPPING_H

#include "experiment/experiment.h"

typedef struct td__best {
    const char *monitor; /* borrowed; NULL: nothing is watched */
    bool larger;         /* is better */
    double margin;       /* to be better by */
    double value;
    int64_t epoch; /* when that was; 0: not yet */
} td__best;

/* What mode says, or what the value is: a metric of train, or what its name means. */
td__best td__best_of(const td__train_spec *train, const char *monitor, int mode, double margin);
/* Which way a value should go: a metric of train, or what its name means. */
td_better td__monitor_better(const td__train_spec *train, const char *monitor);
/* Which way a metric should go. */
td_better td__metric_better(td_metric_kind kind);
/* Takes the epoch's value; whether it is the best so far. NaN is none. */
bool td__best_take(td__best *best, double value, int64_t epoch);

typedef struct td__stopping {
    td__best best;
    int64_t patience, waited; /* epochs */
    bool restore;             /* the best epoch's weights at the end */
    float **weights;          /* of the best epoch, by parameter; NULL unless restore */
    size_t weight_count;
    bool stopped;
    char text[160]; /* why */
} td__stopping;

TD_NODISCARD td_status td__stopping_init(td__stopping *stopping, const td__train_spec *train,
                                         const td_model *model, td_error *error);
void td__stopping_release(td__stopping *stopping);
/* Takes the epoch's value, and keeps the model's weights when they are the best so far. */
void td__stopping_take(td__stopping *stopping, double value, int64_t epoch, const td_model *model);
/* Stops when patience is at its end; also after a checkpoint was read. */
void td__stopping_decide(td__stopping *stopping);
/* Gives the model the weights of the best epoch, where they were kept. */
void td__stopping_restore(const td__stopping *stopping, const td_model *model);

#endif
