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
    float back = strtof(text, NULL);
    assert_memory_equal(&back, &value, sizeof value);
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
        back = strtod(text, NULL);
        assert_memory_equal(&back, &value, sizeof value);
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
        text[td__format_uint(text, (uint64_t)value)] = 0;
        snprintf(expected, sizeof expected, "%llu", (unsigned long long)value);
        assert_string_equal(text, expected);
    }
}

static void a_value_that_is_a_float_is_written_as_one(void **state) {
    (void)state;
    static const struct {
        double value;
        const char *text;
    } cases[] = {{(double)0.1f, "0.1"},    {0.1, "0.1"},
                 {(double)0.3f, "0.3"},    {0.1 + 0.2, "0.30000000000000004"},
                 {123456792, "123456792"}, {9007199254740992, "9007199254740992"},
                 {-0.0, "-0.0"},           {1e300, "1e300"},
                 {INFINITY, "inf"},        {NAN, "nan"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[TD__NUMBER_ROOM + 1];
        text[td__format_value(text, cases[i].value)] = 0;
        assert_string_equal(text, cases[i].text);
    }
    char text[TD__NUMBER_ROOM + 1];
    text[td__format_rounded(text, 0.693147182, 4)] = 0;
    assert_string_equal(text, "0.6931");
}

static void the_locale_changes_nothing(void **state) {
    (void)state;
    static const char *const commas[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "de_DE@euro"};
    for (size_t i = 0; i < sizeof commas / sizeof *commas && !setlocale(LC_ALL, commas[i]); i++) {
    }
    assert_string_equal(float_text(1.5f), "1.5");
    assert_string_equal(double_text(1234567.25), "1234567.25");
    setlocale(LC_ALL, "C");
}

static void many_floats_are_written_as_each_alone(void **state) {
    (void)state;
    enum { COUNT = 100, ROUNDS = 3000 };
    static char together[COUNT * (TD__NUMBER_TEXT + 1) + TD__NUMBER_ROOM];
    static char alone[COUNT * (TD__NUMBER_TEXT + 1) + TD__NUMBER_ROOM];
    td__random random;
    td__random_seed(&random, 5, 0);
    for (size_t round = 0; round < ROUNDS; round++) {
        float values[COUNT];
        for (size_t i = 0; i < COUNT; i++) {
            uint32_t bits = (uint32_t)td__random_next(&random);
            values[i] = float_of(i % 7 == 3 ? bits & 0xff800000u : bits); /* powers of two too */
            values[i] = i % 11 == 5 ? (float)(int32_t)(bits >> 20) : values[i];
            values[i] = i % 13 == 6 ? (float)td__random_normal(&random) : values[i];
        }
        size_t count = round % (COUNT + 1);
        char *end = alone;
        for (size_t i = 0; i < count; i++) {
            end += td__format_float(end, values[i]);
            *end++ = ';';
        }
        size_t length = (size_t)(td__format_floats(together, values, count, ';') - together);
        assert_int_equal(length, end - alone);
        assert_memory_equal(together, alone, length);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(floats_look_the_way_people_write_them),
        cmocka_unit_test(many_floats_are_written_as_each_alone),
        cmocka_unit_test(doubles_look_the_way_people_write_them),
        cmocka_unit_test(float_text_is_the_shortest_that_reads_back),
        cmocka_unit_test(double_text_reads_back_to_the_same_bits),
        cmocka_unit_test(integers_are_written_like_printf),
        cmocka_unit_test(a_value_that_is_a_float_is_written_as_one),
        cmocka_unit_test(the_locale_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
