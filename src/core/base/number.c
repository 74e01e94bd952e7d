/* Shortest float text: Raffaello Giulietti's Schubfach for binary32, laid out eight digits at a
 * time. Doubles get their digits from std::to_chars (number_std.cc) and share the layout. */
#include "base/number.h"

#include "base/cpu.h"
#include "base/number_std.h"

#include <endian.h>
#include <math.h>
#include <string.h>

enum {
    FLOAT_DIGITS = 9,   /* the longest shortest text of a float */
    DOUBLE_DIGITS = 17, /* and of a double */
    LOWEST_FIXED = -5,  /* smallest decimal exponent written without an e */
    POWER_MIN = -31,
};

/* 10^k scaled to 64 bits, rounded up: ceil(10^k / 2^(floor(log2(10^k)) - 63)), k = -31 … 45. */
static const uint64_t power_of_ten[] = {
    0x81ceb32c4b43fcf5u, 0xa2425ff75e14fc32u, 0xcad2f7f5359a3b3fu, 0xfd87b5f28300ca0eu,
    0x9e74d1b791e07e49u, 0xc612062576589ddbu, 0xf79687aed3eec552u, 0x9abe14cd44753b53u,
    0xc16d9a0095928a28u, 0xf1c90080baf72cb2u, 0x971da05074da7befu, 0xbce5086492111aebu,
    0xec1e4a7db69561a6u, 0x9392ee8e921d5d08u, 0xb877aa3236a4b44au, 0xe69594bec44de15cu,
    0x901d7cf73ab0acdau, 0xb424dc35095cd810u, 0xe12e13424bb40e14u, 0x8cbccc096f5088ccu,
    0xafebff0bcb24aaffu, 0xdbe6fecebdedd5bfu, 0x89705f4136b4a598u, 0xabcc77118461cefdu,
    0xd6bf94d5e57a42bdu, 0x8637bd05af6c69b6u, 0xa7c5ac471b478424u, 0xd1b71758e219652cu,
    0x83126e978d4fdf3cu, 0xa3d70a3d70a3d70bu, 0xcccccccccccccccdu, 0x8000000000000000u,
    0xa000000000000000u, 0xc800000000000000u, 0xfa00000000000000u, 0x9c40000000000000u,
    0xc350000000000000u, 0xf424000000000000u, 0x9896800000000000u, 0xbebc200000000000u,
    0xee6b280000000000u, 0x9502f90000000000u, 0xba43b74000000000u, 0xe8d4a51000000000u,
    0x9184e72a00000000u, 0xb5e620f480000000u, 0xe35fa931a0000000u, 0x8e1bc9bf04000000u,
    0xb1a2bc2ec5000000u, 0xde0b6b3a76400000u, 0x8ac7230489e80000u, 0xad78ebc5ac620000u,
    0xd8d726b7177a8000u, 0x878678326eac9000u, 0xa968163f0a57b400u, 0xd3c21bcecceda100u,
    0x84595161401484a0u, 0xa56fa5b99019a5c8u, 0xcecb8f27f4200f3au, 0x813f3978f8940985u,
    0xa18f07d736b90be6u, 0xc9f2c9cd04674edfu, 0xfc6f7c4045812297u, 0x9dc5ada82b70b59eu,
    0xc5371912364ce306u, 0xf684df56c3e01bc7u, 0x9a130b963a6c115du, 0xc097ce7bc90715b4u,
    0xf0bdc21abb48db21u, 0x96769950b50d88f5u, 0xbc143fa4e250eb32u, 0xeb194f8e1ae525feu,
    0x92efd1b8d0cf37bfu, 0xb7abc627050305aeu, 0xe596b7b0c643c71au, 0x8f7e32ce7bea5c70u,
    0xb35dbf821ae4f38cu,
};

static const uint32_t small_power[] = {1,      10,      100,      1000,      10000,
                                       100000, 1000000, 10000000, 100000000, 1000000000};

