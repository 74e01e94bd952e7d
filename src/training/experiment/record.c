/* Tracks as an experiment file has them. */
#include "experiment/record.h"

#include "base/memory.h"
#include "deck/alert.h"
#include "deck/derived.h"
#include "deck/glob.h"
#include "experiment/sections.h"

#include <stdio.h>
#include <string.h>

/* A name or glob, several with commas between, or a list of such: one list. */
static void read_what(td__checker *checker, td__yaml_node *node, void *member) {
    td_names given = {0}, *what = member;
    size_t count = 0, room = 0;
    td__read_names(checker, node, &given);
    for (size_t i = 0; i < given.count; i++) {
        room += strlen(given.items[i]) / 2 + 1;
    }
    if (room == 0) {
        if (node->kind == TD__YAML_LIST) { /* else it was reported */
            td__problem(checker, node, "an empty list records nothing; name signals, such as loss");
        }
        return;
    }
    const char **names = td__check_alloc(checker, room, sizeof *names);
    for (size_t i = 0; names && i < given.count; i++) {
        size_t parts = 0;
        char **split = td__glob_split(given.items[i], &parts);
        for (size_t k = 0; split && k < parts; k++) {
            char *copy = td__check_alloc(checker, strlen(split[k]) + 1, 1);
            names[count++] = copy ? strcpy(copy, split[k]) : "";
        }
        if (!split) {
            checker->exhausted = TD_MEMORY;
        } else if (parts == 0) {
            td__problem(checker, node, "'%s' names no signal", given.items[i]);
        }
        td__free(split);
    }
    *what = (td_names){names, names ? count : 0};
}

bool td__track_names(const td__track_spec *track, const char *name, bool derived) {
    for (size_t i = 0; i < track->what.count; i++) {
        if (td__glob_match_signal(track->what.items[i], name, derived)) {
            return true;
        }
    }
    return false;
}

bool td__track_derives(const td__track_spec *track, const char *source, bool derived) {
    for (size_t i = 0; i < track->what.count; i++) {
        if (td__pattern_derives(track->what.items[i], source, derived)) {
            return true;
        }
    }
    return false;
}

static void read_form(td__checker *checker, td__yaml_node *node, void *member) {
    static const char *const names[] = {
#define FORM_WORD(name, text, bit) text,
        TD_FORM_LIST(FORM_WORD)
#undef FORM_WORD
    };
    static const td__words words = {"form", names, TD__COUNT(names), NULL, NULL};
    td__track_spec *track = member;
    td__read_names(checker, node, &track->forms);
    for (size_t i = 0; i < track->forms.count; i++) {
        td_error reason = {0};
        if (td__word_find(&words, track->forms.items[i], "", &reason) < 0) {
            td__problem(checker, td__name_node(node, i), "%s", reason.text);
        }
        track->form |= td_form_find(track->forms.items[i]);
    }
}

static void read_to(td__checker *checker, td__yaml_node *node, void *member) {
    td_names *to = member;
    td__read_names(checker, node, to);
    if (node->kind == TD__YAML_LIST && node->count == 0) {
        td__problem(checker, node,
                    "an empty list records nothing; name a sink, such as csv, or leave `to` out");
    }
    const td_sink_class *const *classes = td_sinks();
    const char *names[TD__SINKS] = {NULL};
    for (size_t i = 0; i < TD__SINKS && classes[i]; i++) {
        names[i] = classes[i]->name;
    }
    const td__words words = {"sink", names, TD__SINKS, NULL, NULL};
    for (size_t i = 0; i < to->count; i++) {
        td_error reason = {0};
        if (td__word_find(&words, to->items[i], "", &reason) < 0) {
            td__problem(checker, td__name_node(node, i), "%s", reason.text);
        }
    }
}

td_status td__track_route(const td__track_spec *track, bool chosen[TD__SINKS], td_error *error) {
    char to[TD__SINKS * 32] = "";
    for (size_t i = 0; i < track->to.count; i++) {
        size_t used = strlen(to);
        (void)snprintf(to + used, sizeof to - used, "%s%s", used ? "," : "", track->to.items[i]);
    }
    return td__route(td_sinks(), track->form, track->to.count ? to : NULL, chosen, error);
}

