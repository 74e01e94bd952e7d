/* Records of steps that were executed again, added to their run. */
#ifndef TAPEDECK_RUN_REPLAYED_H
#define TAPEDECK_RUN_REPLAYED_H

#include "tapedeck/base.h"

/* Adds what the run in folder/below recorded to folder/run.db, where each row is marked in table
 * `replayed`; files stay below. What the run has already is kept: *kept counts those. */
TD_NODISCARD td_status td__run_add_replayed(const char *folder, const char *below, int64_t *added,
                                            int64_t *kept, td_error *error);

#endif
