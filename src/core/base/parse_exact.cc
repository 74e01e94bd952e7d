// std::from_chars behind two C functions.
#include "base/parse_exact.h"

#include <charconv>
#include <limits>

namespace {

// Returns true when a decimal number is at least 1: distinguishes too large from too small.
bool is_large(const char *from, const char *end) {
    const char *p = from;
    p += p < end && *p == '-';
    long long point = 0, first = -1, position = 0; // digits before the point; first non-zero digit
    bool fraction = false;
    for (; p < end && ((*p >= '0' && *p <= '9') || *p == '.'); p++) {
        if (*p == '.') {
            fraction = true;
            continue;
        }
        if (first < 0 && *p != '0') {
            first = position;
        }
        position++;
        point += !fraction;
    }
    long long exponent = 0;
    if (p < end) {
        bool negative = p[1] == '-';
        for (p += 1 + (p[1] == '-' || p[1] == '+'); p < end; p++) {
            exponent = exponent < 1000000000 ? exponent * 10 + (*p - '0') : exponent;
        }
        exponent = negative ? -exponent : exponent;
    }
    return point - first + exponent > 0;
}

template <typename Float> Float exact(const char *from, const char *end) {
    Float value = 0;
    if (std::from_chars(from, end, value).ec == std::errc::result_out_of_range) {
        value = is_large(from, end) ? std::numeric_limits<Float>::infinity() : Float(0);
        return *from == '-' ? -value : value;
    }
    return value;
}

} // namespace

float td__exact_float32(const char *from, const char *end) {
    return exact<float>(from, end);
}

double td__exact_float64(const char *from, const char *end) {
    return exact<double>(from, end);
}
