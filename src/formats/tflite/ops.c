/* TensorFlow Lite's operators as those of ONNX. Images have the channels last in the file; what ONNX wants
 * otherwise is a Transpose, which costs nothing here. */
#include "tflite/ops.h"

enum { SAME = 0, VALID = 1 };

static int32_t rank_of(td__lite_call *call, size_t i) {
    const td__lite_tensor *x = td__lite_input(call, i);
    return x ? x->shape.rank : 0;
}

static const char *clip(td__operators *to, const char *x, double min, double max) {
    return TD__OPERATOR(to, "Clip", x, td__operator_number(to, min), td__operator_number(to, max));
}

/* ActivationFunctionType */
const char *td__lite_fused(td__lite_call *call, const char *x, unsigned field) {
    td__operators *to = call->to;
    switch (OPTION_BYTE(call, field)) {
    case 0:
        return x;
    case 1:
        return TD__OPERATOR(to, "Relu", x);
    case 2:
        return clip(to, x, -1, 1);
    case 3:
        return clip(to, x, 0, 6);
    case 4:
        return TD__OPERATOR(to, "Tanh", x);
    default:
        return td__operator_refuse(to, "a fused activation %d", OPTION_BYTE(call, field));
    }
}

/* --- element-wise ------------------------------------------------------------------------- */

static const char *unary(td__lite_call *call) {
    return TD__OPERATOR(call->to, call->row->word, td__lite_value(call, 0));
}

static const char *binary(td__lite_call *call) {
    return TD__OPERATOR(call->to, call->row->word, td__lite_value(call, 0),
                        td__lite_value(call, 1));
}

static const char *binary_fused(td__lite_call *call) {
    return td__lite_fused(call, binary(call), 0);
}

static const char *not_equal(td__lite_call *call) {
    return TD__OPERATOR(call->to, "Not", binary(call));
}

static const char *floor_div(td__lite_call *call) {
    return TD__OPERATOR(call->to, "Floor", binary(call));
}

static const char *squared_difference(td__lite_call *call) {
    const char *d = binary(call);
    return TD__OPERATOR(call->to, "Mul", d, d);
}

static const char *square(td__lite_call *call) {
    const char *x = td__lite_value(call, 0);
    return TD__OPERATOR(call->to, "Mul", x, x);
}

static const char *rsqrt(td__lite_call *call) {
    return TD__OPERATOR(call->to, "Reciprocal",
                        TD__OPERATOR(call->to, "Sqrt", td__lite_value(call, 0)));
}

static const char *relu6(td__lite_call *call) {
    return clip(call->to, td__lite_value(call, 0), 0, 6);
}
static const char *relu_n1_to_1(td__lite_call *call) {
    return clip(call->to, td__lite_value(call, 0), -1, 1);
}
static const char *relu_0_to_1(td__lite_call *call) {
    return clip(call->to, td__lite_value(call, 0), 0, 1);
}

static const char *leaky_relu(td__lite_call *call) {
    const char *x = td__lite_value(call, 0);
    td__attribute alpha = TD__NAMED_REAL("alpha", td__float_of((uint32_t)OPTION(call, 0, 0)));
    return td__operator(call->to, "LeakyRelu", 1, &x, 1, &alpha);
}

static const char *gelu(td__lite_call *call) {
    return td__operator_activation(call->to, td__lite_value(call, 0),
                                   OPTION_BYTE(call, 0) ? TD_GELU_TANH : TD_GELU, TD_DEFAULT);
}

static const char *select_value(td__lite_call *call) {
    return TD__OPERATOR(call->to, "Where", td__lite_value(call, 0), td__lite_value(call, 1),
                        td__lite_value(call, 2));
}

/* Numbers are what they stand for already; of a constant the output is that constant. */
static const char *pass(td__lite_call *call) {
    const td__lite_tensor *x = td__lite_input(call, 0);
    td__lite_tensor *y = td__lite_output(call, 0);
    if (x && y && x->data && !x->value && td_shape_equal(&x->shape, &y->shape)) {
        const char *name = y->name;
        *y = *x;
        y->name = name;
        return "";
    }
    return td__lite_value(call, 0);
}

