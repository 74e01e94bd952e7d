/* Datatypes and dataspaces: what an element is and how many there are. */
#ifndef TAPEDECK_HDF5_TYPE_H
#define TAPEDECK_HDF5_TYPE_H

#include "hdf5/file.h"

typedef struct td__h5_type {
    enum { TD__H5_OTHER, TD__H5_NUMBER, TD__H5_TEXT, TD__H5_TEXT_VARIABLE } kind;
    uint32_t size;   /* of an element in the file; at least 1 */
    bool big, sign;  /* NUMBER: big-endian, signed */
    bool real;       /* NUMBER: an IEEE float */
    td_dtype dtype;  /* NUMBER: what it becomes */
    bool padded;     /* TEXT: with spaces, which are not part of it */
    const char *why; /* OTHER: what it is */
} td__h5_type;

/* A type that has no meaning here is OTHER; bad in body only when it is cut short. */
td__h5_type td__h5_type_read(td__h5_cursor *body);
/* TD_UNSUPPORTED for more than TD_MAX_RANK dimensions. A null space is of shape (0). */
TD_NODISCARD td_status td__h5_space_read(const td__hdf5 *file, td__h5_cursor body, td_shape *shape,
                                         td_error *error);

/* True when values of this type can be used as they lie in the file. */
bool td__h5_type_is_native(const td__h5_type *type);
/* count values of a NUMBER into to, which has room for as many of type->dtype; from may be the end
 * of it. False when a number is larger than its new type holds. */
bool td__h5_convert(const td__h5_type *type, const uint8_t *from, size_t count, void *to);

#endif
