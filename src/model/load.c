/* Models from files and back: finds out what a path is, and hands it to the format's own file. */
#include "tapedeck/model.h"

#include "base/file.h"
#include "base/memory.h"
#include "keras/keras.h"
#include "keras/notes.h"
#include "model/load.h"
#include "model/native.h"
#include "model/weights.h"
#include "onnx/model.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* The file that path means; NULL on failure. The caller frees it. */
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
    (void)snprintf(file, room, "%s/saved_model.pb", path);
    if (stat(file, &about) == 0) {
        td_error_set(error, TD_UNSUPPORTED,
                     "%s: a SavedModel of TensorFlow; convert it: python -m tf2onnx.convert "
                     "--saved-model %s --output model.onnx",
                     path, path);
        td__free(file);
        return NULL;
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

/* ---- Formats --------------------------------------------------------------------------------- */

enum { HEAD_SIZE = 4096 };

/* A file is what its first bytes say, whatever it is called. */
typedef struct format {
    const char *name;
    bool (*recognise)(const unsigned char *head, size_t size); /* size: at most HEAD_SIZE */
    td_model *(*load)(const char *path, td_error *error);
    /* Copies of texts kept with the model (NULL where there is none); NULL: it keeps none. */
    td_status (*texts)(const char *path, size_t count, const char *const keys[], char *texts[],
                       td_error *error);
} format;

/* The length of a header, of which a file of 16 MiB has no more than 4 bytes, and the header. */
static bool is_safetensors(const unsigned char *head, size_t size) {
    return size > 8 && !head[4] && !head[5] && !head[6] && !head[7] && head[8] == '{';
}

/* torch.save's: a zip whose first member is …/data.pkl, or a bare pickle. */
static bool is_pickle(const unsigned char *head, size_t size) {
    enum { NAME_LENGTH = 26, NAME = 30, LONGEST = 256 };
    static const char end[] = "/data.pkl";
    if (size > 2 && head[0] == 0x80 && head[1] >= 2 && head[1] <= 5) {
        return true;
    }
    size_t length = size > NAME ? (size_t)head[NAME_LENGTH] : 0, tail = sizeof end - 1;
    return size > NAME + LONGEST && !memcmp(head, "PK\3\4", 4) && length >= tail &&
           !memcmp(head + NAME + length - tail, end, tail);
}

static td_model *refuse_pickle(const char *path, td_error *error) {
    td_error_set(error, TD_UNSUPPORTED,
                 "%s: a pickle of PyTorch's is code, which is never run; export the model with "
                 "torch.onnx.export(model, example, \"model.onnx\"), or save its state_dict() with "
                 "safetensors.torch.save_file and give that as weights",
                 path);
    return NULL;
}

static bool is_tflite(const unsigned char *head, size_t size) {
    return size > 8 && !memcmp(head + 4, "TFL3", 4);
}

static td_model *refuse_tflite(const char *path, td_error *error) {
    td_error_set(
        error, TD_UNSUPPORTED,
        "%s: a model of TensorFlow Lite; convert it: python -m tf2onnx.convert --tflite %s "
        "--output model.onnx",
        path, path);
    return NULL;
}

/* Graphs of TensorFlow's have nothing to be recognised by but their name. */
static void refuse_graph(const char *path, td_error *error) {
    bool saved_model = ends_in(path, "saved_model.pb");
    td_error_set(error, TD_UNSUPPORTED,
                 saved_model ? "%s: the graph of a SavedModel of TensorFlow; convert its folder: "
                               "python -m tf2onnx.convert --saved-model FOLDER --output model.onnx"
                             : "%s: a frozen graph of TensorFlow; convert it: python -m "
                               "tf2onnx.convert --graphdef FILE --inputs … --outputs … --output "
                               "model.onnx",
                 path);
}

/* The beginning of a SavedModel's graph could be an ONNX file's. */
static td_model *load_onnx(const char *path, td_error *error) {
    td_model *model = td__onnx_load(path, error);
    if (!model && ends_in(path, ".pb")) {
        refuse_graph(path, error);
    }
    return model;
}

/* The first that recognises a file has it. */
static const format formats[] = {
    {"safetensors", is_safetensors, td__native_load, td__native_texts},
    {"pickle", is_pickle, refuse_pickle, NULL},
    {"Keras", td__keras_is_zip, td__keras_load, td__keras_texts},
    {"Keras HDF5", td__keras_is_hdf5, td__keras_load, NULL},
    {"TensorFlow Lite", is_tflite, refuse_tflite, NULL},
    {"ONNX", td__onnx_recognise, load_onnx, NULL},
};
enum { FORMATS = sizeof formats / sizeof *formats };

/* NULL on failure. */
static const format *recognise(const char *path, td_error *error) {
    unsigned char head[HEAD_SIZE];
    int file = td__file_open(AT_FDCWD, path, O_RDONLY);
    ssize_t size = file < 0 ? -1 : pread(file, head, sizeof head, 0);
    if (size < 0) {
        td__file_error(error, path, "read");
    }
    if (file >= 0) {
        close(file);
    }
    for (size_t i = 0; size >= 0 && i < FORMATS; i++) {
        if (formats[i].recognise(head, (size_t)size)) {
            return &formats[i];
        }
    }
    if (size >= 0 && ends_in(path, ".pb")) {
        refuse_graph(path, error);
    } else if (size >= 0) {
        td_error_set(
            error, TD_FORMAT,
            "%s: no model file: expected a run's folder, .safetensors, .keras, .h5 or .onnx", path);
    }
    return NULL;
}

td_model *td__model_load_from(const char *path, char **file, const char **format_name,
                              td_error *error) {
    char *name = resolve(path, error);
    const format *found = name ? recognise(name, error) : NULL;
    td_model *model = found ? found->load(name, error) : NULL;
    if (!model) {
        td__free(name);
        return NULL;
    }
    *file = name;
    *format_name = found->name;
    return model;
}

td_status td__model_texts(const char *path, size_t count, const char *const keys[], char *texts[],
                          td_error *error) {
    td_error reason = {0};
    char *file = resolve(path, &reason);
    const format *found = file ? recognise(file, &reason) : NULL;
    for (size_t i = 0; i < count; i++) {
        texts[i] = NULL;
    }
    td_status status = found ? TD_OK : td_error_set(error, reason.status, "%s", reason.text);
    if (found && found->texts) {
        status = found->texts(file, count, keys, texts, error);
    }
    td__free(file);
    return status;
}

td_model *td_model_load_with(const char *path, size_t count, const char *const keys[],
                             char *texts[], td_error *error) {
    char *file = NULL;
    const char *format_name;
    td_model *model = td__model_load_from(path, &file, &format_name, error);
    for (size_t i = 0; i < count; i++) {
        texts[i] = NULL;
    }
    if (model && count && td__model_texts(file, count, keys, texts, error)) {
        td_model_destroy(model);
        model = NULL;
    }
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
    return ends_in(path, ".keras") ? td__keras_save(model, path, count, notes, error)
                                   : td__native_save(model, path, count, notes, error);
}

/* ---- Weights --------------------------------------------------------------------------------- */

static td_status save_model(const td_model *model, const char *path, td_error *error) {
    return td_model_save(model, path, 0, NULL, error);
}

static const struct {
    const char *ending;
    td_status (*save)(const td_model *model, const char *path, td_error *error);
} writers[] = {
    {".csv", td__weights_csv_write}, {".npz", td__weights_npz_write}, {".safetensors", save_model},
    {".keras", save_model},          {".onnx", td__onnx_save},
};

td_status td_weights_save(const td_model *model, const char *path, td_error *error) {
    char endings[128] = "";
    size_t count = sizeof writers / sizeof *writers;
    for (size_t i = 0; i < count; i++) {
        if (ends_in(path, writers[i].ending)) {
            return writers[i].save(model, path, error);
        }
        size_t length = strlen(endings);
        (void)snprintf(endings + length, sizeof endings - length, "%s%s",
                       i == 0           ? ""
                       : i + 1 == count ? " or "
                                        : ", ",
                       writers[i].ending);
    }
    return td_error_set(error, TD_UNSUPPORTED, "%s: weights are written to %s", path, endings);
}

/* The parameters of another model of any format, which must be those of this one. */
static td_status take_from_model(td_model *model, const format *found, const char *path,
                                 td_error *error) {
    td_model *other = found->load(path, error);
    if (!other) {
        return TD_FORMAT;
    }
    size_t count = td_model_parameter_count(other);
    td__named_view *views = td__parameter_views(other);
    td_status status = views ? td__weights_assign(model, path, count, views, error)
                             : td_error_set(error, TD_MEMORY, "%s: out of memory", path);
    td__free(views);
    td_model_destroy(other);
    return status;
}

td_status td_weights_load(td_model *model, const char *path, td_error *error) {
    if (ends_in(path, ".csv") || ends_in(path, ".csv.gz")) {
        return td__weights_csv_read(model, path, error);
    }
    if (ends_in(path, ".npz")) {
        return td__weights_npz_read(model, path, error);
    }
    char *file = resolve(path, error);
    const format *found = file ? recognise(file, error) : NULL;
    td_status status = TD_NOT_FOUND;
    if (found) {
        status = found->load == td__native_load ? td__native_weights(model, file, error)
                                                : take_from_model(model, found, file, error);
    }
    td__free(file);
    return status;
}
