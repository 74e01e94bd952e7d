/* XXH64, a fast 64-bit hash. */
#ifndef TAPEDECK_TENSOR_HASH_H
#define TAPEDECK_TENSOR_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t td__xxh64(const void *data, size_t size, uint64_t seed);

#endif
