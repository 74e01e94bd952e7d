/* Fields by their tables: every type takes what it should, and says what it wants. */
#include "test.h"

#include "base/memory.h"
#include "nn/field.h"

typedef struct sample {
    int64_t whole, pair[2], bytes;
    double number, share, list[2];
    int64_t listed;
    td_number small;
    bool yes, no;
    int word;
    const char *text;
    const char *texts[TD_MAX_FROM];
    td_shape shape;
} sample;

static const char *const word_list[] = {"first", NULL, "third"};
static const td__words words = {"place", word_list, 3, "last", "third"};

#define FIELD(name, kind, ...)                                                                     \
    { .key = #name, .type = TD__FIELD_##kind, .offset = offsetof(sample, name), __VA_ARGS__ }
static const td__field fields[] = {
    FIELD(whole, INTEGER, .alias = "count", .minimum = 1, .by_default = 4),
    FIELD(pair, PAIR, .minimum = 0),
    FIELD(bytes, BYTES, .minimum = 1024),
    FIELD(number, NUMBER, .minimum = -2, .maximum = 2),
    FIELD(share, SHARE, .maximum = 1),
    FIELD(list, NUMBERS, .room = 2, .count_offset = offsetof(sample, listed)),
    FIELD(small, NUMBER, .minimum = 0.5, .number = true),
    FIELD(yes, BOOL, .quiet = true),
    {.key = "yes_or_no", .type = TD__FIELD_NOT, .offset = offsetof(sample, no)},
    FIELD(word, WORD, .words = &words),
    FIELD(text, TEXT, .quiet = true),
    FIELD(texts, TEXTS, .quiet = true),
    FIELD(shape, SHAPE, .minimum = 1),
};

static td_value number(double value) {
    return (td_value){.kind = TD_VALUE_NUMBER, .number = value};
}
static td_value text(const char *value) {
    return (td_value){.kind = TD_VALUE_TEXT, .text = value};
}
static td_value list(const double *numbers, size_t count) {
    return (td_value){.kind = TD_VALUE_NUMBERS, .numbers = numbers, .count = count};
}

static td_status set(sample *into, const char *key, td_value value, td_error *error) {
    td_setting setting = {key, value};
    return td__fields_set(fields, TD__COUNT(fields), into, &setting, 1, "of x: ", error);
}

static void take(sample *into, const char *key, td_value value) {
    td_error error = {0};
    assert_ok(set(into, key, value, &error), error);
}

static void every_type_takes_its_values(void **state) {
    (void)state;
    static const double three[] = {3, 4, 5};
    static const char *const names[] = {"a", "b"};
    sample s = {0};
    take(&s, "count", number(7));
    take(&s, "pair", number(2));
    assert_true(s.whole == 7 && s.pair[0] == 2 && s.pair[1] == 2);
    take(&s, "pair", list(three, 2));
    assert_true(s.pair[0] == 3 && s.pair[1] == 4);
    take(&s, "bytes", text("1.5 MiB"));
    assert_true(s.bytes == 3 * 512 * 1024);
    take(&s, "bytes", text("50M"));
    assert_true(s.bytes == 50 * 1024 * 1024);
    take(&s, "bytes", number(2000));
    assert_true(s.bytes == 2000);
    take(&s, "number", number(-1.5));
    take(&s, "share", text("5%"));
    assert_true(s.number == -1.5 && s.share == 0.05);
    take(&s, "share", number(0.25));
    take(&s, "small", number(0.75));
    assert_true(s.share == 0.25 && s.small.value == 0.75);
    take(&s, "list", list(three, 2));
    assert_true(s.listed == 2 && s.list[1] == 4);
    take(&s, "yes", (td_value){.kind = TD_VALUE_BOOL, .boolean = true});
    take(&s, "yes_or_no", (td_value){.kind = TD_VALUE_BOOL, .boolean = true});
    assert_true(s.yes && !s.no);
    take(&s, "word", text("last"));
    assert_int_equal(s.word, 2);
    take(&s, "text", (td_value){.kind = TD_VALUE_NUMBER, .number = 5, .text = "5.0"});
    assert_string_equal(s.text, "5.0");
    take(&s, "texts", (td_value){.kind = TD_VALUE_TEXTS, .texts = names, .count = 2});
    assert_string_equal(s.texts[1], "b");
    take(&s, "shape", list(three, 3));
    assert_true(s.shape.rank == 3 && s.shape.dims[2] == 5);
}

static void every_type_says_what_it_wants(void **state) {
    (void)state;
    static const double many[] = {1, 2, 3}, negative[] = {2, -1}, halves[] = {1, 0.5};
    static const struct {
        const char *key;
        td_value value;
        td_status status;
        const char *text;
    } wrong[] = {
        {"whole",
         {.kind = TD_VALUE_BOOL},
         TD_INVALID,
         "of x: 'whole' must be a whole number of at least 1, not true or false"},
        {"whole", {.number = 0}, TD_RANGE, "of x: 'whole' is 0, it must be 1 or more"},
        {"whole",
         {.number = 1e10},
         TD_RANGE,
         "of x: 'whole' is 10000000000, it must be less than 2^31"},
        {"pair",
         {.kind = TD_VALUE_NUMBERS, .numbers = many, .count = 3},
         TD_INVALID,
         "of x: 'pair' must be one or two whole numbers of at least 0, not a list of numbers"},
        {"pair",
         {.kind = TD_VALUE_NUMBERS, .numbers = negative, .count = 2},
         TD_RANGE,
         "of x: 'pair' is -1, it must be 0 or more"},
        {"bytes",
         {.kind = TD_VALUE_TEXT, .text = "3 parsecs"},
         TD_INVALID,
         "of x: 'bytes' must be a size such as 256 MiB, not '3 parsecs'"},
        {"bytes",
         {.kind = TD_VALUE_BOOL},
         TD_INVALID,
         "of x: 'bytes' must be a size such as 256 MiB, not true or false"},
        {"bytes", {.number = 3}, TD_RANGE, "of x: 'bytes' is 3, it must be 1024 or more"},
        {"number",
         {.kind = TD_VALUE_TEXT, .text = "x"},
         TD_INVALID,
         "of x: 'number' must be a number from -2 to 2, not 'x'"},
        {"number", {.number = 3}, TD_RANGE, "of x: 'number' is 3, it must be 2 or less"},
        {"share",
         {.kind = TD_VALUE_TEXT, .text = "5 % of it"},
         TD_INVALID,
         "of x: 'share' must be a share such as 0.05 or 5% from 0 to 1, not '5 % of it'"},
        {"list",
         {.kind = TD_VALUE_NUMBERS, .numbers = many, .count = 3},
         TD_RANGE,
         "of x: 'list' has 3 numbers, at most 2 fit"},
        {"list",
         {.kind = TD_VALUE_BOOL},
         TD_INVALID,
         "of x: 'list' must be a list of numbers, not true or false"},
        {"small", {.number = 0.25}, TD_RANGE, "of x: 'small' is 0.25, it must be 0.5 or more"},
        {"yes", {.number = 1}, TD_INVALID, "of x: 'yes' must be true or false, not 1"},
        {"word",
         {.kind = TD_VALUE_TEXT, .text = "thrid"},
         TD_NOT_FOUND,
         "of x: there is no place 'thrid'; did you mean 'third'?"},
        {"word",
         {.kind = TD_VALUE_TEXT, .text = "zz"},
         TD_NOT_FOUND,
         "of x: there is no place 'zz'; there are first, third"},
        {"word", {.number = 1}, TD_INVALID, "of x: 'word' must be a word, not 1"},
        {"text", {.number = 1}, TD_INVALID, "of x: 'text' must be text, not 1"},
        {"text", {.kind = TD_VALUE_TEXT}, TD_INVALID, "of x: 'text' has no value"},
        {"texts",
         {.kind = TD_VALUE_TEXTS},
         TD_INVALID,
         "of x: 'texts' must be a name or a list of 1 to 16 names, not a list of texts"},
        {"shape",
         {.kind = TD_VALUE_NUMBERS, .numbers = halves, .count = 2},
         TD_INVALID,
         "of x: 'shape' must be a list of 1 to 7 whole numbers of at least 1, not a list of "
         "numbers"},
        {"wohle", {.number = 1}, TD_NOT_FOUND, "of x: there is no 'wohle'; did you mean 'whole'?"},
    };
    for (size_t i = 0; i < TD__COUNT(wrong); i++) {
        sample s = {0};
        td_error error = {0};
        assert_int_equal(set(&s, wrong[i].key, wrong[i].value, &error), wrong[i].status);
        assert_string_equal(error.text, wrong[i].text);
    }
}

static void structs_are_checked_and_written_back(void **state) {
    (void)state;
    td_error error = {0};
    td_setting *settings;
    size_t count;
    sample s = {.number = 1, .bytes = 2048, .small = TD_SET(1), .shape = TD_SHAPE(2, 3)};
    td__fields_fill(fields, TD__COUNT(fields), &s, false);
    assert_true(s.whole == 4 && s.number == 1);
    assert_ok(td__fields_check(fields, TD__COUNT(fields), &s, "", &error), error);
    assert_ok(td__fields_write(fields, TD__COUNT(fields), &s, &settings, &count, &error), error);
    assert_int_equal(count, TD__COUNT(fields) - 3); /* what is quiet and empty is left out */
    sample again = {0};
    for (size_t i = 0; i < count; i++) {
        take(&again, settings[i].key, settings[i].value);
    }
    td__free(settings);
    assert_true(again.whole == 4 && again.bytes == 2048 && again.shape.dims[1] == 3);
    s.word = 1;
    assert_int_equal(td__fields_check(fields, TD__COUNT(fields), &s, "", &error), TD_INVALID);
    assert_string_equal(error.text, "'word' is 1, which is no place");
    s.small = TD_DEFAULT;
    assert_int_equal(td__fields_check(fields, TD__COUNT(fields), &s, "", &error), TD_INVALID);
    assert_string_equal(error.text, "'small' must be given");
}

static void losses_take_the_options_that_mean_something(void **state) {
    (void)state;
    td_loss loss = TD_LOSS_MSE;
    td_error error = {0};
    td_loss_options options = {.size = sizeof options, .from_logits = true};
    td_setting delta = {"delta", {.number = 2}};
    assert_int_equal(td_loss_configure(&loss, &options, "huber", &delta, 1, &error), TD_INVALID);
    assert_string_equal(error.text, "huber: from_logits is for cross-entropies");
    options.from_logits = false;
    assert_ok(td_loss_configure(&loss, &options, "huber", &delta, 1, &error), error);
    assert_true(loss == TD_LOSS_HUBER && options.delta.value == 2);
    td_loss_options fresh = {.size = sizeof fresh};
    assert_int_equal(td_loss_configure(&loss, &fresh, "mse", &delta, 1, &error), TD_INVALID);
    assert_true(loss == TD_LOSS_HUBER && !fresh.delta.set);
    delta.value.number = -1;
    assert_int_equal(td_loss_configure(&loss, &fresh, "huber", &delta, 1, &error), TD_RANGE);
    assert_string_equal(error.text, "loss huber: 'delta' is -1, it must be 1e-30 or more");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_takes_its_values),
        cmocka_unit_test(every_type_says_what_it_wants),
        cmocka_unit_test(structs_are_checked_and_written_back),
        cmocka_unit_test(losses_take_the_options_that_mean_something),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
