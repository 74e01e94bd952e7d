#include "deck/alert.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/options.h"
#include "base/text.h"
#include "deck/child.h"
#include "deck/deck.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static const double MAX_SECONDS = 60, LAST_SECONDS = 5;
enum { MAX_WORDS = 256 };

/* ---- Raising -------------------------------------------------------------------------------- */

static void queue_alert(td_deck *deck, int32_t index, const char *cause, const char *text) {
    td__message *message = td__message_create(&deck->recycler, TD__ENTRY_ALERT);
    if (message) {
        message->sink = index;
        message->event = (td_event){.kind = TD_EVENT_ALERT,
                                    .epoch = deck->closing_epoch,
                                    .step = deck->closing_step,
                                    .wall_time = td__wall_time(),
                                    .count = 1};
    }
    if (!message || !td__deck_message(deck, message, cause, text, false)) {
        (void)td__deck_fail(deck, TD_MEMORY, "alert: no room for it: %s", cause);
    }
}

void td__alert_raise(td_deck *deck, td__alert *alert, const char *cause) {
    for (int32_t i = 0; i < deck->alerts.count; i++) {
        if (deck->alerts.items[i] == alert && !alert->raised) {
            alert->raised = true;
            td__deck_event(deck, TD_EVENT_ALERT, NULL, 1, "%s", cause);
            queue_alert(deck, i, cause, cause);
        }
    }
}

/* Whether this is the first time; what no longer fits was reported already, for all that is known. */
static bool is_new_cause(td__alerts *alerts, const char *cause) {
    uint64_t hash = td__hash_text(cause);
    for (int32_t i = 0; i < alerts->cause_count; i++) {
        if (alerts->causes[i] == hash) {
            return false;
        }
    }
    if (alerts->cause_count == TD__ALERT_CAUSES) {
        return false;
    }
    alerts->causes[alerts->cause_count++] = hash;
    return true;
}

td_status td_deck_raise(td_deck *deck, const char *cause, const char *text) {
    if (!deck || !cause || !text) {
        return td__deck_refuse(deck, cause ? "the text of an alert" : "the cause of an alert");
    }
    td__deck_lock(deck);
    if (is_new_cause(&deck->alerts, cause)) {
        td__deck_event(deck, TD_EVENT_ALERT, NULL, 1, "%s: %s", cause, text);
        for (int32_t i = 0; i < deck->alerts.count; i++) {
            if (!deck->alerts.items[i]->conditional) {
                queue_alert(deck, i, cause, text);
            }
        }
    }
    td__deck_unlock(deck);
    return TD_OK;
}

/* ---- Adding one ----------------------------------------------------------------------------- */

static void destroy_alert(td__alert *alert) {
    for (size_t i = 0; alert && alert->run && alert->run[i]; i++) {
        td__free(alert->run[i]);
    }
    if (alert) {
        td__free(alert->run);
        td__free(alert->webhook);
        td__free(alert);
    }
}

void td__alerts_release(td__alerts *alerts) {
    for (int32_t i = 0; i < alerts->count; i++) {
        destroy_alert(alerts->items[i]);
    }
    alerts->count = 0;
}

/* An address, or $NAME: the variable that has it, so that it stands in no file of the run. */
static td_status find_address(const char *given, const char **address, td_error *error) {
    *address = given[0] == '$' ? getenv(given + 1) : given;
    if (!*address) {
        return td_error_set(error, TD_NOT_FOUND, "alert: there is no variable %s", given + 1);
    }
    if (strncmp(*address, "http://", 7) != 0 && strncmp(*address, "https://", 8) != 0) {
        return td_error_set(error, TD_INVALID,
                            "alert: the webhook %s is no address that begins with http:// or "
                            "https://",
                            given);
    }
    for (const char *c = *address; *c; c++) {
        if ((unsigned char)*c <= ' ') {
            return td_error_set(error, TD_INVALID, "alert: the webhook %s has a blank", given);
        }
    }
    return TD_OK;
}

static td_status copy_words(const char *const *run, td__alert *alert, td_error *error) {
    size_t count = 0;
    while (run[count]) {
        if (++count > MAX_WORDS) {
            return td_error_set(error, TD_RANGE, "alert: run has more than %d words", MAX_WORDS);
        }
    }
    if (count == 0 || !*run[0]) {
        return td_error_set(error, TD_INVALID, "alert: run names no program");
    }
    alert->run = td__calloc(count + 1, sizeof *alert->run);
    for (size_t i = 0; alert->run && i < count; i++) {
        alert->run[i] = td__strdup(run[i]);
        if (!alert->run[i]) {
            return td_error_set(error, TD_MEMORY, "out of memory for an alert");
        }
    }
    return alert->run ? TD_OK : td_error_set(error, TD_MEMORY, "out of memory for an alert");
}

