/* What dense and convolution layers share: the activation after the product, and its way back. */
#ifndef TAPEDECK_TAPE_LINEAR_H
#define TAPEDECK_TAPE_LINEAR_H

#include "tape/op.h"

typedef struct td__linear {
    td_activation activation;
    float alpha;
    bool fused;    /* the product's kernel applies it */
    bool finished; /* the product does, piece by piece */
    float *z;      /* where the product goes: the output itself, or memory of its own when the
                        derivative needs it */
} td__linear;

/* What is done to results of a product while they are in the cache. */
typedef struct td__finish {
    td_activation activation; /* TD_LINEAR: nothing */
    float alpha;
} td__finish;

/* n results, one behind the other. */
void td__finish_run(const td__finish *finish, int64_t n, float *y);

/* What follows a product: f(product + onto). */
typedef struct td__ending {
    td_activation activation;
    td_number alpha;
    td_tensor
        *onto; /* made on this tape, which keeps no history, and of the result's shape: the result
                        takes its memory, and it is gone; NULL: nothing */
} td__ending;

/* Refuses activations over rows (softmax, log_softmax): those are operations of their own. */
bool td__linear_check(td_tape *tape, const char *op, td_activation activation);
/* NULL (and the tape's error) when memory is exhausted. */
td__linear *td__linear_begin(td_tape *tape, td_tensor *y, td__ending ending);
/* The tensor for the result. */
td_tensor *td__linear_output(td_tape *tape, const td_shape *shape, td__ending ending);
/* TD__TILE_… of the product. */
int td__linear_flags(const td__linear *linear, td__ending ending);
/* What is left of the activation for the product to do with y's elements; td__linear_end knows. Nothing
 * where z is to stay. */
td__finish td__linear_finish(td__linear *linear, const td_tensor *y);
/* Applies the activation to z, unless that was done with the product. */
void td__linear_end(td_tensor *y, const td__linear *linear);
/* *dz = gradient before the activation, (rows, out), one reference for the caller; adds the
 * gradient of the bias, input number bias_input. */
td_status td__linear_backward(td_tape *tape, td__node *node, const td__linear *linear, int64_t rows,
                              int64_t out, int32_t bias_input, td__buffer **dz);

/* td_dense (ops/dense.c) with any ending. */
td_tensor *td__dense(td_tape *tape, td_tensor *x, td_tensor *kernel, td_tensor *bias,
                     td__ending ending);

/* An activation's alpha, or its default. */
float td__activation_alpha(td_activation activation, td_number alpha);
/* y = f(x) or dx (=|+=) g f', over all threads. */
void td__activate_all(td_activation activation, float alpha, int64_t n, const float *x, float *y);
void td__activate_backward_all(td_activation activation, float alpha, int64_t n, const float *v,
                               const float *g, bool add, float *dx);
/* sums (+)= column sums of x (rows, n), over all threads. */
td_status td__sum_rows_all(td_tape *tape, int64_t rows, int64_t n, const float *x, bool add,
                           float *sums);

#endif
