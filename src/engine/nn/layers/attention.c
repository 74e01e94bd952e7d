/* multi_head_attention: attention(query, key, value) in `heads` projections of their own, joined
 *
 * head h: softmax(q k^T / sqrt(key_dim)) v, with q, k, v = x kernel[:, h, :] + bias[h, :]
 * output = sum over heads of head h times attention_output_kernel[h] + bias
 */
#include "nn/layers/attention_view.h"
#include "nn/operators.h"

#include <math.h>

static const td__field fields[] = {
    TD__LAYER_FIELDS,
    TD__INTEGER(td_multi_head_attention_layer, heads, "num_heads", 0, 1),
    TD__INTEGER(td_multi_head_attention_layer, key_dim, NULL, 0, 1),
    TD__INTEGER(td_multi_head_attention_layer, value_dim, NULL, 0, 0),
    TD__BOOL(td_multi_head_attention_layer, causal),
    TD__NOT(td_multi_head_attention_layer, no_bias, "use_bias"),
    TD__INITIALIZER(td_multi_head_attention_layer, kernel_initializer, TD_GLOROT_UNIFORM),
    TD__INITIALIZER(td_multi_head_attention_layer, bias_initializer, TD_ZEROS),
    TD__REGULARIZERS(td_multi_head_attention_layer),
    TD__RATE(td_multi_head_attention_layer, dropout),
};

/* Slots of kernels; each bias is in the next. */
enum { QUERY = 0, KEY = 2, VALUE = 4, OUTPUT = 6 };

static void plan_projection(td__layer *layer, int slot, const char *kernel, const char *bias,
                            td_shape kernel_shape, td_shape bias_shape) {
    const td_multi_head_attention_layer *options = layer->options;
    td__layer_parameter(layer, slot, kernel, kernel_shape, options->kernel_initializer,
                        options->kernel_l1, options->kernel_l2);
    if (!options->no_bias) {
        td__layer_parameter(layer, slot + 1, bias, bias_shape, options->bias_initializer,
                            options->bias_l1, options->bias_l2);
    }
}

/* Keras's order of inputs: query, value, key; the value is the key too, and the query both. */
static size_t value_input(const td__layer *layer) {
    return layer->info.input_count > 1 ? 1 : 0;
}
static size_t key_input(const td__layer *layer) {
    return layer->info.input_count > 2 ? 2 : value_input(layer);
}

static td_status plan_attention(td__layer *layer, const td_shape *inputs, td_error *error) {
    td_multi_head_attention_layer *options = layer->options;
    options->value_dim = options->value_dim ? options->value_dim : options->key_dim;
    const td_shape *query = &inputs[0], *value = &inputs[value_input(layer)],
                   *key = &inputs[key_input(layer)];
    int64_t in[3] = {0};
    const td_shape *all[] = {query, key, value};
    for (int i = 0; i < 3; i++) {
        td_status status = td__layer_need_rank(layer, all[i], 2, "(steps, features)", error);
        status = status ? status : td__layer_need_last(layer, all[i], &in[i], error);
        if (status) {
            return status;
        }
    }
    if (options->dropout >= 1) {
        return td__layer_error(layer, error, TD_RANGE, "'dropout' must be less than 1");
    }
    if (key->dims[0] >= 0 && value->dims[0] >= 0 && key->dims[0] != value->dims[0]) {
        char a[TD_SHAPE_TEXT_SIZE], b[TD_SHAPE_TEXT_SIZE];
        return td__layer_error(layer, error, TD_BAD_SHAPE,
                               "key %s and value %s must have as many steps as each other",
                               td_shape_text(key, a), td_shape_text(value, b));
    }
    int64_t heads = options->heads, width = options->key_dim, value_width = options->value_dim;
    plan_projection(layer, QUERY, "query_kernel", "query_bias", TD_SHAPE(in[0], heads, width),
                    TD_SHAPE(heads, width));
    plan_projection(layer, KEY, "key_kernel", "key_bias", TD_SHAPE(in[1], heads, width),
                    TD_SHAPE(heads, width));
    plan_projection(layer, VALUE, "value_kernel", "value_bias", TD_SHAPE(in[2], heads, value_width),
                    TD_SHAPE(heads, value_width));
    plan_projection(layer, OUTPUT, "attention_output_kernel", "attention_output_bias",
                    TD_SHAPE(heads, value_width, in[0]), TD_SHAPE(in[0]));
    layer->info.output = *query;
    return TD_OK;
}

/* The parameter in slot as (rows, columns), or a bias (columns); NULL stays NULL. */
static td_tensor *as_matrix(td__layer *layer, td_tape *tape, int slot, int64_t columns) {
    td_tensor *parameter = layer->slot[slot];
    if (!parameter) {
        return NULL;
    }
    return td_reshape(tape, parameter,
                      slot % 2 ? TD_SHAPE(columns) : TD_SHAPE(parameter->count / columns, columns));
}

