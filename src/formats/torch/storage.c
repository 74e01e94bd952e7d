#include "torch/storage.h"

#include "base/memory.h"
#include "base/proto.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PICKLE = 64 << 20 };

/* ---- Archives -------------------------------------------------------------------------------- */

/* The member that ends in /data.pkl; what is before it begins all others. */
static td_status find_prefix(td__torch_storages *s, td_error *error) {
    static const char ending[] = "/data.pkl";
    size_t tail = sizeof ending - 1;
    for (size_t i = 0; i < s->zip.count; i++) {
        const td__zip_entry *entry = &s->zip.entries[i];
        if (entry->name_size > tail && entry->name_size - tail < sizeof s->prefix - 32 &&
            !memcmp(entry->name + entry->name_size - tail, ending, tail)) {
            memcpy(s->prefix, entry->name, entry->name_size - tail);
            return TD_OK;
        }
    }
    return td_error_set(error, TD_FORMAT, "%s: a zip archive without data.pkl", s->path);
}

/* The pickle's texts are used as long as the reader lives, so the list keeps its bytes. */
static void release_member(void *owner) {
    td__zip_member_release(owner);
    td__free(owner);
}

static td_status open_archive(td__torch_storages *s, td__pickle *pickle, size_t size,
                              td_error *error) {
    char name[sizeof s->prefix + 64];
    td__zip_member order = {0}, *member = td__calloc(1, sizeof *member);
    td_status status = member ? td__zip_open(&s->zip, s->bytes, size, s->path, error)
                              : td_error_set(error, TD_MEMORY, "%s: out of memory", s->path);
    status = status ? status : find_prefix(s, error);
    (void)snprintf(name, sizeof name, "%s/byteorder", s->prefix);
    if (!status && td__zip_find(&s->zip, name)) {
        status = td__zip_read(&s->zip, name, 16, false, &order, error);
        if (!status && (order.size != 6 || memcmp(order.data, "little", 6) != 0)) {
            status = td_error_set(error, TD_UNSUPPORTED, "%s: its byte order is not little-endian",
                                  s->path);
        }
        td__zip_member_release(&order);
    }
    (void)snprintf(name, sizeof name, "%s/data.pkl", s->prefix);
    status = status ? status : td__zip_read(&s->zip, name, MAX_PICKLE, true, member, error);
    if (status) {
        td__free(member);
        return status;
    }
    td__zip_member content = *member;
    status = td__tensor_list_keep(s->list, release_member, member, s->path, error);
    if (!status && content.size > MAX_PICKLE) {
        status = td_error_set(error, TD_RANGE, "%s: a pickle of more than %d MiB", s->path,
                              MAX_PICKLE >> 20);
    }
    return status ? status : td__pickle_read(pickle, content.data, content.size, s->path, error);
}

/* ---- The older format ------------------------------------------------------------------------ */

/* Five pickles: a magic number, the protocol, the machine, the values, the keys of storages. */
static const unsigned char magic[] = {0x80, 0x02, 0x8a, 0x0a, 0x6c, 0xfc, 0x9c, 0x46,
                                      0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19, 0x2e};

/* What the machine that wrote it was like: its numbers must be as ours. */
static td_status check_machine(const td__torch_storages *s, const td__pickle *about,
                               td_error *error) {
    const td__pickle_value *root = &about->values[about->root];
    for (uint32_t i = 0; root->kind == TD__PICKLE_DICT && i + 1 < root->count; i += 2) {
        const td__pickle_value *value = &about->values[root->items[i + 1]];
        if (td__pickle_is(&about->values[root->items[i]], "little_endian") &&
            value->kind == TD__PICKLE_BOOL && !value->number) {
            return td_error_set(error, TD_UNSUPPORTED, "%s: its byte order is not little-endian",
                                s->path);
        }
    }
    return TD_OK;
}

