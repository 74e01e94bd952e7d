/* How work is cut into parts, one for each thread. */
#include "tape/parallel.h"

#include <stdatomic.h>
#include <stdlib.h>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

static atomic_int thread_count; /* 0: not decided yet; relaxed, set before work begins */

/* All cores, or what the variable says that numerical programs read. */
static int default_threads(void) {
    const char *text = getenv("OMP_NUM_THREADS");
    long wanted = text ? strtol(text, NULL, 10) : 0;
    return wanted > 0 && wanted <= TD__MAX_THREADS ? (int)wanted : td__threads_cores();
}

static int set(int threads) {
    threads = threads > TD__MAX_THREADS ? TD__MAX_THREADS : threads;
    atomic_store_explicit(&thread_count, threads, memory_order_relaxed);
    return threads;
}

int td_threads(void) {
    int count = atomic_load_explicit(&thread_count, memory_order_relaxed);
    return count > 0 ? count : set(default_threads());
}

/* Denormals slow arithmetic down by up to 100x and mean nothing in training: flush them to zero. */
static void flush_denormals(void) {
#if defined(__SSE__)
    _mm_setcsr(_mm_getcsr() | 0x8040);
#elif defined(__aarch64__)
    uint64_t control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    __asm__ volatile("msr fpcr, %0" : : "r"(control | (1u << 24)));
#endif
}

void td_threads_set(int threads) {
    td__threads_limit(0);
    (void)set(threads > 0 ? threads : td__threads_cores());
    flush_denormals(); /* in the workers too: they compute as the thread does that they work for */
}

void td__parallel_cut(int parts, int threads) {
    td_threads_set(parts);
    td__threads_limit(threads > 0 ? threads : td__threads_cores());
}

typedef struct split {
    td__parallel_body *body;
    void *context;
    int64_t count, step, steps, parts;
} split;

static void run_part(void *context, int part) {
    const split *s = context;
    int64_t begin = s->steps * part / s->parts * s->step;
    int64_t end = s->steps * (part + 1) / s->parts * s->step;
    s->body(s->context, part, begin, end < s->count ? end : s->count);
}

typedef struct numbered_parts {
    void (*part)(void *context, int32_t index);
    void *context;
} numbered_parts;

static void run_numbered(void *context, int part, int64_t begin, int64_t end) {
    const numbered_parts *parts = context;
    (void)part;
    for (int64_t i = begin; i < end; i++) {
        parts->part(parts->context, (int32_t)i);
    }
}

void td_threads_run(int32_t parts, void (*part)(void *context, int32_t index), void *context) {
    (void)td__parallel(parts, 1, 1, run_numbered, &(numbered_parts){part, context});
}

int td__parallel(int64_t count, int64_t step, int64_t minimum, td__parallel_body *body,
                 void *context) {
    int64_t steps = (count + step - 1) / step;
    int64_t worth = minimum > 0 ? count / minimum : count;
    int64_t parts = td_threads();
    parts = parts < worth ? parts : worth;
    parts = parts < steps ? parts : steps;
    if (parts <= 1) {
        if (count > 0) {
            body(context, 0, 0, count);
        }
        return 1;
    }
    td__threads_run(
        (int)parts, run_part,
        &(split){body, context, .count = count, .step = step, .steps = steps, .parts = parts});
    return (int)parts;
}
