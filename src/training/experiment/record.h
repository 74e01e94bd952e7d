/* Tracks as the `record:` section has them. */
#ifndef TAPEDECK_EXPERIMENT_RECORD_H
#define TAPEDECK_EXPERIMENT_RECORD_H

#include "deck/route.h"
#include "experiment/experiment.h"

/* Whether the track records the signal of this name. */
bool td__track_names(const td__track_spec *track, const char *name, bool derived);
/* Whether it records something that is derived from the signal. */
bool td__track_derives(const td__track_spec *track, const char *source, bool derived);
/* What an experiment without a `record:` section records: these values at the end of each epoch, to
 * CSV. The section becomes part of the document. */
TD_NODISCARD td_status td__record_default(td_experiment *experiment, const char *const *names,
                                          size_t count, td_error *error);
/* Which of td_sinks the track goes to: td__route. */
TD_NODISCARD td_status td__track_route(const td__track_spec *track, bool chosen[TD__SINKS],
                                       td_error *error);

#endif
