/* Compute threads.
 *
 * A worker's state is one word, which both sides change and sleep on:
 *
 *            offer            take              done
 *     IDLE --------> OFFERED ------> RUNNING --------> IDLE
 *      |   <--------    ^               |                ^
 *      |    take back   | offer, wake   | wait           | done, wake
 *      +----> ASLEEP ---+               +---> AWAITED ---+
 *
 * The caller offers shares to the workers, does its own, takes back what no worker has begun, and
 * waits for the rest. So a worker that gets no core costs nothing, and one that loses its core costs
 * at most what it had begun. Which thread does a share never changes what it computes.
 *
 * Both spin for PATIENCE before they sleep: waking costs some 10 us, work comes every few of them.
 *
 * Whether the cores are ours shows in the time that the threads were running: of one region in
 * SAMPLING, seconds of computing are compared with seconds that passed. Threads that do not gain
 * GAIN each are halved for a while, the longer the more often that happened.
 */
#include "tape/threads.h"

#include "base/clock.h"
#include "base/thread.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#define PATIENCE 500e-6 /* seconds */
#define SAMPLING 8
#define WINDOW 5e-3 /* seconds of sampled regions between judgements */
#define GAIN 0.25
#define SHORTEST_RETREAT 0.02 /* seconds */
#define LONGEST_RETREAT 1.28

enum { IDLE, ASLEEP, OFFERED, RUNNING, AWAITED };

typedef struct job {
    td__threads_body *body;
    void *context;
    int first, stride, shares; /* first, first + stride, … below shares */
    unsigned float_mode;
    bool timed;
} job;

typedef struct worker {
    _Alignas(64) atomic_uint state; /* release by whoever hands over job or its results */
    _Alignas(64) job job;           /* the caller's while IDLE or ASLEEP, else the worker's */
    double seconds;                 /* of computing, when timed */
    pthread_t thread;
} worker;

static worker workers[TD__MAX_THREADS - 1];

/* Whoever holds it may offer work; all below is the holder's. */
static atomic_flag held = ATOMIC_FLAG_INIT;
static int worker_count;
static uint64_t regions;
static struct {
    int threads;              /* to use at most; 0: all */
    double computed, elapsed; /* of sampled regions since the last judgement */
    double until, retreat;    /* when to try more threads again, and how long the next retreat is */
} use = {.retreat = SHORTEST_RETREAT};

/* --- one worker -------------------------------------------------------------------------------- */

/* Denormals and rounding: a share gives the same bits in every thread. */
static unsigned float_mode(void) {
#if defined(__SSE__)
    return _mm_getcsr() & ~0x3fu; /* without the flags that arithmetic raises */
#elif defined(__aarch64__)
    uint64_t control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    return (unsigned)control;
#else
    return 0;
#endif
}

static void set_float_mode(unsigned mode) {
#if defined(__SSE__)
    _mm_setcsr(mode);
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)mode));
#else
    (void)mode;
#endif
}

static void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" : : : "memory");
#endif
}

