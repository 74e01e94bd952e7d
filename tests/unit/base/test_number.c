#include "test.h"

#include "base/number.h"
#include "base/random.h"

#include <float.h>
#include <locale.h>

static const char *float_text(float value) {
    static char text[TD__NUMBER_ROOM + 1];
    text[td__format_float(text, value)] = 0;
    return text;
}

static const char *double_text(double value) {
    static char text[TD__NUMBER_ROOM + 1];
    text[td__format_double(text, value)] = 0;
    return text;
}

static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void floats_look_the_way_people_write_them(void **state) {
    (void)state;
    static const struct {
        float value;
        const char *text;
    } cases[] = {
        {0, "0"},
        {-0.0f, "-0.0"},
        {1, "1"},
        {-1.5f, "-1.5"},
        {0.1f, "0.1"},
        {0.3f, "0.3"},
        {100, "100"},
        {16777216, "16777216"},
        {123456792, "123456790"},
        {1e9f, "1e9"},
        {1.5e10f, "1.5e10"},
        {0.00001f, "0.00001"},
        {0.000012345f, "0.000012345"},
        {1e-6f, "1e-6"},
        {1.2345e-9f, "1.2345e-9"},
        {FLT_MAX, "3.4028235e38"},
        {FLT_MIN, "1.1754944e-38"},
        {FLT_TRUE_MIN, "1e-45"},
        {INFINITY, "inf"},
        {-INFINITY, "-inf"},
        {NAN, "nan"},
        {-NAN, "nan"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_string_equal(float_text(cases[i].value), cases[i].text);
    }
}

static void doubles_look_the_way_people_write_them(void **state) {
    (void)state;
    static const struct {
        double value;
        const char *text;
    } cases[] = {
        {0, "0"},
        {-0.0, "-0.0"},
        {0.1, "0.1"},
        {-2.5, "-2.5"},
        {1e15, "1000000000000000"},
        {1e16, "1e16"},
        {1234567890123456, "1234567890123456"},
        {0.00001, "0.00001"},
        {-1e-6, "-1e-6"},
        {0.1 + 0.2, "0.30000000000000004"},
        {DBL_MAX, "1.7976931348623157e308"},
        {-DBL_MIN, "-2.2250738585072014e-308"},
        {DBL_TRUE_MIN, "5e-324"},
        {INFINITY, "inf"},
        {-INFINITY, "-inf"},
        {NAN, "nan"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_string_equal(double_text(cases[i].value), cases[i].text);
    }
}

/* Digits without sign, point, exponent and the zeros around them. */
static int count_significant(const char *text) {
    int count = 0, trailing = 0;
    for (; *text && *text != 'e'; text++) {
        if (*text >= '0' && *text <= '9' && (count || *text != '0')) {
            count++;
            trailing = *text == '0' ? trailing + 1 : 0;
        }
    }
    return count - trailing;
}

static void check_shortest(uint32_t bits) {
    float value = float_of(bits);
    if (!isfinite(value) || value == 0) {
        return;
    }
    const char *text = float_text(value);
    assert_true(strlen(text) <= TD__NUMBER_TEXT);
    float back;
    assert_int_equal(td__parse_float(text, strlen(text), &back), TD_OK);
    assert_memory_equal(&back, &value, sizeof value);
    assert_true(strtof(text, NULL) == value);
    if ((bits & 0x7fffff) == 0) {
        return; /* the nearest shorter decimal need not be the one inside a lopsided interval */
    }
    char other[64];
    int digits = count_significant(text);
    snprintf(other, sizeof other, "%.*e", digits - 1, (double)value);
    assert_true(strtod(other, NULL) == strtod(text, NULL)); /* nearest of its length */
    if (digits > 1) {
        snprintf(other, sizeof other, "%.*e", digits - 2, (double)value);
        assert_true(strtof(other, NULL) != value); /* and nothing shorter reads back */
    }
}

static void float_text_is_the_shortest_that_reads_back(void **state) {
    (void)state;
    td__random random;
    td__random_seed(&random, 1, 0);
    for (uint32_t exponent = 0; exponent < 255; exponent++) {
        check_shortest(exponent << 23);
        check_shortest(exponent << 23 | 1);
        check_shortest(exponent << 23 | 0x7fffff);
    }
    for (int i = 0; i < 100000; i++) {
        check_shortest((uint32_t)td__random_next(&random));
    }
}

static void double_text_reads_back_to_the_same_bits(void **state) {
    (void)state;
    td__random random;
    td__random_seed(&random, 2, 0);
    for (int i = 0; i < 100000; i++) {
        uint64_t bits = td__random_next(&random);
        double value, back;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value)) {
            continue;
        }
        const char *text = double_text(value);
        assert_true(strlen(text) <= TD__NUMBER_TEXT);
        assert_int_equal(td__parse_double(text, strlen(text), &back), TD_OK);
        assert_memory_equal(&back, &value, sizeof value);
        assert_true(strtod(text, NULL) == value);
    }
}

static void integers_are_written_like_printf(void **state) {
    (void)state;
    td__random random;
    td__random_seed(&random, 3, 0);
    static const int64_t edges[] = {0,           1,         -1,         9,         10,
                                    99999999,    100000000, -100000000, INT64_MAX, INT64_MIN,
                                    10000000000, 99,        100000001};
    for (size_t i = 0; i < 20000; i++) {
        int64_t value = i < sizeof edges / sizeof *edges
                            ? edges[i]
                            : (int64_t)td__random_next(&random) >> (i % 64);
        char text[TD__NUMBER_ROOM + 1], expected[32];
        text[td__format_int(text, value)] = 0;
        snprintf(expected, sizeof expected, "%lld", (long long)value);
        assert_string_equal(text, expected);
        int64_t back;
        assert_int_equal(td__parse_int(text, strlen(text), &back), TD_OK);
        assert_true(back == value);
        text[td__format_uint(text, (uint64_t)value)] = 0;
        snprintf(expected, sizeof expected, "%llu", (unsigned long long)value);
        assert_string_equal(text, expected);
    }
}

