/* What a signal is, and which metrics say most about a run. */
#ifndef TAPEDECK_VIEW_KINDS_H
#define TAPEDECK_VIEW_KINDS_H

#include "tapedeck/run.h"

typedef struct td__kind {
    const char *kind;  /* "metric", "error", "output", "gradient", "update", "parameter", … */
    const char *layer; /* not terminated: layer_length bytes; "" for none */
    int layer_length;
    const char *parameter; /* "kernel", not terminated; "" for none */
    int parameter_length;
} td__kind;
td__kind td__kind_of(const td_run_signal *signal);

bool td__larger_is_better(const td_run_signal *signal);
/* At most `most`; their number. */
size_t td__main_metrics(const td_run *run, const td_run_signal **chosen, size_t most);

#endif