static td_status copy_alert(const td_alert *given, td__alert *alert, td_error *error) {
    const char *address = NULL;
    td_status status = TD_OK;
    if (!given->run && !given->webhook) {
        return td_error_set(error, TD_INVALID, "alert: give run, webhook or both");
    }
    alert->conditional = given->when != NULL;
    status = given->run ? copy_words(given->run, alert, error) : TD_OK;
    if (!status && given->webhook) {
        status = find_address(given->webhook, &address, error);
        alert->webhook = status ? NULL : td__strdup(address);
        if (!status && !alert->webhook) {
            status = td_error_set(error, TD_MEMORY, "out of memory for an alert");
        }
    }
    return status;
}

td_status td_deck_alert(td_deck *deck, const td_alert *given, td_error *error) {
    if (!deck || !given) {
        (void)td_error_set(error, TD_INVALID, "alert: the %s is NULL", deck ? "alert" : "deck");
        return td__deck_refuse(deck, "an alert");
    }
    td_alert full;
    td_error local = {0};
    (void)td__options(&full, sizeof full, given);
    td__alert *alert = td__calloc(1, sizeof *alert);
    td_status status = given->size < offsetof(td_alert, when)
                           ? td_error_set(&local, TD_INVALID, "alert: .size is not set")
                           : TD_OK;
    status = status  ? status
             : alert ? copy_alert(&full, alert, &local)
                     : td_error_set(&local, TD_MEMORY, "out of memory for an alert");
    td__deck_enter(deck);
    if (!status && deck->alerts.count == TD__ALERTS) {
        status = td_error_set(&local, TD_RANGE, "alert: a deck has at most %d", TD__ALERTS);
    }
    if (!status && full.when) {
        status = td__track_alert(deck, full.when, alert, &local);
    }
    if (!status) {
        deck->alerts.items[deck->alerts.count++] = alert;
    } else {
        destroy_alert(alert);
        (void)td__deck_fail(deck, status, "%s", local.text);
    }
    td__deck_unlock(deck);
    if (status && error) {
        *error = local;
    }
    return status;
}

/* ---- Delivering ----------------------------------------------------------------------------- */

static void say_failure(td_deck *deck, const char *format, ...) TD_PRINTF(2, 3);
static void say_failure(td_deck *deck, const char *format, ...) {
    char text[TD_ERROR_TEXT_SIZE];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    td__deck_lock(deck);
    (void)td__deck_fail(deck, TD_IO, "alert: %s", text);
    td__deck_event(deck, TD_EVENT_ALERT, NULL, 0, "not delivered: %s", text);
    td__deck_unlock(deck);
}

static void put_text(FILE *out, const char *key, const char *text) {
    char *json = td__calloc(TD__JSON_STRING_SIZE(strlen(text)) + 1, 1);
    if (json) {
        json[td__json_string(json, text)] = 0;
        (void)fprintf(out, "\"%s\":%s,", key, json);
        td__free(json);
    }
}

/* One line. *text is to be freed with free. */
static bool describe_event(const td_deck *deck, const td_event *event, char **text) {
    size_t size = 0;
    char sentence[TD_ERROR_TEXT_SIZE];
    *text = NULL;
    FILE *out = open_memstream(text, &size);
    if (!out) {
        return false;
    }
    (void)snprintf(sentence, sizeof sentence, "%s, step %lld: %s", deck->folder,
                   (long long)event->step, event->text);
    (void)fputc('{', out);
    put_text(out, "text", sentence);
    put_text(out, "run", deck->folder);
    put_text(out, "cause", event->signal ? event->signal : "");
    put_text(out, "message", event->text);
    (void)fprintf(out, "\"epoch\":%lld,\"step\":%lld,\"time\":%.3f}\n", (long long)event->epoch,
                  (long long)event->step, event->wall_time);
    return fclose(out) == 0;
}

