/* Operations on tensors. Each runs at once, is remembered by its tape, and returns a tensor that
 * lives until td_tape_reset; NULL on failure (see tape.h: errors are sticky, NULL propagates).
 *
 * Computation is in float32. Layouts are Keras's: batch first, channels last, kernels [in, out] and
 * [height, width, in, out]. An axis may be negative: it counts from the end.
 */
#ifndef TAPEDECK_OPS_H
#define TAPEDECK_OPS_H

#include "tapedeck/losses.h"
#include "tapedeck/tape.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Element-wise, with numpy's broadcasting. Equal operands of maximum and minimum share the gradient
 * in equal parts; the derivative of power in its exponent is 0 where the base is not positive. */
TD_API td_tensor *td_add(td_tape *tape, td_tensor *a, td_tensor *b);
TD_API td_tensor *td_subtract(td_tape *tape, td_tensor *a, td_tensor *b);
TD_API td_tensor *td_multiply(td_tape *tape, td_tensor *a, td_tensor *b);
TD_API td_tensor *td_divide(td_tape *tape, td_tensor *a, td_tensor *b);
TD_API td_tensor *td_maximum(td_tape *tape, td_tensor *a, td_tensor *b);
TD_API td_tensor *td_minimum(td_tape *tape, td_tensor *a, td_tensor *b);
TD_API td_tensor *td_power(td_tape *tape, td_tensor *a, td_tensor *b);

/* scale * x + offset */
TD_API td_tensor *td_affine(td_tape *tape, td_tensor *x, float scale, float offset);
TD_API td_tensor *td_exp(td_tape *tape, td_tensor *x);
TD_API td_tensor *td_log(td_tape *tape, td_tensor *x);
TD_API td_tensor *td_sqrt(td_tape *tape, td_tensor *x);
TD_API td_tensor *td_square(td_tape *tape, td_tensor *x);
TD_API td_tensor *td_absolute(td_tape *tape, td_tensor *x);
TD_API td_tensor *td_clip(td_tape *tape, td_tensor *x, float minimum, float maximum);
/* The same values; no gradient flows through. */
TD_API td_tensor *td_stop_gradient(td_tape *tape, td_tensor *x);

/* Activations. Values are part of the binary interface: only ever append. */
#define TD_ACTIVATION_LIST(X)                                                                      \
    X(LINEAR, "linear")                                                                            \
    X(RELU, "relu")                                                                                \
    X(LEAKY_RELU, "leaky_relu")                                                                    \
    X(ELU, "elu")                                                                                  \
    X(SELU, "selu")                                                                                \
    X(GELU, "gelu")                                                                                \
    X(GELU_TANH, "gelu_tanh")                                                                      \
    X(SOFTPLUS, "softplus")                                                                        \
    X(SIGMOID, "sigmoid")                                                                          \
    X(TANH, "tanh")                                                                                \
    X(SWISH, "swish")                                                                              \
    X(SOFTMAX, "softmax")                                                                          \
    X(LOG_SOFTMAX, "log_softmax")                                                                  \
    X(EXPONENTIAL, "exponential")                                                                  \
    X(RELU6, "relu6")                                                                              \
    X(HARD_SIGMOID, "hard_sigmoid")                                                                \
    X(SOFTSIGN, "softsign")                                                                        \
    X(HARD_SILU, "hard_silu")                                                                      \
    X(HARD_TANH, "hard_tanh")                                                                      \
    X(HARD_SHRINK, "hard_shrink")                                                                  \
    X(SOFT_SHRINK, "soft_shrink")                                                                  \
    X(TANH_SHRINK, "tanh_shrink")                                                                  \
    X(MISH, "mish")                                                                                \
    X(CELU, "celu")                                                                                \
    X(LOG_SIGMOID, "log_sigmoid")                                                                  \
    X(SQUAREPLUS, "squareplus")                                                                    \
    X(SPARSE_PLUS, "sparse_plus")                                                                  \
    X(SPARSE_SIGMOID, "sparse_sigmoid")                                                            \
    X(HARD_SIGMOID_KERAS2, "hard_sigmoid_keras2")

typedef enum td_activation {
#define TD_ACTIVATION_MEMBER(name, text) TD_ACTIVATION_##name,
    TD_ACTIVATION_LIST(TD_ACTIVATION_MEMBER)
#undef TD_ACTIVATION_MEMBER
        TD_ACTIVATION_COUNT,
#define TD_ACTIVATION_SHORT(name, text) TD_##name = TD_ACTIVATION_##name, /* the short name */
    TD_ACTIVATION_LIST(TD_ACTIVATION_SHORT)
#undef TD_ACTIVATION_SHORT
} td_activation;

/* "relu"; NULL for a value that is no activation. */
TD_API const char *td_activation_name(td_activation activation);
TD_API TD_NODISCARD td_status td_activation_find(const char *name, td_activation *activation,
                                                 td_error *error);
