/* Losses: operations that compare a prediction with the truth.
 *
 * The result is a scalar: the mean over the batch (after sample weights), as Keras's
 * sum_over_batch_size; with per_example, one value per example. */
#ifndef TAPEDECK_LOSSES_H
#define TAPEDECK_LOSSES_H

#include "tapedeck/settings.h"
#include "tapedeck/tape.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TD_LOSS_LIST(X)                                                                            \
    X(MSE, "mse")                                                                                  \
    X(MAE, "mae")                                                                                  \
    X(HUBER, "huber")                                                                              \
    X(BINARY_CROSSENTROPY, "binary_crossentropy")                                                  \
    X(CATEGORICAL_CROSSENTROPY, "categorical_crossentropy")                                        \
    X(SPARSE_CATEGORICAL_CROSSENTROPY, "sparse_categorical_crossentropy")                          \
    X(KL_DIVERGENCE, "kl_divergence")                                                              \
    X(MAPE, "mape") /* mean absolute error in percent of the truth */                              \
    X(MSLE, "msle") /* mean squared error of ln(1 + x) */                                          \
    X(LOG_COSH, "log_cosh")                                                                        \
    X(POISSON, "poisson")                                                                          \
    X(HINGE, "hinge") /* truths are -1 and 1; where all of a batch are 0 and 1, 0 stands for -1 */ \
    X(SQUARED_HINGE, "squared_hinge")                                                              \
    X(CATEGORICAL_HINGE, "categorical_hinge")                                                      \
    X(COSINE_SIMILARITY, "cosine_similarity") /* from -1, the same direction, to 1 */              \
    X(BINARY_FOCAL_CROSSENTROPY, "binary_focal_crossentropy")                                      \
    X(CATEGORICAL_FOCAL_CROSSENTROPY, "categorical_focal_crossentropy")

typedef enum td_loss {
#define TD_LOSS_MEMBER(name, text) TD_LOSS_##name,
    TD_LOSS_LIST(TD_LOSS_MEMBER)
#undef TD_LOSS_MEMBER
        TD_LOSS_COUNT
} td_loss;

typedef struct td_loss_options {
    size_t size;
    bool from_logits;         /* cross-entropies: predictions are not probabilities yet */
    bool per_example;         /* shape (batch, …) without the last axis, instead of the mean */
    td_tensor *sample_weight; /* (batch,) or the shape of the per-example values; NULL: 1 */
    td_number delta;          /* huber: 1 */
    double label_smoothing;   /* binary and categorical cross-entropy */
    td_number gamma;          /* focal: the power of 1 - p, 2 */
    td_number alpha; /* focal: weight of class 1 (binary, when balanced), or of all, 0.25 */
    bool balanced;   /* binary focal: weigh class 1 with alpha, class 0 with 1 - alpha */
} td_loss_options;
TD_API const char *td_loss_name(td_loss loss);
/* Whether these options mean something for this loss: TD_INVALID when they do not. */
TD_API TD_NODISCARD td_status td_loss_check(td_loss loss, const td_loss_options *options,
                                            td_error *error);
TD_API TD_NODISCARD td_status td_loss_find(const char *name, td_loss *loss, td_error *error);
/* truth: like prediction, in float32; for sparse_categorical_crossentropy int32, int64 or uint8
 * class numbers, shaped like prediction without its last axis. */
TD_API td_tensor *td_loss_compute(td_tape *tape, td_loss loss, td_tensor *prediction,
                                  td_tensor *truth, const td_loss_options *options);
TD_API td_tensor *td_mse(td_tape *tape, td_tensor *prediction, td_tensor *truth,
                         const td_loss_options *options);
/* Options for td_sparse_categorical_crossentropy and its like: predictions are logits. */
#define TD_FROM_LOGITS TD_OPTIONS(td_loss_options, .from_logits = true)
TD_API td_tensor *td_sparse_categorical_crossentropy(td_tape *tape, td_tensor *prediction,
                                                     td_tensor *classes,
                                                     const td_loss_options *options);

/* Sets the loss and what the keys say ("huber", {delta: 2}); the rest of *options, which has its size,
 * stays as it is. TD_INVALID when an option means nothing for that loss. */
TD_API TD_NODISCARD td_status td_loss_configure(td_loss *loss, td_loss_options *options,
                                                const char *name, const td_setting *settings,
                                                size_t count, td_error *error);

#ifdef __cplusplus
}
#endif
#endif
