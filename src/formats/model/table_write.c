/* Named tensors of any element type to files. NumPy has no bfloat16: there such a tensor becomes
 * float32, which holds all of its values. */
#include "base/file.h"
#include "base/memory.h"
#include "model/table.h"
#include "model/weights.h"
#include "tensor/npy.h"
#include "tensor/order.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- CSV ------------------------------------------------------------------------------------- */

/* "layer1.0.conv.weight" is parameter weight of layer1.0.conv; "dense/kernel:0" likewise. */
static bool write_tensor(const td__named_view *tensor, FILE *stream) {
    const char *dot = strrchr(tensor->name, '.'), *slash = strrchr(tensor->name, '/');
    const char *split = slash && (!dot || slash > dot) ? slash : dot;
    size_t length = split ? (size_t)(split - tensor->name) : 0;
    char *layer = td__calloc(length + 1, 1);
    if (!layer) {
        return false;
    }
    memcpy(layer, tensor->name, length);
    bool good =
        td__weights_csv_rows(stream, layer, split ? split + 1 : tensor->name, &tensor->view);
    td__free(layer);
    return good;
}

static td_status write_csv(size_t count, const td__named_view *tensors, const char *path,
                           td_error *error) {
    size_t room = strlen(path) + 8;
    char *draft = td__calloc(room, 1);
    if (!draft) {
        return td_error_set(error, TD_MEMORY, "%s: out of memory", path);
    }
    (void)snprintf(draft, room, "%s.new", path);
    FILE *stream = fopen(draft, "wb");
    bool good = stream && fputs(TD__WEIGHTS_CSV_HEADER "\n", stream) >= 0;
    for (size_t i = 0; good && i < count; i++) {
        good = write_tensor(&tensors[i], stream);
    }
    if (stream && fclose(stream) != 0) {
        good = false;
    }
    good = good && rename(draft, path) == 0;
    td_status status = good ? TD_OK : td__file_error(error, path, "write");
    if (!good && stream) {
        (void)remove(draft);
    }
    td__free(draft);
    return status;
}

/* ---- The others ------------------------------------------------------------------------------ */

static td_status write_npz(size_t count, const td__named_view *tensors, const char *path,
                           td_error *error) {
    return td__npz_write(path, count, tensors, error);
}

static td_status write_safetensors(size_t count, const td__named_view *tensors, const char *path,
                                   td_error *error) {
    return td__safetensors_write(path, count, tensors, 0, NULL, error);
}

static td_status write_npy(int folder, const td__named_view *tensor, td_error *error) {
    char name[TD__FILE_NAME_SIZE + 8], header[TD__NPY_HEADER];
    td_view view;
    td_status status = td__numpy_view(&tensor->view, &view, error);
    if (status) {
        return status;
    }
    int64_t count = 0;
    (void)!td_shape_check(&view.shape, view.dtype, &count, NULL);
    size_t head = td__npy_header(header, view.dtype, &view.shape);
    size_t size = (size_t)count * td_dtype_size(view.dtype);
    char *bytes = td__calloc(head + size, 1);
    if (bytes) {
        memcpy(bytes, header, head);
        memcpy(bytes + head, view.data, size);
        td__file_name(name, tensor->name);
        (void)strcat(name, ".npy");
        status = td__file_publish(folder, name, bytes, head + size, false, error);
    } else {
        status = td_error_set(error, TD_MEMORY, "%s: out of memory", tensor->name);
    }
    td__free(bytes);
    td__view_release(&view);
    return status;
}

static td_status write_folder(size_t count, const td__named_view *tensors, const char *path,
                              td_error *error) {
    (void)mkdir(path, 0777); /* there already, or opening it fails */
    int folder = td__folder_open(path, error);
    td_status status = folder < 0 ? TD_IO : TD_OK;
    for (size_t i = 0; i < count && !status; i++) {
        status = write_npy(folder, &tensors[i], error);
    }
    if (folder >= 0) {
        close(folder);
    }
    return status;
}

td_status td__table_write(size_t count, const td__named_view *tensors, const char *path,
                          td_error *error) {
    static const struct {
        const char *ending;
        td_status (*write)(size_t count, const td__named_view *tensors, const char *path,
                           td_error *error);
    } writers[] = {{".csv", write_csv},
                   {".npz", write_npz},
                   {".safetensors", write_safetensors},
                   {"/", write_folder}};
    size_t length = strlen(path);
    for (size_t i = 0; i < sizeof writers / sizeof *writers; i++) {
        size_t tail = strlen(writers[i].ending);
        if (length > tail && !strcasecmp(path + length - tail, writers[i].ending)) {
            return writers[i].write(count, tensors, path, error);
        }
    }
    return td_error_set(error, TD_UNSUPPORTED,
                        "%s: tensors are written to .csv, .npz, .safetensors, or a folder of .npy "
                        "files (a name that ends in '/')",
                        path);
}
