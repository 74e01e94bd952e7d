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
 * Words: a function that can fail returns a td_status, TD_OK being 0, or a pointer, NULL being
 * failure; the optional td_error gets a sentence. create/destroy are for the heap; destroy accepts
 * NULL. Zero in an options struct means the default.
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
