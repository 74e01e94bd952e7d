/* Old groups: a B-tree of symbol table nodes, whose names lie in a local heap.
 * New groups: a link message for each link, in the header or, when there are many, in a fractal
 * heap. */
#include "hdf5/group.h"

#include "hdf5/dense.h"
#include "hdf5/message.h"
#include "hdf5/tree.h"

typedef struct walk {
    const td__hdf5 *file;
    td__h5_link_visit *visit;
    void *user;
    td__h5_cursor names; /* old groups: the local heap's data */
} walk;

static td_status hand_out(const walk *group, const td__h5_link *link, td_error *error) {
    if (link->name_size == 0 || memchr(link->name, 0, link->name_size) ||
        (link->kind == TD__H5_HARD && (link->object == 0 || link->object >= group->file->size))) {
        return td__h5_damaged(group->file, "a link", error);
    }
    if (link->name_size >= TD__H5_NAME_SIZE) {
        return td__h5_unsupported(group->file, "a name longer than 4095 bytes", error);
    }
    return group->visit(group->user, link, error);
}

/* ---- Old groups ------------------------------------------------------------------------------ */

static td__h5_cursor local_heap(const td__hdf5 *file, uint64_t address) {
    td__h5_cursor head = td__h5_from(file, address);
    td__h5_expect(&head, "HEAP");
    td__h5_skip(&head, 4); /* version */
    uint64_t size = td__h5_length(&head);
    (void)td__h5_length(&head); /* free list */
    uint64_t data = td__h5_offset(&head);
    return td__h5_at(file, head.bad ? TD__H5_NONE : data, size);
}

/* The text that ends in 0 at an offset of the heap; NULL when it is not there. Looks no further
 * than a name may be long. */
static const char *heap_text(td__h5_cursor heap, uint64_t offset, size_t *size) {
    td__h5_skip(&heap, offset);
    size_t max = heap.bad ? 0 : td__h5_left(&heap);
    const uint8_t *end = memchr(heap.at, 0, max < TD__H5_NAME_SIZE ? max : TD__H5_NAME_SIZE);
    *size = end ? (size_t)(end - heap.at) : 0;
    return end ? (const char *)heap.at : NULL;
}

static td_status visit_symbol(const walk *group, td__h5_cursor *node, td_error *error) {
    enum { SOFT = 2 };
    td__h5_link link = {.kind = TD__H5_HARD};
    uint64_t name = td__h5_offset(node);
    link.object = td__h5_offset(node);
    uint64_t cache = td__h5_number(node, 4);
    td__h5_skip(node, 4);
    td__h5_cursor scratch = td__h5_sub(node, 16);
    link.name = heap_text(group->names, name, &link.name_size);
    if (cache == SOFT) {
        link.kind = TD__H5_SOFT;
        link.target = heap_text(group->names, td__h5_number(&scratch, 4), &link.target_size);
    }
    if (node->bad || !link.name || (link.kind == TD__H5_SOFT && !link.target)) {
        return td__h5_damaged(group->file, "a group's symbol table", error);
    }
    return hand_out(group, &link, error);
}

static td_status visit_symbols(void *user, td__h5_cursor key, uint64_t address, uint64_t *budget,
                               td_error *error) {
    (void)key;
    const walk *group = user;
    td__h5_cursor node = td__h5_from(group->file, address);
    td__h5_expect(&node, "SNOD");
    td__h5_skip(&node, 2); /* version */
    uint64_t count = td__h5_number(&node, 2);
    uint64_t size = count * (2u * node.offset_size + 24u);
    td__h5_cursor entries = td__h5_sub(&node, size);
    if (node.bad || !td__h5_spend(budget, 8 + size)) {
        return td__h5_damaged(group->file, "a group's symbol table", error);
    }
    td_status status = TD_OK;
    for (uint64_t i = 0; i < count && !status; i++) {
        status = visit_symbol(group, &entries, error);
    }
    return status;
}

static td_status visit_old(walk *group, td__h5_cursor body, td_error *error) {
    uint64_t tree = td__h5_offset(&body), heap = td__h5_offset(&body);
    group->names = local_heap(group->file, heap);
    if (body.bad || group->names.bad) {
        return td__h5_damaged(group->file, "a group's names", error);
    }
    return td__h5_tree(group->file, tree, TD__H5_TREE_GROUP, group->file->length_size,
                       visit_symbols, group, error);
}

/* ---- New groups ------------------------------------------------------------------------------ */

static td_status visit_link(void *user, td__h5_cursor body, td_error *error) {
    const walk *group = user;
    enum { HARD = 0, SOFT = 1 };
    unsigned version = td__h5_byte(&body), flags = td__h5_byte(&body);
    unsigned type = flags & 8 ? td__h5_byte(&body) : HARD;
    td__h5_skip(&body, flags & 4 ? 8 : 0);  /* creation order */
    td__h5_skip(&body, flags & 16 ? 1 : 0); /* character set */
    td__h5_link link = {.kind = type == HARD   ? TD__H5_HARD
                                : type == SOFT ? TD__H5_SOFT
                                               : TD__H5_OUTSIDE};
    uint64_t size = td__h5_number(&body, 1u << (flags & 3));
    link.name = (const char *)td__h5_take(&body, size);
    link.name_size = (size_t)size;
    if (type == HARD) {
        link.object = td__h5_offset(&body);
    } else if (type == SOFT) {
        link.target_size = (size_t)td__h5_number(&body, 2);
        link.target = (const char *)td__h5_take(&body, link.target_size);
    }
    if (body.bad || version != 1) {
        return td__h5_damaged(group->file, "a link", error);
    }
    return hand_out(group, &link, error);
}

td_status td__h5_links(const td__hdf5 *file, td__hdf5_object object, td__h5_link_visit *visit,
                       void *user, td_error *error) {
    walk group = {.file = file, .visit = visit, .user = user};
    td__h5_messages header;
    td__h5_message message;
    td_status status = TD_OK;
    td__h5_messages_start(&header, file, object, error);
    while (!status && td__h5_messages_next(&header, &message, error)) {
        if (message.type == TD__H5_SYMBOLS) {
            status = visit_old(&group, message.body, error);
        } else if (message.type == TD__H5_LINK) {
            status = visit_link(&group, message.body, error);
        } else if (message.type == TD__H5_LINK_INFO) {
            td__h5_skip(&message.body, 1); /* version */
            status =
                td__h5_dense(file, message.body, TD__H5_DENSE_LINKS, visit_link, &group, error);
        }
    }
    return status ? status : header.status;
}
