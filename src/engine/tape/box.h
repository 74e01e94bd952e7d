/* Copying a box: a part of a larger array with a range on every axis. */
#ifndef TAPEDECK_TAPE_BOX_H
#define TAPEDECK_TAPE_BOX_H

#include "tape/op.h"

/* The box `size` that begins at `begin` in an array of shape `whole`. */
typedef struct td__box {
    td_shape whole;
    int64_t begin[TD_MAX_RANK];
    int64_t size[TD_MAX_RANK];
} td__box;

/* Between the whole array and one that is just the box. */
void td__box_read(const td__box *box, const float *whole, bool add, float *part);
void td__box_write(const td__box *box, const float *part, bool add, float *whole);

#endif
