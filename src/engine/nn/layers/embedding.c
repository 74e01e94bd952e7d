/* embedding: rows of a table, chosen by index */
#include "nn/operators.h"

static const td__field fields[] = {
    TD__LAYER_FIELDS,
    TD__INTEGER(td_embedding_layer, vocabulary, "input_dim", 0, 1),
    TD__INTEGER(td_embedding_layer, width, "output_dim", 0, 1),
    TD__INITIALIZER(td_embedding_layer, embeddings_initializer, TD_RANDOM_UNIFORM),
    TD__FIELD(BOOL, td_embedding_layer, mask_zero, .quiet = true),
};

static td_status plan_embedding(td__layer *layer, const td_shape *inputs, td_error *error) {
    const td_embedding_layer *options = layer->options;
    td_shape output = inputs[0];
    if (output.rank + 2 > TD_MAX_RANK) {
        return td__layer_error(layer, error, TD_BAD_SHAPE, "its input has too many dimensions (%d)",
                               (int)output.rank);
    }
    output.dims[output.rank++] = options->width;
    layer->info.output = output;
    td__layer_parameter(layer, 0, "embeddings", TD_SHAPE(options->vocabulary, options->width),
                        options->embeddings_initializer, 0, 0);
    return TD_OK;
}

/* Data sets hand out float32: whole numbers become indices. The operation checks their range. */
static td_tensor *whole_numbers(td_tape *tape, const td_tensor *x) {
    td_tensor *indices = td__output(tape, TD_INT32, &x->shape);
    if (!indices) {
        return NULL;
    }
    const float *from = td__floats(x);
    int32_t *to = indices->data;
    for (int64_t i = 0; i < x->count; i++) {
        if (!(from[i] >= -16777216.0f && from[i] <= 16777216.0f) ||
            from[i] != (float)(int32_t)from[i]) {
            return td__fail(tape, TD_RANGE, "embedding: %g is no index: it must be a whole number",
                            (double)from[i]);
        }
        to[i] = (int32_t)from[i];
    }
    return indices;
}

static td_tensor *forward_embedding(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    td_tensor *indices = inputs[0];
    if (indices && indices->dtype == TD_FLOAT32) {
        indices = whole_numbers(tape, indices);
    }
    return td_embedding(tape, layer->slot[0], indices);
}

static const char *embedding_operators(const td__layer *layer, td__operators *to,
                                       const char *const *inputs, const td_shape *shapes) {
    (void)shapes;
    td__attribute type = {.name = "to", .type = TD__DTYPE, .dtype = TD_INT64};
    const char *indices = td__operator(to, "Cast", 1, inputs, 1, &type);
    return TD__OPERATOR(to, "Gather", td__operator_parameter(to, layer, 0), indices);
}

static bool has_mask(const td__layer *layer, bool any) {
    const td_embedding_layer *options = layer->options;
    (void)any;
    return options->mask_zero;
}

/* 1 where the index is not 0. */
static td_tensor *mask(td__layer *layer, td_tape *tape, td_tensor *const *inputs) {
    const td_tensor *x = inputs[0];
    td_tensor *counts = td__output(tape, TD_FLOAT32, &x->shape);
    (void)layer;
    for (int64_t i = 0; counts && i < x->count; i++) {
        bool zero = x->dtype == TD_FLOAT32 ? td__floats(x)[i] == 0
                    : x->dtype == TD_INT64 ? ((const int64_t *)x->data)[i] == 0
                                           : ((const int32_t *)x->data)[i] == 0;
        td__floats(counts)[i] = zero ? 0 : 1;
    }
    return counts;
}

static const td__keras_option keras[] = {
    {"input_dim", TD__KERAS_NUMBER, "vocabulary"},
    {"output_dim", TD__KERAS_NUMBER, "width"},
    {"embeddings_initializer", TD__KERAS_INITIALIZER, "embeddings_initializer"},
    {"mask_zero", TD__KERAS_SWITCH, "mask_zero"},
    {"input_length", TD__KERAS_IGNORED, NULL}};
static const td__torch_weight torch[] = {
    {.from = "weight", .to = "embeddings", .rank = 2, .axes = {0, 1}}};
const td__layer_kind td__embedding_kind = {
    TD__KIND_OF_ONE(fields, td_embedding_layer, plan_embedding, forward_embedding),
    TD__IS(LOOKUP, OTHER),
    TD__TORCH_WITH("nn.Embedding", torch),
    TD__KERAS(keras, VARS),
    .mask_from = TD__MASK_OF_INDICES,
    .integer_input = true,
    .index_count = "vocabulary",
    .operators = embedding_operators,
    .mask = mask,
    .has_mask = has_mask};
