/* Numbers from text: locale-free, and always the float nearest to what was written.
 *
 * The text must be followed by a byte that cannot belong to a number (a NUL, a comma, a line end);
 * readers keep one behind their buffers. */
#ifndef TAPEDECK_BASE_PARSE_H
#define TAPEDECK_BASE_PARSE_H

#include "tapedeck/base.h"

#include <math.h>
#include <string.h>

/* A decimal number (-1.5e3, .5, 7.) or, in any case, nan, inf, infinity. Returns where it ends;
 * NULL, with value untouched, when there is none at text. Too large for the type is ±infinity. */
static inline const char *td__parse_float32(const char *text, float *value);
const char *td__parse_float64(const char *text, double *value);

/* --- how -------------------------------------------------------------------------------------- */

/* What stands at text: sign, digits as one whole number, power of ten. */
typedef struct td__decimal {
    uint64_t digits; /* wrong when digit_count > 19 */
    int64_t digit_count;
    int64_t exponent;
    bool negative;
} td__decimal;

extern const double td__powers_of_ten[23]; /* exact */

/* The same, for numbers that td__parse_float32 cannot do in a few instructions. */
const char *td__parse_float32_slowly(const char *text, float *value);
/* Exponent: what follows an 'e' at text. Text itself when no digit follows. */
const char *td__parse_exponent(const char *text, int64_t *exponent);

/* NULL when no digit is there. */
static inline const char *td__parse_decimal(const char *text, td__decimal *decimal) {
    const char *p = text;
    bool negative = *p == '-';
    p += negative || *p == '+';
    uint64_t digits = 0;
    const char *start = p;
    unsigned digit;
    for (; (digit = (unsigned char)*p - (unsigned)'0') < 10; p++) {
        digits = digits * 10 + digit;
    }
    int64_t count = p - start, exponent = 0;
    if (*p == '.') {
        const char *point = p++;
        for (; (digit = (unsigned char)*p - (unsigned)'0') < 10; p++) {
            digits = digits * 10 + digit;
        }
        exponent = point + 1 - p;
        count -= exponent;
    }
    if (count == 0) {
        return NULL;
    }
    if ((*p | 0x20) == 'e') {
        p = td__parse_exponent(p, &exponent);
    }
    *decimal = (td__decimal){digits, count, exponent, negative};
    return p;
}

/* Clinger: a whole number below 2^53 and a power of ten up to 10^22 are exact doubles, so their
 * product or quotient is the nearest double. False when that does not apply. */
static inline bool td__decimal_double(const td__decimal *decimal, double *value) {
    if (decimal->digit_count > 19 || decimal->digits >> 53 || decimal->exponent < -22 ||
        decimal->exponent > 22) {
        return false;
    }
    double whole = (double)(int64_t)decimal->digits;
    double magnitude = decimal->exponent < 0 ? whole / td__powers_of_ten[-decimal->exponent]
                                             : whole * td__powers_of_ten[decimal->exponent];
    *value = decimal->negative ? -magnitude : magnitude;
    return true;
}

/* Rounding the nearest double gives the nearest float unless the double lies exactly between two
 * floats (its low 29 bits are 1 followed by zeros) or the float is subnormal or infinite. */
static inline const char *td__parse_float32(const char *text, float *value) {
    td__decimal decimal;
    const char *end = td__parse_decimal(text, &decimal);
    double wide;
    if (!end || !td__decimal_double(&decimal, &wide)) {
        return td__parse_float32_slowly(text, value);
    }
    uint64_t bits;
    memcpy(&bits, &wide, sizeof bits);
    double magnitude = fabs(wide);
    bool safe = (bits & 0x1FFFFFFF) != 0x10000000 && magnitude >= 0x1p-126 && magnitude < 0x1p127;
    if (!safe && decimal.digits != 0) {
        return td__parse_float32_slowly(text, value);
    }
    *value = (float)wide;
    return end;
}

#endif
