/* Writing .keras: metadata, configuration and weights, all stored, streamed to a draft that becomes
 * the file when it is complete. */
#include "base/folder.h"
#include "base/memory.h"
#include "hdf5/hdf5.h"
#include "keras/keras.h"
#include "keras/notes.h"
#include "keras/weights.h"
#include "keras/write.h"
#include "zip/zip.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MAX_BYTES (UINT32_MAX - ((uint64_t)1 << 20)) /* of a zip archive, with its directory */

static void write_layer(td__hdf5_maker *maker, const td_model *model,
                        const td__keras_plan_layer *planned) {
    const td_layer_info *layer = td_model_layer(model, planned->layer);
    char path[sizeof planned->group + TD__KERAS_PLACE_SIZE], place[TD__KERAS_PLACE_SIZE];
    bool use_bias = td__keras_has_bias(planned->storage, layer->parameter_count);
    for (size_t i = 0; i < layer->parameter_count; i++) {
        const td_parameter_info *parameter =
            td_model_parameter_at(model, layer->first_parameter + i);
        td__keras_place(planned->storage, use_bias, i, false, place);
        (void)snprintf(path, sizeof path, "%s/%s", planned->group, place);
        td__hdf5_add_array(maker, path, td_view_of(parameter->tensor));
    }
    if (planned->storage == TD__KERAS_COUNTED) { /* how many examples its mean is of: unknown */
        static const float none = 0;
        (void)snprintf(path, sizeof path, "%s/vars/2", planned->group);
        td__hdf5_add_array(maker, path, (td_view){.dtype = TD_FLOAT32, .data = &none});
    }
    (void)snprintf(path, sizeof path, "%s/vars", planned->group);
    td__hdf5_add_group(maker, path);
    td__hdf5_add_text(maker, path, "name", layer->name);
}

static td_status append_bytes(void *user, const void *bytes, size_t size, td_error *error) {
    td__zip_writer *writer = user;
    td__zip_append(writer, bytes, size);
    (void)error;
    return writer->good ? TD_OK : TD_IO;
}

static void add_text(td__zip_writer *writer, const char *name, const char *text) {
    td__zip_begin(writer, name);
    td__zip_append(writer, text, strlen(text));
    td__zip_end(writer);
}

typedef struct archive {
    const char *config, *metadata;
    td__hdf5_maker *maker;
} archive;

static td_status write_archive(void *context, int file, td_error *error) {
    const archive *a = context;
    td__zip_writer writer = {.file = file, .good = true};
    add_text(&writer, TD__KERAS_METADATA, a->metadata);
    add_text(&writer, "config.json", a->config);
    td__zip_begin(&writer, "model.weights.h5");
    td_status status = td__hdf5_finish(a->maker, append_bytes, &writer, error);
    td__zip_end(&writer);
    td__zip_finish(&writer);
    return status || writer.good ? status : TD_IO;
}

static td_status publish_archive(const char *path, archive *a, td_error *error) {
    uint64_t size = 0;
    td_status status = td__hdf5_size(a->maker, &size, error);
    if (!status && size + strlen(a->config) + strlen(a->metadata) > MAX_BYTES) {
        status = td_error_set(error, TD_RANGE,
                              "%s: more than 4 GiB are not written as .keras; "
                              ".safetensors holds any size",
                              path);
    }
    return status ? status : td__draft_write(path, true, write_archive, a, error);
}

td_status td__keras_save(const td_model *model, const char *path, size_t count,
                         const td_model_note *notes, td_error *error) {
    td__keras_plan plan;
    td_status status = td__keras_plan_make(&plan, model, path, error);
    if (status) {
        return status;
    }
    char *config = td__keras_config_write(&plan);
    char *metadata = td__keras_metadata_write(count, notes);
    td__hdf5_maker *maker = td__hdf5_make();
    if (!config || !maker || !metadata) {
        status =
            td_error_set(error, TD_MEMORY, "%s: out of memory, or a name that is not UTF-8", path);
    } else {
        td__hdf5_add_group(maker, "vars"); /* the model's own, which Keras 3.0 wants to see */
        for (size_t i = 0; i < plan.count; i++) {
            write_layer(maker, model, &plan.layers[i]);
        }
        status = publish_archive(path, &(archive){config, metadata, maker}, error);
    }
    td__hdf5_drop(maker);
    td__free(metadata);
    td__free(config);
    td__keras_plan_release(&plan);
    return status;
}
