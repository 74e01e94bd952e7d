/* TensorFlow's operators as those of ONNX. Images have their channels last here. */
#include "tensorflow/saved.h"

#include <string.h>

/* --- element-wise ------------------------------------------------------------------------- */

static const char *plain(td__saved_call *call) {
    return call->count == 1 ? TD__OPERATOR(call->to, call->word, IN(call, 0))
                            : TD__OPERATOR(call->to, call->word, IN(call, 0), IN(call, 1));
}

static const char *same(td__saved_call *call) {
    for (size_t i = 1; i < call->count && !strcmp(call->node->op, "IdentityN"); i++) {
        call->more[call->more_count++] = call->in[i].name;
        if (call->more_count == TD__SAVED_INPUTS) {
            return td__operator_refuse(call->to, "of too many tensors");
        }
    }
    return IN(call, 0);
}

static const char *negated(td__saved_call *call) {
    return TD__OPERATOR(call->to, "Not", plain(call));
}

static const char *square(td__saved_call *call) {
    return TD__OPERATOR(call->to, "Mul", IN(call, 0), IN(call, 0));
}

static const char *squared_difference(td__saved_call *call) {
    const char *d = TD__OPERATOR(call->to, "Sub", IN(call, 0), IN(call, 1));
    return TD__OPERATOR(call->to, "Mul", d, d);
}

static const char *rsqrt(td__saved_call *call) {
    return TD__OPERATOR(call->to, "Reciprocal", TD__OPERATOR(call->to, "Sqrt", IN(call, 0)));
}

static const char *erfc_of(td__saved_call *call) {
    return TD__OPERATOR(call->to, "Sub", td__operator_number(call->to, 1),
                        TD__OPERATOR(call->to, "Erf", IN(call, 0)));
}

static const char *log1p_of(td__saved_call *call) {
    return TD__OPERATOR(
        call->to, "Log",
        TD__OPERATOR(call->to, "Add", IN(call, 0), td__operator_number(call->to, 1)));
}

static const char *expm1_of(td__saved_call *call) {
    return TD__OPERATOR(call->to, "Sub", TD__OPERATOR(call->to, "Exp", IN(call, 0)),
                        td__operator_number(call->to, 1));
}

static const char *relu6(td__saved_call *call) {
    return TD__OPERATOR(call->to, "Clip", IN(call, 0), td__operator_number(call->to, 0),
                        td__operator_number(call->to, 6));
}

static const char *leaky_relu(td__saved_call *call) {
    const char *x = IN(call, 0);
    td__attribute alpha = TD__NAMED_REAL("alpha", td__saved_real(call->node, "alpha", 0.2));
    return td__operator(call->to, "LeakyRelu", 1, &x, 1, &alpha);
}

static const char *bias_add(td__saved_call *call) {
    const char *format = td__saved_text(call->to, call->node, "data_format");
    return format && !strcmp(format, "NCHW")
               ? td__operator_refuse(call->to, "with the channels first")
               : TD__OPERATOR(call->to, "Add", IN(call, 0), IN(call, 1));
}

static const char *softmax(td__saved_call *call) {
    const char *x = IN(call, 0);
    return td__operator(call->to, call->word, 1, &x, 1, &TD__NAMED_INT("axis", -1));
}

static const char *add_all(td__saved_call *call) {
    const char *parts[TD__SAVED_INPUTS];
    if (call->count > TD__SAVED_INPUTS) {
        return td__operator_refuse(call->to, "of too many tensors");
    }
    for (size_t i = 0; i < call->count; i++) {
        parts[i] = call->in[i].name;
    }
    return td__operator(call->to, "Sum", call->count, parts, 0, NULL);
}

/* Whole numbers are divided downwards, so are reals. */
static const char *floor_div(td__saved_call *call) {
    int64_t type = td__saved_int(call->node, "T", 1);
    if (type > 2 && call->in[1].known && call->in[1].count == 1 && call->in[1].numbers[0] > 0) {
        const char *rest = TD__OPERATOR(call->to, "Mod", IN(call, 0), IN(call, 1));
        return TD__OPERATOR(call->to, "Div", TD__OPERATOR(call->to, "Sub", IN(call, 0), rest),
                            IN(call, 1));
    }
    return type > 2 ? td__operator_refuse(call->to, "by a whole number that is not known")
                    : TD__OPERATOR(call->to, "Floor", plain(call));
}

