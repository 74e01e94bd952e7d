/* Threads, through OpenMP. */
#include "tape/parallel.h"

#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

static atomic_int thread_count; /* 0: not decided yet; relaxed, set before work begins */

int td_threads(void) {
    int count = atomic_load_explicit(&thread_count, memory_order_relaxed);
    if (count == 0) {
        count = omp_get_max_threads();
        count = count > TD__MAX_THREADS ? TD__MAX_THREADS : count;
        atomic_store_explicit(&thread_count, count, memory_order_relaxed);
    }
    return count;
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
    int most = threads > 0 ? threads : omp_get_num_procs();
    most = most > TD__MAX_THREADS ? TD__MAX_THREADS : most;
    atomic_store_explicit(&thread_count, most, memory_order_relaxed);
    flush_denormals();
    if (most > 1) {
#pragma omp parallel num_threads(most)
        flush_denormals();
    }
}

void td_threads_bind(void) {
    int count = td_threads();
    cpu_set_t allowed;
    if (count < 2 || sched_getaffinity(0, sizeof allowed, &allowed) ||
        CPU_COUNT(&allowed) < count) {
        return;
    }
#pragma omp parallel num_threads(count)
    {
        int wanted = omp_get_thread_num();
        for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
            if (CPU_ISSET(cpu, &allowed) && wanted-- == 0) {
                cpu_set_t one;
                CPU_ZERO(&one);
                CPU_SET(cpu, &one);
                (void)pthread_setaffinity_np(pthread_self(), sizeof one, &one);
                break;
            }
        }
    }
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
#pragma omp parallel num_threads((int)parts)
    {
        /* Fewer threads than asked for may come: each takes every so many parts. */
        for (int64_t part = omp_get_thread_num(); part < parts; part += omp_get_num_threads()) {
            int64_t begin = steps * part / parts * step;
            int64_t end = steps * (part + 1) / parts * step;
            body(context, (int)part, begin, end < count ? end : count);
        }
    }
    return (int)parts;
}
