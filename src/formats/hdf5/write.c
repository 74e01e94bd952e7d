/* Lays a file out the way HDF5 1.6 and all later ones read it:
 *
 *   superblock   version 0
 *   texts        global heaps
 *   metadata     for each object, after those below it: a group's names, symbol table nodes and
 *                B-tree, and the object's header
 *   values       of the arrays, little-endian, each at a multiple of eight
 *
 * All but the values is made in memory; the values are written from where they are. */
#include "hdf5/maker.h"
#include "hdf5/message.h"
#include "tensor/order.h"

#include <assert.h>

/* How many symbols a node has, and how many children a B-tree's: the superblock has half. */
enum { SYMBOLS = 8, CHILDREN = 32, SYMBOL_SIZE = 40, TREE_SIZE = 24 + 16 * CHILDREN + 8 };

/* A part of a group's index, and the heap's offset of the last name in it. */
typedef struct part {
    uint64_t address, last;
} part;

static uint64_t address_of(const td__hdf5_maker *maker) {
    return TD__H5_SUPERBLOCK_SIZE + maker->texts.size + maker->metadata.size;
}

/* ---- Groups ---------------------------------------------------------------------------------- */

/* The local heap: a text of no bytes, then the children's names. offsets gets where each is. */
static void put_names(td__hdf5_maker *maker, td__h5_node *group, uint64_t *offsets) {
    td__h5_output *out = &maker->metadata;
    uint64_t data = address_of(maker);
    (void)td__h5_extend(out, 8);
    for (size_t i = 0; i < group->child_count; i++) {
        offsets[i] = address_of(maker) - data;
        td__h5_put(out, group->children[i]->name, strlen(group->children[i]->name) + 1);
        td__h5_align(out);
    }
    uint64_t size = address_of(maker) - data;
    group->names = address_of(maker);
    td__h5_put(out, "HEAP\0\0\0", 8);
    td__h5_put_number(out, size, 8);
    td__h5_put_number(out, 1, 8); /* nothing is free */
    td__h5_put_number(out, data, 8);
}

static void put_symbol(td__h5_output *out, const td__h5_node *node, uint64_t name) {
    td__h5_put_number(out, name, 8);
    td__h5_put_number(out, node->header, 8);
    td__h5_put_number(out, node->is_array ? 0 : 1, 8); /* 1: what follows is known */
    td__h5_put_number(out, node->tree, 8);
    td__h5_put_number(out, node->names, 8);
}

/* Symbol table nodes, one a part. */
static size_t put_symbols(td__hdf5_maker *maker, const td__h5_node *group, const uint64_t *offsets,
                          part *parts) {
    td__h5_output *out = &maker->metadata;
    size_t count = 0;
    for (size_t i = 0; i < group->child_count; i += SYMBOLS) {
        size_t left = group->child_count - i, here = left < SYMBOLS ? left : SYMBOLS;
        parts[count++] = (part){address_of(maker), offsets[i + here - 1]};
        td__h5_put(out, "SNOD\1", 6);
        td__h5_put_number(out, here, 2);
        for (size_t k = i; k < i + here; k++) {
            put_symbol(out, group->children[k], offsets[k]);
        }
        (void)td__h5_extend(out, (SYMBOLS - here) * SYMBOL_SIZE);
    }
    return count;
}

/* One level of the B-tree over the parts, which become its nodes. */
static size_t put_level(td__hdf5_maker *maker, part *parts, size_t count, unsigned level) {
    td__h5_output *out = &maker->metadata;
    size_t nodes = 0;
    for (size_t i = 0; i < count || nodes == 0; i += CHILDREN) {
        size_t here = count - i < CHILDREN ? count - i : CHILDREN;
        uint64_t address = address_of(maker), before = i > 0 ? parts[nodes - 1].last : 0;
        td__h5_put(out, "TREE", 5);
        td__h5_put_number(out, level, 1);
        td__h5_put_number(out, here, 2);
        td__h5_put_number(out, i > 0 ? address - TREE_SIZE : TD__H5_NONE, 8);
        td__h5_put_number(out, i + here < count ? address + TREE_SIZE : TD__H5_NONE, 8);
        td__h5_put_number(out, before, 8);
        for (size_t k = i; k < i + here; k++) {
            td__h5_put_number(out, parts[k].address, 8);
            td__h5_put_number(out, parts[k].last, 8);
        }
        (void)td__h5_extend(out, (CHILDREN - here) * 16);
        parts[nodes++] = (part){address, here > 0 ? parts[i + here - 1].last : 0};
    }
    return nodes;
}

