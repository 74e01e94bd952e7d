/* Bytes being made, in memory. The first failure sticks and is all that needs checking. */
#ifndef TAPEDECK_HDF5_OUTPUT_H
#define TAPEDECK_HDF5_OUTPUT_H

#include "base/memory.h"

#include <string.h>

typedef struct td__h5_output {
    uint8_t *bytes;
    size_t size, capacity;
    bool failed; /* memory was exhausted */
} td__h5_output;

/* size zero bytes at the end; NULL when memory is exhausted. */
static inline uint8_t *td__h5_extend(td__h5_output *output, size_t size) {
    size_t whole = output->size + size;
    if (output->failed || whole < size ||
        !td__grow(&output->bytes, &output->capacity, whole, SIZE_MAX, 1)) {
        output->failed = true;
        return NULL;
    }
    uint8_t *end = output->bytes + output->size;
    output->size = whole;
    return memset(end, 0, size);
}

static inline void td__h5_put(td__h5_output *output, const void *bytes, size_t size) {
    uint8_t *end = td__h5_extend(output, size);
    if (end && size > 0) {
        memcpy(end, bytes, size);
    }
}

/* Little-endian. */
static inline void td__h5_encode(uint8_t *to, uint64_t value, unsigned size) {
    for (unsigned i = 0; i < size; i++) {
        to[i] = (uint8_t)(value >> (8 * i));
    }
}

static inline void td__h5_put_number(td__h5_output *output, uint64_t value, unsigned size) {
    uint8_t *end = td__h5_extend(output, size);
    if (end) {
        td__h5_encode(end, value, size);
    }
}

static inline size_t td__h5_padded(size_t size) {
    return (size + 7) / 8 * 8;
}

/* Zeros up to the next multiple of eight. */
static inline void td__h5_align(td__h5_output *output) {
    (void)td__h5_extend(output, td__h5_padded(output->size) - output->size);
}

#endif
