#include "tensorflow/bundle.h"

#include "base/crc32c.h"
#include "base/memory.h"
#include "base/proto.h"
#include "tensor/order.h"
#include "tensorflow/sorted.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SHARDS = 4096, STRING = 7 };

/* TensorFlow's numbers of element types. */
static const struct {
    uint32_t type;
    td_dtype dtype;
} types[] = {
    {1, TD_FLOAT32},  {2, TD_FLOAT64}, {3, TD_INT32},   {4, TD_UINT8},     {5, TD_INT16},
    {6, TD_INT8},     {9, TD_INT64},   {10, TD_BOOL},   {14, TD_BFLOAT16}, {17, TD_UINT16},
    {19, TD_FLOAT16}, {22, TD_UINT32}, {23, TD_UINT64},
};

static bool dtype_of(uint32_t type, td_dtype *dtype) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (types[i].type == type) {
            *dtype = types[i].dtype;
            return true;
        }
    }
    return false;
}

static td_status damaged(const td__bundle *bundle, const char *key, const char *what,
                         td_error *error) {
    return td_error_set(error, TD_FORMAT, "%s: %.200s: %s", bundle->origin, key, what);
}

/* ---- The index ------------------------------------------------------------------------------- */

static td_status read_header(td__bundle *bundle, const unsigned char *value, size_t size,
                             td_error *error) {
    enum { SHARDS = 1, ENDIANNESS = 2 };
    td__proto message = td__proto_of(value, size);
    td__proto_field field;
    uint64_t shards = 0;
    while (td__proto_next(&message, &field)) {
        if (field.wire == TD__VARINT && field.number == SHARDS) {
            shards = field.bits;
        } else if (field.wire == TD__VARINT && field.number == ENDIANNESS) {
            bundle->big_endian = field.bits;
        }
    }
    if (message.bad || !shards || shards > MAX_SHARDS || bundle->shard_count) {
        return damaged(bundle, "", "its header", error);
    }
    bundle->shard_count = (uint32_t)shards;
    return bundle->big_endian
               ? td_error_set(error, TD_UNSUPPORTED, "%s: its byte order is not little-endian",
                              bundle->origin)
               : TD_OK;
}

/* False when it is damaged. A shape that cannot be represented makes the entry unreadable. */
static bool read_shape(const td__proto_field *from, td__bundle_entry *entry) {
    enum { DIMENSION = 2, UNKNOWN_RANK = 3, SIZE = 1 };
    td__proto shape = td__proto_in(from);
    td__proto_field field, inner;
    while (td__proto_next(&shape, &field)) {
        if (field.number == UNKNOWN_RANK && field.wire == TD__VARINT && field.bits) {
            entry->readable = false;
        }
        if (field.number != DIMENSION || field.wire != TD__BYTES) {
            continue;
        }
        int64_t size = 0;
        td__proto dimension = td__proto_in(&field);
        while (td__proto_next(&dimension, &inner)) {
            size = inner.number == SIZE && inner.wire == TD__VARINT ? (int64_t)inner.bits : size;
        }
        if (entry->shape.rank == TD_MAX_RANK || size < 0 || dimension.bad) {
            entry->readable = false;
        } else {
            entry->shape.dims[entry->shape.rank++] = size;
        }
    }
    return !shape.bad;
}

static bool read_entry(const unsigned char *value, size_t size, td__bundle_entry *entry) {
    enum { DTYPE = 1, SHAPE, SHARD, OFFSET, SIZE, CHECKSUM, SLICES };
    td__proto message = td__proto_of(value, size);
    td__proto_field field;
    bool good = true;
    entry->readable = true;
    while (td__proto_next(&message, &field)) {
        bool number = field.wire == TD__VARINT;
        if (number && field.number == DTYPE) {
            entry->type = (uint32_t)field.bits;
        } else if (field.wire == TD__BYTES && field.number == SHAPE) {
            good = good && read_shape(&field, entry);
        } else if (number && field.number == SHARD) {
            entry->shard = (uint32_t)field.bits;
        } else if (number && field.number == OFFSET) {
            entry->offset = field.bits;
        } else if (number && field.number == SIZE) {
            entry->size = field.bits;
        } else if (field.wire == TD__FIXED32 && field.number == CHECKSUM) {
            entry->checksum = (uint32_t)field.bits;
        } else if (field.number == SLICES) {
            entry->readable = false;
        }
    }
    return good && !message.bad;
}

