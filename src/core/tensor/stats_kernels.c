/* Block kernels in plain C with vectors of four, and in AVX2 and AVX-512.
 *
 * A block is read twice: first its sum, minimum, maximum and zeros; then, about the mean m found,
 * d = x - m:  mean = m + sum(d)/n,  m2 = sum(d^2) - sum(d)^2/n.  The second pass costs little (the
 * block is in cache) and makes float lanes precise: the correction removes the rounding of the
 * first sum, and nothing large is subtracted from something large. Sums are reordered into lanes.
 *
 * These kernels do not count NaN and infinities. They make the sum non-finite, and only then does
 * the caller count them. */
#include "tensor/stats.h"

#include <math.h>
#include <string.h>

/* Differences in this range have squares that float holds, 1024 of them summed. */
#define LARGEST 1e17
#define SMALLEST 1e-15

static bool in_range(double sum, double min, double max) {
    double range = max - min;
    return isfinite(sum) && max < LARGEST && min > -LARGEST && (range > SMALLEST || range == 0);
}

static void finish_block(td__block *block, double n, double m, double d, double d2) {
    double m2 = d2 - d * d / n;
    block->mean = m + d / n;
    block->m2 = m2 > 0 ? m2 : 0;
}

/* Which of 0 and -0 a vector's minimum is depends on the order of its elements. */
static inline double never_minus_zero(float value) {
    return (double)value + 0.0;
}

enum { LANES = 8 };

/* Four lanes: what every processor that we know has registers for (SSE2, NEON). */
typedef float quad __attribute__((vector_size(16), may_alias));
typedef int32_t quad_masks __attribute__((vector_size(16)));

static inline quad load_quad(const float *x) {
    quad v;
    memcpy(&v, x, sizeof v);
    return v;
}

static inline quad select_quad(quad_masks where, quad a, quad b) {
    return (quad)(((quad_masks)a & where) | ((quad_masks)b & ~where));
}

static bool portable_block(const td__piece *piece, td__block *block) {
    const float *x = piece->x;
    size_t count = piece->count;
    enum { VECTORS = LANES / 4 };
    quad sum[VECTORS] = {0}, min[VECTORS], max[VECTORS];
    quad_masks zeros[VECTORS] = {0};
    for (size_t k = 0; k < VECTORS; k++) {
        min[k] = max[k] = load_quad(x + 4 * k);
    }
    for (size_t i = 0; i < count; i += LANES) {
        for (size_t k = 0; k < VECTORS; k++) {
            quad v = load_quad(x + i + 4 * k);
            sum[k] += v;
            min[k] = select_quad(v < min[k], v, min[k]);
            max[k] = select_quad(v > max[k], v, max[k]);
            zeros[k] -= v == 0; /* a comparison that holds is -1 */
        }
    }
    double total = 0;
    block->min = min[0][0];
    block->max = max[0][0];
    block->zeros = 0;
    for (size_t k = 0; k < LANES; k++) {
        total += sum[k / 4][k % 4];
        block->min = fmin(block->min, min[k / 4][k % 4]);
        block->max = fmax(block->max, max[k / 4][k % 4]);
        block->zeros += zeros[k / 4][k % 4];
    }
    if (!in_range(total, block->min, block->max)) {
        return false;
    }
    block->min += 0.0; /* never -0, as below */
    block->max += 0.0;
    double n = (double)count;
    float m = (float)(total / n);
    quad d1[VECTORS] = {0}, d2[VECTORS] = {0};
    for (size_t i = 0; i < count; i += LANES) {
        for (size_t k = 0; k < VECTORS; k++) {
            quad d = load_quad(x + i + 4 * k) - m;
            d1[k] += d;
            d2[k] += d * d;
        }
    }
    double first = 0, second = 0;
    for (size_t k = 0; k < LANES; k++) {
        first += d1[k / 4][k % 4];
        second += d2[k / 4][k % 4];
    }
    finish_block(block, n, m, first, second);
    return true;
}

/* Bins are the upper twelve bits. The negative numbers closest to zero share theirs with -0, which is
 * to be counted as 0. */
enum { SHIFT = 20, ZERO_BIN = 0, NEGATIVE_ZERO_BIN = 1 << 11 };

