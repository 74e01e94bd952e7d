/* Collects what is to be in a file. Texts go to global heaps at once: these come first in the file,
 * so that their addresses are known. */
#include "hdf5/maker.h"

enum {
    DEPTH = 64,
    ATTRIBUTE_BYTES = 65000, /* a header message's size has two bytes */
    HEAP_BYTES = 65536, /* a heap that has as many is full; objects are numbered by two bytes */
    HEAP_MIN = 4096,    /* libhdf5 wants no less */
    OBJECT_HEAD = 16,
};

/* Only the first failure is reported. */
static void fail_maker(td__hdf5_maker *maker, td_status status, const char *path,
                       const char *what) {
    if (!maker->failure.status) {
        td_error_set(&maker->failure, status, "'%s': %s", path, what);
    }
}

static void fail_memory(td__hdf5_maker *maker, const char *path) {
    fail_maker(maker, TD_MEMORY, path, "out of memory");
}

/* ---- The tree -------------------------------------------------------------------------------- */

static void node_destroy(td__h5_node *node) {
    if (!node) {
        return;
    }
    for (size_t i = 0; i < node->child_count; i++) {
        node_destroy(node->children[i]);
    }
    for (size_t i = 0; i < node->attribute_count; i++) {
        td__free(node->attributes[i].name);
        td__free(node->attributes[i].references);
    }
    td__free(node->children);
    td__free(node->attributes);
    td__free(node->name);
    td__free(node);
}

static td__h5_node *node_create(const char *name, size_t size) {
    td__h5_node *node = td__calloc(1, sizeof *node);
    if (node) {
        node->name = td__calloc(size + 1, 1);
    }
    if (!node || !node->name) {
        node_destroy(node);
        return NULL;
    }
    memcpy(node->name, name, size);
    return node;
}

static int compare_name(const char *name, const char *wanted, size_t size) {
    int order = strncmp(name, wanted, size);
    return order ? order : (name[size] != 0);
}

