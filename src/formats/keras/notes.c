#include "keras/notes.h"

#include "base/json.h"
#include "base/memory.h"
#include "hdf5/hdf5.h"

#include <stdlib.h>

/* The oldest Keras that reads what is written here. */
#define KERAS_VERSION "3.0.0"

char *td__keras_metadata_write(size_t count, const td_model_note *notes) {
    json_t *object = json_object();
    bool good = json_object_set_new(object, "keras_version", json_string(KERAS_VERSION)) == 0;
    for (size_t i = 0; good && i < count; i++) {
        good = json_object_set_new(object, notes[i].key, json_string(notes[i].value)) == 0;
    }
    char *text = good ? json_dumps(object, JSON_COMPACT) : NULL;
    char *copy = text ? td__strdup(text) : NULL;
    json_decref(object);
    free(text); // NOLINT: jansson's own
    return copy;
}

static td_status copy_texts(const json_t *object, const char *path, size_t count,
                            const char *const keys[], char *texts[], td_error *error) {
    for (size_t i = 0; i < count; i++) {
        const char *text = json_string_value(json_object_get(object, keys[i]));
        texts[i] = text ? td__strdup(text) : NULL;
        if (text && !texts[i]) {
            for (size_t k = 0; k < i; k++) {
                td__free(texts[k]);
                texts[k] = NULL;
            }
            return td_error_set(error, TD_MEMORY, "%s: out of memory", path);
        }
    }
    return TD_OK;
}

static td_status read_texts(const td__zip *zip, size_t count, const char *const keys[],
                            char *texts[], td_error *error) {
    td__zip_member member = {0};
    td_status status =
        td__zip_read(zip, TD__KERAS_METADATA, TD__KERAS_METADATA_MAXIMUM, true, &member, error);
    if (status) {
        return status;
    }
    json_t *object = td__json_read(zip->origin, (const char *)member.data, member.size,
                                   td__json_budget(zip->size), error);
    status = object ? copy_texts(object, zip->origin, count, keys, texts, error) : TD_FORMAT;
    json_decref(object);
    td__zip_member_release(&member);
    return status;
}

td_status td__keras_texts(const td__zip *zip, size_t count, const char *const keys[], char *texts[],
                          td_error *error) {
    for (size_t i = 0; i < count; i++) {
        texts[i] = NULL;
    }
    return td__zip_find(zip, TD__KERAS_METADATA) ? read_texts(zip, count, keys, texts, error)
                                                 : TD_OK;
}

td_status td__keras_legacy_texts(const char *path, const void *bytes, size_t size, size_t count,
                                 const char *const keys[], char *texts[], td_error *error) {
    td__hdf5 *file = td__hdf5_open(bytes, size, path, error);
    for (size_t i = 0; i < count; i++) {
        char **block = NULL;
        size_t found = 0;
        texts[i] = NULL;
        if (file && !td__hdf5_texts(file, td__hdf5_root(file), keys[i], &block, &found, NULL) &&
            found == 1) {
            texts[i] = td__strdup(block[0]);
        }
        td__free(block);
    }
    td__hdf5_close(file);
    return file ? TD_OK : TD_FORMAT;
}
