/* What the network of a run is, for those who look at it: the fact `network` of run.db. */
#ifndef TAPEDECK_TRAIN_NETWORK_H
#define TAPEDECK_TRAIN_NETWORK_H

#include "train/trainer.h"

/* Notes the layers of the trainer's model, built, from the input on, as JSON:
 * [{"name": "conv1", "kind": "conv2d", "shape": "(8, 8, 16)", "parameters": 160, "from": []}, …] */
void td__note_network(td_trainer *trainer);

#endif
