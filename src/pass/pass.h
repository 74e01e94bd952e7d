/* What every pass of a batch through a model needs, whether it trains, validates or is applied. */
#ifndef TAPEDECK_PASS_PASS_H
#define TAPEDECK_PASS_PASS_H

#include "tapedeck/data.h"
#include "tapedeck/nn.h"

/* What a prediction is compared with. */
typedef enum td__target { TD__TARGET_LABEL, TD__TARGET_INPUT } td__target;

/* Points a head at a batch's memory; no copy. */
void td__head_set(td_tensor *head, const td_view *view);
/* Gives a truth the prediction's shape where only the shape differs. */
void td__truth_fit(td_loss loss, td_tensor *truth, const td_tensor *prediction);
/* What a loss can be compared with: a class number where it is sparse, else numbers. */
td_label_kind td__labels_for(td_loss loss, td_label_kind found);
/* The activation that gives this loss its probabilities: "softmax", "sigmoid"; NULL when it takes
 * none. */
const char *td__probabilities_by(td_loss loss);
/* The activation that the model's last layer ends in: "linear", "softmax", …; NULL when that is not
 * known. */
const char *td__last_activation(const td_model *model);
/* How many classes the output of a model scores by this loss, and above which score a single output
 * means the second of two; 0 when it scores none. */
int64_t td__scored_classes(td_loss loss, bool from_logits, const td_shape *output,
                           double *threshold);
/* The shape of one example; rank 0 unless all of it is known. */
td_shape td__known_input(const td_model *model);

#endif
