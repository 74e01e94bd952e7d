/* What each layer is for and what it does: its place in the network, its weights as they start, and
 * what it puts out and gets back, before training and after. */
#ifndef TAPEDECK_DIAGNOSE_LAYERS_H
#define TAPEDECK_DIAGNOSE_LAYERS_H

#include "nn/kind.h"
#include "train/trainer.h"

/* What went through a layer, over the examples looked at; units are the last axis. */
typedef struct td__flow {
    double mean, deviation, largest; /* of the output; largest: in size */
    double zeros;                    /* share of the output */
    double saturated;                /* share where the activation is flat: |tanh| > 0.99, … */
    int64_t units, dead;             /* dead: never anything but 0 */
    int64_t constant;                /* units that never change over the examples */
    int64_t first_dead, first_flat;  /* the first such unit, the most saturated one; -1: none */
    int64_t distinct;                /* units that differ from every unit before them */
    double error;                    /* root mean square of dLoss/dOutput */
    int64_t nonfinite;
} td__flow;

typedef struct td__layer_facts {
    const char *name;
    const td__layer_kind *kind;
    td_activation activation;     /* its own */
    td_activation effective;      /* its own, or that of an activation layer that follows it */
    ptrdiff_t activated_by;       /* the layer that has the effective one; itself, or after it */
    bool learns, recurrent, last; /* last: the last layer that learns */
    bool bias;
    int64_t units, fan_in, fan_out;
    double rate;  /* of dropout */
    double noise; /* the deviation of what is added in training */
    double penalty_l1, penalty_l2;
    ptrdiff_t kernel, recurrent_kernel, bias_parameter; /* among the model's parameters; -1: none */
    double kernel_deviation, kernel_mean, kernel_largest; /* at the start */
    double expected;   /* the deviation that keeps the variance: Glorot's */
    bool kernel_equal; /* all its weights start the same */
    double bias_mean, bias_largest;
    int64_t nonfinite; /* weights that start so */
    td__flow start, end;
    double gradient_start, gradient_end; /* root mean square of the kernel's gradient */
} td__layer_facts;

typedef struct td__layers {
    td__layer_facts *items;
    size_t count;
    ptrdiff_t first, last;  /* layers that learn; -1: none */
    size_t learning;        /* how many do */
    td_activation output;   /* of the whole network */
    ptrdiff_t output_layer; /* the layer that has it, or the last that learns */
    int64_t units;          /* of the output: its last axis */
    double parameters;      /* elements, all together */
} td__layers;

TD_NODISCARD td_status td__layers_gather(td__layers *layers, td_trainer *trainer, td_error *error);
void td__layers_release(td__layers *layers);
/* A batch forward and back, without an update: fills start, or end. */
TD_NODISCARD td_status td__layers_look(td__layers *layers, td_trainer *trainer, bool after,
                                       td_error *error);

#endif
