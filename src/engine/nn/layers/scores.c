/* attention, additive_attention: softmax(scores of query and key) value, without projections
 *
 * scores (batch, steps, steps of the value):
 *   dot       scale q k^T
 *   concat    weight * sum over features of tanh(scale (q + k))
 *   additive  sum over features of scale tanh(q + k)
 * A step of the value that does not count is 1e9 less; one of the query puts out zeros.
 */
#include "nn/operators.h"

#include <math.h>

static const char *const score_mode_names[] = {"dot", "concat"};
static const td__words score_mode_words = {"score_mode", score_mode_names, TD_SCORE_MODE_COUNT,
                                           NULL, NULL};

#define SHARED_FIELDS                                                                              \
    TD__RATE(td_attention_layer, dropout),                                                         \
        TD__FIELD(BOOL, td_attention_layer, causal, .alias = "use_causal_mask")
static const td__field dot_fields[] = {
    TD__LAYER_FIELDS,
    TD__BOOL(td_attention_layer, use_scale),
    TD__WORD(td_attention_layer, score_mode, score_mode_words, TD_SCORE_DOT),
    SHARED_FIELDS,
};
static const td__field additive_fields[] = {
    TD__LAYER_FIELDS,
    TD__NOT(td_attention_layer, no_scale, "use_scale"),
    SHARED_FIELDS,
};

enum { SCALE, WEIGHT };

/* Keras's order of inputs: query, value, key; without a key it is the value. */
static size_t key_input(const td__layer *layer) {
    return layer->info.input_count > 2 ? 2 : 1;
}

/* *features gets those of query and key. */
static td_status plan_scores(td__layer *layer, const td_shape *inputs, int64_t *features,
                             td_error *error) {
    const td_attention_layer *options = layer->options;
    const td_shape *query = &inputs[0], *value = &inputs[1], *key = &inputs[key_input(layer)];
    const td_shape *all[] = {query, value, key};
    int64_t last[3] = {0};
    for (int i = 0; i < 3; i++) {
        td_status status = td__layer_need_rank(layer, all[i], 2, "(steps, features)", error);
        status = status ? status : td__layer_need_last(layer, all[i], &last[i], error);
        if (status) {
            return status;
        }
    }
    if (options->dropout >= 1) {
        return td__layer_error(layer, error, TD_RANGE, "'dropout' must be less than 1");
    }
    bool apart = key->dims[0] >= 0 && value->dims[0] >= 0 && key->dims[0] != value->dims[0];
    if (last[0] != last[2] || apart) {
        char a[TD_SHAPE_TEXT_SIZE], b[TD_SHAPE_TEXT_SIZE], c[TD_SHAPE_TEXT_SIZE];
        return td__layer_error(
            layer, error, TD_BAD_SHAPE,
            "query %s and key %s must have as many features as each other, value "
            "%s as many steps as the key",
            td_shape_text(query, a), td_shape_text(key, b), td_shape_text(value, c));
    }
    *features = last[0];
    layer->info.output = TD_SHAPE(query->dims[0], last[1]);
    return TD_OK;
}

static td_status plan_dot(td__layer *layer, const td_shape *inputs, td_error *error) {
    const td_attention_layer *options = layer->options;
    const td_initializer ones = {.kind = TD_ONES};
    int64_t features;
    td_status status = plan_scores(layer, inputs, &features, error);
    if (!status && options->use_scale) {
        td__layer_parameter(layer, SCALE, "scale", (td_shape){0}, ones, 0, 0);
    }
    if (!status && options->score_mode == TD_SCORE_CONCAT) {
        td__layer_parameter(layer, WEIGHT, "concat_score_weight", (td_shape){0}, ones, 0, 0);
    }
    return status;
}

static td_status plan_additive(td__layer *layer, const td_shape *inputs, td_error *error) {
    const td_attention_layer *options = layer->options;
    int64_t features;
    td_status status = plan_scores(layer, inputs, &features, error);
    if (!status && !options->no_scale) {
        td__layer_parameter(layer, SCALE, "scale", TD_SHAPE(features),
                            (td_initializer){.kind = TD_GLOROT_UNIFORM}, 0, 0);
    }
    return status;
}

/* --- forward ---------------------------------------------------------------------------------- */

/* y[b, i, j, :] = q[b, i, :] + k[b, j, :] */
static td_tensor *every_pair(td_tape *tape, td_tensor *q, td_tensor *k) {
    const int64_t *a = q->shape.dims, *b = k->shape.dims;
    return td_add(tape, td_reshape(tape, q, TD_SHAPE(a[0], a[1], 1, a[2])),
                  td_reshape(tape, k, TD_SHAPE(b[0], 1, b[1], b[2])));
}

static td_tensor *scaled(td__layer *layer, td_tape *tape, td_tensor *x, int slot) {
    return layer->slot[slot] ? td_multiply(tape, x, layer->slot[slot]) : x;
}

static td_tensor *scores_of(td__layer *layer, td_tape *tape, td_tensor *q, td_tensor *k) {
    const td_attention_layer *options = layer->options;
    const td_reduce_options last = {.size = sizeof last, .count = 1, .axes = {-1}};
    if (layer->info.kind == TD_LAYER_ADDITIVE_ATTENTION) {
        td_tensor *each = td_tanh(tape, every_pair(tape, q, k));
        return td_sum(tape, scaled(layer, tape, each, SCALE), &last);
    }
    if (options->score_mode == TD_SCORE_CONCAT) {
        td_tensor *each = td_tanh(tape, scaled(layer, tape, every_pair(tape, q, k), SCALE));
        return scaled(layer, tape, td_sum(tape, each, &last), WEIGHT);
    }
    const td_matmul_options transposed = {.size = sizeof transposed, .transpose_b = true};
    return scaled(layer, tape, td_matmul(tape, q, k, &transposed), SCALE);
}

