/* What a kind of layer is to those who do not run it: its role in a network, what it does with
 * features, and how Keras and PyTorch have it. Plain data: readers and writers of files work by it.
 */
#ifndef TAPEDECK_NN_KIND_H
#define TAPEDECK_NN_KIND_H

#include "base/memory.h"
#include "nn/field.h"

/* What a layer is for. 0 is no role: every kind has one. */
typedef enum td__layer_role {
    TD__ROLE_LINEAR = 1, /* weights times what it reads: dense layers and convolutions */
    TD__ROLE_LOOKUP,     /* rows of a table */
    TD__ROLE_RECURRENT,
    TD__ROLE_ATTENTION,
    TD__ROLE_NORMALIZATION,
    TD__ROLE_ACTIVATION,
    TD__ROLE_SCALING, /* by numbers that are not learned */
    TD__ROLE_DROPOUT, /* sets elements to 0 in training */
    TD__ROLE_NOISE,   /* changes elements in training in another way */
    TD__ROLE_POOL,
    TD__ROLE_SHAPE, /* moves, repeats or leaves out elements, or puts zeros beside them */
    TD__ROLE_MERGE, /* several inputs, element by element */
    TD__ROLE_JOIN,  /* several inputs in another way */
    TD__ROLE_WRAPPER,
    TD__ROLE_INPUT,
    TD__ROLE_CUSTOM, /* what it does is not known here; its type has the name */
} td__layer_role;

/* What becomes of the features on the last axis. 0 is no answer: every kind has one. */
typedef enum td__layer_features {
    TD__FEATURES_KEPT = 1,  /* each stays where it is */
    TD__FEATURES_GROUPED,   /* likewise, by means of neighbours */
    TD__FEATURES_MIXED,     /* each is made of all of them */
    TD__FEATURES_FLATTENED, /* places and channels become one axis */
    TD__FEATURES_RESHAPED,
    TD__FEATURES_JOINED, /* those of several inputs, one after the other */
    TD__FEATURES_OTHER,
} td__layer_features;

/* What the mask of its output is made from. */
typedef enum td__mask_source {
    TD__MASK_OF_FIRST,   /* that of its first input */
    TD__MASK_OF_QUERY,   /* likewise, as a tensor of its own in Keras */
    TD__MASK_OF_ALL,     /* those of all inputs; there is one only where all have one */
    TD__MASK_JOINED,     /* those of all inputs, one after the other */
    TD__MASK_OF_INDICES, /* its input: 0 does not count */
    TD__MASK_OF_STEPS,   /* its input: a step that has one value everywhere does not count */
} td__mask_source;

/* --- PyTorch ------------------------------------------------------------------------------- */

enum { TD__TORCH_MAX_AXES = 5 };

/* How a tensor LAYER.from of PyTorch's becomes (a part of) the parameter LAYER.to. */
typedef struct td__torch_weight {
    const char *from, *to;
    int32_t rank;                    /* of PyTorch's; ours has adjacent axes merged to as many */
    int8_t axes[TD__TORCH_MAX_AXES]; /* PyTorch's axis for each of ours */
    bool merge_first;                /* the first of our axes, instead of the last */
    int8_t part, parts; /* of PyTorch's first axis: which of how many; parts 0: all of it */
    int8_t row, rows;   /* of our first axis, likewise */
    bool add;           /* to what an earlier row put there */
    bool gates;         /* in the order r, z, n there, and z, r, n here */
} td__torch_weight;

typedef struct td__torch_side {
    const char *name; /* "nn.Linear"; "": PyTorch has nothing like it */
    const td__torch_weight *weights;
    size_t weight_count;
    bool channels_first; /* a sequence that it reads is (batch, channel, step) there */
} td__torch_side;

#define TD__TORCH_VECTOR(from_, to_, ...)                                                          \
    { .from = (from_), .to = (to_), .rank = 1, __VA_ARGS__ }
#define TD__TORCH_MATRIX(from_, to_, ...)                                                          \
    { .from = (from_), .to = (to_), .rank = 2, .axes = {1, 0}, __VA_ARGS__ }
