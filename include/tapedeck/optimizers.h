/* Learning-rate schedules and optimizers. Equations and defaults are Keras's (docs/c-api.md). */
#ifndef TAPEDECK_OPTIMIZERS_H
#define TAPEDECK_OPTIMIZERS_H

#include "tapedeck/settings.h"
#include "tapedeck/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- learning-rate schedules -------------------------------------------------------------- */

/* rate: the optimizer's learning rate, t: steps made so far less warmup, s: steps, a: end.
 *   constant      rate
 *   cosine        rate * ((1 - a) * (1 + cos(pi * min(t, s) / s)) / 2 + a)
 *   exponential   rate * factor^(t / s)
 *   step          rate * factor^floor(t / s)
 *   linear        (rate - a) * (1 - min(t, s) / s) + a
 *   polynomial    (rate - a) * (1 - min(t, s) / s)^power + a
 *   piecewise     values[number of boundaries < t]
 *   inverse_time  rate / (1 + factor * t / s)
 *   cosine_restarts  cosine over and over: the i-th from m_mul^i of the rate in s * t_mul^i steps
 * With staircase t / s is whole; with cycle s is as many times s as t has reached. The first warmup
 * steps rise in a straight line from 0 to where the schedule begins; of cosine with a warmup_target,
 * from the rate to that target, from which it then falls. Keras's names (cosine_decay, decay_rate,
 * …) are understood. */
typedef enum td_schedule_kind {
    TD_SCHEDULE_CONSTANT,
    TD_SCHEDULE_COSINE,
    TD_SCHEDULE_EXPONENTIAL,
    TD_SCHEDULE_STEP,
    TD_SCHEDULE_LINEAR,
    TD_SCHEDULE_POLYNOMIAL,
    TD_SCHEDULE_PIECEWISE,
    TD_SCHEDULE_INVERSE_TIME,
    TD_SCHEDULE_COSINE_RESTARTS,
    TD_SCHEDULE_KIND_COUNT
} td_schedule_kind;

#define TD_MAX_PIECES 32
typedef struct td_schedule {
    td_schedule_kind kind;
    int64_t warmup;
    int64_t steps;    /* 0: unknown, the rate stays. Training sets what is left after warmup */
    td_number end;    /* cosine: a share of the rate (0); linear, polynomial: a rate (1e-4) */
    td_number factor; /* exponential 0.96, step 0.1, inverse_time 1 */
    td_number power;  /* 1 */
    int64_t boundary_count, value_count; /* of piecewise: one value more than boundaries */
    double boundaries[TD_MAX_PIECES];
    double values[TD_MAX_PIECES + 1];
    bool staircase;          /* exponential, inverse_time */
    bool cycle;              /* polynomial */
    td_number t_mul, m_mul;  /* cosine_restarts: 2, 1 */
    td_number initial;       /* replaces the optimizer's rate; key initial_learning_rate */
    td_number warmup_target; /* cosine; left out: the warm-up starts at 0 */
} td_schedule;

/* "cosine"; NULL for a value that is no kind. */
TD_API const char *td_schedule_kind_name(td_schedule_kind kind);
/* Fills *schedule from keys and values: "cosine", {warmup: 100}. */
TD_API TD_NODISCARD td_status td_schedule_configure(td_schedule *schedule, const char *kind,
                                                    const td_setting *settings, size_t count,
                                                    td_error *error);
/* The rate of the step after `done` steps; `rate` itself when the schedule is not valid. */
TD_API double td_schedule_rate(const td_schedule *schedule, double rate, uint64_t done);

/* --- optimizers --------------------------------------------------------------------------- */

/* Values are part of the binary interface: only ever append. */
#define TD_OPTIMIZER_LIST(X)                                                                       \
    X(SGD, "sgd")                                                                                  \
    X(ADAM, "adam")                                                                                \
    X(ADAMW, "adamw")                                                                              \
    X(RMSPROP, "rmsprop")                                                                          \
    X(ADAGRAD, "adagrad")                                                                          \
    X(ADADELTA, "adadelta")                                                                        \
    X(ADAMAX, "adamax")                                                                            \
    X(NADAM, "nadam")                                                                              \
    X(LION, "lion")

typedef enum td_optimizer_kind {
#define TD_OPTIMIZER_MEMBER(name, text) TD_OPTIMIZER_##name,
    TD_OPTIMIZER_LIST(TD_OPTIMIZER_MEMBER)
#undef TD_OPTIMIZER_MEMBER
        TD_OPTIMIZER_KIND_COUNT,
#define TD_OPTIMIZER_SHORT(name, text) TD_##name = TD_OPTIMIZER_##name, /* the short name */
    TD_OPTIMIZER_LIST(TD_OPTIMIZER_SHORT)
#undef TD_OPTIMIZER_SHORT
} td_optimizer_kind;

