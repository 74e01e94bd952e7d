/* Models from files and back: finds out what a path is, and hands it to the format's own file. */
#include "tapedeck/model.h"

#include "base/memory.h"
#include "keras/keras.h"
#include "keras/saved_model.h"
#include "model/format.h"
#include "model/load.h"
#include "model/native.h"
#include "model/table.h"
#include "model/weights.h"
#include "onnx/onnx.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static bool is_folder(const char *path) {
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

bool td__is_checkpoint(const char *name) {
    return !strncmp(name, "step-", 5) && td__path_ends_in(name, ".safetensors");
}

bool td__last_checkpoint(const char *run, char *path, size_t size) {
    char folder[4200], last[256] = "";
    (void)snprintf(folder, sizeof folder, "%s/checkpoints", run);
    DIR *listing = opendir(folder);
    for (struct dirent *entry; listing && (entry = readdir(listing));) {
        if (td__is_checkpoint(entry->d_name) && strcmp(entry->d_name, last) > 0) {
            (void)snprintf(last, sizeof last, "%s", entry->d_name);
        }
    }
    if (listing) {
        closedir(listing);
    }
    return *last && (size_t)snprintf(path, size, "%s/%s", folder, last) < size;
}

char *td__model_path(const char *path, td_error *error) {
    struct stat about;
    size_t room = strlen(path) + 300;
    char *file = td__calloc(room, 1);
    if (!file) {
        td_error_set(error, TD_MEMORY, "%s: out of memory", path);
        return NULL;
    }
    if (!is_folder(
            path)) { /* a checkpoint of TensorFlow's is called by what its files begin with */
        (void)snprintf(file, room, "%s.index", path);
        if (stat(path, &about) == 0 || stat(file, &about) != 0) {
            (void)snprintf(file, room, "%s", path);
        }
        return file;
    }
    (void)snprintf(file, room, "%s/model.safetensors", path);
    if (stat(file, &about) == 0) {
        return file;
    }
    (void)snprintf(file, room, "%s/" TD__SAVED_MODEL, path);
    if (stat(file, &about) == 0) {
        return file;
    }
    if (!td__last_checkpoint(path, file, room)) {
        td_error_set(error, TD_NOT_FOUND,
                     "%s: a folder with neither model.safetensors nor a checkpoint; expected a run",
                     path);
        td__free(file);
        return NULL;
    }
    return file;
}

td_model *td_model_load_with(const char *path, size_t count, const char *const keys[],
                             char *texts[], td_error *error) {
    td__model_file *file = td__model_file_open(path, error);
    td_model *model = file ? td__model_file_load(file, NULL, error) : NULL;
    for (size_t i = 0; i < count; i++) {
        texts[i] = NULL;
    }
    if (model && count && td__model_file_texts(file, count, keys, texts, error)) {
        td_model_destroy(model);
        model = NULL;
    }
    td__model_file_close(file);
    return model;
}

td_model *td_model_load(const char *path, td_error *error) {
    return td_model_load_with(path, 0, NULL, NULL, error);
}

void td_free_text(char *text) {
    td__free(text);
}

td_status td_model_save(const td_model *model, const char *path, size_t count,
                        const td_model_note *notes, td_error *error) {
    static const struct {
        const char *ending;
        td_status (*save)(const td_model *model, const char *path, size_t count,
                          const td_model_note *notes, td_error *error);
    } models[] = {
        {".keras", td__keras_save}, {".h5", td__keras_save_legacy}, {".onnx", td__onnx_save}};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        if (td__path_ends_in(path, models[i].ending)) {
            return models[i].save(model, path, count, notes, error);
        }
    }
    return td__native_save(model, path, count, notes, error);
}

/* ---- Weights --------------------------------------------------------------------------------- */

static td_status save_model(const td_model *model, const char *path, td_error *error) {
    return td_model_save(model, path, 0, NULL, error);
}

