/* One register of floats, in GCC's vector types: arithmetic is the compiler's. */
#ifndef TAPEDECK_TAPE_KERNELS_VECTOR_H
#define TAPEDECK_TAPE_KERNELS_VECTOR_H

#include "tape/kernels/math.h"
#include "tape/kernels/variant.h"

/* Unaligned, and allowed to look at floats. A comparison gives a mask: all bits of a
 * lane, or none. */
typedef float td__vec
    __attribute__((vector_size(TD__LANES * sizeof(float)), aligned(4), may_alias));
typedef int32_t td__mask
    __attribute__((vector_size(TD__LANES * sizeof(int32_t)), aligned(4), may_alias));
typedef uint8_t td__bytes __attribute__((vector_size(TD__LANES), aligned(1), may_alias));

TD__INLINE td__vec td__load(const float *p) {
    return *(const td__vec *)p;
}

TD__INLINE void td__store(float *p, td__vec v) {
    *(td__vec *)p = v;
}

/* a where the mask is set, b elsewhere */
TD__INLINE td__vec td__choose(td__mask mask, td__vec a, td__vec b) {
    return (td__vec)(((td__mask)a & mask) | ((td__mask)b & ~mask));
}

/* What TD__TILE_… says of a result; NaN stays. */
TD__INLINE td__vec td__tile_end(td__vec v, int flags) {
    const td__vec none = {0}, six = none + 6.0f;
    if (flags & TD__TILE_ENDS) {
        v = td__choose(v < none, none, v);
    }
    if (flags & TD__TILE_RELU6) {
        v = td__choose(v > six, six, v);
    }
    return v;
}

/* Less than every number, in each lane. */
#define TD__LOWEST ((td__vec){0} - __builtin_inff())

TD__INLINE float td__largest_lane(td__vec v) {
    float lanes[TD__LANES];
    td__store(lanes, v);
#pragma GCC unroll 4
    for (int half = TD__LANES / 2; half > 0; half /= 2) {
#pragma GCC unroll 8
        for (int l = 0; l < half; l++) {
            lanes[l] = lanes[l + half] > lanes[l] ? lanes[l + half] : lanes[l];
        }
    }
    return lanes[0];
}

/* The largest of n numbers: NaN is passed over, none gives -inf. */
TD__INLINE float td__largest(int64_t n, const float *x) {
    td__vec best = TD__LOWEST;
    int64_t i = 0;
    for (; i + TD__LANES <= n; i += TD__LANES) {
        td__vec v = td__load(x + i);
        best = td__choose(v > best, v, best);
    }
    float max = td__largest_lane(best);
    for (; i < n; i++) {
        max = x[i] > max ? x[i] : max;
    }
    return max;
}

/* y = e^(x - max) / sum e^(x - max), n of them; y may be x. Returns the factor, 0 when the sum is. */
TD__INLINE float td__softmax_row(int64_t n, const float *x, float max, float *y) {
    float total = 0;
#pragma omp simd reduction(+ : total)
    for (int64_t i = 0; i < n; i++) {
        float e = td__exp_below(x[i] - max);
        y[i] = e;
        total += e;
    }
    float factor = total == 0.0f ? 0.0f : 1.0f / total;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        y[i] *= factor;
    }
    return factor;
}

/* Lane l of the result is lane index[l] of v. */
TD__INLINE td__vec td__shuffle(td__vec v, td__mask index) {
#if defined(__clang__)
    td__vec result = {0};
    for (int l = 0; l < TD__LANES; l++) {
        result[l] = v[index[l] & (TD__LANES - 1)];
    }
    return result;
#else
    return __builtin_shuffle(v, index);
#endif
}

/* Lanes of two registers in turns: the first halves', the second halves'. */
#if TD__LANES == 16
#define TD__FIRST_HALVES 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define TD__SECOND_HALVES 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif TD__LANES == 8
#define TD__FIRST_HALVES 0, 8, 1, 9, 2, 10, 3, 11
#define TD__SECOND_HALVES 4, 12, 5, 13, 6, 14, 7, 15
#else
#define TD__FIRST_HALVES 0, 4, 1, 5
#define TD__SECOND_HALVES 2, 6, 3, 7
#endif
#if defined(__clang__)
#define TD__IN_TURNS(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define TD__IN_TURNS(a, b, ...) __builtin_shuffle(a, b, (td__mask){__VA_ARGS__})
#endif

/* A square of rows to one of columns. Each turn moves the highest bit of an element's row to the lowest
 * of its column, and that of its column to its row: after as many turns as they have bits they have
 * changed places. */
TD__INLINE void td__transpose(td__vec square[TD__LANES]) {
#pragma GCC unroll 4
    for (int turn = 1; turn < TD__LANES; turn *= 2) {
        td__vec next[TD__LANES];
#pragma GCC unroll 8
        for (int i = 0; i < TD__LANES / 2; i++) {
            td__vec a = square[i], b = square[i + TD__LANES / 2];
            next[2 * i] = TD__IN_TURNS(a, b, TD__FIRST_HALVES);
            next[2 * i + 1] = TD__IN_TURNS(a, b, TD__SECOND_HALVES);
        }
        __builtin_memcpy(square, next, sizeof next);
    }
}

#endif
