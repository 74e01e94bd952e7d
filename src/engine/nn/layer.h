/* What a layer and a kind of layer are inside.
 *
 * A kind is a row of tables and two functions; kind.h has what the tables say to other modules. `plan` runs once, when a layer is added: it settles
 * options that follow from others, checks the input shapes, and gives the output shape and the
 * parameters. `forward` runs in every step and calls operations; its parameters are in layer->slot.
 *
 * A mask says which steps of a sequence count: 1 or 0 for each, of the output's shape without its
 * last axis. It runs beside the outputs through the kinds that have a `mask` function.
 */
#ifndef TAPEDECK_NN_LAYER_H
#define TAPEDECK_NN_LAYER_H

#include "nn/kind.h"
#include "tape/op.h"

#define TD__LAYER_MAX_PARAMETERS 8

/* A parameter to be made by td_model_build. */
typedef struct td__parameter_plan {
    const char *name; /* "kernel" */
    int slot;
    td_shape shape;
    int64_t count; /* of elements */
    td_initializer initializer;
    const float *values;          /* initial ones, borrowed until then; NULL: the initialiser's */
    int64_t ones_begin, ones_end; /* elements that start at 1 whatever the initialiser */
    double l1, l2;
    bool moving_average;
} td__parameter_plan;

struct td__layer {
    td_layer_info info;
    const td__layer_kind *kind;
    void *options;     /* the kind's struct, settled */
    char *texts;       /* the six below in one block */
    const char *where; /* "layer 'conv1' (conv2d): " */
    const char *label; /* "layer 'conv1'" */
    const char *output_name, *preactivation_name;
    const char *error_name; /* of the gradient of the output */
    td_setting *settings;
    int32_t inputs[TD_MAX_FROM];
    td__parameter_plan *parameters;
    td_activation activation; /* LINEAR for kinds that cannot fuse one */
    td_activation fused;      /* what forward applies itself; the model applies the rest */
    bool keep_preactivation;
    td_tensor **slot;   /* NULL: left out; as many as parameters have room */
    bool integer_input; /* reads indices */
    bool masked;        /* its output has a mask */
    td__layer *inner;   /* what a wrapper wraps; never in a model by itself */

    /* Of the last forward pass. */
    td_tensor *output, *preactivation;
    td_tensor *mask;               /* NULL: all steps count */
    td_tensor *masks[TD_MAX_FROM]; /* of its inputs, while it runs */
};

/* Fills error with the layer's name in front; returns status. */
td_status td__layer_error(const td__layer *layer, td_error *error, td_status status,
                          const char *format, ...) TD_PRINTF(4, 5);
/* TD_BAD_SHAPE unless the input has this rank (of one example). */
td_status td__layer_need_rank(const td__layer *layer, const td_shape *input, int32_t rank,
                              const char *meaning, td_error *error);
/* TD_BAD_SHAPE unless the last dimension is known; *size gets it. */
td_status td__layer_need_last(const td__layer *layer, const td_shape *input, int64_t *size,
                              td_error *error);
/* Plans a parameter, to be in layer->slot[slot]. */
td__parameter_plan *td__layer_parameter(td__layer *layer, int slot, const char *name,
                                        td_shape shape, td_initializer initializer, double l1,
                                        double l2);

/* --- masks (layers/masking.c) -------------------------------------------------------------- */

/* Passes on the mask of the first input. */
td_tensor *td__mask_pass(td__layer *layer, td_tape *tape, td_tensor *const *inputs);
/* A mask of x's shape without its last axis; values not set, no gradient. */
td_tensor *td__mask_create(td_tape *tape, const td_tensor *x);
/* x times the mask, which is broadcast over the axes that it lacks. */
td_tensor *td__mask_apply(td_tape *tape, td_tensor *x, td_tensor *mask);

/* --- initialisers (initializer.c) --------------------------------------------------------- */

/* Values depend on seed, the tensor's name and shape alone; on the initialiser's seed and the shape
 * where it has one. TD_MEMORY when memory is exhausted. */
td_status td__initialize(td_tensor *tensor, const td_initializer *initializer, uint64_t seed,
                         td_error *error);

/* --- what every kind says ------------------------------------------------------------------ */

