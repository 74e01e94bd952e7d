/* xoshiro256++ (Blackman, Vigna) seeded by splitmix64, and Philox4x32-10 (Salmon et al.). */
#include "base/random.h"

#include <math.h>

static uint64_t splitmix(uint64_t *state) {
    uint64_t z = (*state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static uint64_t rotate_left(uint64_t x, int k) {
    return (x << k) | (x >> (64 - k));
}

void td__random_seed(td__random *random, uint64_t seed, uint64_t stream) {
    uint64_t mixed = seed;
    uint64_t start = splitmix(&mixed) ^ rotate_left(stream * 0xD1342543DE82EF95u, 32);
    for (int i = 0; i < 4; i++) {
        random->state[i] = splitmix(&start);
    }
}

uint64_t td__random_next(td__random *random) {
    uint64_t *s = random->state;
    uint64_t result = rotate_left(s[0] + s[3], 23) + s[0];
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

uint64_t td__random_below(td__random *random, uint64_t bound) {
    uint64_t threshold = (0 - bound) % bound; /* values below it would be too frequent */
    for (;;) {
        uint64_t value = td__random_next(random);
        if (value >= threshold) {
            return value % bound;
        }
    }
}

double td__random_uniform(td__random *random) {
    return (double)(td__random_next(random) >> 11) * 0x1.0p-53;
}

double td__random_normal(td__random *random) {
    /* Box-Muller; one of the pair is thrown away so that the state is just the stream's. */
    double u = 1.0 - td__random_uniform(random);
    double v = td__random_uniform(random);
    return sqrt(-2.0 * log(u)) * cos(2.0 * 3.14159265358979323846 * v);
}

void td__philox(uint64_t key, uint64_t counter, uint32_t output[4]) {
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    uint32_t c0 = (uint32_t)counter, c1 = (uint32_t)(counter >> 32), c2 = 0, c3 = 0;
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0;
        uint64_t p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        uint32_t n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    output[0] = c0;
    output[1] = c1;
    output[2] = c2;
    output[3] = c3;
}
