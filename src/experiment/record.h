/* The `record:` section. */
#ifndef TAPEDECK_EXPERIMENT_RECORD_H
#define TAPEDECK_EXPERIMENT_RECORD_H

#include "deck/route.h"
#include "experiment/experiment.h"

/* Reads the list of tracks into the td_experiment at member. */
void td__read_record(td__checker *checker, td__yaml_node *node, void *member);
/* Whether the track records the signal of this name. */
bool td__track_names(const td__track_spec *track, const char *name);
/* Which of td_sinks the track goes to: td__route. */
TD_NODISCARD td_status td__track_route(const td__track_spec *track, bool chosen[TD__SINKS],
                                       td_error *error);
/* "50 steps", "1 epoch", "50": a td__interval. */
void td__read_interval(td__checker *checker, td__yaml_node *node, void *member);

#endif
