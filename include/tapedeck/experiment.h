/* Experiment files: YAML that says which data, which model, how to train and what to record. The keys
 * are in docs/experiment.md.
 */
#ifndef TAPEDECK_EXPERIMENT_H
#define TAPEDECK_EXPERIMENT_H

#include "tapedeck/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct td_experiment td_experiment;

/* Zero means default; everything is borrowed for the duration of the call. */
typedef struct td_experiment_options {
    size_t size;            /* sizeof(td_experiment_options) */
    const char *const *set; /* "train.epochs=3": edits before checking */
    size_t set_count;
    void (*problem)(void *user, const char *text); /* reports every problem, one line each */
    void *user;
} td_experiment_options;

/* Reads and checks the whole file; paths in it are relative to it. options may be NULL. NULL on
 * failure: error has the first problem, the callback has seen them all. */
TD_API td_experiment *td_experiment_read(const char *path, const td_experiment_options *options,
                                         td_error *error);
/* Accepts NULL. Trainers of it must be destroyed before. */
TD_API void td_experiment_destroy(td_experiment *experiment);
TD_API const char *td_experiment_name(const td_experiment *experiment);
/* `validation: {folds: 5}` without a `fold`: how many there are to be trained, each with "data.validation.fold=N";
 * 0: none. A trainer of it takes the first. */
TD_API int64_t td_experiment_folds(const td_experiment *experiment);

#ifdef __cplusplus
}
#endif
#endif
