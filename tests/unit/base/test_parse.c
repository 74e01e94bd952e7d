#include "test.h"

#include "base/parse.h"
#include "base/random.h"

/* glibc's strtof and strtod round exactly: an independent reference in the C locale. */
static void check(const char *text) {
    float narrow = -77;
    double wide = -77;
    char *expected_end;
    float expected_narrow = strtof(text, &expected_end);
    double expected_wide = strtod(text, NULL);
    const char *end = td__parse_float32(text, &narrow);
    if (end != expected_end || memcmp(&narrow, &expected_narrow, sizeof narrow) != 0) {
        fail_msg("'%s' is read as %.9g, expected %.9g", text, (double)narrow,
                 (double)expected_narrow);
    }
    end = td__parse_float64(text, &wide);
    if (end != expected_end || memcmp(&wide, &expected_wide, sizeof wide) != 0) {
        fail_msg("'%s' is read as %.17g, expected %.17g", text, wide, expected_wide);
    }
}

static void odd_spellings_are_read_like_the_c_library_does(void **state) {
    (void)state;
    static const char *const texts[] = {
        "0",
        "-0",
        "+5",
        "7.",
        ".5",
        "-.5e1",
        "1e",
        "1e+",
        "1e5x",
        "00001.50000",
        "1E-2",
        "9007199254740993",
        "123456789012345678901234567890",
        "1e23",
        "1e-23",
        "1e400",
        "-1e400",
        "1e-400",
        "-1e-400",
        "1e99999999999999999999",
        "0e99999999999",
        "1e38",
        "3.5e38",
        "1e-40",
        "1e-46",
        "7e-46",
        "1.17549435e-38",
        "2.2250738585072014e-308",
        "4.9e-324",
        "2e-324",
        "1.00000005960464477539062500000000000000000000000001", /* just above a float midpoint */
        "1.000000059604644775390625",
        "1.00000017881393432617187499999",
        "16777217",
        "16777219",
        "0.000000000000000000000000000000000000000000000000000000000000000001e66",
        "1,5",
        "3;"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        check(texts[i]);
    }
}

static void random_numbers_are_rounded_to_the_nearest_float(void **state) {
    (void)state;
    td__random random;
    td__random_seed(&random, 1, 1);
    for (int i = 0; i < 300000; i++) {
        char text[64];
        uint64_t bits = td__random_next(&random);
        float narrow;
        double wide;
        memcpy(&narrow, &bits, sizeof narrow);
        memcpy(&wide, &bits, sizeof wide);
        int digits = (int)td__random_below(&random, 20);
        if (i % 3 == 0 && isfinite(narrow)) {
            snprintf(text, sizeof text, "%.*g", digits, (double)narrow);
        } else if (i % 3 == 1 && isfinite(wide)) {
            snprintf(text, sizeof text, "%.*g", digits, wide);
        } else {
            snprintf(text, sizeof text, "%.*f", digits, (double)(bits >> 40) / 4096.0);
        }
        check(text);
    }
}

/* Halfway between two floats, printed as a double of 17 digits: rounding twice would go wrong. */
static void numbers_beside_a_midpoint_are_not_rounded_twice(void **state) {
    (void)state;
    td__random random;
    td__random_seed(&random, 2, 1);
    for (int i = 0; i < 100000; i++) {
        uint64_t bits = td__random_next(&random);
        bits = (bits & 0x000FFFFFE0000000u) | (uint64_t)(1000 + bits % 46) << 52 | 0x10000000u;
        double middle;
        memcpy(&middle, &bits, sizeof middle);
        char text[64];
        snprintf(text, sizeof text, "%.*g", 15 + i % 10, middle);
        check(text);
    }
}

static void words_for_non_finite_numbers_are_read(void **state) {
    (void)state;
    float value = 0;
    const char *text = "NaN,";
    assert_ptr_equal(td__parse_float32(text, &value), text + 3);
    assert_true(isnan(value));
    text = "-Infinity";
    assert_ptr_equal(td__parse_float32(text, &value), text + 9);
    assert_true(isinf(value) && value < 0);
    value = 3;
    assert_null(td__parse_float32("", &value));
    assert_null(td__parse_float32("-", &value));
    assert_null(td__parse_float32(".", &value));
    assert_null(td__parse_float32("e5", &value));
    assert_true(value == 3);
}

static void sizes_are_read_as_people_write_them(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t bytes; /* 0: refused */
    } cases[] = {
        {"2000", 2000},
        {"1e3", 1000},
        {"4096B", 4096},
        {"50M", 50 << 20},
        {"50 MB", 50000000},
        {"50MiB", 50 << 20},
        {"3k", 3 << 10},
        {"3kB", 3000},
        {"3KB", 3000},
        {"3 KiB", 3 << 10},
        {"2g", (int64_t)2 << 30},
        {"2GB", 2000000000},
        {"1.5 GiB", (int64_t)3 << 29},
        {"1T", (int64_t)1 << 40},
        {"", 0},
        {"M", 0},
        {"0.5", 0},
        {"-1G", 0},
        {"50 Mb/s", 0},
        {"50MM", 0},
        {"5 000", 0},
        {"1e30", 0},
        {"nan", 0},
        {"inf", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t bytes = -7;
        bool read = td_parse_bytes(cases[i].text, &bytes);
        assert_int_equal(read, cases[i].bytes != 0);
        assert_int_equal(bytes, read ? cases[i].bytes : -7);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_read_as_people_write_them),
        cmocka_unit_test(odd_spellings_are_read_like_the_c_library_does),
        cmocka_unit_test(random_numbers_are_rounded_to_the_nearest_float),
        cmocka_unit_test(numbers_beside_a_midpoint_are_not_rounded_twice),
        cmocka_unit_test(words_for_non_finite_numbers_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
