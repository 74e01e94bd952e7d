/* A dataset's header, as its parts read it. */
#ifndef TAPEDECK_HDF5_DATASET_H
#define TAPEDECK_HDF5_DATASET_H

#include "hdf5/message.h"
#include "hdf5/type.h"

typedef struct td__h5_dataset {
    const td__hdf5 *file;
    const char *name; /* for messages */
    td__h5_type type;
    td_shape shape;
    int64_t count;
    td__h5_cursor space, layout, fill, filters; /* bodies of messages; empty where there is none */
} td__h5_dataset;

td_status td__h5_dataset_damaged(const td__h5_dataset *set, const char *what, td_error *error);
td_status td__h5_dataset_unsupported(const td__h5_dataset *set, const char *what, td_error *error);

/* What values may unpack to, whatever the file claims: 16 MiB and twice the file. */
static inline uint64_t td__h5_unpacked_maximum(const td__hdf5 *file) {
    return ((uint64_t)16 << 20) + 2 * (uint64_t)file->size;
}

/* Puts the values of a chunked dataset into out, which has room for all of them, as they are in the
 * file. What no chunk covers stays as it is. */
TD_NODISCARD td_status td__h5_chunks_read(const td__h5_dataset *set, uint8_t *out, td_error *error);

#endif