/* -1e9 for scores that do not count, else 0: (batch or 1, steps or 1, steps of the value); NULL: all
 * count. */
static td_tensor *penalty(td__layer *layer, td_tape *tape, const td_tensor *scores) {
    const td_attention_layer *options = layer->options;
    const td_tensor *mask = layer->masks[1];
    if (!options->causal && !mask) {
        return NULL;
    }
    int64_t batch = mask ? scores->shape.dims[0] : 1;
    int64_t rows = options->causal ? scores->shape.dims[1] : 1, columns = scores->shape.dims[2];
    td_tensor *less = td__output(tape, TD_FLOAT32, &TD_SHAPE(batch, rows, columns));
    for (int64_t i = 0; less && i < less->count; i++) {
        int64_t column = i % columns, row = i / columns % rows, example = i / columns / rows;
        bool after = options->causal && column > row;
        bool left_out = mask && td__floats(mask)[example * columns + column] == 0;
        td__floats(less)[i] = after || left_out ? -1e9f : 0;
    }
    return less;
}

static td_tensor *forward_scores(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    const td_attention_layer *options = layer->options;
    td_tensor *scores = scores_of(layer, tape, inputs[0], inputs[key_input(layer)]);
    td_tensor *less = scores ? penalty(layer, tape, scores) : NULL;
    scores = less ? td_add(tape, scores, less) : scores;
    td_tensor *weights = td_softmax(tape, scores, -1);
    weights = td_dropout(tape, weights, (float)options->dropout);
    td_tensor *y = td_matmul(tape, weights, inputs[1], NULL);
    return layer->masks[0] ? td__mask_apply(tape, y, layer->masks[0]) : y;
}

/* --- as operators ------------------------------------------------------------------------------ */

static const char *scaled_operators(const td__layer *layer, td__operators *to, const char *x,
                                    int slot) {
    return layer->slot[slot] ? TD__OPERATOR(to, "Mul", x, td__operator_parameter(to, layer, slot))
                             : x;
}

static const char *score_operators(const td__layer *layer, td__operators *to, const char *q,
                                   const char *k) {
    const td_attention_layer *options = layer->options;
    bool additive = layer->info.kind == TD_LAYER_ADDITIVE_ATTENTION;
    if (!additive && options->score_mode == TD_SCORE_DOT) {
        const char *turned = td__operator_transpose(to, k, 3, (const int64_t[]){0, 2, 1});
        return scaled_operators(layer, to, TD__OPERATOR(to, "MatMul", q, turned), SCALE);
    }
    const int64_t two = 2, one = 1, last = -1;
    const char *each = TD__OPERATOR(
        to, "Add", TD__OPERATOR(to, "Unsqueeze", q, td__operator_integers(to, 1, &two)),
        TD__OPERATOR(to, "Unsqueeze", k, td__operator_integers(to, 1, &one)));
    each = additive ? each : scaled_operators(layer, to, each, SCALE);
    each = TD__OPERATOR(to, "Tanh", each);
    each = additive ? scaled_operators(layer, to, each, SCALE) : each;
    const td__attribute keep = TD__NAMED_INT("keepdims", 0);
    const char *both[] = {each, td__operator_integers(to, 1, &last)};
    const char *sum = td__operator(to, "ReduceSum", 2, both, 1, &keep);
    return additive ? sum : scaled_operators(layer, to, sum, WEIGHT);
}

static const char *scores_operators(const td__layer *layer, td__operators *to,
                                    const char *const *inputs, const td_shape *shapes) {
    (void)shapes;
    const td_attention_layer *options = layer->options;
    const char *scores = score_operators(layer, to, inputs[0], inputs[key_input(layer)]);
    scores = options->causal ? td__operator_causal(to, scores, 3) : scores;
    const char *weights = td__operator_activation(to, scores, TD_SOFTMAX, TD_DEFAULT);
    return TD__OPERATOR(to, "MatMul", weights, inputs[1]);
}

#define KERAS                                                                                      \
    {"use_scale", TD__KERAS_SWITCH, "use_scale"}, {                                                \
        "dropout", TD__KERAS_NUMBER, "dropout"                                                     \
    }
static const td__keras_option dot_keras[] = {KERAS, {"score_mode", TD__KERAS_WORD, "score_mode"}};
static const td__keras_option additive_keras[] = {KERAS};
#define KIND(what, torch_name)                                                                     \
    {                                                                                              \
        TD__KIND(what##_fields, td_attention_layer, plan_##what, forward_scores),                  \
            TD__IS(ATTENTION, OTHER), TD__TORCH(torch_name), TD__KERAS(what##_keras, VARS),        \
            .min_from = 2, .max_from = 3, .operators = scores_operators, .mask = td__mask_pass,    \
            .mask_from = TD__MASK_OF_QUERY, .reads_mask = true                                     \
    }
const td__layer_kind td__attention_kind = KIND(dot, "functional.scaled_dot_product_attention");
const td__layer_kind td__additive_attention_kind = KIND(additive, "");
