/* How much memory the process may take: limits of control groups as files have them, and its own. */
#include "test.h"

#include "base/memory.h"
#include "folder.h"

#include <sys/resource.h>
#include <sys/stat.h>

static void write_text(const char *name, const char *text) {
    char path[8192];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void add_folder(const char *name) {
    char path[8192];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(mkdir(path, 0700), 0);
}

static size_t limit_of(const char *groups) {
    char path[8192];
    write_text("groups", groups);
    (void)snprintf(path, sizeof path, "%s/groups", folder);
    return td__memory_group_limit(path, folder);
}

static void the_smallest_limit_of_a_group_and_those_above_counts(void **state) {
    (void)state;
    add_folder("a");
    add_folder("a/b");
    write_text("a/b/memory.max", "max\n");
    assert_true(limit_of("0::/a/b\n") == SIZE_MAX);
    write_text("a/memory.max", "5000000\n");
    assert_int_equal(limit_of("0::/a/b\n"), 5000000);
    write_text("a/b/memory.max", "4000000\n");
    assert_int_equal(limit_of("0::/a/b\n"), 4000000);
    assert_int_equal(limit_of("0::/a\n"), 5000000);
    write_text("memory.max", "3000000\n"); /* a container's own groups begin at the root */
    assert_int_equal(limit_of("0::/elsewhere/c\n"), 3000000);
}

static void groups_of_the_first_version_are_read(void **state) {
    (void)state;
    add_folder("memory");
    add_folder("memory/job");
    write_text("memory/job/memory.limit_in_bytes", "7000000\n");
    write_text("memory/memory.limit_in_bytes", "9223372036854771712\n");
    assert_int_equal(limit_of("9:name=systemd:/\n4:cpu,memory:/job\n0::/\n"), 7000000);
    assert_true(limit_of("9:name=systemd:/\n") == SIZE_MAX);
    assert_true(td__memory_group_limit("/no/such/file", folder) == SIZE_MAX);
}

static void the_process_s_own_limit_counts(void **state) {
    (void)state;
    struct rlimit before, less;
    size_t all = td__memory_limit();
    assert_true(all > 0 && td__memory_half() == all / 2);
    assert_int_equal(getrlimit(RLIMIT_DATA, &before), 0);
    less = before;
    less.rlim_cur = (rlim_t)(all / 4);
    assert_int_equal(setrlimit(RLIMIT_DATA, &less), 0);
    assert_int_equal(td__memory_limit(), all / 4);
    assert_int_equal(setrlimit(RLIMIT_DATA, &before), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_smallest_limit_of_a_group_and_those_above_counts,
                                        make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(groups_of_the_first_version_are_read, make_folder,
                                        remove_folder),
        cmocka_unit_test(the_process_s_own_limit_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
