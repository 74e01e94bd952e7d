/* Time: the wall clock, a monotonic clock, and ticks that cost a few nanoseconds to read. */
#ifndef TAPEDECK_BASE_CLOCK_H
#define TAPEDECK_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Seconds since 1970. */
double td__wall_time(void);
/* Seconds since some point in the past; never goes back. */
double td__seconds(void);
/* Seconds of processor time that the calling thread has taken. */
double td__cpu_seconds(void);

/* Ticks of a counter that runs at a constant rate, which is found by comparing with td__seconds. */
static inline uint64_t td__ticks(void) {
#if defined(__x86_64__) && defined(__GNUC__)
    return __builtin_ia32_rdtsc();
#else
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
#endif
}

/* The time that is seconds from now, for pthread_cond_timedwait on a CLOCK_MONOTONIC condition. */
struct timespec td__deadline(double seconds);

#endif