static const char *cast_to(td__operators *to, const char *x, int64_t type) {
    td__attribute kind = {.name = "to",
                          .type = TD__DTYPE,
                          .dtype = type == 10                                           ? TD_BOOL
                                   : type == 1 || type == 2 || type == 14 || type == 19 ? TD_FLOAT32
                                                                                        : TD_INT64};
    return td__operator(to, "Cast", 1, &x, 1, &kind);
}

static const char *cast(td__saved_call *call) {
    int64_t type = td__saved_int(call->node, "DstT", 1);
    bool known =
        type == 1 || type == 2 || type == 3 || type == 9 || type == 10 || type == 14 || type == 19;
    return known ? cast_to(call->to, IN(call, 0), type)
                 : td__operator_refuse(call->to, "to whole numbers of 8 or 16 bits");
}

static const char *select_of(td__saved_call *call) {
    return call->count == 3 ? TD__OPERATOR(call->to, "Where", IN(call, 0), IN(call, 1), IN(call, 2))
                            : NULL;
}

static const char *clip(td__saved_call *call) {
    return call->count == 3
               ? TD__OPERATOR(call->to, "Min",
                              TD__OPERATOR(call->to, "Max", IN(call, 0), IN(call, 1)), IN(call, 2))
               : NULL;
}

/* --- products ----------------------------------------------------------------------------- */

static const char *swap_last(td__saved_call *call, size_t i) {
    int64_t order[TD_MAX_RANK];
    const td__saved_value *x = &call->in[i];
    int32_t rank = x->ranked ? x->shape.rank : 2;
    for (int32_t k = 0; k < rank; k++) {
        order[k] = k < rank - 2 ? k : 2 * rank - 3 - k;
    }
    return rank < 2 ? NULL : td__operator_transpose(call->to, x->name, (size_t)rank, order);
}

static const char *matmul(td__saved_call *call) {
    if (call->count != 2) {
        return NULL;
    }
    bool batch = *call->node->op == 'B';
    bool a = td__saved_int(call->node, batch ? "adj_x" : "transpose_a", 0);
    bool b = td__saved_int(call->node, batch ? "adj_y" : "transpose_b", 0);
    return TD__OPERATOR(call->to, "MatMul", a ? swap_last(call, 0) : IN(call, 0),
                        b ? swap_last(call, 1) : IN(call, 1));
}

static const char *einsum(td__saved_call *call) {
    const char *equation = td__saved_text(call->to, call->node, "equation");
    const char *inputs[2] = {IN(call, 0), IN(call, 1)};
    return equation && call->count <= 2 ? td__operator(call->to, "Einsum", call->count, inputs, 1,
                                                       &TD__NAMED_TEXT("equation", equation))
                                        : NULL;
}

/* --- reductions --------------------------------------------------------------------------- */

static const char *reduce(td__saved_call *call) {
    const td__saved_value *axes = call->count == 2 ? &call->in[1] : NULL;
    if (!axes || !axes->known || axes->count > TD_MAX_RANK) {
        return td__operator_refuse(call->to, "over axes that are not known");
    }
    bool sum = !strcmp(call->word, "ReduceSum");
    td__attribute attributes[2] = {
        TD__NAMED_INT("keepdims", td__saved_int(call->node, "keep_dims", 0)),
        TD__NAMED_INTS("axes", axes->numbers, axes->count)};
    bool truth = !strcmp(call->node->op, "All") || !strcmp(call->node->op, "Any");
    if (axes->count == 0) {
        return IN(call, 0); /* over no axis */
    }
    const char *x = truth ? cast_to(call->to, IN(call, 0), 9) : IN(call, 0);
    const char *inputs[2] = {x, td__operator_integers(call->to, axes->count, axes->numbers)};
    const char *y =
        td__operator(call->to, call->word, sum ? 2 : 1, inputs, sum ? 1 : 2, attributes);
    return truth ? cast_to(call->to, y, 10) : y;
}

