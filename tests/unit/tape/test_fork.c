/* A child of a process that has computed can compute: it has none of its parent's threads. */
#include "test.h"

#include "tape/threads.h"

#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

static void count(void *context, int share) {
    (void)share;
    atomic_fetch_add((atomic_int *)context, 1);
}

static void a_child_computes(void **state) {
    (void)state;
    atomic_int runs = 0;
    td__threads_run(4, count, &runs);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        td__threads_run(4, count, &runs);
        _exit(atomic_load(&runs));
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 8);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_child_computes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
