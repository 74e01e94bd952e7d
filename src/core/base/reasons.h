/* Several problems in one text: "x.npz: 3 problems: … ; …". */
#ifndef TAPEDECK_BASE_REASONS_H
#define TAPEDECK_BASE_REASONS_H

#include "tapedeck/base.h"

typedef struct td__reasons {
    size_t count;
    td_status first;
    char text[800];
} td__reasons;

void td__reasons_add(td__reasons *reasons, td_status status, const char *format, ...)
    TD_PRINTF(3, 4);
/* The status of the first; TD_OK when there is none. */
td_status td__reasons_report(const td__reasons *reasons, const char *path, td_error *error);

#endif
