/* Attention in blocks of queries; see attention.h. */
#include "tape/attention.h"

#include "tape/gemm.h"
#include "tape/parallel.h"

#include <string.h>

enum {
    BLOCK_FLOATS = 65536, /* of a block's scores: 256 KiB */
    KEPT_FLOATS = 1 << 22 /* of an operation's probabilities: 16 MiB */
};

bool td__attention_keeps(const td__attention *a) {
    return a->heads * a->t * a->s <= KEPT_FLOATS;
}

int64_t td__attention_mask_offset(const td__attention *a, int64_t head) {
    int64_t offset = 0;
    for (int32_t i = a->rank - 3; i >= 0; i--) {
        offset += head % a->dims[i] * a->mask_strides[i];
        head /= a->dims[i];
    }
    return offset;
}

/* Memory of one thread, in floats. */
typedef struct rooms {
    int64_t keys, values; /* packed, for the scores (k^T) and for their gradient (v^T) */
    int64_t mixed;        /* packed v (forward), packed k (backward) */
    int64_t queries;      /* packed q or g of a block */
    int64_t scores;       /* of a block, twice in the way back */
} rooms;

typedef struct pass {
    const td__attention_work *work;
    const td__attention *a;
    int64_t block, blocks; /* queries of a block, blocks of a head */
    rooms rooms;
    int64_t room; /* sum of the rooms */
    float *memory;
} pass;

/* Queries [first, first + rows) of a head, which see columns [0, visible) of the keys. */
typedef struct queries {
    int64_t head, first, rows, visible;
    td__scores scores;
} queries;

/* Where a head's row of a step begins, of `steps`, in q, k, v, y and their gradients. */
static int64_t place_of_head(const td__attention *a, int64_t head, int64_t steps, int64_t step,
                             int64_t width) {
    return ((head / a->beside * steps + step) * a->beside + head % a->beside) * width;
}

static int64_t panel_floats(int64_t n, int64_t k) {
    return (int64_t)(td__panels_bytes(n, k) / sizeof(float));
}

static pass make_pass(const td__attention_work *w) {
    const td__attention *a = w->attention;
    int64_t min = 2 * td__kernels()->tile_rows, block = BLOCK_FLOATS / (a->s + 1);
    block = block > min ? block : min;
    pass p = {.work = w, .a = a, .block = block < a->t ? block : a->t};
    p.blocks = (a->t + p.block - 1) / (p.block ? p.block : 1);
    int64_t widest = a->d > a->e ? a->d : a->e;
    p.rooms = (rooms){.keys = panel_floats(a->s, a->d),
                      .values = panel_floats(a->s, a->e),
                      .mixed = panel_floats(widest, a->s),
                      .queries = panel_floats(widest, p.block),
                      .scores = p.block * a->s};
    p.room = p.rooms.keys + p.rooms.values + p.rooms.mixed + p.rooms.queries + 2 * p.rooms.scores;
    return p;
}

static queries block_of(const pass *p, int64_t head, int64_t number) {
    const td__attention *a = p->a;
    queries q = {.head = head, .first = number * p->block};
    q.rows = a->t - q.first < p->block ? a->t - q.first : p->block;
    int64_t seen = q.first + q.rows;
    q.visible = a->causal && seen < a->s ? seen : a->s;
    q.scores = (td__scores){
        .rows = q.rows,
        .n = q.visible,
        .row = a->s,
        .first = q.first,
        .scale = a->scale,
        .causal = a->causal,
        .mask = p->work->mask ? p->work->mask + td__attention_mask_offset(a, head) : NULL,
        .mask_strides = {a->mask_strides[a->rank - 2], a->mask_strides[a->rank - 1]}};
    return q;
}

/* q k^T */
static void raw_scores(const pass *p, const queries *q, td__panels keys, float *scores) {
    const td__attention *a = p->a;
    td__gemm_panels(
        &(td__gemm_arguments){.m = q->rows,
                              .n = q->visible,
                              .k = a->d,
                              .a = p->work->q + place_of_head(a, q->head, a->t, q->first, a->d),
                              .lda = a->beside * a->d,
                              .c = scores,
                              .ldc = a->s},
        keys);
}

