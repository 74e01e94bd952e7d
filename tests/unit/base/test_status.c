#include "test.h"

#include "tapedeck/base.h"

static void a_long_text_is_cut_at_a_character_and_marked(void **state) {
    (void)state;
    char text[3 * TD_ERROR_TEXT_SIZE];
    for (size_t i = 0; i + 2 < sizeof text; i += 2) {
        memcpy(text + i, "ä", 2);
    }
    text[sizeof text - 2] = 0;
    td_error error = {0};
    assert_int_equal(td_error_set(&error, TD_BAD_SHAPE, "x%s", text), TD_BAD_SHAPE);
    size_t length = strlen(error.text);
    assert_true(length < TD_ERROR_TEXT_SIZE);
    assert_string_equal(error.text + length - strlen("…"), "…");
    assert_int_equal((length - 1 - strlen("…")) % 2, 0);
    assert_int_equal(error.status, TD_BAD_SHAPE);
}

static void every_status_has_a_text(void **state) {
    (void)state;
    assert_string_equal(td_status_text(TD_OK), "ok");
    assert_string_equal(td_status_text(TD_BAD_SHAPE), "shapes do not fit");
    assert_string_equal(td_status_text((td_status)9999), "unknown status");
}

static void a_null_error_still_returns_the_status(void **state) {
    (void)state;
    assert_int_equal(td_error_set(NULL, TD_IO, "%d", 1), TD_IO);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_text_is_cut_at_a_character_and_marked),
        cmocka_unit_test(every_status_has_a_text),
        cmocka_unit_test(a_null_error_still_returns_the_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
