/* One batch through a model: forward, the loss with its penalties, any gradient. The deck is given
 * each tensor the moment it exists. Training, validation, predictions and gradients of saved models
 * are all such passes.
 *
 *     td__pass_forward(&pass, &batch, &error)     pass.prediction, pass.loss
 *     td__pass_backward(&pass, …)                 any number of times
 *     td__pass_end(&pass)                         all of it is gone
 */
#ifndef TAPEDECK_PASS_PASS_H
#define TAPEDECK_PASS_PASS_H

#include "pass/objective.h"
#include "pass/signals.h"

/* What came of an output and what it is compared with. */
typedef struct td__outcome {
    td_tensor *prediction;
    td_tensor *truth;      /* NULL: there is none */
    const td_tensor *mask; /* which of its steps count; NULL: all */
    td_tensor *loss;       /* its own, without weight; NULL: none */
} td__outcome;

typedef struct td__pass {
    td_model *model;                /* borrowed */
    const td__objective *objective; /* borrowed; NULL: there is no loss */
    const td__head *heads;          /* instead of objective, where there are several outputs … */
    size_t head_count;              /* … one for each; borrowed */
    td__pass_signals *signals;      /* borrowed; connected to a deck; NULL: nothing is recorded */
    /* What else the loss consists of, before penalties; may be NULL. */
    td_tensor *(*more_loss)(void *user, td_tape *tape, td_tensor *loss);
    void *more_user;
    td_gradient_ready
        *gradient_ready; /* called with each gradient as it is complete; may be NULL */
    void *ready_user;
    float scale; /* of the loss that gradients are taken of; 0: 1 */
    td_tape *tape;
    td_tensor *input, *truth; /* heads over the batch */
    td_tensor *weight;        /* the same, of how much its examples count */
    int64_t fixed;            /* the only number of examples that the model runs on; 0: any. A batch
                               * that has fewer is filled up with its last, and what comes out of
                               * those is cut off; such a batch has no gradients */
    float *padded;            /* room for that */
    td_tensor *cut;           /* its prediction */

    /* Between forward and end. */
    const td_batch *batch;
    td_tensor *prediction; /* of the first output */
    td__outcome outcomes[TD_MAX_OUTPUTS];
    td_tensor *bare; /* the loss without penalties */
    td_tensor *loss; /* both NULL where there is no objective, or the batch has no label for it */
} td__pass;

/* Makes a pass of zeros ready; whatever is returned, release it. options: the tape's. */
TD_NODISCARD td_status td__pass_init(td__pass *pass, td_model *model,
                                     const td__objective *objective, const td_tape_options *options,
                                     td_error *error);
void td__pass_release(td__pass *pass);

/* Whatever is returned, td__pass_end follows. batch is borrowed until then. */
TD_NODISCARD td_status td__pass_forward(td__pass *pass, const td_batch *batch, td_error *error);
/* Gradients of the loss, times scale, with respect to targets. signals[i] records the i-th as soon as it is
 * complete; signals may be NULL, as may each of them. Afterwards gradients has the first `kept`. */
TD_NODISCARD td_status td__pass_backward(td__pass *pass, size_t kept, size_t count,
                                         td_tensor *const targets[], td_tensor *gradients[],
                                         td__signal_entry *const signals[], td_error *error);
/* How many outcomes a pass has. */
size_t td__pass_outcome_count(const td__pass *pass);
/* What metrics compare: prediction and truth of an output, of a masked sequence the steps that count.
 * False when none does, or memory is exhausted. */
bool td__pass_counted(const td__pass *pass, size_t output, const td_tensor **prediction,
                      const td_tensor **truth);
/* The loss of each example in an output, without weights and penalties: *losses is (batch, …), gone
 * with the pass's end. */
TD_NODISCARD td_status td__pass_example_losses(td__pass *pass, size_t output,
                                               const td_tensor **losses, td_error *error);
void td__pass_end(td__pass *pass);

#endif