static const char *arg_extreme(td__saved_call *call) {
    const char *x = IN(call, 0);
    bool known = call->count == 2 && call->in[1].known && call->in[1].count == 1;
    td__attribute attributes[2] = {TD__NAMED_INT("keepdims", 0),
                                   TD__NAMED_INT("axis", known ? call->in[1].numbers[0] : 0)};
    return known ? td__operator(call->to, call->word, 1, &x, 2, attributes) : NULL;
}

/* --- shapes ------------------------------------------------------------------------------- */

static const char *shape_of(td__saved_call *call) {
    return TD__OPERATOR(call->to, "Shape", IN(call, 0));
}

static const char *as_vector(td__saved_call *call, size_t i) {
    return td__operator_reshape(call->to, IN(call, i), 1, (int64_t[]){-1});
}

static const char *squeeze(td__saved_call *call) {
    int64_t axes[TD_MAX_RANK];
    size_t count = td__saved_ints(call->node, "squeeze_dims", TD_MAX_RANK, axes);
    for (int32_t i = 0; !count && call->in[0].ranked && i < call->in[0].shape.rank; i++) {
        if (call->in[0].shape.dims[i] == 1) {
            axes[count++] = i;
        }
    }
    return count ? TD__OPERATOR(call->to, "Squeeze", IN(call, 0),
                                td__operator_integers(call->to, count, axes))
                 : td__operator_refuse(call->to, "of axes that are not known");
}

static const char *expand_dims(td__saved_call *call) {
    return call->count == 2 ? TD__OPERATOR(call->to, "Unsqueeze", IN(call, 0), as_vector(call, 1))
                            : NULL;
}

static const char *transpose(td__saved_call *call) {
    bool known = call->count == 2 && call->in[1].known && call->in[1].count <= TD_MAX_RANK;
    return known ? td__operator_transpose(call->to, IN(call, 0), call->in[1].count,
                                          call->in[1].numbers)
                 : td__operator_refuse(call->to, "by an order that is not known");
}

static const char *concatenate(td__saved_call *call) {
    const char *parts[TD__SAVED_INPUTS];
    size_t count = call->count - 1;
    const td__saved_value *axis = call->count > 1 ? &call->in[count] : NULL;
    if (!axis || count > TD__SAVED_INPUTS || !axis->known || axis->count != 1) {
        return td__operator_refuse(call->to, "along an axis that is not known");
    }
    for (size_t i = 0; i < count; i++) {
        parts[i] = call->in[i].name;
    }
    return td__operator(call->to, "Concat", count, parts, 1,
                        &TD__NAMED_INT("axis", axis->numbers[0]));
}

static const char *pack(td__saved_call *call) {
    const char *parts[TD__SAVED_INPUTS];
    int64_t axis = td__saved_int(call->node, "axis", 0);
    if (!call->count || call->count > TD__SAVED_INPUTS) {
        return NULL;
    }
    const char *axes = td__operator_integers(call->to, 1, &axis);
    for (size_t i = 0; i < call->count; i++) {
        parts[i] = TD__OPERATOR(call->to, "Unsqueeze", call->in[i].name, axes);
    }
    return td__operator(call->to, "Concat", call->count, parts, 1, &TD__NAMED_INT("axis", axis));
}

/* Parts of one size, or of given sizes. */
static const char *split(td__saved_call *call) {
    td__operators *to = call->to;
    bool sizes = !strcmp(call->node->op, "SplitV");
    size_t data = sizes ? 0 : 1, along = sizes ? 2 : 0,
           count = (size_t)td__saved_int(call->node, "num_split", 0);
    const char *parts[TD__SAVED_INPUTS];
    if (call->count <= along || call->count <= data || !call->in[along].known || !count ||
        count > TD__SAVED_INPUTS || call->in[along].count != 1) {
        return td__operator_refuse(to, "along an axis that is not known");
    }
    int64_t axis = call->in[along].numbers[0];
    const char *inputs[2] = {IN(call, data), sizes ? IN(call, 1) : NULL};
    td__operator_outputs(to, "Split", sizes ? 2 : 1, inputs, 1, &TD__NAMED_INT("axis", axis), count,
                         parts);
    for (size_t i = 1; i < count; i++) {
        call->more[call->more_count++] = parts[i];
    }
    return parts[0];
}