static const char *cast(td__lite_call *call) {
    const td__lite_tensor *y = td__lite_output(call, 0);
    const char *x = td__lite_value(call, 0);
    bool real = !y || y->type == TD__LITE_FLOAT32 || y->type == TD__LITE_FLOAT16;
    td__attribute type = {.name = "to",
                          .type = TD__DTYPE,
                          .dtype = real                       ? TD_FLOAT32
                                   : y->type == TD__LITE_BOOL ? TD_BOOL
                                                              : TD_INT64};
    return td__operator(call->to, "Cast", 1, &x, 1, &type);
}

/* --- products ----------------------------------------------------------------------------- */

static size_t window(td__lite_call *call, int64_t *numbers, td__attribute *attributes) {
    numbers[0] = OPTION(call, 2, 1);
    numbers[1] = OPTION(call, 1, 1);
    attributes[0] = TD__NAMED_INTS("strides", numbers, 2);
    attributes[1] =
        TD__NAMED_TEXT("auto_pad", OPTION_BYTE(call, 0) == SAME ? "SAME_UPPER" : "VALID");
    return 2;
}

/* order: of the filter's axes as ONNX has them */
static const char *convolve(td__lite_call *call, const int *order, unsigned activation,
                            unsigned dilation) {
    const td__lite_tensor *x = td__lite_input(call, 0), *w = td__lite_input(call, 1);
    if (!x || !w || x->shape.rank != 4 || w->shape.rank != 4 || w->shape.dims[order[1]] < 1) {
        return td__operator_refuse(call->to, "an input that is no image");
    }
    int64_t numbers[4], channels = x->shape.dims[3];
    td__attribute attributes[4];
    size_t used = window(call, numbers, attributes);
    numbers[2] = OPTION(call, dilation + 1, 1);
    numbers[3] = OPTION(call, dilation, 1);
    attributes[used++] = TD__NAMED_INTS("dilations", numbers + 2, 2);
    attributes[used++] = TD__NAMED_INT("group", channels / w->shape.dims[order[1]]);
    const char *inputs[3] = {td__operator_channels_first(call->to, td__lite_value(call, 0), 2),
                             td__lite_turned(call, 1, order)};
    size_t count = 2;
    if (td__lite_input(call, 2)) {
        inputs[count++] = td__lite_value(call, 2);
    }
    const char *y = td__operator(call->to, "Conv", count, inputs, used, attributes);
    return td__lite_fused(call, td__operator_channels_last(call->to, y, 2), activation);
}

static const char *conv_2d(td__lite_call *call) {
    return convolve(call, (int[]){0, 3, 1, 2}, 3, 4);
}

static const char *depthwise_conv_2d(td__lite_call *call) {
    return convolve(call, (int[]){3, 0, 1, 2}, 4, 5);
}

/* Inputs are the shape of the output, the filter, the images and perhaps a bias. */
static const char *transpose_conv(td__lite_call *call) {
    td__lite_tensor *x = td__lite_input(call, 2), *w = td__lite_input(call, 1);
    const td__lite_tensor *y = td__lite_output(call, 0);
    if (!x || !w || !y || x->shape.rank != 4 || w->shape.rank != 4 || y->shape.rank != 4) {
        return td__operator_refuse(call->to, "an input that is no image");
    }
    int64_t strides[2] = {OPTION(call, 2, 1), OPTION(call, 1, 1)}, pads[4], more[2];
    for (int i = 0; i < 2; i++) {
        int64_t in = x->shape.dims[i + 1], out = y->shape.dims[i + 1], k = w->shape.dims[i + 1];
        if (in < 1 || out < 1 || strides[i] < 1 || in > INT32_MAX || strides[i] > INT32_MAX) {
            return td__operator_refuse(call->to, "images of any size");
        }
        int64_t over = (in - 1) * strides[i] + k - out;
        over = OPTION_BYTE(call, 0) == VALID && over > 0 ? 0 : over;
        pads[i] = over > 0 ? over / 2 : 0;
        pads[i + 2] = over > 0 ? over - over / 2 : 0;
        more[i] = over < 0 ? -over : 0;
    }
    td__attribute attributes[3] = {TD__NAMED_INTS("strides", strides, 2),
                                   TD__NAMED_INTS("pads", pads, 4),
                                   TD__NAMED_INTS("output_padding", more, 2)};
    const char *inputs[3] = {td__operator_channels_first(call->to, td__lite_value(call, 2), 2),
                             td__lite_turned(call, 1, (int[]){3, 0, 1, 2})};
    size_t count = 2;
    if (td__lite_input(call, 3)) {
        inputs[count++] = td__lite_value(call, 3);
    }
    const char *made = td__operator(call->to, "ConvTranspose", count, inputs, 3, attributes);
    return td__lite_fused(call, td__operator_channels_last(call->to, made, 2), 3);
}