/* alpha: slope of leaky_relu (TD_DEFAULT: Keras's 0.2), scale of elu (1). Softmax and log_softmax go
 * over the last axis. */
TD_API td_tensor *td_activate(td_tape *tape, td_tensor *x, td_activation activation,
                              td_number alpha);
TD_API td_tensor *td_relu(td_tape *tape, td_tensor *x);
TD_API td_tensor *td_sigmoid(td_tape *tape, td_tensor *x);
TD_API td_tensor *td_tanh(td_tape *tape, td_tensor *x);
TD_API td_tensor *td_softmax(td_tape *tape, td_tensor *x, int32_t axis);
TD_API td_tensor *td_log_softmax(td_tape *tape, td_tensor *x, int32_t axis);

/* Products. a: (…, m, k), b: (…, k, n), batch dimensions broadcast. */
typedef struct td_matmul_options {
    size_t size;
    bool transpose_a, transpose_b; /* of the last two axes */
} td_matmul_options;
TD_API td_tensor *td_matmul(td_tape *tape, td_tensor *a, td_tensor *b,
                            const td_matmul_options *options);
/* activation(x @ kernel + bias) over the last axis of x; x: (…, in), kernel: (in, out), bias:
 * (out,) or NULL. Activations other than softmax and log_softmax. */
TD_API td_tensor *td_dense(td_tape *tape, td_tensor *x, td_tensor *kernel, td_tensor *bias,
                           td_activation activation);

/* Reductions over the given axes (count 0: all). Mean of nothing is an error. */
typedef struct td_reduce_options {
    size_t size;
    int32_t count;
    int32_t axes[TD_MAX_RANK];
    bool keep; /* keep reduced axes with size 1 */
} td_reduce_options;
TD_API td_tensor *td_sum(td_tape *tape, td_tensor *x, const td_reduce_options *options);
TD_API td_tensor *td_mean(td_tape *tape, td_tensor *x, const td_reduce_options *options);
/* The gradient goes to all elements that equal the extreme, in equal parts, as in TensorFlow. */
TD_API td_tensor *td_max(td_tape *tape, td_tensor *x, const td_reduce_options *options);
TD_API td_tensor *td_min(td_tape *tape, td_tensor *x, const td_reduce_options *options);

/* Shapes. reshape: one dimension may be -1; the result shares memory with x. */
TD_API td_tensor *td_reshape(td_tape *tape, td_tensor *x, td_shape shape);
TD_API td_tensor *td_transpose(td_tape *tape, td_tensor *x, const int32_t *permutation);
TD_API td_tensor *td_concatenate(td_tape *tape, size_t count, td_tensor *const parts[],
                                 int32_t axis);
/* begin and size per axis; size -1: to the end. */
TD_API td_tensor *td_slice(td_tape *tape, td_tensor *x, const int64_t *begin, const int64_t *size);
/* before and after per axis, filled with value. */
TD_API td_tensor *td_pad(td_tape *tape, td_tensor *x, const int64_t *before, const int64_t *after,
                         float value);

typedef enum td_padding { TD_PADDING_VALID, TD_PADDING_SAME, TD_PADDING_CAUSAL } td_padding;

/* Zero means default: stride 1, dilation 1, one group, valid. */
typedef struct td_conv_options {
    size_t size;
    int64_t stride[2]; /* height, width; conv1d uses [0] */
    int64_t dilation[2];
    int64_t groups;
    td_padding padding;
    /* conv2d_transpose: with {TD_SET(0), TD_SET(0)} the output is smaller than without one; an axis
     * that is left out beside one that is set has 0 */
    td_number output_padding[2];
    td_activation activation; /* not softmax, log_softmax */
} td_conv_options;
/* x: (batch, steps, in), kernel: (size, in / groups, out), bias: (out,) or NULL */
TD_API td_tensor *td_conv1d(td_tape *tape, td_tensor *x, td_tensor *kernel, td_tensor *bias,
                            const td_conv_options *options);
/* x: (batch, height, width, in), kernel: (height, width, in / groups, out), bias: (out,) or NULL */
TD_API td_tensor *td_conv2d(td_tape *tape, td_tensor *x, td_tensor *kernel, td_tensor *bias,
                            const td_conv_options *options);
/* x: (batch, height, width, in), kernel: (height, width, out / groups, in), as Keras stores
 * it */
TD_API td_tensor *td_conv2d_transpose(td_tape *tape, td_tensor *x, td_tensor *kernel,
                                      td_tensor *bias, const td_conv_options *options);

