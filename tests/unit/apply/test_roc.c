/* The area under the ROC curve, against all pairs. */
#include "test.h"

#include "apply/roc.h"

#include <math.h>

enum { SCORES = 300, EQUAL = 400000 };

static void equal_scores_count_half(void **state) {
    (void)state;
    td__roc roc = {0};
    float score[2][SCORES];
    double pairs = 0;
    for (int i = 0; i < SCORES; i++) {
        score[0][i] = (float)(i * 7 % 13) - 6;
        score[1][i] = (float)(i * 5 % 17) - 4;
        assert_true(td__roc_add(&roc, 0, score[0][i]));
        assert_true(td__roc_add(&roc, 1, score[1][i]));
    }
    for (int i = 0; i < SCORES; i++) {
        for (int k = 0; k < SCORES; k++) {
            pairs += score[1][i] > score[0][k] ? 1 : score[1][i] == score[0][k] ? 0.5 : 0;
        }
    }
    assert_close(td__roc_area(&roc), pairs / SCORES / SCORES, 1e-12, 0);
    td__roc_release(&roc);
}

/* In the time of a sort: 1.6e11 comparisons of pairs would take minutes. */
static void many_equal_scores_take_no_longer(void **state) {
    (void)state;
    td__roc roc = {0};
    for (int i = 0; i < 2 * EQUAL; i++) {
        assert_true(td__roc_add(&roc, i % 2, 0.5F));
    }
    assert_true(td__roc_area(&roc) == 0.5);
    td__roc_release(&roc);
}

static void one_class_alone_has_no_area(void **state) {
    (void)state;
    td__roc roc = {0};
    assert_true(td__roc_add(&roc, 1, 0.5F));
    assert_true(isnan(td__roc_area(&roc)));
    td__roc_release(&roc);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_scores_count_half),
        cmocka_unit_test(many_equal_scores_take_no_longer),
        cmocka_unit_test(one_class_alone_has_no_area),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
