/* Conditions: what they mean, what they remember, and how wrong ones are reported. */
#include "test.h"

#include "base/memory.h"
#include "deck/condition.h"
#include "deck/glob.h"

static td_signal signals[] = {
    {.name = "loss", .index = 0},         {.name = "accuracy", .index = 1},
    {.name = "hidden.error", .index = 2}, {.name = "conv1.error", .index = 3},
    {.name = "grad.norm", .index = 4}, /* a scalar whose name ends like a statistic */
    {.name = "train/loss", .index = 5},   {.name = "never", .index = 6},
};
enum { LOSS, ACCURACY, HIDDEN, CONV1, GRAD_NORM, SLASHED, NEVER, SIGNALS };

static void set_scalar(int which, double value, uint64_t serial) {
    signals[which].value = value;
    signals[which].value_serial = serial;
}

static void set_tensor(int which, td_stats stats, uint64_t serial) {
    signals[which].stats = stats;
    signals[which].stats_serial = serial;
}

static void reset(uint64_t serial) {
    for (int i = 0; i < SIGNALS; i++) {
        signals[i].value_serial = signals[i].stats_serial = 0;
    }
    set_scalar(LOSS, 0.5, serial);
    set_scalar(ACCURACY, 0.9, serial);
    set_scalar(GRAD_NORM, 7, serial);
    set_scalar(SLASHED, 3, serial);
    set_tensor(HIDDEN, (td_stats){.norm = 1e-7, .mean = 2, .min = -1, .max = 4, .count = 10},
               serial);
    set_tensor(CONV1, (td_stats){.norm = 5, .mean = -2, .nan = 3, .inf = 1, .zeros = 2}, serial);
}

static td__condition *parse(const char *text) {
    td_error error = {0};
    td__condition *condition = td__condition_parse(text, &error);
    if (!condition) {
        fail_msg("%s", error.text);
    }
    for (int i = 0; i < SIGNALS; i++) {
        bool uses = false, stats = false;
        assert_true(td__condition_meet(condition, &signals[i], &uses, &stats));
    }
    return condition;
}

static bool holds(const char *text) {
    td__moment now = {.epoch = 3, .step = 120, .serial = 9};
    td__condition *condition = parse(text);
    td__condition_update(condition, &now);
    bool result = td__condition_holds(condition, &now);
    td__condition_destroy(condition);
    return result;
}

