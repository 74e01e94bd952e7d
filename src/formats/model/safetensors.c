/* Layout: u64le length of the header, the header (JSON, padded with spaces), the data. */
#include "model/safetensors.h"

#include "base/bytes.h"
#include "base/file.h"
#include "base/json.h"
#include "base/little.h"
#include "base/memory.h"
#include "model/weights.h"
#include "tensor/order.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#define MAX_HEADER (16u << 20)
#define MAX_TENSORS 100000
#define METADATA "__metadata__"
#define OURS "tapedeck." /* texts of other programs are not used, and may hold anything */

static const struct {
    const char *word;
    td_dtype dtype;
} types[] = {{"F32", TD_FLOAT32}, {"F16", TD_FLOAT16}, {"BF16", TD_BFLOAT16}, {"F64", TD_FLOAT64},
             {"I32", TD_INT32},   {"I64", TD_INT64},   {"U8", TD_UINT8},      {"BOOL", TD_BOOL},
             {"I8", TD_INT8},     {"I16", TD_INT16},   {"U16", TD_UINT16},    {"U32", TD_UINT32},
             {"U64", TD_UINT64}};

struct td__safetensors {
    const unsigned char *bytes;
    size_t size;
    td__bytes mapped; /* none: the bytes are the caller's */
    json_t *header;
    td__named_view *tensors;
    size_t count;
};

static int64_t tensor_bytes(const td__named_view *tensor) {
    int64_t count;
    return td_shape_check(&tensor->view.shape, tensor->view.dtype, &count, NULL)
               ? 0
               : count * (int64_t)td_dtype_size(tensor->view.dtype);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static td_status safetensors_malformed(td_error *error, const char *path, const char *name,
                                       const char *what) {
    return td_error_set(error, TD_FORMAT, "%s: not a sound safetensors file: %s%s%s", path,
                        name ? name : "", name ? ": " : "", what);
}

static td_status read_type(const json_t *value, td__named_view *tensor, const char *path,
                           td_error *error) {
    const char *name = tensor->name;
    const char *word = json_string_value(value);
    if (!word || td__json_has_zero(value)) {
        return safetensors_malformed(error, path, name, "dtype is missing");
    }
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (!strcmp(types[i].word, word)) {
            tensor->view.dtype = types[i].dtype;
            return TD_OK;
        }
    }
    return td_error_set(error, TD_UNSUPPORTED,
                        "%s: %s: element type %.16s; F64, F32, F16, BF16, whole numbers and BOOL "
                        "can be read",
                        path, name, word);
}

static td_status read_tensor_shape(const json_t *value, td__named_view *tensor, const char *path,
                                   td_error *error) {
    td_shape *shape = &tensor->view.shape;
    if (!json_is_array(value) || json_array_size(value) > TD_MAX_RANK) {
        return safetensors_malformed(error, path, tensor->name,
                                     "shape must be a list of at most 8 numbers");
    }
    shape->rank = (int32_t)json_array_size(value);
    for (int32_t i = 0; i < shape->rank; i++) {
        const json_t *dimension = json_array_get(value, (size_t)i);
        if (!json_is_integer(dimension) || json_integer_value(dimension) < 0) {
            return safetensors_malformed(error, path, tensor->name,
                                         "a dimension must be a whole number");
        }
        shape->dims[i] = json_integer_value(dimension);
    }
    if (td_shape_check(shape, tensor->view.dtype, NULL, NULL)) {
        return safetensors_malformed(error, path, tensor->name, "the shape is too large");
    }
    return TD_OK;
}