/* x W^T + b over the last axis, all before it taken for one unless they are kept. */
static const char *fully_connected(td__lite_call *call) {
    const td__lite_tensor *w = td__lite_input(call, 1);
    td__operators *to = call->to;
    const char *x = td__lite_value(call, 0);
    if (!w || w->shape.rank != 2 || OPTION_BYTE(call, 1)) {
        return td__operator_refuse(to, "weights in another order");
    }
    if (!OPTION_BYTE(call, 2) && rank_of(call, 0) != 2) {
        x = td__operator_reshape(to, x, 2, (int64_t[]){-1, w->shape.dims[1]});
    }
    const char *turned =
        w->data ? td__lite_turned(call, 1, (int[]){1, 0})
                : td__operator_transpose(to, td__lite_value(call, 1), 2, (int64_t[]){1, 0});
    const char *y = TD__OPERATOR(to, "MatMul", x, turned);
    if (td__lite_input(call, 2)) {
        y = TD__OPERATOR(to, "Add", y, td__lite_value(call, 2));
    }
    return td__lite_fused(call, y, 0);
}

/* With the last two axes of one turned where the options say so. */
static const char *batch_matmul(td__lite_call *call) {
    const char *x[2];
    for (size_t i = 0; i < 2; i++) {
        int64_t order[TD_MAX_RANK], rank = rank_of(call, i);
        x[i] = td__lite_value(call, i);
        for (int64_t k = 0; k < rank; k++) {
            order[k] = k < rank - 2 ? k : 2 * rank - 3 - k;
        }
        if (OPTION_BYTE(call, (unsigned)i) && rank >= 2) {
            x[i] = td__operator_transpose(call->to, x[i], (size_t)rank, order);
        }
    }
    return TD__OPERATOR(call->to, "MatMul", x[0], x[1]);
}

/* --- pools, resizing ---------------------------------------------------------------------- */

static const char *pool(td__lite_call *call) {
    int64_t numbers[4];
    td__attribute attributes[3];
    size_t used = window(call, numbers, attributes);
    numbers[2] = OPTION(call, 4, 1);
    numbers[3] = OPTION(call, 3, 1);
    attributes[used++] = TD__NAMED_INTS("kernel_shape", numbers + 2, 2);
    const char *x = td__operator_channels_first(call->to, td__lite_value(call, 0), 2);
    const char *y = td__operator(call->to, call->row->word, 1, &x, used, attributes);
    return td__lite_fused(call, td__operator_channels_last(call->to, y, 2), 5);
}

static const char *resize(td__lite_call *call, const char *mode, bool align, bool half) {
    td__operators *to = call->to;
    bool nearest = *mode == 'n';
    int64_t size[2];
    size_t count;
    if (!td__lite_integers(call, 1, size, 2, &count) || count != 2) {
        return td__operator_refuse(to, "a size that is not in the file");
    }
    const char *x = td__operator_channels_first(to, td__lite_value(call, 0), 2);
    const char *kept = TD__OPERATOR(to, "Slice", TD__OPERATOR(to, "Shape", x),
                                    td__operator_integers(to, 1, (int64_t[]){0}),
                                    td__operator_integers(to, 1, (int64_t[]){2}));
    const char *sizes[2] = {kept, td__operator_integers(to, 2, size)};
    const char *inputs[4] = {x, "", "",
                             td__operator(to, "Concat", 2, sizes, 1, &TD__NAMED_INT("axis", 0))};
    td__attribute attributes[3] = {
        TD__NAMED_TEXT("mode", mode),
        TD__NAMED_TEXT("coordinate_transformation_mode", align             ? "align_corners"
                                                         : half && nearest ? "tf_half_pixel_for_nn"
                                                         : half            ? "half_pixel"
                                                                           : "asymmetric"),
        TD__NAMED_TEXT("nearest_mode", align ? "round_prefer_ceil" : "floor")};
    const char *y = td__operator(to, "Resize", 4, inputs, nearest ? 3 : 2, attributes);
    return td__operator_channels_last(to, y, 2);
}

