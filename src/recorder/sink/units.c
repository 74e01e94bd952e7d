#include "sink/units.h"

#include "tensor/element.h"

#include <math.h>

#define END 0.01

int64_t td__unit_count(const td_view *view) {
    return view->shape.rank ? view->shape.dims[view->shape.rank - 1] : 1;
}

td__bounds td__unit_bounds(const td_view *view) {
    td__bounds bounds = {0, 1, false};
    int64_t count = td__elements_from(&view->shape, 0);
    for (int64_t i = 0; i < count; i++) {
        double value = td__element(view, i);
        bounds.low = value < 0 ? -1 : bounds.low;
        bounds.none |= !(value >= -1 && value <= 1);
    }
    return bounds;
}

td__unit td__unit_of(const td_view *view, int64_t unit, const td__bounds *bounds) {
    int64_t units = td__unit_count(view), count = td__elements_from(&view->shape, 0);
    int64_t rows = 0, active = 0, ended = 0, finite = 0;
    double mean = 0, squares = 0, min = INFINITY, max = -INFINITY;
    for (int64_t i = unit; i < count; i += units, rows++) {
        double value = td__element(view, i);
        active += value != 0;
        ended += value < bounds->low + END || value > bounds->high - END;
        if (isfinite(value)) { /* Welford: sums of squares cancel */
            double apart = value - mean;
            mean += apart / (double)++finite;
            squares += apart * (value - mean);
            min = fmin(min, value);
            max = fmax(max, value);
        }
    }
    bool known = finite > 0;
    return (td__unit){.active = rows ? (double)active / (double)rows : NAN,
                      .saturated = rows && !bounds->none ? (double)ended / (double)rows : NAN,
                      .mean = known ? mean : NAN,
                      .std = known ? sqrt(squares / (double)finite) : NAN,
                      .min = known ? min : NAN,
                      .max = known ? max : NAN};
}
