/* Bytes as text and back. */
#include "test.h"

#include "base/base64.h"
#include "base/memory.h"

static void bytes_of_any_length_come_back(void **state) {
    (void)state;
    static const char *const texts[] = {"", "AA==", "AAH/", "AAH/fg==", "AAH/fj8="};
    static const size_t sizes[] = {0, 1, 3, 4, 5};
    const unsigned char bytes[] = {0, 1, 255, 126, 63};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *text = td__base64_encode(bytes, sizes[i]);
        assert_string_equal(text, texts[i]);
        size_t size = 99;
        void *back = td__base64_decode(text, &size);
        assert_int_equal(size, sizes[i]);
        assert_memory_equal(back, bytes, size);
        td__free(back);
        td__free(text);
    }
}

static void other_texts_are_refused(void **state) {
    (void)state;
    static const char *const texts[] = {"A",    "AAA",   "A===", "AA=A",
                                        "AA A", "AA\nA", "AA-_", "===="};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        size_t size;
        assert_null(td__base64_decode(texts[i], &size));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_of_any_length_come_back),
        cmocka_unit_test(other_texts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
