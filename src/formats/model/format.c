/* The formats, and the errors for files that are none of them. */
#include "model/format.h"

#include "base/memory.h"
#include "exported/exported.h"
#include "graph/build.h"
#include "keras/keras.h"
#include "keras/notes.h"
#include "keras/saved_model.h"
#include "model/native.h"
#include "model/table.h"
#include "onnx/onnx.h"
#include "tensorflow/bundle.h"
#include "tensorflow/saved_graph.h"
#include "tensorflow/sorted.h"
#include "tflite/tflite.h"
#include "torch/torch.h"

#include <string.h>
#include <strings.h>

bool td__path_ends_in(const char *path, const char *ending) {
    size_t length = strlen(path), tail = strlen(ending);
    return length >= tail && !strcasecmp(path + length - tail, ending);
}

/* Whether an archive has a member whose name ends so. */
static bool has_member(const td__model_file *file, const char *ending) {
    size_t tail = strlen(ending);
    for (size_t i = 0; file->is_zip && i < file->zip.count; i++) {
        const td__zip_entry *entry = &file->zip.entries[i];
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
static bool is_safetensors(const td__model_file *file) {
    const uint8_t *head = file->bytes.data;
    return file->bytes.size > 8 && !head[4] && !head[5] && !head[6] && !head[7] && head[8] == '{';
}

static bool is_torch(const td__model_file *file) {
    return file->is_zip ? has_member(file, "/data.pkl")
                        : td__torch_is_pickle(file->bytes.data, file->bytes.size);
}

static td_model *refuse_torch(const td__model_file *file, td__model_for *data, td_error *error) {
    (void)data;
    return no_model(file->path, "tensors that torch.save wrote",
                    "give them as `weights:` of an experiment that has the model, or export the "
                    "model: torch.onnx.export(model, example, \"model.onnx\")",
                    error);
}

/* torch.export.save's. */
static bool is_exported(const td__model_file *file) {
    return has_member(file, "archive_format") || has_member(file, "exported_program.json");
}

/* Tar archives of PyTorch before 0.1.10. */
static bool is_tar(const td__model_file *file) {
    return file->bytes.size > 262 && !memcmp(file->bytes.data + 257, "ustar", 5);
}

static td_model *refuse_tar(const td__model_file *file, td__model_for *data, td_error *error) {
    (void)data;
    td_error_set(error, TD_UNSUPPORTED,
                 "%s: a tar archive, as PyTorch before 0.1.10 wrote; unpack it, or save it anew "
                 "with torch.save(torch.load(\"%s\"), \"new.pt\")",
                 file->path, file->path);
    return NULL;
}

static bool is_npz(const td__model_file *file) {
    return has_member(file, ".npy") && !has_member(file, "config.json");
}

static td_model *refuse_npz(const td__model_file *file, td__model_for *data, td_error *error) {
    (void)data;
    return no_model(file->path, "an NPZ file",
                    "give it as `weights:` of an experiment that has the model", error);
}

static bool is_keras(const td__model_file *file) {
    return td__keras_is_zip(file->bytes.data, file->bytes.size);
}

static bool is_hdf5(const td__model_file *file) {
    return td__keras_is_hdf5(file->bytes.data, file->bytes.size);
}

static bool is_saved_model(const td__model_file *file) {
    return td__path_ends_in(file->path, "/" TD__SAVED_MODEL) ||
           !strcmp(file->path, TD__SAVED_MODEL);
}

static bool is_checkpoint(const td__model_file *file) {
    return td__sorted_recognise(file->bytes.data, file->bytes.size);
}

static td_model *refuse_checkpoint(const td__model_file *file, td__model_for *data,
                                   td_error *error) {
    (void)data;
    return no_model(
        file->path, "a checkpoint of TensorFlow's",
        "load it into the model in Keras, and save that with model.save(\"model.keras\")", error);
}

static bool is_onnx(const td__model_file *file) {
    return td__onnx_recognise(file->bytes.data, file->bytes.size);
}

static bool is_tflite(const td__model_file *file) {
    return td__tflite_recognise(file->bytes.data, file->bytes.size);
}

/* Graphs of TensorFlow's have nothing to be recognised by but their name. */
static void refuse_graph(const char *path, td_error *error) {
    td_error_set(error, TD_UNSUPPORTED,
                 "%s: a frozen graph of TensorFlow; convert it: python -m tf2onnx.convert "
                 "--graphdef FILE --inputs … --outputs … --output model.onnx",
                 path);
}

static td__graph *saved_model_graph(const td__model_file *file, td_error *error) {
    return td__saved_graph_open(file->path, file->bytes.data, file->bytes.size, error);
}

/* ---- Models ---------------------------------------------------------------------------------- */

static td_model *load_saved_model(const td__model_file *file, td__model_for *data,
                                  td_error *error) {
    (void)data;
    td_error reason = {0};
    td_model *model = td__keras_saved_load(file->path, &reason);
    if (!model && reason.status == TD_NO_MODEL && file->bytes.size) { /* not Keras 2's: its graph */
        td_error why = {0};
        td__graph *graph = saved_model_graph(file, &why);
        if (!graph) { /* its weights can still be listed */
            td_status status = why.status == TD_UNSUPPORTED ? TD_NO_MODEL : why.status;
            (void)td_error_set(error, status, "%s", why.text);
        }
        return graph ? td__graph_model_built(graph, file->path, error) : NULL;
    }
    if (!model) {
        (void)td_error_set(error, reason.status, "%s", reason.text);
    }
    return model;
}

static td_model *load_keras(const td__model_file *file, td__model_for *data, td_error *error) {
    (void)data;
    return td__keras_parse(file->path, file->bytes.data, file->bytes.size, error);
}

static td_model *load_exported(const td__model_file *file, td__model_for *data, td_error *error) {
    (void)data;
    return td__exported_model(file->bytes.data, file->bytes.size, file->path, error);
}

static td_model *load_tflite(const td__model_file *file, td__model_for *data, td_error *error) {
    (void)data;
    return td__tflite_model(file->bytes.data, file->bytes.size, file->path, error);
}

/* The beginning of a SavedModel's graph could be an ONNX file's. */
static td_model *load_onnx(const td__model_file *file, td__model_for *data, td_error *error) {
    const td__bytes *bytes = &file->bytes;
    td_model *model = td__onnx_model(bytes->data, bytes->size, file->path, data, error);
    if (!model && !(data && data->waits) && td__path_ends_in(file->path, ".pb")) {
        refuse_graph(file->path, error);
    }
    return model;
}

/* ---- Graphs ---------------------------------------------------------------------------------- */

static td__graph *onnx_graph(const td__model_file *file, td_error *error) {
    return td__onnx_parse(file->bytes.data, file->bytes.size, file->path, error);
}

static td__graph *exported_graph(const td__model_file *file, td_error *error) {
    return td__exported_graph(file->bytes.data, file->bytes.size, file->path, error);
}

static td__graph *tflite_graph(const td__model_file *file, td_error *error) {
    return td__tflite_graph(file->bytes.data, file->bytes.size, file->path, error);
}

/* ---- Tensors --------------------------------------------------------------------------------- */

static td_status saved_model_tensors(td__model_file *file, td__tensor_list *list, td_error *error) {
    return td__keras_saved_tensors(file->path, list, error);
}

static td_status checkpoint_tensors(td__model_file *file, td__tensor_list *list, td_error *error) {
    return td__bundle_tensors(file->path, &file->bytes, list, error);
}

static td_status torch_tensors(td__model_file *file, td__tensor_list *list, td_error *error) {
    td_status status = td__model_file_keep(file, list, error);
    return status ? status
                  : td__torch_parse(file->path, file->bytes.data, file->bytes.size, list, error);
}

/* ---- Texts ----------------------------------------------------------------------------------- */

static td_status keras_texts(const td__model_file *file, size_t count, const char *const keys[],
                             char *texts[], td_error *error) {
    const td__zip *zip = td__model_file_zip(file, error);
    return zip ? td__keras_texts(zip, count, keys, texts, error) : TD_FORMAT;
}

static td_status hdf5_texts(const td__model_file *file, size_t count, const char *const keys[],
                            char *texts[], td_error *error) {
    return td__keras_legacy_texts(file->path, file->bytes.data, file->bytes.size, count, keys,
                                  texts, error);
}

static td_status onnx_texts(const td__model_file *file, size_t count, const char *const keys[],
                            char *texts[], td_error *error) {
    return td__onnx_texts(file->path, file->bytes.data, file->bytes.size, count, keys, texts,
                          error);
}

/* The first that recognises a file has it. */
static const td__format formats[] = {
    {"SavedModel", is_saved_model, load_saved_model, saved_model_tensors, NULL, saved_model_graph},
    {"safetensors", is_safetensors, td__native_load, td__safetensors_list, td__native_texts, NULL},
    {"torch.export", is_exported, load_exported, td__graph_tensors, NULL, exported_graph},
    {"PyTorch", is_torch, refuse_torch, torch_tensors, NULL, NULL},
    {"PyTorch", is_tar, refuse_tar, NULL, NULL, NULL},
    {"NPZ", is_npz, refuse_npz, td__npz_tensors, NULL, NULL},
    {"Keras", is_keras, load_keras, td__keras_tensors, keras_texts, NULL},
    {"Keras HDF5", is_hdf5, load_keras, td__hdf5_tensors, hdf5_texts, NULL},
    {"TensorFlow Lite", is_tflite, load_tflite, td__graph_tensors, NULL, tflite_graph},
    {"TensorFlow checkpoint", is_checkpoint, refuse_checkpoint, checkpoint_tensors, NULL, NULL},
    {"ONNX", is_onnx, load_onnx, td__graph_tensors, onnx_texts, onnx_graph},
};
enum { FORMATS = sizeof formats / sizeof *formats };

const td__format *td__format_of(const td__model_file *file, td_error *error) {
    for (size_t i = 0; i < FORMATS; i++) {
        if (formats[i].recognise(file)) {
            return &formats[i];
        }
    }
    if (td__path_ends_in(file->path, ".pb")) {
        refuse_graph(file->path, error);
    } else {
        td_error_set(error, TD_FORMAT,
                     "%s: no model file: expected a run's folder, .safetensors, .keras, .h5, "
                     ".onnx, .tflite or .pt2",
                     file->path);
    }
    return NULL;
}