/* Whether the sinks can write the forms: known before anything is trained. */
static void check_forms(td__checker *checker, const td__track_spec *track) {
    bool chosen[TD__SINKS] = {false};
    td_error reason = {0};
    td_status status = td__track_route(track, chosen, &reason);
    if (status == TD_MEMORY) {
        checker->exhausted = TD_MEMORY;
    } else if (status && status != TD_NOT_FOUND) { /* an unknown sink has been reported */
        td__problem(checker, track->node, "%s", reason.text);
    }
}

static void read_at(td__checker *checker, td__yaml_node *node, void *member) {
    td_steps *at = member;
    size_t count = node->kind == TD__YAML_LIST ? node->count : 0;
    int64_t *steps = td__check_alloc(checker, count, sizeof *steps);
    bool good = count > 0;
    for (size_t i = 0; good && steps && i < count; i++) {
        good = node->items[i]->kind == TD__YAML_SCALAR &&
               td__text_int(node->items[i]->text, &steps[i]) && steps[i] >= 1;
    }
    if (!good) {
        td__problem(checker, node, "expected a list of steps such as [1, 10, 100]");
        return;
    }
    *at = (td_steps){steps, steps ? count : 0};
}

#define AT(member) .offset = offsetof(td__track_spec, member)
#define COUNTED(member, max) .type = TD__FIELD_INTEGER, AT(member), .minimum = 1, .maximum = max

static const td__key track_keys[] = {
    {.field = {.key = "what", AT(what)}, .read = read_what, .required = true},
    {.field = {.key = "every", AT(every)}, .read = td__read_interval},
    {.field = {.key = "at", AT(at)}, .read = read_at},
    {.field = {.key = "start", COUNTED(start, TD__FIELD_MANY)}},
    {.field = {.key = "end", COUNTED(end, TD__FIELD_MANY)}},
    {.field = {.key = "sample", COUNTED(sample, TD__FIELD_MANY)}},
    {.field = {.key = "when", .type = TD__FIELD_TEXT, AT(when)}},
    {.field = {.key = "history", COUNTED(history, 1e9)}},
    {.field = {.key = "form"}, .read = read_form},
    {.field = {.key = "to", AT(to)}, .read = read_to},
    {.field = {.key = "target", AT(target)}, .read = td__read_path},
};

static void check_target(td__checker *checker, const td__track_spec *track) {
    for (size_t i = 0; track->target && i < track->what.count; i++) {
        const char *end = strrchr(track->what.items[i], '.');
        if (!end || strcmp(end, ".loss") != 0 || strpbrk(track->what.items[i], "*?[")) {
            td__problem(checker, track->node, "target is for LAYER.loss, not for %s",
                        track->what.items[i]);
        }
    }
}

void td__read_record(td__checker *checker, td__yaml_node *node, void *member) {
    td_experiment *experiment = member;
    if (node->kind != TD__YAML_LIST) {
        if (!td__yaml_is_null(node)) {
            td__problem(checker, node, "expected a list of tracks: - what: …");
        }
        return;
    }
    if (node->count > TD__TRACKS) {
        td__problem(checker, node,
                    "%zu tracks; a deck has at most %d: a track may name many signals", node->count,
                    TD__TRACKS);
        return;
    }
    experiment->tracks = td__check_alloc(checker, node->count, sizeof(td__track_spec));
    for (size_t i = 0; experiment->tracks && i < node->count; i++) {
        size_t mark = td__path_enter_index(checker, i);
        td__track_spec *track = &experiment->tracks[experiment->track_count++];
        track->node = node->items[i];
        td__check_map(checker, node->items[i], track_keys, TD__COUNT(track_keys), track);
        check_target(checker, track);
        check_forms(checker, track);
        if (track->history && !track->when) {
            td__problem(checker, node->items[i], "history: N needs a condition, when: …");
        }
        if (track->at.count && (track->every.steps || track->every.epochs)) {
            td__problem(checker, node->items[i], "every and at exclude each other");
        }
        td__path_leave(checker, mark);
    }
}

