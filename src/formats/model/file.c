/* A file of a model, open: mapped, its archive listed, its format found. */
#include "base/memory.h"
#include "keras/keras.h"
#include "model/format.h"

td__model_file *td__model_file_open(const char *path, td_error *error) {
    char *name = td__model_path(path, error);
    td__model_file *file = name ? td__calloc(1, sizeof *file) : NULL;
    if (!file) {
        if (name) {
            td_error_set(error, TD_MEMORY, "%s: out of memory", path);
        }
        td__free(name);
        return NULL;
    }
    file->path = name;
    file->references = 1;
    if (!td__bytes_map(&file->bytes, name, error)) {
        const td__bytes *bytes = &file->bytes;
        file->is_zip = td__keras_is_zip(bytes->data, bytes->size) &&
                       !td__zip_open(&file->zip, bytes->data, bytes->size, name, NULL);
        file->format = td__format_of(file, error);
    }
    if (!file->format) {
        td__model_file_close(file);
        return NULL;
    }
    return file;
}

void td__model_file_close(td__model_file *file) {
    if (file && --file->references == 0) {
        td__zip_release(&file->zip);
        td__bytes_release(&file->bytes);
        td__free(file->path);
        td__free(file);
    }
}

static void close_kept(void *owner) {
    td__model_file_close(owner);
}

td_status td__model_file_keep(td__model_file *file, td__tensor_list *list, td_error *error) {
    file->references++;
    return td__tensor_list_keep(list, close_kept, file, file->path, error);
}

const td__zip *td__model_file_zip(const td__model_file *file, td_error *error) {
    td__zip damaged;
    if (!file->is_zip &&
        !td__zip_open(&damaged, file->bytes.data, file->bytes.size, file->path, error)) {
        td__zip_release(&damaged); /* memory was short when it was opened */
        td_error_set(error, TD_MEMORY, "%s: out of memory", file->path);
    }
    return file->is_zip ? &file->zip : NULL;
}

td_model *td__model_file_load(const td__model_file *file, td__model_for *data, td_error *error) {
    return file->format->load(file, data, error);
}

td_status td__model_file_texts(const td__model_file *file, size_t count, const char *const keys[],
                               char *texts[], td_error *error) {
    for (size_t i = 0; i < count; i++) {
        texts[i] = NULL;
    }
    return file->format->texts ? file->format->texts(file, count, keys, texts, error) : TD_OK;
}
