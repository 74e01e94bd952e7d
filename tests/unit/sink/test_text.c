#include "test.h"

#include "base/memory.h"
#include "sink/text.h"

static const char *csv(const char *text, size_t length) {
    static char out[8192];
    out[td__csv_cell(out, text, length)] = 0;
    return out;
}

static void cells_are_quoted_where_needed_and_never_formulas(void **state) {
    (void)state;
    static const struct {
        const char *text, *cell;
    } cases[] = {
        {"hidden.error", "hidden.error"},
        {"a,b", "\"a,b\""},
        {"say \"x\"", "\"say \"\"x\"\"\""},
        {"two\nlines", "\"two\nlines\""},
        {"=1+1", "'=1+1"},
        {"-1", "'-1"},
        {"@x,y", "\"'@x,y\""},
        {"\tx", "'\tx"},
        {"\rx", "\"'\rx\""},
        {" x", "\" x\""},
        {"\"\"\"\"", "\"\"\"\"\"\"\"\"\"\""},
        {"", ""},
        {"größe", "größe"},
        {"\xff=", "%FF="},
        {"\xc0\xaf\xed\xa0\x80\xf4\x90\x80\x80", "%C0%AF%ED%A0%80%F4%90%80%80"},
        {"\xe2\x82", "%E2%82"},
        {"\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_string_equal(csv(cases[i].text, strlen(cases[i].text)), cases[i].cell);
    }
    assert_string_equal(csv("a\0b", 3), "a%00b");
}

static void no_text_needs_more_room_than_promised(void **state) {
    (void)state;
    static const char *const worst[] = {"=\"", "\"", "\xff", "\"\xff", "-\xff,\"", " ", ","};
    for (size_t i = 0; i < sizeof worst / sizeof *worst; i++) {
        for (size_t repeat = 1; repeat < 20; repeat++) {
            char text[128] = "";
            for (size_t k = 0; k < repeat; k++) {
                strcat(text, worst[i]);
            }
            size_t length = strlen(text);
            char *out = malloc(TD__CSV_CELL(length)); /* the sanitizer sees a byte too many */
            assert_true(td__csv_cell(out, text, length) <= TD__CSV_CELL(length));
            free(out);
        }
    }
}

static void files_of_signals_never_meet_files_of_sinks(void **state) {
    (void)state;
    static const struct {
        const char *signal, *file;
    } cases[] = {
        {"hidden.error", "hidden.error"}, {"metrics", "%6Detrics"},
        {"predictions", "%70redictions"}, {"stats", "%73tats"},
        {"x.steps", "x%2Esteps"},         {"x.samples", "x%2Esamples"},
        {".steps", "%2Esteps"},           {"metrics2", "metrics2"},
        {"%6Detrics", "%256Detrics"},     {"a@16x10", "a%4016x10"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[TD__SIGNAL_FILE_SIZE];
        assert_string_equal(td__signal_file(name, cases[i].signal), cases[i].file);
    }
    char longest[TD__FILE_NAME_LENGTH + 1], name[TD__SIGNAL_FILE_SIZE];
    memset(longest, 'x', sizeof longest);
    strcpy(longest + TD__FILE_NAME_LENGTH - 6, ".steps");
    assert_int_equal(strlen(td__signal_file(name, longest)), TD__FILE_NAME_LENGTH + 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cells_are_quoted_where_needed_and_never_formulas),
        cmocka_unit_test(no_text_needs_more_room_than_promised),
        cmocka_unit_test(files_of_signals_never_meet_files_of_sinks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