/* x (batch, steps, in) -> (batch, steps, heads, width) */
static td_tensor *project(td__layer *layer, td_tape *tape, td_tensor *x, int slot, int64_t heads,
                          int64_t width) {
    if (!x) {
        return NULL;
    }
    td_tensor *flat = td_dense(tape, x, as_matrix(layer, tape, slot, heads * width),
                               as_matrix(layer, tape, slot + 1, heads * width), TD_LINEAR);
    return td_reshape(tape, flat, TD_SHAPE(x->shape.dims[0], x->shape.dims[1], heads, width));
}

/* (batch, steps, heads, width) to (batch, heads, steps, width), or back. */
static td_tensor *swap_heads(td_tape *tape, td_tensor *x) {
    return td_transpose(tape, x, (const int32_t[]){0, 2, 1, 3});
}

/* 1 where a position is not after another: (1, 1, rows, columns). */
static td_tensor *causal_mask(td_tape *tape, int64_t rows, int64_t columns) {
    td_tensor *mask = td__output(tape, TD_FLOAT32, &TD_SHAPE(1, 1, rows, columns));
    for (int64_t i = 0; mask && i < mask->count; i++) {
        td__floats(mask)[i] = i % columns > i / columns ? 0 : 1;
    }
    return mask;
}

/* 1 for scores of steps that count, and not of those after a step where a causal mask is asked for:
 * (batch, 1, steps or 1, steps of the value); NULL: all count. */
static td_tensor *score_mask(const td__layer *layer, td_tape *tape, td_tensor *causal) {
    size_t value = value_input(layer), key = key_input(layer);
    td_tensor *query_mask = layer->masks[0];
    td_tensor *value_mask = layer->masks[value];
    td_tensor *key_mask = key == value ? NULL : layer->masks[key];
    td_tensor *all = causal;
    td_tensor *const each[] = {query_mask, value_mask, key_mask};
    for (int i = 0; i < 3; i++) {
        if (each[i]) {
            int64_t batch = each[i]->shape.dims[0], steps = each[i]->shape.dims[1];
            td_tensor *mask =
                td_reshape(tape, each[i],
                           i == 0 ? TD_SHAPE(batch, 1, steps, 1) : TD_SHAPE(batch, 1, 1, steps));
            all = all ? td_multiply(tape, all, mask) : mask;
        }
    }
    return all;
}

/* The attention's weights as a tensor of their own, of which a share is dropped. A score that does not
 * count is -1e9, as in Keras, whatever it was: no gradient goes that way. */
static td_tensor *attend_apart(td_tape *tape, td_tensor *q, td_tensor *k, td_tensor *v,
                               td_tensor *mask, float rate) {
    if (!q) {
        return NULL;
    }
    float width = (float)q->shape.dims[3];
    q = swap_heads(tape, q);
    k = swap_heads(tape, k);
    v = swap_heads(tape, v);
    td_matmul_options transposed = {.size = sizeof transposed, .transpose_b = true};
    td_tensor *scores = td_matmul(tape, q, k, &transposed);
    scores = td_affine(tape, scores, 1.0f / sqrtf(width), 0);
    if (mask) {
        scores = td_add(tape, td_multiply(tape, scores, mask), td_affine(tape, mask, 1e9f, -1e9f));
    }
    return swap_heads(
        tape, td_matmul(tape, td_dropout(tape, td_softmax(tape, scores, -1), rate), v, NULL));
}

static td_tensor *forward_attention(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    const td_multi_head_attention_layer *options = layer->options;
    int64_t heads = options->heads, value_width = options->value_dim;
    td_tensor *x = inputs[0];
    td_tensor *q = project(layer, tape, x, QUERY, heads, options->key_dim);
    td_tensor *k = project(layer, tape, inputs[key_input(layer)], KEY, heads, options->key_dim);
    td_tensor *v = project(layer, tape, inputs[value_input(layer)], VALUE, heads, value_width);
    bool drops = options->dropout > 0 && td_tape_is_training(tape);
    bool masked =
        layer->masks[0] || layer->masks[value_input(layer)] || layer->masks[key_input(layer)];
    td_tensor *mixed;
    if (masked || drops) {
        int64_t rows = x->shape.dims[1], columns = inputs[key_input(layer)]->shape.dims[1];
        td_tensor *causal = options->causal ? causal_mask(tape, rows, columns) : NULL;
        mixed = attend_apart(tape, q, k, v, score_mask(layer, tape, causal),
                             drops ? (float)options->dropout : 0);
    } else {
        td_attention_options attention = {.size = sizeof attention, .causal = options->causal};
        mixed = td__attention_beside(tape, q, k, v, &attention);
    }
    td_tensor *joined = /* of (batch, steps, heads, width) */
        td_reshape(tape, mixed, TD_SHAPE(x->shape.dims[0], x->shape.dims[1], heads * value_width));
    int64_t out = layer->info.output.dims[1];
    return td_dense(tape, joined, as_matrix(layer, tape, OUTPUT, out), layer->slot[OUTPUT + 1],
                    TD_LINEAR);
}