static void parsing_takes_the_whole_text_or_nothing(void **state) {
    (void)state;
    static const char *const wrong[] = {"",     " 1",  "1 ",    "1,5", "0x10", "1e",   "e5",
                                        ".",    "+",   "-",     "+-1", "--1",  "1..2", "nan(1)",
                                        "inf2", "1_0", "1e5.0", "٣",   "\t1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        double value = 7;
        float single = 7;
        int64_t integer = 7;
        assert_int_equal(td__parse_double(wrong[i], strlen(wrong[i]), &value), TD_FORMAT);
        assert_int_equal(td__parse_float(wrong[i], strlen(wrong[i]), &single), TD_FORMAT);
        assert_int_equal(td__parse_int(wrong[i], strlen(wrong[i]), &integer), TD_FORMAT);
        assert_true(value == 7 && single == 7 && integer == 7);
    }
    int64_t integer;
    assert_int_equal(td__parse_int("1.0", 3, &integer), TD_FORMAT);
    assert_int_equal(td__parse_int("+12", 3, &integer), TD_OK);
    assert_int_equal(integer, 12);
    assert_int_equal(td__parse_int("12rest", 2, &integer), TD_OK);
}

static void parsing_reads_every_usual_spelling(void **state) {
    (void)state;
    static const struct {
        const char *text;
        double value;
    } cases[] = {{"1", 1},
                 {"+1.5", 1.5},
                 {".5", 0.5},
                 {"5.", 5},
                 {"1E3", 1000},
                 {"1e+3", 1000},
                 {"-1e-3", -0.001},
                 {"007", 7},
                 {"inf", INFINITY},
                 {"-Inf", -INFINITY},
                 {"INFINITY", INFINITY},
                 {"+inf", INFINITY}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double value;
        assert_int_equal(td__parse_double(cases[i].text, strlen(cases[i].text), &value), TD_OK);
        assert_true(value == cases[i].value);
    }
    float nan;
    assert_int_equal(td__parse_float("NaN", 3, &nan), TD_OK);
    assert_true(isnan(nan));
}

static void too_large_is_an_error_and_too_small_is_zero(void **state) {
    (void)state;
    double value = 7;
    float single = 7;
    int64_t integer = 7;
    assert_int_equal(td__parse_double("1e400", 5, &value), TD_RANGE);
    assert_int_equal(td__parse_double("-1e99999999999999999999", 23, &value), TD_RANGE);
    assert_int_equal(td__parse_float("1e39", 4, &single), TD_RANGE);
    assert_int_equal(td__parse_int("9223372036854775808", 19, &integer), TD_RANGE);
    assert_int_equal(td__parse_int("-9223372036854775809", 20, &integer), TD_RANGE);
    assert_int_equal(td__parse_int("99999999999999999999999", 23, &integer), TD_RANGE);
    assert_true(value == 7 && single == 7 && integer == 7);

    assert_int_equal(td__parse_double("1e-400", 6, &value), TD_OK);
    assert_true(value == 0 && !signbit(value));
    assert_int_equal(td__parse_double("-1e-99999999999999999999", 24, &value), TD_OK);
    assert_true(value == 0 && signbit(value));
    assert_int_equal(td__parse_float("-1e-50", 6, &single), TD_OK);
    assert_true(single == 0 && signbit(single));

    char digits[1024];
    memset(digits, '1', sizeof digits); /* 1024 digits, times 10^-400: still too large */
    memcpy(digits + 1019, "e-400", 5);
    assert_int_equal(td__parse_double(digits, sizeof digits, &value), TD_RANGE);
    memset(digits, '0', sizeof digits); /* 0.000…1 */
    digits[1] = '.';
    digits[1023] = '1';
    assert_int_equal(td__parse_double(digits, sizeof digits, &value), TD_OK);
    assert_true(value == 0);
}

static void the_locale_changes_nothing(void **state) {
    (void)state;
    static const char *const commas[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "de_DE@euro"};
    for (size_t i = 0; i < sizeof commas / sizeof *commas && !setlocale(LC_ALL, commas[i]); i++) {
    }
    double value;
    assert_string_equal(float_text(1.5f), "1.5");
    assert_string_equal(double_text(1234567.25), "1234567.25");
    assert_int_equal(td__parse_double("1.5", 3, &value), TD_OK);
    assert_true(value == 1.5);
    assert_int_equal(td__parse_double("1,5", 3, &value), TD_FORMAT);
    setlocale(LC_ALL, "C");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(floats_look_the_way_people_write_them),
        cmocka_unit_test(doubles_look_the_way_people_write_them),
        cmocka_unit_test(float_text_is_the_shortest_that_reads_back),
        cmocka_unit_test(double_text_reads_back_to_the_same_bits),
        cmocka_unit_test(integers_are_written_like_printf),
        cmocka_unit_test(parsing_takes_the_whole_text_or_nothing),
        cmocka_unit_test(parsing_reads_every_usual_spelling),
        cmocka_unit_test(too_large_is_an_error_and_too_small_is_zero),
        cmocka_unit_test(the_locale_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
