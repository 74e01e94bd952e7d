/* Sums over floats in double precision. */
#ifndef TAPEDECK_TENSOR_SUMS_H
#define TAPEDECK_TENSOR_SUMS_H

#include "tapedeck/base.h"

/* The sum of a[i] b[i]; eight partial sums, so that the compiler can use vectors. */
static inline double td__dot(int64_t n, const float *a, const float *b) {
    double sums[8] = {0};
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        for (int k = 0; k < 8; k++) {
            sums[k] += (double)a[i + k] * (double)b[i + k];
        }
    }
    for (; i < n; i++) {
        sums[0] += (double)a[i] * (double)b[i];
    }
    return ((sums[0] + sums[4]) + (sums[1] + sums[5])) +
           ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

#endif