static td_status take_entry(void *user, const char *key, size_t key_size,
                            const unsigned char *value, size_t value_size, td_error *error) {
    td__bundle *bundle = user;
    td__bundle_entry entry = {0};
    if (!key_size) {
        return read_header(bundle, value, value_size, error);
    }
    if (!read_entry(value, value_size, &entry)) {
        return damaged(bundle, key, "its entry is damaged", error);
    }
    if (strlen(key) != key_size) { /* a part of a tensor that is kept in several */
        entry.readable = false;
    }
    if (bundle->count && strcmp(bundle->entries[bundle->count - 1].key, key) > 0) {
        return damaged(bundle, key, "keys are not in order", error);
    }
    if (!td__grow(&bundle->entries, &bundle->capacity, bundle->count + 1, TD__TENSOR_LIST_MAX,
                  sizeof entry) ||
        !(entry.key = td__strdup(key))) {
        return td_error_set(error, TD_MEMORY, "%s: out of memory, or too many tensors",
                            bundle->origin);
    }
    bundle->entries[bundle->count++] = entry;
    return TD_OK;
}

static td_status read_index(td__bundle *bundle, const char *origin, const void *bytes, size_t size,
                            td_error *error) {
    *bundle = (td__bundle){.origin = td__strdup(origin)};
    if (!bundle->origin) {
        return td_error_set(error, TD_MEMORY, "%s: out of memory", origin);
    }
    td_status status = td__sorted_read(bytes, size, bundle->origin, take_entry, bundle, error);
    if (!status && !bundle->shard_count) {
        status = td_error_set(error, TD_FORMAT, "%s: no checkpoint of TensorFlow's", origin);
    }
    bundle->shards = status ? NULL : td__calloc(bundle->shard_count, sizeof *bundle->shards);
    if (!status && !bundle->shards) {
        status = td_error_set(error, TD_MEMORY, "%s: out of memory", origin);
    }
    return status;
}

td_status td__bundle_parse(td__bundle *bundle, const char *origin, const void *index,
                           size_t index_size, const void *shard, size_t shard_size,
                           td_error *error) {
    td_status status = read_index(bundle, origin, index, index_size, error);
    uint8_t *copy = status ? NULL : td__calloc(shard_size + 1, 1);
    if (copy && shard_size) {
        memcpy(copy, shard, shard_size);
    }
    if (copy) {
        bundle->shards[0] = (td__bytes){.data = copy, .size = shard_size};
    }
    return status || copy ? status : td_error_set(error, TD_MEMORY, "%s: out of memory", origin);
}

/* path: NAME.index, or NAME; index: its bytes, or none, which are then mapped. */
static td_status open_files(td__bundle *bundle, const char *path, const td__bytes *index,
                            td_error *error) {
    static const char ending[] = ".index";
    size_t length = strlen(path), tail = sizeof ending - 1;
    bool named = length > tail && !strcmp(path + length - tail, ending);
    size_t stem = named ? length - tail : length, room = length + 64;
    char *name = td__calloc(room, 1);
    td__bytes mapped = {0};
    *bundle = (td__bundle){0};
    if (!name) {
        return td_error_set(error, TD_MEMORY, "%s: out of memory", path);
    }
    (void)snprintf(name, room, "%.*s%s", (int)stem, path, ending);
    td_status status = index ? TD_OK : td__bytes_map(&mapped, name, error);
    index = index ? index : &mapped;
    status = status ? status : read_index(bundle, name, index->data, index->size, error);
    for (uint32_t i = 0; i < bundle->shard_count && !status; i++) {
        (void)snprintf(name, room, "%.*s.data-%05u-of-%05u", (int)stem, path, i,
                       bundle->shard_count);
        status = td__bytes_map(&bundle->shards[i], name, error);
    }
    td__bytes_release(&mapped);
    td__free(name);
    return status;
}

td_status td__bundle_open(td__bundle *bundle, const char *path, td_error *error) {
    return open_files(bundle, path, NULL, error);
}

void td__bundle_release(td__bundle *bundle) {
    for (size_t i = 0; i < bundle->count; i++) {
        td__free(bundle->entries[i].key);
    }
    for (uint32_t i = 0; bundle->shards && i < bundle->shard_count; i++) {
        td__bytes_release(&bundle->shards[i]);
    }
    td__free(bundle->entries);
    td__free(bundle->shards);
    td__free(bundle->origin);
    *bundle = (td__bundle){0};
}

