/* B-trees of version 1: the index of old groups and of chunks. */
#ifndef TAPEDECK_HDF5_TREE_H
#define TAPEDECK_HDF5_TREE_H

#include "hdf5/file.h"

enum { TD__H5_TREE_GROUP = 0, TD__H5_TREE_CHUNKS = 1 };

/* key is the one before the child. budget is the walk's, for what the child leads to. */
typedef td_status td__h5_tree_visit(void *user, td__h5_cursor key, uint64_t child, uint64_t *budget,
                                    td_error *error);

/* Calls visit with each child of each leaf, in order, until it fails. */
TD_NODISCARD td_status td__h5_tree(const td__hdf5 *file, uint64_t address, unsigned type,
                                   size_t key_size, td__h5_tree_visit *visit, void *user,
                                   td_error *error);

#endif
