/* Numbers as text, the same in every locale. (The way back is base/parse.h.)
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
/* count floats, each followed by the character `after`: the same text, found for many at a time.
 * Returns the end; room for count * (TD__NUMBER_TEXT + 1) and TD__NUMBER_ROOM more. */
char *td__format_floats(char *out, const float *values, size_t count, char after);
size_t td__format_int(char *out, int64_t value);
size_t td__format_uint(char *out, uint64_t value);

/* A number that may have been a float before it became a double: as a float when it is one exactly
 * and no integer, so that the float 0.1 is "0.1" and not "0.10000000149011612". */
size_t td__format_value(char *out, double value);
/* At most digits (1 … 17) significant digits, as printf's %g: for people, not for files. */
size_t td__format_rounded(char *out, double value, int digits);

#endif
