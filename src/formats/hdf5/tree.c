/* A node: "TREE", type, level, number of children, its neighbours, then key child key child … key.
 *
 * Levels go down by one from node to child, so that the recursion ends. */
#include "hdf5/tree.h"

enum { LEVELS = 32, ANY = LEVELS };

typedef struct walk {
    const td__hdf5 *file;
    unsigned type;
    size_t key_size;
    td__h5_tree_visit *visit;
    void *user;
    uint64_t budget;
} walk;

static td_status visit_node(walk *tree, uint64_t address, unsigned expected, td_error *error) {
    td__h5_cursor node = td__h5_from(tree->file, address);
    const uint8_t *start = node.at;
    td__h5_expect(&node, "TREE");
    unsigned type = td__h5_byte(&node), level = td__h5_byte(&node);
    uint64_t count = td__h5_number(&node, 2);
    td__h5_skip(&node, 2u * node.offset_size);
    td__h5_cursor body =
        td__h5_sub(&node, count * (tree->key_size + node.offset_size) + tree->key_size);
    if (node.bad || type != tree->type || level >= LEVELS ||
        (expected != ANY && level != expected) ||
        !td__h5_spend(&tree->budget, (uint64_t)(node.at - start))) {
        return td__h5_damaged(tree->file, "a B-tree", error);
    }
    td_status status = TD_OK;
    for (uint64_t i = 0; i < count && !status; i++) {
        td__h5_cursor key = td__h5_sub(&body, tree->key_size);
        uint64_t child = td__h5_offset(&body);
        status = level > 0 ? visit_node(tree, child, level - 1, error)
                           : tree->visit(tree->user, key, child, &tree->budget, error);
    }
    return status;
}

td_status td__h5_tree(const td__hdf5 *file, uint64_t address, unsigned type, size_t key_size,
                      td__h5_tree_visit *visit, void *user, td_error *error) {
    walk tree = {file, type, key_size, visit, user, file->size};
    return visit_node(&tree, address, ANY, error);
}
