/* Random numbers: the tape's own, or where a node has a seed, that node's, the same every time. They
 * are not those of another library with the same seed. */
#include "base/random.h"
#include "graph/host.h"
#include "graph/ops/common.h"

#include <math.h>
#include <string.h>

/* Numbers one by one. */
typedef struct stream {
    uint64_t key, counter;
    uint32_t words[4];
} stream;

static stream stream_of(td__graph_call *call) {
    const td__graph_attribute *seed = td__graph_attribute_of(call->node, "seed");
    stream made = {.key = td__random_key(call->tape)};
    if (seed && seed->kind == TD__GRAPH_ATTRIBUTE_FLOAT) {
        uint32_t bits;
        memcpy(&bits, &seed->number, sizeof bits);
        made.key = bits;
    }
    return made;
}

/* In [0, 1), with 24 digits as a float has. */
static double uniform(stream *s) {
    if (s->counter % 4 == 0) {
        td__philox(s->key, s->counter / 4, s->words);
    }
    return (s->words[s->counter++ % 4] >> 8) * 0x1p-24;
}

/* Box and Muller's way. */
static double normal(stream *s) {
    double radius = sqrt(-2 * log(1 - uniform(s)));
    return radius * cos(2 * M_PI * uniform(s));
}

/* What is asked for by attributes, or like an input. */
static td_tensor *asked_for(td__graph_call *call, bool like, td__graph_type *type) {
    const int64_t *dims;
    size_t rank = td__graph_ints(call->node, "shape", &dims);
    td__graph_type own = like ? td__graph_input(call, 0)->type : TD__GRAPH_FLOAT;
    int64_t declared = td__graph_int(call->node, "dtype", own);
    td_shape shape = like ? td__graph_shape(call, 0) : (td_shape){.rank = (int32_t)rank};
    *type = declared >= 0 && declared < INT32_MAX ? (td__graph_type)declared : TD__GRAPH_UNDEFINED;
    if (!td__graph_is_stored(*type) || rank > TD_MAX_RANK) {
        (void)td__graph_fail(call, TD_UNSUPPORTED, "of type %s", td__graph_type_name(*type));
        return NULL;
    }
    if (!like) {
        memcpy(shape.dims, dims, rank * sizeof *dims);
    }
    return td__graph_new(call, *type, shape);
}

static bool fill_uniform(td__graph_call *call, bool like) {
    td__graph_type type;
    double low = (double)td__graph_float(call->node, "low", 0);
    double high = (double)td__graph_float(call->node, "high", 1);
    td_tensor *y = asked_for(call, like, &type);
    stream s = stream_of(call);
    for (int64_t i = 0; y && i < y->count; i++) {
        td__graph_put_real(y, i, low + (high - low) * uniform(&s));
    }
    return td__graph_output(call, 0, type, y);
}

static bool fill_normal(td__graph_call *call, bool like) {
    td__graph_type type;
    double mean = (double)td__graph_float(call->node, "mean", 0);
    double scale = (double)td__graph_float(call->node, "scale", 1);
    td_tensor *y = asked_for(call, like, &type);
    stream s = stream_of(call);
    for (int64_t i = 0; y && i < y->count; i++) {
        td__graph_put_real(y, i, mean + scale * normal(&s));
    }
    return td__graph_output(call, 0, type, y);
}

static bool random_uniform(td__graph_call *call) {
    return fill_uniform(call, false);
}

static bool random_uniform_like(td__graph_call *call) {
    return fill_uniform(call, true);
}

static bool random_normal(td__graph_call *call) {
    return fill_normal(call, false);
}

static bool random_normal_like(td__graph_call *call) {
    return fill_normal(call, true);
}

/* 1 with the probability that the input says. */
static bool bernoulli(td__graph_call *call) {
    td__graph_type type;
    td_tensor *p = td__graph_plain(call, 0), *y = p ? asked_for(call, true, &type) : NULL;
    stream s = stream_of(call);
    for (int64_t i = 0; y && i < y->count; i++) {
        td__graph_put_integer(y, i, uniform(&s) < td__graph_real(p, i));
    }
    return y && td__graph_output(call, 0, type, y);
}

/* Classes, each as likely as exp of its (unnormalised) logarithm says. */
static bool multinomial(td__graph_call *call) {
    td_tensor *x = td__graph_plain(call, 0);
    int64_t samples = td__graph_int(call->node, "sample_size", 1);
    int64_t declared = td__graph_int(call->node, "dtype", TD__GRAPH_INT32);
    if (!x || x->shape.rank != 2 || samples < 1 || x->shape.dims[1] < 1 ||
        (declared != TD__GRAPH_INT32 && declared != TD__GRAPH_INT64)) {
        return td__graph_fail(call, TD_BAD_SHAPE, "its input must be rows of classes");
    }
    int64_t classes = x->shape.dims[1];
    td_tensor *y = td__output(call->tape, TD_INT64, &TD_SHAPE(x->shape.dims[0], samples));
    stream s = stream_of(call);
    for (int64_t i = 0; y && i < y->count; i++) {
        int64_t row = i / samples * classes, best = 0;
        double max = -INFINITY;
        for (int64_t c = 0; c < classes; c++) { /* the Gumbel trick: the largest of these */
            double value = td__graph_real(x, row + c) - log(-log(uniform(&s) + 0x1p-25));
            best = value > max ? c : best;
            max = value > max ? value : max;
        }
        ((int64_t *)y->data)[i] = best;
    }
    return td__graph_output(call, 0, (td__graph_type)declared, y);
}

const td__graph_operator td__graph_random[] = {
    {"Bernoulli", bernoulli, 1, 1, 1, 15, 0, td__graph_infer_same},
    {"Multinomial", multinomial, 1, 1, 1, 7, 0, NULL},
    {"RandomNormal", random_normal, 0, 0, 1, 0, 0, NULL},
    {"RandomNormalLike", random_normal_like, 1, 1, 1, 0, 0, td__graph_infer_same},
    {"RandomUniform", random_uniform, 0, 0, 1, 0, 0, NULL},
    {"RandomUniformLike", random_uniform_like, 1, 1, 1, 0, 0, td__graph_infer_same},
    {0},
};
