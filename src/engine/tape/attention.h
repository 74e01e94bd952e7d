/* Attention over all heads, in blocks of queries.
 *
 * A block's scores, over all keys it sees, are all that exists of the score matrix at a time. The
 * probabilities of short sequences are kept for the way back; those of long ones are computed again
 * there, to the same bits, from each row's largest score and the sum: memory grows with the length of a
 * sequence, not with its square. Results have the same bits for every number of threads.
 */
#ifndef TAPEDECK_TAPE_ATTENTION_H
#define TAPEDECK_TAPE_ATTENTION_H

#include "tape/op.h"

typedef struct td__attention {
    int64_t heads, t, s, d, e; /* q (heads, t, d), k (heads, s, d), v (heads, s, e) */
    /* How many heads lie beside each other in a step: q (heads / beside, t, beside, d), …. */
    int64_t beside;
    float scale;
    bool causal;
    int32_t rank;                                         /* of the scores, (…, t, s) */
    int64_t dims[TD_MAX_RANK], mask_strides[TD_MAX_RANK]; /* 0 where the mask broadcasts */
    float *probabilities;                                 /* (heads, t, s), or NULL: not kept */
    float *stats;     /* (heads, t, 2): the largest score, 1 / sum of e^(score - largest) */
    float *entropies; /* (heads, t), in nats; NULL: the tape was not asked for them */
} td__attention;

/* What the passes read and write; mask may be NULL. */
typedef struct td__attention_work {
    const td__attention *attention;
    const float *q, *k, *v, *mask;
    float *y;
    /* backward */
    const float *g;
    float *dq, *dk, *dv; /* NULL: not wanted; one may be another */
    bool add_q, add_k, add_v;
    float *ds; /* (heads, t, s), scale times the gradient of the scores; NULL: not wanted */
} td__attention_work;

/* Whether keeping the probabilities is cheaper than computing them again. */
bool td__attention_keeps(const td__attention *attention);
/* Where the mask of a head begins. */
int64_t td__attention_mask_offset(const td__attention *attention, int64_t head);
td_status td__attention_forward(td_tape *tape, const td__attention_work *work);
td_status td__attention_backward(td_tape *tape, const td__attention_work *work);

#endif