static td_status save_folder(const td_model *model, const char *path, td_error *error) {
    td__named_view *views = td__parameter_views(model);
    td_status status = views ? td__table_write(td_model_parameter_count(model), views, path, error)
                             : td_error_set(error, TD_MEMORY, "%s: out of memory", path);
    td__free(views);
    return status;
}

static const struct {
    const char *ending;
    td_status (*save)(const td_model *model, const char *path, td_error *error);
} writers[] = {
    {".csv", td__weights_csv_write},
    {".npz", td__weights_npz_write},
    {".safetensors", save_model},
    {".keras", save_model},
    {".h5", save_model},
    {".onnx", save_model},
    {"/", save_folder},
};

td_status td_weights_save(const td_model *model, const char *path, td_error *error) {
    char endings[128] = "";
    size_t count = sizeof writers / sizeof *writers;
    for (size_t i = 0; i < count; i++) {
        if (td__path_ends_in(path, writers[i].ending)) {
            return writers[i].save(model, path, error);
        }
        size_t length = strlen(endings);
        (void)snprintf(endings + length, sizeof endings - length, "%s%s",
                       i == 0           ? ""
                       : i + 1 == count ? " or a folder"
                                        : ", ",
                       writers[i].ending);
    }
    return td_error_set(error, TD_UNSUPPORTED, "%s: weights are written to %s (a folder)", path,
                        endings);
}

/* The parameters of another model of any format, which must be those of this one. */
static td_status take_from_model(td_model *model, const td__model_file *file, td_error *error) {
    const char *path = file->path;
    td_model *other = td__model_file_load(file, NULL, error);
    if (!other) {
        return error->status;
    }
    size_t count = td_model_parameter_count(other);
    td__named_view *views = td__parameter_views(other);
    td_status status = views ? td__weights_assign(model, path, count, views, error)
                             : td_error_set(error, TD_MEMORY, "%s: out of memory", path);
    td__free(views);
    td_model_destroy(other);
    return status;
}

/* Keras names weights by layers and parameters where it keeps them alone: "dense/dense/kernel:0" is
 * dense.kernel. Other names stay. NULL when memory is exhausted. */
static char *plain_name(const char *name) {
    char *made = td__strdup(name);
    const char *last = strrchr(name, '/');
    if (made && last) {
        size_t layer = strcspn(name, "/"), parameter = strcspn(last + 1, ":");
        made[layer] = '.';
        memcpy(made + layer + 1, last + 1, parameter);
        made[layer + 1 + parameter] = 0;
    }
    return made;
}

/* Tensors of a file that has no more than that. */
static td_status take_from_list(td_model *model, td__model_file *file, td_error *error) {
    const char *path = file->path;
    td__tensor_list list = {0};
    td_status status = file->format->tensors(file, &list, error);
    for (size_t i = 0; i < list.count && !status; i++) {
        char *name = plain_name(list.items[i].name);
        if (!name) {
            status = td_error_set(error, TD_MEMORY, "%s: out of memory", path);
            break;
        }
        td__free((void *)(uintptr_t)list.items[i].name);
        list.items[i].name = name;
    }
    status = status ? status : td__native_assign(model, path, list.count, list.items, error);
    td__tensor_list_release(&list);
    return status;
}

td_status td_weights_load(td_model *model, const char *path, td_error *error) {
    if (td__path_ends_in(path, ".csv") || td__path_ends_in(path, ".csv.gz")) {
        return td__weights_csv_read(model, path, error);
    }
    if (td__path_ends_in(path, ".npz")) {
        return td__weights_npz_read(model, path, error);
    }
    td_error reason = {0};
    td__model_file *file = td__model_file_open(path, &reason);
    td_status status = reason.status;
    if (file && file->format->load == td__native_load) {
        status = td__native_weights(model, file, &reason);
    } else if (file) {
        status = take_from_model(model, file, &reason);
        if (status == TD_NO_MODEL) {
            status = take_from_list(model, file, &reason);
        }
    }
    td__model_file_close(file);
    return status ? td_error_set(error, status, "%s", reason.text) : TD_OK;
}
