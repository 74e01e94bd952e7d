/* Signals that are derived from others: who asks for them, and what that costs those who do not. */
#include "folder.h"

#include "deck/deck.h"
#include "deck/derived.h"
#include "deck/glob.h"

static void only_a_pattern_that_names_the_last_word_means_what_is_derived(void **state) {
    (void)state;
    static const struct {
        const char *pattern, *name;
        bool means;
    } cases[] = {
        {"*.moment1", "conv1.kernel.moment1", true},
        {"conv1.*.mom*", "conv1.kernel.moment1", true},
        {"conv1.kernel.moment1", "conv1.kernel.moment1", true},
        {"*.moment[12]", "conv1.kernel.moment1", true},
        {"*", "conv1.kernel.moment1", false},
        {"*.*", "conv1.kernel.moment1", false},
        {"conv1.*", "conv1.kernel.moment1", false},
        {"*.???????", "conv1.kernel.moment1", false},
        {"conv*", "conv1.kernel.moment1", false},
        {"*1", "conv1.kernel.moment1", false},
        {"dense.*.moment1", "conv1.kernel.moment1", false},
        {"loss_scale", "loss_scale", true},
        {"*", "loss_scale", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (td__glob_match_signal(cases[i].pattern, cases[i].name, true) != cases[i].means) {
            fail_msg("%s for %s", cases[i].pattern, cases[i].name);
        }
        assert_true(td__glob_match_signal(cases[i].pattern, cases[i].name, false) ==
                    td__glob_match(cases[i].pattern, cases[i].name));
    }
    assert_true(td__glob_derives("*.stable_rank", "a.b", false, "stable_rank"));
    assert_true(td__glob_derives("a.moment1.stable_rank", "a.moment1", true, "stable_rank"));
    assert_false(td__glob_derives("*.stable_rank", "a.moment1", true, "stable_rank"));
    assert_false(td__glob_derives("a.*", "a.b", false, "stable_rank"));
    assert_false(td__glob_derives("stable_rank", "a.b", false, "stable_rank"));
}

static size_t signals_of(const char *what, bool *wanted) {
    static const float ones[] = {3, 0, 0, 4, 0, 0};
    td_error error = {0};
    char path[200];
    (void)snprintf(path, sizeof path, "%s/run", folder);
    td_deck *deck = td_deck_open(path, &error);
    assert_non_null(deck);
    assert_int_equal(td_deck_track(deck, .what = what, .to = "csv"), TD_OK);
    td_signal *signal = td_deck_signal(deck, "layer.output");
    *wanted = td_signal_wants(signal);
    td_view view = {.dtype = TD_FLOAT32, .shape = TD_SHAPE(3, 2), .data = ones};
    assert_int_equal(td_signal_record(signal, view), TD_OK);
    assert_int_equal(td_deck_step(deck, 1, 1), TD_OK);
    size_t count = deck->signal_count;
    assert_int_equal(td_deck_close(deck, &error), TD_OK);
    return count;
}

static void nothing_is_made_that_nobody_names(void **state) {
    (void)state;
    bool wanted;
    assert_int_equal(signals_of("loss", &wanted), 1);
    assert_false(wanted);
    assert_int_equal(signals_of("*", &wanted), 1);
    assert_true(wanted);
    assert_int_equal(signals_of("*.stable_rank", &wanted), 2);
    assert_true(wanted); /* its source is to be recorded for it */
    assert_int_equal(signals_of("*.float8_*", &wanted), 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_a_pattern_that_names_the_last_word_means_what_is_derived),
        cmocka_unit_test_setup_teardown(nothing_is_made_that_nobody_names, make_folder,
                                        remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