#define TD__KIND(rows, struct_type, plan_function, forward_function)                               \
    .fields = (rows), .field_count = TD__COUNT(rows), .size = sizeof(struct_type),                 \
    .plan = (plan_function), .forward = (forward_function)
/* One that reads one layer. */
#define TD__KIND_OF_ONE(rows, struct_type, plan_function, forward_function)                        \
    TD__KIND(rows, struct_type, plan_function, forward_function), .min_from = 1, .max_from = 1

/* --- rows that field tables share --------------------------------------------------------- */

#define TD__LAYER_FIELDS                                                                           \
    TD__FIELD(TEXT, td_plain_layer, name), TD__FIELD(TEXTS, td_plain_layer, from, .quiet = true),  \
        TD__FIELD(BOOL, td_plain_layer, frozen, .quiet = true)

#define TD__TRIPLE(struct_type, member, another_key, default_value, min)                           \
    TD__FIELD(TRIPLE, struct_type, member, .alias = another_key, .by_default = default_value,      \
              .minimum = min)
#define TD__INTEGER(struct_type, member, another_key, default_value, min)                          \
    TD__FIELD(INTEGER, struct_type, member, .alias = another_key, .by_default = default_value,     \
              .minimum = min)
#define TD__PAIR(struct_type, member, another_key, default_value, min)                             \
    TD__FIELD(PAIR, struct_type, member, .alias = another_key, .by_default = default_value,        \
              .minimum = min)
/* A td_number. */
#define TD__NUMBER(struct_type, member, default_value)                                             \
    TD__FIELD(NUMBER, struct_type, member, .by_default = default_value, .number = true)
/* A double whose default is 0. */
#define TD__AMOUNT(struct_type, member) TD__FIELD(NUMBER, struct_type, member)
/* A share that is dropped in training, or a penalty; not written when there is none. */
#define TD__RATE(struct_type, member) TD__FIELD(NUMBER, struct_type, member, .quiet = true)
#define TD__BOOL(struct_type, member) TD__FIELD(BOOL, struct_type, member)
#define TD__NOT(struct_type, member, opposite) TD__FIELD_CALLED(NOT, struct_type, member, opposite)
#define TD__WORD(struct_type, member, word_list, default_value)                                    \
    TD__FIELD(WORD, struct_type, member, .by_default = default_value, .words = &(word_list))
#define TD__INITIALIZER(struct_type, member, default_value)                                        \
    TD__FIELD(INITIALIZER, struct_type, member, .by_default = default_value)
/* Not written while it is the default. */
#define TD__QUIET_INITIALIZER(struct_type, member, default_value)                                  \
    TD__FIELD(INITIALIZER, struct_type, member, .by_default = default_value, .quiet = true)
#define TD__PADDING(struct_type) TD__WORD(struct_type, padding, td__padding_words, TD_PADDING_VALID)
/* Of convolutions: NUMBERS is TD__INTEGER, TD__PAIR or TD__TRIPLE. */
#define TD__CONVOLUTION_SIZES(struct_type, NUMBERS)                                                \
    TD__INTEGER(struct_type, filters, NULL, 0, 1),                                                 \
        NUMBERS(struct_type, kernel, "kernel_size", 0, 1),                                         \
        NUMBERS(struct_type, stride, "strides", 1, 1),                                             \
        NUMBERS(struct_type, dilation, "dilation_rate", 1, 1)
#define TD__CONVOLUTION_REST(struct_type)                                                          \
    TD__INTEGER(struct_type, groups, NULL, 1, 1), TD__PADDING(struct_type),                        \
        TD__WORD(struct_type, activation, td__activation_words, TD_LINEAR),                        \
        TD__NOT(struct_type, no_bias, "use_bias"),                                                 \
        TD__INITIALIZER(struct_type, kernel_initializer, TD_GLOROT_UNIFORM),                       \
        TD__INITIALIZER(struct_type, bias_initializer, TD_ZEROS), TD__REGULARIZERS(struct_type)
#define TD__REGULARIZERS(struct_type)                                                              \
    TD__RATE(struct_type, kernel_l1), TD__RATE(struct_type, kernel_l2),                            \
        TD__RATE(struct_type, bias_l1), TD__RATE(struct_type, bias_l2)

#endif