static void conditions_mean_what_they_say(void **state) {
    (void)state;
    reset(9);
    static const struct {
        const char *text;
        bool holds;
    } cases[] = {
        {"loss < 1", true},
        {"loss > 1.0", false},
        {"loss>=.5 and accuracy<=0.9", true},
        {"loss == 0.5", true},
        {"loss != 0.5", false},
        {"loss > 1 or accuracy > 0.5 and step > 100", true},
        {"(loss > 1 or accuracy > 0.5) and step > 200", false},
        {"not loss > 1", true},
        {"not (loss < 1) or not not (epoch == 3)", true},
        {"1 + 2 * 3 == 7", true},
        {"(1 + 2) * 3 == 9 and 7 - 2 - 1 == 4 and 8 / 2 / 2 == 2", true},
        {"-loss < -0.4 and --loss > 0", true},
        {"loss*2 == 1 and 2*loss == 1", true},
        {"hidden.error.norm < 1e-6 and step > 100", true},
        {"hidden.error.max - hidden.error.min == 5", true},
        {"hidden.error.count == 10 and conv1.error.zeros == 2", true},
        {"grad.norm == 7", true},
        {"\"train/loss\" == 3 and 'train/loss' > 2", true},
        {"*.error.norm < 1e-6", true},
        {"*.error.norm > 10", false},
        {"2 * *.error.norm - 1 > 8", true},
        {"c*.error.norm > 4", true},
        {"min(*.error.norm) < 1e-6 and max(*.error.mean) == 2", true},
        {"max(*.error.norm) - min(*.error.norm) > 4.9", true},
        {"not *.error.norm > 10", true},
        {"abs(conv1.error.mean) == 2", true},
        {"min(3, 1, 2) == 1 and max(loss, accuracy, 0) == 0.9", true},
        {"nan(*)", true},
        {"nan(*) == 3 and inf(*) == 1", true},
        {"nan(hidden.*)", false},
        {"nan(\"conv?.error\") > 2", true},
        {"never > 0 or never <= 0 or never == never", false},
        {"not never > 0", true},
        {"never != 1", true},
        {"min(never, 1) < 2", false},
        {"stepwise > 0", false},
        {"loss", true},
        {"0", false},
        {" \t\n1\r ", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (holds(cases[i].text) != cases[i].holds) {
            fail_msg("%s should %s", cases[i].text, cases[i].holds ? "hold" : "not hold");
        }
    }
}

static void old_nan_does_not_count_as_this_steps(void **state) {
    (void)state;
    reset(8); /* the step is 9 */
    assert_false(holds("nan(*)"));
    assert_true(holds("conv1.error.nan == 3")); /* the latest value */
    set_scalar(LOSS, (double)NAN, 9);
    assert_true(holds("nan(*) == 1 and nan(loss) and not inf(loss)"));
}

static void mean_and_delta_remember_new_values_only(void **state) {
    (void)state;
    reset(0);
    td__condition *mean = parse("mean(loss, 3) == 3 and mean(loss + 1, 2) == 4.5");
    td__condition *delta = parse("delta(loss) == 2");
    double values[] = {1, 2, 2, (double)NAN, 3, 4};
    for (uint64_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        td__moment now = {1, (int64_t)i, 2 * i + 1};
        set_scalar(LOSS, values[i], now.serial);
        td__condition_update(mean, &now);
        td__condition_update(delta, &now);
        assert_int_equal(td__condition_holds(mean, &now), i == 5); /* (2 + 3 + 4) / 3 */
        now.serial++;                                              /* a step without a new value */
        td__condition_update(mean, &now);
        assert_int_equal(td__condition_holds(mean, &now), i == 5);
    }
    td__moment now = {1, 99, 99};
    set_scalar(LOSS, 6, 99);
    td__condition_update(delta, &now);
    assert_true(td__condition_holds(delta, &now));
    td__condition_destroy(mean);
    td__condition_destroy(delta);
}

static void a_spike_is_seen_against_the_mean(void **state) {
    (void)state;
    reset(0);
    td__condition *spike = parse("delta(loss) > 3 * mean(loss, 50)");
    int fired = 0;
    for (int i = 1; i <= 200; i++) {
        td__moment now = {1, i, (uint64_t)i};
        set_scalar(LOSS, i == 150 ? 40 : 1, now.serial);
        td__condition_update(spike, &now);
        if (td__condition_holds(spike, &now)) {
            fired++;
            assert_int_equal(i, 150);
        }
    }
    assert_int_equal(fired, 1);
    td__condition_destroy(spike);
}

static void wrong_conditions_are_shown_with_a_caret(void **state) {
    (void)state;
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"loss > ", "when: the condition ends where a number, a signal or ( is expected\n"
                    "    loss > \n"
                    "           ^"},
        {"loss > > 1", "when: a number, a signal or ( is expected here\n"
                       "    loss > > 1\n"
                       "           ^"},
        {"loss = 1", "when: to compare, write ==\n"
                     "    loss = 1\n"
                     "         ^"},
        {"a < b < c", "when: comparisons do not chain: write a < b and b < c\n"
                      "    a < b < c\n"
                      "          ^"},
        {"maen(loss, 3) > 1", "when: there is no function maen; did you mean mean?\n"
                              "    maen(loss, 3) > 1\n"
                              "    ^"},
        {"loss > 1 && step > 2", "when: write and\n"
                                 "    loss > 1 && step > 2\n"
                                 "             ^"},
        {"(loss > 1", "when: a ) is expected here\n"
                      "    (loss > 1\n"
                      "             ^"},
        {"loss > 1)", "when: there is no ( for this )\n"
                      "    loss > 1)\n"
                      "            ^"},
        {"mean(loss)", "when: mean takes a number of values too: mean(loss, 50)\n"
                       "    mean(loss)\n"
                       "             ^"},
        {"mean(loss, 0) > 1", "when: a whole number from 1 to 1000000 is expected here\n"
                              "    mean(loss, 0) > 1\n"
                              "               ^"},
        {"\"loss > 1", "when: this quotation mark has no other\n"
                       "    \"loss > 1\n"
                       "    ^"},
        {"2x > 1", "when: a number ends here; a name cannot begin with a digit unless quoted\n"
                   "    2x > 1\n"
                   "     ^"},
        {"*.norm > *.mean", "when: a comparison takes one glob; min() or max() make one of two\n"
                            "    *.norm > *.mean\n"
                            "             ^"},
        {"nan()", "when: the name of a signal is expected here\n"
                  "    nan()\n"
                  "        ^"},
        {"*.norm", "when: a glob needs a comparison, min(), max(), nan() or inf()\n"
                   "    *.norm\n"
                   "    ^"},
        {"delta(*.norm) > 1", "when: mean and delta take one signal, not a glob\n"
                              "    delta(*.norm) > 1\n"
                              "          ^"},
        {"\"\xc3\xa4\" @", "when: an operator or the end is expected here\n"
                           "    \"\xc3\xa4\" @\n"
                           "        ^"},
        {"", "when: the condition ends where a number, a signal or ( is expected\n"
             "    \n"
             "    ^"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        td_error error = {0};
        assert_null(td__condition_parse(cases[i].text, &error));
        assert_int_equal(error.status, TD_INVALID);
        assert_string_equal(error.text, cases[i].error);
    }
}

