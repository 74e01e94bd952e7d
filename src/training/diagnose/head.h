/* The end of a network: which activation, loss and number of units the labels call for. */
#ifndef TAPEDECK_DIAGNOSE_HEAD_H
#define TAPEDECK_DIAGNOSE_HEAD_H

#include "diagnose/rule.h"

bool td__is_crossentropy(td_loss loss);
/* Cross-entropies, focal ones too, take probabilities, or logits where the experiment says so. */
bool td__takes_probabilities(td_loss loss);
/* Losses that take logarithms of outputs and labels. */
bool td__takes_logarithms(td_loss loss);
/* Why the loss does not suit labels that are values; NULL: it may. *never: it cannot. */
const char *td__loss_misfit(td__case *c, bool *never);
/* The values an activation can put out. */
typedef struct td__range {
    double low, high;
} td__range;
td__range td__activation_range(td_activation activation);
/* Whether labels lie where the output cannot get to. */
bool td__labels_beyond(const td__case *c);
/* Whether a cross-entropy gets yes and no written as two other numbers: -1 and 1, 0 and 100. */
bool td__labels_are_signs(const td__case *c);
/* Edits that give the network the end its labels call for: activation, loss, units. */
void td__edit_head(td__case *c, td__suspicion *suspicion);
/* Only its activation. */
void td__edit_output(td__case *c, td__suspicion *suspicion);
/* The edits after which the loss takes probabilities. */
void td__edit_logits(td__case *c, td__suspicion *suspicion);
/* "softmax and sparse_categorical_crossentropy" */
const char *td__head_text(td__case *c);

#endif
