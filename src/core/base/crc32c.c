/* CRC-32C: eight bytes an instruction with SSE4.2, three streams at once for long data; eight
 * tables of 256 entries otherwise. */
#include "base/crc32c.h"

#include "base/cpu.h"
#include "base/little.h"

#include <pthread.h>

#define POLYNOMIAL 0x82f63b78u /* 0x1edc6f41, bits reversed */

/* Three streams hide the instruction's latency of three cycles; their crcs are joined by shifting
 * one past the zeros that follow it, a table lookup for each of its bytes. */
enum { STREAM = 2048 };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint32_t tables[8][256];    /* tables[k][b]: byte b followed by k zero bytes */
static uint32_t shift_one[4][256]; /* a crc followed by STREAM zero bytes, by its k-th byte */
static uint32_t shift_two[4][256]; /* by 2 * STREAM */

static uint32_t one_byte(uint32_t crc) {
    for (int bit = 0; bit < 8; bit++) {
        crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL : 0);
    }
    return crc;
}

static uint32_t past_zeros(uint32_t crc, size_t count) {
    while (count--) {
        crc = crc >> 8 ^ tables[0][crc & 0xff];
    }
    return crc;
}

/* The crc is linear: a shifted sum is the sum of the shifted, so 32 bits give every entry. */
static void fill_shift(uint32_t table[4][256], size_t zeros) {
    for (int byte = 0; byte < 4; byte++) {
        for (uint32_t bit = 0; bit < 8; bit++) {
            uint32_t shifted = past_zeros(1u << (8 * byte) << bit, zeros);
            for (uint32_t value = 1u << bit; value < 2u << bit; value++) {
                table[byte][value] = table[byte][value - (1u << bit)] ^ shifted;
            }
        }
    }
}

static void fill_tables(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        tables[0][byte] = one_byte(byte);
    }
    for (int k = 1; k < 8; k++) {
        for (uint32_t byte = 0; byte < 256; byte++) {
            tables[k][byte] = past_zeros(tables[k - 1][byte], 1);
        }
    }
    fill_shift(shift_one, STREAM);
    fill_shift(shift_two, 2 * STREAM);
}

uint32_t td__crc32c_portable(uint32_t crc, const void *data, size_t size) {
    pthread_once(&once, fill_tables);
    const uint8_t *bytes = data;
    crc = ~crc;
    for (; size >= 8; size -= 8, bytes += 8) {
        uint64_t word = td__load64(bytes) ^ crc;
        crc = 0;
        for (int k = 0; k < 8; k++) {
            crc ^= tables[7 - k][word >> (8 * k) & 0xff];
        }
    }
    for (; size > 0; size--, bytes++) {
        crc = crc >> 8 ^ tables[0][(crc ^ *bytes) & 0xff];
    }
    return ~crc;
}

#ifdef __x86_64__
#include <nmmintrin.h>

static inline uint32_t shift(uint32_t table[4][256], uint32_t crc) {
    return table[0][crc & 0xff] ^ table[1][crc >> 8 & 0xff] ^ table[2][crc >> 16 & 0xff] ^
           table[3][crc >> 24];
}

__attribute__((target("sse4.2"))) static uint32_t crc32c_sse(uint32_t crc, const void *data,
                                                             size_t size) {
    const uint8_t *bytes = data;
    uint64_t a = ~crc;
    if (size >= 3 * STREAM) {
        pthread_once(&once, fill_tables);
    }
    for (; size >= 3 * STREAM; size -= 3 * STREAM, bytes += 3 * STREAM) {
        uint64_t b = 0, c = 0;
        for (size_t i = 0; i < STREAM; i += 8) {
            a = _mm_crc32_u64(a, td__load64(bytes + i));
            b = _mm_crc32_u64(b, td__load64(bytes + STREAM + i));
            c = _mm_crc32_u64(c, td__load64(bytes + 2 * STREAM + i));
        }
        a = shift(shift_two, (uint32_t)a) ^ shift(shift_one, (uint32_t)b) ^ c;
    }
    for (; size >= 8; size -= 8, bytes += 8) {
        a = _mm_crc32_u64(a, td__load64(bytes));
    }
    uint32_t last = (uint32_t)a;
    for (; size > 0; size--, bytes++) {
        last = _mm_crc32_u8(last, *bytes);
    }
    return ~last;
}

uint32_t td__crc32c(uint32_t crc, const void *data, size_t size) {
    return td__cpu_has_sse42() ? crc32c_sse(crc, data, size) : td__crc32c_portable(crc, data, size);
}
#else
uint32_t td__crc32c(uint32_t crc, const void *data, size_t size) {
    return td__crc32c_portable(crc, data, size);
}
#endif
