/* B-trees of version 2 whose records name objects of a fractal heap.
 *
 * All nodes of such a tree are of one size; how many records and children a node can have, and with
 * it the width of the numbers that say how many it has, follows from that size. */
#include "hdf5/dense.h"

#include "hdf5/fractal.h"

enum { LEVELS = 16, NODE_HEAD = 6, CHECKSUM = 4 };

typedef struct walk {
    const td__hdf5 *file;
    unsigned type;
    uint64_t node_size, record_size;
    unsigned count_size;         /* bytes of a number of records in a node */
    unsigned total_size[LEVELS]; /* … and of one in all that is below a node of a level */
    td__h5_fractal heap;
    td__h5_dense_visit *visit;
    void *user;
    uint64_t budget;
} walk;

static td_status damaged(const walk *tree, td_error *error) {
    return td__h5_damaged(tree->file, "a dense index", error);
}

/* Bytes of a number up to limit. */
static unsigned width_of(uint64_t limit) {
    unsigned width = 1;
    while (limit >>= 8) {
        width++;
    }
    return width;
}

/* False when a node has no room for a record. */
static bool measure_tree(walk *tree, unsigned depth) {
    uint64_t room = tree->node_size - NODE_HEAD - CHECKSUM;
    uint64_t records = room / tree->record_size, total = records;
    tree->count_size = width_of(records);
    for (unsigned level = 1; records > 0 && level <= depth; level++) {
        uint64_t pointer = tree->file->offset_size + tree->count_size + tree->total_size[level - 1];
        records = room > pointer ? (room - pointer) / (tree->record_size + pointer) : 0;
        if (__builtin_mul_overflow(records + 1, total, &total) ||
            __builtin_add_overflow(total, records, &total)) {
            return false;
        }
        tree->total_size[level] = width_of(total);
    }
    return records > 0;
}

static td_status visit_record(walk *tree, td__h5_cursor record, td_error *error) {
    unsigned id_size = tree->type == TD__H5_DENSE_LINKS ? 7 : 8;
    td__h5_skip(&record, tree->type == TD__H5_DENSE_LINKS ? 4 : 0); /* the name's hash */
    td__h5_cursor id = td__h5_sub(&record, id_size), message;
    td_status status =
        record.bad ? damaged(tree, error) : td__h5_fractal_object(&tree->heap, id, &message, error);
    if (!status && !td__h5_spend(&tree->budget, td__h5_left(&message))) {
        status = damaged(tree, error);
    }
    return status ? status : tree->visit(tree->user, message, error);
}

static td_status visit_node(walk *tree, uint64_t address, uint64_t count, unsigned level,
                            td_error *error) {
    td__h5_cursor node = td__h5_at(tree->file, address, tree->node_size);
    const uint8_t *start = node.at;
    td__h5_expect(&node, level > 0 ? "BTIN" : "BTLF");
    unsigned version = td__h5_byte(&node), type = td__h5_byte(&node);
    unsigned total_size = level > 0 ? tree->total_size[level - 1] : 0;
    uint64_t pointer = level > 0 ? node.offset_size + tree->count_size + total_size : 0;
    td__h5_cursor records = td__h5_sub(&node, count * tree->record_size);
    td__h5_cursor children = td__h5_sub(&node, (count + 1) * pointer);
    size_t size = (size_t)(node.at - start);
    td__h5_skip(&node, CHECKSUM);
    if (node.bad || version != 0 || type != tree->type ||
        !td__h5_spend(&tree->budget, tree->node_size) || !td__h5_is_sound(start, size)) {
        return damaged(tree, error);
    }
    td_status status = TD_OK;
    for (uint64_t i = 0; i <= count && !status; i++) {
        if (level > 0) {
            uint64_t child = td__h5_offset(&children);
            uint64_t child_count = td__h5_number(&children, tree->count_size);
            td__h5_skip(&children, total_size);
            status = visit_node(tree, child, child_count, level - 1, error);
        }
        if (!status && i < count) {
            status = visit_record(tree, td__h5_sub(&records, tree->record_size), error);
        }
    }
    return status;
}

static td_status visit_tree(walk *tree, uint64_t address, td_error *error) {
    td__h5_cursor head = td__h5_from(tree->file, address);
    const uint8_t *start = head.at;
    td__h5_expect(&head, "BTHD");
    unsigned version = td__h5_byte(&head), type = td__h5_byte(&head);
    tree->node_size = td__h5_number(&head, 4);
    tree->record_size = td__h5_number(&head, 2);
    uint64_t depth = td__h5_number(&head, 2);
    td__h5_skip(&head, 2); /* when nodes are split and merged */
    uint64_t root = td__h5_offset(&head), count = td__h5_number(&head, 2);
    (void)td__h5_length(&head); /* of all records */
    size_t size = (size_t)(head.at - start);
    td__h5_skip(&head, CHECKSUM);
    if (head.bad || version != 0 || type != tree->type || depth >= LEVELS ||
        !td__h5_is_sound(start, size) || tree->node_size < NODE_HEAD + CHECKSUM ||
        tree->record_size == 0 || !measure_tree(tree, (unsigned)depth)) {
        return damaged(tree, error);
    }
    return root == TD__H5_NONE ? TD_OK : visit_node(tree, root, count, (unsigned)depth, error);
}

td_status td__h5_dense(const td__hdf5 *file, td__h5_cursor info, unsigned type,
                       td__h5_dense_visit *visit, void *user, td_error *error) {
    walk tree = {.file = file, .type = type, .visit = visit, .user = user, .budget = file->size};
    unsigned flags = td__h5_byte(&info);
    unsigned order_size = type == TD__H5_DENSE_LINKS ? 8 : 2;
    td__h5_skip(&info, flags & 1 ? order_size : 0);
    uint64_t heap = td__h5_offset(&info), address = td__h5_offset(&info);
    if (info.bad) {
        return damaged(&tree, error);
    }
    if (heap == TD__H5_NONE) { /* everything is in the header */
        return TD_OK;
    }
    td_status status = td__h5_fractal_open(file, heap, &tree.heap, error);
    return status ? status : visit_tree(&tree, address, error);
}
