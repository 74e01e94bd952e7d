/* How far the files of a run reached when a checkpoint was written, so that a run that was killed goes
 * on from just there: what conditions recorded afterwards of steps before it (history) goes too. */
#ifndef TAPEDECK_SINK_EXTENTS_H
#define TAPEDECK_SINK_EXTENTS_H

#include "tapedeck/base.h"

/* A line for each CSV and NPY file in the folder, "EXTENT NAME". *list is to be freed with td__free. */
TD_NODISCARD td_status td__extents_list(int folder, char **list, size_t *size, td_error *error);
/* Cuts the files to the extents in the list. A file that is not in the list loses all records
 * if its last one is of a later step than the checkpoint's: it was begun afterwards. To be called before
 * the sinks of the run are open. */
TD_NODISCARD td_status td__extents_restore(int folder, const char *list, size_t size, int64_t step,
                                           td_error *error);

#endif
