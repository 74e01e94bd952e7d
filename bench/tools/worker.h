/* A worker of a benchmark: what it times, and the lines it answers (rounds.py asks them). */
#ifndef TAPEDECK_BENCH_WORKER_H
#define TAPEDECK_BENCH_WORKER_H

#include "base/random.h"
#include "tapedeck/nn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

typedef struct worker {
    td_model *model;
    td_tape *tape;
    td_optimizer *optimizer;
    td_tensor *inputs, *targets;
    td_tensor *const *weights;
    td_tensor **gradients;
    size_t count;
    bool classes;
    td_error error;
} worker;

static inline void fail(const char *what, const td_error *error) {
    fprintf(stderr, "engine: %s: %s\n", what, error->text);
    exit(1);
}

static inline td_shape with_batch(int64_t batch, td_shape shape) {
    td_shape full = {.rank = shape.rank + 1, .dims = {batch}};
    memcpy(full.dims + 1, shape.dims, (size_t)shape.rank * sizeof shape.dims[0]);
    return full;
}

static inline void fill_normal(td_tensor *tensor, uint64_t seed) {
    td__random random;
    td__random_seed(&random, seed, 0);
    float *values = td_tensor_data(tensor);
    for (int64_t i = 0; i < td_tensor_count(tensor); i++) {
        values[i] = (float)td__random_normal(&random);
    }
}

/* TD_BENCH_CLOCK=cpu: of processor time. */
static inline double seconds(void) {
    const char *wish = getenv("TD_BENCH_CLOCK");
    bool processor = wish && strcmp(wish, "cpu") == 0;
    struct timespec now;
    clock_gettime(processor ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Answers `run N` with milliseconds per call of step, after which settle (if any) runs untimed, and
 * `memory` with the peak resident KiB. */
static inline void answer_lines(worker *w, void (*step)(worker *w), void (*settle)(worker *w)) {
    puts("ready");
    fflush(stdout);
    char line[256];
    while (fgets(line, sizeof line, stdin)) {
        if (strncmp(line, "run ", 4) == 0) {
            int64_t steps = strtoll(line + 4, NULL, 10);
            double begin = seconds();
            for (int64_t i = 0; i < steps; i++) {
                step(w);
            }
            printf("%.6f\n", (seconds() - begin) * 1e3 / (double)(steps > 0 ? steps : 1));
            if (settle) {
                settle(w);
            }
        } else if (strncmp(line, "memory", 6) == 0) {
            struct rusage usage;
            getrusage(RUSAGE_SELF, &usage);
            printf("%ld\n", usage.ru_maxrss);
        } else {
            puts("?");
        }
        fflush(stdout);
    }
}

static inline void stop(worker *w) {
    td_optimizer_destroy(w->optimizer);
    td_tape_destroy(w->tape);
    td_model_destroy(w->model);
    td_tensor_destroy(w->inputs);
    td_tensor_destroy(w->targets);
    free(w->gradients);
}

#endif
