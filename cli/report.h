/* What `tapedeck train` prints while it trains and at the end. */
#ifndef TAPEDECK_CLI_REPORT_H
#define TAPEDECK_CLI_REPORT_H

#include "tapedeck/train.h"

#include <stdbool.h>

typedef enum report_style {
    REPORT_BAR,   /* a line that moves, and a line for each epoch */
    REPORT_LINES, /* a line for each epoch */
    REPORT_JSON,  /* an object on a line of its own for each */
    REPORT_NONE,
} report_style;

/* For td_trainer_options.progress; user points to a report_style. */
void report_progress(void *user, const td_train_progress *progress);
/* The page at the end, or JSON's last object. */
void report_end(td_trainer *trainer, report_style style, double seconds);
/* What a dry run shows: the model, and what would be recorded. */
void report_plan(td_trainer *trainer, bool json);

/* The norms of layer errors over time: a row for each layer (heat_map.c). */
void print_heat_map(const td_norm_history *histories, size_t count, int width, bool colour);

#endif
