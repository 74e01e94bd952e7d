/* What is to be in a file that is being made: a tree of groups and arrays with attributes. */
#ifndef TAPEDECK_HDF5_MAKER_H
#define TAPEDECK_HDF5_MAKER_H

#include "hdf5/hdf5.h"
#include "hdf5/output.h"

enum { TD__H5_SUPERBLOCK_SIZE = 96 };

typedef struct td__h5_attribute {
    char *name;
    bool list;
    size_t count;
    uint8_t *references; /* count times 16 bytes: length, global heap, index */
} td__h5_attribute;

typedef struct td__h5_node {
    char *name;
    struct td__h5_node **children; /* in the order of their names' bytes */
    size_t child_count, child_capacity;
    td__h5_attribute *attributes;
    size_t attribute_count, attribute_capacity;
    bool is_array;
    td_view view; /* of an array; its values are borrowed */
    size_t bytes; /* of its values */

    /* Where things are in the file, once it is laid out. */
    uint64_t header;      /* of the object */
    uint64_t tree, names; /* of a group: its B-tree and its local heap */
    size_t values_at;     /* of an array: where in the metadata the address of its values goes */
} td__h5_node;

struct td__hdf5_maker {
    td__h5_node *root;
    td__h5_node **arrays; /* in the order in which their values are in the file */
    size_t array_count, array_capacity;
    td__h5_output texts; /* global heaps, from TD__H5_SUPERBLOCK_SIZE on */
    size_t heap_at;      /* where in texts the last heap begins */
    size_t heap_objects; /* how many it has; 0: there is none */
    td__h5_output metadata;
    uint64_t size; /* of the whole file, once it is laid out; else 0 */
    td_error failure;
};

/* Ends the last global heap. */
void td__h5_texts_end(td__hdf5_maker *maker);

#endif
