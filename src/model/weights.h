/* Parameters of a model being read: gathered aside by name, then put into the model all at once, so
 * that a file that turns out wrong leaves the model as it was. */
#ifndef TAPEDECK_MODEL_WEIGHTS_H
#define TAPEDECK_MODEL_WEIGHTS_H

#include "tapedeck/nn.h"

typedef struct td__weights {
    td_model *model;
    const char *path; /* for messages */
    size_t count;     /* of the model's parameters */
    float **values;   /* of each parameter, aside */
    int64_t *filled;  /* how many elements have been given */
} td__weights;

TD_NODISCARD td_status td__weights_init(td__weights *weights, td_model *model, const char *path,
                                        td_error *error);
void td__weights_release(td__weights *weights);
/* The parameter of that name; -1, with the nearest in the text, when there is none. */
ptrdiff_t td__weights_find(const td__weights *weights, const char *name, td_error *error);
/* All of a parameter at once, from any element type. */
TD_NODISCARD td_status td__weights_put(td__weights *weights, const char *name, const td_view *view,
                                       td_error *error);
/* Copies into the model; TD_NOT_FOUND, naming it, when a parameter has not been given. */
TD_NODISCARD td_status td__weights_apply(td__weights *weights, td_error *error);

/* The formats. */
TD_NODISCARD td_status td__weights_csv_write(const td_model *model, const char *path,
                                             td_error *error);
TD_NODISCARD td_status td__weights_csv_read(td__weights *weights, td_error *error);
TD_NODISCARD td_status td__weights_npz_write(const td_model *model, const char *path,
                                             td_error *error);

#endif
