/* Everything at once. In the order of a program's life:
 *
 *   tensor.h      arrays of up to eight dimensions, and views of memory that somebody else owns
 *   tape.h        a tape remembers operations and gives the gradient of one tensor by any others
 *   ops.h         the operations
 *   nn.h          networks, all of these at once:
 *     layers.h        layer kinds and their options; initializers.h: what parameters start with
 *     network.h       models: building, running, what they consist of
 *     losses.h, optimizers.h, metrics.h
 *     settings.h      options as keys and values; catalog.h: which there are
 *   data.h        data sets, batches
 *   deck.h        the recorder: tracks, conditions, sinks
 *   stats.h       statistics, histograms and fingerprints of a view
 *   model.h       saved models and weights
 *   experiment.h  experiment files; suggest.h: a first one for data that nobody has described
 *   train.h       training as they say
 *   apply.h       saved models over data: predictions, gradients
 *   replay.h      executing recorded steps again: replay, origin, diff, branches
 *   run.h         reading back what was recorded
 *   sql.h         queries over runs
 *   sweep.h       one experiment with many settings
 *   diagnose.h    what is wrong with a training
 *   view.h        the viewer
 *
 * A whole program: a network learns exclusive or, and what happens in it is recorded.
 *
 *     #include <tapedeck/tapedeck.h>
 *
 *     int main(void) {
 *         td_error error = {0};
 *         td_model *model = td_model_create("xor", TD_SHAPE(2));            // one example's shape
 *         td_add_dense(model, .name = "hidden", .units = 8, .activation = TD_TANH);
 *         td_add_dense(model, .name = "output", .units = 1, .activation = TD_SIGMOID);
 *         if (td_model_build(model, 1, &error)) {                           // 1: the seed
 *             return fprintf(stderr, "%s\n", error.text);                   // the first mistake above
 *         }
 *         td_tensor *const *weights, *gradients[8], *error_of_hidden;
 *         size_t count = td_model_trainable(model, &weights);
 *         td_optimizer *adam =
 *             td_optimizer_create(TD_OPTIMIZER(.kind = TD_ADAM, .learning_rate = TD_SET(0.05)), count,
 *                                 weights, &error);
 *         float points[4][2] = {{0, 0}, {0, 1}, {1, 0}, {1, 1}}, truth[4][1] = {{0}, {1}, {1}, {0}};
 *         td_tensor *x = td_tensor_borrow("x", TD_FLOAT32, TD_SHAPE(4, 2), points, &error);
 *         td_tensor *y = td_tensor_borrow("y", TD_FLOAT32, TD_SHAPE(4, 1), truth, &error);
 *         td_tape *tape = td_tape_create(NULL, &error);
 *
 *         td_deck *deck = td_deck_open("runs/xor", &error);                 // the recorder
 *         td_deck_track(deck, .what = "loss", .every = 10, .to = "csv");
 *         td_deck_track(deck, .what = "hidden.error", .every = 100, .form = TD_HISTOGRAM);
 *
 *         float loss = 0;
 *         for (int64_t step = 1; step <= 500 && !error.status; step++) {
 *             td_tensor *output = td_model_forward(model, tape, x);         // owned by the tape
 *             td_tensor *mean = td_mse(tape, output, y, NULL), *hidden = td_model_output(model, "hidden");
 *             if (!td_tape_gradient(tape, mean, count, weights, gradients, &error) &&
 *                 !td_tape_gradient(tape, mean, 1, &hidden, &error_of_hidden, &error)) {
 *                 loss = td_tensor_scalar(mean);
 *                 td_deck_scalar(deck, "loss", loss);
 *                 td_deck_record(deck, "hidden.error", td_view_of(error_of_hidden));
 *                 td_deck_step(deck, 1, step);                              // epoch 1
 *                 (void)!td_optimizer_step(adam, gradients, &error);
 *             }
 *             td_tape_reset(tape);                                          // its tensors are gone
 *         }
 *         printf("loss %.3f\n", loss);
 *         td_deck_close(deck, &error);
 *         td_tape_destroy(tape);
 *         td_optimizer_destroy(adam);
 *         td_tensor_destroy(x);
 *         td_tensor_destroy(y);
 *         td_model_destroy(model);
 *         return error.status != TD_OK;
 *     }
 *
 * Conventions: a function that can fail returns a td_status (TD_OK is 0) or a pointer (NULL is failure),
 * and fills in the optional td_error, which the caller owns. create/destroy are for the heap; destroy
 * accepts NULL. Zero in an options struct means the default. Headers say of each pointer whether it is
 * borrowed for the call, copied, or owned by the callee from then on.
 */
#ifndef TAPEDECK_TAPEDECK_H
#define TAPEDECK_TAPEDECK_H

#include "tapedeck/apply.h"
#include "tapedeck/base.h"
#include "tapedeck/data.h"
#include "tapedeck/deck.h"
#include "tapedeck/diagnose.h"
#include "tapedeck/experiment.h"
#include "tapedeck/model.h"
#include "tapedeck/nn.h"
#include "tapedeck/ops.h"
#include "tapedeck/replay.h"
#include "tapedeck/run.h"
#include "tapedeck/sql.h"
#include "tapedeck/stats.h"
#include "tapedeck/suggest.h"
#include "tapedeck/sweep.h"
#include "tapedeck/tape.h"
#include "tapedeck/tensor.h"
#include "tapedeck/train.h"
#include "tapedeck/view.h"

#endif
