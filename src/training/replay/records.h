/* Two tensors element by element, and two runs by what both recorded. */
#ifndef TAPEDECK_REPLAY_RECORDS_H
#define TAPEDECK_REPLAY_RECORDS_H

#include "base/arena.h"
#include "tapedeck/replay.h"

/* Compares two tensors: the numbers of found, and the first element that differs in both operations. Where their
 * shapes differ, nothing but the number of elements. */
void td__diff_elements(td_diff *found, td_operation *const operations[2], const td_view views[2]);
/* The first step and signal at which runs part that cannot be executed again; found->settings is there. */
TD_NODISCARD td_status td__diff_records(td_diff *found, td_run *runs[2], td__arena *arena,
                                        td_error *error);

#endif