static uint32_t count_of(const td__bin_counts *entry) {
    return (*entry)[0] + (*entry)[1];
}

/* -0 is rare: it is counted only when its bin has grown. */
static void move_negative_zeros(const float *x, size_t count, td__bin_counts *table) {
    uint32_t found = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        found += bits == 0x80000000u;
    }
    uint32_t *entry = table[NEGATIVE_ZERO_BIN];
    uint32_t first = found < entry[0] ? found : entry[0];
    entry[0] -= first;
    entry[1] -= found - first;
    table[ZERO_BIN][0] += found;
}

/* A cache line of what is read next, of the block that begins there. */
static inline void prefetch_block(const float *next, size_t i) {
    if (next) {
        __builtin_prefetch(next + i);
    }
}

/* Two elements come with one load: the counters' loads and stores are what limits the speed. */
static inline void count_four(const float *x, td__bin_counts *table) {
    uint64_t a, b;
    memcpy(&a, x, sizeof a);
    memcpy(&b, x + 2, sizeof b);
    table[(uint32_t)a >> SHIFT][0]++;
    table[a >> (32 + SHIFT)][1]++;
    table[(uint32_t)b >> SHIFT][0]++;
    table[b >> (32 + SHIFT)][1]++;
}

static void portable_bin(const td__piece *piece, td__bin_counts *table) {
    const float *x = piece->x;
    size_t count = piece->count;
    uint32_t before = count_of(&table[NEGATIVE_ZERO_BIN]);
    size_t i = 0;
    for (; i + 16 <= count; i += 16) {
        prefetch_block(piece->next, i);
#pragma GCC unroll 4
        for (size_t k = 0; k < 16; k += 4) {
            count_four(x + i + k, table);
        }
    }
    for (; i + 4 <= count; i += 4) {
        count_four(x + i, table);
    }
    for (; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        table[bits >> SHIFT][i % 2]++;
    }
    if (count_of(&table[NEGATIVE_ZERO_BIN]) != before) {
        move_negative_zeros(x, count, table);
    }
}

#if defined(__x86_64__)
#include <immintrin.h>

/* Writes the bins of what is not zero, one after another, of `count` elements, which are whole groups of 16;
 * returns how many those are. bins has room for 16 more. */
typedef size_t pack_kernel(const td__piece *piece, size_t count, uint16_t *bins);

/* Each zero waits for the store of the one before it: where there are many, as behind a relu, they are
 * taken out first. */
static inline void bin_packed(const td__piece *piece, pack_kernel *pack, td__bin_counts *table) {
    enum { MANY = 8 }; /* one in MANY */
    size_t count = piece->count, whole = count & ~(size_t)15;
    if (piece->zeros * MANY < count) {
        portable_bin(piece, table);
        return;
    }
    uint16_t bins[TD__BLOCK + 16];
    size_t used = pack(piece, whole, bins), i = 0;
    for (; i + 4 <= used; i += 4) {
        uint64_t four;
        memcpy(&four, bins + i, sizeof four);
        table[(uint16_t)four][0]++;
        table[(uint16_t)(four >> 16)][1]++;
        table[(uint16_t)(four >> 32)][0]++;
        table[four >> 48][1]++;
    }
    for (; i < used; i++) {
        table[bins[i]][0]++;
    }
    table[ZERO_BIN][0] += (uint32_t)(whole - used);
    portable_bin(&(td__piece){.x = piece->x + whole, .count = count - whole}, table);
}

#define AVX2 __attribute__((target("avx2,fma,popcnt")))

AVX2 static inline double sum_lanes(__m256 v) {
    __m256d low = _mm256_cvtps_pd(_mm256_castps256_ps128(v));
    __m256d high = _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));
    __m256d pairs = _mm256_add_pd(low, high);
    __m128d two = _mm_add_pd(_mm256_castpd256_pd128(pairs), _mm256_extractf128_pd(pairs, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

AVX2 static inline float min_lanes(__m256 v) {
    __m128 four = _mm_min_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    four = _mm_min_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_min_ss(four, _mm_movehdup_ps(four)));
}

AVX2 static inline int64_t sum_ints(__m256i v) {
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4E));
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0xB1));
    return _mm_cvtsi128_si32(four);
}

