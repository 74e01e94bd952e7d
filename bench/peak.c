/* The float32 multiply-add rate that this machine's cores reach: peak THREADS prints GFLOP/s.
 *
 * Each thread keeps CHAINS independent accumulators busy, enough to hide the latency of a fused
 * multiply-add on two ports, in the widest vectors the processor has. The best of several trials is
 * the peak: anything less was an interruption. */
#include "base/cpu.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define CHAINS 12
#define REPEATS 10000000
#define TRIALS 9
#define MAX_THREADS 256

typedef struct kernel {
    void (*run)(float *result); /* REPEATS * CHAINS multiply-adds of lanes floats */
    int lanes;
} kernel;

/* The sums are stored so that the compiler must compute them; they converge to a finite value. */
#define DEFINE_KERNEL(name, width, attributes)                                                     \
    typedef float name##_vector __attribute__((vector_size((width)*4), aligned(4)));               \
    attributes static void name(float *result) {                                                   \
        name##_vector sums[CHAINS], factor, term;                                                  \
        for (int lane = 0; lane < (width); lane++) {                                               \
            factor[lane] = result[0];                                                              \
            term[lane] = result[1];                                                                \
        }                                                                                          \
        for (int chain = 0; chain < CHAINS; chain++) {                                             \
            sums[chain] = term * (float)chain;                                                     \
        }                                                                                          \
        for (int i = 0; i < REPEATS; i++) {                                                        \
            _Pragma("GCC unroll 12") for (int chain = 0; chain < CHAINS; chain++) {                \
                sums[chain] = sums[chain] * factor + term;                                         \
            }                                                                                      \
        }                                                                                          \
        for (int chain = 0; chain < CHAINS; chain++) {                                             \
            result[2] += sums[chain][0];                                                           \
        }                                                                                          \
    }

DEFINE_KERNEL(portable, 4, )
#ifdef __x86_64__
DEFINE_KERNEL(avx2, 8, __attribute__((target("avx2,fma"))))
DEFINE_KERNEL(avx512, 16, __attribute__((target("avx512f"))))
#endif

static kernel widest(void) {
#ifdef __x86_64__
    if (td__cpu_has(TD__CPU_AVX512)) {
        return (kernel){avx512, 16};
    }
    if (td__cpu_has(TD__CPU_AVX2)) {
        return (kernel){avx2, 8};
    }
#endif
    return (kernel){portable, 4};
}

/* Threads start together; a trial lasts from the first start to the last end, which the threads
 * take themselves: the main thread may be kept waiting for a core. */
typedef struct worker {
    kernel kernel;
    pthread_t thread;
    pthread_barrier_t *barrier;
    double start[TRIALS], end[TRIALS];
} worker;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void *work(void *argument) {
    worker *self = argument;
    for (int trial = 0; trial < TRIALS; trial++) {
        float result[3] = {0.5f, 0.25f, 0.0f};
        pthread_barrier_wait(self->barrier);
        self->start[trial] = now();
        self->kernel.run(result);
        self->end[trial] = now();
    }
    return NULL;
}

static double best_seconds(const worker *workers, int threads) {
    double best = 0;
    for (int trial = 0; trial < TRIALS; trial++) {
        double start = workers[0].start[trial], end = workers[0].end[trial];
        for (int i = 1; i < threads; i++) {
            start = workers[i].start[trial] < start ? workers[i].start[trial] : start;
            end = workers[i].end[trial] > end ? workers[i].end[trial] : end;
        }
        best = trial == 0 || end - start < best ? end - start : best;
    }
    return best;
}

int main(int argc, char **argv) {
    int threads = argc == 2 ? atoi(argv[1]) : 0;
    if (threads < 1 || threads > MAX_THREADS) {
        fprintf(stderr, "usage: peak THREADS, 1 to %d\n", MAX_THREADS);
        return 2;
    }
    static worker workers[MAX_THREADS];
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, (unsigned)threads);
    kernel chosen = widest();
    for (int i = 0; i < threads; i++) {
        workers[i].kernel = chosen;
        workers[i].barrier = &barrier;
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i])) {
            perror("peak: cannot start a thread");
            return 1;
        }
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(workers[i].thread, NULL);
    }
    double operations = 2.0 * CHAINS * REPEATS * chosen.lanes * threads;
    printf("%.1f\n", operations / best_seconds(workers, threads) / 1e9);
    return 0;
}