/* Zero means default: window 2x2, stride as the window, valid. */
typedef struct td_pool_options {
    size_t size;
    int64_t window[2];
    int64_t stride[2];
    td_padding padding;
} td_pool_options;
TD_API td_tensor *td_max_pool2d(td_tape *tape, td_tensor *x, const td_pool_options *options);
/* Padding does not count towards the average, as in TensorFlow. */
TD_API td_tensor *td_average_pool2d(td_tape *tape, td_tensor *x, const td_pool_options *options);
/* (batch, height, width, channels) -> (batch, channels) */
TD_API td_tensor *td_global_average_pool2d(td_tape *tape, td_tensor *x);
TD_API td_tensor *td_global_max_pool2d(td_tape *tape, td_tensor *x);

typedef enum td_interpolation {
    TD_INTERPOLATION_NEAREST,
    TD_INTERPOLATION_BILINEAR,
    /* Short names. */
    TD_NEAREST = TD_INTERPOLATION_NEAREST,
    TD_BILINEAR = TD_INTERPOLATION_BILINEAR
} td_interpolation;
TD_API td_tensor *td_up_sampling2d(td_tape *tape, td_tensor *x, const int64_t factor[2],
                                   td_interpolation interpolation);

/* Over all axes but the last. In training (td_tape_set_training) the batch's mean and variance are
 * used and moving_mean and moving_variance (heap tensors) move by 1 - momentum; otherwise those are
 * used. gamma and beta may be NULL. */
typedef struct td_batch_normalization_options {
    size_t size;
    td_number momentum; /* 0.99 */
    td_number epsilon;  /* 1e-3 */
    bool sync; /* mean and variance of the whole batch, where a trainer cuts it into shards */
} td_batch_normalization_options;
TD_API td_tensor *td_batch_normalization(td_tape *tape, td_tensor *x, td_tensor *gamma,
                                         td_tensor *beta, td_tensor *moving_mean,
                                         td_tensor *moving_variance,
                                         const td_batch_normalization_options *options);
/* Over the last axis. epsilon: 0 or more; Keras has 1e-3. gamma and beta may be NULL. */
TD_API td_tensor *td_layer_normalization(td_tape *tape, td_tensor *x, td_tensor *gamma,
                                         td_tensor *beta, float epsilon);
/* In training, zeroes a share of the elements and scales the rest by 1 / (1 - rate). */
TD_API td_tensor *td_dropout(td_tape *tape, td_tensor *x, float rate);
/* In training, adds random numbers of mean 0 and this deviation. */
TD_API td_tensor *td_gaussian_noise(td_tape *tape, td_tensor *x, float stddev);
/* table: (vocabulary, width), indices: int32 or int64 of any shape -> (…, width) */
TD_API td_tensor *td_embedding(td_tape *tape, td_tensor *table, td_tensor *indices);

/* Recurrent layers over x: (batch, time, in). Result: (batch, units), the last output, or with
 * return_sequences (batch, time, units). kernel: (in, gates * units), recurrent_kernel:
 * (units, gates * units), bias: (gates * units,) or NULL; gates in Keras's order. */
typedef struct td_recurrent_options {
    size_t size;
    bool return_sequences;
    bool go_backwards;
    td_number activation;           /* a td_activation: tanh */
    td_number recurrent_activation; /* a td_activation: sigmoid */
    td_tensor *initial_state;       /* (batch, units), NULL: zeros */
    td_tensor *initial_cell;        /* lstm */
    td_tensor *mask; /* (batch, time), NULL: all 1; at a 0 state and output stay as they were */
    td_tensor *state_scale; /* (batch, units), NULL: all 1; of the state as products read it */
} td_recurrent_options;
TD_API td_tensor *td_simple_rnn(td_tape *tape, td_tensor *x, td_tensor *kernel,
                                td_tensor *recurrent_kernel, td_tensor *bias,
                                const td_recurrent_options *options);
/* Gates i, f, c, o. */
TD_API td_tensor *td_lstm(td_tape *tape, td_tensor *x, td_tensor *kernel,
                          td_tensor *recurrent_kernel, td_tensor *bias,
                          const td_recurrent_options *options);
/* Gates z, r, h. A bias of shape (2, 3 * units) means reset_after (Keras's default), one of
 * (3 * units,) means reset before; without a bias, reset_after decides. */
TD_API td_tensor *td_gru(td_tape *tape, td_tensor *x, td_tensor *kernel,
                         td_tensor *recurrent_kernel, td_tensor *bias, bool reset_after,
                         const td_recurrent_options *options);

/* softmax(scale * q k^T + mask) v over the last two axes; q: (…, t, d), k: (…, s, d), v: (…, s, e).
 * scale: 1 / sqrt(d). mask: (t, s) or broadcastable, added to the scores, or NULL. causal:
 * position i sees positions <= i. */
typedef struct td_attention_options {
    size_t size;
    td_number scale;
    td_tensor *mask;
    bool causal;
} td_attention_options;
TD_API td_tensor *td_attention(td_tape *tape, td_tensor *q, td_tensor *k, td_tensor *v,
                               const td_attention_options *options);

#ifdef __cplusplus
}
#endif
#endif
