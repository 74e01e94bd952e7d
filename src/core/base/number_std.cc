// std::to_chars behind a C interface: exact and blind to the locale.
#include "base/number_std.h"

#include <charconv>

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

size_t td__general_text(char *out, size_t size, double value, int digits) {
    std::to_chars_result result =
        std::to_chars(out, out + size, value, std::chars_format::general, digits);
    return static_cast<size_t>(result.ptr - out);
}