static const char *unpack(td__saved_call *call) {
    td__operators *to = call->to;
    size_t count = (size_t)td__saved_int(call->node, "num", 0);
    int64_t axis = td__saved_int(call->node, "axis", 0);
    const char *first = NULL, *axes = td__operator_integers(to, 1, &axis);
    if (!count || count > TD__SAVED_INPUTS) {
        return td__operator_refuse(to, "into no parts, or too many");
    }
    for (size_t i = 0; i < count; i++) {
        int64_t at = (int64_t)i, end = at + 1;
        const char *part = TD__OPERATOR(to, "Slice", IN(call, 0), td__operator_integers(to, 1, &at),
                                        td__operator_integers(to, 1, &end), axes);
        part = TD__OPERATOR(to, "Squeeze", part, axes);
        if (i) {
            call->more[call->more_count++] = part;
        } else {
            first = part;
        }
    }
    return first;
}

/* Begin, end and step of each place of the index; masks say which are left out, new or single. */
static const char *strided_slice(td__saved_call *call) {
    td__operators *to = call->to;
    int64_t begin[TD_MAX_RANK], end[TD_MAX_RANK], step[TD_MAX_RANK], axes[TD_MAX_RANK];
    int64_t fresh[TD_MAX_RANK], single[TD_MAX_RANK];
    size_t used = 0, added = 0, dropped = 0, count = call->count == 4 ? call->in[1].count : 0;
    int64_t begins = td__saved_int(call->node, "begin_mask", 0),
            ends = td__saved_int(call->node, "end_mask", 0),
            dots = td__saved_int(call->node, "ellipsis_mask", 0),
            adds = td__saved_int(call->node, "new_axis_mask", 0),
            drops = td__saved_int(call->node, "shrink_axis_mask", 0);
    bool known = call->count == 4 && call->in[1].known && call->in[2].known && call->in[3].known &&
                 call->in[2].count == count && call->in[3].count == count && count <= TD_MAX_RANK;
    if (!known) {
        return td__operator_refuse(to, "of places that are not known");
    }
    int64_t axis = 0, made = 0; /* of the input, of the result with single axes */
    for (size_t i = 0; i < count; i++) {
        int64_t bit = (int64_t)1 << i;
        if (dots & bit) {
            if (!call->in[0].ranked) {
                return td__operator_refuse(to, "of unknown axes");
            }
            int64_t rest = 0;
            for (size_t k = i + 1; k < count; k++) {
                rest += !(adds & ((int64_t)1 << k));
            }
            int64_t skipped = call->in[0].shape.rank - rest - axis;
            axis += skipped;
            made += skipped;
        } else if (adds & bit) {
            fresh[added++] = made++;
        } else {
            int64_t n = call->in[1].numbers[i], s = call->in[3].numbers[i];
            bool one = drops & bit;
            begin[used] = !one && (begins & bit) ? (s < 0 ? INT64_MAX : 0) : n;
            end[used] = one            ? (n == -1 ? INT64_MAX : n + 1)
                        : (ends & bit) ? (s < 0 ? -INT64_MAX : INT64_MAX)
                                       : call->in[2].numbers[i];
            step[used] = one ? 1 : s;
            axes[used++] = axis;
            if (one) {
                single[dropped++] = axis;
            } else {
                made++;
            }
            axis++;
        }
    }
    const char *x = IN(call, 0);
    if (used) {
        x = TD__OPERATOR(to, "Slice", x, td__operator_integers(to, used, begin),
                         td__operator_integers(to, used, end),
                         td__operator_integers(to, used, axes),
                         td__operator_integers(to, used, step));
    }
    x = dropped ? TD__OPERATOR(to, "Squeeze", x, td__operator_integers(to, dropped, single)) : x;
    return added ? TD__OPERATOR(to, "Unsqueeze", x, td__operator_integers(to, added, fresh)) : x;
}

