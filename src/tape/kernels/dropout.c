/* Dropout masks by Philox4x32-10 (Salmon et al.), many counters at once.
 *
 * A block of BLOCK counters gives 4 * BLOCK elements: word w of counter c decides element
 * w * BLOCK + c of the block. So the mask is a function of the key and the element's number.
 */
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

void TD__VARIANT(td__fill_dropout)(td__kernels_table *table) {
    table->random_mask = random_mask;
    table->masked_scale = masked_scale;
}
