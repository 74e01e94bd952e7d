/* Models from files and back: finds out what a path is, and hands it to the format's own file. */
#include "tapedeck/model.h"

#include "base/memory.h"
#include "model/architecture.h"
#include "model/safetensors.h"
#include "model/weights.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#define ARCHITECTURE "tapedeck.model" /* also in checkpoints, see train */

static bool ends_in(const char *path, const char *ending) {
    size_t length = strlen(path), tail = strlen(ending);
    return length >= tail && !strcasecmp(path + length - tail, ending);
}

static bool is_folder(const char *path) {
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

/* The last of RUN/checkpoints/step-*.safetensors by name, which is by step; "" when there is none.
 */
static void last_checkpoint(const char *run, char *name, size_t size) {
    char folder[4096];
    *name = 0;
    if ((size_t)snprintf(folder, sizeof folder, "%s/checkpoints", run) >= sizeof folder) {
        return;
    }
    DIR *listing = opendir(folder);
    for (struct dirent *entry; listing && (entry = readdir(listing));) {
        if (!strncmp(entry->d_name, "step-", 5) && ends_in(entry->d_name, ".safetensors") &&
            strcmp(entry->d_name, name) > 0) {
            (void)snprintf(name, size, "%s", entry->d_name);
        }
    }
    if (listing) {
        closedir(listing);
    }
}

/* The .safetensors file that path means; NULL on failure. The caller frees it. */
static char *resolve(const char *path, td_error *error) {
    if (!is_folder(path)) {
        char *copy = td__strdup(path);
        if (!copy) {
            td_error_set(error, TD_MEMORY, "%s: out of memory", path);
        }
        return copy;
    }
    size_t room = strlen(path) + 300;
    char *file = td__calloc(room, 1);
    if (!file) {
        td_error_set(error, TD_MEMORY, "%s: out of memory", path);
        return NULL;
    }
    struct stat about;
    (void)snprintf(file, room, "%s/model.safetensors", path);
    if (stat(file, &about) == 0) {
        return file;
    }
    char name[256];
    last_checkpoint(path, name, sizeof name);
    if (!*name) {
        td_error_set(error, TD_NOT_FOUND,
                     "%s: a folder with neither model.safetensors nor a checkpoint; expected a run",
                     path);
        td__free(file);
        return NULL;
    }
    (void)snprintf(file, room, "%s/checkpoints/%s", path, name);
    return file;
}

/* Parameters are plain "LAYER.PARAMETER"; a checkpoint's state stands under these. */
static bool is_state(const char *name) {
    return !strncmp(name, "optimizer/", 10) || !strncmp(name, "training/", 9);
}

static td_status take_tensors(td_model *model, const td__safetensors *file, const char *path,
                              td_error *error) {
    td__weights weights;
    td_status status = td__weights_init(&weights, model, path, error);
    if (status) {
        return status;
    }
    for (size_t i = 0; !status && i < td__safetensors_count(file); i++) {
        const td__named_view *tensor = td__safetensors_at(file, i);
        if (!is_state(tensor->name)) {
            status = td__weights_put(&weights, tensor->name, &tensor->view, error);
        }
    }
    if (!status) {
        status = td__weights_apply(&weights, error);
    }
    td__weights_release(&weights);
    return status;
}

static td_status copy_texts(const td__safetensors *file, size_t count, const char *const keys[],
                            char *texts[]) {
    for (size_t i = 0; i < count; i++) {
        const char *text = td__safetensors_text(file, keys[i]);
        texts[i] = text ? td__strdup(text) : NULL;
        if (text && !texts[i]) {
            while (i-- > 0) {
                td__free(texts[i]);
                texts[i] = NULL;
            }
            return TD_MEMORY;
        }
    }
    return TD_OK;
}

static td_model *load_safetensors(const char *path, size_t count, const char *const keys[],
                                  char *texts[], td_error *error) {
    td__safetensors *file = td__safetensors_open(path, error);
    const char *architecture = file ? td__safetensors_text(file, ARCHITECTURE) : NULL;
    td_model *model = NULL;
    if (file && !architecture) {
        td_error_set(error, TD_UNSUPPORTED,
                     "%s: only weights, no architecture; give it as `weights:` of an experiment "
                     "that has the model",
                     path);
    } else if (file) {
        model = td__architecture_read(architecture, path, error);
    }
    if (model && take_tensors(model, file, path, error)) {
        td_model_destroy(model);
        model = NULL;
    }
    if (model && copy_texts(file, count, keys, texts)) {
        td_error_set(error, TD_MEMORY, "%s: out of memory", path);
        td_model_destroy(model);
        model = NULL;
    }
    td__safetensors_close(file);
    return model;
}

td_model *td_model_load_with(const char *path, size_t count, const char *const keys[],
                             char *texts[], td_error *error) {
    char *file = resolve(path, error);
    td_model *model = file ? load_safetensors(file, count, keys, texts, error) : NULL;
    td__free(file);
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
    size_t parameters = td_model_parameter_count(model);
    td__named_view *tensors = td__calloc(parameters + 1, sizeof *tensors);
    td__text_pair *texts = td__calloc(count + 1, sizeof *texts);
    char *architecture = td__architecture_write(model);
    td_status status = TD_MEMORY;
    if (!tensors || !texts || !architecture) {
        td_error_set(error, status, "%s: out of memory, or a name that is not UTF-8", path);
    } else {
        for (size_t i = 0; i < parameters; i++) {
            const td_parameter_info *parameter = td_model_parameter_at(model, i);
            tensors[i] = (td__named_view){parameter->name, td_view_of(parameter->tensor)};
        }
        for (size_t i = 0; i < count; i++) {
            texts[i] = (td__text_pair){notes[i].key, notes[i].value};
        }
        texts[count] = (td__text_pair){ARCHITECTURE, architecture};
        status = td__safetensors_write(path, parameters, tensors, count + 1, texts, error);
    }
    td__free(architecture);
    td__free(texts);
    td__free(tensors);
    return status;
}

td_status td_weights_save(const td_model *model, const char *path, td_error *error) {
    if (ends_in(path, ".csv")) {
        return td__weights_csv_write(model, path, error);
    }
    if (ends_in(path, ".npz")) {
        return td__weights_npz_write(model, path, error);
    }
    if (ends_in(path, ".safetensors")) {
        return td_model_save(model, path, 0, NULL, error);
    }
    return td_error_set(error, TD_UNSUPPORTED,
                        "%s: weights are written to .csv, .npz or .safetensors", path);
}

td_status td_weights_load(td_model *model, const char *path, td_error *error) {
    if (ends_in(path, ".csv") || ends_in(path, ".csv.gz")) {
        td__weights weights;
        td_status status = td__weights_init(&weights, model, path, error);
        if (!status) {
            status = td__weights_csv_read(&weights, error);
            if (!status) {
                status = td__weights_apply(&weights, error);
            }
            td__weights_release(&weights);
        }
        return status;
    }
    char *name = resolve(path, error);
    td__safetensors *file = name ? td__safetensors_open(name, error) : NULL;
    td_status status = file ? take_tensors(model, file, name, error) : TD_NOT_FOUND;
    td__safetensors_close(file);
    td__free(name);
    return status;
}
