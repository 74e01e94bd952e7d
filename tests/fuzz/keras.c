/* Any bytes as a file of Keras's. Those that begin with '{' are a configuration, zipped so that its
 * checksum fits, with what stands behind the first 0 for weights. */
#include "keras/keras.h"
#include "zip/zip.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void add(td__zip_writer *writer, const char *name, const uint8_t *data, size_t size) {
    td__zip_begin(writer, name);
    td__zip_append(writer, data, size);
    td__zip_end(writer);
}

/* From malloc. */
static uint8_t *zipped(const uint8_t *data, size_t size, size_t *zipped_size) {
    const uint8_t *end = memchr(data, 0, size);
    size_t config = end ? (size_t)(end - data) : size, rest = end ? config + 1 : size;
    td__zip_writer writer = {.file = memfd_create("fuzz", MFD_CLOEXEC), .good = true};
    add(&writer, "config.json", data, config);
    add(&writer, "model.weights.h5", data + rest, size - rest);
    td__zip_finish(&writer);
    uint8_t *bytes = malloc((size_t)writer.at);
    if (!writer.good || !bytes ||
        pread(writer.file, bytes, (size_t)writer.at, 0) != (ssize_t)writer.at) {
        abort();
    }
    close(writer.file);
    *zipped_size = (size_t)writer.at;
    return bytes;
}

static void parse(const uint8_t *data, size_t size) {
    td_error error = {0};
    td_model *model = td__keras_parse("fuzz", data, size, &error);
    if (!model && !error.text[0]) {
        abort();
    }
    volatile float last = 0;
    for (size_t i = 0; model && i < td_model_parameter_count(model); i++) {
        const td_tensor *tensor = td_model_parameter_at(model, i)->tensor;
        if (td_tensor_count(tensor) > 0) {
            last = ((const float *)td_tensor_data(tensor))[td_tensor_count(tensor) - 1];
        }
    }
    (void)last;
    td_model_destroy(model);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size > 0 && data[0] == '{') {
        size_t zipped_size;
        uint8_t *bytes = zipped(data, size, &zipped_size);
        parse(bytes, zipped_size);
        free(bytes);
    } else {
        parse(data, size);
    }
    return 0;
}