/* ---- Headers --------------------------------------------------------------------------------- */

/* Begins a message; the result is where its size is written when it ends. */
static size_t begin_message(td__h5_output *out, unsigned type) {
    td__h5_put_number(out, type, 8);
    return out->size;
}

static void end_message(td__h5_output *out, size_t start) {
    td__h5_align(out);
    if (!out->failed) {
        td__h5_encode(out->bytes + start - 6, out->size - start, 2);
    }
}

static void put_space(td__h5_output *out, const td_shape *shape) {
    td__h5_put_number(out, 1 | (uint64_t)shape->rank << 8, 8);
    for (int32_t i = 0; i < shape->rank; i++) {
        td__h5_put_number(out, (uint64_t)shape->dims[i], 8);
    }
}

static void put_type(td__h5_output *out, td_dtype dtype) {
    /* Class and version, flags, size; precision; of floats: exponent, mantissa, bias. */
    static const struct {
        uint8_t head[8], rest[12], size;
    } types[TD_DTYPE_COUNT] = {
        [TD_FLOAT32] = {{0x11, 0x20, 31, 0, 4}, {0, 0, 32, 0, 23, 8, 0, 23, 127}, 12},
        [TD_FLOAT64] = {{0x11, 0x20, 63, 0, 8}, {0, 0, 64, 0, 52, 11, 0, 52, 0xff, 3}, 12},
        [TD_INT32] = {{0x10, 8, 0, 0, 4}, {0, 0, 32}, 4},
        [TD_INT64] = {{0x10, 8, 0, 0, 8}, {0, 0, 64}, 4},
        [TD_UINT8] = {{0x10, 0, 0, 0, 1}, {0, 0, 8}, 4},
    };
    assert(types[dtype].size && "a model's weights have one of these types");
    td__h5_put(out, types[dtype].head, sizeof types[dtype].head);
    td__h5_put(out, types[dtype].rest, types[dtype].size);
}

static void put_attribute(td__h5_output *out, const td__h5_attribute *attribute) {
    /* A sequence of characters in UTF-8 that ends in 0, of bytes. */
    static const uint8_t type[24] = {0x19, 1, 1, 0, 16, 0, 0, 0, 0x10, 0,
                                     0,    0, 1, 0, 0,  0, 0, 0, 8};
    size_t name = strlen(attribute->name) + 1;
    size_t start = begin_message(out, TD__H5_ATTRIBUTE);
    td__h5_put_number(out, 1, 2);
    td__h5_put_number(out, name, 2);
    td__h5_put_number(out, 20, 2);
    td__h5_put_number(out, attribute->list ? 16 : 8, 2);
    td__h5_put(out, attribute->name, name);
    td__h5_align(out);
    td__h5_put(out, type, sizeof type);
    put_space(out, &(td_shape){.rank = attribute->list, .dims = {(int64_t)attribute->count}});
    td__h5_put(out, attribute->references, 16 * attribute->count);
    end_message(out, start);
}

static size_t put_array_messages(td__h5_output *out, td__h5_node *array) {
    static const uint8_t fill[8] = {2, 2, 2, 1}; /* allocated late, zero */
    size_t start = begin_message(out, TD__H5_SPACE);
    put_space(out, &array->view.shape);
    end_message(out, start);
    start = begin_message(out, TD__H5_TYPE);
    put_type(out, array->view.dtype);
    end_message(out, start);
    start = begin_message(out, TD__H5_FILL);
    td__h5_put(out, fill, sizeof fill);
    end_message(out, start);
    start = begin_message(out, TD__H5_LAYOUT);
    td__h5_put_number(out, 3 | 1 << 8, 2); /* version 3, contiguous */
    array->values_at = out->size;
    td__h5_put_number(out, TD__H5_NONE, 8);
    td__h5_put_number(out, array->bytes, 8);
    end_message(out, start);
    return 4;
}

static void put_header(td__hdf5_maker *maker, td__h5_node *node) {
    td__h5_output *out = &maker->metadata;
    node->header = address_of(maker);
    size_t head = out->size, messages = 1;
    td__h5_put_number(out, 1, 4);
    td__h5_put_number(out, 1, 4); /* one link leads here */
    td__h5_put_number(out, 0, 8);
    if (node->is_array) {
        messages = put_array_messages(out, node);
    } else {
        size_t start = begin_message(out, TD__H5_SYMBOLS);
        td__h5_put_number(out, node->tree, 8);
        td__h5_put_number(out, node->names, 8);
        end_message(out, start);
    }
    for (size_t i = 0; i < node->attribute_count; i++) {
        put_attribute(out, &node->attributes[i]);
    }
    if (!out->failed) {
        td__h5_encode(out->bytes + head + 2, messages + node->attribute_count, 2);
        td__h5_encode(out->bytes + head + 8, out->size - head - 16, 4);
    }
}