/* --- as operators ------------------------------------------------------------------------- */

/* x kernel + bias, the parameters as matrix and vector. */
static const char *dense_operators(const td__layer *layer, td__operators *to, const char *x,
                                   int slot, int64_t columns) {
    int64_t rows = layer->slot[slot]->count / columns;
    const char *kernel = td__operator_reshape(to, td__operator_parameter(to, layer, slot), 2,
                                              (const int64_t[]){rows, columns});
    const char *y = TD__OPERATOR(to, "MatMul", x, kernel);
    return layer->slot[slot + 1]
               ? TD__OPERATOR(to, "Add", y,
                              td__operator_reshape(to, td__operator_parameter(to, layer, slot + 1),
                                                   1, &columns))
               : y;
}

/* (batch, steps, in) -> (batch, heads, steps, width), or with width before steps */
static const char *project_operators(const td__layer *layer, td__operators *to, const char *x,
                                     int slot, int64_t width, bool turned) {
    const td_multi_head_attention_layer *options = layer->options;
    const char *y = dense_operators(layer, to, x, slot, options->heads * width);
    y = td__operator_reshape(to, y, 4, (const int64_t[]){0, -1, options->heads, width});
    return td__operator_transpose(
        to, y, 4, turned ? (const int64_t[]){0, 2, 3, 1} : (const int64_t[]){0, 2, 1, 3});
}

static const char *attention_operators(const td__layer *layer, td__operators *to,
                                       const char *const *inputs, const td_shape *shapes) {
    (void)shapes;
    const td_multi_head_attention_layer *options = layer->options;
    const char *q = project_operators(layer, to, inputs[0], QUERY, options->key_dim, false);
    const char *k =
        project_operators(layer, to, inputs[key_input(layer)], KEY, options->key_dim, true);
    const char *v =
        project_operators(layer, to, inputs[value_input(layer)], VALUE, options->value_dim, false);
    q = TD__OPERATOR(to, "Mul", q, td__operator_number(to, 1 / sqrt((double)options->key_dim)));
    const char *scores = TD__OPERATOR(to, "MatMul", q, k);
    scores = options->causal ? td__operator_causal(to, scores, 4) : scores;
    const char *mixed =
        TD__OPERATOR(to, "MatMul", td__operator_activation(to, scores, TD_SOFTMAX, TD_DEFAULT), v);
    mixed = td__operator_transpose(to, mixed, 4, (const int64_t[]){0, 2, 1, 3});
    mixed = td__operator_reshape(to, mixed, 3,
                                 (const int64_t[]){0, -1, options->heads * options->value_dim});
    return dense_operators(layer, to, mixed, OUTPUT, layer->info.output.dims[1]);
}

static const td__keras_option keras[] = {
    {"num_heads", TD__KERAS_NUMBER, "heads"},     {"key_dim", TD__KERAS_NUMBER, "key_dim"},
    {"value_dim", TD__KERAS_NUMBER, "value_dim"}, {"attention_axes", TD__KERAS_ONE, NULL},
    {"dropout", TD__KERAS_NUMBER, "dropout"},     {"flash_attention", TD__KERAS_IGNORED, NULL},
    {"query_shape", TD__KERAS_IGNORED, NULL},     {"key_shape", TD__KERAS_IGNORED, NULL},
    {"value_shape", TD__KERAS_IGNORED, NULL},     TD__KERAS_KERNEL_AND_BIAS};
static const td__torch_weight torch[] = {
    TD__TORCH_MATRIX("in_proj_weight", "query_kernel", .part = 0, .parts = 3),
    TD__TORCH_MATRIX("in_proj_weight", "key_kernel", .part = 1, .parts = 3),
    TD__TORCH_MATRIX("in_proj_weight", "value_kernel", .part = 2, .parts = 3),
    TD__TORCH_VECTOR("in_proj_bias", "query_bias", .part = 0, .parts = 3),
    TD__TORCH_VECTOR("in_proj_bias", "key_bias", .part = 1, .parts = 3),
    TD__TORCH_VECTOR("in_proj_bias", "value_bias", .part = 2, .parts = 3),
    TD__TORCH_MATRIX("out_proj.weight", "attention_output_kernel", .merge_first = true),
    TD__TORCH_VECTOR("out_proj.bias", "attention_output_bias", ),
};

const td__layer_kind td__multi_head_attention_kind = {
    TD__KIND(fields, td_multi_head_attention_layer, plan_attention, forward_attention),
    TD__IS(ATTENTION, OTHER),
    TD__TORCH_WITH("nn.MultiheadAttention", torch),
    TD__KERAS(keras, ATTENTION),
    .min_from = 1,
    .max_from = 3,
    .operators = attention_operators,
    .mask = td__mask_pass,
    .reads_mask = true,
    .views = td__attention_views,
    .view_count = TD__ATTENTION_VIEWS};
