/* What a model is trained for: a loss, and what it is compared with. */
#ifndef TAPEDECK_PASS_OBJECTIVE_H
#define TAPEDECK_PASS_OBJECTIVE_H

#include "tapedeck/data.h"
#include "tapedeck/nn.h"

/* What a prediction is compared with. */
typedef enum td__target { TD__TARGET_LABEL, TD__TARGET_INPUT } td__target;

typedef struct td__objective {
    td_loss loss;
    td_loss_options options;
    int target; /* td__target */
} td__objective;

/* What a loss can be compared with: a class number where it is sparse, else numbers. */
td_label_kind td__labels_for(td_loss loss, td_label_kind found);
/* The activation that gives this loss its probabilities: "softmax", "sigmoid"; NULL when it takes
 * none. */
const char *td__probabilities_by(td_loss loss);
/* The activation that the model's last layer ends in: "linear", "softmax", …; NULL when that is not
 * known. */
const char *td__last_activation(const td_model *model);
/* How many classes the output of a model scores by this objective, and above which score a single
 * output means the second of two; 0 when it scores none. */
int64_t td__scored_classes(const td__objective *objective, const td_shape *output,
                           double *threshold);
/* The shape of one example; rank 0 unless all of it is known. */
td_shape td__known_input(const td_model *model);

#endif
