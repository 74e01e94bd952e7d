/* Scaled dot-product attention */
#include "gradient/op_table.h"

typedef struct setting {
    td_number scale;
    bool causal;
    bool self; /* q is k is v */
} setting;

static td_tensor *build(td_tape *tape, td_tensor *const in[], const void *options) {
    const setting *s = options;
    td_attention_options o = {
        .size = sizeof o, .scale = s->scale, .mask = s->self ? NULL : in[3], .causal = s->causal};
    return s->self ? td_attention(tape, in[0], in[0], in[0], &o)
                   : td_attention(tape, in[0], in[1], in[2], &o);
}

/* The mask's value for an element of the scores, counted from their start. */
static double mask_at(const op_array *mask, const td_shape *scores, int64_t index) {
    int64_t offset = 0, stride = 1;
    for (int32_t i = 1; i <= mask->shape.rank; i++) {
        int64_t dim = mask->shape.dims[mask->shape.rank - i];
        int64_t size = scores->dims[scores->rank - i];
        offset += dim == 1 ? 0 : index % size * stride;
        index /= size;
        stride *= dim;
    }
    return mask->shape.rank ? mask->values[offset] : 0;
}

static void reference(const op_array in[], op_array *out, const void *options) {
    const setting *o = options;
    const op_array *q = &in[0], *k = o->self ? q : &in[1], *v = o->self ? q : &in[2];
    int32_t rank = q->shape.rank;
    int64_t t = q->shape.dims[rank - 2], s = k->shape.dims[rank - 2], d = q->shape.dims[rank - 1];
    int64_t e = v->shape.dims[rank - 1];
    double scale = o->scale.set ? o->scale.value : 1 / sqrt((double)d);
    td_shape scores = q->shape;
    scores.dims[rank - 1] = s;
    for (int64_t row = 0; row < q->count / d; row++) {
        int64_t head = row / t, i = row % t;
        double total = 0;
        for (int64_t c = 0; c < e; c++) {
            out->values[row * e + c] = 0;
        }
        for (int64_t j = 0; j < s && !(o->causal && j > i); j++) {
            double score = o->self ? 0 : mask_at(&in[3], &scores, row * s + j);
            for (int64_t c = 0; c < d; c++) {
                score += scale * q->values[row * d + c] * k->values[(head * s + j) * d + c];
            }
            total += exp(score);
            for (int64_t c = 0; c < e; c++) {
                out->values[row * e + c] += exp(score) * v->values[(head * s + j) * e + c];
            }
        }
        for (int64_t c = 0; c < e; c++) {
            out->values[row * e + c] /= total;
        }
    }
}

static const setting plain = {0}, scaled = {.scale = TD_SET(0.7f)}, causal = {.causal = true};
static const setting self = {.self = true}, self_causal = {.self = true, .causal = true};

#define NONE                                                                                       \
    { .optional = true }
#define MASK(...)                                                                                  \
    { .shape = TD_SHAPE(__VA_ARGS__) }
/* The same for a whole row: changes nothing. */
#define ROWS(...)                                                                                  \
    { .shape = TD_SHAPE(__VA_ARGS__), .constant = true }
#define CASE(what, options_, q, k, v, mask, y)                                                     \
    {                                                                                              \
        .name = "attention, " what,                                                                \
        .inputs = {{.shape = TD_SHAPE q}, {.shape = TD_SHAPE k}, {.shape = TD_SHAPE v}, mask},     \
        .input_count = 4, .output = TD_SHAPE y, .build = build, .reference = reference,            \
        .options = options_                                                                        \
    }

static const op_case cases[] = {
    CASE("one head", &plain, (4, 3), (5, 3), (5, 2), NONE, (4, 2)),
    {.name = "attention, one position", /* only the value has a gradient, the others' is zero */
     .inputs = {{.shape = TD_SHAPE(1, 1), .constant = true},
                {.shape = TD_SHAPE(1, 1), .constant = true},
                {.shape = TD_SHAPE(1, 1)},
                NONE},
     .input_count = 4,
     .output = TD_SHAPE(1, 1),
     .build = build,
     .reference = reference,
     .options = &plain},
    CASE("scale", &scaled, (2, 4, 3), (2, 5, 3), (2, 5, 2), NONE, (2, 4, 2)),
    CASE("causal", &causal, (2, 3, 6, 3), (2, 3, 6, 3), (2, 3, 6, 4), NONE, (2, 3, 6, 4)),
    CASE("causal, more keys", &causal, (2, 3, 4), (2, 7, 4), (2, 7, 4), NONE, (2, 3, 4)),
    CASE("mask", &plain, (2, 3, 4, 3), (2, 3, 5, 3), (2, 3, 5, 2), MASK(4, 5), (2, 3, 4, 2)),
    CASE("mask of keys", &plain, (2, 3, 4, 3), (2, 3, 5, 3), (2, 3, 5, 2), MASK(2, 1, 1, 5),
         (2, 3, 4, 2)),
    CASE("mask of queries", &plain, (2, 3, 4, 3), (2, 3, 5, 3), (2, 3, 5, 2), ROWS(3, 4, 1),
         (2, 3, 4, 2)),
    CASE("mask and causal", &causal, (2, 3, 5, 3), (2, 3, 5, 3), (2, 3, 5, 2), MASK(2, 3, 5, 5),
         (2, 3, 5, 2)),
    CASE("heads", &plain, (3, 4, 35, 16), (3, 4, 33, 16), (3, 4, 33, 16), NONE, (3, 4, 35, 16)),
    {.name = "attention to itself",
     .inputs = {{.shape = TD_SHAPE(3, 5, 4)}},
     .output = TD_SHAPE(3, 5, 4),
     .build = build,
     .reference = reference,
     .options = &self},
    {.name = "attention to itself, causal",
     .inputs = {{.shape = TD_SHAPE(3, 5, 4)}},
     .output = TD_SHAPE(3, 5, 4),
     .build = build,
     .reference = reference,
     .options = &self_causal},
};

#define MISTAKE(what, q, k, v, mask, text_)                                                        \
    {                                                                                              \
        .name = "attention, " what,                                                                \
        .inputs = {{.shape = TD_SHAPE q}, {.shape = TD_SHAPE k}, {.shape = TD_SHAPE v}, mask},     \
        .input_count = 4, .build = build, .options = &plain, .status = TD_BAD_SHAPE, .text = text_ \
    }

static const op_mistake mistakes[] = {
    MISTAKE("keys of another width", (4, 3), (5, 2), (5, 2), NONE,
            "attention: q (4, 3), k (5, 2) and v (5, 2) do not fit: they must be (..., t, d), "
            "(..., s, d) and (..., s, e)"),
    MISTAKE("heads differ", (2, 4, 3), (3, 5, 3), (3, 5, 3), NONE,
            "attention: q (2, 4, 3), k (3, 5, 3) and v (3, 5, 3) do not fit: they must be "
            "(..., t, d), (..., s, d) and (..., s, e)"),
    MISTAKE("mask", (2, 4, 3), (2, 5, 3), (2, 5, 3), MASK(5, 4),
            "attention: mask (5, 4) does not fit the scores (2, 4, 5)"),
    MISTAKE("mask of too high a rank", (4, 3), (5, 3), (5, 3), MASK(1, 4, 5),
            "attention: mask (1, 4, 5) does not fit the scores (4, 5)"),
};

const op_group cases_attention = {OP_LIST(cases), OP_LIST(mistakes)};
