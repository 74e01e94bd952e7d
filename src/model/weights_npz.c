/* Weights as .npz: a zip of .npy files, one for each parameter, as numpy.savez has it. Written
 * uncompressed; read in whatever number type, byte order and packing numpy chose. */
#include "model/weights.h"

#include "base/memory.h"
#include "data/npy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zip.h>

#define MAX_MEMBERS 100000
#define MAX_NPY_HEADER 65536

/* ---- Writing ----------------------------------------------------------------------------------
 */

/* The .npy of a tensor, from malloc, because libzip frees it; NULL when memory is exhausted. */
static void *npy_bytes(const td_view *view, size_t *size) {
    int64_t count;
    char header[TD__NPY_HEADER];
    size_t head = td__npy_header(header, TD_FLOAT32, &view->shape);
    if (td_shape_check(&view->shape, TD_FLOAT32, &count, NULL)) {
        return NULL;
    }
    *size = head + (size_t)count * sizeof(float);
    unsigned char *bytes = malloc(*size); // NOLINT: libzip's to free
    if (bytes) {
        memcpy(bytes, header, head);
        memcpy(bytes + head, view->data, *size - head);
    }
    return bytes;
}

static bool add_array(zip_t *archive, const td__named_view *tensor) {
    size_t size = 0, room = strlen(tensor->name) + 5;
    char *name = td__calloc(room, 1);
    void *bytes = name ? npy_bytes(&tensor->view, &size) : NULL;
    zip_source_t *source = bytes ? zip_source_buffer(archive, bytes, size, 1) : NULL;
    zip_int64_t index = -1;
    if (source) {
        (void)snprintf(name, room, "%s.npy", tensor->name);
        index = zip_file_add(archive, name, source, ZIP_FL_ENC_UTF_8);
        if (index < 0) {
            zip_source_free(source);
        }
    } else {
        free(bytes); // NOLINT: see npy_bytes
    }
    td__free(name);
    return index >= 0 && !zip_set_file_compression(archive, (zip_uint64_t)index, ZIP_CM_STORE, 0);
}

td_status td__npz_write(const char *path, size_t count, const td__named_view *tensors,
                        td_error *error) {
    int reason = 0;
    zip_t *archive = zip_open(path, ZIP_CREATE | ZIP_TRUNCATE, &reason);
    if (!archive) {
        zip_error_t text;
        zip_error_init_with_code(&text, reason);
        td_status status =
            td_error_set(error, TD_IO, "%s: cannot write: %s", path, zip_error_strerror(&text));
        zip_error_fini(&text);
        return status;
    }
    bool good = true;
    for (size_t i = 0; good && i < count; i++) {
        good = add_array(archive, &tensors[i]);
    }
    if (good && zip_close(archive) == 0) {
        return TD_OK;
    }
    td_status status =
        td_error_set(error, TD_IO, "%s: cannot write: %s", path, zip_strerror(archive));
    zip_discard(archive);
    return status;
}

td_status td__weights_npz_write(const td_model *model, const char *path, td_error *error) {
    size_t count = td_model_parameter_count(model);
    td__named_view *tensors = td__parameter_views(model);
    td_status status = tensors ? td__npz_write(path, count, tensors, error)
                               : td_error_set(error, TD_MEMORY, "%s: out of memory", path);
    td__free(tensors);
    return status;
}

/* ---- Reading ----------------------------------------------------------------------------------
 */

/* The arrays of an archive as float32, by name. */
typedef struct arrays {
    td__named_view *views;
    char **names;   /* owned */
    float **values; /* owned; NULL for an array that is no parameter and is not unpacked */
    size_t count;
} arrays;

static void release(arrays *a) {
    for (size_t i = 0; i < a->count; i++) {
        td__free(a->names[i]);
        td__free(a->values[i]);
    }
    td__free(a->views);
    td__free(a->names);
    td__free(a->values);
}

/* All rows as one array; the shape gets them as its first dimension again. A reader of rows takes a
 * vector (n,) for (n, 1): for a parameter that is a vector it is one again. */
