/* Where predictions go: a file that appears when it is complete, or a folder of pictures. */
#ifndef TAPEDECK_APPLY_PREDICT_OUTPUT_H
#define TAPEDECK_APPLY_PREDICT_OUTPUT_H

#include "tapedeck/data.h"
#include "tapedeck/deck.h"

typedef struct td__predict_output td__predict_output;

/* What predictions are; everything is borrowed until the output is closed. */
typedef struct td__predict_output_about {
    const td_dataset *data; /* its training part */
    bool labelled;
    td_signal_info scores; /* classes, threshold, and units: their names */
    bool named;            /* columns have the names of the classes, as the model's file has them */
} td__predict_output_about;

/* NULL on failure. */
td__predict_output *td__predict_output_open(const char *path, const td__predict_output_about *about,
                                            td_error *error);
/* Pictures have the channels last, whatever the model says. */
bool td__predict_output_is_pictures(const td__predict_output *output);
/* prediction: float32 (count, …) for the batch's examples. */
TD_NODISCARD td_status td__predict_output_write(td__predict_output *output,
                                                const td_view *prediction, const td_batch *batch,
                                                td_error *error);
/* Publishes the file, or, when not good, removes what there is. Accepts NULL. */
TD_NODISCARD td_status td__predict_output_close(td__predict_output *output, bool good,
                                                td_error *error);

#endif
