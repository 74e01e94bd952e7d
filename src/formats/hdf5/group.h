/* The links of a group, whichever way the file keeps them. */
#ifndef TAPEDECK_HDF5_GROUP_H
#define TAPEDECK_HDF5_GROUP_H

#include "hdf5/file.h"

/* Longer names are refused. */
enum { TD__H5_NAME_SIZE = 4096 };

typedef struct td__h5_link {
    const char *name; /* in the file; name_size bytes, at least 1, none of them 0 */
    size_t name_size;
    enum { TD__H5_HARD, TD__H5_SOFT, TD__H5_OUTSIDE } kind;
    td__hdf5_object object; /* HARD: inside the file */
    const char *target;     /* SOFT: a path of target_size bytes */
    size_t target_size;
} td__h5_link;

typedef td_status td__h5_link_visit(void *user, const td__h5_link *link, td_error *error);

/* None when the object is no group. */
TD_NODISCARD td_status td__h5_links(const td__hdf5 *file, td__hdf5_object group,
                                    td__h5_link_visit *visit, void *user, td_error *error);

#endif
