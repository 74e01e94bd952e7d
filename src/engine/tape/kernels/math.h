/* exp, log, tanh and the normal distribution in float32, written so that loops over them become
 * vector code. Within 2 units in the last place of the true value except where said; NaN stays NaN.
 *
 * The polynomials are least-maximum fits (Lawson) over the stated ranges.
 */
#ifndef TAPEDECK_TAPE_KERNELS_MATH_H
#define TAPEDECK_TAPE_KERNELS_MATH_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define TD__INLINE static inline __attribute__((always_inline))

TD__INLINE int32_t td__bits(float x) {
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

TD__INLINE float td__from_bits(int32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* 2^n for -126 <= n <= 127; unsigned, because n is anything where NaN came in. */
TD__INLINE float td__power_of_2(int32_t n) {
    return td__from_bits((int32_t)(((uint32_t)n + 127u) << 23));
}

/* e^x = 2^n e^r with |r| <= ln2 / 2: gives e^r and n, for x whose e^x is not far out of range. When x is
 * NaN e^r is, and n anything. */
TD__INLINE float td__exp_parts(float x, int32_t *n) {
    float shifted = x * 1.44269504f + 12582912.0f; /* 1.5 * 2^23: n ends up in the low bits */
    *n = (int32_t)((uint32_t)td__bits(shifted) - 0x4B400000u);
    float whole = shifted - 12582912.0f;
    float r = x - whole * 0.693359375f;
    r = r + whole * 2.12194440e-4f;
    float p = 1.0f / 5040.0f;
    p = p * r + 1.0f / 720.0f;
    p = p * r + 1.0f / 120.0f;
    p = p * r + 1.0f / 24.0f;
    p = p * r + 1.0f / 6.0f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    return p * r + 1.0f;
}

/* e^x; overflow gives inf, underflow 0 or a denormal. */
TD__INLINE float td__expf(float x) {
    x = x > 89.0f ? 89.0f : x;
    x = x < -104.0f ? -104.0f : x;
    int32_t n;
    float p = td__exp_parts(x, &n);
    /* 2^n in two factors: 2^128 is no float, nor are the smallest results' scales. */
    int32_t half = n >> 1;
    return p * td__power_of_2(half) * td__power_of_2(n - half);
}

/* e^x for x that is not above 0, with fewer instructions and the same bits; below e^-87 it is 0. */
TD__INLINE float td__exp_below(float x) {
    int32_t n;
    float p = td__exp_parts(x < -87.0f ? -87.0f : x, &n);
    return x < -87.0f ? 0.0f : p * td__power_of_2(n);
}

/* ln x = e ln2 + ln(1 + f), f in [sqrt(1/2) - 1, sqrt(2) - 1], for positive x that are neither
 * denormal nor infinite */
TD__INLINE float td__log_normal(float x) {
    uint32_t bits = (uint32_t)td__bits(x);
    int32_t e = (int32_t)(bits - 0x3F3504F3u) >> 23; /* sqrt(1/2) */
    float f = td__from_bits((int32_t)(bits - ((uint32_t)e << 23))) - 1.0f;
    float p = -0.0797411054f;
    p = p * f + 0.126556516f;
    p = p * f - 0.129892915f;
    p = p * f + 0.142099515f;
    p = p * f - 0.166415811f;
    p = p * f + 0.200012013f;
    p = p * f - 0.250003040f;
    p = p * f + 0.333333313f;
    float square = f * f, whole = (float)e;
    float result = f * square * p - 0.5f * square;
    result = result + whole * -2.12194440e-4f;
    return f + result + whole * 0.693359375f;
}

TD__INLINE float td__logf(float x) {
    const float shift = 15.9423847f; /* 23 ln2 */
    bool denormal = x < 1.17549435e-38f;
    float result = td__log_normal(denormal ? x * 8388608.0f : x) - (denormal ? shift : 0.0f);
    result = x > 3.40282347e+38f ? x : result; /* inf */
    result = x == 0.0f ? -__builtin_inff() : result;
    return x < 0.0f || x != x ? __builtin_nanf("") : result;
}

TD__INLINE float td__sigmoidf(float x) {
    /* 1 / (1 + e^-x): inf where e^-x is, and nothing beside 1 where it is small. */
    x = x < -89.0f ? -89.0f : x;
    x = x > 86.0f ? 86.0f : x;
    int32_t n;
    float p = td__exp_parts(-x, &n);
    return 1.0f / (1.0f + 2.0f * p * td__power_of_2(n - 1));
}

TD__INLINE float td__tanhf(float x) {
    float s = x * x;
    float p = 0.00227123243f;
    p = p * s - 0.00832508784f;
    p = p * s + 0.0217632614f;
    p = p * s - 0.0539585948f;
    p = p * s + 0.133333012f;
    p = p * s - 0.333333343f;
    float near = x + x * s * p;
    float magnitude = x < 0.0f ? -x : x;
    float e = td__expf(-2.0f * magnitude);
    float far = (1.0f - e) / (1.0f + e);
    far = x < 0.0f ? -far : far;
    return magnitude < 0.625f ? near : far;
}

/* ln(1 + e^x), which never overflows */
TD__INLINE float td__softplusf(float x) {
    float magnitude = x < 0.0f ? -x : x;
    float e = td__expf(-magnitude);
    /* ln(1 + e), exact to first order for a small e */
    float u = 1.0f + e;
    float tail = u == 1.0f ? e : td__logf(u) * e / (u - 1.0f);
    return x != x ? x : (x > 0.0f ? x : 0.0f) + tail;
}

/* Q(t), with which erfc(t) = e^(Q(t) - t^2) for t from 0.93 on */
TD__INLINE float td__tail_exponent(float t) {
    float q = 1.56466876e-06f;
    q = q * t - 4.46243575e-05f;
    q = q * t + 0.000584718131f;
    q = q * t - 0.00470298203f;
    q = q * t + 0.0262603778f;
    q = q * t - 0.109797329f;
    q = q * t + 0.367873728f;
    q = q * t - 1.13005781f;
    q = q * t + 0.000276859006f;
    return q;
}

/* The normal distribution function, Phi(x) = erfc(-x / sqrt2) / 2; relative error 1e-6 down to
 * -5.8, where it has fallen to 3e-9; below, 0. */
TD__INLINE float td__normal_cdff(float x) {
    float z = x * 0.707106781f, t = z < 0.0f ? -z : z, s = z * z;
    float p = 8.29878045e-05f;
    p = p * s - 0.000812567887f;
    p = p * s + 0.00519951759f;
    p = p * s - 0.0268587824f;
    p = p * s + 0.112836845f;
    p = p * s - 0.376126319f;
    p = p * s + 1.12837923f;
    float near = 0.5f + 0.5f * z * p;
    float q = td__tail_exponent(t);
    float tail = t > 4.1f ? 0.0f : 0.5f * td__expf(q - s);
    float far = z < 0.0f ? tail : 1.0f - tail;
    return t < 0.93f ? near : x != x ? x : far;
}

/* The error function: z + z P(z^2) near 0, else 1 - e^(Q(|z|) - z^2), which rounds to 1 from 4 on. */
TD__INLINE float td__erff(float z) {
    float t = z < 0.0f ? -z : z, s = z * z;
    float p = -1.02098757e-05f;
    p = p * s + 0.000114315488f;
    p = p * s - 0.000850384415f;
    p = p * s + 0.00522219576f;
    p = p * s - 0.0268657804f;
    p = p * s + 0.112837873f;
    p = p * s - 0.376126379f;
    p = p * s + 0.128379166f;
    float q = td__tail_exponent(t);
    float far = t > 4.1f ? 1.0f : 1.0f - td__expf(q - s);
    return t < 0.93f ? z + z * p : z != z ? z : z < 0.0f ? -far : far;
}

#endif
