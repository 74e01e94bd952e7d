/* Any bytes as a program of torch.export, as far as a model. Those that begin as JSON does are the texts of
 * an archive, a line each (graph, weights, constants), which the checksums would keep from being changed. */
#include "exported/exported.h"
#include "zip/zip.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void put(td__zip_writer *writer, const char *name, const void *bytes, size_t size) {
    td__zip_begin(writer, name);
    td__zip_append(writer, bytes, size);
    td__zip_end(writer);
}

/* The archive, for free; every weight has 16 floats. */
static uint8_t *archive_of(const uint8_t *texts, size_t size, size_t *made) {
    static const char *const members[] = {"models/model.json",
                                          "data/weights/model_weights_config.json",
                                          "data/constants/model_constants_config.json"};
    static const char *const weights[] = {"data/weights/weight_0", "data/weights/weight_1",
                                          "data/weights/weight_2"};
    static const float ones[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    FILE *file = tmpfile();
    if (!file) {
        abort();
    }
    td__zip_writer writer = {.file = fileno(file), .good = true};
    for (size_t i = 0; i < 3; i++) {
        const uint8_t *end = size ? memchr(texts, '\n', size) : NULL;
        size_t length = end ? (size_t)(end - texts) : size;
        put(&writer, members[i], texts, length);
        put(&writer, weights[i], ones, sizeof ones);
        texts += length + (end != NULL);
        size -= length + (end != NULL);
    }
    td__zip_finish(&writer);
    uint8_t *bytes = malloc(writer.at + 1);
    if (!writer.good || !bytes || pread(fileno(file), bytes, writer.at, 0) != (ssize_t)writer.at) {
        abort();
    }
    (void)fclose(file);
    *made = writer.at;
    return bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    td_error error = {0};
    uint8_t *archive = size && *data == '{' ? archive_of(data, size, &size) : NULL;
    td_model *model = td__exported_model(archive ? archive : data, size, "fuzz", &error);
    if (!model && !error.text[0]) {
        abort(); /* a failure without a reason */
    }
    td_model_destroy(model);
    free(archive);
    return 0;
}
