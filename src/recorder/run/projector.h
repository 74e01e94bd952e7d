/* Embeddings as TensorBoard's projector has them: projector_config.pbtxt in a folder of event files names a file of
 * tab-separated rows for each, and one with their labels. */
#ifndef TAPEDECK_RUN_PROJECTOR_H
#define TAPEDECK_RUN_PROJECTOR_H

#include "run/event.h"

/* Hands on each embedding of the folder as a tensor with labels. What cannot be read is a problem of the run. */
TD_NODISCARD td_status td__projector_read(const char *folder, td__decoder *decoder,
                                          td_error *error);

#endif
