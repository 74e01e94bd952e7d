/* Clocks. */
#include "base/clock.h"

static double read_clock(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double td__wall_time(void) {
    return read_clock(CLOCK_REALTIME);
}

double td__seconds(void) {
    return read_clock(CLOCK_MONOTONIC);
}

double td__cpu_seconds(void) {
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

struct timespec td__deadline(double seconds) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    int64_t nanoseconds = (int64_t)time.tv_nsec + (int64_t)(seconds * 1e9);
    time.tv_sec += (time_t)(nanoseconds / 1000000000);
    time.tv_nsec = (long)(nanoseconds % 1000000000);
    return time;
}
