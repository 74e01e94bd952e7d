/* Fractal heaps: objects of many sizes in blocks that double in size. */
#ifndef TAPEDECK_HDF5_FRACTAL_H
#define TAPEDECK_HDF5_FRACTAL_H

#include "hdf5/file.h"

typedef struct td__h5_fractal {
    const td__hdf5 *file;
    unsigned offset_size, length_size; /* in the name of an object */
    uint64_t width;                    /* blocks in a row of the table */
    unsigned start_bits, direct_bits;  /* logarithms of the smallest and largest direct block */
    uint64_t rows;                     /* of the root; 0: it is a direct block */
    uint64_t root;
} td__h5_fractal;

TD_NODISCARD td_status td__h5_fractal_open(const td__hdf5 *file, uint64_t address,
                                           td__h5_fractal *heap, td_error *error);
/* The bytes of an object, by the name that the heap gave it. */
TD_NODISCARD td_status td__h5_fractal_object(const td__h5_fractal *heap, td__h5_cursor id,
                                             td__h5_cursor *object, td_error *error);

#endif
