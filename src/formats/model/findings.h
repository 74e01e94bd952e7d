/* What is unusual about a model's parameters. */
#ifndef TAPEDECK_MODEL_FINDINGS_H
#define TAPEDECK_MODEL_FINDINGS_H

#include "tapedeck/model.h"

typedef struct td__findings {
    td_finding *items;
    size_t count, capacity;
} td__findings;

/* stats: of each parameter. */
TD_NODISCARD td_status td__findings_collect(td__findings *findings, const td_model *model,
                                            const td_stats *stats, td_error *error);
void td__findings_release(td__findings *findings);

#endif
