/* Where the values of tensors lie: members of the archive, or behind the pickles of the older format,
 * in the order of a list of keys. */
#ifndef TAPEDECK_TORCH_STORAGE_H
#define TAPEDECK_TORCH_STORAGE_H

#include "tensor/list.h"
#include "torch/names.h"
#include "zip/zip.h"

typedef struct td__torch_storage {
    const char *key; /* borrowed from the pickle, not ended by 0 */
    size_t key_length;
    td_dtype dtype;
    const unsigned char *data; /* NULL: not found yet */
    int64_t count;
} td__torch_storage;

typedef struct td__torch_storages {
    const char *path;
    td__tensor_list *list; /* which keeps what was unpacked */
    const unsigned char *bytes, *end;
    bool archive;
    td__zip zip;
    char prefix[256];          /* of the archive's members */
    td__pickle keys;           /* of the older format */
    td__torch_storage *sorted; /* of the older format, by key */
    size_t count;
} td__torch_storages;

/* Finds out which format it is, and takes its pickle apart. All is the caller's to release, whatever
 * happens. */
TD_NODISCARD td_status td__torch_storages_open(td__torch_storages *storages, td__pickle *pickle,
                                               const char *path, const void *bytes, size_t size,
                                               td__tensor_list *list, td_error *error);
/* Finds the storages of the older format. */
TD_NODISCARD td_status td__torch_storages_place(td__torch_storages *storages,
                                                const td__pickle *pickle, td_error *error);
void td__torch_storages_release(td__torch_storages *storages);

/* The values of a persistent value ("storage", type, key, place, count), of the element type that the
 * storage has (type NULL) or that type says: dtype, data and perhaps a release of the view are set,
 * and how many elements are there. left is what may be unpacked. */
TD_NODISCARD td_status td__torch_storage_find(td__torch_storages *storages,
                                              const td__pickle *pickle,
                                              const td__pickle_value *persistent,
                                              const td__torch_name *type, size_t *left,
                                              td_view *view, int64_t *count, td_error *error);
void td__torch_release(const td_view *view);

#endif