static float *stats_of(const pass *p, const queries *q) {
    return p->a->stats + (q->head * p->a->t + q->first) * 2;
}

static float *kept_of(const pass *p, const queries *q) {
    const td__attention *a = p->a;
    return a->probabilities ? a->probabilities + (q->head * a->t + q->first) * a->s : NULL;
}

static td__panels pack_keys(const pass *p, int64_t head, float *room) {
    const td__attention *a = p->a;
    return td__panels_of(p->work->k + place_of_head(a, head, a->s, 0, a->d), a->beside * a->d, true,
                         a->s, a->d, room);
}

/* --- forward -------------------------------------------------------------------------------- */

/* Blocks [begin, end) of all heads' after each other. */
static void attention_forward_part(void *context, int part, int64_t begin, int64_t end) {
    const pass *p = context;
    const td__attention *a = p->a;
    float *room = p->memory + part * p->room, *mixed = room + p->rooms.keys;
    float *own = mixed + p->rooms.mixed;
    td__panels keys = {0}, values = {0};
    for (int64_t i = begin; i < end; i++) {
        queries q = block_of(p, i / p->blocks, i % p->blocks);
        if (i == begin || q.first == 0) {
            keys = pack_keys(p, q.head, room);
            values = td__panels_of(p->work->v + place_of_head(a, q.head, a->s, 0, a->e),
                                   a->beside * a->e, false, a->e, a->s, mixed);
        }
        float *scores = kept_of(p, &q);
        scores = scores ? scores : own;
        float *raw = scores;
        if (a->entropies) {
            raw = scores == own ? own + p->rooms.scores : own;
            q.scores.entropies = a->entropies + q.head * a->t + q.first;
            q.scores.raw = raw;
        }
        raw_scores(p, &q, keys, raw);
        td__kernels()->attention_softmax(&q.scores, stats_of(p, &q), scores);
        td__gemm_panels(
            &(td__gemm_arguments){.m = q.rows,
                                  .n = a->e,
                                  .k = q.visible,
                                  .a = scores,
                                  .lda = a->s,
                                  .c = p->work->y + place_of_head(a, q.head, a->t, q.first, a->e),
                                  .ldc = a->beside * a->e},
            values);
    }
}

static td_status run_attention_pass(td_tape *tape, pass *p, int64_t count,
                                    td__parallel_body *body) {
    td__buffer *memory = td__temporary(tape, (size_t)(p->room * td_threads()) * sizeof(float));
    if (!memory) {
        return TD_MEMORY;
    }
    p->memory = memory->data;
    const td__attention *a = p->a;
    int64_t work = count ? a->heads * a->t * a->s * (a->d + a->e) / count : 0;
    td__parallel(count, 1, 200000 / (work + 1) + 1, body, p);
    td__buffer_drop(tape, memory);
    return TD_OK;
}

td_status td__attention_forward(td_tape *tape, const td__attention_work *work) {
    pass p = make_pass(work);
    return run_attention_pass(tape, &p, p.a->heads * p.blocks, attention_forward_part);
}

/* --- backward ------------------------------------------------------------------------------- */

/* What a head's blocks share. */
typedef struct head_panels {
    td__panels keys, values_across, keys_along;
} head_panels;

/* c (+)= scores^T times rows of b, which belong to the block's queries */
static void add_across(const pass *p, const queries *q, const float *scores, const float *b,
                       int64_t width, bool add, float *c, float *packing) {
    td__gemm_serial(&(td__gemm_arguments){.m = q->visible,
                                          .n = width,
                                          .k = q->rows,
                                          .a = scores,
                                          .lda = p->a->s,
                                          .transpose_a = true,
                                          .b = b,
                                          .ldb = p->a->beside * width,
                                          .c = c,
                                          .ldc = p->a->beside * width,
                                          .flags = add ? TD__TILE_ADD : 0},
                    packing);
}

/* ds = scale p (g v^T - …) */
static void score_gradients(const pass *p, const queries *q, const head_panels *head,
                            const float *probabilities, float *ds) {
    const td__attention *a = p->a;
    td__gemm_panels(
        &(td__gemm_arguments){.m = q->rows,
                              .n = q->visible,
                              .k = a->e,
                              .a = p->work->g + place_of_head(a, q->head, a->t, q->first, a->e),
                              .lda = a->beside * a->e,
                              .c = ds,
                              .ldc = a->s},
        head->values_across);
    td__kernels()->attention_softmax_backward(&q->scores, probabilities, ds);
}

