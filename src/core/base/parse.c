/* The parts of number parsing that are rare: exponents, long numbers, words. */
#include "base/parse.h"
#include "base/parse_exact.h"

#include <strings.h>

const double td__powers_of_ten[23] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                      1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                      1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

const char *td__parse_exponent(const char *text, int64_t *exponent) {
    const char *p = text + 1;
    bool negative = *p == '-';
    p += negative || *p == '+';
    const char *start = p;
    int64_t value = 0;
    for (; *p >= '0' && *p <= '9'; p++) {
        if (value < 1000000) { /* beyond any float, whatever the digits are */
            value = value * 10 + (*p - '0');
        }
    }
    if (p == start) {
        return text;
    }
    *exponent += negative ? -value : value;
    return p;
}

/* nan, inf, infinity, with a sign. */
static const char *parse_word(const char *text, double *value) {
    static const struct {
        const char *word;
        double value;
    } words[] = {{"nan", NAN}, {"infinity", INFINITY}, {"inf", INFINITY}};
    bool negative = *text == '-';
    const char *p = text + (negative || *text == '+');
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t length = strlen(words[i].word);
        if (strncasecmp(p, words[i].word, length) == 0) {
            *value = negative ? -words[i].value : words[i].value;
            return p + length;
        }
    }
    return NULL;
}

/* Where from_chars should begin: it takes no '+'. */
static const char *without_plus(const char *text) {
    return text + (*text == '+');
}

const char *td__parse_float32_slowly(const char *text, float *value) {
    td__decimal decimal;
    const char *end = td__parse_decimal(text, &decimal);
    if (!end) {
        double word;
        end = parse_word(text, &word);
        if (end) {
            *value = (float)word;
        }
        return end;
    }
    *value = td__exact_float32(without_plus(text), end);
    return end;
}

const char *td__parse_float64(const char *text, double *value) {
    td__decimal decimal;
    const char *end = td__parse_decimal(text, &decimal);
    if (!end) {
        return parse_word(text, value);
    }
    if (!td__decimal_double(&decimal, value)) {
        *value = td__exact_float64(without_plus(text), end);
    }
    return end;
}

bool td_parse_bytes(const char *text, int64_t *bytes) {
    static const struct {
        const char *unit;
        double bytes;
    } units[] = {{"", 1},         {"B", 1},      {"K", 0x1p10},   {"KB", 1e3},    {"KiB", 0x1p10},
                 {"M", 0x1p20},   {"MB", 1e6},   {"MiB", 0x1p20}, {"G", 0x1p30},  {"GB", 1e9},
                 {"GiB", 0x1p30}, {"T", 0x1p40}, {"TB", 1e12},    {"TiB", 0x1p40}};
    double number;
    const char *unit = td__parse_float64(text, &number);
    unit = unit ? unit + strspn(unit, " ") : NULL;
    for (size_t i = 0; unit && i < sizeof units / sizeof *units; i++) {
        double all = number * units[i].bytes;
        if (!strcasecmp(unit, units[i].unit) && all >= 1 && all < 0x1p62) {
            *bytes = (int64_t)all;
            return true;
        }
    }
    return false;
}
