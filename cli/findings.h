/* Findings of a diagnosis, for people and for programs. */
#ifndef TAPEDECK_CLI_FINDINGS_H
#define TAPEDECK_CLI_FINDINGS_H

#include "tapedeck/diagnose.h"

/* {"findings": […], "notes": […]} */
void print_json_diagnosis(const td_diagnosis *diagnosis);
/* Each with its evidence and remedy; then what was looked at without finding anything. */
void print_diagnosis(const td_diagnosis *diagnosis, bool colour);
/* Findings that are more than a maybe. */
size_t count_certain(const td_diagnosis *diagnosis);

#endif
