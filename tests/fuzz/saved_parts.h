/* What the fuzz targets of SavedModels share: three files in one input. */
#ifndef TAPEDECK_FUZZ_SAVED_PARTS_H
#define TAPEDECK_FUZZ_SAVED_PARTS_H

#include "base/proto.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct part {
    const uint8_t *data;
    size_t size;
} part;

/* The next one, behind its length; what is missing at the end is left out. */
static inline part take_part(const uint8_t **at, const uint8_t *end) {
    size_t left = (size_t)(end - *at), size = left >= 4 ? td__load32(*at) : 0;
    *at += left >= 4 ? 4 : left;
    left = (size_t)(end - *at);
    part taken = {*at, size < left ? size : left};
    *at += taken.size;
    return taken;
}

#endif
