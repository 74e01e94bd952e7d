/* Floats of two bytes: IEEE 754's binary16, and the upper half of a float32 (bfloat16). */
#ifndef TAPEDECK_BASE_HALF_H
#define TAPEDECK_BASE_HALF_H

#include <stdint.h>
#include <string.h>

static inline float td__float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t td__bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float td__from_bfloat16(uint16_t bits) {
    return td__float_of((uint32_t)bits << 16);
}

/* A normal number has its exponent's bias changed; a subnormal one is a difference of two normal
 * ones, so that it survives where subnormal float32 are flushed to zero. */
static inline float td__from_float16(uint16_t bits) {
    uint32_t sign = (uint32_t)(bits & 0x8000u) << 16, magnitude = bits & 0x7fffu;
    uint32_t shifted = magnitude << 13;
    uint32_t normal = shifted + ((magnitude >= 0x7c00 ? 224u : 112u) << 23);
    float tiny = td__float_of(shifted | 113u << 23) - td__float_of(113u << 23);
    return td__float_of(sign | (magnitude < 0x400 ? td__bits_of(tiny) : normal));
}

#endif
