/* An optimizer, inside. */
#ifndef TAPEDECK_NN_OPTIMIZER_H
#define TAPEDECK_NN_OPTIMIZER_H

#include "nn/field.h"
#include "nn/optimizer_role.h"
#include "tape/kernels.h"
#include "tape/parallel.h"

enum { TD__MAX_STATES = 3 };

/* The numbers of one step, for kernels. */
typedef struct td__step_numbers {
    float rate; /* bias correction included */
    float decay;
    float scale; /* of gradients, by clip_norm */
    float limit; /* clip_value, or 0 */
    td__nadam nadam;
} td__step_numbers;

typedef struct td__optimizer_kind {
    const td__field *fields;
    size_t field_count;
    const char *states[TD__MAX_STATES]; /* NULL: none */
    bool decays;                        /* run decays weights itself */
    td__optimizer_role role;
    int8_t first, second; /* which of states, from 1, are its moments; 0: it has none */
    bool falls;           /* the first one points against the gradient */
    /* the rate of n elements: s the states; NULL: it is not known after the step */
    void (*step_size)(const td_optimizer_options *options, const td__step_numbers *numbers,
                      int64_t n, float *const s[TD__MAX_STATES], float *to);
    /* n elements: g gradient, s the states (NULL: not kept), w parameter */
    void (*run)(const td_optimizer_options *options, const td__step_numbers *numbers, int64_t n,
                const float *g, float *const s[TD__MAX_STATES], float *w);
} td__optimizer_kind;

struct td_optimizer {
    td_optimizer_options options; /* settled */
    const td__optimizer_kind *kind;
    size_t count;
    td_tensor **parameters; /* borrowed */
    int64_t *ends;          /* elements up to and with parameter i */
    td_tensor **states;     /* parameter i's are at TD__MAX_STATES * i; NULL: none */
    td_tensor **updates;    /* NULL: not kept */
    td_tensor **named;      /* the states that exist, in order */
    size_t named_count;
    uint64_t steps;
    double rate, norm;    /* of the last step */
    double nadam_product; /* of nadam's momenta up to step nadam_steps */
    uint64_t nadam_steps;
    td_setting *settings, *schedule_settings;
    size_t setting_count, schedule_setting_count;

    /* Of the step under way. */
    td_tensor *const *gradients;
    td__step_numbers numbers;
    double squares[TD__MAX_THREADS]; /* of the gradients, per part */
};

/* A tensor as a parameter is, called PARAMETER.SUFFIX. */
td_tensor *td__tensor_like(const td_tensor *parameter, const char *suffix, td_error *error);

#endif
