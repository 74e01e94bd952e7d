/* What number.c takes from the C++ standard library's <charconv>. */
#ifndef TAPEDECK_BASE_NUMBER_STD_H
#define TAPEDECK_BASE_NUMBER_STD_H

#include "tapedeck/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The shortest digits d[.]ddd of a finite value > 0 (at most 17) and the exponent of the first. */
void td__shortest_digits(double value, char *digits, int32_t *count, int32_t *exponent);

/* As printf's %.*g; returns the length. */
size_t td__general_text(char *out, size_t size, double value, int digits);

#ifdef __cplusplus
}
#endif
#endif