/* digits * 10^exponent */
typedef struct decimal {
    uint32_t digits;
    int32_t exponent;
} decimal;

/* The upper bits of scaled * value, with the lowest bit set if anything was cut off. */
static inline uint32_t round_to_odd(uint64_t scaled, uint32_t value) {
    unsigned __int128 product = (unsigned __int128)scaled * value;
    uint32_t high = (uint32_t)(product >> 64);
    uint32_t low = (uint32_t)(product >> 32);
    return high | (low > 1);
}

/* The shortest decimal within the rounding interval of c * 2^q, nearest to it; finite, not zero. */
static inline decimal shortest_decimal(uint32_t bits) {
    uint32_t fraction = bits & 0x7fffff;
    uint32_t biased = bits >> 23 & 0xff;
    uint32_t c = fraction;
    int32_t q = 1 - 150;
    if (biased != 0) {
        c |= 1u << 23;
        q = (int32_t)biased - 150;
        if (-q >= 0 && -q < 24 && (c & ((1u << -q) - 1)) == 0) { /* a small integer */
            return (decimal){c >> -q, 0};
        }
    }
    /* The interval's ends, times four, scaled by 10^-k so that one unit is less than its width. */
    uint32_t odd = c & 1;
    uint32_t closer_below = fraction == 0 && biased > 1;
    int32_t k = (q * 1262611 - (closer_below ? 524031 : 0)) >> 22; /* floor(log10(width)) */
    int32_t h = q + (-k * 1741647 >> 19) + 1;                      /* q + floor(log2(10^-k)) + 1 */
    uint64_t scaled = power_of_ten[-k - POWER_MIN];
    uint32_t lower = round_to_odd(scaled, (4 * c - 2 + closer_below) << h) + odd;
    uint32_t value = round_to_odd(scaled, (4 * c) << h);
    uint32_t upper = round_to_odd(scaled, (4 * c + 2) << h) - odd;

    /* One digit fewer, if exactly one such number is inside. Which it is looks random to a branch
     * predictor, so both candidates are computed. */
    uint32_t s = value / 4;
    uint32_t tens = s / 10;
    uint32_t tens_down = lower <= 40 * tens;
    uint32_t tens_up = 40 * tens + 40 <= upper;
    bool shorter = (s >= 10) & (tens_down != tens_up);
    /* Otherwise the one number inside, or of both the nearer, ties to even. */
    uint32_t down = lower <= 4 * s;
    uint32_t up = 4 * s + 4 <= upper;
    uint32_t nearer = value + (s & 1) > 4 * s + 2;
    uint32_t full = s + (down != up ? up : nearer);
    return (decimal){shorter ? tens + tens_up : full, k + shorter};
}

/* The eight digits of number < 10^8, one a byte, the first in the lowest byte. */
static inline uint64_t eight_digits(uint32_t number) {
    uint64_t fours = number / 10000 | (uint64_t)(number % 10000) << 32;
    uint64_t hundreds = (fours * 10486 >> 20) & 0x0000007f0000007fu;
    uint64_t twos = hundreds | (fours - 100 * hundreds) << 16;
    uint64_t tens = (twos * 103 >> 10) & 0x000f000f000f000fu;
    return tens | (twos - 10 * tens) << 8;
}

static inline int32_t count_digits(uint32_t number) {
    int32_t bits = 32 - __builtin_clz(number);
    int32_t digits = bits * 1233 >> 12;
    return digits + (number >= small_power[digits]);
}

/* The digits after the first as text, the second in the lowest byte, '0' after the last. */
typedef unsigned __int128 digit_text;

static inline void store_digits(char *out, digit_text text) {
    uint64_t halves[2] = {htole64((uint64_t)text), htole64((uint64_t)(text >> 64))};
    memcpy(out, halves, sizeof halves);
}

/* Places count digits with the value d.ddd * 10^exponent. They stay in registers until they are
 * where they belong: reading back what was just stored would stall. */