/* One entry of the header; offsets are into the data, which is limit bytes long. */
static td_status read_tensor(const char *name, const json_t *entry, const unsigned char *data,
                             int64_t limit, td__named_view *tensor, const char *path,
                             td_error *error) {
    *tensor = (td__named_view){.name = name};
    td_view *view = &tensor->view;
    if (!json_is_object(entry) || json_object_size(entry) != 3) {
        return safetensors_malformed(error, path, name, "expected dtype, shape and data_offsets");
    }
    td_status status = read_type(json_object_get(entry, "dtype"), tensor, path, error);
    if (!status) {
        status = read_tensor_shape(json_object_get(entry, "shape"), tensor, path, error);
    }
    if (status) {
        return status;
    }
    const json_t *offsets = json_object_get(entry, "data_offsets");
    const json_t *first = json_array_get(offsets, 0), *last = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(first) || !json_is_integer(last)) {
        return safetensors_malformed(error, path, name, "data_offsets must be two whole numbers");
    }
    int64_t begin = json_integer_value(first), end = json_integer_value(last);
    if (begin < 0 || end < begin || end > limit || end - begin != tensor_bytes(tensor)) {
        return safetensors_malformed(error, path, name,
                                     "data_offsets do not fit the shape or the file");
    }
    view->data = data + begin;
    return TD_OK;
}

static int by_address(const void *left, const void *right) {
    const td__named_view *a = *(const td__named_view *const *)left;
    const td__named_view *b = *(const td__named_view *const *)right;
    if (a->view.data != b->view.data) {
        return a->view.data < b->view.data ? -1 : 1;
    }
    /* Empty tensors share an address: they come before the one that has bytes. */
    return (tensor_bytes(a) > 0) - (tensor_bytes(b) > 0);
}

/* Tensors sorted by address follow each other and end with the file. */
static td_status check_coverage(const td__safetensors *file, const unsigned char *data,
                                const char *path, td_error *error) {
    const td__named_view **order = td__calloc(file->count + 1, sizeof *order);
    if (!order) {
        return td_error_set(error, TD_MEMORY, "%s: out of memory", path);
    }
    for (size_t i = 0; i < file->count; i++) {
        order[i] = &file->tensors[i];
    }
    qsort(order, file->count, sizeof *order, by_address);
    const unsigned char *at = data;
    td_status status = TD_OK;
    for (size_t i = 0; i < file->count && !status; i++) {
        if (order[i]->view.data != (const void *)at) {
            status = safetensors_malformed(error, path, order[i]->name,
                                           "a hole or an overlap before its data");
        }
        at += tensor_bytes(order[i]);
    }
    if (!status && at != file->bytes + file->size) {
        status = safetensors_malformed(error, path, NULL, "bytes after the last tensor");
    }
    td__free(order);
    return status;
}

static td_status check_metadata(const json_t *metadata, const char *path, td_error *error) {
    const char *key;
    json_t *value;
    if (metadata && !json_is_object(metadata)) {
        return safetensors_malformed(error, path, NULL, METADATA " must be a map");
    }
    json_object_foreach((json_t *)metadata, key, value) {
        if (!json_is_string(value)) {
            return safetensors_malformed(error, path, key, METADATA " holds texts only");
        }
        if (!strncmp(key, OURS, strlen(OURS)) && td__json_has_zero(value)) {
            return safetensors_malformed(error, path, key, "a text with the character \\u0000");
        }
    }
    return TD_OK;
}

