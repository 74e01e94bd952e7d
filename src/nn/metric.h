/* What a metric has summed up, to be saved and given back. */
#ifndef TAPEDECK_NN_METRIC_H
#define TAPEDECK_NN_METRIC_H

#include "tapedeck/nn.h"

/* Writes the numbers to state (may be NULL) and returns how many there are. */
size_t td__metric_state(const td_metric *metric, double *state);
/* Takes them back; returns how many it took of most, 0 when they cannot be its own or memory is
 * exhausted. */
size_t td__metric_set_state(td_metric *metric, const double *state, size_t most);

#endif
