/* Attributes that are texts: of fixed length in the attribute itself, of variable length in global
 * heaps. */
#include "base/memory.h"
#include "hdf5/dense.h"
#include "hdf5/heap.h"
#include "hdf5/message.h"
#include "hdf5/type.h"

typedef struct attribute {
    const char *name;
    size_t name_size;
    td__h5_type type;
    td__h5_cursor space, data;
} attribute;

/* Version 1 pads its parts to eight bytes; version 3 adds the name's character set. */
static bool read_attribute(td__h5_cursor body, attribute *out) {
    unsigned version = td__h5_byte(&body), flags = td__h5_byte(&body);
    uint64_t sizes[3]; /* name, type, space */
    for (int i = 0; i < 3; i++) {
        uint64_t size = td__h5_number(&body, 2);
        sizes[i] = version == 1 ? (size + 7) / 8 * 8 : size;
    }
    td__h5_skip(&body, version == 3 ? 1 : 0);
    const char *name = (const char *)td__h5_take(&body, sizes[0]);
    td__h5_cursor type = td__h5_sub(&body, sizes[1]);
    out->space = td__h5_sub(&body, sizes[2]);
    out->data = body;
    if (body.bad || version < 1 || version > 3) {
        return false;
    }
    out->name = name;
    out->name_size = strnlen(name, (size_t)sizes[0]);
    if (version > 1 && flags & 3) {
        out->type = (td__h5_type){.size = 1, .why = "its type is shared between objects"};
        return true;
    }
    out->type = td__h5_type_read(&type);
    return !type.bad;
}

static td_status not_text(const td__hdf5 *file, const char *name, const char *what,
                          td_error *error) {
    return td_error_set(error, TD_DTYPE, "%s: attribute '%s' cannot be read as texts: %s",
                        file->origin, name, what);
}

/* The bytes of the next text, which may end in a 0 before their end. */
static td__h5_cursor next_text(const td__hdf5 *file, attribute *from) {
    if (from->type.kind == TD__H5_TEXT) {
        td__h5_cursor text = td__h5_sub(&from->data, from->type.size);
        while (from->type.padded && text.end > text.at && text.end[-1] == ' ') {
            text.end--;
        }
        return text;
    }
    td__h5_cursor reference = td__h5_sub(&from->data, from->type.size);
    uint64_t size = td__h5_number(&reference, 4);
    uint64_t heap = td__h5_offset(&reference), index = td__h5_number(&reference, 4);
    if (reference.bad || size == 0) {
        reference.end = reference.at;
        return reference;
    }
    td__h5_cursor object = td__h5_global_object(file, heap, index);
    return td__h5_sub(&object, size);
}

/* Copies count texts behind as many pointers. Called twice: without a block it only measures. */
static td_status copy_texts(const td__hdf5 *file, attribute from, size_t count, char **block,
                            size_t *size, td_error *error) {
    uint64_t budget = file->size;
    char *at = block ? (char *)(block + count) : NULL;
    *size = 0;
    for (size_t i = 0; i < count; i++) {
        td__h5_cursor text = next_text(file, &from);
        size_t length = strnlen((const char *)text.at, td__h5_left(&text));
        if (text.bad || !td__h5_spend(&budget, td__h5_left(&text))) {
            return td__h5_damaged(file, "an attribute's texts", error);
        }
        *size += length + 1;
        if (block) {
            block[i] = memcpy(at, text.at, length);
            at[length] = 0;
            at += length + 1;
        }
    }
    return TD_OK;
}

static td_status read_texts(const td__hdf5 *file, attribute *from, const char *name, char ***texts,
                            size_t *count, td_error *error) {
    td_shape shape = {0};
    if (from->type.why) {
        return not_text(file, name, from->type.why, error);
    }
    td_status status = td__h5_space_read(file, from->space, &shape, error);
    if (status) {
        return status;
    }
    if (shape.rank > 1) {
        return not_text(file, name, "it has several dimensions", error);
    }
    uint64_t elements = shape.rank ? (uint64_t)shape.dims[0] : 1;
    if (elements > 0 && from->type.kind == TD__H5_NUMBER) { /* numpy's [] is of numbers */
        return not_text(file, name, "it is numbers", error);
    }
    if (elements > td__h5_left(&from->data) / from->type.size) {
        return td__h5_damaged(file, "an attribute is shorter than its shape", error);
    }
    size_t size = 0;
    status = copy_texts(file, *from, (size_t)elements, NULL, &size, error);
    if (status) {
        return status;
    }
    char **block = td__calloc(1, (size_t)elements * sizeof *block + size + 1);
    if (!block) {
        return td_error_set(error, TD_MEMORY, "%s: out of memory", file->origin);
    }
    status = copy_texts(file, *from, (size_t)elements, block, &size, error);
    *texts = block;
    *count = (size_t)elements;
    return status;
}

typedef struct search {
    const td__hdf5 *file;
    const char *name;
    attribute found; /* without a name: not yet */
} search;

static td_status compare_attribute(void *user, td__h5_cursor message, td_error *error) {
    search *wanted = user;
    attribute one = {0};
    if (!read_attribute(message, &one)) {
        return td__h5_damaged(wanted->file, "an attribute", error);
    }
    if (!wanted->found.name && one.name_size == strlen(wanted->name) &&
        !memcmp(one.name, wanted->name, one.name_size)) {
        wanted->found = one;
    }
    return TD_OK;
}

td_status td__hdf5_texts(td__hdf5 *file, td__hdf5_object object, const char *name, char ***texts,
                         size_t *count, td_error *error) {
    search wanted = {.file = file, .name = name};
    td__h5_messages walk;
    td__h5_message message;
    td_status status = TD_OK;
    td__h5_messages_start(&walk, file, object, error);
    while (!status && td__h5_messages_next(&walk, &message, error)) {
        if (message.type == TD__H5_ATTRIBUTE) {
            status = message.shared
                         ? td__h5_unsupported(file, "an attribute shared between objects", error)
                         : compare_attribute(&wanted, message.body, error);
        } else if (message.type == TD__H5_ATTRIBUTE_INFO) {
            td__h5_skip(&message.body, 1); /* version */
            status = td__h5_dense(file, message.body, TD__H5_DENSE_ATTRIBUTES, compare_attribute,
                                  &wanted, error);
        }
    }
    if (status || walk.status) {
        return status ? status : walk.status;
    }
    if (!wanted.found.name) {
        *texts = NULL;
        *count = 0;
        return TD_OK;
    }
    return read_texts(file, &wanted.found, name, texts, count, error);
}