/* What curl reads as its settings: the address is seen in no list of processes. */
static bool describe_request(const char *address, const char *body, char **text) {
    size_t size = 0;
    *text = NULL;
    FILE *out = open_memstream(text, &size);
    if (!out) {
        return false;
    }
    const char *const parts[][2] = {
        {"url", address}, {"header", "Content-Type: application/json"}, {"data-binary", body}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        (void)fprintf(out, "%s = \"", parts[i][0]);
        for (const char *c = parts[i][1]; *c; c++) {
            (void)fputs(*c == '\n'                ? "\\n"
                        : *c == '"' || *c == '\\' ? (char[]){'\\', *c, 0}
                                                  : (char[]){*c, 0},
                        out);
        }
        (void)fputs("\"\n", out);
    }
    return fclose(out) == 0;
}

/* A file in memory with this text, to be read from its beginning; -1 with errno. */
static int hold_text(const char *text) {
    int file = memfd_create("alert", MFD_CLOEXEC);
    size_t size = strlen(text);
    if (file >= 0 && (write(file, text, size) != (ssize_t)size || lseek(file, 0, SEEK_SET) != 0)) {
        close(file);
        return -1;
    }
    return file;
}

static td__alert_child *find_place(td__alerts *alerts) {
    for (size_t i = 0; i < TD__ALERT_CHILDREN; i++) {
        if (!alerts->children[i].process) {
            return &alerts->children[i];
        }
    }
    return NULL;
}

static void start_program(td_deck *deck, char *const words[], const char *input) {
    td__alert_child *child = find_place(&deck->alerts);
    if (!child) {
        say_failure(deck, "%s: %d others run still", words[0], TD__ALERT_CHILDREN);
        return;
    }
    int in = hold_text(input);
    int failed = in < 0 ? errno : td__child_start(words, in, -1, true, &child->process);
    if (failed) {
        child->process = 0;
        say_failure(deck, "%s cannot be started: %s%s", words[0], strerror(failed),
                    failed == ENOENT && !strcmp(words[0], "curl")
                        ? "; webhooks need the program curl"
                        : "");
    } else {
        child->what = words[0];
        child->until = td__seconds() + MAX_SECONDS;
    }
    if (in >= 0) {
        close(in);
    }
}

void td__alert_deliver(td_deck *deck, int32_t index, const td_event *event) {
    static char *const request_words[] = {
        "curl",        "--silent",  "--show-error", "--fail",    "--max-time", "30", "--proto",
        "=https,http", "--globoff", "--output",     "/dev/null", "--config",   "-",  NULL};
    const td__alert *alert = deck->alerts.items[index];
    char *body = NULL, *request = NULL;
    bool good = describe_event(deck, event, &body);
    if (good && alert->run) {
        start_program(deck, alert->run, body);
    }
    if (good && alert->webhook) {
        good = describe_request(alert->webhook, body, &request);
        if (good) {
            start_program(deck, request_words, request);
        }
    }
    if (!good) {
        say_failure(deck, "out of memory");
    }
    free(body);    // NOLINT: open_memstream's own
    free(request); // NOLINT
}

static void look_at(td_deck *deck, td__alert_child *child) {
    int how = 0;
    pid_t ended = waitpid(child->process, &how, WNOHANG);
    if (ended == 0 && child->until > 0 && td__seconds() > child->until) {
        (void)kill(child->process, SIGKILL);
        child->until = 0;
        say_failure(deck, "%s did not end within %.0f seconds", child->what, MAX_SECONDS);
    }
    if (ended == 0) {
        return;
    }
    child->process = 0;
    if (ended > 0 && WIFEXITED(how) && WEXITSTATUS(how)) {
        say_failure(deck, "%s ended with status %d", child->what, WEXITSTATUS(how));
    } else if (ended > 0 && WIFSIGNALED(how) && child->until > 0) {
        say_failure(deck, "%s was ended by signal %d", child->what, WTERMSIG(how));
    }
}

void td__alert_look(td_deck *deck) {
    for (size_t i = 0; i < TD__ALERT_CHILDREN; i++) {
        if (deck->alerts.children[i].process) {
            look_at(deck, &deck->alerts.children[i]);
        }
    }
}

void td__alert_finish(td_deck *deck) {
    enum { MICROSECONDS = 5000 };
    double until = td__seconds() + LAST_SECONDS;
    for (size_t i = 0; i < TD__ALERT_CHILDREN; i++) {
        td__alert_child *child = &deck->alerts.children[i];
        while (child->process && td__seconds() < until) {
            look_at(deck, child);
            if (child->process) {
                usleep(MICROSECONDS);
            }
        }
        if (child->process) { /* it goes on without us */
            say_failure(deck, "%s runs still as the run ends; how it ends is not known",
                        child->what);
        }
    }
}