static void put_group(td__hdf5_maker *maker, td__h5_node *group) {
    size_t children = group->child_count;
    uint64_t *offsets = td__calloc(children + 1, sizeof *offsets);
    part *parts = td__calloc(children / SYMBOLS + 1, sizeof *parts);
    if (offsets && parts) {
        put_names(maker, group, offsets);
        size_t count = put_symbols(maker, group, offsets, parts);
        unsigned level = 0;
        do {
            count = put_level(maker, parts, count, level++);
        } while (count > 1);
        group->tree = parts[0].address;
    } else {
        maker->metadata.failed = true;
    }
    td__free(offsets);
    td__free(parts);
}

/* Not deeper than paths may be. */
static void put_node(td__hdf5_maker *maker, td__h5_node *node) {
    for (size_t i = 0; i < node->child_count; i++) {
        put_node(maker, node->children[i]);
    }
    if (!node->is_array) {
        put_group(maker, node);
    }
    put_header(maker, node);
}

/* ---- The file -------------------------------------------------------------------------------- */

static td_status lay_out(td__hdf5_maker *maker, td_error *error) {
    if (maker->failure.status) {
        return td_error_set(error, maker->failure.status, "%s", maker->failure.text);
    }
    if (maker->size) {
        return TD_OK;
    }
    td__h5_texts_end(maker);
    put_node(maker, maker->root);
    if (maker->texts.failed || maker->metadata.failed) {
        return td_error_set(error, TD_MEMORY, "no memory for an HDF5 file's metadata");
    }
    uint64_t at = address_of(maker);
    for (size_t i = 0; i < maker->array_count; i++) {
        const td__h5_node *array = maker->arrays[i];
        if (array->bytes > 0) {
            at = (at + 7) / 8 * 8;
            td__h5_encode(maker->metadata.bytes + array->values_at, at, 8);
            at += array->bytes;
        }
    }
    maker->size = at;
    return TD_OK;
}

td_status td__hdf5_size(td__hdf5_maker *maker, uint64_t *size, td_error *error) {
    td_status status = lay_out(maker, error);
    if (!status) {
        *size = maker->size;
    }
    return status;
}

static td_status write_superblock(const td__hdf5_maker *maker, td__hdf5_write *write, void *user,
                                  td_error *error) {
    uint8_t block[TD__H5_SUPERBLOCK_SIZE] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
    block[13] = block[14] = 8; /* bytes of offsets and lengths */
    block[16] = SYMBOLS / 2;
    block[18] = CHILDREN / 2;
    td__h5_encode(block + 32, TD__H5_NONE, 8); /* free space */
    td__h5_encode(block + 40, maker->size, 8);
    td__h5_encode(block + 48, TD__H5_NONE, 8); /* driver */
    td__h5_encode(block + 64, maker->root->header, 8);
    block[72] = 1; /* what follows is known */
    td__h5_encode(block + 80, maker->root->tree, 8);
    td__h5_encode(block + 88, maker->root->names, 8);
    return write(user, block, sizeof block, error);
}

static td_status write_values(const td__h5_node *array, td__hdf5_write *write, void *user,
                              td_error *error) {
    td_view view;
    td_status status = td__view_to_file(&array->view, &view, error);
    if (!status) {
        status = write(user, view.data, array->bytes, error);
        td__view_release(&view);
    }
    return status;
}

td_status td__hdf5_finish(td__hdf5_maker *maker, td__hdf5_write *write, void *user,
                          td_error *error) {
    static const uint8_t zeros[8];
    td_status status = lay_out(maker, error);
    if (!status) {
        status = write_superblock(maker, write, user, error);
    }
    if (!status && maker->texts.size > 0) {
        status = write(user, maker->texts.bytes, maker->texts.size, error);
    }
    if (!status) {
        status = write(user, maker->metadata.bytes, maker->metadata.size, error);
    }
    size_t at = 0; /* metadata ends at a multiple of eight */
    for (size_t i = 0; i < maker->array_count && !status; i++) {
        const td__h5_node *array = maker->arrays[i];
        size_t gap = array->bytes > 0 ? td__h5_padded(at) - at : 0;
        if (gap > 0) {
            status = write(user, zeros, gap, error);
        }
        if (!status && array->bytes > 0) {
            status = write_values(array, write, user, error);
        }
        at = (at + gap + array->bytes) % 8;
    }
    return status;
}