/* A kernel (out, in, …) or, transposed, (in, out, …). */
#define TD__TORCH_KERNEL(rank_, ...)                                                               \
    {                                                                                              \
        .from = "weight", .to = "kernel", .rank = (rank_), .axes = { __VA_ARGS__ }                 \
    }

/* --- Keras --------------------------------------------------------------------------------- */

/* What an option of Keras's is to us. */
typedef enum td__keras_meaning {
    TD__KERAS_IGNORED, /* of no consequence for the numbers of a model that has its weights */
    TD__KERAS_ABSENT,  /* likewise, and its class takes no such argument */
    TD__KERAS_NUMBER,
    TD__KERAS_NUMBERS,
    TD__KERAS_SWITCH,
    TD__KERAS_PADDING,
    TD__KERAS_INTERPOLATION,
    TD__KERAS_MERGE,       /* a merge mode that puts out one tensor */
    TD__KERAS_BATCH_SHAPE, /* a shape with the batch in front, [null, 1, 1, 64]; ours is without it */
    TD__KERAS_BORDERS,     /* of each axis before and after; ours: the first one's setting */
    TD__KERAS_ACTIVATION,
    TD__KERAS_INITIALIZER,   /* ours if we have it; else the layer's own */
    TD__KERAS_REGULARIZER,   /* ours + "_l1" and "_l2" */
    TD__KERAS_AXIS,          /* a number; not the batch's */
    TD__KERAS_LAST_AXIS,     /* must be the last one */
    TD__KERAS_CHANNELS_LAST, /* must be "channels_last" */
    TD__KERAS_ONE,           /* must be 1, or [1] */
    TD__KERAS_WORD,          /* passed on as it is */
} td__keras_meaning;

typedef struct td__keras_option {
    const char *key;
    td__keras_meaning meaning;
    const char *ours; /* the setting's key */
} td__keras_option;

/* Where a layer's weights stand, in the group of the layer. 0 is no answer: every kind has one. */
typedef enum td__keras_storage {
    TD__KERAS_VARS = 1,  /* vars/0, vars/1, … */
    TD__KERAS_COUNTED,   /* likewise, and last of how many examples they are */
    TD__KERAS_CELL,      /* cell/vars/0, … */
    TD__KERAS_WRAPPED,   /* layer/vars/0, or layer/cell/vars/0 */
    TD__KERAS_BOTH,      /* forward_layer/cell/vars/0, …, then backward_layer/cell/vars/0, … */
    TD__KERAS_ATTENTION, /* query_dense/vars/0 (kernel), query_dense/vars/1 (bias), key_dense/… */
    TD__KERAS_NOWHERE,   /* it is not read or written as a layer */
} td__keras_storage;

typedef struct td__keras_side {
    td__keras_storage storage;
    const td__keras_option *options;
    size_t option_count;
} td__keras_side;

/* Rows that tables of options share. */
#define TD__KERAS_BIAS_ROWS                                                                        \
    {"use_bias", TD__KERAS_SWITCH, "use_bias"},                                                    \
        {"bias_initializer", TD__KERAS_INITIALIZER, "bias_initializer"}, {                         \
        "bias_regularizer", TD__KERAS_REGULARIZER, "bias"                                          \
    }
#define TD__KERAS_KERNEL_AND_BIAS                                                                  \
    {"kernel_initializer", TD__KERAS_INITIALIZER, "kernel_initializer"},                           \
        {"kernel_regularizer", TD__KERAS_REGULARIZER, "kernel"}, TD__KERAS_BIAS_ROWS
#define TD__KERAS_WINDOW                                                                           \
    {"kernel_size", TD__KERAS_NUMBERS, "kernel"}, {"strides", TD__KERAS_NUMBERS, "stride"},        \
        {"dilation_rate", TD__KERAS_NUMBERS, "dilation"},                                          \
        {"padding", TD__KERAS_PADDING, "padding"}, {                                               \
        "activation", TD__KERAS_ACTIVATION, "activation"                                           \
    }
#define TD__KERAS_CONVOLUTION                                                                      \
    {"filters", TD__KERAS_NUMBER, "filters"}, {"groups", TD__KERAS_NUMBER, "groups"},              \
        TD__KERAS_WINDOW, TD__KERAS_KERNEL_AND_BIAS

