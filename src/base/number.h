/* Numbers as text and back, the same in every locale.
 *
 * A float is written as the shortest decimal text that reads back to the same bits (the nearest to
 * the float's value where several are as short): "0.1", "-0.0", "16777216", "1e-9", "nan", "-inf".
 * Exponents from -5 to 8 (float) or 15 (double) are written without an `e`. Negative zero keeps a
 * ".0", so that a reader which guesses types does not take it for an integer and lose its sign.
 */
#ifndef TAPEDECK_BASE_NUMBER_H
#define TAPEDECK_BASE_NUMBER_H

#include "tapedeck/base.h"

/* What a formatting function may touch at out. It returns the length of the text, at most
 * TD__NUMBER_TEXT, and writes no terminating zero. */
#define TD__NUMBER_ROOM 48
#define TD__NUMBER_TEXT 24

size_t td__format_float(char *out, float value);
size_t td__format_double(char *out, double value);
size_t td__format_int(char *out, int64_t value);
size_t td__format_uint(char *out, uint64_t value);

/* The whole of text must be a decimal number: an optional sign, digits with an optional point, an
 * optional exponent; or nan, inf, infinity in any case (floating point only). No spaces. TD_FORMAT
 * otherwise. TD_RANGE when it is too large for the type; a number too small becomes zero or the
 * nearest subnormal. value is written on success only. */
TD_NODISCARD td_status td__parse_float(const char *text, size_t length, float *value);
TD_NODISCARD td_status td__parse_double(const char *text, size_t length, double *value);
TD_NODISCARD td_status td__parse_int(const char *text, size_t length, int64_t *value);

#endif