static const char *resize_bilinear(td__lite_call *call) {
    return resize(call, "linear", OPTION_BYTE(call, 2), OPTION_BYTE(call, 3));
}

static const char *resize_nearest(td__lite_call *call) {
    return resize(call, "nearest", OPTION_BYTE(call, 0), OPTION_BYTE(call, 1));
}

static const char *depth_and_space(td__lite_call *call) {
    const char *x = td__operator_channels_first(call->to, td__lite_value(call, 0), 2);
    const char *y = td__operator(call->to, call->row->word, 1, &x, 1,
                                 &TD__NAMED_INT("blocksize", OPTION(call, 0, 1)));
    return td__operator_channels_last(call->to, y, 2);
}

/* --- normalisation, reductions ------------------------------------------------------------ */

static const char *last_axis(td__lite_call *call, const char *x) {
    return td__operator(call->to, call->row->word, 1, &x, 1, &TD__NAMED_INT("axis", -1));
}

static const char *softmax(td__lite_call *call) {
    const char *x = td__lite_value(call, 0);
    float beta = td__float_of((uint32_t)OPTION(call, 0, 0x3f800000));
    x = beta != 1 ? TD__OPERATOR(call->to, "Mul", x, td__operator_number(call->to, (double)beta))
                  : x;
    return last_axis(call, x);
}

static const char *log_softmax(td__lite_call *call) {
    return last_axis(call, td__lite_value(call, 0));
}

static const char *l2_normalization(td__lite_call *call) {
    const char *x = td__lite_value(call, 0);
    int64_t last = -1;
    const char *norm =
        td__operator(call->to, "ReduceL2", 1, &x, 1, &TD__NAMED_INTS("axes", &last, 1));
    const char *floor = td__operator_number(call->to, 1e-6);
    return td__lite_fused(
        call, TD__OPERATOR(call->to, "Div", x, TD__OPERATOR(call->to, "Max", norm, floor)), 0);
}

static const char *convert_reduction(td__lite_call *call) {
    int64_t axes[TD_MAX_RANK];
    size_t count;
    if (!td__lite_integers(call, 1, axes, TD_MAX_RANK, &count)) {
        return NULL;
    }
    td__attribute attributes[2] = {TD__NAMED_INT("keepdims", OPTION_BYTE(call, 0)),
                                   TD__NAMED_INTS("axes", axes, count)};
    const char *inputs[2] = {td__lite_value(call, 0)};
    bool sum = !strcmp(call->row->word, "ReduceSum"); /* which has the axes as an input */
    inputs[1] = sum ? td__operator_integers(call->to, count, axes) : NULL;
    return td__operator(call->to, call->row->word, sum ? 2 : 1, inputs, sum ? 1 : 2, attributes);
}

static const char *extreme_place(td__lite_call *call) {
    int64_t axis = 0;
    size_t count;
    const char *x = td__lite_value(call, 0);
    if (!td__lite_integers(call, 1, &axis, 1, &count)) {
        return NULL;
    }
    td__attribute attributes[2] = {TD__NAMED_INT("keepdims", 0), TD__NAMED_INT("axis", axis)};
    return td__operator(call->to, call->row->word, 1, &x, 2, attributes);
}

/* --- the table ---------------------------------------------------------------------------- */

