/* What attention layers can be asked about after a forward pass: how spread out the weights of each head are
 * (entropy), how large its scores grow (max_logit), and the weights themselves (map).
 *
 * Attention keeps no score matrix. Of each row it keeps the largest score m and Z = sum of e^(score - m), and with
 * those the entropy of the row's weights p is ln Z - sum of p (score - m): scores are computed again, one row
 * at a time. Where weights are dropped or masked, the layer computes with tensors of its own, and these are read.
 */
#include "nn/layers/attention_view.h"

#include "tape/attention.h"
#include "tape/kernels.h"
#include "tape/parallel.h"
#include "tape/tape.h"

#include <math.h>
#include <string.h>

typedef enum view_kind { VIEW_ENTROPY, VIEW_MAX_LOGIT, VIEW_MAP } view_kind;

/* A head of an example: t rows of s weights. One of the two is there. */
typedef struct source {
    const td__attention *fused;
    const float *q, *k;            /* of the fused operation */
    const float *scores, *weights; /* of separate ones: (heads of all examples, t, s) */
    int64_t examples, heads, t, s;
} source;

/* Scores at or below it were masked: Keras adds -1e9. */
static const float masked = -1e8f;

/* The last operation of that name that the layer ran. */
static const td__node *find_node(const td__layer *layer, const td_tape *tape, const char *name) {
    for (size_t i = tape->node_count; i-- > 0;) {
        const td__node *node = &tape->nodes[i];
        if (node->label && layer->label && !strcmp(node->label, layer->label) &&
            !strcmp(node->op->name, name)) {
            return node;
        }
    }
    return NULL;
}

static bool find_source(const td__layer *layer, const td_tape *tape, source *from) {
    const td__node *node = find_node(layer, tape, "attention");
    *from = (source){0};
    if (node) {
        const td__attention *a = node->saved;
        *from = (source){.fused = a,
                         .heads = a->beside,
                         .t = a->t,
                         .s = a->s,
                         .examples = a->heads / a->beside,
                         .q = td__floats(node->inputs[0].tensor),
                         .k = td__floats(node->inputs[1].tensor)};
        return true;
    }
    node = find_node(layer, tape, "softmax");
    if (node && node->output->shape.rank == 4) {
        const int64_t *dims = node->output->shape.dims;
        *from = (source){.examples = dims[0],
                         .heads = dims[1],
                         .t = dims[2],
                         .s = dims[3],
                         .scores = td__floats(node->inputs[0].tensor),
                         .weights = td__floats(node->output)};
    }
    return from->weights != NULL;
}

/* ---- A row of a head ------------------------------------------------------------------------- */

/* Scores of the fused operation, over the columns that the row sees. Returns how many. */
static int64_t scores_of(const source *from, int64_t head, int64_t row, float *scores) {
    const td__attention *a = from->fused;
    int64_t visible = a->causal && row + 1 < a->s ? row + 1 : a->s;
    int64_t example = head / a->beside, lane = head % a->beside;
    const float *q = from->q + ((example * a->t + row) * a->beside + lane) * a->d;
    const float *k = from->k + (example * a->s * a->beside + lane) * a->d;
    for (int64_t i = 0; i < visible; i++) {
        scores[i] = a->scale * td__kernels()->dot(a->d, q, k + i * a->beside * a->d);
    }
    return visible;
}

static double largest_of(const float *scores, int64_t n) {
    float largest = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        largest = scores[i] > largest || isnan(scores[i]) ? scores[i] : largest;
    }
    return (double)largest;
}

/* Of the weights e^score / sum. */
static double entropy_of_scores(const float *scores, int64_t n) {
    float largest = (float)largest_of(scores, n);
    double sum = 0, mean = 0;
    for (int64_t i = 0; i < n; i++) {
        float below = scores[i] - largest;
        double weight = (double)expf(below);
        sum += weight;
        mean += weight * (double)below;
    }
    return log(sum) - mean / sum;
}

