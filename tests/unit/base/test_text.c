#include "base/text.h"
#include "test.h"

#include <string.h>

static void check(const char *text, const char *expected) {
    char out[256];
    size_t size = td__json_string(out, text);
    assert_true(size <= TD__JSON_STRING_SIZE(strlen(text)));
    assert_int_equal(size, strlen(expected));
    assert_memory_equal(out, expected, size);
}

static void a_json_string_is_valid_json_for_any_bytes(void **state) {
    (void)state;
    check("", "\"\"");
    check("zero", "\"zero\"");
    check("a\"b\\c\n<", "\"a\\u0022b\\u005cc\\u000a\\u003c\"");
    check("é€𝄞", "\"é€𝄞\"");
    check("\xff", "\"\\ufffd\"");
    check("x\xe2\x82", "\"x\\ufffd\\ufffd\""); /* a character that is cut off */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_json_string_is_valid_json_for_any_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
