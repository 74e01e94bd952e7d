/* Allocation from several threads at once: the counter and the injected failure. */
#include "test.h"

#include "base/memory.h"

#include <pthread.h>

#define THREADS 4
#define ALLOCATIONS 1000

static void *allocate_often(void *failures) {
    for (int i = 0; i < ALLOCATIONS; i++) {
        void *memory = td__calloc(1, 1);
        *(int *)failures += memory == NULL;
        td__free(memory);
    }
    return NULL;
}

static int failures_of_all_threads(void) {
    pthread_t threads[THREADS];
    int failures[THREADS] = {0}, total = 0;
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, allocate_often, &failures[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        total += failures[i];
    }
    return total;
}

static void every_allocation_of_every_thread_is_counted(void **state) {
    (void)state;
    uint64_t before = td__allocation_count();
    assert_int_equal(failures_of_all_threads(), 0);
    assert_int_equal(td__allocation_count() - before, THREADS * ALLOCATIONS);
}

static void an_injected_failure_hits_exactly_one_thread(void **state) {
    (void)state;
    td__allocation_fail_at(THREADS * ALLOCATIONS / 2);
    int failures = failures_of_all_threads();
    td__allocation_fail_at(0);
    assert_int_equal(failures, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_of_every_thread_is_counted),
        cmocka_unit_test(an_injected_failure_hits_exactly_one_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
