/* Checks that the names of a condition exist, and suggests the most similar name. */
#include "deck/condition_tree.h"
#include "deck/derived.h"

#include "base/memory.h"

#include <stdio.h>
#include <string.h>

enum { MESSAGE = 300 };

static bool is_known(operand *o, const td__expected *signals, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const td__expected *s = &signals[i];
        bool whole = td__operand_matches(o, strlen(o->pattern), s->name, s->derived);
        bool stem = o->statistic != NO_STAT && td__operand_matches(o, o->stem, s->name, s->derived);
        if (s->tensor && td__pattern_derives(o->pattern, s->name, s->derived)) {
            return true;
        }
        if ((whole && (o->whole || !signals[i].tensor)) || (stem && signals[i].tensor)) {
            return true;
        }
    }
    return false;
}

static const td__expected *find_expected(const td__expected *signals, size_t count,
                                         const char *name, size_t length) {
    for (size_t i = 0; i < count; i++) {
        if (strlen(signals[i].name) == length && !strncmp(signals[i].name, name, length)) {
            return &signals[i];
        }
    }
    return NULL;
}

static void list_statistics(char *message, size_t length) {
    for (int32_t i = 0; i < td__statistic_count && length < MESSAGE; i++) {
        length += (size_t)snprintf(message + length, MESSAGE - length, "%s%s", i ? ", " : "",
                                   td__statistics[i].name);
    }
}

/* NAME.WORD of a tensor NAME: the statistic is wrong. */
static void wrong_statistic(char *message, const char *pattern, const char *dot) {
    const char *names[32];
    for (int32_t i = 0; i < td__statistic_count; i++) {
        names[i] = td__statistics[i].name;
    }
    const char *near = td_nearest_word(dot + 1, names, (size_t)td__statistic_count);
    if (near) {
        (void)snprintf(message, MESSAGE, "%.*s has no statistic %.40s; did you mean %s?",
                       (int)(dot - pattern), pattern, dot + 1, near);
    } else {
        int used = snprintf(message, MESSAGE, "%.*s has no statistic %.40s; there are ",
                            (int)(dot - pattern), pattern, dot + 1);
        list_statistics(message, (size_t)used);
    }
}

static void wrong_name(char *message, const operand *o, const td__expected *signals, size_t count) {
    const char **names = td__calloc(count + 1, sizeof *names);
    char stem[200];
    (void)snprintf(stem, sizeof stem, "%.*s", (int)o->stem, o->pattern);
    for (size_t i = 0; names && i < count; i++) {
        names[i] = signals[i].name;
    }
    const char *near = names ? td_nearest_word(stem, names, count) : NULL;
    const td__expected *meant = near ? find_expected(signals, count, near, strlen(near)) : NULL;
    const char *which = o->statistic == NO_STAT ? "norm" : td__statistics[o->statistic].name;
    bool with = meant && meant->tensor && !o->whole;
    (void)snprintf(message, MESSAGE, "there is no signal %.100s%s%.100s%s%s%s", o->pattern,
                   near ? "; did you mean " : "", near ? near : "", with ? "." : "",
                   with ? which : "", near ? "?" : "");
    td__free(names);
}

static void explain_unknown_name(char *message, const operand *o, const td__expected *signals,
                                 size_t count) {
    size_t length = strlen(o->pattern);
    const char *dot = strrchr(o->pattern, '.');
    const td__expected *exact = find_expected(signals, count, o->pattern, length);
    const td__expected *before =
        dot ? find_expected(signals, count, o->pattern, (size_t)(dot - o->pattern)) : NULL;
    if (exact && exact->tensor) {
        (void)snprintf(message, MESSAGE, "%.100s is a tensor; take a statistic of it: %.100s.norm",
                       o->pattern, o->pattern);
    } else if (before && before->tensor) {
        wrong_statistic(message, o->pattern, dot);
    } else if (before) {
        (void)snprintf(message, MESSAGE, "%.100s is one number and has no %.40s", before->name,
                       dot + 1);
    } else {
        wrong_name(message, o, signals, count);
    }
}

td_status td__condition_check(td__condition *condition, const td__expected *signals, size_t count,
                              const char **idle, td_error *error) {
    const char *first = NULL;
    for (size_t i = 0; i < condition->operand_count; i++) {
        operand *o = &condition->operands[i];
        if (is_known(o, signals, count)) {
            continue;
        }
        if (!o->glob) {
            char message[MESSAGE];
            explain_unknown_name(message, o, signals, count);
            return td__condition_fail(condition->text, condition->text + o->place, TD_NOT_FOUND,
                                      message, error);
        }
        first = first ? first : o->pattern;
    }
    if (idle) {
        *idle = first;
    }
    return TD_OK;
}