static const char *slice(td__saved_call *call) {
    td__operators *to = call->to;
    bool known = call->count == 3 && call->in[1].known && call->in[2].known &&
                 call->in[1].count == call->in[2].count && call->in[1].count <= TD_MAX_RANK;
    int64_t end[TD_MAX_RANK], axes[TD_MAX_RANK];
    if (!known) {
        return td__operator_refuse(to, "of places that are not known");
    }
    for (size_t i = 0; i < call->in[1].count; i++) {
        int64_t size = call->in[2].numbers[i];
        end[i] = size < 0 ? INT64_MAX : call->in[1].numbers[i] + size;
        axes[i] = (int64_t)i;
    }
    return TD__OPERATOR(to, "Slice", IN(call, 0), IN(call, 1),
                        td__operator_integers(to, call->in[1].count, end),
                        td__operator_integers(to, call->in[1].count, axes));
}

static const char *gather(td__saved_call *call) {
    bool resource = *call->node->op == 'R';
    const td__saved_value *axis = call->count == 3 ? &call->in[2] : NULL;
    if ((axis && (!axis->known || axis->count != 1)) || call->count < 2 ||
        td__saved_int(call->node, "batch_dims", 0)) {
        return td__operator_refuse(call->to, "along an axis that is not known");
    }
    const char *inputs[2] = {IN(call, 0), IN(call, 1)};
    return td__operator(call->to, "Gather", 2, inputs, 1,
                        &TD__NAMED_INT("axis", resource || !axis ? 0 : axis->numbers[0]));
}

static const char *fill(td__saved_call *call) {
    return call->count == 2 ? TD__OPERATOR(call->to, "Expand", IN(call, 1), IN(call, 0)) : NULL;
}

static const char *filled_like(td__saved_call *call) {
    const char *number = td__operator_number(call->to, *call->word == '1');
    int64_t type = td__saved_int(call->node, "T", 1);
    number = type == 1 || type == 2 ? number : cast_to(call->to, number, type);
    return TD__OPERATOR(call->to, "Expand", number, shape_of(call));
}

static const char *range(td__saved_call *call) {
    return call->count == 3 ? TD__OPERATOR(call->to, "Range", IN(call, 0), IN(call, 1), IN(call, 2))
                            : NULL;
}

/* [axes, 2] of borders. */
static const char *pad(td__saved_call *call) {
    td__operators *to = call->to;
    const td__saved_value *borders = call->count > 1 ? &call->in[1] : NULL;
    int64_t pads[2 * TD_MAX_RANK];
    if (!borders || !borders->known || borders->count % 2 || borders->count > 2 * TD_MAX_RANK) {
        return td__operator_refuse(to, "by borders that are not known");
    }
    size_t rank = borders->count / 2;
    for (size_t i = 0; i < rank; i++) {
        pads[i] = borders->numbers[2 * i];
        pads[i + rank] = borders->numbers[2 * i + 1];
    }
    const char *mode = td__saved_text(to, call->node, "mode");
    bool symmetric = mode && !strcmp(mode, "SYMMETRIC");
    const char *inputs[3] = {IN(call, 0), td__operator_integers(to, 2 * rank, pads), IN(call, 2)};
    return symmetric ? td__operator_refuse(to, "that repeats the border")
                     : td__operator(to, "Pad", call->count == 3 ? 3 : 2, inputs, 1,
                                    &TD__NAMED_TEXT("mode", mode ? "reflect" : "constant"));
}

static const char *top_k(td__saved_call *call) {
    const char *made[2];
    if (call->count != 2) {
        return NULL;
    }
    const char *inputs[2] = {IN(call, 0), as_vector(call, 1)};
    td__operator_outputs(call->to, "TopK", 2, inputs, 0, NULL, 2, made);
    call->more[call->more_count++] = made[1];
    return made[0];
}

