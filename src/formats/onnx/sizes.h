/* Sizes of axes before they are known: numbers, or times × symbol + plus.
 *
 * A symbol is the size of an open axis, or what was made of one and is not linear in it: the floor of a
 * quotient, a product of two. The same made twice is the same symbol, so that sizes that are equal for
 * all data are equal here, as far as such arithmetic can tell.
 */
#ifndef TAPEDECK_ONNX_SIZES_H
#define TAPEDECK_ONNX_SIZES_H

#include "tapedeck/tensor.h"

typedef struct td__onnx_size {
    int64_t symbol; /* 0: none, the size is plus */
    int64_t times, plus;
} td__onnx_size;

enum { TD__ONNX_MOST_SYMBOLS = 256 }; /* that are remembered with what they were made of */

/* (times × a + plus) / over, rounded down; or a × b. */
typedef struct td__onnx_symbol {
    int64_t symbol, a, b, times, plus, over;
} td__onnx_symbol;

typedef struct td__onnx_sizes {
    int64_t last; /* symbol that was given out */
    size_t count;
    td__onnx_symbol made[TD__ONNX_MOST_SYMBOLS];
} td__onnx_sizes;

static inline td__onnx_size td__onnx_number(int64_t number) {
    return (td__onnx_size){.plus = number};
}
static inline bool td__onnx_is_number(td__onnx_size size) {
    return size.symbol == 0;
}
static inline bool td__onnx_is_size(td__onnx_size size, int64_t number) {
    return size.symbol == 0 && size.plus == number;
}
static inline bool td__onnx_same_size(td__onnx_size a, td__onnx_size b) {
    return a.symbol == b.symbol && a.times == b.times && a.plus == b.plus;
}

/* A size of which nothing is known but that it is one. */
td__onnx_size td__onnx_any_size(td__onnx_sizes *sizes);
/* What cannot be told is any size. */
td__onnx_size td__onnx_size_add(td__onnx_sizes *sizes, td__onnx_size a, td__onnx_size b);
td__onnx_size td__onnx_size_scale(td__onnx_sizes *sizes, td__onnx_size a, int64_t by);
td__onnx_size td__onnx_size_multiply(td__onnx_sizes *sizes, td__onnx_size a, td__onnx_size b);
/* Rounded down; by is positive. */
td__onnx_size td__onnx_size_divide(td__onnx_sizes *sizes, td__onnx_size a, int64_t by);
/* The product of some sizes over that of others, which divides it. */
td__onnx_size td__onnx_size_left(td__onnx_sizes *sizes, size_t count, const td__onnx_size *whole,
                                 size_t part_count, const td__onnx_size *parts);

#endif
