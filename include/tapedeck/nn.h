/* Networks: all headers about layers, models, losses, optimizers and metrics at once.
 *
 *     td_model *model = td_model_create("classifier", TD_SHAPE(28, 28, 1));    // of one example
 *     td_add_conv2d(model, .name = "conv1", .filters = 32, .kernel = {3}, .activation = TD_RELU);
 *     td_add_max_pool2d(model);
 *     td_add_flatten(model);
 *     td_add_dense(model, .name = "logits", .units = 10);
 *     if (td_model_build(model, 7, &error)) …         // the first thing that was wrong, and where
 *
 *     td_tensor *const *weights;
 *     size_t count = td_model_trainable(model, &weights);
 *     td_optimizer *adam =
 *         td_optimizer_create(TD_OPTIMIZER(.kind = TD_ADAM), count, weights, &error);
 *     td_tensor **gradients = calloc(count, sizeof *gradients);
 *     for (…) {
 *         td_tensor *logits = td_model_forward(model, tape, images);                  // (64, 10)
 *         td_tensor *loss =
 *             td_sparse_categorical_crossentropy(tape, logits, labels, TD_FROM_LOGITS);
 *         if (td_tape_gradient(tape, loss, count, weights, gradients, &error)) …
 *         if (td_optimizer_step(adam, gradients, &error)) …
 *         td_tape_reset(tape);
 *     }
 *
 * Names, defaults, equations and parameter layouts are Keras's.
 */
#ifndef TAPEDECK_NN_H
#define TAPEDECK_NN_H

#include "tapedeck/catalog.h"
#include "tapedeck/initializers.h"
#include "tapedeck/layers.h"
#include "tapedeck/losses.h"
#include "tapedeck/metrics.h"
#include "tapedeck/network.h"
#include "tapedeck/optimizers.h"
#include "tapedeck/settings.h"

#endif
