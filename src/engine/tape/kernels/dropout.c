/* Dropout masks and normal numbers by Philox4x32-10 (Salmon et al.), many counters at once.
 *
 * A block of BLOCK counters gives 4 * BLOCK elements: word w of counter c decides element
 * w * BLOCK + c of the block, two words (Box, Muller) elements of both. So what an element gets is a
 * function of the key and its number.
 */
#include "tape/kernels/math.h"
#include "tape/kernels/variant.h"

enum { BLOCK = TD__MASK_BLOCK / 4 };

static void philox_block(uint64_t key, uint64_t first, uint32_t words[TD__MASK_BLOCK]) {
    uint32_t *c0 = words, *c1 = c0 + BLOCK, *c2 = c1 + BLOCK, *c3 = c2 + BLOCK;
    for (int i = 0; i < BLOCK; i++) {
        uint64_t counter = first + (uint64_t)i;
        c0[i] = (uint32_t)counter;
        c1[i] = (uint32_t)(counter >> 32);
        c2[i] = c3[i] = 0;
    }
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
#pragma omp simd
        for (int i = 0; i < BLOCK; i++) {
            uint64_t p0 = (uint64_t)0xD2511F53u * c0[i];
            uint64_t p1 = (uint64_t)0xCD9E8D57u * c2[i];
            c0[i] = (uint32_t)(p1 >> 32) ^ c1[i] ^ k0;
            c2[i] = (uint32_t)(p0 >> 32) ^ c3[i] ^ k1;
            c1[i] = (uint32_t)p1;
            c3[i] = (uint32_t)p0;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

/* mask[i] = 1 where the random word is at least threshold; first is a multiple of the block. */
static void random_mask(int64_t first, int64_t n, uint64_t key, uint32_t threshold, uint8_t *mask) {
    for (int64_t start = 0; start < n; start += TD__MASK_BLOCK) {
        uint32_t words[TD__MASK_BLOCK];
        philox_block(key, (uint64_t)(first + start) / 4, words);
        int64_t size = n - start < TD__MASK_BLOCK ? n - start : TD__MASK_BLOCK;
        for (int64_t i = 0; i < size; i++) {
            mask[start + i] = words[i] >= threshold;
        }
    }
}

/* y (=|+=) mask ? scale x : 0 */
static void masked_scale(int64_t n, float scale, const uint8_t *mask, const float *x, bool add,
                         float *y) {
    if (add) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            y[i] += mask[i] ? scale * x[i] : 0.0f;
        }
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            y[i] = mask[i] ? scale * x[i] : 0.0f;
        }
    }
}

/* Sine and cosine of an angle in units of 2^-32 turns: within an eighth of a turn of the nearest of
 * four axes by their series, then turned by quarters. */
TD__INLINE void sine_and_cosine(uint32_t angle, float *sine, float *cosine) {
    uint32_t quarters = (angle + 0x20000000u) >> 30;
    float t = (float)(int32_t)(angle - (quarters << 30)) * (6.28318531f * 0x1p-32f), square = t * t;
    float s = 1.0f / 362880.0f;
    s = s * square - 1.0f / 5040.0f;
    s = s * square + 1.0f / 120.0f;
    s = s * square - 1.0f / 6.0f;
    s = s * square * t + t;
    float c = 1.0f / 40320.0f;
    c = c * square - 1.0f / 720.0f;
    c = c * square + 1.0f / 24.0f;
    c = c * square - 0.5f;
    c = c * square + 1.0f;
    float across = quarters & 1 ? c : s, along = quarters & 1 ? s : c;
    *sine = quarters & 2 ? -across : across;
    *cosine = (quarters + 1) & 2 ? -along : along;
}

static void normal_block(const uint32_t words[TD__MASK_BLOCK], float normal[TD__MASK_BLOCK]) {
    for (int pair = 0; pair < 4 * BLOCK; pair += 2 * BLOCK) {
        const uint32_t *sizes = words + pair, *angles = sizes + BLOCK;
#pragma omp simd
        for (int i = 0; i < BLOCK; i++) {
            float uniform = ((float)(int32_t)(sizes[i] >> 8) + 0.5f) * 0x1p-24f; /* never 0 */
            float radius = __builtin_sqrtf(-2.0f * td__log_normal(uniform)), sine, cosine;
            sine_and_cosine(angles[i], &sine, &cosine);
            normal[pair + i] = radius * cosine;
            normal[pair + BLOCK + i] = radius * sine;
        }
    }
}

static void add_noise(int64_t first, int64_t n, uint64_t key, float stddev, const float *x,
                      float *y) {
    for (int64_t start = 0; start < n; start += TD__MASK_BLOCK) {
        uint32_t words[TD__MASK_BLOCK];
        float normal[TD__MASK_BLOCK];
        philox_block(key, (uint64_t)(first + start) / 4, words);
        normal_block(words, normal);
        int64_t size = n - start < TD__MASK_BLOCK ? n - start : TD__MASK_BLOCK;
#pragma omp simd
        for (int64_t i = 0; i < size; i++) {
            y[start + i] = x[start + i] + stddev * normal[i];
        }
    }
}

void TD__VARIANT(td__fill_dropout)(td__kernels_table *table) {
    table->random_mask = random_mask;
    table->masked_scale = masked_scale;
    table->add_noise = add_noise;
}
