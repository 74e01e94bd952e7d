/* Tensors of files that are weights alone, or of which only the weights are wanted. */
#include "base/memory.h"
#include "data/npy.h"
#include "hdf5/hdf5.h"
#include "model/format.h"
#include "model/safetensors.h"
#include "tensor/order.h"

#include <stdio.h>
#include <string.h>

/* What unpacking may take for a file of this size, all of it together. */
static size_t max_bytes(size_t file_size) {
    return file_size < SIZE_MAX / 64 ? ((size_t)64 << 20) + 20 * file_size : file_size;
}

/* ---- safetensors ----------------------------------------------------------------------------- */

static void close_safetensors(void *owner) {
    td__safetensors_close(owner);
}

td_status td__safetensors_list(td__model_file *file, td__tensor_list *list, td_error *error) {
    const char *path = file->path;
    td_status status = td__model_file_keep(file, list, error);
    td__safetensors *read =
        status ? NULL : td__safetensors_parse(path, file->bytes.data, file->bytes.size, error);
    if (!status) {
        status =
            read ? td__tensor_list_keep(list, close_safetensors, read, path, error) : TD_FORMAT;
    }
    for (size_t i = 0; !status && i < td__safetensors_count(read); i++) {
        const td__named_view *tensor = td__safetensors_at(read, i);
        td_view view = {tensor->view.dtype, tensor->view.shape, tensor->view.data, NULL, NULL};
        status = td__tensor_list_add(list, tensor->name, view, path, error);
    }
    return status;
}

/* ---- HDF5 ------------------------------------------------------------------------------------ */

enum { PATH_SIZE = 4096, DEPTH = 32, OBJECTS = 1 << 20 };

typedef struct walk {
    td__hdf5 *file;
    const char *origin;
    td__tensor_list *list;
    char path[PATH_SIZE]; /* of the group that is listed, ending in '/' */
    int depth, objects;   /* objects: seen so far */
    int others;           /* datasets that are no numbers */
    size_t left;          /* bytes that may still be unpacked */
} walk;

static td_status add_dataset(walk *w, const char *name, td__hdf5_array *array, td_error *error) {
    int64_t count = 0;
    td_view view = array->view;
    if (array->owned) {
        size_t bytes = td_shape_check(&view.shape, view.dtype, &count, NULL)
                           ? SIZE_MAX
                           : (size_t)count * td_dtype_size(view.dtype);
        if (bytes > w->left) {
            td__hdf5_release(array);
            return td_error_set(error, TD_RANGE,
                                "%s: %.200s: unpacks to more than 20 times its "
                                "file",
                                w->origin, name);
        }
        w->left -= bytes;
        view.release = td__free;
        view.owner = array->owned;
    }
    return td__tensor_list_add(w->list, name, view, w->origin, error);
}

static td_status visit(void *user, const char *name, td__hdf5_object object, td_error *error) {
    walk *w = user;
    size_t length = strlen(w->path), room = sizeof w->path - length;
    int added = snprintf(w->path + length, room, "%s", name);
    if (!object) {
        w->path[length] = 0;
        return TD_OK; /* a link that leads nowhere */
    }
    if ((size_t)added + 1 >= room || w->depth == DEPTH || ++w->objects > OBJECTS) {
        return td_error_set(error, TD_RANGE, "%s: groups within groups beyond %d, at %.200s",
                            w->origin, DEPTH, w->path);
    }
    td__hdf5_array array = {0};
    td_error reason = {0};
    td_status status = td__hdf5_read(w->file, object, w->path, &array, &reason);
    if (!status) {
        status = add_dataset(w, w->path, &array, error);
    } else if (status == TD_UNSUPPORTED) {
        w->others++;
        status = TD_OK;
    } else if (status == TD_DTYPE) { /* a group */
        (void)strcat(w->path, "/");
        w->depth++;
        status = td__hdf5_list(w->file, object, visit, w, error);
        w->depth--;
    } else {
        (void)td_error_set(error, status, "%s", reason.text);
    }
    w->path[length] = 0;
    return status;
}

static void close_hdf5(void *owner) {
    td__hdf5_close(owner);
}

td_status td__hdf5_tensors_of(const void *bytes, size_t size, const char *path,
                              td__tensor_list *list, td_error *error) {
    walk *w = td__calloc(1, sizeof *w);
    if (!w) {
        return td_error_set(error, TD_MEMORY, "%s: out of memory", path);
    }
    *w = (walk){.file = td__hdf5_open(bytes, size, path, error),
                .origin = path,
                .list = list,
                .left = max_bytes(size)};
    td_status status =
        w->file ? td__tensor_list_keep(list, close_hdf5, w->file, path, error) : TD_FORMAT;
    status = status ? status : td__hdf5_list(w->file, td__hdf5_root(w->file), visit, w, error);
    if (!status && w->others) {
        (void)snprintf(list->remark, sizeof list->remark,
                       "%d more datasets are no numbers, or of a kind that is not read", w->others);
    }
    td__free(w);
    return status;
}

