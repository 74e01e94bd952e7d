/* An experiment run once more, in memory, with something changed: nothing is recorded or written.
 *
 * With nothing changed it repeats the run bit for bit: order of the data, dropout and initial values
 * are functions of seed, epoch and step. */
#ifndef TAPEDECK_DIAGNOSE_TRIAL_H
#define TAPEDECK_DIAGNOSE_TRIAL_H

#include "diagnose/task.h"

enum { TD__TRIAL_CURVE = 12 };

/* Where a loss stopped being finite, judged while everything of that step was still there. */
typedef struct td__origin {
    const char *cause;          /* as td_finding_origin has it; NULL: the loss stayed finite */
    ptrdiff_t layer, parameter; /* -1: none */
    const char *where; /* the layer's name, of a model that only the run knows; NULL: none */
    int64_t row;       /* -1: none */
    int64_t step;
    bool divides; /* a normalisation of finite numbers: by a deviation of 0 */
    bool grown;   /* outputs had grown over the steps before: the loss need not be infinite yet */
    float loss;
} td__origin;

typedef struct td__trial_options {
    const char *path; /* the experiment's file */
    const char *const *set;
    size_t set_count;
    int64_t steps;           /* 0: as many as the experiment says */
    double seconds;          /* most; training ends there */
    bool standardize_labels; /* labels that are values: mean 0, variance 1 */
    double label_shift, label_scale;
    bool redraw;        /* forget the weights that the experiment starts from */
    bool on_validation; /* train on one half of the validation file, validate with the other */
    const td__task *task;
    void (*problem)(void *user, const char *text); /* of the file; may be NULL */
    /* Called with the loss of each step, from 1; may be NULL. */
    void (*seen)(void *user, int64_t step, double loss);
    /* Called after the last step; may be NULL. */
    td_status (*visit)(void *user, td_trainer *trainer, td_error *error);
    void *user;
    bool while_reading; /* large data need not be read to its end before */
} td__trial_options;

/* The model's marks at a step. */
typedef struct td__trial_point {
    int64_t step;
    double loss; /* mean over the steps since the point before, penalties included */
    td__marks training, validation;
} td__trial_point;

typedef struct td__trial {
    int64_t steps; /* made */
    bool complete; /* as many as were asked for */
    double seconds;
    double first_loss;
    double penalty; /* the share of the first loss that was penalties */
    double clipped; /* share of the steps whose gradient was clipped */
    double cut;     /* mean factor that clipping left of the gradient's norm */
    td__trial_point curve[TD__TRIAL_CURVE]; /* evenly spaced; the last is the end */
    size_t points;
    td__origin origin;
    double score; /* at the end: of the validation part where there is one. Never NaN: what cannot
                   * be measured, or became NaN, scores 0 */
} td__trial;

/* The trainer of an experiment without its recording, metrics and early stopping. *experiment is
 * to be destroyed after it. NULL on failure. */
td_trainer *td__trial_open(const td__trial_options *options, td_experiment **experiment,
                           td_error *error);
TD_NODISCARD td_status td__trial_run(const td__trial_options *options, td__trial *trial,
                                     td_error *error);

#endif
