/* Heaps: where a file keeps what has no fixed size. */
#ifndef TAPEDECK_HDF5_HEAP_H
#define TAPEDECK_HDF5_HEAP_H

#include "hdf5/file.h"

/* The bytes of an object of the global heap at an address; bad when there is no such object. */
td__h5_cursor td__h5_global_object(const td__hdf5 *file, uint64_t heap, uint64_t index);

#endif
