/* Gradients to files. */
#include "base/file.h"
#include "base/little.h"
#include "base/memory.h"
#include "data/npy.h"
#include "model/weights.h"
#include "sink/text.h"
#include "tapedeck/apply.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

static bool write_signal(FILE *stream, const td_gradient *gradient) {
    size_t length = strlen(gradient->name);
    char *prefix = td__calloc(TD__CSV_CELL(length) + 1, 1);
    if (!prefix) {
        return false;
    }
    size_t used = td__csv_cell(prefix, gradient->name, length);
    prefix[used++] = ',';
    td_view view = td_view_of(gradient->tensor);
    bool good = td__csv_elements(stream, prefix, used, &view);
    td__free(prefix);
    return good;
}

static td_status save_csv(const td_gradients *gradients, const char *to, td_error *error) {
    td__draft draft;
    FILE *stream = td__draft_open(&draft, to, error);
    if (!stream) {
        return TD_IO;
    }
    bool good = fputs("signal,index,value\n", stream) >= 0;
    const td_gradient *gradient;
    for (size_t i = 0; good && (gradient = td_gradients_at(gradients, i)); i++) {
        good = write_signal(stream, gradient);
    }
    return td__draft_close(&draft, stream, good) ? TD_OK : td__file_error(error, to, "write");
}

static td_status save_npz(const td_gradients *gradients, const char *to, td_error *error) {
    size_t count = td_gradients_about(gradients)->count;
    td__named_view *tensors = td__calloc(count + 1, sizeof *tensors);
    for (size_t i = 0; tensors && i < count; i++) {
        const td_gradient *gradient = td_gradients_at(gradients, i);
        tensors[i] = (td__named_view){.name = gradient->name, .view = td_view_of(gradient->tensor)};
    }
    td_status status = tensors ? td__npz_write(to, count, tensors, error)
                               : td_error_set(error, TD_MEMORY, "%s: out of memory", to);
    td__free(tensors);
    return status;
}

static td_status save_npy(int folder, const td_gradient *gradient, td_error *error) {
    char name[TD__FILE_NAME_SIZE + 8], header[TD__NPY_HEADER];
    td_shape shape = td_tensor_shape(gradient->tensor);
    size_t head = td__npy_header(header, TD_FLOAT32, &shape);
    size_t size = (size_t)td_tensor_count(gradient->tensor) * sizeof(float);
    char *bytes = td__calloc(head + size, 1);
    if (!bytes) {
        return td_error_set(error, TD_MEMORY, "%s: out of memory", gradient->name);
    }
    memcpy(bytes, header, head);
    td__little_copy(bytes + head, td_tensor_data(gradient->tensor), size, sizeof(float));
    td__file_name(name, gradient->name);
    (void)strcat(name, ".npy");
    td_status status = td__file_publish(folder, name, bytes, head + size, false, error);
    td__free(bytes);
    return status;
}

static td_status save_folder(const td_gradients *gradients, const char *to, td_error *error) {
    (void)mkdir(to, 0777); /* there already, or opening it fails */
    int folder = td__folder_open(to, error);
    td_status status = folder < 0 ? TD_IO : TD_OK;
    const td_gradient *gradient;
    for (size_t i = 0; !status && (gradient = td_gradients_at(gradients, i)); i++) {
        status = save_npy(folder, gradient, error);
    }
    if (folder >= 0) {
        close(folder);
    }
    return status;
}

td_status td_gradients_save(const td_gradients *gradients, const char *to, td_error *error) {
    static const struct {
        const char *ending;
        td_status (*save)(const td_gradients *gradients, const char *to, td_error *error);
    } formats[] = {{".csv", save_csv}, {".npz", save_npz}, {"/", save_folder}};
    size_t length = strlen(to);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        size_t tail = strlen(formats[i].ending);
        if (length > tail && !strcasecmp(to + length - tail, formats[i].ending)) {
            return formats[i].save(gradients, to, error);
        }
    }
    return td_error_set(error, TD_UNSUPPORTED,
                        "%s: gradients are written to .csv, .npz, or a folder of .npy files (a "
                        "name that ends in '/')",
                        to);
}
