/* What attention layers can be asked about after a forward pass: how spread out the weights of each head are
 * (entropy), how large its scores grow (max_logit), and the weights themselves (map).
 *
 * The fused operation keeps the largest score of each row, and its entropy if that is announced before the forward
 * pass. It keeps the weights of short sequences for the way back; those of long ones are computed again, one row at
 * a time, from queries and keys. Where weights are dropped or masked, the layer computes with tensors of its own, and
 * these are read.
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

/* ---- All heads ------------------------------------------------------------------------------- */

typedef struct work {
    const source *from;
    view_kind kind;
    float *to;
    float *rooms; /* (threads, s) */
} work;

/* The mean entropy of a head's rows, or its largest score, from what the fused operation kept. */
static float fused_number(const work *w, int64_t head) {
    const td__attention *a = w->from->fused;
    double entropies = 0;
    float largest = -INFINITY;
    for (int64_t row = head * a->t; row < (head + 1) * a->t; row++) {
        float most = a->stats[2 * row];
        largest = most > largest || isnan(most) ? most : largest;
        entropies += w->kind == VIEW_ENTROPY ? (double)a->entropies[row] : 0;
    }
    return w->kind == VIEW_MAX_LOGIT ? largest : (float)(entropies / (double)a->t);
}

static float largest_of(int64_t n, const float *scores) {
    float largest = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        largest = scores[i] > largest || isnan(scores[i]) ? scores[i] : largest;
    }
    return largest;
}

/* The same of separate operations. A query that does not count, all of whose scores are masked, is left out. */
static float separate_number(const work *w, int64_t head) {
    const source *from = w->from;
    double entropies = 0;
    float largest = -INFINITY;
    int64_t rows = 0;
    for (int64_t row = 0; row < from->t; row++) {
        int64_t at = (head * from->t + row) * from->s;
        float most = largest_of(from->s, from->scores + at);
        if (most <= masked) {
            continue;
        }
        rows++;
        largest = most > largest || isnan(most) ? most : largest;
        if (w->kind == VIEW_ENTROPY) {
            entropies += (double)td__kernels()->entropy(from->s, from->weights + at);
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
            w->to[head] = from->fused ? fused_number(w, head) : separate_number(w, head);
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

static void announce_entropy(td_tape *tape) {
    tape->keeps_entropy = true;
}

static td_tensor *max_logit(const td__layer *layer, td_tape *tape) {
    return compute(layer, tape, VIEW_MAX_LOGIT);
}

static td_tensor *map(const td__layer *layer, td_tape *tape) {
    return compute(layer, tape, VIEW_MAP);
}

const td__layer_view td__attention_views[TD__ATTENTION_VIEWS] = {
    {"entropy", announce_entropy, entropy}, {"max_logit", NULL, max_logit}, {"map", NULL, map}};