static td_status read_header(td__safetensors *file, const char *path, td_error *error) {
    if (file->size < 10) {
        return safetensors_malformed(error, path, NULL, "too short");
    }
    uint64_t length = td__load64(file->bytes);
    if (length < 2 || length > MAX_HEADER || length > file->size - 8 || file->bytes[8] != '{') {
        return safetensors_malformed(error, path, NULL, "no header");
    }
    td_error reason = {0};
    file->header = td__json_read_zeros(path, (const char *)file->bytes + 8, (size_t)length,
                                       td__json_budget(file->size), &reason);
    if (!file->header) {
        return safetensors_malformed(error, path, NULL, reason.text + strlen(path) + 2);
    }
    if (!json_is_object(file->header) || json_object_size(file->header) > MAX_TENSORS) {
        return safetensors_malformed(error, path, NULL, "too many tensors");
    }
    const json_t *metadata = json_object_get(file->header, METADATA);
    td_status status = check_metadata(metadata, path, error);
    file->tensors = td__calloc(json_object_size(file->header) + 1, sizeof *file->tensors);
    if (!file->tensors) {
        return td_error_set(error, TD_MEMORY, "%s: out of memory", path);
    }
    const unsigned char *data = file->bytes + 8 + length;
    const char *name;
    json_t *entry;
    json_object_foreach(file->header, name, entry) {
        if (!status && strcmp(name, METADATA) != 0) {
            status = read_tensor(name, entry, data, (int64_t)(file->size - 8 - length),
                                 &file->tensors[file->count++], path, error);
        }
    }
    status = status ? status : check_coverage(file, data, path, error);
    /* Values are used where they lie, unless memory has them in another order than files. */
    for (size_t i = 0; i < file->count && !status && !TD__LITTLE_ENDIAN; i++) {
        status = td__view_from_file(&file->tensors[i].view, path, error);
    }
    return status;
}

td__safetensors *td__safetensors_parse(const char *path, const void *bytes, size_t size,
                                       td_error *error) {
    td__safetensors *file = td__calloc(1, sizeof *file);
    if (!file) {
        td_error_set(error, TD_MEMORY, "%s: out of memory", path);
        return NULL;
    }
    file->bytes = bytes;
    file->size = size;
    if (read_header(file, path, error)) {
        td__safetensors_close(file);
        return NULL;
    }
    return file;
}

td__safetensors *td__safetensors_open(const char *path, td_error *error) {
    td__bytes bytes = {0};
    if (td__bytes_map(&bytes, path, error)) {
        return NULL;
    }
    td__safetensors *file = td__safetensors_parse(path, bytes.data, bytes.size, error);
    if (file) {
        file->mapped = bytes;
    } else {
        td__bytes_release(&bytes);
    }
    return file;
}

void td__safetensors_close(td__safetensors *file) {
    if (!file) {
        return;
    }
    json_decref(file->header);
    for (size_t i = 0; i < file->count; i++) {
        td__view_release(&file->tensors[i].view);
    }
    td__free(file->tensors);
    td__bytes_release(&file->mapped);
    td__free(file);
}

size_t td__safetensors_count(const td__safetensors *file) {
    return file->count;
}

const td__named_view *td__safetensors_at(const td__safetensors *file, size_t index) {
    return &file->tensors[index];
}

int64_t td__safetensors_elements(const td__safetensors *file) {
    int64_t count = 0;
    for (size_t i = 0; i < file->count; i++) {
        count +=
            tensor_bytes(&file->tensors[i]) / (int64_t)td_dtype_size(file->tensors[i].view.dtype);
    }
    return count;
}

const td__named_view *td__safetensors_find(const td__safetensors *file, const char *name) {
    for (size_t i = 0; i < file->count; i++) {
        if (!strcmp(file->tensors[i].name, name)) {
            return &file->tensors[i];
        }
    }
    return NULL;
}

void td__safetensors_unmap(const td__safetensors *file, const td__named_view *tensor) {
    if (file->mapped.data && !tensor->view.release) {
        td__mapped_release(tensor->view.data, (size_t)tensor_bytes(tensor));
    }
}

const char *td__safetensors_text(const td__safetensors *file, const char *key) {
    return json_string_value(json_object_get(json_object_get(file->header, METADATA), key));
}

/* ---- Writing --------------------------------------------------------------------------------- */

static const char *type_word(td_dtype dtype) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (types[i].dtype == dtype) {
            return types[i].word;
        }
    }
    return NULL;
}