/* The child of that name, made when there is none; NULL when memory is exhausted. */
static td__h5_node *child_of(td__h5_node *parent, const char *name, size_t size) {
    size_t low = 0, high = parent->child_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = compare_name(parent->children[middle]->name, name, size);
        if (order == 0) {
            return parent->children[middle];
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (!td__grow(&parent->children, &parent->child_capacity, parent->child_count + 1, SIZE_MAX,
                  sizeof *parent->children)) {
        return NULL;
    }
    td__h5_node *child = node_create(name, size);
    if (child) {
        memmove(parent->children + low + 1, parent->children + low,
                (parent->child_count - low) * sizeof *parent->children);
        parent->children[low] = child;
        parent->child_count++;
    }
    return child;
}

/* The node at a path, made with all before it when there is none; NULL when something failed. */
static td__h5_node *node_at(td__hdf5_maker *maker, const char *path) {
    if (maker->size) {
        fail_maker(maker, TD_STATE, path, "the file is already laid out");
    }
    td__h5_node *node = maker->root;
    const char *at = path + strspn(path, "/");
    for (int depth = 0; *at && !maker->failure.status; depth++) {
        size_t size = strcspn(at, "/");
        if (node->is_array || depth == DEPTH || (size == 1 && *at == '.')) {
            fail_maker(maker, TD_INVALID, path,
                       node->is_array ? "an array has nothing below it"
                                      : "no such path can be written");
            break;
        }
        node = child_of(node, at, size);
        if (!node) {
            fail_memory(maker, path);
        }
        at += size;
        at += strspn(at, "/");
    }
    return maker->failure.status ? NULL : node;
}

void td__hdf5_add_group(td__hdf5_maker *maker, const char *path) {
    td__h5_node *node = node_at(maker, path);
    if (node && node->is_array) {
        fail_maker(maker, TD_EXISTS, path, "there is an array of this name");
    }
}

void td__hdf5_add_array(td__hdf5_maker *maker, const char *path, td_view view) {
    int64_t count = 0;
    td__h5_node *node = node_at(maker, path);
    if (!node) {
        return;
    }
    if (node->is_array || node->child_count || node == maker->root) {
        fail_maker(maker, TD_EXISTS, path, "there is something of this name already");
    } else if (td_shape_check(&view.shape, view.dtype, &count, NULL)) {
        fail_maker(maker, TD_BAD_SHAPE, path, "not a shape that can be written");
    } else if (!td__grow(&maker->arrays, &maker->array_capacity, maker->array_count + 1, SIZE_MAX,
                         sizeof *maker->arrays)) {
        fail_memory(maker, path);
    } else {
        node->is_array = true;
        node->view = view;
        node->bytes = (size_t)count * td_dtype_size(view.dtype);
        maker->arrays[maker->array_count++] = node;
    }
}

/* ---- Texts ----------------------------------------------------------------------------------- */

void td__h5_texts_end(td__hdf5_maker *maker) {
    td__h5_output *texts = &maker->texts;
    if (!maker->heap_objects) {
        return;
    }
    size_t used = texts->size - maker->heap_at;
    if (used < HEAP_MIN) { /* the rest is one free object, if that has room for its head */
        size_t rest = HEAP_MIN - used;
        uint8_t *head = td__h5_extend(texts, rest);
        if (head && rest >= OBJECT_HEAD) {
            td__h5_encode(head + 8, rest, 8);
        }
    }
    if (!texts->failed) {
        td__h5_encode(texts->bytes + maker->heap_at + 8, texts->size - maker->heap_at, 8);
    }
    maker->heap_objects = 0;
}

/* Appends a text to the last heap, or to a new one, and fills in the reference to it. */
static void put_text(td__hdf5_maker *maker, const char *text, uint8_t reference[16]) {
    td__h5_output *texts = &maker->texts;
    size_t length = strlen(text);
    if (texts->size - maker->heap_at >= HEAP_BYTES) {
        td__h5_texts_end(maker);
    }
    if (!maker->heap_objects) {
        maker->heap_at = texts->size;
        td__h5_put(texts, "GCOL\1\0\0", 8);
        td__h5_put_number(texts, 0, 8); /* the size, when it is known */
    }
    size_t index = ++maker->heap_objects;
    td__h5_put_number(texts, index, 8); /* and no references */
    td__h5_put_number(texts, length, 8);
    td__h5_put(texts, text, length);
    td__h5_align(texts);
    td__h5_encode(reference, length, 4);
    td__h5_encode(reference + 4, TD__H5_SUPERBLOCK_SIZE + maker->heap_at, 8);
    td__h5_encode(reference + 12, index, 4);
}

static td__h5_attribute *new_attribute(td__hdf5_maker *maker, const char *path, const char *name,
                                       size_t count) {
    td__h5_node *node = node_at(maker, path);
    if (!node) {
        return NULL;
    }
    for (size_t i = 0; i < node->attribute_count; i++) {
        if (!strcmp(node->attributes[i].name, name)) {
            fail_maker(maker, TD_EXISTS, path, "it has an attribute of this name already");
            return NULL;
        }
    }
    if (count > ATTRIBUTE_BYTES / 16 || strlen(name) > 255) {
        fail_maker(maker, TD_RANGE, path,
                   "an attribute has at most 4062 texts and 255 bytes of name");
        return NULL;
    }
    td__h5_attribute made = {
        .name = td__strdup(name), .count = count, .references = td__calloc(count + 1, 16)};
    if (!made.name || !made.references ||
        !td__grow(&node->attributes, &node->attribute_capacity, node->attribute_count + 1, 65000,
                  sizeof made)) {
        td__free(made.name);
        td__free(made.references);
        fail_memory(maker, path);
        return NULL;
    }
    node->attributes[node->attribute_count] = made;
    return &node->attributes[node->attribute_count++];
}

void td__hdf5_add_texts(td__hdf5_maker *maker, const char *path, const char *attribute,
                        size_t count, const char *const texts[]) {
    td__h5_attribute *made = new_attribute(maker, path, attribute, count);
    for (size_t i = 0; made && i < count; i++) {
        put_text(maker, texts[i], made->references + 16 * i);
    }
    if (made) {
        made->list = true;
    }
    if (maker->texts.failed) {
        fail_memory(maker, path);
    }
}

void td__hdf5_add_text(td__hdf5_maker *maker, const char *path, const char *attribute,
                       const char *text) {
    td__h5_attribute *made = new_attribute(maker, path, attribute, 1);
    if (made) {
        put_text(maker, text, made->references);
    }
    if (maker->texts.failed) {
        fail_memory(maker, path);
    }
}

/* ---- The maker ------------------------------------------------------------------------------- */

td__hdf5_maker *td__hdf5_make(void) {
    td__hdf5_maker *maker = td__calloc(1, sizeof *maker);
    if (maker) {
        maker->root = node_create("", 0);
    }
    if (!maker || !maker->root) {
        td__free(maker);
        return NULL;
    }
    return maker;
}

void td__hdf5_drop(td__hdf5_maker *maker) {
    if (maker) {
        node_destroy(maker->root);
        td__free(maker->arrays);
        td__free(maker->texts.bytes);
        td__free(maker->metadata.bytes);
        td__free(maker);
    }
}
