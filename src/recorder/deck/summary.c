/* The pass over a tensor, by the thread that records it or by all that compute. */
#include "deck/summary.h"

#include "tensor/stats.h"

#include <string.h>

/* Fewer elements are not worth waking a thread. */
enum { SMALLEST_PART = 32768 };

/* A tensor in parts: contiguous, of whole blocks, so that their statistics are those of the blocks. */
typedef struct passage {
    const td_view *view;
    int64_t count;
    int32_t parts;
    bool histogram;
    char *copy;
    td__summary *of_part;
} passage;

static int64_t part_begin(const passage *p, int32_t part) {
    int64_t blocks = (p->count + TD__BLOCK - 1) / TD__BLOCK;
    int64_t begin = blocks * part / p->parts * TD__BLOCK;
    return begin < p->count ? begin : p->count;
}

static void reduce_part(void *context, int32_t part) {
    const passage *p = context;
    int64_t begin = part_begin(p, part), count = part_begin(p, part + 1) - begin;
    size_t offset = (size_t)begin * td_dtype_size(p->view->dtype);
    td_view view = {.dtype = p->view->dtype,
                    .shape = TD_SHAPE(count),
                    .data = (const char *)p->view->data + offset};
    td__summary *s = &p->of_part[part];
    td__reduce(&view, count,
               &(td__reduction){&s->stats, p->histogram ? s->bins : NULL, &s->histogram,
                                p->copy ? p->copy + offset : NULL});
}

/* of_part has one more than there are parts: lists of bins are merged from one into another. */
static void join_parts(const passage *p, td__summary *s) {
    td__summary *spare = &p->of_part[p->parts];
    s->stats = p->of_part[0].stats;
    td_histogram merged = p->of_part[0].histogram;
    for (int32_t i = 1; i < p->parts; i++) {
        td__stats_join(&s->stats, &p->of_part[i].stats, part_begin(p, i));
        if (p->histogram) {
            td_bin *into = (p->parts - i) % 2 ? s->bins : spare->bins; /* the last into s */
            td_histogram both;
            td_histogram_merge(&merged, &p->of_part[i].histogram, into, &both);
            merged = both;
        }
    }
    s->histogram = merged;
}

static void reduce_all(const td_deck *deck, passage *p, td__summary *s) {
    if (p->of_part) {
        deck->run_parts(p->parts, reduce_part, p);
        join_parts(p, s);
    } else {
        td__reduce(
            p->view, p->count,
            &(td__reduction){&s->stats, p->histogram ? s->bins : NULL, &s->histogram, p->copy});
    }
}

void td__summary_copy(td__summary *to, const td__summary *from) {
    to->stats = from->stats;
    to->hash = from->hash;
    memcpy(to->bins, from->bins, (size_t)from->histogram.bin_count * sizeof *to->bins);
    to->histogram = (td_histogram){.bins = to->bins, .bin_count = from->histogram.bin_count};
}

void td__summary_take(td_deck *deck, const td__plan *plan, const td_view *view, bool probe,
                      void *copy, td__summary *summary) {
    if (plan->given) {
        td__summary_copy(summary, plan->given);
        return;
    }
    passage p = {
        .view = view, .count = plan->count, .histogram = plan->forms & TD_HISTOGRAM, .copy = copy};
    bool reduces = probe || (plan->forms & (TD_STATS | TD_HISTOGRAM | TD_SCALAR));
    int64_t worth = plan->count / SMALLEST_PART;
    p.parts = worth < deck->parts ? (int32_t)worth : deck->parts;
    size_t room = (size_t)(p.parts + 1) * sizeof *p.of_part;
    if (reduces && p.parts > 1) { /* without memory for it, one part is as good */
        p.of_part = td__deck_pool_take(&deck->recycler.pool, room);
    }
    td__deck_unlock(deck);
    if (reduces) {
        reduce_all(deck, &p, summary);
    } else if (copy && plan->count) {
        memcpy(copy, view->data, plan->data_bytes);
    }
    if (plan->forms & TD_HASH) {
        (void)!td_hash_of(view, &summary->hash, NULL); /* the view was checked */
    }
    td__deck_lock(deck);
    if (p.of_part) {
        td__deck_pool_give(&deck->recycler.pool, p.of_part, room);
    }
}