/* ---- Tensors --------------------------------------------------------------------------------- */

static int by_key(const void *left, const void *right) {
    return strcmp(((const td__bundle_entry *)left)->key, ((const td__bundle_entry *)right)->key);
}

const td__bundle_entry *td__bundle_find(const td__bundle *bundle, const char *key) {
    const td__bundle_entry wanted = {.key = (char *)(uintptr_t)key};
    return bundle->count ? bsearch(&wanted, bundle->entries, bundle->count, sizeof wanted, by_key)
                         : NULL;
}

static const uint8_t *bytes_of(const td__bundle *bundle, const td__bundle_entry *entry) {
    const td__bytes *shard =
        entry->shard < bundle->shard_count ? &bundle->shards[entry->shard] : NULL;
    return shard && entry->offset <= shard->size && entry->size <= shard->size - entry->offset
               ? shard->data + entry->offset
               : NULL;
}

td_status td__bundle_view(const td__bundle *bundle, const td__bundle_entry *entry, td_view *view,
                          td_error *error) {
    *view = (td_view){.shape = entry->shape, .data = bytes_of(bundle, entry)};
    int64_t count;
    if (!entry->readable || !dtype_of(entry->type, &view->dtype)) {
        return td_error_set(error, TD_UNSUPPORTED, "%s: %.200s: no tensor of numbers in one piece",
                            bundle->origin, entry->key);
    }
    if (!view->data || td_shape_check(&view->shape, view->dtype, &count, NULL) ||
        (uint64_t)count * td_dtype_size(view->dtype) != entry->size) {
        return damaged(bundle, entry->key, "its values do not fit its shape or the file", error);
    }
#ifndef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
    uint32_t crc = td__crc32c(0, view->data, (size_t)entry->size);
    if (entry->checksum != (crc >> 15 | crc << 17) + 0xa282ead8u) {
        return damaged(bundle, entry->key,
                       "its values do not have the checksum that the index says", error);
    }
#endif
    return td__view_from_file(view, bundle->origin, error);
}

/* Lengths of all elements (varints), a checksum of them, then the texts. */
td_status td__bundle_text(const td__bundle *bundle, const td__bundle_entry *entry,
                          const unsigned char **text, size_t *size, td_error *error) {
    const uint8_t *data = bytes_of(bundle, entry);
    td__proto at = td__proto_of(data, data ? (size_t)entry->size : 0);
    uint64_t length;
    if (entry->type != STRING || entry->shape.rank != 0 || !td__proto_varint(&at, &length) ||
        (size_t)(at.end - at.p) < 4 || length > (size_t)(at.end - at.p) - 4) {
        return damaged(bundle, entry->key, "it is no text", error);
    }
    *text = at.p + 4;
    *size = (size_t)length;
    return TD_OK;
}

static void release_bundle(void *owner) {
    td__bundle_release(owner);
    td__free(owner);
}

td_status td__bundle_list(td__bundle *bundle, td__tensor_list *list, td_error *error) {
    td__bundle *kept = td__calloc(1, sizeof *kept);
    if (!kept) {
        return td_error_set(error, TD_MEMORY, "%s: out of memory", bundle->origin);
    }
    *kept = *bundle;
    *bundle = (td__bundle){0};
    td_status status = td__tensor_list_keep(list, release_bundle, kept, kept->origin, error);
    size_t others = 0;
    for (size_t i = 0; !status && i < kept->count; i++) {
        td_dtype dtype;
        td_view view;
        if (!kept->entries[i].readable || !dtype_of(kept->entries[i].type, &dtype)) {
            others++;
            continue;
        }
        status = td__bundle_view(kept, &kept->entries[i], &view, error);
        status = status
                     ? status
                     : td__tensor_list_add(list, kept->entries[i].key, view, kept->origin, error);
    }
    if (!status && others) {
        (void)snprintf(list->remark, sizeof list->remark,
                       "%zu more entries are no tensors of numbers in one piece (texts, parts)",
                       others);
    }
    return status ? status : td__tensor_list_check(list, kept->origin, error);
}

td_status td__bundle_tensors(const char *path, const td__bytes *index, td__tensor_list *list,
                             td_error *error) {
    td__bundle bundle = {0};
    td_status status = open_files(&bundle, path, index, error);
    status = status ? status : td__bundle_list(&bundle, list, error);
    td__bundle_release(&bundle);
    return status;
}
