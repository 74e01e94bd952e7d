/* The 64-bit fingerprint: XXH64 (Collet; github.com/Cyan4973/xxHash, doc/xxhash_spec.md) of the
 * elements' bytes, as files have them, seeded with XXH64 of type, rank and dimensions. */
#include "tensor/hash.h"

#include "base/little.h"
#include "tensor/order.h"
#include "tensor/stats.h"

static const uint64_t P1 = 0x9E3779B185EBCA87u, P2 = 0xC2B2AE3D27D4EB4Fu, P3 = 0x165667B19E3779F9u,
                      P4 = 0x85EBCA77C2B2AE63u, P5 = 0x27D4EB2F165667C5u;

static uint64_t rotate_left(uint64_t x, int k) {
    return (x << k) | (x >> (64 - k));
}

static uint64_t mix_lane(uint64_t lane, uint64_t input) {
    return rotate_left(lane + input * P2, 31) * P1;
}

static uint64_t merge_lane(uint64_t hash, uint64_t lane) {
    return (hash ^ mix_lane(0, lane)) * P1 + P4;
}

static uint64_t finish_hash(uint64_t hash, const unsigned char *p, size_t rest) {
    for (; rest >= 8; p += 8, rest -= 8) {
        hash = rotate_left(hash ^ mix_lane(0, td__load64(p)), 27) * P1 + P4;
    }
    if (rest >= 4) {
        hash = rotate_left(hash ^ (uint64_t)td__load32(p) * P1, 23) * P2 + P3;
        p += 4;
        rest -= 4;
    }
    for (; rest > 0; p++, rest--) {
        hash = rotate_left(hash ^ *p * P5, 11) * P1;
    }
    hash = (hash ^ (hash >> 33)) * P2;
    hash = (hash ^ (hash >> 29)) * P3;
    return hash ^ (hash >> 32);
}

uint64_t td__xxh64(const void *data, size_t size, uint64_t seed) {
    const unsigned char *p = data;
    size_t rest = size;
    uint64_t hash = seed + P5;
    if (size >= 32) {
        uint64_t a = seed + P1 + P2, b = seed + P2, c = seed, d = seed - P1;
        for (; rest >= 32; p += 32, rest -= 32) {
            a = mix_lane(a, td__load64(p));
            b = mix_lane(b, td__load64(p + 8));
            c = mix_lane(c, td__load64(p + 16));
            d = mix_lane(d, td__load64(p + 24));
        }
        hash = rotate_left(a, 1) + rotate_left(b, 7) + rotate_left(c, 12) + rotate_left(d, 18);
        hash = merge_lane(merge_lane(merge_lane(merge_lane(hash, a), b), c), d);
    }
    return finish_hash(hash + size, p, rest);
}

td_status td_hash_of(const td_view *view, uint64_t *hash, td_error *error) {
    int64_t count;
    td_status status = td__view_check(view, &count, error);
    if (status != TD_OK) {
        return status;
    }
    unsigned char kind[8 * (TD_MAX_RANK + 2)];
    size_t used = 0;
    for (int32_t i = -2; i < view->shape.rank; i++) {
        uint64_t word = i == -2   ? (uint64_t)view->dtype
                        : i == -1 ? (uint64_t)view->shape.rank
                                  : (uint64_t)view->shape.dims[i];
        for (int byte = 0; byte < 8; byte++) {
            kind[used++] = (unsigned char)(word >> (8 * byte));
        }
    }
    td_view little;
    status = td__view_to_file(view, &little, error);
    if (!status) {
        size_t bytes = (size_t)count * td_dtype_size(view->dtype);
        *hash = td__xxh64(little.data, bytes, td__xxh64(kind, used, 0));
        td__view_release(&little);
    }
    return status;
}
