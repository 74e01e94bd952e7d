/* Dense storage: links or attributes of an object that has many, each a message in a fractal heap,
 * found through a B-tree of version 2. */
#ifndef TAPEDECK_HDF5_DENSE_H
#define TAPEDECK_HDF5_DENSE_H

#include "hdf5/file.h"

enum { TD__H5_DENSE_LINKS = 5, TD__H5_DENSE_ATTRIBUTES = 8 };

typedef td_status td__h5_dense_visit(void *user, td__h5_cursor message, td_error *error);

/* Reads where the heap and the tree are, from a link info or attribute info message after its
 * version, and calls visit with each message, in the order of their names' hashes. */
TD_NODISCARD td_status td__h5_dense(const td__hdf5 *file, td__h5_cursor info, unsigned type,
                                    td__h5_dense_visit *visit, void *user, td_error *error);

#endif
