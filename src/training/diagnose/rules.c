/* The table of rules: symptoms first. Causes stand in the order in which one brings about the
 * other: what is wrong with the program, with the data, with the network, and then what could be
 * tuned. */
#include "diagnose/rule.h"

#include <string.h>

#define RULES(X)                                                                                   \
    X(nan_loss)                                                                                    \
    X(inf_loss)                                                                                    \
    X(divergence)                                                                                  \
    X(oscillation)                                                                                 \
    X(plateau)                                                                                     \
    X(slow_convergence)                                                                            \
    X(loss_floor)                                                                                  \
    X(huge_loss)                                                                                   \
    X(overfit_gap)                                                                                 \
    X(validation_below_training)                                                                   \
    X(early_end)                                                                                   \
    X(vanishing_gradient)                                                                          \
    X(exploding_gradient)                                                                          \
    X(zero_gradient)                                                                               \
    X(unchanged_weights)                                                                           \
    X(shrinking_weights)                                                                           \
    X(huge_activations)                                                                            \
    X(dead_relu)                                                                                   \
    X(saturated_units)                                                                             \
    X(symmetric_units)                                                                             \
    X(attention_collapse)                                                                          \
    X(attention_logits)                                                                            \
    X(constant_output)                                                                             \
    X(majority_class)                                                                              \
    X(stale_optimizer)                                                                             \
    X(optimizer_of_frozen)                                                                         \
    X(idle_updates)                                                                                \
    X(parameter_without_optimizer)                                                                 \
    X(detached_loss)                                                                               \
    X(gradients_cleared)                                                                           \
    X(gradients_added_up)                                                                          \
    X(parameter_without_gradient)                                                                  \
    X(parameter_unchanged)                                                                         \
    X(zero_learning_rate)                                                                          \
    X(evaluation_mode)                                                                             \
    X(training_mode)                                                                               \
    X(dropout_in_evaluation)                                                                       \
    X(scheduler_before_optimizer)                                                                  \
    X(scheduler_per_batch)                                                                         \
    X(clipping_before_unscaling)                                                                   \
    X(clipping_always)                                                                             \
    X(clipping_never)                                                                              \
    X(skipped_updates)                                                                             \
    X(workers_repeat_data)                                                                         \
    X(repeated_batch)                                                                              \
    X(random_state_lost)                                                                           \
    X(unregistered_layers)                                                                         \
    X(untrained_frozen)                                                                            \
    X(broadcast_in_loss)                                                                           \
    X(labels_shuffled)                                                                             \
    X(broken_weight_tying)                                                                         \
    X(train_not_called)                                                                            \
    X(autocast_ignored)                                                                            \
    X(spectral_norm_unset)                                                                         \
    X(batch_norm_of_one)                                                                           \
    X(replicas_drift)                                                                              \
    X(replicas_same_data)                                                                          \
    X(slow_rank)                                                                                   \
    X(nonfinite_input)                                                                             \
    X(nonfinite_label)                                                                             \
    X(nonfinite_weights)                                                                           \
    X(bad_labels)                                                                                  \
    X(bad_row)                                                                                     \
    X(data_leak)                                                                                   \
    X(wrong_output_units)                                                                          \
    X(wrong_output_activation)                                                                     \
    X(missing_output_activation)                                                                   \
    X(redundant_softmax)                                                                           \
    X(wrong_loss)                                                                                  \
    X(labels_out_of_range)                                                                         \
    X(division_by_zero)                                                                            \
    X(overflow)                                                                                    \
    X(precision_lost)                                                                              \
    X(moment2_lost)                                                                                \
    X(rank_collapse)                                                                               \
    X(noisy_inputs)                                                                                \
    X(class_imbalance)                                                                             \
    X(too_little_data)                                                                             \
    X(unshuffled_data)                                                                             \
    X(unscaled_inputs)                                                                             \
    X(unscaled_targets)                                                                            \
    X(bad_initialization)                                                                          \
    X(missing_activation)                                                                          \
    X(wrong_hidden_activation)                                                                     \
    X(dropout_too_high)                                                                            \
    X(over_regularization)                                                                         \
    X(clip_too_small)                                                                              \
    X(missing_normalization)                                                                       \
    X(too_deep)                                                                                    \
    X(missing_bias)                                                                                \
    X(too_little_capacity)                                                                         \
    X(batch_too_small)                                                                             \
    X(learning_rate_too_high)                                                                      \
    X(stopped_too_early)                                                                           \
    X(learning_rate_too_low)                                                                       \
    X(too_few_epochs)                                                                              \
    X(wrong_optimizer)                                                                             \
    X(batch_too_large)                                                                             \
    X(overfitting)

#define DECLARE(name) extern const td__rule td__rule_##name;
RULES(DECLARE)
#undef DECLARE

#define ENTRY(name) &td__rule_##name,
const td__rule *const td__rules[] = {RULES(ENTRY) NULL};
#undef ENTRY

const td__rule *td__rule_of(const char *cause) {
    for (size_t i = 0; td__rules[i]; i++) {
        if (!td__rules[i]->info.symptom && !strcmp(td__rules[i]->info.name, cause)) {
            return td__rules[i];
        }
    }
    return NULL;
}

const td_rule_info *td_diagnose_rule(size_t index) {
    const size_t count = sizeof td__rules / sizeof *td__rules - 1;
    return index < count ? &td__rules[index]->info : NULL;
}