/* --- a kind --------------------------------------------------------------------------------- */

typedef struct td__layer td__layer;
struct td__operators;

/* Something that can be asked about a layer right after its forward pass: LAYER.WORD, a signal that is recorded
 * on request. Its rows are the batch's examples; a tensor of more than two axes has channels before height
 * and width. NULL: there is nothing, or memory is exhausted. */
typedef struct td__layer_view {
    const char *word;
    void (*announce)(
        td_tape *tape); /* before a forward pass after which it is computed; NULL: nothing */
    td_tensor *(*compute)(const td__layer *layer, td_tape *tape);
} td__layer_view;

typedef struct td__layer_kind {
    const td__field *fields; /* beginning with TD__LAYER_FIELDS */
    size_t field_count;
    size_t size;               /* of the option struct */
    const char *automatic;     /* first automatic name; NULL: the kind's name */
    size_t min_from, max_from; /* how many layers it reads */
    bool has_activation;       /* plan sets layer->activation */
    bool integer_input;        /* reads indices */
    const char *index_count;   /* the option that says how many there are; NULL: none */
    td__layer_role role;
    td__layer_features features;
    td__torch_side torch;
    td__keras_side keras;
    td_activation acts_as; /* where no setting says its activation */
    uint8_t unit_axis;     /* of its kernel, from the last, 1; 0: it has no units */
    td_status (*plan)(td__layer *layer, const td_shape *inputs, td_error *error);
    td_tensor *(*forward)(td__layer *layer, td_tape *tape, td_tensor *const *inputs);
    /* The layer as operators (operators.h), but for its activation: the name of its output.
     * shapes: of one example of each input. NULL: there are none. */
    const char *(*operators)(const td__layer *layer, struct td__operators *to,
                             const char *const *inputs, const td_shape *shapes);
    /* The mask of its output, from those of its inputs in layer->masks; NULL: it has none. Runs after
     * forward. */
    td_tensor *(*mask)(td__layer *layer, td_tape *tape, td_tensor *const *inputs);
    /* Whether its output has a mask, where any of its inputs has; NULL: it has then, with `mask`. */
    bool (*has_mask)(const td__layer *layer, bool any);
    td__mask_source mask_from;
    bool reads_mask;                               /* forward heeds the masks of its inputs */
    bool wraps;                                    /* another layer: layer->inner */
    size_t (*parameter_room)(const void *options); /* NULL: TD__LAYER_MAX_PARAMETERS are enough */
    const td__layer_view *views;                   /* NULL: none */
    size_t view_count;
    void (*release)(void *options); /* what the options own; may be NULL */
} td__layer_kind;

/* Every kind is defined in a file of layers/. */
#define TD__DECLARE_KIND(member, word, keras, options)                                             \
    extern const td__layer_kind td__##word##_kind;
TD_LAYER_LIST(TD__DECLARE_KIND)
#undef TD__DECLARE_KIND
/* NULL for a value that is no kind. */
const td__layer_kind *td__layer_kind_of(td_layer_kind kind);
bool td__layer_has_option(const td__layer_kind *kind, const char *key);
/* The option of layers that may compute over all parts of a batch: true or false. */
#define TD__SYNC "sync"
/* NULL: it has no such setting. */
const td_value *td__layer_setting(const td_layer_info *layer, const char *key);
/* The option that has its activation. */
const char *td__layer_activation_key(const td__layer_kind *kind);
td_activation td__layer_activation(const td_layer_info *layer);

/* --- what every kind says ------------------------------------------------------------------ */

#define TD__IS(role_, features_) .role = TD__ROLE_##role_, .features = TD__FEATURES_##features_
#define TD__TORCH(name_) .torch = {.name = (name_)}
#define TD__TORCH_WITH(name_, weights_)                                                            \
    .torch = {.name = (name_), .weights = (weights_), .weight_count = TD__COUNT(weights_)}
#define TD__KERAS(options_, storage_)                                                              \
    .keras = {TD__KERAS_##storage_, (options_), TD__COUNT(options_)}
#define TD__KERAS_PLAIN .keras = {.storage = TD__KERAS_VARS}

#endif
