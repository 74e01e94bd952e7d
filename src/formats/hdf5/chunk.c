/* Chunked datasets with a B-tree of version 1: the array is a grid of equal boxes, each stored, and
 * filtered, on its own; boxes at the edge reach over it. */
#include "base/memory.h"
#include "hdf5/dataset.h"
#include "hdf5/filter.h"
#include "hdf5/tree.h"

/* A filtered chunk unpacks to no more than this and half the file: two such are held at a time. */
enum { CHUNK_BYTES = 8 << 20 };

typedef struct grid {
    const td__h5_dataset *set;
    td__h5_pipeline pipeline;
    int64_t dims[TD_MAX_RANK]; /* of a chunk, in elements */
    uint64_t bytes;            /* of a chunk, unpacked */
    uint8_t *scratch[2];
    size_t room; /* of each scratch */
    uint8_t *out;
} grid;

/* Copies the part of a chunk that is inside the array, row by row of its last dimension. */
static void place_chunk(const grid *chunks, const int64_t *origin, const uint8_t *values) {
    const td_shape *shape = &chunks->set->shape;
    size_t size = chunks->set->type.size;
    int32_t rank = shape->rank, last = rank - 1;
    int64_t extent[TD_MAX_RANK], index[TD_MAX_RANK] = {0};
    for (int32_t d = 0; d < rank; d++) {
        int64_t inside = shape->dims[d] - origin[d];
        extent[d] = inside < chunks->dims[d] ? inside : chunks->dims[d];
    }
    for (int32_t d = 0; d >= 0;) {
        int64_t from = 0, to = 0;
        for (d = 0; d < rank; d++) {
            from = from * chunks->dims[d] + index[d];
            to = to * shape->dims[d] + origin[d] + index[d];
        }
        memcpy(chunks->out + (size_t)to * size, values + (size_t)from * size,
               (size_t)extent[last] * size);
        for (d = last - 1; d >= 0 && ++index[d] == extent[d]; d--) {
            index[d] = 0;
        }
    }
}

static td_status visit_chunk(void *user, td__h5_cursor key, uint64_t address, uint64_t *budget,
                             td_error *error) {
    const grid *chunks = user;
    const td_shape *shape = &chunks->set->shape;
    uint64_t size = td__h5_number(&key, 4);
    uint32_t mask = (uint32_t)td__h5_number(&key, 4);
    int64_t origin[TD_MAX_RANK];
    for (int32_t d = 0; d < shape->rank; d++) {
        uint64_t offset = td__h5_number(&key, 8);
        if (offset >= (uint64_t)shape->dims[d]) {
            return TD_OK; /* outside of an array that has been made smaller */
        }
        origin[d] = (int64_t)offset;
    }
    td__h5_cursor stored = td__h5_at(chunks->set->file, address, size);
    const uint8_t *values = NULL;
    size_t length = 0;
    if (stored.bad || !td__h5_spend(budget, size) ||
        !td__h5_pipeline_undo(&chunks->pipeline, mask, chunks->set->type.size, stored.at,
                              (size_t)size, chunks->scratch, chunks->room, &values, &length) ||
        length != chunks->bytes) {
        return td__h5_dataset_damaged(chunks->set, "a chunk", error);
    }
    place_chunk(chunks, origin, values);
    return TD_OK;
}

/* The rest of the layout message: rank + 1, where the tree is, the chunk's dimensions and the size
 * of an element. */
static td_status read_layout(grid *chunks, uint64_t *tree, td_error *error) {
    const td__h5_dataset *set = chunks->set;
    td__h5_cursor layout = set->layout;
    unsigned version = td__h5_byte(&layout);
    td__h5_skip(&layout, 1);
    if (version != 3) {
        return td__h5_dataset_unsupported(
            set, "a chunk index of HDF5 1.10 (libver='latest'; save with 'earliest' instead)",
            error);
    }
    unsigned rank = td__h5_byte(&layout);
    *tree = td__h5_offset(&layout);
    chunks->bytes = set->type.size;
    uint64_t max = td__h5_unpacked_maximum(set->file);
    bool good = rank == (unsigned)set->shape.rank + 1 && rank > 1;
    for (unsigned d = 0; good && d < rank - 1; d++) {
        uint64_t size = td__h5_number(&layout, 4);
        good = size > 0 && size <= max / chunks->bytes;
        chunks->bytes *= good ? size : 1;
        chunks->dims[d] = (int64_t)size;
    }
    if (!good || td__h5_number(&layout, 4) != set->type.size || layout.bad) {
        return td__h5_dataset_damaged(set, "its chunks", error);
    }
    return TD_OK;
}

td_status td__h5_chunks_read(const td__h5_dataset *set, uint8_t *out, td_error *error) {
    grid chunks = {.set = set, .out = out};
    uint64_t tree = TD__H5_NONE;
    td_status status = read_layout(&chunks, &tree, error);
    if (status || tree == TD__H5_NONE) {
        return status;
    }
    if (!td__h5_pipeline_read(set->filters, &chunks.pipeline)) {
        return td__h5_dataset_damaged(set, "its filters", error);
    }
    if (chunks.pipeline.unsupported) {
        return td__h5_dataset_unsupported(set, chunks.pipeline.unsupported, error);
    }
    if (chunks.pipeline.count > 0) {
        if (chunks.bytes > CHUNK_BYTES + set->file->size / 2) {
            return td_error_set(error, TD_RANGE,
                                "%s: %s: its chunks unpack to %llu bytes, more than 8 MiB and half "
                                "the file",
                                set->file->origin, set->name, (unsigned long long)chunks.bytes);
        }
        chunks.room = (size_t)chunks.bytes + 4 * TD__H5_FILTERS_MAXIMUM; /* checksums in between */
        chunks.scratch[0] = td__calloc(2, chunks.room);
        if (!chunks.scratch[0]) {
            return td_error_set(error, TD_MEMORY, "%s: %s: out of memory", set->file->origin,
                                set->name);
        }
        chunks.scratch[1] = chunks.scratch[0] + chunks.room;
    }
    size_t key_size = 8 + 8 * ((size_t)set->shape.rank + 1);
    status =
        td__h5_tree(set->file, tree, TD__H5_TREE_CHUNKS, key_size, visit_chunk, &chunks, error);
    td__free(chunks.scratch[0]);
    return status;
}