static const char *cumulative(td__saved_call *call) {
    td__attribute attributes[2] = {
        TD__NAMED_INT("exclusive", td__saved_int(call->node, "exclusive", 0)),
        TD__NAMED_INT("reverse", td__saved_int(call->node, "reverse", 0))};
    const char *inputs[2] = {IN(call, 0), IN(call, 1)};
    return call->count == 2 ? td__operator(call->to, "CumSum", 2, inputs, 2, attributes) : NULL;
}

static const char *reverse(td__saved_call *call) {
    td__operators *to = call->to;
    int64_t first[TD_MAX_RANK], end[TD_MAX_RANK], step[TD_MAX_RANK];
    const td__saved_value *axes = call->count == 2 ? &call->in[1] : NULL;
    if (!axes || !axes->known || axes->count > TD_MAX_RANK) {
        return td__operator_refuse(to, "of axes that are not known");
    }
    for (size_t i = 0; i < axes->count; i++) {
        first[i] = -1;
        end[i] = -INT64_MAX;
        step[i] = -1;
    }
    return TD__OPERATOR(to, "Slice", IN(call, 0), td__operator_integers(to, axes->count, first),
                        td__operator_integers(to, axes->count, end),
                        td__operator_integers(to, axes->count, axes->numbers),
                        td__operator_integers(to, axes->count, step));
}

/* indices, depth, on, off */
static const char *one_hot(td__saved_call *call) {
    td__operators *to = call->to;
    if (call->count != 4) {
        return NULL;
    }
    const char *zero = td__operator_integers(to, 1, (int64_t[]){0});
    const char *both[2] = {TD__OPERATOR(to, "Unsqueeze", IN(call, 3), zero),
                           TD__OPERATOR(to, "Unsqueeze", IN(call, 2), zero)};
    const char *inputs[3] = {IN(call, 0), IN(call, 1),
                             td__operator(to, "Concat", 2, both, 1, &TD__NAMED_INT("axis", 0))};
    return td__operator(to, "OneHot", 3, inputs, 1,
                        &TD__NAMED_INT("axis", td__saved_int(call->node, "axis", -1)));
}

/* --- the table ---------------------------------------------------------------------------- */