td_status td__hdf5_tensors(td__model_file *file, td__tensor_list *list, td_error *error) {
    td_status status = td__model_file_keep(file, list, error);
    return status
               ? status
               : td__hdf5_tensors_of(file->bytes.data, file->bytes.size, file->path, list, error);
}

/* ---- zip archives ---------------------------------------------------------------------------- */

static void release_member(void *owner) {
    td__zip_member_release(owner);
    td__free(owner);
}

/* A member's content, which the list keeps. */
static td_status keep_member(const td__zip *zip, const char *name, size_t *left,
                             td__tensor_list *list, td__zip_member *content, td_error *error) {
    td__zip_member *member = td__calloc(1, sizeof *member);
    td_status status = member ? td__zip_read(zip, name, *left, true, member, error)
                              : td_error_set(error, TD_MEMORY, "%s: out of memory", zip->origin);
    if (status) {
        td__free(member);
        return status;
    }
    *content = *member;
    *left -= member->owned ? member->size : 0;
    return td__tensor_list_keep(list, release_member, member, zip->origin, error);
}

/* The members of an archive that the list keeps open. */
static td_status open_zip(const td__zip **zip, td__model_file *file, td__tensor_list *list,
                          td_error *error) {
    *zip = td__model_file_zip(file, error);
    return *zip ? td__model_file_keep(file, list, error) : TD_FORMAT;
}

td_status td__keras_tensors(td__model_file *file, td__tensor_list *list, td_error *error) {
    const td__zip *zip = NULL;
    td__zip_member content = {0};
    td_status status = open_zip(&zip, file, list, error);
    size_t left = max_bytes(file->bytes.size);
    status = status ? status : keep_member(zip, "model.weights.h5", &left, list, &content, error);
    return status ? status
                  : td__hdf5_tensors_of(content.data, content.size, file->path, list, error);
}

/* ---- NPZ ------------------------------------------------------------------------------------- */

static bool dtype_of(const char *type, td_dtype *dtype) {
    for (int i = 0; i < TD_DTYPE_COUNT; i++) {
        const char *word = td__npy_type((td_dtype)i);
        if (word && !strcmp(word + 1, type + 1) && (type[0] == word[0] || type[0] == '|')) {
            *dtype = (td_dtype)i;
            return true;
        }
    }
    return false;
}

static void column_major(const td_shape *shape, int64_t *strides) {
    int64_t size = 1;
    for (int32_t i = 0; i < shape->rank; i++) {
        strides[i] = size;
        size *= shape->dims[i];
    }
}

static td_status add_npy(const td__zip_member *content, const char *name, const char *path,
                         td__tensor_list *list, td_error *error) {
    char what[512];
    td__npy_array array;
    td_view view = {0};
    int64_t count = 0, strides[TD_MAX_RANK];
    (void)snprintf(what, sizeof what, "%s: array '%.200s'", path, name);
    td_status status = td__npy_parse_header(content->data, content->size, what, &array, error);
    if (!status && !dtype_of(array.type, &view.dtype)) {
        status = td_error_set(error, TD_UNSUPPORTED,
                              "%s: elements of type %s; little-endian numbers are read", what,
                              array.type);
    }
    view.shape = array.shape;
    if (!status && (td_shape_check(&view.shape, view.dtype, &count, NULL) ||
                    (size_t)count > (content->size - array.start) / td_dtype_size(view.dtype))) {
        status = td_error_set(error, TD_FORMAT, "%s: it is cut short", what);
    }
    if (status) {
        return status;
    }
    view.data = content->data + array.start;
    status = td__view_from_file(&view, what, error);
    if (!status && array.fortran) {
        td_view given = view;
        column_major(&view.shape, strides);
        status = td_view_pack(&given, strides, &view, error);
    }
    return status ? status : td__tensor_list_add(list, name, view, path, error);
}

static td_status add_entry(const td__zip *zip, const td__zip_entry *entry, size_t *left,
                           td__tensor_list *list, td_error *error) {
    static const char ending[] = ".npy";
    size_t length = entry->name_size, tail = sizeof ending - 1;
    char name[1024];
    if (length >= sizeof name) {
        return td_error_set(error, TD_RANGE, "%s: a name of %zu bytes", zip->origin, length);
    }
    memcpy(name, entry->name, length);
    name[length] = 0;
    if (length <= tail || strcmp(name + length - tail, ending) != 0) {
        return TD_OK;
    }
    td__zip_member content = {0};
    td_status status = keep_member(zip, name, left, list, &content, error);
    name[length - tail] = 0;
    return status ? status : add_npy(&content, name, zip->origin, list, error);
}

td_status td__npz_tensors(td__model_file *file, td__tensor_list *list, td_error *error) {
    const td__zip *zip = NULL;
    td_status status = open_zip(&zip, file, list, error);
    size_t left = max_bytes(file->bytes.size);
    for (size_t i = 0; !status && i < zip->count; i++) {
        status = add_entry(zip, &zip->entries[i], &left, list, error);
    }
    return status;
}
