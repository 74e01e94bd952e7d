/* A range test of the learning rate, before training. */
#ifndef TAPEDECK_DIAGNOSE_PROBE_H
#define TAPEDECK_DIAGNOSE_PROBE_H

#include "diagnose/rule.h"

/* Notes where the loss falls fastest and where it rises, and accepts a rate that is too high or too low
 * as a cause. options: of the check. */
TD_NODISCARD td_status td__probe(td__case *c, const td_check_options *options, td_error *error);

#endif
