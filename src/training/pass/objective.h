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

/* What one of several outputs is trained for. */
typedef struct td__head {
    td__objective objective;
    double weight;              /* of its loss in the sum of all */
    const td_data_piece *label; /* its part of a label's row; borrowed; NULL: all of the label */
    td_label_kind kind;         /* what that part is handed over as */
} td__head;

/* Which kind of label a head of this loss is compared with, where its part of the row has `elements`
 * and the output `units` units. */
td_label_kind td__head_kind(td_loss loss, int64_t elements, int64_t units);
/* In the last axis of what an output of the model has; 1 where that is not known. */
int64_t td__output_units(const td_model *model, size_t output);
/* What a loss can be compared with: a class number where it is sparse, else numbers. */
td_label_kind td__labels_for(td_loss loss, td_label_kind found);
/* What makes probabilities of an output that has this objective. */
td_link td__link_of(const td__objective *objective);
/* The activation that gives this loss its probabilities: "softmax", "sigmoid"; NULL when it takes
 * none. */
const char *td__probabilities_by(td_loss loss);
/* The activation that an output of the model ends in: "linear", "softmax", …; NULL when that is not
 * known. */
const char *td__output_activation(const td_model *model, size_t output);
const td_layer_info *td__output_layer(const td_model *model, size_t output);
/* How many classes the output of a model scores by this objective, and above which score a single
 * output means the second of two; 0 when it scores none. */
int64_t td__scored_classes(const td__objective *objective, const td_shape *output,
                           double *threshold);
/* Whether what a model trained for this puts out are values, not scores of classes. */
bool td__predicts_values(const td__objective *objective);
/* Sets how large each input of a model of several inputs is in the data, where those are there by name. */
void td__describe_inputs(td_model *model, const td_data_info *info);
/* The shape of one example; rank 0 unless all of it is known. */
td_shape td__known_input(const td_model *model);

#endif