static const td__saved_operator operators[] = {
    {"Abs", plain, "Abs"},
    {"Add", plain, "Add"},
    {"AddN", add_all, NULL},
    {"AddV2", plain, "Add"},
    {"All", reduce, "ReduceMin"},
    {"Any", reduce, "ReduceMax"},
    {"ArgMax", arg_extreme, "ArgMax"},
    {"ArgMin", arg_extreme, "ArgMin"},
    {"AvgPool", td__saved_pool, "AveragePool"},
    {"AvgPool3D", td__saved_pool, "AveragePool"},
    {"BatchMatMul", matmul, NULL},
    {"BatchMatMulV2", matmul, NULL},
    {"BatchMatMulV3", matmul, NULL},
    {"BiasAdd", bias_add, NULL},
    {"BroadcastTo", plain, "Expand"},
    {"Cast", cast, NULL},
    {"Ceil", plain, "Ceil"},
    {"CheckNumerics", same, NULL},
    {"ClipByValue", clip, NULL},
    {"ConcatV2", concatenate, NULL},
    {"Conv2D", td__saved_convolve, NULL},
    {"Conv2DBackpropInput", td__saved_convolve_transposed, NULL},
    {"Conv3D", td__saved_convolve, NULL},
    {"Conv3DBackpropInputV2", td__saved_convolve_transposed, NULL},
    {"Cos", plain, "Cos"},
    {"Cumsum", cumulative, NULL},
    {"DepthwiseConv2dNative", td__saved_convolve, NULL},
    {"Div", plain, "Div"},
    {"Einsum", einsum, NULL},
    {"Elu", plain, "Elu"},
    {"EnsureShape", same, NULL},
    {"Equal", plain, "Equal"},
    {"Erf", plain, "Erf"},
    {"Erfc", erfc_of, NULL},
    {"Exp", plain, "Exp"},
    {"ExpandDims", expand_dims, NULL},
    {"Expm1", expm1_of, NULL},
    {"Fill", fill, NULL},
    {"Floor", plain, "Floor"},
    {"FloorDiv", floor_div, "Div"},
    {"FloorMod", plain, "Mod"},
    {"FusedBatchNormV3", td__saved_batch_norm, NULL},
    {"GatherNd", plain, "GatherND"},
    {"GatherV2", gather, NULL},
    {"Greater", plain, "Greater"},
    {"GreaterEqual", plain, "GreaterOrEqual"},
    {"Identity", same, NULL},
    {"IdentityN", same, NULL},
    {"IsNan", plain, "IsNaN"},
    {"LeakyRelu", leaky_relu, NULL},
    {"Less", plain, "Less"},
    {"LessEqual", plain, "LessOrEqual"},
    {"Log", plain, "Log"},
    {"Log1p", log1p_of, NULL},
    {"LogSoftmax", softmax, "LogSoftmax"},
    {"LogicalAnd", plain, "And"},
    {"LogicalNot", plain, "Not"},
    {"LogicalOr", plain, "Or"},
    {"MatMul", matmul, NULL},
    {"Max", reduce, "ReduceMax"},
    {"MaxPool", td__saved_pool, "MaxPool"},
    {"MaxPool3D", td__saved_pool, "MaxPool"},
    {"Maximum", plain, "Max"},
    {"Mean", reduce, "ReduceMean"},
    {"Min", reduce, "ReduceMin"},
    {"Minimum", plain, "Min"},
    {"MirrorPad", pad, NULL},
    {"Mul", plain, "Mul"},
    {"Neg", plain, "Neg"},
    {"NotEqual", negated, "Equal"},
    {"OneHot", one_hot, NULL},
    {"OnesLike", filled_like, "1"},
    {"Pack", pack, NULL},
    {"Pad", pad, NULL},
    {"PadV2", pad, NULL},
    {"Pow", plain, "Pow"},
    {"PreventGradient", same, NULL},
    {"Prod", reduce, "ReduceProd"},
    {"Range", range, NULL},
    {"RealDiv", plain, "Div"},
    {"Reciprocal", plain, "Reciprocal"},
    {"Relu", plain, "Relu"},
    {"Relu6", relu6, NULL},
    {"Reshape", plain, "Reshape"},
    {"ResizeBilinear", td__saved_resize, "linear"},
    {"ResizeNearestNeighbor", td__saved_resize, "nearest"},
    {"ResourceGather", gather, NULL},
    {"ReverseV2", reverse, NULL},
    {"Round", plain, "Round"},
    {"Rsqrt", rsqrt, NULL},
    {"Select", select_of, NULL},
    {"SelectV2", select_of, NULL},
    {"Selu", plain, "Selu"},
    {"Shape", shape_of, NULL},
    {"Sigmoid", plain, "Sigmoid"},
    {"Sign", plain, "Sign"},
    {"Sin", plain, "Sin"},
    {"Slice", slice, NULL},
    {"Snapshot", same, NULL},
    {"Softmax", softmax, "Softmax"},
    {"Softplus", plain, "Softplus"},
    {"Softsign", plain, "Softsign"},
    {"Split", split, NULL},
    {"SplitV", split, NULL},
    {"Sqrt", plain, "Sqrt"},
    {"Square", square, NULL},
    {"SquaredDifference", squared_difference, NULL},
    {"Squeeze", squeeze, NULL},
    {"StopGradient", same, NULL},
    {"StridedSlice", strided_slice, NULL},
    {"Sub", plain, "Sub"},
    {"Sum", reduce, "ReduceSum"},
    {"Tanh", plain, "Tanh"},
    {"Tile", plain, "Tile"},
    {"TopKV2", top_k, NULL},
    {"Transpose", transpose, NULL},
    {"Unpack", unpack, NULL},
    {"ZerosLike", filled_like, "0"},
};

const td__saved_operator *td__saved_find(const char *op) {
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        if (!strcmp(operators[i].op, op)) {
            return &operators[i];
        }
    }
    return NULL;
}
