/* HDF5 files: groups, attributes and datasets, read where they lie and written anew.
 *
 * Reading keeps to the bytes it is given: every offset, length and count in the file is checked
 * before it is followed, external links, external storage and user-defined links are refused, and
 * nothing is allocated in proportion to a number that the file merely claims.
 */
#ifndef TAPEDECK_HDF5_HDF5_H
#define TAPEDECK_HDF5_HDF5_H

#include "tapedeck/tensor.h"

/* --- reading ------------------------------------------------------------------------------ */

typedef struct td__hdf5 td__hdf5;

/* Over memory that stays valid until td__hdf5_close; origin is for messages, borrowed. NULL on
 * failure: TD_FORMAT, TD_UNSUPPORTED, TD_MEMORY. */
td__hdf5 *td__hdf5_open(const void *bytes, size_t size, const char *origin, td_error *error);
/* Accepts NULL. */
void td__hdf5_close(td__hdf5 *file);

/* An object's address in the file; 0 is none. */
typedef uint64_t td__hdf5_object;

td__hdf5_object td__hdf5_root(const td__hdf5 *file);
/* By path from a group: "model_weights/dense/kernel:0". *found is 0 when there is none. */
TD_NODISCARD td_status td__hdf5_find(td__hdf5 *file, td__hdf5_object from, const char *path,
                                     td__hdf5_object *found, td_error *error);
/* Calls each with the names and objects of a group, in the file's order, until it fails. The object
 * is 0 for a soft link that leads nowhere. Nothing when the object is no group. A group may be
 * inside itself: who walks down bounds the depth. */
typedef td_status td__hdf5_each(void *user, const char *name, td__hdf5_object object,
                                td_error *error);
TD_NODISCARD td_status td__hdf5_list(td__hdf5 *file, td__hdf5_object group, td__hdf5_each *each,
                                     void *user, td_error *error);
/* A dataset: shape, element type (converted: bool to uint8, half and big-endian floats to float32,
 * narrow integers to int32 or int64) and values. Values that can be used as they lie are borrowed
 * from the file (aligned or not), others are in memory that td__hdf5_release frees, of at most
 * 16 MiB and four times the file. TD_DTYPE when the object is no dataset. */
typedef struct td__hdf5_array {
    td_view view;
    void *owned; /* NULL: borrowed */
} td__hdf5_array;
TD_NODISCARD td_status td__hdf5_read(td__hdf5 *file, td__hdf5_object dataset, const char *name,
                                     td__hdf5_array *array, td_error *error);
void td__hdf5_release(td__hdf5_array *array);
/* An attribute that is a text or a list of texts, of fixed or variable length: count texts in one
 * block, freed with td__free(*texts). *texts is NULL when there is no such attribute; an empty list,
 * of whatever type, is a count of 0 with a block. TD_DTYPE when the attribute is something else. */
TD_NODISCARD td_status td__hdf5_texts(td__hdf5 *file, td__hdf5_object object, const char *attribute,
                                      char ***texts, size_t *count, td_error *error);

/* --- writing ------------------------------------------------------------------------------ */

/* A file being made in memory but for the values of its datasets, which are borrowed. */
typedef struct td__hdf5_maker td__hdf5_maker;

td__hdf5_maker *td__hdf5_make(void); /* NULL when memory is exhausted */
/* Accepts NULL. */
void td__hdf5_drop(td__hdf5_maker *maker);
/* Paths from the root, which is ""; the groups on the way come into being. Texts and names are
 * copied, UTF-8; a list has at most 4062 texts. The first failure is kept and reported by size and
 * finish. */
void td__hdf5_add_group(td__hdf5_maker *maker, const char *path);
void td__hdf5_add_array(td__hdf5_maker *maker, const char *path, td_view view);
void td__hdf5_add_text(td__hdf5_maker *maker, const char *path, const char *attribute,
                       const char *text);
void td__hdf5_add_texts(td__hdf5_maker *maker, const char *path, const char *attribute,
                        size_t count, const char *const texts[]);
/* Both lay the file out, after which nothing can be added: the first returns its size, the second
 * hands its bytes to write, in order, the values of datasets from where they are. */
typedef td_status td__hdf5_write(void *user, const void *bytes, size_t size, td_error *error);
TD_NODISCARD td_status td__hdf5_size(td__hdf5_maker *maker, uint64_t *size, td_error *error);
TD_NODISCARD td_status td__hdf5_finish(td__hdf5_maker *maker, td__hdf5_write *write, void *user,
                                       td_error *error);

#endif
