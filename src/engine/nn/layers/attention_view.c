/* What attention layers can be asked about after a forward pass: how spread out the weights of each head are
 * (entropy), how large its scores grow (max_logit), and the weights themselves (map).
 *
 * The weights of short sequences are kept for the way back. Those of long ones are computed again, one row at a
 * time, from queries and keys. Where weights are dropped or masked, the layer computes with tensors of its own,
 * and these are read.
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

/* How many columns the row sees. */
static int64_t visible(const source *from, int64_t row) {
    return from->fused && from->fused->causal && row + 1 < from->s ? row + 1 : from->s;
}

/* The weights of the columns that a row sees; room has space for them. */
static const float *weights_of(const source *from, int64_t head, int64_t row, float *room) {
    const td__attention *a = from->fused;
    const float *kept = a ? a->probabilities : from->weights;
    if (kept) {
        return kept + (head * from->t + row) * from->s;
    }
    int64_t example = head / a->beside, lane = head % a->beside, n = visible(from, row);
    const float *q = from->q + ((example * a->t + row) * a->beside + lane) * a->d;
    const float *k = from->k + (example * a->s * a->beside + lane) * a->d;
    for (int64_t i = 0; i < n; i++) {
        room[i] = a->scale * td__kernels()->dot(a->d, q, k + i * a->beside * a->d);
    }
    td__kernels()->softmax(1, n, room, room);
    return room;
}

static float largest_of(const source *from, int64_t head, int64_t row) {
    int64_t at = head * from->t + row;
    if (from->fused) {
        return from->fused->stats[2 * at];
    }
    const float *scores = from->scores + at * from->s;
    float largest = -INFINITY;
    for (int64_t i = 0; i < from->s; i++) {
        largest = scores[i] > largest || isnan(scores[i]) ? scores[i] : largest;
    }
    return largest;
}

/* ---- All heads ------------------------------------------------------------------------------- */

typedef struct work {
    const source *from;
    view_kind kind;
    float *to;
    float *rooms; /* (threads, s) */
} work;

/* The mean entropy of a head's rows, or its largest score. A query that does not count, all of whose scores are
 * masked, is left out. */
static float head_number(const work *w, int64_t head, float *room) {
    const source *from = w->from;
    double entropies = 0;
    float largest = -INFINITY;
    int64_t rows = 0;
    for (int64_t row = 0; row < from->t; row++) {
        float most = largest_of(from, head, row);
        if (!from->fused && most <= masked) {
            continue;
        }
        rows++;
        largest = most > largest || isnan(most) ? most : largest;
        if (w->kind == VIEW_ENTROPY) {
            const float *weights = weights_of(from, head, row, room);
            entropies += (double)td__kernels()->entropy(visible(from, row), weights);
        }
    }
    if (w->kind == VIEW_MAX_LOGIT) {
        return largest;
    }
    return rows ? (float)(entropies / (double)rows) : NAN;
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
            size_t n = (size_t)visible(from, row);
            memset(to, 0, (size_t)from->s * sizeof *to);
            memcpy(to, weights_of(from, head, row, room), n * sizeof *to);
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
