/* Floats of 4, 6 and 8 bits: a sign, an exponent and a few digits, kept as float32.
 *
 * FN: no infinities, UZ: one zero, whose negative is "not a number". E8M0 has neither sign nor digits:
 * it is a power of two.
 */
#include "graph/graph.h"

#include <math.h>

typedef struct small {
    int digits;        /* after the first */
    int bias;          /* of the exponent */
    float max;         /* the largest finite number */
    float beyond;      /* what is larger, unless it is cut to the largest */
    bool one_zero;     /* -0 is not a number */
    unsigned specials; /* magnitudes from here on are infinite or no numbers */
} small;

static const small smalls[] = {
    [TD__GRAPH_FLOAT8E4M3FN] = {3, 7, 448, NAN, false, 0x7f},
    [TD__GRAPH_FLOAT8E4M3FNUZ] = {3, 8, 240, NAN, true, 0x80},
    [TD__GRAPH_FLOAT8E5M2] = {2, 15, 57344, INFINITY, false, 0x7c},
    [TD__GRAPH_FLOAT8E5M2FNUZ] = {2, 16, 57344, NAN, true, 0x80},
    [TD__GRAPH_FLOAT4E2M1] = {1, 1, 6, 6, false, 0x80},
    [TD__GRAPH_FLOAT6E2M3] = {3, 1, 7.5f, 7.5f, false, 0x80},
    [TD__GRAPH_FLOAT6E3M2] = {2, 3, 28, 28, false, 0x80},
};

static const small *find_small_type(td__graph_type type) {
    bool known = (size_t)type < sizeof smalls / sizeof *smalls && smalls[type].max > 0;
    return known ? &smalls[type] : NULL;
}

bool td__graph_is_small(td__graph_type type) {
    return find_small_type(type) || type == TD__GRAPH_FLOAT8E8M0;
}

float td__graph_small_decode(td__graph_type type, unsigned bits, unsigned width) {
    if (type == TD__GRAPH_FLOAT8E8M0) {
        return bits == 0xff ? NAN : ldexpf(1, (int)bits - 127);
    }
    const small *s = find_small_type(type);
    unsigned half = 1u << (width - 1), magnitude = bits & (half - 1);
    float sign = bits & half ? -1 : 1;
    if (magnitude >= s->specials || (s->one_zero && bits == half)) {
        return magnitude == s->specials && isinf(s->beyond) ? sign * INFINITY : NAN;
    }
    int exponent = (int)(magnitude >> s->digits);
    unsigned digits = magnitude & ((1u << s->digits) - 1);
    digits |= exponent ? 1u << s->digits : 0;
    return sign * ldexpf((float)digits, (exponent ? exponent : 1) - s->bias - s->digits);
}

/* The next power of two, or the one before, or the nearer; a tie is the larger. */
static float round_power(float value, bool saturate, char mode) {
    float magnitude = fabsf(value);
    if (!isfinite(value)) {
        return NAN;
    }
    if (magnitude < 0x1p-127f) {
        return 0x1p-127f;
    }
    int exponent;
    float fraction = frexpf(magnitude, &exponent); /* 1/2 … 1 */
    bool up = mode == 'u' ? fraction > 0.5f : mode == 'n' && fraction >= 0.75f;
    int power = exponent - 1 + up;
    return power > 127 ? (saturate ? 0x1p127f : NAN) : ldexpf(1, power);
}

float td__graph_small_round(td__graph_type type, float value, bool saturate, char mode) {
    if (type == TD__GRAPH_FLOAT8E8M0) {
        return round_power(value, saturate, mode);
    }
    const small *s = find_small_type(type);
    float magnitude = fabsf(value);
    if (isnan(value)) {
        return isnan(s->beyond) || isinf(s->beyond) ? value : -0.0f;
    }
    if (magnitude <= s->max * 2) {
        int exponent = magnitude > 0 ? ilogbf(magnitude) : 0, min = 1 - s->bias;
        float digit = ldexpf(1, (exponent > min ? exponent : min) - s->digits);
        magnitude = rintf(magnitude / digit) * digit;
    }
    if (magnitude > s->max) {
        magnitude = saturate ? s->max : s->beyond;
    }
    return magnitude == 0 && s->one_zero ? 0 : copysignf(magnitude, value);
}