static const td__lite_operator operators[] = {
    [0] = {"ADD", binary_fused, "Add"},
    [1] = {"AVERAGE_POOL_2D", pool, "AveragePool"},
    [2] = {"CONCATENATION", td__lite_concatenation, NULL},
    [3] = {"CONV_2D", conv_2d, NULL},
    [4] = {"DEPTHWISE_CONV_2D", depthwise_conv_2d, NULL},
    [5] = {"DEPTH_TO_SPACE", depth_and_space, "DepthToSpace"},
    [6] = {"DEQUANTIZE", pass, NULL},
    [7] = {"EMBEDDING_LOOKUP", td__lite_embedding_lookup, NULL},
    [8] = {"FLOOR", unary, "Floor"},
    [9] = {"FULLY_CONNECTED", fully_connected, NULL},
    [10] = {.name = "HASHTABLE_LOOKUP"},
    [11] = {"L2_NORMALIZATION", l2_normalization, NULL},
    [12] = {.name = "L2_POOL_2D"},
    [13] = {.name = "LOCAL_RESPONSE_NORMALIZATION"},
    [14] = {"LOGISTIC", unary, "Sigmoid"},
    [15] = {.name = "LSH_PROJECTION"},
    [16] = {.name = "LSTM"},
    [17] = {"MAX_POOL_2D", pool, "MaxPool"},
    [18] = {"MUL", binary_fused, "Mul"},
    [19] = {"RELU", unary, "Relu"},
    [20] = {"RELU_N1_TO_1", relu_n1_to_1, NULL},
    [21] = {"RELU6", relu6, NULL},
    [22] = {"RESHAPE", td__lite_reshape, NULL},
    [23] = {"RESIZE_BILINEAR", resize_bilinear, NULL},
    [24] = {.name = "RNN"},
    [25] = {"SOFTMAX", softmax, "Softmax"},
    [26] = {"SPACE_TO_DEPTH", depth_and_space, "SpaceToDepth"},
    [27] = {.name = "SVDF"},
    [28] = {"TANH", unary, "Tanh"},
    [29] = {.name = "CONCAT_EMBEDDINGS"},
    [30] = {.name = "SKIP_GRAM"},
    [31] = {.name = "CALL"},
    [32] = {.name = "CUSTOM"},
    [33] = {.name = "EMBEDDING_LOOKUP_SPARSE"},
    [34] = {"PAD", td__lite_pad, NULL},
    [35] = {.name = "UNIDIRECTIONAL_SEQUENCE_RNN"},
    [36] = {"GATHER", td__lite_gather, NULL},
    [37] = {"BATCH_TO_SPACE_ND", td__lite_batch_to_space, NULL},
    [38] = {"SPACE_TO_BATCH_ND", td__lite_space_to_batch, NULL},
    [39] = {"TRANSPOSE", td__lite_transpose, NULL},
    [40] = {"MEAN", convert_reduction, "ReduceMean"},
    [41] = {"SUB", binary_fused, "Sub"},
    [42] = {"DIV", binary_fused, "Div"},
    [43] = {"SQUEEZE", td__lite_squeeze, NULL},
    [44] = {.name = "UNIDIRECTIONAL_SEQUENCE_LSTM"},
    [45] = {"STRIDED_SLICE", td__lite_strided_slice, NULL},
    [46] = {.name = "BIDIRECTIONAL_SEQUENCE_RNN"},
    [47] = {"EXP", unary, "Exp"},
    [48] = {.name = "TOPK_V2"},
    [49] = {"SPLIT", td__lite_split, NULL},
    [50] = {"LOG_SOFTMAX", log_softmax, "LogSoftmax"},
    [51] = {.name = "DELEGATE"},
    [52] = {.name = "BIDIRECTIONAL_SEQUENCE_LSTM"},
    [53] = {"CAST", cast, NULL},
    [54] = {"PRELU", binary, "PRelu"},
    [55] = {"MAXIMUM", binary, "Max"},
    [56] = {"ARG_MAX", extreme_place, "ArgMax"},
    [57] = {"MINIMUM", binary, "Min"},
    [58] = {"LESS", binary, "Less"},
    [59] = {"NEG", unary, "Neg"},
    [60] = {"PADV2", td__lite_pad, NULL},
    [61] = {"GREATER", binary, "Greater"},
    [62] = {"GREATER_EQUAL", binary, "GreaterOrEqual"},
    [63] = {"LESS_EQUAL", binary, "LessOrEqual"},
    [64] = {"SELECT", select_value, NULL},
    [65] = {"SLICE", td__lite_slice, NULL},
    [66] = {"SIN", unary, "Sin"},
    [67] = {"TRANSPOSE_CONV", transpose_conv, NULL},
    [68] = {.name = "SPARSE_TO_DENSE"},
    [69] = {"TILE", binary, "Tile"},
    [70] = {"EXPAND_DIMS", td__lite_expand_dims, NULL},
    [71] = {"EQUAL", binary, "Equal"},
    [72] = {"NOT_EQUAL", not_equal, "Equal"},
    [73] = {"LOG", unary, "Log"},
    [74] = {"SUM", convert_reduction, "ReduceSum"},
    [75] = {"SQRT", unary, "Sqrt"},
    [76] = {"RSQRT", rsqrt, NULL},
    [77] = {"SHAPE", unary, "Shape"},
    [78] = {"POW", binary, "Pow"},
    [79] = {"ARG_MIN", extreme_place, "ArgMin"},
    [80] = {.name = "FAKE_QUANT"},
    [81] = {"REDUCE_PROD", convert_reduction, "ReduceProd"},
    [82] = {"REDUCE_MAX", convert_reduction, "ReduceMax"},
    [83] = {"PACK", td__lite_pack, NULL},
    [84] = {"LOGICAL_OR", binary, "Or"},
    [85] = {.name = "ONE_HOT"},
    [86] = {"LOGICAL_AND", binary, "And"},
    [87] = {"LOGICAL_NOT", unary, "Not"},
    [88] = {"UNPACK", td__lite_unpack, NULL},
    [89] = {"REDUCE_MIN", convert_reduction, "ReduceMin"},
    [90] = {"FLOOR_DIV", floor_div, "Div"},
    [91] = {.name = "REDUCE_ANY"},
    [92] = {"SQUARE", square, NULL},
    [93] = {.name = "ZEROS_LIKE"},
    [94] = {.name = "FILL"},
    [95] = {.name = "FLOOR_MOD"},
    [96] = {.name = "RANGE"},
    [97] = {"RESIZE_NEAREST_NEIGHBOR", resize_nearest, NULL},
    [98] = {"LEAKY_RELU", leaky_relu, NULL},
    [99] = {"SQUARED_DIFFERENCE", squared_difference, "Sub"},
    [100] = {"MIRROR_PAD", td__lite_mirror_pad, NULL},
    [101] = {"ABS", unary, "Abs"},
    [102] = {"SPLIT_V", td__lite_split_v, NULL},
    [103] = {.name = "UNIQUE"},
    [104] = {"CEIL", unary, "Ceil"},
    [105] = {.name = "REVERSE_V2"},
    [106] = {.name = "ADD_N"},
    [107] = {.name = "GATHER_ND"},
    [108] = {"COS", unary, "Cos"},
    [109] = {.name = "WHERE"},
    [110] = {.name = "RANK"},
    [111] = {"ELU", unary, "Elu"},
    [112] = {.name = "REVERSE_SEQUENCE"},
    [113] = {.name = "MATRIX_DIAG"},
    [114] = {"QUANTIZE", pass, NULL},
    [115] = {.name = "MATRIX_SET_DIAG"},
    [116] = {"ROUND", unary, "Round"},
    [117] = {"HARD_SWISH", unary, "HardSwish"},
    [118] = {.name = "IF"},
    [119] = {.name = "WHILE"},
    [120] = {.name = "NON_MAX_SUPPRESSION_V4"},
    [121] = {.name = "NON_MAX_SUPPRESSION_V5"},
    [122] = {.name = "SCATTER_ND"},
    [123] = {"SELECT_V2", select_value, NULL},
    [124] = {.name = "DENSIFY"},
    [125] = {.name = "SEGMENT_SUM"},
    [126] = {"BATCH_MATMUL", batch_matmul, NULL},
    [128] = {.name = "CUMSUM"},
    [129] = {.name = "CALL_ONCE"},
    [130] = {"BROADCAST_TO", binary, "Expand"},
    [131] = {.name = "RFFT2D"},
    [132] = {.name = "CONV_3D"},
    [133] = {.name = "IMAG"},
    [134] = {.name = "REAL"},
    [135] = {.name = "COMPLEX_ABS"},
    [136] = {.name = "HASHTABLE"},
    [137] = {.name = "HASHTABLE_FIND"},
    [138] = {.name = "HASHTABLE_IMPORT"},
    [139] = {.name = "HASHTABLE_SIZE"},
    [140] = {.name = "REDUCE_ALL"},
    [141] = {.name = "CONV_3D_TRANSPOSE"},
    [142] = {.name = "VAR_HANDLE"},
    [143] = {.name = "READ_VARIABLE"},
    [144] = {.name = "ASSIGN_VARIABLE"},
    [145] = {.name = "BROADCAST_ARGS"},
    [146] = {.name = "RANDOM_STANDARD_NORMAL"},
    [147] = {.name = "BUCKETIZE"},
    [148] = {.name = "RANDOM_UNIFORM"},
    [149] = {.name = "MULTINOMIAL"},
    [150] = {"GELU", gelu, NULL},
    [151] = {.name = "DYNAMIC_UPDATE_SLICE"},
    [152] = {"RELU_0_TO_1", relu_0_to_1, NULL},
    [153] = {.name = "UNSORTED_SEGMENT_PROD"},
    [154] = {.name = "UNSORTED_SEGMENT_MAX"},
    [155] = {.name = "UNSORTED_SEGMENT_SUM"},
    [156] = {.name = "ATAN2"},
    [157] = {.name = "UNSORTED_SEGMENT_MIN"},
    [158] = {"SIGN", unary, "Sign"},
    [159] = {.name = "BITCAST"},
    [160] = {.name = "BITWISE_XOR"},
    [161] = {.name = "RIGHT_SHIFT"},
    [162] = {.name = "STABLEHLO_LOGISTIC"},
    [163] = {.name = "STABLEHLO_ADD"},
    [164] = {.name = "STABLEHLO_DIVIDE"},
    [165] = {.name = "STABLEHLO_MULTIPLY"},
    [166] = {.name = "STABLEHLO_MAXIMUM"},
    [167] = {.name = "STABLEHLO_RESHAPE"},
    [168] = {.name = "STABLEHLO_CLAMP"},
    [169] = {.name = "STABLEHLO_CONCATENATE"},
    [170] = {.name = "STABLEHLO_BROADCAST_IN_DIM"},
    [171] = {.name = "STABLEHLO_CONVOLUTION"},
    [172] = {.name = "STABLEHLO_SLICE"},
    [173] = {.name = "STABLEHLO_CUSTOM_CALL"},
    [174] = {.name = "STABLEHLO_REDUCE"},
    [175] = {.name = "STABLEHLO_ABS"},
    [176] = {.name = "STABLEHLO_AND"},
    [177] = {.name = "STABLEHLO_COSINE"},
    [178] = {.name = "STABLEHLO_EXPONENTIAL"},
    [179] = {.name = "STABLEHLO_FLOOR"},
    [180] = {.name = "STABLEHLO_LOG"},
    [181] = {.name = "STABLEHLO_MINIMUM"},
    [182] = {.name = "STABLEHLO_NEGATE"},
    [183] = {.name = "STABLEHLO_OR"},
    [184] = {.name = "STABLEHLO_POWER"},
    [185] = {.name = "STABLEHLO_REMAINDER"},
    [186] = {.name = "STABLEHLO_RSQRT"},
    [187] = {.name = "STABLEHLO_SELECT"},
    [188] = {.name = "STABLEHLO_SUBTRACT"},
    [189] = {.name = "STABLEHLO_TANH"},
    [190] = {.name = "STABLEHLO_SCATTER"},
    [191] = {.name = "STABLEHLO_COMPARE"},
    [192] = {.name = "STABLEHLO_CONVERT"},
    [193] = {.name = "STABLEHLO_DYNAMIC_SLICE"},
    [194] = {.name = "STABLEHLO_DYNAMIC_UPDATE_SLICE"},
    [195] = {.name = "STABLEHLO_PAD"},
    [196] = {.name = "STABLEHLO_IOTA"},
    [197] = {.name = "STABLEHLO_DOT_GENERAL"},
    [198] = {.name = "STABLEHLO_REDUCE_WINDOW"},
    [199] = {.name = "STABLEHLO_SORT"},
    [200] = {.name = "STABLEHLO_WHILE"},
    [201] = {.name = "STABLEHLO_GATHER"},
    [202] = {.name = "STABLEHLO_TRANSPOSE"},
    [203] = {.name = "DILATE"},
    [204] = {.name = "STABLEHLO_RNG_BIT_GENERATOR"},
    [205] = {.name = "REDUCE_WINDOW"},
    [206] = {.name = "STABLEHLO_COMPOSITE"},
    [207] = {.name = "STABLEHLO_SHIFT_LEFT"},
    [208] = {.name = "STABLEHLO_CBRT"},
    [209] = {.name = "STABLEHLO_CASE"},
};

const td__lite_operator *td__lite_operator_of(int32_t code) {
    bool known = code >= 0 && (size_t)code < sizeof operators / sizeof *operators;
    return known && operators[code].name ? &operators[code] : NULL;
}
