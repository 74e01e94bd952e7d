/* Where predictions go: a file that appears when it is complete, or a folder of pictures. */
#ifndef TAPEDECK_APPLY_PREDICT_OUTPUT_H
#define TAPEDECK_APPLY_PREDICT_OUTPUT_H

#include "tapedeck/tensor.h"

typedef struct td__output td__output;

/* examples: how many there will be. labels: the shape of one example's, or NULL without labels.
 * NULL on failure. */
td__output *td__output_open(const char *path, int64_t examples, const td_shape *label,
                            td_error *error);
/* prediction: float32 (count, …); label: int32 or float32 (count, …), ignored without labels. */
TD_NODISCARD td_status td__output_write(td__output *output, const td_view *prediction,
                                        const td_view *label, td_error *error);
/* Publishes the file, or, when not good, removes what there is. Accepts NULL. */
TD_NODISCARD td_status td__output_close(td__output *output, bool good, td_error *error);

#endif