/* A comparison that holds is -1. */
AVX2 static inline __m256i minus_one_where_zero(__m256i count, __m256 v) {
    __m256 is_zero = _mm256_cmp_ps(v, _mm256_setzero_ps(), _CMP_EQ_OQ);
    return _mm256_add_epi32(count, _mm256_castps_si256(is_zero));
}

/* Four independent chains hide the latency of an addition; the quicker instructions need fewer, and
 * all of them together must fit sixteen registers. */
enum { CHAINS = 4 };

AVX2 static inline double sum_chains(const __m256 chain[CHAINS]) {
    return sum_lanes(
        _mm256_add_ps(_mm256_add_ps(chain[0], chain[1]), _mm256_add_ps(chain[2], chain[3])));
}

AVX2 static inline double first_pass(const float *x, size_t count, td__block *block) {
    const __m256 zero = _mm256_setzero_ps();
    __m256 sum[CHAINS] = {zero, zero, zero, zero};
    __m256 min = _mm256_loadu_ps(x), max = min;
    __m256i zeros[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    size_t i = 0;
    for (; i + 8 * CHAINS <= count; i += 8 * CHAINS) {
#pragma GCC unroll 2
        for (int c = 0; c < CHAINS; c += 2) {
            __m256 v = _mm256_loadu_ps(x + i + 8 * c), w = _mm256_loadu_ps(x + i + 8 * c + 8);
            sum[c] = _mm256_add_ps(sum[c], v);
            sum[c + 1] = _mm256_add_ps(sum[c + 1], w);
            min = _mm256_min_ps(min, _mm256_min_ps(v, w));
            max = _mm256_max_ps(max, _mm256_max_ps(v, w));
            zeros[0] = minus_one_where_zero(zeros[0], v);
            zeros[1] = minus_one_where_zero(zeros[1], w);
        }
    }
    for (; i < count; i += 8) {
        __m256 v = _mm256_loadu_ps(x + i);
        sum[0] = _mm256_add_ps(sum[0], v);
        min = _mm256_min_ps(min, v);
        max = _mm256_max_ps(max, v);
        zeros[0] = minus_one_where_zero(zeros[0], v);
    }
    block->min = never_minus_zero(min_lanes(min));
    block->max = never_minus_zero(-min_lanes(_mm256_sub_ps(zero, max)));
    block->zeros = -sum_ints(_mm256_add_epi32(zeros[0], zeros[1]));
    return sum_chains(sum);
}

AVX2 static bool avx2_block(const td__piece *piece, td__block *block) {
    const float *x = piece->x;
    size_t count = piece->count;
    double sum = first_pass(x, count, block);
    if (!in_range(sum, block->min, block->max)) {
        return false;
    }
    double n = (double)count;
    float m = (float)(sum / n);
    const __m256 centre = _mm256_set1_ps(m), zero = _mm256_setzero_ps();
    __m256 d1[CHAINS] = {zero, zero, zero, zero}, d2[CHAINS] = {zero, zero, zero, zero};
    size_t i = 0;
    for (; i + 8 * CHAINS <= count; i += 8 * CHAINS) {
        prefetch_block(piece->next, i);
        prefetch_block(piece->next, i + 16);
#pragma GCC unroll 4
        for (int c = 0; c < CHAINS; c++) {
            __m256 d = _mm256_sub_ps(_mm256_loadu_ps(x + i + 8 * c), centre);
            d1[c] = _mm256_add_ps(d1[c], d);
            d2[c] = _mm256_fmadd_ps(d, d, d2[c]);
        }
    }
    for (; i < count; i += 8) {
        __m256 d = _mm256_sub_ps(_mm256_loadu_ps(x + i), centre);
        d1[0] = _mm256_add_ps(d1[0], d);
        d2[0] = _mm256_fmadd_ps(d, d, d2[0]);
    }
    finish_block(block, n, m, sum_chains(d1), sum_chains(d2));
    return true;
}

/* Entry m has the lanes whose bits are set in m, one after another, a byte each. */
#define LANE(m, i)                                                                                 \
    ((uint64_t)(i) * ((m) >> (i)&1u) << 8 * __builtin_popcount((m) & ((1u << (i)) - 1u)))
#define ENTRY(m)                                                                                   \
    LANE(m, 1) | LANE(m, 2) | LANE(m, 3) | LANE(m, 4) | LANE(m, 5) | LANE(m, 6) | LANE(m, 7)
#define ENTRIES_4(m) ENTRY(m), ENTRY(m + 1u), ENTRY(m + 2u), ENTRY(m + 3u)
#define ENTRIES_16(m) ENTRIES_4(m), ENTRIES_4(m + 4u), ENTRIES_4(m + 8u), ENTRIES_4(m + 12u)
#define ENTRIES_64(m) ENTRIES_16(m), ENTRIES_16(m + 16u), ENTRIES_16(m + 32u), ENTRIES_16(m + 48u)
static const uint64_t lanes_of[256] = {ENTRIES_64(0u), ENTRIES_64(64u), ENTRIES_64(128u),
                                       ENTRIES_64(192u)};

AVX2 static size_t avx2_pack(const td__piece *piece, size_t count, uint16_t *bins) {
    const __m256i zero = _mm256_setzero_si256();
    size_t used = 0;
    for (size_t i = 0; i < count; i += 16) {
        prefetch_block(piece->next, i);
#pragma GCC unroll 2
        for (size_t k = i; k < i + 16; k += 8) {
            __m256i bits = _mm256_castps_si256(_mm256_loadu_ps(piece->x + k));
            __m256i is_zero = _mm256_cmpeq_epi32(_mm256_slli_epi32(bits, 1), zero);
            unsigned keep = 0xffu ^ (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(is_zero));
            __m256i lanes = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((int64_t)lanes_of[keep]));
            __m256i kept = _mm256_permutevar8x32_epi32(_mm256_srli_epi32(bits, SHIFT), lanes);
            __m128i narrow =
                _mm_packus_epi32(_mm256_castsi256_si128(kept), _mm256_extracti128_si256(kept, 1));
            _mm_storeu_si128((__m128i *)(bins + used), narrow);
            used += (size_t)__builtin_popcount(keep);
        }
    }
    return used;
}

