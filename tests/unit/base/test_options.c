/* Options of callers that were built against another version. */
#include "test.h"

#include "base/options.h"

typedef struct ours {
    size_t size;
    int64_t first, second;
} ours;

static void a_smaller_struct_leaves_the_rest_zero(void **state) {
    (void)state;
    struct {
        size_t size;
        int64_t first, beyond;
    } older = {.size = offsetof(ours, second), .first = 7, .beyond = -1};
    ours all = {.second = 9};
    const ours *copied = td__options(&all, sizeof all, &older);
    assert_ptr_equal(copied, &all);
    assert_true(all.size == sizeof all && all.first == 7 && all.second == 0);
}

static void a_larger_struct_gives_what_is_known_here(void **state) {
    (void)state;
    struct {
        ours known;
        int64_t unknown;
    } newer = {{sizeof newer, 1, 2}, 3};
    ours all;
    (void)td__options(&all, sizeof all, &newer);
    assert_true(all.size == sizeof all && all.first == 1 && all.second == 2);
}

static void none_are_zeros_and_a_forgotten_size_is_ours(void **state) {
    (void)state;
    ours all = {1, 2, 3}, forgotten = {.second = 5};
    (void)td__options(&all, sizeof all, NULL);
    assert_true(all.size == sizeof all && all.first == 0 && all.second == 0);
    (void)td__options(&all, sizeof all, &forgotten);
    assert_true(all.second == 5);
}

static void no_more_is_given_than_fits(void **state) {
    (void)state;
    const ours from = {sizeof from, 1, 2};
    ours to = {.size = offsetof(ours, second), .second = 9};
    td__options_give(&to, &from, sizeof from);
    assert_true(to.size == offsetof(ours, second) && to.first == 1 && to.second == 9);
    ours forgotten = {.first = 8};
    td__options_give(&forgotten, &from, sizeof from);
    assert_true(forgotten.size == 0 && forgotten.first == 8);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_smaller_struct_leaves_the_rest_zero),
        cmocka_unit_test(a_larger_struct_gives_what_is_known_here),
        cmocka_unit_test(none_are_zeros_and_a_forgotten_size_is_ours),
        cmocka_unit_test(no_more_is_given_than_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
