/* Global heaps: "GCOL", size, then objects of an index, a size and as many bytes; each of these is
 * padded to eight bytes. */
#include "hdf5/heap.h"

td__h5_cursor td__h5_global_object(const td__hdf5 *file, uint64_t heap, uint64_t index) {
    enum { OBJECTS = 65535 }; /* indexes have two bytes and begin with 1 */
    td__h5_cursor head = td__h5_from(file, heap);
    td__h5_expect(&head, "GCOL");
    td__h5_skip(&head, 4); /* version */
    uint64_t size = td__h5_length(&head);
    td__h5_cursor objects = td__h5_at(file, heap, head.bad ? TD__H5_NONE : size);
    td__h5_skip(&objects, 16);
    for (unsigned i = 0; i < OBJECTS && !objects.bad; i++) {
        uint64_t found = td__h5_number(&objects, 2);
        td__h5_skip(&objects, 6); /* references */
        uint64_t length = td__h5_length(&objects);
        td__h5_skip(&objects, 8u - file->length_size);
        if (found == 0) { /* free to the end */
            break;
        }
        td__h5_cursor object = td__h5_sub(&objects, length);
        if (found == index) {
            return object;
        }
        td__h5_skip(&objects, (8 - length % 8) % 8);
    }
    objects.bad = true;
    objects.end = objects.at;
    return objects;
}
