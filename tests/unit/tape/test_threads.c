/* The compute threads: every share once, the caller's arithmetic, sleep when there is nothing to do,
 * and fewer of them where they get no core. */
#include "test.h"

#include "tape/parallel.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#define SHARES 7

static void count(void *context, int share) {
    atomic_fetch_add((atomic_int *)context + share, 1);
}

static void every_share_runs_exactly_once(void **state) {
    (void)state;
    for (int round = 0; round < 2000; round++) {
        atomic_int runs[SHARES] = {0};
        int shares = 1 + round % SHARES;
        td__threads_run(shares, count, runs);
        for (int i = 0; i < SHARES; i++) {
            assert_int_equal(atomic_load(&runs[i]), i < shares);
        }
    }
}

static void run_again(void *context, int share) {
    atomic_int inner[SHARES] = {0};
    td__threads_run(SHARES, count, inner);
    for (int i = 0; i < SHARES; i++) {
        atomic_fetch_add((atomic_int *)context + share, atomic_load(&inner[i]));
    }
}

static void a_share_may_run_shares_itself(void **state) {
    (void)state;
    atomic_int runs[SHARES] = {0};
    td__threads_run(SHARES, run_again, runs);
    for (int i = 0; i < SHARES; i++) {
        assert_int_equal(atomic_load(&runs[i]), SHARES);
    }
}

static void *run_often(void *wrong) {
    for (int round = 0; round < 500; round++) {
        atomic_int runs[SHARES] = {0};
        td__threads_run(SHARES, count, runs);
        for (int i = 0; i < SHARES; i++) {
            *(int *)wrong += atomic_load(&runs[i]) != 1;
        }
    }
    return NULL;
}

static void several_threads_may_run_shares_at_once(void **state) {
    (void)state;
    pthread_t threads[3];
    int wrong[3] = {0};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, run_often, &wrong[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(wrong[i], 0);
    }
}

static void halve_the_smallest(void *context, int share) {
    volatile float smallest = 0x1p-126f;
    ((float *)context)[share] = smallest / 2;
}

/* Whoever runs a share, its denormals are what they are in the calling thread. */
static void *compare_halves(void *wrong) {
    for (int round = 0; round < 500; round++) {
        float halves[SHARES], mine[1];
        halve_the_smallest(mine, 0);
        td__threads_run(SHARES, halve_the_smallest, halves);
        for (int i = 0; i < SHARES; i++) {
            *(int *)wrong += halves[i] != mine[0];
        }
    }
    return NULL;
}

static void shares_compute_as_the_calling_thread_does(void **state) {
    (void)state;
    int wrong = 0;
    compare_halves(&wrong);
    assert_int_equal(wrong, 0);
    td_threads_set(0); /* flushes denormals in this thread */
    compare_halves(&wrong);
    assert_int_equal(wrong, 0);
    pthread_t other; /* inherits that on some machines, whatever: compares with its own */
    assert_int_equal(pthread_create(&other, NULL, compare_halves, &wrong), 0);
    assert_int_equal(pthread_join(other, NULL), 0);
    assert_int_equal(wrong, 0);
}

/* Threads of this process that run or are about to. */
static int running_threads(void) {
    int running = 0;
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (struct dirent *task; (task = readdir(tasks));) {
        char path[300];
        snprintf(path, sizeof path, "/proc/self/task/%s/stat", task->d_name);
        FILE *file = task->d_name[0] == '.' ? NULL : fopen(path, "r");
        char condition = ' ';
        if (file) {
            running += fscanf(file, "%*d (%*[^)]) %c", &condition) == 1 && condition == 'R';
            fclose(file);
        }
    }
    closedir(tasks);
    return running;
}

static void workers_without_work_sleep(void **state) {
    (void)state;
    atomic_int runs[SHARES] = {0};
    td__threads_run(SHARES, count, runs);
    while (running_threads() > 1) { /* until the test's time is over */
        usleep(1000);
    }
}

static pthread_t caller;

static void compute_a_while(void *context, int share) {
    volatile double sum = 0;
    for (int i = 0; i < 20000; i++) {
        sum = sum + i;
    }
    ((bool *)context)[share] = pthread_equal(pthread_self(), caller);
}

static void threads_that_get_no_core_are_not_waited_for(void **state) {
    (void)state;
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    CPU_ZERO(&one);
    for (size_t cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++) {
        if (CPU_ISSET(cpu, &before)) {
            CPU_SET(cpu, &one);
        }
    }
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (struct dirent *task; (task = readdir(tasks));) {
        sched_setaffinity(atoi(task->d_name), sizeof one, &one); /* all of them on one core */
    }
    closedir(tasks);
    caller = pthread_self();
    for (int alone = 0; alone < 20;) { /* until the test's time is over */
        bool mine[2];
        td__threads_run(2, compute_a_while, mine);
        alone = mine[0] && mine[1] ? alone + 1 : 0;
    }
    sched_setaffinity(0, sizeof before, &before);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_share_runs_exactly_once),
        cmocka_unit_test(a_share_may_run_shares_itself),
        cmocka_unit_test(several_threads_may_run_shares_at_once),
        cmocka_unit_test(shares_compute_as_the_calling_thread_does),
        cmocka_unit_test(workers_without_work_sleep),
        cmocka_unit_test(threads_that_get_no_core_are_not_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
