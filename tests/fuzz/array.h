/* What the fuzz targets of array files share. */
#ifndef TAPEDECK_FUZZ_ARRAY_H
#define TAPEDECK_FUZZ_ARRAY_H

#include "data/npy.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Reads every element of an array that a parser accepted. */
static inline void read_all(const td__array *array, int64_t rows) {
    float *row = malloc((size_t)array->count * sizeof *row);
    if (!row) {
        abort();
    }
    volatile double sum = 0;
    for (int64_t r = 0; r < rows; r++) {
        td__array_read(array, r, row);
        sum += (double)row[array->count - 1] + td__array_value(array, r, array->count - 1);
    }
    free(row);
}

#endif
