/* Form units: what each unit of a layer does. Units are the last axis. */
#ifndef TAPEDECK_SINK_UNITS_H
#define TAPEDECK_SINK_UNITS_H

#include "tapedeck/deck.h"

/* Over all rows of a record. */
typedef struct td__unit {
    double active;    /* share of its values that are not 0 */
    double saturated; /* share within a hundredth of an end of the range; NaN: there is no range */
    double mean, std, min, max; /* of the finite values; NaN when there are none */
} td__unit;

/* Where values end that an activation keeps in bounds: 0 … 1 (sigmoid) or -1 … 1 (tanh), whichever the
 * whole tensor lies in. none: it goes beyond both. */
typedef struct td__bounds {
    double low, high;
    bool none;
} td__bounds;

int64_t td__unit_count(const td_view *view);
td__bounds td__unit_bounds(const td_view *view);
td__unit td__unit_of(const td_view *view, int64_t unit, const td__bounds *bounds);

#endif