static void sleep_while(atomic_uint *state, unsigned value) {
    while (atomic_load_explicit(state, memory_order_acquire) == value) {
        syscall(SYS_futex, state, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
    }
}

static void wake(atomic_uint *state) {
    syscall(SYS_futex, state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* Whether the state changed from value before patience ended. */
static bool spin_while(atomic_uint *state, unsigned value) {
    double since = 0;
    for (int turn = 1; atomic_load_explicit(state, memory_order_acquire) == value; turn++) {
        if (turn % 64 == 0) {
            double now = td__seconds();
            since = since > 0 ? since : now;
            if (now - since > PATIENCE) {
                return false;
            }
        }
        relax();
    }
    return true;
}

static double thread_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Returns the seconds of computing that it took, 0 when it is not timed. */
static double run_shares(const job *j) {
    double begin = j->timed ? thread_seconds() : 0;
    for (int share = j->first; share < j->shares; share += j->stride) {
        j->body(j->context, share);
    }
    return j->timed ? thread_seconds() - begin : 0;
}

static void *work(void *argument) {
    worker *self = argument;
    for (;;) {
        unsigned expected = IDLE;
        if (!spin_while(&self->state, IDLE) &&
            atomic_compare_exchange_strong_explicit(&self->state, &expected, ASLEEP,
                                                    memory_order_acq_rel, memory_order_acquire)) {
            sleep_while(&self->state, ASLEEP);
        }
        expected = OFFERED;
        if (!atomic_compare_exchange_strong_explicit(&self->state, &expected, RUNNING,
                                                     memory_order_acq_rel, memory_order_acquire)) {
            continue; /* taken back */
        }
        set_float_mode(self->job.float_mode);
        self->seconds = run_shares(&self->job);
        if (atomic_exchange_explicit(&self->state, IDLE, memory_order_acq_rel) == AWAITED) {
            wake(&self->state);
        }
    }
    return NULL;
}

/* --- the caller's side ------------------------------------------------------------------------- */

static void offer(worker *w, const job *j) {
    w->job = *j;
    if (atomic_exchange_explicit(&w->state, OFFERED, memory_order_acq_rel) == ASLEEP) {
        wake(&w->state);
    }
}

static bool take_back(worker *w) {
    unsigned expected = OFFERED;
    return atomic_compare_exchange_strong_explicit(&w->state, &expected, IDLE, memory_order_acq_rel,
                                                   memory_order_acquire);
}

static void await(worker *w) {
    unsigned expected = RUNNING;
    if (!spin_while(&w->state, RUNNING) &&
        atomic_compare_exchange_strong_explicit(&w->state, &expected, AWAITED, memory_order_acq_rel,
                                                memory_order_acquire)) {
        sleep_while(&w->state, AWAITED);
    }
}

/* A child of fork has no workers. */
static void forget_workers(void) {
    for (int i = 0; i < worker_count; i++) {
        atomic_store_explicit(&workers[i].state, IDLE, memory_order_relaxed);
    }
    worker_count = 0;
    atomic_flag_clear(&held);
}

static void watch_forks(void) {
    (void)pthread_atfork(NULL, NULL, forget_workers);
}

/* Starts workers until there are `wanted`, or as many as the system allows. They get no signals. */
static void start_workers(int wanted) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, watch_forks);
    for (; worker_count < wanted; worker_count++) {
        worker *w = &workers[worker_count];
        if (td__thread_start(&w->thread, work, w)) {
            break;
        }
        (void)pthread_detach(w->thread);
    }
}

static atomic_int limit; /* relaxed: set before work begins */

void td__threads_limit(int threads) {
    atomic_store_explicit(&limit, threads, memory_order_relaxed);
}

/* How many threads take part in the next region. */
static int threads_to_use(int shares) {
    int max_threads = atomic_load_explicit(&limit, memory_order_relaxed);
    max_threads = max_threads > 0 && max_threads < TD__MAX_THREADS ? max_threads : TD__MAX_THREADS;
    int threads = shares < max_threads ? shares : max_threads;
    if (use.threads > 0 && td__seconds() > use.until) {
        use.threads = 2 * use.threads < threads ? 2 * use.threads : 0;
    }
    return use.threads > 0 && use.threads < threads ? use.threads : threads;
}

/* computed and elapsed: seconds of a region in which `threads` threads took part. */
static void judge(int threads, double computed, double elapsed) {
    use.computed += computed;
    use.elapsed += elapsed;
    if (use.elapsed < WINDOW) {
        return;
    }
    if (use.computed < use.elapsed * (1 + GAIN * (threads - 1))) {
        use.threads = threads > 2 ? threads / 2 : 1;
        use.until = td__seconds() + use.retreat;
        use.retreat = 2 * use.retreat < LONGEST_RETREAT ? 2 * use.retreat : LONGEST_RETREAT;
    } else {
        use.retreat = use.retreat / 2 > SHORTEST_RETREAT ? use.retreat / 2 : SHORTEST_RETREAT;
    }
    use.computed = use.elapsed = 0;
}

static void run_together(int threads, job *j) {
    bool timed = regions++ % SAMPLING == 0;
    double begin = timed ? td__seconds() : 0;
    j->stride = threads;
    j->timed = timed;
    j->float_mode = float_mode();
    for (int i = 1; i < threads; i++) {
        j->first = i;
        offer(&workers[i - 1], j);
    }
    j->first = 0;
    double computed = run_shares(j);
    for (int i = threads - 1; i > 0; i--) {
        if (take_back(&workers[i - 1])) {
            j->first = i;
            computed += run_shares(j);
            workers[i - 1].seconds = 0;
        }
    }
    for (int i = 1; i < threads; i++) {
        await(&workers[i - 1]);
        computed += workers[i - 1].seconds;
    }
    if (timed) {
        judge(threads, computed, td__seconds() - begin);
    }
}

void td__threads_run(int shares, td__threads_body *body, void *context) {
    job j = {.body = body, .context = context, .stride = 1, .shares = shares};
    if (shares < 2 || atomic_flag_test_and_set_explicit(&held, memory_order_acquire)) {
        (void)run_shares(&j);
        return;
    }
    int threads = threads_to_use(shares);
    if (threads > worker_count + 1) {
        start_workers(threads - 1);
        threads = threads < worker_count + 1 ? threads : worker_count + 1;
    }
    if (threads > 1) {
        run_together(threads, &j);
    } else {
        (void)run_shares(&j);
    }
    atomic_flag_clear_explicit(&held, memory_order_release);
}

/* --- cores ------------------------------------------------------------------------------------- */

int td__threads_cores(void) {
    cpu_set_t allowed;
    int count = sched_getaffinity(0, sizeof allowed, &allowed) ? (int)sysconf(_SC_NPROCESSORS_ONLN)
                                                               : CPU_COUNT(&allowed);
    return count > 0 ? count : 1;
}
