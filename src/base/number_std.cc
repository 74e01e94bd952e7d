// std::to_chars and std::from_chars behind a C interface: exact, fast, blind to the locale.
#include "base/number_std.h"

#include <algorithm>
#include <charconv>
#include <cmath>

void td__shortest_digits(double value, char *digits, int32_t *count, int32_t *exponent) {
    char text[32]; // d.ddde±xx
    char *end = std::to_chars(text, text + sizeof text, value, std::chars_format::scientific).ptr;
    char *at = text;
    int32_t length = 0;
    for (; *at != 'e'; at++) {
        if (*at != '.') {
            digits[length++] = *at;
        }
    }
    at += at[1] == '+' ? 2 : 1;
    *count = length;
    *exponent = 0;
    std::from_chars(at, end, *exponent);
}

// Out of range is both too large and too small: the sign of the first digit's exponent tells which.
static bool is_tiny(const char *text, const char *end) {
    long exponent = 0;
    for (const char *at = text; at != end; at++) {
        if ((*at | 0x20) == 'e') {
            bool positive = at[1] == '+';
            long written = 0;
            if (std::from_chars(at + 1 + positive, end, written).ec != std::errc()) {
                return at[1] == '-';
            }
            exponent = written;
            end = at;
            break;
        }
    }
    const char *point = std::find(text, end, '.');
    const char *first = std::find_if(text, end, [](char c) { return c >= '1' && c <= '9'; });
    return point - first + exponent < 0;
}

template <typename T> static td_status parse(const char *text, size_t length, T *value) {
    const char *end = text + length;
    T result = 0;
    std::from_chars_result got = std::from_chars(text, end, result);
    if (got.ptr != end || got.ec == std::errc::invalid_argument) {
        return TD_FORMAT;
    }
    if (got.ec == std::errc::result_out_of_range) {
        if (!is_tiny(text, end)) {
            return TD_RANGE;
        }
        result = std::copysign(T(0), *text == '-' ? T(-1) : T(1));
    }
    *value = result;
    return TD_OK;
}

td_status td__from_chars_float(const char *text, size_t length, float *value) {
    return parse(text, length, value);
}

td_status td__from_chars_double(const char *text, size_t length, double *value) {
    return parse(text, length, value);
}
