/* Random numbers: explicit state, seeded, the same on every machine.
 *
 * td__random is a stream (xoshiro256++) for shuffling and initialising. td__philox is a function of
 * a key and a counter (Philox4x32-10), for masks that threads fill in any order. */
#ifndef TAPEDECK_BASE_RANDOM_H
#define TAPEDECK_BASE_RANDOM_H

#include "tapedeck/base.h"

typedef struct td__random {
    uint64_t state[4];
} td__random;

/* Different values of `stream` give independent streams for one seed. */
void td__random_seed(td__random *random, uint64_t seed, uint64_t stream);
uint64_t td__random_next(td__random *random);
/* Uniform in [0, bound), unbiased; bound > 0. */
uint64_t td__random_below(td__random *random, uint64_t bound);
/* Uniform in [0, 1). */
double td__random_uniform(td__random *random);
/* Mean 0, variance 1. */
double td__random_normal(td__random *random);

void td__philox(uint64_t key, uint64_t counter, uint32_t output[4]);

#endif
