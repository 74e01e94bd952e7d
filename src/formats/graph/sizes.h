/* Sizes of axes before they are known: numbers, or times × symbol + plus.
 *
 * A symbol is the size of an open axis, or what was made of one and is not linear in it: the floor of a
 * quotient, a product of two. The same made twice is the same symbol, so that sizes that are equal for
 * all data are equal here, as far as such arithmetic can tell.
 */
#ifndef TAPEDECK_GRAPH_SIZES_H
#define TAPEDECK_GRAPH_SIZES_H

#include "tapedeck/tensor.h"

typedef struct td__graph_size {
    int64_t symbol; /* 0: none, the size is plus */
    int64_t times, plus;
} td__graph_size;

enum { TD__GRAPH_MAX_SYMBOLS = 256 }; /* that are remembered with what they were made of */

/* (times × a + plus) / over, rounded down; or a × b. */
typedef struct td__graph_symbol {
    int64_t symbol, a, b, times, plus, over;
} td__graph_symbol;

typedef struct td__graph_sizes {
    int64_t last; /* symbol that was given out */
    size_t count;
    td__graph_symbol made[TD__GRAPH_MAX_SYMBOLS];
} td__graph_sizes;

static inline td__graph_size td__onnx_number(int64_t number) {
    return (td__graph_size){.plus = number};
}
static inline bool td__graph_is_number(td__graph_size size) {
    return size.symbol == 0;
}
static inline bool td__graph_is_size(td__graph_size size, int64_t number) {
    return size.symbol == 0 && size.plus == number;
}
static inline bool td__graph_same_size(td__graph_size a, td__graph_size b) {
    return a.symbol == b.symbol && a.times == b.times && a.plus == b.plus;
}

/* A size of which nothing is known but that it is one. */
td__graph_size td__graph_any_size(td__graph_sizes *sizes);
/* What is not known is any size. */
td__graph_size td__graph_size_add(td__graph_sizes *sizes, td__graph_size a, td__graph_size b);
td__graph_size td__graph_size_scale(td__graph_sizes *sizes, td__graph_size a, int64_t by);
td__graph_size td__graph_size_multiply(td__graph_sizes *sizes, td__graph_size a, td__graph_size b);
/* Rounded down; by is positive. */
td__graph_size td__graph_size_divide(td__graph_sizes *sizes, td__graph_size a, int64_t by);
/* The product of some sizes over that of others, which divides it. */
td__graph_size td__graph_size_left(td__graph_sizes *sizes, size_t count,
                                   const td__graph_size *whole, size_t part_count,
                                   const td__graph_size *parts);

#endif
