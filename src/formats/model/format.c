/* The formats, and what is said of files that are none of them. */
#include "model/format.h"

#include "base/bytes.h"
#include "exported/exported.h"
#include "keras/keras.h"
#include "keras/notes.h"
#include "keras/saved_model.h"
#include "model/native.h"
#include "model/onnx_notes.h"
#include "model/table.h"
#include "onnx/model.h"
#include "tensorflow/bundle.h"
#include "tensorflow/sorted.h"
#include "tflite/tflite.h"
#include "torch/torch.h"
#include "zip/zip.h"

#include <string.h>
#include <strings.h>

enum { HEAD_SIZE = 4096 };

bool td__path_ends_in(const char *path, const char *ending) {
    size_t length = strlen(path), tail = strlen(ending);
    return length >= tail && !strcasecmp(path + length - tail, ending);
}

/* Whether an archive has a member whose name ends so. */
static bool has_member(const td__subject *file, const char *ending) {
    size_t tail = strlen(ending);
    for (size_t i = 0; file->zip && i < file->zip->count; i++) {
        const td__zip_entry *entry = &file->zip->entries[i];
        if (entry->name_size >= tail &&
            !memcmp(entry->name + entry->name_size - tail, ending, tail)) {
            return true;
        }
    }
    return false;
}

static td_model *no_model(const char *path, const char *what, const char *remedy, td_error *error) {
    td_error_set(error, TD_NO_MODEL,
                 "%s: %s: weights alone, no architecture; `tapedeck inspect` lists them, `tapedeck "
                 "weights` converts them; %s",
                 path, what, remedy);
    return NULL;
}

/* The length of a header, of which a file of 16 MiB has no more than 4 bytes, and the header. */
static bool is_safetensors(const td__subject *file) {
    const unsigned char *head = file->head;
    return file->size > 8 && !head[4] && !head[5] && !head[6] && !head[7] && head[8] == '{';
}

static bool is_torch(const td__subject *file) {
    return file->zip ? has_member(file, "/data.pkl") : td__torch_is_pickle(file->head, file->size);
}

static td_model *refuse_torch(const char *path, td_error *error) {
    return no_model(path, "tensors that torch.save wrote",
                    "give them as `weights:` of an experiment that has the model, or export the "
                    "model: torch.onnx.export(model, example, \"model.onnx\")",
                    error);
}

/* torch.export.save's. */
static bool is_exported(const td__subject *file) {
    return has_member(file, "archive_format") || has_member(file, "exported_program.json");
}

/* Tar archives of PyTorch before 0.1.10. */
static bool is_tar(const td__subject *file) {
    return file->size > 262 && !memcmp(file->head + 257, "ustar", 5);
}

static td_model *refuse_tar(const char *path, td_error *error) {
    td_error_set(error, TD_UNSUPPORTED,
                 "%s: a tar archive, as PyTorch before 0.1.10 wrote; unpack it, or save it anew "
                 "with torch.save(torch.load(\"%s\"), \"new.pt\")",
                 path, path);
    return NULL;
}

static bool is_npz(const td__subject *file) {
    return has_member(file, ".npy") && !has_member(file, "config.json");
}

static td_model *refuse_npz(const char *path, td_error *error) {
    return no_model(path, "an NPZ file",
                    "give it as `weights:` of an experiment that has the model", error);
}

static bool is_keras(const td__subject *file) {
    return file->zip || td__keras_is_zip(file->head, file->size);
}

static bool is_hdf5(const td__subject *file) {
    return td__keras_is_hdf5(file->head, file->size);
}

static bool is_saved_model(const td__subject *file) {
    return td__path_ends_in(file->path, "/" TD__SAVED_MODEL) ||
           !strcmp(file->path, TD__SAVED_MODEL);
}

static bool is_checkpoint(const td__subject *file) {
    return td__sorted_recognise(file->tail, file->size);
}

static td_model *refuse_checkpoint(const char *path, td_error *error) {
    return no_model(
        path, "a checkpoint of TensorFlow's",
        "load it into the model in Keras, and save that with model.save(\"model.keras\")", error);
}

static bool is_onnx(const td__subject *file) {
    return td__onnx_recognise(file->head, file->size);
}

static bool is_tflite(const td__subject *file) {
    return td__tflite_recognise(file->head, file->size);
}

/* Graphs of TensorFlow's have nothing to be recognised by but their name. */
static void refuse_graph(const char *path, td_error *error) {
    td_error_set(error, TD_UNSUPPORTED,
                 "%s: a frozen graph of TensorFlow; convert it: python -m tf2onnx.convert "
                 "--graphdef FILE --inputs … --outputs … --output model.onnx",
                 path);
}

/* The beginning of a SavedModel's graph could be an ONNX file's. */
static td_model *load_onnx(const char *path, td_error *error) {
    td_model *model = td__onnx_load(path, error);
    if (!model && td__path_ends_in(path, ".pb")) {
        refuse_graph(path, error);
    }
    return model;
}

/* The first that recognises a file has it. */
static const td__format formats[] = {
    {"SavedModel", is_saved_model, td__keras_saved_load, td__keras_saved_tensors, NULL, NULL},
    {"safetensors", is_safetensors, td__native_load, td__safetensors_list, td__native_texts, NULL},
    {"torch.export", is_exported, td__exported_load, td__graph_tensors, NULL, td__exported_graph},
    {"PyTorch", is_torch, refuse_torch, td__torch_tensors, NULL, NULL},
    {"PyTorch", is_tar, refuse_tar, NULL, NULL, NULL},
    {"NPZ", is_npz, refuse_npz, td__npz_tensors, NULL, NULL},
    {"Keras", is_keras, td__keras_load, td__keras_tensors, td__keras_texts, NULL},
    {"Keras HDF5", is_hdf5, td__keras_load, td__hdf5_tensors, td__keras_legacy_texts, NULL},
    {"TensorFlow Lite", is_tflite, td__tflite_load, td__graph_tensors, NULL, td__tflite_graph},
    {"TensorFlow checkpoint", is_checkpoint, refuse_checkpoint, td__bundle_tensors, NULL, NULL},
    {"ONNX", is_onnx, load_onnx, td__graph_tensors, td__onnx_texts, NULL},
};
enum { FORMATS = sizeof formats / sizeof *formats };

const td__format *td__format_of(const char *path, td_error *error) {
    td__bytes bytes = {0};
    if (td__bytes_map(&bytes, path, error)) {
        return NULL;
    }
    td__zip zip = {0};
    size_t size = bytes.size < HEAD_SIZE ? bytes.size : HEAD_SIZE;
    td__subject file = {path, bytes.data, bytes.data + (bytes.size - size), size, NULL};
    if (td__keras_is_zip(file.head, size) &&
        !td__zip_open(&zip, bytes.data, bytes.size, path, NULL)) {
        file.zip = &zip;
    }
    const td__format *found = NULL;
    for (size_t i = 0; i < FORMATS && !found; i++) {
        found = formats[i].recognise(&file) ? &formats[i] : NULL;
    }
    td__zip_release(&zip);
    td__bytes_release(&bytes);
    if (!found && td__path_ends_in(path, ".pb")) {
        refuse_graph(path, error);
    } else if (!found) {
        td_error_set(error, TD_FORMAT,
                     "%s: no model file: expected a run's folder, .safetensors, .keras, .h5, "
                     ".onnx, .tflite or .pt2",
                     path);
    }
    return found;
}