static td_status open_stream(td__torch_storages *s, td__pickle *pickle, size_t size,
                             td_error *error) {
    if (size < sizeof magic || memcmp(s->bytes, magic, sizeof magic) != 0) {
        return td_error_set(error, TD_UNSUPPORTED,
                            "%s: a pickle that torch.save did not write; save the tensors with "
                            "torch.save(model.state_dict(), \"x.pt\") or as safetensors, or "
                            "export the model: torch.onnx.export(model, example, \"model.onnx\")",
                            s->path);
    }
    const unsigned char *at = s->bytes + sizeof magic;
    td_status status = TD_OK;
    for (int i = 0; i < 4 && !status; i++) {
        td__pickle part = {0}, *to = i == 2 ? pickle : i == 3 ? &s->keys : &part;
        size_t left = (size_t)(s->end - at);
        status = td__pickle_read(to, at, left < MAX_PICKLE ? left : MAX_PICKLE, s->path, error);
        at += status ? 0 : to->size;
        if (!status && i == 1) {
            status = check_machine(s, &part, error);
        }
        td__pickle_release(&part);
    }
    s->bytes = at;
    return status;
}

static int by_key(const void *left, const void *right) {
    const td__torch_storage *a = left, *b = right;
    size_t shorter = a->key_length < b->key_length ? a->key_length : b->key_length;
    int order = memcmp(a->key, b->key, shorter);
    return order ? order : (a->key_length > b->key_length) - (a->key_length < b->key_length);
}

static td__torch_storage *find_key(const td__torch_storages *s, const td__pickle_value *key) {
    const td__torch_storage wanted = {.key = key->text, .key_length = key->length};
    return key->kind == TD__PICKLE_TEXT && s->count
               ? bsearch(&wanted, s->sorted, s->count, sizeof wanted, by_key)
               : NULL;
}

/* ("storage", type, key, place, count, …); false when it is none. */
static bool parts_of(const td__pickle *pickle, const td__pickle_value *persistent,
                     const td__torch_name **type, const td__pickle_value **key, int64_t *count) {
    const td__pickle_value *id = &pickle->values[persistent->arguments];
    if (id->kind != TD__PICKLE_LIST || id->count < 5 ||
        !td__pickle_is(&pickle->values[id->items[0]], "storage")) {
        return false;
    }
    const td__pickle_value *number = &pickle->values[id->items[4]];
    *type = td__torch_name_of(&pickle->values[id->items[1]]);
    *key = &pickle->values[id->items[2]];
    *count = number->number;
    /* A sixth part is a window onto another storage, as PyTorch 0.4 had them. */
    bool window = id->count > 5 && pickle->values[id->items[5]].kind != TD__PICKLE_NONE;
    return *type && (*key)->kind == TD__PICKLE_TEXT && number->kind == TD__PICKLE_NUMBER &&
           number->number >= 0 && !window;
}

/* All storages that the values speak of, by key, each once. */
static td_status list_storages(td__torch_storages *s, const td__pickle *pickle, td_error *error) {
    size_t capacity = 0, kept = 0;
    for (size_t i = 0; i < pickle->count; i++) {
        const td__torch_name *type;
        const td__pickle_value *key;
        int64_t count;
        if (pickle->values[i].kind != TD__PICKLE_PERSISTENT ||
            !parts_of(pickle, &pickle->values[i], &type, &key, &count) ||
            type->role != TD__TORCH_STORAGE) {
            continue;
        }
        if (!td__grow(&s->sorted, &capacity, s->count + 1, TD__TENSOR_LIST_MAX,
                      sizeof *s->sorted)) {
            return td_error_set(error, TD_MEMORY, "%s: out of memory", s->path);
        }
        s->sorted[s->count++] = (td__torch_storage){
            .key = key->text, .key_length = key->length, .dtype = type->dtype, .count = count};
    }
    if (s->count) {
        qsort(s->sorted, s->count, sizeof *s->sorted, by_key);
    }
    for (size_t i = 0; i < s->count; i++) {
        if (!kept || by_key(&s->sorted[kept - 1], &s->sorted[i]) != 0) {
            s->sorted[kept++] = s->sorted[i];
        }
    }
    s->count = kept;
    return TD_OK;
}

td_status td__torch_storages_place(td__torch_storages *s, const td__pickle *pickle,
                                   td_error *error) {
    if (s->archive) {
        return TD_OK;
    }
    td_status status = list_storages(s, pickle, error);
    const td__pickle_value *keys = &s->keys.values[s->keys.root];
    const unsigned char *at = s->bytes;
    for (uint32_t i = 0; !status && keys->kind == TD__PICKLE_LIST && i < keys->count; i++) {
        td__torch_storage *storage = find_key(s, &s->keys.values[keys->items[i]]);
        size_t left = (size_t)(s->end - at);
        if (!storage || left < 8 || td__load64(at) != (uint64_t)storage->count ||
            (uint64_t)storage->count > (left - 8) / td_dtype_size(storage->dtype)) {
            return td_error_set(error, TD_FORMAT, "%s: its storages do not fit the file", s->path);
        }
        storage->data = at + 8;
        at += 8 + (size_t)storage->count * td_dtype_size(storage->dtype);
    }
    return status;
}