static inline size_t place_digits(char *out, char first, digit_text rest, int32_t count,
                                  int32_t exponent, int32_t highest_fixed) {
    if (exponent < LOWEST_FIXED || exponent > highest_fixed) {
        out[0] = first;
        out[1] = '.';
        store_digits(out + 2, rest);
        size_t length = count > 1 ? (size_t)count + 1 : 1;
        out[length++] = 'e';
        return length + td__format_int(out + length, exponent);
    }
    /* 0.000ddd or dd.ddd: all digits, then the point and once more those after it. */
    bool small = exponent < 0;
    int32_t start = small ? 1 - exponent : 0;
    int32_t point = small ? 1 : exponent + 1;
    memcpy(out, "0.000000", 8);
    out[start] = first;
    store_digits(out + start + 1, rest);
    out[point] = '.';
    store_digits(out + (small ? start : point) + 1, rest >> (small ? 0 : 8 * exponent));
    return (size_t)(small ? start + count : count > point ? count + 1 : point);
}

/* The texts that are not digits; 0 when bits is an ordinary number. */
static inline size_t place_special(char *out, bool zero, bool finite, bool nan, bool negative) {
    if (zero) {
        memcpy(out, negative ? "-0.0" : "0\0\0\0", 4);
        return negative ? 4 : 1;
    }
    if (finite) {
        return 0;
    }
    memcpy(out, nan ? "nan\0" : negative ? "-inf" : "inf\0", 4);
    return !nan && negative ? 4 : 3;
}

/* The first of nine digits and the other eight, a byte each. */
static inline size_t place_nine(char *out, uint32_t first, uint64_t rest, int32_t exponent) {
    int32_t count = 1 + (rest ? 8 - __builtin_clzll(rest) / 8 : 0);
    digit_text zeros = 0x3030303030303030u;
    return place_digits(out, (char)('0' + first), zeros << 64 | rest | zeros, count, exponent, 8);
}

size_t td__format_float(char *out, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t magnitude = bits & 0x7fffffff;
    bool negative = bits >> 31;
    if (magnitude == 0 || magnitude >= 0x7f800000) {
        return place_special(out, magnitude == 0, magnitude<0x7f800000, magnitude> 0x7f800000,
                             negative);
    }
    *out = '-';
    out += negative;
    decimal shortest = shortest_decimal(bits);
    int32_t length = count_digits(shortest.digits);
    uint32_t nine = shortest.digits * small_power[FLOAT_DIGITS - length];
    return negative + place_nine(out, nine / 100000000, eight_digits(nine % 100000000),
                                 shortest.exponent + length - 1);
}

/* ---- Many floats ---------------------------------------------------------------------------- */

/* The digits of a batch of floats, found in loops without a branch, which the compiler turns into vectors;
 * what they do is shortest_decimal and eight_digits. */
enum { BATCH = 32 };
typedef struct float_digits {
    uint32_t first[BATCH];   /* the first digit */
    uint64_t rest[BATCH];    /* the other eight, a byte each, the second one lowest */
    int32_t exponent[BATCH]; /* of the first digit */
} float_digits;

/* The rounding interval's ends and the value in it, scaled: lower, value and upper of shortest_decimal. */
typedef struct intervals {
    uint32_t lower[BATCH], value[BATCH], upper[BATCH];
} intervals;

#define INLINE static inline __attribute__((always_inline))

INLINE uint32_t upper_bits(uint64_t scaled, uint32_t value) {
    uint64_t product = (scaled >> 32) * value + ((uint32_t)scaled * (uint64_t)value >> 32);
    return (uint32_t)(product >> 32) | ((uint32_t)product > 1);
}

