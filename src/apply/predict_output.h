/* Where predictions go: a file that appears when it is complete, or a folder of pictures. */
#ifndef TAPEDECK_APPLY_PREDICT_OUTPUT_H
#define TAPEDECK_APPLY_PREDICT_OUTPUT_H

#include "tapedeck/data.h"
#include "tapedeck/deck.h"
#include "tapedeck/nn.h"

typedef struct td__predict_output td__predict_output;

/* One output of a model: what its predictions are. */
typedef struct td__predicted_output {
    const char *name;                 /* NULL: the only one */
    td_signal_info scores;            /* classes, threshold, and units: their names */
    int64_t first_label, label_count; /* its part of a label's row; 0: none */
} td__predicted_output;

/* What predictions are; everything is borrowed until the output is closed. */
typedef struct td__predict_output_about {
    const td_dataset *data; /* its training part */
    bool keep_files;        /* what is there already is not replaced */
    bool named;   /* columns have the names of the classes, as the model's file has them */
    size_t count; /* of outputs; more than one only in a file that takes several */
    td__predicted_output outputs[TD_MAX_OUTPUTS];
} td__predict_output_about;

/* Whether a file takes several outputs, in columns side by side. */
bool td__predict_output_takes_several(const char *path);

/* NULL on failure. */
td__predict_output *td__predict_output_open(const char *path, const td__predict_output_about *about,
                                            td_error *error);
/* Pictures have the channels last, whatever the model says. */
bool td__predict_output_is_pictures(const td__predict_output *output);
/* predictions: float32 (count, …) for the batch's examples, one for each output. */
TD_NODISCARD td_status td__predict_output_write(td__predict_output *output,
                                                const td_view *predictions, const td_batch *batch,
                                                td_error *error);
/* Publishes the file, or, when not good, removes what there is. Accepts NULL. */
TD_NODISCARD td_status td__predict_output_close(td__predict_output *output, bool good,
                                                td_error *error);

#endif