/* ---- Both ------------------------------------------------------------------------------------ */

td_status td__torch_storages_open(td__torch_storages *s, td__pickle *pickle, const char *path,
                                  const void *bytes, size_t size, td__tensor_list *list,
                                  td_error *error) {
    const unsigned char *start = bytes;
    *s = (td__torch_storages){.path = path,
                              .list = list,
                              .bytes = start,
                              .end = size ? start + size : start,
                              .archive = size >= 4 && !memcmp(start, "PK\3\4", 4)};
    return s->archive ? open_archive(s, pickle, size, error) : open_stream(s, pickle, size, error);
}

void td__torch_storages_release(td__torch_storages *s) {
    td__zip_release(&s->zip);
    td__pickle_release(&s->keys);
    td__free(s->sorted);
    *s = (td__torch_storages){0};
}

void td__torch_release(const td_view *view) {
    if (view->release) {
        view->release(view->owner);
    }
}

static td_status read_member(td__torch_storages *s, const td__pickle_value *key, size_t *left,
                             td_view *view, size_t *bytes, td_error *error) {
    char name[sizeof s->prefix + 256];
    td__zip_member member = {0};
    if (key->length > 200 || memchr(key->text, 0, key->length)) {
        return td_error_set(error, TD_FORMAT, "%s: the key of a storage is too long", s->path);
    }
    (void)snprintf(name, sizeof name, "%s/data/%.*s", s->prefix, (int)key->length, key->text);
    /* PyTorch may leave checksums out. */
    td_status status = td__zip_read(&s->zip, name, *left, false, &member, error);
    if (status) {
        return status;
    }
    view->data = member.data;
    view->release = member.owned ? td__free : NULL;
    view->owner = member.owned;
    *bytes = member.size;
    *left -= member.owned ? member.size : 0;
    return TD_OK;
}

td_status td__torch_storage_find(td__torch_storages *s, const td__pickle *pickle,
                                 const td__pickle_value *persistent, const td__torch_name *wanted,
                                 size_t *left, td_view *view, int64_t *count, td_error *error) {
    const td__torch_name *type;
    const td__pickle_value *key;
    size_t bytes = 0;
    if (!parts_of(pickle, persistent, &type, &key, count)) {
        return td_error_set(error, TD_FORMAT, "%s: a storage is not described as PyTorch does",
                            s->path);
    }
    const td__torch_name *element_type = type->role == TD__TORCH_UNTYPED ? wanted : type;
    if (!element_type ||
        (element_type->role != TD__TORCH_STORAGE && element_type->role != TD__TORCH_DTYPE)) {
        return td_error_set(error, TD_UNSUPPORTED,
                            "%s: elements of %s; floats of 2 to 8 bytes, whole numbers and bool "
                            "are read",
                            s->path, element_type ? element_type->name : "a type that is not said");
    }
    view->dtype = element_type->dtype;
    if (s->archive) {
        td_status status = read_member(s, key, left, view, &bytes, error);
        if (status) {
            return status;
        }
    } else {
        const td__torch_storage *storage = find_key(s, key);
        if (!storage || !storage->data) {
            return td_error_set(error, TD_FORMAT, "%s: a storage is not in the file", s->path);
        }
        view->data = storage->data;
        bytes = (size_t)storage->count * td_dtype_size(storage->dtype);
    }
    /* An untyped storage counts bytes. */
    uint64_t size = type->role == TD__TORCH_UNTYPED ? 1 : td_dtype_size(element_type->dtype);
    if ((uint64_t)*count > bytes / size) {
        td__torch_release(view);
        return td_error_set(error, TD_FORMAT, "%s: a storage has fewer bytes than it says",
                            s->path);
    }
    *count = (int64_t)((uint64_t)*count * size / td_dtype_size(element_type->dtype));
    return TD_OK;
}
