/* What a signal is: declared, or guessed from its name; and that sinks get it. */
#include "memory_sink.h"

static const struct {
    const char *name;
    td_signal_kind kind;
    const char *layer, *parameter;
    bool batched;
    td_better better;
} guesses[] = {
    {"loss", TD_SIGNAL_METRIC, "", "", true, TD_BETTER_SMALLER},
    {"val_loss", TD_SIGNAL_METRIC, "", "", true, TD_BETTER_SMALLER},
    {"epoch_accuracy", TD_SIGNAL_METRIC, "", "", true, TD_BETTER_LARGER},
    {"learning_rate", TD_SIGNAL_METRIC, "", "", true, TD_BETTER_NEITHER},
    {"glossary", TD_SIGNAL_UNKNOWN, "", "", true, TD_BETTER_NEITHER},
    {"hidden.output", TD_SIGNAL_OUTPUT, "hidden", "", true, TD_BETTER_NEITHER},
    {"a.b.preactivation", TD_SIGNAL_PREACTIVATION, "a.b", "", true, TD_BETTER_NEITHER},
    {"hidden.error", TD_SIGNAL_ERROR, "hidden", "", true, TD_BETTER_NEITHER},
    {"hidden.loss", TD_SIGNAL_METRIC, "hidden", "", true, TD_BETTER_SMALLER},
    {"rnn.recurrent_kernel", TD_SIGNAL_PARAMETER, "rnn", "recurrent_kernel", false, 0},
    {"layer1.0.weight", TD_SIGNAL_PARAMETER, "layer1.0", "weight", false, 0},
    {"a.b.kernel.gradient", TD_SIGNAL_GRADIENT, "a.b", "kernel", false, 0},
    {"kernel.update", TD_SIGNAL_UPDATE, "", "kernel", false, 0},
    {"input", TD_SIGNAL_INPUT, "", "", true, 0},
    {"label", TD_SIGNAL_LABEL, "", "", true, 0},
    {"prediction", TD_SIGNAL_PREDICTION, "", "", true, 0},
    {"hidden.thing", TD_SIGNAL_UNKNOWN, "", "", true, 0},
    {".", TD_SIGNAL_UNKNOWN, "", "", true, 0},
    {"", TD_SIGNAL_UNKNOWN, "", "", true, 0},
};

static void a_bare_name_says_something(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof guesses / sizeof *guesses; i++) {
        td_signal_info info;
        char text[TD_SIGNAL_TEXT_SIZE];
        td_signal_guess(guesses[i].name, &info, text);
        if (info.kind != guesses[i].kind || strcmp(info.layer, guesses[i].layer) != 0 ||
            strcmp(info.parameter, guesses[i].parameter) != 0 ||
            info.batched != guesses[i].batched || info.better != guesses[i].better) {
            fail_msg("%s: %s of layer '%s', parameter '%s', batched %d, better %d", guesses[i].name,
                     td_signal_kind_name(info.kind), info.layer, info.parameter, info.batched,
                     info.better);
        }
    }
}

static void a_name_without_end_is_not_looked_at(void **state) {
    (void)state;
    char name[2 * TD_SIGNAL_TEXT_SIZE], text[TD_SIGNAL_TEXT_SIZE];
    memset(name, 'a', sizeof name);
    strcpy(name + sizeof name - 7, ".error");
    td_signal_info info;
    td_signal_guess(name, &info, text);
    assert_int_equal(info.kind, TD_SIGNAL_UNKNOWN);
    assert_string_equal(info.layer, "");
}

static void kinds_have_names(void **state) {
    (void)state;
    for (int kind = 0; kind < TD_SIGNAL_KIND_COUNT; kind++) {
        const char *name = td_signal_kind_name((td_signal_kind)kind);
        assert_int_equal(td_signal_kind_find(name), kind);
    }
    assert_string_equal(td_signal_kind_name(TD_SIGNAL_PREACTIVATION), "preactivation");
    assert_string_equal(td_signal_kind_name((td_signal_kind)99), "");
    assert_int_equal(td_signal_kind_find("no such kind"), TD_SIGNAL_UNKNOWN);
}

static void the_first_declaration_counts_and_is_copied(void **state) {
    (void)state;
    td_deck *deck = open_deck((td_deck_options){0});
    char layer[] = "conv1", unit[] = "cat";
    const char *units[] = {unit, "dog"};
    td_signal_info info = {.size = sizeof info,
                           .kind = TD_SIGNAL_OUTPUT,
                           .layer = layer,
                           .order = 3,
                           .batched = true,
                           .units = units,
                           .unit_count = 2,
                           .rank = 1};
    td_signal *signal = td_deck_signal(deck, "x");
    assert_int_equal(td_signal_about(signal)->kind, TD_SIGNAL_UNKNOWN);
    assert_ptr_equal(td_deck_signal_with(deck, "x", &info), signal);
    layer[0] = unit[0] = '!';
    info.kind = TD_SIGNAL_ERROR;
    assert_ptr_equal(td_deck_signal_with(deck, "x", &info), signal);
    const td_signal_info *about = td_signal_about(signal);
    assert_int_equal(about->kind, TD_SIGNAL_OUTPUT);
    assert_string_equal(about->layer, "conv1");
    assert_string_equal(about->parameter, "");
    assert_string_equal(about->units[0], "cat");
    assert_string_equal(about->units[1], "dog");
    assert_int_equal(about->order, 3);
    assert_int_equal(about->rank, 1);
    close_deck(deck);
}

static void sinks_are_told_and_numbers_are_metrics(void **state) {
    (void)state;
    td_deck *deck = open_deck((td_deck_options){0});
    float data[300] = {0};
    assert_int_equal(td_deck_track(deck, .what = "*"), TD_OK);
    td_deck_scalar(deck, "speed", 1);
    td_deck_text(deck, "said", "hello");
    td_deck_record(deck, "hidden.error", floats(data, 3));
    td_deck_record(deck, "w", floats(data, 300));
    td_deck_step(deck, 1, 1);
    assert_int_equal(counters_of(deck).dropped, 0);
    close_deck(deck);
    const td_signal_kind expected[] = {TD_SIGNAL_METRIC, TD_SIGNAL_TEXT, TD_SIGNAL_ERROR,
                                       TD_SIGNAL_UNKNOWN};
    const char *const names[] = {"speed", "said", "hidden.error", "w"};
    assert_int_equal(mem.count, 4);
    for (int64_t i = 0; i < mem.count; i++) {
        for (size_t k = 0; k < 4; k++) {
            if (!strcmp(mem.records[i].signal, names[k])) {
                assert_int_equal(mem.records[i].kind, expected[k]);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bare_name_says_something),
        cmocka_unit_test(a_name_without_end_is_not_looked_at),
        cmocka_unit_test(kinds_have_names),
        cmocka_unit_test_setup_teardown(the_first_declaration_counts_and_is_copied, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(sinks_are_told_and_numbers_are_metrics, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