static void avx2_bin(const td__piece *piece, td__bin_counts *table) {
    bin_packed(piece, avx2_pack, table);
}

#define AVX512 __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,popcnt")))

AVX512 static inline __m256 upper_half(__m512 v) {
    return _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(v), 1));
}

/* The sums of AVX2's four chains: the halves of two registers, added in the same order. */
AVX512 static inline double sum_pair(__m512 a, __m512 b) {
    __m256 left = _mm256_add_ps(_mm512_castps512_ps256(a), upper_half(a));
    __m256 right = _mm256_add_ps(_mm512_castps512_ps256(b), upper_half(b));
    return sum_lanes(_mm256_add_ps(left, right));
}

/* Eight elements at the end, which AVX2 adds to its first chain. */
enum { EIGHT = 0xff };

AVX512 static inline double wide_first_pass(const float *x, size_t count, td__block *block) {
    const __m512 zero = _mm512_setzero_ps();
    __m512 a = zero, b = zero, min = _mm512_broadcast_f32x8(_mm256_loadu_ps(x)), max = min;
    int64_t zeros = 0;
    size_t i = 0;
    for (; i + 32 <= count; i += 32) {
        __m512 v = _mm512_loadu_ps(x + i), w = _mm512_loadu_ps(x + i + 16);
        a = _mm512_add_ps(a, v);
        b = _mm512_add_ps(b, w);
        min = _mm512_min_ps(min, _mm512_min_ps(v, w));
        max = _mm512_max_ps(max, _mm512_max_ps(v, w));
        __mmask16 first = _mm512_cmp_ps_mask(v, zero, _CMP_EQ_OQ);
        __mmask16 second = _mm512_cmp_ps_mask(w, zero, _CMP_EQ_OQ);
        zeros += _mm_popcnt_u32(_mm512_kunpackw(second, first));
    }
    for (; i < count; i += 8) {
        __m512 v = _mm512_maskz_loadu_ps(EIGHT, x + i);
        a = _mm512_mask_add_ps(a, EIGHT, a, v);
        min = _mm512_mask_min_ps(min, EIGHT, min, v);
        max = _mm512_mask_max_ps(max, EIGHT, max, v);
        zeros += _mm_popcnt_u32(_mm512_mask_cmp_ps_mask(EIGHT, v, zero, _CMP_EQ_OQ));
    }
    block->min = never_minus_zero(_mm512_reduce_min_ps(min));
    block->max = never_minus_zero(_mm512_reduce_max_ps(max));
    block->zeros = zeros;
    return sum_pair(a, b);
}

