/* A first experiment for data that nobody has described yet: `tapedeck init`.
 *
 *     td_suggestion *first = td_suggest(&(td_suggest_options){.size = sizeof(td_suggest_options),
 *                                                             .data = "iris.csv"}, &error);
 *     fputs(td_suggestion_text(first), file);
 */
#ifndef TAPEDECK_SUGGEST_H
#define TAPEDECK_SUGGEST_H

#include "tapedeck/data.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Zero means default; everything is borrowed for the duration of the call. */
typedef struct td_suggest_options {
    size_t size; /* sizeof(td_suggest_options) */
    /* A CSV, NPY, NPZ or IDX file, or a folder of images, one sub-folder a class. */
    const char *data;
    const char *model;  /* a saved model to train further; NULL: a model is suggested */
    const char *label;  /* CSV: the column to predict; NULL: guessed */
    const char *labels; /* NPY, IDX: the file of labels; NULL: the one beside it whose name fits */
} td_suggest_options;

typedef struct td_suggestion td_suggestion;

/* Reads the data once and writes an experiment that trains on it as it is. NULL on failure: what
 * td_dataset_open and td_model_load return, and TD_INVALID when there is nothing to predict. */
TD_API td_suggestion *td_suggest(const td_suggest_options *options, td_error *error);
/* Accepts NULL. */
TD_API void td_suggestion_destroy(td_suggestion *suggestion);
/* The experiment's name: the data file's without its ending. */
TD_API const char *td_suggestion_name(const td_suggestion *suggestion);
/* The experiment, YAML with comments. */
TD_API const char *td_suggestion_text(const td_suggestion *suggestion);
/* What was guessed, and why: a sentence each. */
TD_API td_names td_suggestion_guesses(const td_suggestion *suggestion);

#ifdef __cplusplus
}
#endif
#endif
