/* What number.c takes from the C++ standard library's <charconv>. */
#ifndef TAPEDECK_BASE_NUMBER_STD_H
#define TAPEDECK_BASE_NUMBER_STD_H

#include "tapedeck/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The shortest digits d[.]ddd of a finite value > 0 (at most 17) and the exponent of the first. */
void td__shortest_digits(double value, char *digits, int32_t *count, int32_t *exponent);

/* The whole of text, or TD_FORMAT; TD_RANGE when too large. */
td_status td__from_chars_float(const char *text, size_t length, float *value);
td_status td__from_chars_double(const char *text, size_t length, double *value);

#ifdef __cplusplus
}
#endif
#endif