/* ---- Alerts --------------------------------------------------------------------------------- */

static void read_command(td__checker *checker, td__yaml_node *node, void *member) {
    td__read_names(checker, node, member);
    if (node->kind == TD__YAML_LIST && node->count == 0) {
        td__problem(checker, node, "expected a program and its arguments: [mail, -s, alert, me]");
    }
}

#define ALERT_AT(member) .offset = offsetof(td__alert_spec, member)

static const td__key alert_keys[] = {
    {.field = {.key = "when", .type = TD__FIELD_TEXT, ALERT_AT(when)}},
    {.field = {.key = "run", ALERT_AT(run)}, .read = read_command},
    {.field = {.key = "webhook", .type = TD__FIELD_TEXT, ALERT_AT(webhook)}},
};

static void read_alert(td__checker *checker, td__yaml_node *node, td__alert_spec *alert) {
    alert->node = node;
    td__check_map(checker, node, alert_keys, TD__COUNT(alert_keys), alert);
    if (node->kind == TD__YAML_MAP && !alert->run.count && !alert->webhook) {
        td__problem(checker, node, "give run: [PROGRAM, …], webhook: ADDRESS or both");
    }
}

void td__read_alerts(td__checker *checker, td__yaml_node *node, void *member) {
    td_experiment *experiment = member;
    bool list = node->kind == TD__YAML_LIST;
    size_t count = list ? node->count : !td__yaml_is_null(node);
    if (count > TD__ALERTS) {
        td__problem(checker, node, "%zu alerts; a deck has at most %d", count, TD__ALERTS);
        return;
    }
    experiment->alerts = td__check_alloc(checker, count, sizeof(td__alert_spec));
    for (size_t i = 0; experiment->alerts && i < count; i++) {
        size_t mark = list ? td__path_enter_index(checker, i) : 0;
        read_alert(checker, list ? node->items[i] : node, &experiment->alerts[i]);
        experiment->alert_count++;
        if (list) {
            td__path_leave(checker, mark);
        }
    }
}

/* ---- What stands for tracks that are not given ---------------------------------------------- */

/* A list of words. */
static td__yaml_node *words_node(td__yaml *yaml, const char *const *words, size_t count) {
    td__yaml_node *list = td__yaml_list(yaml);
    for (size_t i = 0; list && i < count; i++) {
        td__yaml_node *word = td__yaml_scalar(yaml, words[i], false);
        list = word && td__yaml_append(yaml, list, word) == TD_OK ? list : NULL;
    }
    return list;
}

/* - {what: [NAME, …], every: 1 epoch, to: [csv]} */
static td__yaml_node *default_node(td__yaml *yaml, const char *const *names, size_t count) {
    td__yaml_node *tracks = td__yaml_list(yaml), *track = td__yaml_map(yaml);
    td__yaml_node *what = words_node(yaml, names, count);
    td__yaml_node *every = td__yaml_scalar(yaml, "1 epoch", false);
    td__yaml_node *to = words_node(yaml, &(const char *){"csv"}, 1);
    bool good = tracks && track && what && every && to &&
                td__yaml_put(yaml, track, "what", what) == TD_OK &&
                td__yaml_put(yaml, track, "every", every) == TD_OK &&
                td__yaml_put(yaml, track, "to", to) == TD_OK &&
                td__yaml_append(yaml, tracks, track) == TD_OK;
    return good ? tracks : NULL;
}

td_status td__record_default(td_experiment *experiment, const char *const *names, size_t count,
                             td_error *error) {
    td__checker checker = {.yaml = experiment->yaml, .folder = experiment->folder};
    td__yaml_node *tracks = default_node(experiment->yaml, names, count);
    if (!tracks ||
        td__yaml_put(experiment->yaml, td__yaml_root(experiment->yaml), "record", tracks)) {
        return td_error_set(error, TD_MEMORY, "%s: out of memory", experiment->path);
    }
    td__read_record(&checker, tracks, experiment);
    return checker.exhausted || checker.problems
               ? td_error_set(error, TD_MEMORY, "%s: out of memory", experiment->path)
               : TD_OK;
}
