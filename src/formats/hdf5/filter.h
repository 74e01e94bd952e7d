/* Filters: what happened to a chunk's bytes on their way into the file, undone. */
#ifndef TAPEDECK_HDF5_FILTER_H
#define TAPEDECK_HDF5_FILTER_H

#include "hdf5/file.h"

enum { TD__H5_FILTERS_MAXIMUM = 8 };

typedef struct td__h5_pipeline {
    unsigned count;
    unsigned ids[TD__H5_FILTERS_MAXIMUM];
    const char *unsupported; /* what cannot be undone; else NULL */
} td__h5_pipeline;

/* False when body is cut short or has too many filters. An empty body is no filters. */
bool td__h5_pipeline_read(td__h5_cursor body, td__h5_pipeline *pipeline);

/* Undoes the filters that mask does not except. packed is size bytes; scratch is two blocks of room
 * bytes. The result, *unpacked of *unpacked_size bytes, lies in one of the three. False when the
 * bytes are damaged or do not fit. */
bool td__h5_pipeline_undo(const td__h5_pipeline *pipeline, uint32_t mask, size_t element,
                          const uint8_t *packed, size_t size, uint8_t *const scratch[2],
                          size_t room, const uint8_t **unpacked, size_t *unpacked_size);

#endif