static json_t *tensor_entry(const td__named_view *tensor, int64_t offset) {
    const td_view *view = &tensor->view;
    json_t *shape = json_array();
    for (int32_t i = 0; i < view->shape.rank; i++) {
        json_array_append_new(shape, json_integer(view->shape.dims[i]));
    }
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", type_word(view->dtype), "shape", shape,
                     "data_offsets", (json_int_t)offset,
                     (json_int_t)(offset + tensor_bytes(tensor)));
}

/* The header's text, from json_dumps; NULL when memory is exhausted or a text is not UTF-8. */
static char *header_text(size_t count, const td__named_view *tensors, size_t text_count,
                         const td__text_pair *texts) {
    json_t *header = json_object(), *metadata = json_object();
    bool good = header && metadata;
    for (size_t i = 0; i < text_count && good; i++) {
        good = !json_object_set_new(metadata, texts[i].key, json_string(texts[i].value));
    }
    good = good && !json_object_set(header, METADATA, metadata);
    int64_t offset = 0;
    for (size_t i = 0; i < count && good; i++) {
        good = !json_object_set_new(header, tensors[i].name, tensor_entry(&tensors[i], offset));
        offset += tensor_bytes(&tensors[i]);
    }
    char *text = good ? json_dumps(header, JSON_COMPACT) : NULL;
    json_decref(metadata);
    json_decref(header);
    return text;
}

/* What stands before the data: the header's length, and the header, padded with spaces so that the
 * data begins at a multiple of 64. NULL as header_text. */
static unsigned char *head_bytes(size_t count, const td__named_view *tensors, size_t text_count,
                                 const td__text_pair *texts, size_t *size) {
    char *header = header_text(count, tensors, text_count, texts);
    size_t length = header ? strlen(header) : 0, padded = (8 + length + 63) / 64 * 64 - 8;
    unsigned char *bytes = header ? td__calloc(8 + padded, 1) : NULL;
    if (bytes) {
        td__store64(bytes, padded);
        memcpy(bytes + 8, header, length);
        memset(bytes + 8 + length, ' ', padded - length);
    }
    free(header); // NOLINT: jansson's own
    *size = 8 + padded;
    return bytes;
}

static bool write_tensor(int file, const td__named_view *tensor, int64_t at) {
    td_view view;
    if (td__view_to_file(&tensor->view, &view, NULL)) {
        errno = ENOMEM;
        return false;
    }
    bool good = td__write_all(file, view.data, (size_t)tensor_bytes(tensor), at);
    td__view_release(&view);
    return good;
}

/* Tensors are written from where they lie: a file takes no memory of its size. */
static bool write_tensors(int file, size_t count, const td__named_view *tensors, int64_t at) {
    bool good = true;
    for (size_t i = 0; i < count && good; i++) {
        int64_t size = tensor_bytes(&tensors[i]);
        good = size == 0 || write_tensor(file, &tensors[i], at);
        at += size;
    }
    return good;
}

td_status td__safetensors_write(const char *path, size_t count, const td__named_view *tensors,
                                size_t text_count, const td__text_pair *texts, td_error *error) {
    size_t size = 0;
    unsigned char *head = head_bytes(count, tensors, text_count, texts, &size);
    if (!head) {
        return td_error_set(error, TD_MEMORY, "%s: out of memory, or a name that is not UTF-8",
                            path);
    }
    td__draft draft;
    const char *name;
    int folder = td__folder_of(path, &name, error);
    int64_t whole = (int64_t)size;
    for (size_t i = 0; i < count; i++) {
        whole += tensor_bytes(&tensors[i]);
    }
    td_status status =
        folder < 0 ? TD_IO : td__draft_create_sized(&draft, folder, name, whole, error);
    if (!status) {
        bool good = td__write_all(draft.file, head, size, 0) &&
                    write_tensors(draft.file, count, tensors, (int64_t)size);
        status = td__draft_end(&draft, good, true, error);
    }
    if (folder >= 0) {
        close(folder);
    }
    td__free(head);
    return status;
}
