/* Alerts: who is notified, of what, and how often. */
#include "folder.h"

#include "tapedeck/run.h"

#include <string.h>

static td_deck *open_deck(void) {
    td_error error = {0};
    char path[200];
    (void)snprintf(path, sizeof path, "%s/run", folder);
    td_deck *deck = td_deck_open(path, &error);
    if (!deck) {
        fail_msg("%s", error.text);
    }
    return deck;
}

/* Appends its standard input to FOLDER/told. */
static const char *const *program(void) {
    static char script[300];
    static const char *words[] = {"sh", "-c", script, NULL};
    (void)snprintf(script, sizeof script, "cat >> '%s/told'", folder);
    return words;
}

static const char *told(void) {
    static char text[4096];
    char path[200];
    (void)snprintf(path, sizeof path, "%s/told", folder);
    FILE *file = fopen(path, "r");
    size_t size = file ? fread(text, 1, sizeof text - 1, file) : 0;
    text[size] = 0;
    if (file) {
        fclose(file);
    }
    return text;
}

static size_t lines(const char *text) {
    size_t count = 0;
    for (; *text; text++) {
        count += *text == '\n';
    }
    return count;
}

static td_status see_event(void *user, const td_event *event, td_error *error) {
    (void)error;
    if (event->kind == TD_EVENT_ALERT) {
        ++*(size_t *)user;
    }
    return TD_OK;
}

static void a_condition_tells_once(void **state) {
    (void)state;
    td_error error = {0};
    td_deck *deck = open_deck();
    td_alert alert = {.size = sizeof alert, .when = "loss > 2", .run = program()};
    assert_ok(td_deck_alert(deck, &alert, &error), error);
    for (int64_t step = 1; step <= 5; step++) {
        td_deck_scalar(deck, "loss", (double)step);
        td_deck_step(deck, 1, step);
    }
    char path[300];
    (void)snprintf(path, sizeof path, "%s", td_deck_folder(deck));
    assert_ok(td_deck_close(deck, &error), error);
    assert_int_equal(lines(told()), 1);
    assert_non_null(strstr(told(), "\"cause\":\"loss > 2\""));
    assert_non_null(strstr(told(), "\"step\":3"));
    td_run *run = td_run_open(path, &error);
    size_t events = 0;
    assert_ok(td_run_events(run, see_event, &events, &error), error);
    assert_int_equal(events, 1);
    td_run_close(run);
}

static void what_is_raised_is_told_once_a_cause(void **state) {
    (void)state;
    td_error error = {0};
    td_deck *deck = open_deck();
    td_alert alert = {.size = sizeof alert, .run = program()};
    td_alert conditional = {.size = sizeof alert, .run = program(), .when = "loss > 2"};
    assert_ok(td_deck_alert(deck, &alert, &error), error);
    assert_ok(td_deck_alert(deck, &conditional, &error), error);
    td_deck_step(deck, 1, 1);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(td_deck_raise(deck, "plateau", "the \"loss\" stands still"), TD_OK);
        assert_int_equal(td_deck_raise(deck, "overfit", "it is overfitting"), TD_OK);
    }
    assert_ok(td_deck_close(deck, &error), error);
    assert_int_equal(lines(told()), 2);
    assert_non_null(strstr(told(), "the \\u0022loss\\u0022 stands still"));
}

static void one_that_cannot_be_delivered_is_an_error(void **state) {
    (void)state;
    static const char *const nothing[] = {"no-such-program-anywhere", NULL};
    static const char *const failing[] = {"sh", "-c", "exit 3", NULL};
    td_error error = {0};
    td_deck *deck = open_deck();
    td_alert missing = {.size = sizeof missing, .run = nothing};
    assert_ok(td_deck_alert(deck, &missing, &error), error);
    td_deck_raise(deck, "a", "b");
    assert_int_equal(td_deck_close(deck, &error), TD_IO);
    assert_non_null(strstr(error.text, "no-such-program-anywhere cannot be started"));
    deck = open_deck();
    td_alert bad = {.size = sizeof bad, .run = failing};
    assert_ok(td_deck_alert(deck, &bad, &error), error);
    td_deck_raise(deck, "a", "b");
    assert_int_equal(td_deck_close(deck, &error), TD_IO);
    assert_non_null(strstr(error.text, "sh ended with status 3"));
}

static void refuse(td_deck *deck, td_alert alert, td_status status, const char *text) {
    td_error error = {0};
    alert.size = sizeof alert;
    assert_int_equal(td_deck_alert(deck, &alert, &error), status);
    if (!strstr(error.text, text)) {
        fail_msg("'%s' is not in: %s", text, error.text);
    }
    (void)td_deck_flush(deck, NULL);
}

static void mistakes_are_refused(void **state) {
    (void)state;
    static const char *const empty[] = {NULL};
    td_deck *deck = open_deck();
    refuse(deck, (td_alert){.when = "loss > 1"}, TD_INVALID, "give run, webhook or both");
    refuse(deck, (td_alert){.when = "loss >", .run = program()}, TD_INVALID, "^");
    refuse(deck, (td_alert){.run = empty}, TD_INVALID, "names no program");
    refuse(deck, (td_alert){.webhook = "file:///etc/passwd"}, TD_INVALID, "http://");
    refuse(deck, (td_alert){.webhook = "http://a b"}, TD_INVALID, "blank");
    refuse(deck, (td_alert){.webhook = "$NO_SUCH_VARIABLE"}, TD_NOT_FOUND, "NO_SUCH_VARIABLE");
    assert_int_equal(td_deck_raise(deck, NULL, "x"), TD_INVALID);
    (void)td_deck_close(deck, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_condition_tells_once, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(what_is_raised_is_told_once_a_cause, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(one_that_cannot_be_delivered_is_an_error, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(mistakes_are_refused, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
