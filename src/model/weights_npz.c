/* Weights as .npz: a zip of uncompressed .npy files, one for each parameter, as numpy.savez has it.
 */
#include "model/weights.h"

#include "base/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zip.h>

/* The .npy of a tensor, from malloc, because libzip frees it; NULL when memory is exhausted. */
static void *npy_bytes(const td_tensor *tensor, size_t *size) {
    char shape[TD_SHAPE_TEXT_SIZE], header[512];
    td_shape dims = td_tensor_shape(tensor);
    td_shape_text(&dims, shape);
    if (dims.rank == 1) {
        (void)snprintf(shape, sizeof shape, "(%" PRId64 ",)", dims.dims[0]);
    }
    int length = snprintf(header, sizeof header,
                          "{'descr': '<f4', 'fortran_order': False, 'shape': %s, }", shape);
    size_t padded = (10 + (size_t)length + 1 + 63) / 64 * 64 - 10;
    size_t data = (size_t)td_tensor_count(tensor) * sizeof(float);
    unsigned char *bytes = malloc(10 + padded + data); // NOLINT: libzip's to free
    if (!bytes) {
        return NULL;
    }
    memcpy(bytes, "\x93NUMPY\x01\x00", 8);
    bytes[8] = (unsigned char)padded;
    bytes[9] = (unsigned char)(padded >> 8);
    memset(bytes + 10, ' ', padded);
    memcpy(bytes + 10, header, (size_t)length);
    bytes[10 + padded - 1] = '\n';
    memcpy(bytes + 10 + padded, td_tensor_data(tensor), data);
    *size = 10 + padded + data;
    return bytes;
}

static bool add_parameter(zip_t *archive, const td_parameter_info *parameter) {
    size_t size = 0, room = strlen(parameter->name) + 5;
    char *name = td__calloc(room, 1);
    void *bytes = name ? npy_bytes(parameter->tensor, &size) : NULL;
    zip_source_t *source = bytes ? zip_source_buffer(archive, bytes, size, 1) : NULL;
    zip_int64_t index = -1;
    if (source) {
        (void)snprintf(name, room, "%s.npy", parameter->name);
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

td_status td__weights_npz_write(const td_model *model, const char *path, td_error *error) {
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
    for (size_t i = 0; good && i < td_model_parameter_count(model); i++) {
        good = add_parameter(archive, td_model_parameter_at(model, i));
    }
    if (good && zip_close(archive) == 0) {
        return TD_OK;
    }
    td_status status =
        td_error_set(error, TD_IO, "%s: cannot write: %s", path, zip_strerror(archive));
    zip_discard(archive);
    return status;
}
