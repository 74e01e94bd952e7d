/* Weights as .npz: a zip of .npy files, one for each parameter, as numpy.savez has it. Written
 * uncompressed; read in whatever number type, byte order and packing numpy chose. */
#include "model/weights.h"

#include "base/folder.h"
#include "base/little.h"
#include "base/memory.h"
#include "data/npy.h"
#include "tensor/order.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MAX_MEMBERS 100000
#define MAX_NPY_HEADER 65536
#define SMALL ((int64_t)1 << 31) /* archives below this do without zip64 */

/* ---- Writing --------------------------------------------------------------------------------- */

static int64_t bytes_of(const td_view *view) {
    int64_t count;
    return td_shape_check(&view->shape, view->dtype, &count, NULL)
               ? 0
               : count * (int64_t)td_dtype_size(view->dtype);
}

td_status td__numpy_view(const td_view *view, td_view *made, td_error *error) {
    if (td__npy_type(view->dtype)) {
        return td__view_to_file(view, made, error);
    }
    int64_t count = bytes_of(view) / (int64_t)td_dtype_size(view->dtype);
    float *copy = td__aligned_alloc(((size_t)count + 1) * sizeof *copy);
    if (!copy) {
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    td__copy_floats(copy, view, 0, count);
    td__little_copy(copy, copy, (size_t)count * sizeof *copy, sizeof *copy);
    *made = (td_view){TD_FLOAT32, view->shape, copy, td__aligned_free, copy};
    return TD_OK;
}

static td_status add_array(td__zip_writer *writer, const char *name, const td_view *view,
                           td_error *error) {
    char header[TD__NPY_HEADER];
    td_view plain;
    td_status status = td__numpy_view(view, &plain, error);
    if (status) {
        writer->good = false;
        return status;
    }
    td__zip_begin(writer, name);
    td__zip_append(writer, header, td__npy_header(header, plain.dtype, &plain.shape));
    td__zip_append(writer, plain.data, (size_t)bytes_of(&plain));
    td__zip_end(writer);
    td__view_release(&plain);
    return TD_OK;
}

/* The members' names, one after the other, each ended by 0; NULL when memory is exhausted. */
static char *member_names(size_t count, const td__named_view *tensors) {
    size_t room = 1, used = 0;
    for (size_t i = 0; i < count; i++) {
        room += strlen(tensors[i].name) + sizeof ".npy";
    }
    char *names = td__calloc(room, 1);
    for (size_t i = 0; names && i < count; i++) {
        used += (size_t)snprintf(names + used, room - used, "%s.npy", tensors[i].name) + 1;
    }
    return names;
}

typedef struct archive {
    size_t count;
    const td__named_view *tensors;
    const char *names; /* of the members, as member_names makes them */
} archive;

static td_status write_archive(void *context, int file, td_error *error) {
    const archive *a = context;
    int64_t all = 0;
    for (size_t i = 0; i < a->count; i++) {
        all += 2 * bytes_of(&a->tensors[i].view); /* bfloat16 grows */
    }
    td__zip_writer writer = {.file = file, .good = true, .large = all > SMALL};
    td_status status = TD_OK;
    const char *member = a->names;
    for (size_t i = 0; !status && i < a->count && writer.good; i++, member += strlen(member) + 1) {
        status = add_array(&writer, member, &a->tensors[i].view, error);
    }
    td__zip_finish(&writer);
    return status || writer.good ? status : TD_IO;
}

td_status td__npz_write(const char *path, size_t count, const td__named_view *tensors,
                        td_error *error) {
    char *names = member_names(count, tensors);
    td_status status = names ? td__draft_write(path, false, write_archive,
                                               &(archive){count, tensors, names}, error)
                             : td_error_set(error, TD_MEMORY, "%s: out of memory", path);
    td__free(names);
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

/* ---- Reading --------------------------------------------------------------------------------- */

/* The arrays of an archive as float32, by name. */
typedef struct arrays {
    td__named_view *views;
    char **names;   /* owned */
    float **values; /* owned; NULL for an array that is no parameter and is not unpacked */
    size_t count;
} arrays;

static void release_arrays(arrays *a) {
    for (size_t i = 0; i < a->count; i++) {
        td__free(a->names[i]);
        td__free(a->values[i]);
    }
    td__free(a->views);
    td__free(a->names);
    td__free(a->values);
}

/* All elements of an array of view's shape, as float32. */
static td_status take_elements(const td__array *array, int64_t rows, const char *what,
                               td_view *view, float **values, td_error *error) {
    int64_t count;
    view->dtype = TD_FLOAT32;
    if (td_shape_check(&view->shape, TD_FLOAT32, &count, NULL)) {
        return td_error_set(error, TD_BAD_SHAPE, "%s: too large", what);
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
static td_status read_member(const td__zip *zip, const char *member, const char *what,
                             const td_tensor *parameter, td_view *view, float **values,
                             td_error *error) {
    td__zip_member content = {0};
    td__array array = {0};
    int64_t rows = 0;
    size_t max = (size_t)td_tensor_count(parameter) * 8 + MAX_NPY_HEADER;
    td_status status = td__zip_read(zip, member, max, true, &content, error);
    if (status == TD_RANGE || (!status && content.size > max)) {
        status = td_error_set(error, TD_BAD_SHAPE, "%s: larger than the model's", what);
    }
    if (!status) {
        td__bytes bytes = {content.data, content.size, false};
        status = td__npy_parse_whole(&array, &rows, &view->shape, &bytes, what, error);
    }
    status = status ? status : take_elements(&array, rows, what, view, values, error);
    td__array_release(&array);
    td__zip_member_release(&content);
    return status;
}

static td_status add_member(arrays *a, const td__zip *zip, const td__zip_entry *entry,
                            const td__parameter_index *parameters, const char *path,
                            td_error *error) {
    size_t length = entry->name_size;
    char *copy = td__calloc(length + 1, 1), *member = td__calloc(length + 1, 1);
    if (!copy || !member) {
        td__free(copy);
        td__free(member);
        return td_error_set(error, TD_MEMORY, "%s: out of memory", path);
    }
    memcpy(copy, entry->name, length);
    memcpy(member, entry->name, length);
    if (length > 4 && !strcmp(copy + length - 4, ".npy")) {
        copy[length - 4] = 0;
    }
    size_t at = a->count++;
    a->names[at] = copy;
    a->views[at].name = copy;
    ptrdiff_t found = td__parameter_index_find(parameters, copy);
    td_status status = TD_OK; /* td__weights_assign says that there is no such parameter */
    if (found >= 0) {
        char what[512];
        (void)snprintf(what, sizeof what, "%s: array '%s'", path, copy);
        status = read_member(zip, member, what, parameters->sorted[found]->tensor,
                             &a->views[at].view, &a->values[at], error);
    }
    td__free(member);
    return status;
}

static td_status read_members(arrays *a, const td__zip *zip, const td_model *model,
                              const char *path, td_error *error) {
    if (zip->count > MAX_MEMBERS) {
        return td_error_set(error, TD_FORMAT, "%s: too many arrays", path);
    }
    td__parameter_index parameters;
    td_status status = td__parameter_index_init(&parameters, model, error);
    a->views = td__calloc(zip->count + 1, sizeof *a->views);
    a->names = td__calloc(zip->count + 1, sizeof *a->names);
    a->values = td__calloc(zip->count + 1, sizeof *a->values);
    if (!status && (!a->views || !a->names || !a->values)) {
        status = td_error_set(error, TD_MEMORY, "%s: out of memory", path);
    }
    for (size_t i = 0; !status && i < zip->count; i++) {
        status = add_member(a, zip, &zip->entries[i], &parameters, path, error);
    }
    td__parameter_index_release(&parameters);
    return status;
}

td_status td__weights_npz_read(td_model *model, const char *path, td_error *error) {
    td__npz npz;
    td_status status = td__npz_open(&npz, path, error);
    if (status) {
        return status;
    }
    arrays a = {0};
    status = read_members(&a, &npz.zip, model, path, error);
    if (!status) {
        status = td__weights_assign(model, path, a.count, a.views, error);
    }
    td__npz_close(&npz);
    release_arrays(&a);
    return status;
}