/* AVX2's bits, with half of its instructions. */
AVX512 static bool wide_block(const td__piece *piece, td__block *block) {
    const float *x = piece->x;
    size_t count = piece->count, i = 0;
    double sum = wide_first_pass(x, count, block);
    if (!in_range(sum, block->min, block->max)) {
        return false;
    }
    double n = (double)count;
    float m = (float)(sum / n);
    const __m512 centre = _mm512_set1_ps(m), zero = _mm512_setzero_ps();
    __m512 d1[2] = {zero, zero}, d2[2] = {zero, zero};
    for (; i + 32 <= count; i += 32) {
        prefetch_block(piece->next, i);
        prefetch_block(piece->next, i + 16);
#pragma GCC unroll 2
        for (int c = 0; c < 2; c++) {
            __m512 d = _mm512_sub_ps(_mm512_loadu_ps(x + i + 16 * c), centre);
            d1[c] = _mm512_add_ps(d1[c], d);
            d2[c] = _mm512_fmadd_ps(d, d, d2[c]);
        }
    }
    for (; i < count; i += 8) {
        __m512 d = _mm512_sub_ps(_mm512_maskz_loadu_ps(EIGHT, x + i), centre);
        d1[0] = _mm512_mask_add_ps(d1[0], EIGHT, d1[0], d);
        d2[0] = _mm512_mask3_fmadd_ps(d, d, d2[0], EIGHT);
    }
    finish_block(block, n, m, sum_pair(d1[0], d1[1]), sum_pair(d2[0], d2[1]));
    return true;
}

/* Registers whose upper parts are in use slow down all that follows, and not every compiler clears them
 * at the end of a function for another target. */
AVX512 static bool avx512_block(const td__piece *piece, td__block *block) {
    bool clean = wide_block(piece, block);
    _mm256_zeroupper();
    return clean;
}

AVX512 static size_t wide_pack(const td__piece *piece, size_t count, uint16_t *bins) {
    const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
    size_t used = 0;
    for (size_t i = 0; i < count; i += 16) {
        prefetch_block(piece->next, i);
        __m512i bits = _mm512_castps_si512(_mm512_loadu_ps(piece->x + i));
        __mmask16 keep = _mm512_test_epi32_mask(bits, magnitude);
        __m512i packed = _mm512_maskz_compress_epi32(keep, _mm512_srli_epi32(bits, SHIFT));
        _mm256_storeu_si256((__m256i *)(bins + used), _mm512_cvtepi32_epi16(packed));
        used += (size_t)_mm_popcnt_u32(keep);
    }
    return used;
}

AVX512 static size_t avx512_pack(const td__piece *piece, size_t count, uint16_t *bins) {
    size_t used = wide_pack(piece, count, bins);
    _mm256_zeroupper(); /* as above */
    return used;
}

static void avx512_bin(const td__piece *piece, td__bin_counts *table) {
    bin_packed(piece, avx512_pack, table);
}

#endif

/* Vectors of four are NEON's. */
static const td__stats_kernels sets[TD__CPU_COUNT] = {
    [TD__CPU_PORTABLE] = {portable_block, portable_bin},
    [TD__CPU_NEON] = {portable_block, portable_bin},
#if defined(__x86_64__)
    [TD__CPU_AVX2] = {avx2_block, avx2_bin},
    [TD__CPU_AVX512] = {avx512_block, avx512_bin},
#endif
};

const td__stats_kernels *td__stats_kernels_of(td__cpu cpu) {
    return &sets[cpu];
}
