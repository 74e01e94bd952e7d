/* NPY: an array of numbers with a short description before it. */
#ifndef TAPEDECK_DATA_NPY_H
#define TAPEDECK_DATA_NPY_H

#include "data/table.h"
#include "tensor/npy.h"
#include "zip/zip.h"

/* Describes the array in bytes, which stay where they are. what names it in messages. */
td_status td__npy_parse(td__array *array, int64_t *rows, const td__bytes *bytes, const char *what,
                        td_error *error);
/* The same of an array that is no rows of examples: shape is all of its shape, which may be () or have
 * no elements; then there are no rows. */
td_status td__npy_parse_whole(td__array *array, int64_t *rows, td_shape *shape,
                              const td__bytes *bytes, const char *what, td_error *error);
/* The same for IDX. */
td_status td__idx_parse(td__array *array, int64_t *rows, const td__bytes *bytes, const char *what,
                        td_error *error);
/* An open .npz: its file, mapped, and the archive in it. TD_NOT_FOUND, TD_IO, TD_FORMAT, TD_MEMORY. */
typedef struct td__npz {
    td__bytes bytes;
    td__zip zip;
} td__npz;
td_status td__npz_open(td__npz *npz, const char *path, td_error *error);
void td__npz_close(td__npz *npz);
/* An array of an open .npz file; bytes: what it points into, the file itself or what was unpacked. An optional one
 * that is not there leaves all as it is. */
td_status td__npz_array(const td__input *input, const char *name, bool optional, int64_t maximum,
                        td__array *array, int64_t *rows, td__bytes *bytes, td_error *error);
/* That labels has as many rows as the inputs; takes it into the table, also on failure. */
td_status td__table_take_label(td__table *table, td__array label, int64_t rows, const char *path,
                               const char *what, td_error *error);

#endif
