/* Small allocations within a budget. */
#include "base/chunks.h"
#include "test.h"

#include <string.h>

static void pieces_are_zero_aligned_and_apart(void **state) {
    (void)state;
    td__chunks chunks = {.left = 1 << 20};
    td_status reason;
    unsigned char *before = NULL;
    for (size_t i = 0; i < 1000; i++) {
        (void)td__chunks_take(&chunks, 1, 1, 1, &reason);
        unsigned char *piece = td__chunks_take(&chunks, 5, 8, sizeof(void *), &reason);
        assert_non_null(piece);
        assert_int_equal((uintptr_t)piece % sizeof(void *), 0);
        for (size_t k = 0; k < 40; k++) {
            assert_int_equal(piece[k], 0);
        }
        memset(piece, 0xff, 40);
        assert_true(!before || before != piece);
        before = piece;
    }
    td__chunks_free(chunks.newest);
}

static void what_the_budget_does_not_have_is_refused(void **state) {
    (void)state;
    td__chunks chunks = {.left = 100};
    td_status reason = TD_OK;
    assert_non_null(td__chunks_take(&chunks, 60, 1, 1, &reason));
    assert_null(td__chunks_take(&chunks, 60, 1, 1, &reason));
    assert_int_equal(reason, TD_RANGE);
    assert_null(td__chunks_take(&chunks, SIZE_MAX, 8, 8, &reason));
    assert_int_equal(reason, TD_RANGE);
    assert_int_equal(td__chunks_charge(&chunks, 41), TD_RANGE);
    assert_int_equal(td__chunks_charge(&chunks, 40), TD_OK);
    assert_int_equal(td__chunks_charge(&chunks, 1), TD_RANGE);
    td__chunks_free(chunks.newest);
    td__chunks_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_zero_aligned_and_apart),
        cmocka_unit_test(what_the_budget_does_not_have_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
