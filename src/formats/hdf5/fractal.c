/* The heap is one range of addresses, covered by a table of rows, each of `width` blocks: rows 0 and
 * 1 have blocks of the smallest size, each later row blocks of twice the size of the one before.
 * Blocks up to the largest direct size hold objects; larger ones are tables themselves. A table's
 * block ("FHIB") has the addresses of its blocks; an object's place is found from its offset alone. */
#include "hdf5/fractal.h"

static td_status damaged(const td__hdf5 *file, td_error *error) {
    return td__h5_damaged(file, "a fractal heap", error);
}

/* The logarithm of a power of two; 64 when the value is none. */
static unsigned logarithm(uint64_t value) {
    return value == 0 || value & (value - 1) ? 64 : (unsigned)__builtin_ctzll(value);
}

static unsigned width_of(uint64_t limit) {
    return limit == 0 ? 1 : (71 - (unsigned)__builtin_clzll(limit)) / 8;
}

td_status td__h5_fractal_open(const td__hdf5 *file, uint64_t address, td__h5_fractal *heap,
                              td_error *error) {
    td__h5_cursor head = td__h5_from(file, address);
    const uint8_t *start = head.at;
    td__h5_expect(&head, "FRHP");
    unsigned version = td__h5_byte(&head);
    td__h5_skip(&head, 2); /* bytes of an object's name */
    uint64_t filters = td__h5_number(&head, 2);
    td__h5_skip(&head, 1); /* flags */
    uint64_t largest = td__h5_number(&head, 4);
    td__h5_skip(&head, 10u * file->length_size + 2u * file->offset_size); /* free space, counts */
    heap->file = file;
    heap->width = td__h5_number(&head, 2);
    heap->start_bits = logarithm(td__h5_length(&head));
    uint64_t direct = td__h5_length(&head);
    heap->direct_bits = logarithm(direct);
    uint64_t heap_bits = td__h5_number(&head, 2);
    td__h5_skip(&head, 2); /* rows to begin with */
    heap->root = td__h5_offset(&head);
    heap->rows = td__h5_number(&head, 2);
    size_t size = (size_t)(head.at - start);
    td__h5_skip(&head, 4);
    if (!head.bad && version == 0 && filters > 0) {
        return td__h5_unsupported(file, "a fractal heap with filters", error);
    }
    if (head.bad || version != 0 || !td__h5_is_sound(start, size) || heap_bits > 64 ||
        logarithm(heap->width) == 64 || heap->start_bits > heap->direct_bits ||
        heap->direct_bits > 32) {
        return damaged(file, error);
    }
    heap->offset_size = (unsigned)(heap_bits + 7) / 8;
    unsigned by_block = (heap->direct_bits + 7) / 8, by_object = width_of(largest);
    heap->length_size = by_block < by_object ? by_block : by_object;
    return TD_OK;
}

/* The address of the block that has an offset, which becomes one inside the block; *bits is the
 * logarithm of the block's size. */
static bool find_block(const td__h5_fractal *heap, uint64_t *offset, uint64_t *address,
                       unsigned *bits) {
    unsigned row_bits = heap->start_bits + logarithm(heap->width); /* of row 0 and of row 1 */
    uint64_t rows = heap->rows;
    *address = heap->root;
    *bits = heap->start_bits;
    while (rows > 0) {
        uint64_t row = 0, before = 0; /* and the bytes in the rows before it */
        if (*offset >> row_bits) {
            row = 64 - (uint64_t)__builtin_clzll(*offset >> row_bits);
            before = 1ull << (row_bits + row - 1);
        }
        *bits = heap->start_bits + (unsigned)(row > 0 ? row - 1 : 0);
        uint64_t column = (*offset - before) >> *bits;
        td__h5_cursor block = td__h5_from(heap->file, *address);
        td__h5_expect(&block, "FHIB");
        td__h5_skip(&block, 1u + block.offset_size + heap->offset_size);
        td__h5_skip(&block, (row * heap->width + column) * block.offset_size);
        *address = td__h5_offset(&block);
        if (block.bad || row >= rows) {
            return false;
        }
        *offset -= before + (column << *bits);
        /* A block that is a table has as many rows as make up its size. */
        rows = *bits <= heap->direct_bits ? 0 : *bits < row_bits ? 1 : *bits - row_bits + 1;
    }
    return true;
}

td_status td__h5_fractal_object(const td__h5_fractal *heap, td__h5_cursor id, td__h5_cursor *object,
                                td_error *error) {
    unsigned head = td__h5_byte(&id);
    if (head >> 4 != 0) { /* version 0, managed */
        return td__h5_unsupported(
            heap->file, "an object that a fractal heap does not keep in its blocks", error);
    }
    uint64_t offset = td__h5_number(&id, heap->offset_size);
    uint64_t size = td__h5_number(&id, heap->length_size), address = 0;
    unsigned bits = 0;
    if (id.bad || !find_block(heap, &offset, &address, &bits)) {
        return damaged(heap->file, error);
    }
    td__h5_cursor block = td__h5_at(heap->file, address, 1ull << bits);
    td__h5_cursor magic = block;
    td__h5_expect(&magic, "FHDB");
    td__h5_skip(&block, offset);
    *object = td__h5_sub(&block, size);
    return magic.bad || block.bad ? damaged(heap->file, error) : TD_OK;
}
