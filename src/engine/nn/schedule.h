/* What the optimizer needs of schedules. */
#ifndef TAPEDECK_NN_SCHEDULE_H
#define TAPEDECK_NN_SCHEDULE_H

#include "nn/layer.h"

const td__field *td__schedule_fields(td_schedule_kind kind, size_t *count);
/* Fills in defaults and checks. */
td_status td__schedule_settle(td_schedule *schedule, td_error *error);
/* td_schedule_rate of a settled schedule. */
double td__schedule_rate(const td_schedule *schedule, double rate, uint64_t done);

#endif
