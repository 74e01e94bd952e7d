#include "test.h"

#include "tapedeck/base.h"

static const char *const words[] = {"learning_rate", "loss", "label", "labels", "epochs"};

static const char *nearest(const char *word) {
    return td_nearest_word(word, words, sizeof words / sizeof *words);
}

static void a_mistyped_word_finds_the_one_that_was_meant(void **state) {
    (void)state;
    assert_string_equal(nearest("lable"), "label");
    assert_string_equal(nearest("learningrate"), "learning_rate");
    assert_string_equal(nearest("Epoch"), "epochs");
    assert_string_equal(nearest("los"), "loss");
    assert_string_equal(nearest("labels"), "labels");
}

static void a_word_with_a_part_left_out_finds_the_whole(void **state) {
    (void)state;
    static const char *const losses[] = {"binary_crossentropy", "sparse_categorical_crossentropy"};
    assert_string_equal(td_nearest_word("sparse_crossentropy", losses, 2), losses[1]);
    assert_string_equal(td_nearest_word("binary_crossentropy", losses, 2), losses[0]);
    assert_null(td_nearest_word("crossentropy", losses, 2));
    assert_null(td_nearest_word("crossentropy_sparse", losses, 2));
}

static void a_word_unlike_all_others_finds_none(void **state) {
    (void)state;
    assert_null(nearest("optimizer"));
    assert_null(nearest("x"));
    assert_null(nearest(""));
    assert_null(td_nearest_word("a", NULL, 0));
}

static void very_long_words_are_left_alone(void **state) {
    (void)state;
    char word[4096];
    memset(word, 'a', sizeof word - 1);
    word[sizeof word - 1] = 0;
    const char *const candidates[] = {word, "loss"};
    assert_null(td_nearest_word(word, candidates, 2));
    assert_string_equal(td_nearest_word("loss", candidates, 2), "loss");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mistyped_word_finds_the_one_that_was_meant),
        cmocka_unit_test(a_word_with_a_part_left_out_finds_the_whole),
        cmocka_unit_test(a_word_unlike_all_others_finds_none),
        cmocka_unit_test(very_long_words_are_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
