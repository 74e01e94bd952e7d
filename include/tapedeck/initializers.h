/* Initialisers: the values that parameters start with. Names and equations are Keras's. */
#ifndef TAPEDECK_INITIALIZERS_H
#define TAPEDECK_INITIALIZERS_H

#include "tapedeck/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Values are part of the binary interface: only ever append. */
#define TD_INITIALIZER_LIST(X)                                                                     \
    X(GLOROT_UNIFORM, "glorot_uniform")                                                            \
    X(GLOROT_NORMAL, "glorot_normal")                                                              \
    X(HE_UNIFORM, "he_uniform")                                                                    \
    X(HE_NORMAL, "he_normal")                                                                      \
    X(LECUN_UNIFORM, "lecun_uniform")                                                              \
    X(LECUN_NORMAL, "lecun_normal")                                                                \
    X(ORTHOGONAL, "orthogonal")                                                                    \
    X(ZEROS, "zeros")                                                                              \
    X(ONES, "ones")                                                                                \
    X(RANDOM_UNIFORM, "random_uniform")     /* in [minval, maxval) */                              \
    X(RANDOM_NORMAL, "random_normal")       /* mean, stddev */                                     \
    X(TRUNCATED_NORMAL, "truncated_normal") /* the same, redrawn beyond two deviations */          \
    X(VARIANCE_SCALING, "variance_scaling") /* of variance scale / fan */                          \
    X(CONSTANT, "constant")                                                                        \
    X(IDENTITY, "identity") /* gain on the diagonal of a matrix */

typedef enum td_initializer_kind {
    TD_INITIALIZER_DEFAULT, /* the layer's own */
#define TD_INITIALIZER_MEMBER(name, text) TD_INITIALIZER_##name,
    TD_INITIALIZER_LIST(TD_INITIALIZER_MEMBER)
#undef TD_INITIALIZER_MEMBER
        TD_INITIALIZER_COUNT,
#define TD_INITIALIZER_SHORT(name, text) TD_##name = TD_INITIALIZER_##name, /* the short name */
    TD_INITIALIZER_LIST(TD_INITIALIZER_SHORT)
#undef TD_INITIALIZER_SHORT
} td_initializer_kind;

typedef enum td_fan { TD_FAN_IN, TD_FAN_OUT, TD_FAN_AVG } td_fan;
typedef enum td_distribution {
    TD_DISTRIBUTION_TRUNCATED_NORMAL,
    TD_DISTRIBUTION_UNTRUNCATED_NORMAL,
    TD_DISTRIBUTION_UNIFORM
} td_distribution;

/* .kernel_initializer = {.kind = TD_RANDOM_NORMAL, .stddev = TD_SET(0.02)} */
typedef struct td_initializer {
    td_initializer_kind kind;
    td_fan mode;                  /* variance_scaling */
    td_distribution distribution; /* variance_scaling */
    double mean;                  /* random_normal, truncated_normal */
    td_number stddev;             /* likewise: 0.05 */
    td_number minval, maxval;     /* random_uniform: -0.05, 0.05 */
    td_number scale;              /* variance_scaling: 1 */
    td_number gain;               /* orthogonal, identity: 1 */
    double value;                 /* constant */
    td_number
        seed; /* a whole number: of all that are random, instead of the model's and the name */
} td_initializer;

/* "he_normal"; NULL for a value that is no kind. */
TD_API const char *td_initializer_kind_name(td_initializer_kind kind);

#ifdef __cplusplus
}
#endif
#endif