static td_status take_rows(const td__array *array, int64_t rows, int32_t rank, const char *what,
                           td_view *view, float **values, td_error *error) {
    int64_t count;
    view->dtype = TD_FLOAT32;
    view->shape.rank = array->shape.rank + 1;
    if (view->shape.rank > TD_MAX_RANK) {
        return td_error_set(error, TD_SHAPE, "%s: more than %d dimensions", what, TD_MAX_RANK);
    }
    view->shape.dims[0] = rows;
    memcpy(view->shape.dims + 1, array->shape.dims, (size_t)array->shape.rank * sizeof(int64_t));
    if (rank == 1 && view->shape.rank == 2 && view->shape.dims[1] == 1) {
        view->shape.rank = 1;
    }
    if (td_shape_check(&view->shape, TD_FLOAT32, &count, NULL)) {
        return td_error_set(error, TD_SHAPE, "%s: too large", what);
    }
    *values = td__calloc((size_t)count + 1, sizeof **values);
    if (!*values) {
        return td_error_set(error, TD_MEMORY, "%s: out of memory", what);
    }
    for (int64_t i = 0; i < rows; i++) {
        td__array_read(array, i, *values + i * array->count);
    }
    view->data = *values;
    return TD_OK;
}

/* Unpacks a member for a parameter: no number has more than 8 bytes. */
static td_status read_member(zip_t *archive, zip_uint64_t index, const char *what,
                             const td_tensor *parameter, td_view *view, float **values,
                             td_error *error) {
    td__bytes bytes = {0};
    td__array array = {0};
    int64_t rows = 0;
    td_status status = td__zip_unpack(
        archive, index, what, td_tensor_count(parameter) * 8 + MAX_NPY_HEADER, &bytes, error);
    if (status == TD_RANGE) {
        status = td_error_set(error, TD_SHAPE, "%s: larger than the model's", what);
    }
    if (!status) {
        status = td__npy_parse(&array, &rows, &bytes, what, error);
    }
    if (!status) {
        status =
            take_rows(&array, rows, td_tensor_shape(parameter).rank, what, view, values, error);
    }
    td__array_release(&array);
    td__bytes_release(&bytes);
    return status;
}

static td_status add_member(arrays *a, zip_t *archive, zip_uint64_t index,
                            const td__parameter_index *parameters, const char *path,
                            td_error *error) {
    const char *name = zip_get_name(archive, index, 0);
    size_t length = name ? strlen(name) : 0;
    if (length > 4 && !strcmp(name + length - 4, ".npy")) {
        length -= 4;
    }
    char *copy = td__calloc(length + 1, 1);
    if (!copy) {
        return td_error_set(error, TD_MEMORY, "%s: out of memory", path);
    }
    memcpy(copy, name ? name : "", length);
    size_t at = a->count++;
    a->names[at] = copy;
    a->views[at].name = copy;
    ptrdiff_t found = td__parameter_index_find(parameters, copy);
    if (found < 0) {
        return TD_OK; /* td__weights_assign says that there is no such parameter */
    }
    char what[512];
    (void)snprintf(what, sizeof what, "%s: array '%s'", path, copy);
    return read_member(archive, index, what, parameters->sorted[found]->tensor, &a->views[at].view,
                       &a->values[at], error);
}

static td_status read_members(arrays *a, zip_t *archive, const td_model *model, const char *path,
                              td_error *error) {
    zip_int64_t entries = zip_get_num_entries(archive, 0);
    if (entries < 0 || entries > MAX_MEMBERS) {
        return td_error_set(error, TD_FORMAT, "%s: too many arrays", path);
    }
    td__parameter_index parameters;
    td_status status = td__parameter_index_init(&parameters, model, error);
    a->views = td__calloc((size_t)entries + 1, sizeof *a->views);
    a->names = td__calloc((size_t)entries + 1, sizeof *a->names);
    a->values = td__calloc((size_t)entries + 1, sizeof *a->values);
    if (!status && (!a->views || !a->names || !a->values)) {
        status = td_error_set(error, TD_MEMORY, "%s: out of memory", path);
    }
    for (zip_int64_t i = 0; !status && i < entries; i++) {
        status = add_member(a, archive, (zip_uint64_t)i, &parameters, path, error);
    }
    td__parameter_index_release(&parameters);
    return status;
}

td_status td__weights_npz_read(td_model *model, const char *path, td_error *error) {
    zip_t *archive = td__npz_open(path, error);
    if (!archive) {
        return TD_FORMAT;
    }
    arrays a = {0};
    td_status status = read_members(&a, archive, model, path, error);
    if (!status) {
        status = td__weights_assign(model, path, a.count, a.views, error);
    }
    zip_discard(archive);
    release(&a);
    return status;
}
