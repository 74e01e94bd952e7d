#include "model/native.h"

#include "base/memory.h"
#include "model/architecture.h"
#include "model/pytorch.h"
#include "model/weights.h"

#include <string.h>

#define ARCHITECTURE "tapedeck.model" /* also in checkpoints, see train */

/* Parameters are plain "LAYER.PARAMETER"; a checkpoint's state stands under these. */
static bool is_state(const char *name) {
    return !strncmp(name, "optimizer/", 10) || !strncmp(name, "training/", 9);
}

/* Whether the model has a parameter for each of them. */
static bool are_parameters(const td_model *model, size_t count, const td__named_view *tensors) {
    for (size_t i = 0; i < count; i++) {
        bool found = false;
        for (size_t k = 0; k < td_model_parameter_count(model) && !found; k++) {
            found = !strcmp(td_model_parameter_at(model, k)->name, tensors[i].name);
        }
        if (!found) {
            return false;
        }
    }
    return true;
}

td_status td__native_assign(td_model *model, const char *path, size_t count,
                            const td__named_view *tensors, td_error *error) {
    bool ours = !td__pytorch_names(count, tensors) || are_parameters(model, count, tensors);
    return ours ? td__weights_assign(model, path, count, tensors, error)
                : td__pytorch_assign(model, path, count, tensors, error);
}

static td_status take_tensors(td_model *model, const td__safetensors *file, const char *path,
                              td_error *error) {
    size_t all = td__safetensors_count(file), count = 0;
    td__named_view *tensors = td__calloc(all + 1, sizeof *tensors);
    if (!tensors) {
        return td_error_set(error, TD_MEMORY, "%s: out of memory", path);
    }
    for (size_t i = 0; i < all; i++) {
        const td__named_view *tensor = td__safetensors_at(file, i);
        if (!is_state(tensor->name)) {
            tensors[count++] = *tensor;
        }
    }
    td_status status = td__safetensors_text(file, ARCHITECTURE)
                           ? td__weights_assign(model, path, count, tensors, error)
                           : td__native_assign(model, path, count, tensors, error);
    td__free(tensors);
    return status;
}

static td__safetensors *parse(const td__model_file *from, td_error *error) {
    return td__safetensors_parse(from->path, from->bytes.data, from->bytes.size, error);
}

td_model *td__native_load(const td__model_file *from, td__model_for *data, td_error *error) {
    (void)data;
    const char *path = from->path;
    td__safetensors *file = parse(from, error);
    const char *architecture = file ? td__safetensors_text(file, ARCHITECTURE) : NULL;
    td_model *model = NULL;
    if (file && !architecture) {
        td_error_set(error, TD_NO_MODEL,
                     "%s: weights alone, no architecture; `tapedeck inspect` lists them, `tapedeck "
                     "weights` converts them; give it as `weights:` of an experiment that has the "
                     "model",
                     path);
    } else if (file) {
        model = td__architecture_read(architecture, path, td__safetensors_elements(file), error);
    }
    if (model && take_tensors(model, file, path, error)) {
        td_model_destroy(model);
        model = NULL;
    }
    td__safetensors_close(file);
    return model;
}

td_status td__native_weights(td_model *model, const td__model_file *from, td_error *error) {
    td__safetensors *file = parse(from, error);
    td_status status = file ? take_tensors(model, file, from->path, error) : TD_FORMAT;
    td__safetensors_close(file);
    return status;
}

td_status td__native_texts(const td__model_file *from, size_t count, const char *const keys[],
                           char *texts[], td_error *error) {
    td__safetensors *file = parse(from, error);
    if (!file) {
        return TD_FORMAT;
    }
    td_status status = TD_OK;
    for (size_t i = 0; i < count && !status; i++) {
        const char *text = td__safetensors_text(file, keys[i]);
        texts[i] = text ? td__strdup(text) : NULL;
        if (text && !texts[i]) {
            status = td_error_set(error, TD_MEMORY, "%s: out of memory", from->path);
        }
    }
    for (size_t i = 0; status && i < count; i++) {
        td__free(texts[i]);
        texts[i] = NULL;
    }
    td__safetensors_close(file);
    return status;
}

td_status td__native_save(const td_model *model, const char *path, size_t count,
                          const td_model_note *notes, td_error *error) {
    size_t parameters = td_model_parameter_count(model);
    td__named_view *tensors = td__parameter_views(model);
    td__text_pair *texts = td__calloc(count + 1, sizeof *texts);
    char *architecture = td__architecture_write(model);
    td_status status = TD_MEMORY;
    if (!tensors || !texts || !architecture) {
        td_error_set(error, status, "%s: out of memory, or a name that is not UTF-8", path);
    } else {
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