INLINE void find_intervals(const uint32_t *bits, intervals *found, int32_t *exponent) {
    uint64_t scaled[BATCH];
    for (size_t i = 0; i < BATCH; i++) {
        uint32_t fraction = bits[i] & 0x7fffff, biased = bits[i] >> 23 & 0xff;
        uint32_t c = fraction | (uint32_t)(biased != 0) << 23;
        uint32_t closer_below = (fraction == 0) & (biased > 1);
        int32_t q = (int32_t)(biased + (biased == 0)) - 150;
        int32_t k = (q * 1262611 - (int32_t)closer_below * 524031) >> 22;
        int32_t h = q + (-k * 1741647 >> 19) + 1;
        exponent[i] = k;
        found->lower[i] = (4 * c - 2 + closer_below) << h;
        found->value[i] = (4 * c) << h;
        found->upper[i] = (4 * c + 2) << h;
    }
    for (size_t i = 0; i < BATCH; i++) {
        scaled[i] = power_of_ten[-exponent[i] - POWER_MIN];
    }
    for (size_t i = 0; i < BATCH; i++) {
        uint32_t odd = bits[i] & 1;
        found->lower[i] = upper_bits(scaled[i], found->lower[i]) + odd;
        found->value[i] = upper_bits(scaled[i], found->value[i]);
        found->upper[i] = upper_bits(scaled[i], found->upper[i]) - odd;
    }
}

INLINE void choose_decimals(const intervals *in, uint32_t *digits, int32_t *exponent) {
    for (size_t i = 0; i < BATCH; i++) {
        uint32_t lower = in->lower[i], value = in->value[i], upper = in->upper[i];
        uint32_t s = value / 4, tens = s / 10;
        uint32_t tens_up = 40 * tens + 40 <= upper;
        uint32_t shorter = (s >= 10) & ((lower <= 40 * tens) ^ tens_up);
        uint32_t up = 4 * s + 4 <= upper;
        uint32_t one_inside = (uint32_t)(lower <= 4 * s) ^ up;
        uint32_t nearer = value + (s & 1) > 4 * s + 2;
        uint32_t full = s + ((up & one_inside) | (nearer & (one_inside ^ 1)));
        uint32_t mask = 0 - shorter;
        digits[i] = ((tens + tens_up) & mask) | (full & ~mask);
        exponent[i] += (int32_t)shorter;
    }
}

/* To nine digits, and those apart. */
INLINE void spread_digits(const uint32_t *digits, float_digits *out) {
    uint32_t nine[BATCH];
    for (size_t i = 0; i < BATCH; i++) {
        uint32_t d = digits[i];
        int32_t missing = 0;
#pragma GCC unroll 8
        for (size_t p = 1; p < FLOAT_DIGITS; p++) {
            missing += d < small_power[p];
        }
        d *= 1 + 9999 * (uint32_t)(missing >= 4);
        d *= 1 + 9999 * (uint32_t)(missing == 8);
        uint32_t more = (uint32_t)missing & 3;
        d *= 1 + 99 * (more >> 1);
        d *= 1 + 9 * (more & 1);
        nine[i] = d;
        out->exponent[i] += FLOAT_DIGITS - 1 - missing;
    }
    for (size_t i = 0; i < BATCH; i++) {
        out->first[i] = nine[i] / 100000000;
        uint32_t eight = nine[i] - out->first[i] * 100000000, high = eight / 10000;
        uint64_t fours = high | (uint64_t)(eight - high * 10000) << 32;
        uint64_t hundreds = (fours * 10486 >> 20) & 0x0000007f0000007fu;
        uint64_t twos = hundreds | (fours - 100 * hundreds) << 16;
        uint64_t tens = (twos * 103 >> 10) & 0x000f000f000f000fu;
        out->rest[i] = tens | (twos - 10 * tens) << 8;
    }
}