/* One block's share of all gradients; add: to what is there, for all of them. */
static void backward_block(const pass *p, const queries *q, const head_panels *head, bool add,
                           float *room) {
    const td__attention *a = p->a;
    const td__attention_work *w = p->work;
    int64_t query = place_of_head(a, q->head, a->t, q->first, a->d),
            mixed = place_of_head(a, q->head, a->t, q->first, a->e);
    float *packing = room, *again = room + p->rooms.queries, *ds = again + p->rooms.scores;
    const float *probabilities = kept_of(p, q);
    if (!probabilities) {
        raw_scores(p, q, head->keys, again);
        td__kernels()->attention_again(&q->scores, stats_of(p, q), again);
        probabilities = again;
    }
    ds = w->ds ? w->ds + (q->head * a->t + q->first) * a->s : ds;
    if (w->dq || w->dk || w->ds) {
        score_gradients(p, q, head, probabilities, ds);
    }
    if (w->dq) {
        td__gemm_panels(&(td__gemm_arguments){.m = q->rows,
                                              .n = a->d,
                                              .k = q->visible,
                                              .a = ds,
                                              .lda = a->s,
                                              .c = w->dq + query,
                                              .ldc = a->beside * a->d,
                                              .flags = add || w->add_q ? TD__TILE_ADD : 0},
                        head->keys_along);
    }
    if (w->dk) {
        add_across(p, q, ds, w->q + query, a->d, add || w->add_k,
                   w->dk + place_of_head(a, q->head, a->s, 0, a->d), packing);
    }
    if (w->dv) {
        add_across(p, q, probabilities, w->g + mixed, a->e, add || w->add_v,
                   w->dv + place_of_head(a, q->head, a->s, 0, a->e), packing);
    }
}

static void clear(const td__attention *a, float *gradient, bool add, int64_t head, int64_t steps,
                  int64_t width) {
    for (int64_t step = 0; gradient && !add && step < steps; step++) {
        memset(gradient + place_of_head(a, head, steps, step, width), 0,
               (size_t)width * sizeof *gradient);
    }
}

static void attention_backward_part(void *context, int part, int64_t begin, int64_t end) {
    const pass *p = context;
    const td__attention *a = p->a;
    const td__attention_work *w = p->work;
    float *keys = p->memory + part * p->room, *values = keys + p->rooms.keys;
    float *mixed = values + p->rooms.values, *rest = mixed + p->rooms.mixed;
    for (int64_t number = begin; number < end; number++) {
        const float *k = w->k + place_of_head(a, number, a->s, 0, a->d);
        const float *v = w->v + place_of_head(a, number, a->s, 0, a->e);
        head_panels head = {
            .values_across = td__panels_of(v, a->beside * a->e, true, a->s, a->e, values),
            .keys_along = td__panels_of(k, a->beside * a->d, false, a->d, a->s, mixed)};
        if (!a->probabilities) {
            head.keys = pack_keys(p, number, keys);
        }
        /* One block that sees all keys overwrites; otherwise all add to zeros, first to last, because
         * one tensor may be several of the inputs. */
        bool add = p->blocks > 1 || (a->causal && a->t < a->s);
        if (add) {
            clear(a, w->dq, w->add_q, number, a->t, a->d);
            clear(a, w->dk, w->add_k, number, a->s, a->d);
            clear(a, w->dv, w->add_v, number, a->s, a->e);
        }
        for (int64_t i = 0; i < p->blocks; i++) {
            queries q = block_of(p, number, i);
            backward_block(p, &q, &head, add, rest);
        }
    }
}

td_status td__attention_backward(td_tape *tape, const td__attention_work *work) {
    pass p = make_pass(work);
    const td__attention *a = p.a;
    if (work->ds) { /* blocks leave out what they do not see */
        memset(work->ds, 0, (size_t)(a->heads * a->t * a->s) * sizeof(float));
    }
    return run_attention_pass(tape, &p, a->heads, attention_backward_part);
}