static double entropy_of_weights(const float *weights, int64_t n) {
    double entropy = 0;
    for (int64_t i = 0; i < n; i++) {
        entropy -= weights[i] > 0 ? (double)weights[i] * log((double)weights[i]) : 0;
    }
    return entropy;
}

static void weights_of_scores(float *scores, int64_t n, int64_t s) {
    float largest = (float)largest_of(scores, n), sum = 0;
    for (int64_t i = 0; i < n; i++) {
        scores[i] = expf(scores[i] - largest);
        sum += scores[i];
    }
    for (int64_t i = 0; i < s; i++) {
        scores[i] = i < n ? scores[i] / sum : 0;
    }
}

/* ---- All heads ------------------------------------------------------------------------------- */

typedef struct work {
    const source *from;
    view_kind kind;
    float *to;
    float *rooms; /* (threads, s) */
} work;

static float head_number(const work *w, int64_t head, float *room) {
    const source *from = w->from;
    double entropies = 0, largest = -(double)INFINITY;
    int64_t rows = 0;
    for (int64_t row = 0; row < from->t; row++) {
        int64_t at = (head * from->t + row) * from->s;
        int64_t n = from->fused ? scores_of(from, head, row, room) : from->s;
        double max = largest_of(from->fused ? room : from->scores + at, n);
        if (!from->fused && max <= (double)masked) {
            continue; /* a query that does not count */
        }
        rows++;
        largest = max > largest || isnan(max) ? max : largest;
        if (w->kind == VIEW_ENTROPY) {
            entropies += from->fused ? entropy_of_scores(room, n)
                                     : entropy_of_weights(from->weights + at, n);
        }
    }
    return (float)(rows == 0                 ? (double)NAN
                   : w->kind == VIEW_ENTROPY ? entropies / (double)rows
                                             : largest);
}

static void heads_part(void *context, int part, int64_t begin, int64_t end) {
    const work *w = context;
    const source *from = w->from;
    float *room = w->rooms + part * from->s;
    for (int64_t head = begin; head < end; head++) {
        if (w->kind != VIEW_MAP) {
            w->to[head] = head_number(w, head, room);
            continue;
        }
        float *to = w->to + head * from->t * from->s;
        for (int64_t row = 0; row < from->t; row++, to += from->s) {
            if (from->fused) {
                weights_of_scores(to, scores_of(from, head, row, to), from->s);
            } else {
                memcpy(to, from->weights + (head * from->t + row) * from->s,
                       (size_t)from->s * sizeof *to);
            }
        }
    }
}

static td_tensor *compute(const td__layer *layer, td_tape *tape, view_kind kind) {
    source from;
    if (!find_source(layer, tape, &from)) {
        return NULL;
    }
    td_shape shape = kind == VIEW_MAP ? TD_SHAPE(from.examples, from.heads, from.t, from.s)
                                      : TD_SHAPE(from.examples, from.heads);
    td_tensor *to = td__output(tape, TD_FLOAT32, &shape);
    td__buffer *rooms =
        to ? td__temporary(tape, (size_t)(TD__MAX_THREADS * from.s) * sizeof(float)) : NULL;
    if (!rooms) {
        return NULL;
    }
    work w = {&from, kind, td__floats(to), rooms->data};
    (void)td__parallel(from.examples * from.heads, 1, 1, heads_part, &w);
    td__buffer_drop(tape, rooms);
    return to;
}

static td_tensor *entropy(const td__layer *layer, td_tape *tape) {
    return compute(layer, tape, VIEW_ENTROPY);
}

static td_tensor *max_logit(const td__layer *layer, td_tape *tape) {
    return compute(layer, tape, VIEW_MAX_LOGIT);
}

static td_tensor *map(const td__layer *layer, td_tape *tape) {
    return compute(layer, tape, VIEW_MAP);
}

const td__layer_view td__attention_views[TD__ATTENTION_VIEWS] = {
    {"entropy", entropy}, {"max_logit", max_logit}, {"map", map}};