INLINE void find_digits(const uint32_t bits[BATCH], float_digits *found) {
    intervals between;
    uint32_t digits[BATCH];
    find_intervals(bits, &between, found->exponent);
    choose_decimals(&between, digits, found->exponent);
    spread_digits(digits, found);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void find_digits_avx2(const uint32_t bits[BATCH],
                                                             float_digits *found) {
    find_digits(bits, found);
}

__attribute__((target("avx512f,avx512vl,avx512dq,avx512bw"))) static void
find_digits_avx512(const uint32_t bits[BATCH], float_digits *found) {
    find_digits(bits, found);
}
#endif

typedef void digit_finder(const uint32_t bits[BATCH], float_digits *found);

/* NULL: one at a time is faster. */
static digit_finder *finder_here(void) {
#if defined(__x86_64__)
    return td__cpu_has(TD__CPU_AVX512) ? find_digits_avx512
           : td__cpu_has(TD__CPU_AVX2) ? find_digits_avx2
                                       : NULL;
#else
    return NULL;
#endif
}

static inline bool is_small_integer(float value) {
    return fabsf(value) < 16777216 && truncf(value) == value;
}

/* count <= BATCH */
static char *format_batch(char *out, const float *values, size_t count, digit_finder *find,
                          char after) {
    uint32_t bits[BATCH] = {0};
    float_digits digits;
    memcpy(bits, values, count * sizeof *bits);
    find(bits, &digits);
    for (size_t i = 0; i < count; i++) {
        if ((bits[i] & 0x7fffffff) >= 0x7f800000 || is_small_integer(values[i])) {
            out += td__format_float(out, values[i]);
        } else {
            *out = '-';
            out += bits[i] >> 31;
            out += place_nine(out, digits.first[i], digits.rest[i], digits.exponent[i]);
        }
        *out++ = after;
    }
    return out;
}

char *td__format_floats(char *out, const float *values, size_t count, char after) {
    enum { WORTH_IT = BATCH / 2 };
    digit_finder *find = finder_here();
    size_t done = 0;
    while (find && count - done >= WORTH_IT) {
        size_t some = count - done < BATCH ? count - done : BATCH;
        out = format_batch(out, values + done, some, find, after);
        done += some;
    }
    for (; done < count; done++) {
        out += td__format_float(out, values[done]);
        *out++ = after;
    }
    return out;
}

/* ---- Doubles and integers ------------------------------------------------------------------- */

size_t td__format_double(char *out, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint64_t magnitude = bits & INT64_MAX;
    uint64_t infinity = 0x7ffull << 52;
    bool negative = bits >> 63;
    size_t special =
        place_special(out, magnitude == 0, magnitude<infinity, magnitude> infinity, negative);
    if (special) {
        return special;
    }
    *out = '-';
    out += negative;
    char digits[DOUBLE_DIGITS];
    memset(digits, '0', sizeof digits);
    int32_t count, exponent;
    td__shortest_digits(value < 0 ? -value : value, digits, &count, &exponent);
    uint64_t halves[2];
    memcpy(halves, digits + 1, sizeof halves);
    digit_text rest = (digit_text)le64toh(halves[1]) << 64 | le64toh(halves[0]);
    return negative + place_digits(out, digits[0], rest, count, exponent, 15);
}

size_t td__format_value(char *out, double value) {
    float single = (float)value;
    bool is_float = (double)single == value && truncf(single) != single;
    return is_float ? td__format_float(out, single) : td__format_double(out, value);
}

size_t td__format_rounded(char *out, double value, int digits) {
    return td__general_text(out, TD__NUMBER_ROOM, value, digits);
}

size_t td__format_uint(char *out, uint64_t value) {
    uint64_t scale = 100000000;
    if (value < scale) {
        int32_t length = value ? count_digits((uint32_t)value) : 1;
        uint64_t text = eight_digits((uint32_t)value) | 0x3030303030303030u;
        text = htole64(text >> (8 * (8 - length)));
        memcpy(out, &text, 8);
        return (size_t)length;
    }
    size_t length = td__format_uint(out, value / scale);
    uint64_t text = htole64(eight_digits((uint32_t)(value % scale)) | 0x3030303030303030u);
    memcpy(out + length, &text, 8);
    return length + 8;
}

size_t td__format_int(char *out, int64_t value) {
    *out = '-';
    bool negative = value < 0;
    return negative +
           td__format_uint(out + negative, negative ? -(uint64_t)value : (uint64_t)value);
}
