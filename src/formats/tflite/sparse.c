/* Constants that keep only some of their elements: made whole again.
 *
 * The axes are traversed in an order of the file's, blocks within them last. At each level either all places are
 * there, or those that a list of indices names, between two of its segments.
 */
#include "tflite/sparse.h"

#include "base/memory.h"

#include <string.h>

enum { MAX_LEVELS = 2 * TD_MAX_RANK, MAX_VISITS = 1 << 28 /* in all tensors of a file */ };

typedef struct numbers {
    size_t at, count, size; /* bytes of one: 1, 2 or 4 */
} numbers;

typedef struct level {
    bool listed;
    int64_t size;
    numbers segments, indices;
} level;

typedef struct densifying {
    td__flat *flat;
    const td__lite_tensor *t;
    size_t levels, bytes; /* bytes of an element */
    level level[MAX_LEVELS];
    int64_t order[MAX_LEVELS], block[MAX_LEVELS]; /* block: axis of each block */
    int64_t block_size[MAX_LEVELS];
    int64_t index[MAX_LEVELS];
    uint8_t *out;
    int64_t count; /* of out */
    size_t visits; /* that are left: at no level are there more places than elements */
} densifying;

/* A union of vectors of 32, 16 and 8 bits. */
static bool read_numbers(td__flat *flat, size_t table, unsigned type_field, numbers *n) {
    static const size_t sizes[] = {0, 4, 2, 1};
    int kind = td__flat_byte(flat, table, type_field, 0);
    size_t holder = td__flat_child(flat, table, type_field + 1);
    if (kind < 1 || kind > 3 || !holder) {
        return false;
    }
    n->size = sizes[kind];
    n->at = td__flat_vector(flat, holder, 0, n->size, &n->count);
    return true;
}

static int64_t number_at(td__flat *flat, const numbers *n, int64_t i) {
    if (i < 0 || (uint64_t)i >= n->count) {
        return -1;
    }
    size_t at = n->at + (size_t)i * n->size;
    return n->size == 4   ? (int32_t)td__flat_u32(flat, at)
           : n->size == 2 ? td__flat_u16(flat, at)
                          : flat->bytes[at];
}

static bool read_levels(densifying *d, size_t table) {
    td__flat *flat = d->flat;
    size_t levels, blocks, maps;
    size_t order = td__flat_vector(flat, table, 0, 4, &levels);
    size_t map = td__flat_vector(flat, table, 1, 4, &blocks);
    size_t each = td__flat_vector(flat, table, 2, 4, &maps), rank = (size_t)d->t->shape.rank;
    if (levels != maps || levels != rank + blocks || levels > MAX_LEVELS || !rank) {
        return false;
    }
    d->levels = levels;
    for (size_t i = 0; i < levels; i++) {
        size_t meta = td__flat_follow(flat, each + 4 * i);
        level *l = &d->level[i];
        l->listed = td__flat_byte(flat, meta, 0, 0) == 1;
        l->size = td__flat_int(flat, meta, 1, 0);
        d->order[i] = (int32_t)td__flat_u32(flat, order + 4 * i);
        int64_t first = i < rank ? 0 : (int64_t)rank,
                end = i < rank ? (int64_t)rank : (int64_t)levels;
        if (d->order[i] < first || d->order[i] >= end ||
            (l->listed ? !read_numbers(flat, meta, 2, &l->segments) ||
                             !read_numbers(flat, meta, 4, &l->indices)
                       : l->size < 0)) {
            return false;
        }
    }
    for (size_t i = 0; i < blocks; i++) {
        d->block[i] = (int32_t)td__flat_u32(flat, map + 4 * i);
        if (d->block[i] < 0 || d->block[i] >= (int64_t)rank) {
            return false;
        }
    }
    for (size_t i = rank; i < levels; i++) { /* which are not listed */
        if (d->level[i].listed) {
            return false;
        }
        d->block_size[d->order[i] - (int64_t)rank] = d->level[i].size;
    }
    return !flat->bad;
}

/* Where element number `from` of those that are kept goes. */
static bool put_element(densifying *d, int64_t from) {
    const td_shape *shape = &d->t->shape;
    int64_t axis[TD_MAX_RANK], at = 0;
    for (int32_t i = 0; i < shape->rank; i++) {
        axis[d->order[i]] = d->index[i];
    }
    for (size_t i = (size_t)shape->rank; i < d->levels; i++) {
        int64_t block = d->order[i] - shape->rank;
        axis[d->block[block]] = axis[d->block[block]] * d->block_size[block] + d->index[i];
    }
    for (int32_t i = 0; i < shape->rank; i++) {
        if (axis[i] < 0 || axis[i] >= shape->dims[i]) {
            return false;
        }
        at = at * shape->dims[i] + axis[i];
    }
    if (from < 0 || (size_t)from >= d->t->data_size / d->bytes || at >= d->count) {
        return false;
    }
    memcpy(d->out + (size_t)at * d->bytes, d->t->data + (size_t)from * d->bytes, d->bytes);
    return true;
}

/* At most MAX_LEVELS deep. before: the number of the place at the level above. */
static bool put_level(densifying *d, size_t depth, int64_t before) {
    if (depth == d->levels) {
        return put_element(d, before);
    }
    const level *l = &d->level[depth];
    int64_t first = l->listed ? number_at(d->flat, &l->segments, before) : 0;
    int64_t end = l->listed ? number_at(d->flat, &l->segments, before + 1) : l->size;
    if (first < 0 || end < first || before > INT32_MAX) {
        return false;
    }
    for (int64_t i = first; i < end; i++) {
        d->index[depth] = l->listed ? number_at(d->flat, &l->indices, i) : i;
        if (d->visits-- == 0 || d->index[depth] < 0 || d->index[depth] > INT32_MAX ||
            !put_level(d, depth + 1, l->listed ? i : before * l->size + i)) {
            return false;
        }
    }
    return true;
}

const char *td__lite_densify(td__lite *lite, size_t sparsity, int64_t count, size_t bytes,
                             td__lite_tensor *t) {
    densifying d = {.flat = &lite->flat, .t = t, .bytes = bytes, .count = count};
    if (!bytes || count < 0 || (size_t)count > lite->left / bytes) {
        return "a sparse constant of four bits, or one that takes too much memory";
    }
    if (!read_levels(&d, sparsity)) {
        return "a sparse constant in a form that is not supported";
    }
    lite->left -= (size_t)count * bytes;
    size_t most = (size_t)count * d.levels, room = MAX_VISITS - lite->visits;
    d.visits = room = most < room ? most : room;
    d.out = td__calloc((size_t)count + 1, bytes);
    if (!d.out || !put_level(&d, 0, 0)) {
        td__free(d.out);
        return d.out ? "a sparse constant whose places do not fit its shape" : "out of memory";
    }
    lite->visits += room - d.visits;
    t->whole = d.out;
    t->data = d.out;
    t->data_size = (size_t)count * bytes;
    return NULL;
}
