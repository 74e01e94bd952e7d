/* What the modes of the table of operations share: a case's inputs, and building it on them. */
#ifndef TAPEDECK_TESTS_OP_DATA_H
#define TAPEDECK_TESTS_OP_DATA_H

#include "gradient/op_table.h"

#include "base/random.h"

/* The inputs of a case as float64 and as tensors; both hold the same numbers. */
typedef struct op_data {
    int count;
    op_array arrays[OP_MAX_INPUTS];
    td_tensor *tensors[OP_MAX_INPUTS]; /* NULL: left out */
    bool differentiated[OP_MAX_INPUTS];
} op_data;

/* Zero-filled, with free; the tests' own, so never the allocation that is made to fail. */
void *op_allocate(int64_t count, size_t size);
double op_random_between(td__random *random, double low, double high);
/* The caller frees values. */
op_array op_make_array(const td_shape *shape);
void op_make_data(const op_input *inputs, int count, op_data *data);
void op_release_data(op_data *data);
td_tape *op_make_tape(void);
/* Builds the operation, always with the same random numbers; inputs that an earlier build changed
 * (moving averages) are set again. */
td_tensor *op_build_case(td_tape *tape, const op_case *c, op_data *data);
td_tensor *op_build_or_fail(td_tape *tape, const op_case *c, op_data *data);

#endif