static void hostile_conditions_are_refused_not_followed(void **state) {
    (void)state;
    enum { LENGTH = 9000 };
    static const char *const pieces[] = {"(",         "-",    "not ", "min(",  "1+",
                                         "loss and ", "abs(", "*.",   "\"a\"+"};
    char *text = calloc(LENGTH + 1, 1);
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        size_t step = strlen(pieces[i]), used = 0;
        for (; used + step < LENGTH; used += step) {
            memcpy(text + used, pieces[i], step);
        }
        text[used] = 0;
        td_error error = {0};
        assert_null(td__condition_parse(text, &error));
        assert_int_equal(error.status, TD_INVALID);
    }
    memset(text, 'x', LENGTH);
    td__condition *condition = td__condition_parse(text, NULL); /* a long name is just a name */
    assert_non_null(condition);
    td__condition_destroy(condition);
    free(text);
}

static void every_allocation_of_the_parser_may_fail(void **state) {
    (void)state;
    for (uint64_t n = 1;; n++) {
        td__allocation_fail_at(n);
        td_error error = {0};
        td__condition *condition =
            td__condition_parse("mean(loss, 9) > 1 and nan(*) or \"x y\" < min(a, b.norm)", &error);
        td__allocation_fail_at(0);
        if (condition) {
            td__condition_destroy(condition);
            assert_true(n > 5);
            break;
        }
        assert_int_equal(error.status, TD_MEMORY);
    }
}

static void globs_match(void **state) {
    (void)state;
    static const struct {
        const char *pattern, *name;
        bool matches;
    } cases[] = {
        {"*", "", true},
        {"*", "a.b/c", true},
        {"a*", "ba", false},
        {"*.error", "x.error", true},
        {"*.error", "error", false},
        {"a?c", "abc", true},
        {"a?c", "ac", false},
        {"[a-c]x", "bx", true},
        {"[!a-c]x", "bx", false},
        {"[!a-c]x", "dx", true},
        {"[]]", "]", true},
        {"[a", "[a", true},
        {"a\\*", "a*", true},
        {"a\\*", "ab", false},
        {"*a*b*", "xxaxxbxx", true},
        {"*a*b*", "xxbxxaxx", false},
        {"\\", "\\", true},
        {"a**b", "ab", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (td__glob_match(cases[i].pattern, cases[i].name) != cases[i].matches) {
            fail_msg("%s, %s", cases[i].pattern, cases[i].name);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conditions_mean_what_they_say),
        cmocka_unit_test(old_nan_does_not_count_as_this_steps),
        cmocka_unit_test(mean_and_delta_remember_new_values_only),
        cmocka_unit_test(a_spike_is_seen_against_the_mean),
        cmocka_unit_test(wrong_conditions_are_shown_with_a_caret),
        cmocka_unit_test(hostile_conditions_are_refused_not_followed),
        cmocka_unit_test(every_allocation_of_the_parser_may_fail),
        cmocka_unit_test(globs_match),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