/* Equations and defaults are Keras's (docs/c-api.md). */
typedef struct td_optimizer_options {
    size_t size;
    td_optimizer_kind kind;
    td_number learning_rate;       /* 0.01 for sgd, 0.001 for the others */
    double momentum;               /* sgd, rmsprop */
    bool nesterov;                 /* sgd */
    td_number beta_1, beta_2;      /* adam, adamw, adamax, nadam: 0.9, 0.999; lion: 0.9, 0.99 */
    td_number rho;                 /* rmsprop: 0.9; adadelta: 0.95 */
    td_number epsilon;             /* 1e-7 */
    td_number weight_decay;        /* w -= rate * weight_decay * w in each step; adamw: 0.004 */
    td_number initial_accumulator; /* adagrad: 0.1 */
    double clip_norm;  /* scale all gradients together to at most this norm; 0: do not */
    double clip_value; /* clip each element to [-clip_value, clip_value]; 0: do not */
    td_schedule schedule;
    bool amsgrad;  /* adam, adamw: divide by the root of the largest second moment so far */
    bool centered; /* rmsprop: by that of the gradients' variance */
} td_optimizer_options;
#define TD_OPTIMIZER(...) TD_OPTIONS(td_optimizer_options, __VA_ARGS__)

/* "adam"; NULL for a value that is no kind. */
TD_API const char *td_optimizer_kind_name(td_optimizer_kind kind);
/* Sets the kind and what the keys say ("adam", {learning_rate: 0.001}), the rest to the defaults.
 * Clipping and schedule stay as they are. */
TD_API TD_NODISCARD td_status td_optimizer_configure(td_optimizer_options *options,
                                                     const char *kind, const td_setting *settings,
                                                     size_t count, td_error *error);

typedef struct td_optimizer td_optimizer;

/* parameters: float32 heap tensors, borrowed until td_optimizer_destroy; their names name the
 * state. NULL on failure. */
TD_API td_optimizer *td_optimizer_create(const td_optimizer_options *options, size_t count,
                                         td_tensor *const parameters[], td_error *error);
/* Accepts NULL. */
TD_API void td_optimizer_destroy(td_optimizer *optimizer);
/* Updates the parameters in place from gradients in their order; NULL leaves a parameter alone.
 * The gradients are not changed. Allocates nothing. */
TD_API TD_NODISCARD td_status td_optimizer_step(td_optimizer *optimizer,
                                                td_tensor *const gradients[], td_error *error);

/* What it runs with, defaults filled in; and as keys and values (learning_rate first). */
TD_API const td_optimizer_options *td_optimizer_settled(const td_optimizer *optimizer);
TD_API size_t td_optimizer_settings(const td_optimizer *optimizer, const td_setting **settings);
TD_API size_t td_schedule_settings(const td_optimizer *optimizer, const td_setting **settings);

/* Steps made so far: with the state and the parameters, all there is to resume from. */
TD_API uint64_t td_optimizer_steps(const td_optimizer *optimizer);
TD_API void td_optimizer_set_steps(td_optimizer *optimizer, uint64_t steps);
/* From the next step on this is the rate that schedules start from. TD_RANGE unless finite and 0 or
 * more. */
TD_API td_status td_optimizer_set_learning_rate(td_optimizer *optimizer, double rate,
                                                td_error *error);
/* The learning rate of the last step made (before the first: of the first). */
TD_API double td_optimizer_rate(const td_optimizer *optimizer);
/* The norm of all gradients together in the last step, before clipping; only with clip_norm. */
TD_API double td_optimizer_norm(const td_optimizer *optimizer);

/* State tensors (momenta and the like), named "conv1.kernel.m"; values may be written. */
TD_API size_t td_optimizer_state_count(const td_optimizer *optimizer);
TD_API td_tensor *td_optimizer_state(const td_optimizer *optimizer, size_t index);
/* NULL when there is none of that name. */
TD_API td_tensor *td_optimizer_find_state(const td_optimizer *optimizer, const char *name);

/* From now on keeps what each step added to parameter number index (all: SIZE_MAX). */
TD_API TD_NODISCARD td_status td_optimizer_keep_update(td_optimizer *optimizer, size_t index,
                                                       td_error *error);
/* The last step's change of a parameter, "conv1.kernel.update"; NULL unless kept. */
TD_API td_tensor *td_optimizer_update(const td_optimizer *optimizer, size_t index);

#ifdef __cplusplus
}
#endif
#endif
