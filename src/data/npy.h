/* NPY: an array of numbers with a short description before it. */
#ifndef TAPEDECK_DATA_NPY_H
#define TAPEDECK_DATA_NPY_H

#include "data/table.h"
#include "tensor/npy.h"

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
struct zip;
/* Opens a zip file for reading; NULL on failure, which is TD_FORMAT. The caller discards it. */
struct zip *td__npz_open(const char *path, td_error *error);
/* Unpacks a member of an open libzip archive, without believing the size it claims; TD_RANGE when it
 * has more than maximum bytes. td__bytes_release. */
td_status td__zip_unpack(struct zip *archive, uint64_t index, const char *what, int64_t maximum,
                         td__bytes *bytes, td_error *error);
/* That labels has as many rows as the inputs; takes it into the table, also on failure. */
td_status td__table_take_label(td__table *table, td__array label, int64_t rows, const char *path,
                               const char *what, td_error *error);

#endif
