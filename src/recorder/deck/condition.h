/* Conditions: expressions over metrics and statistics that decide at the end of a step.
 *
 *     expression  = and-term { "or" and-term }
 *     and-term    = not-term { "and" not-term }
 *     not-term    = "not" not-term | sum [ ("<" | "<=" | ">" | ">=" | "==" | "!=") sum ]
 *     sum         = product { ("+" | "-") product }
 *     product     = unary { ("*" | "/") unary }
 *     unary       = "-" unary | number | "step" | "epoch" | signal | function | "(" expression ")"
 *     function    = "nan(" glob ")" | "inf(" glob ")" | "mean(" expression "," whole number ")"
 *                 | "delta(" expression ")" | "abs(" expression ")"
 *                 | ("min(" | "max(") expression { "," expression } ")"
 *     signal      = NAME | NAME.STAT | "any name, quoted"
 *
 * A name may be a glob: a comparison with one holds when it holds for at least one signal; min and
 * max of a glob are over all its signals. A signal without a value is NaN; no comparison holds for
 * NaN but !=. */
#ifndef TAPEDECK_DECK_CONDITION_H
#define TAPEDECK_DECK_CONDITION_H

#include "deck/signal.h"

typedef struct td__condition td__condition;

/* The step that a condition is asked about. */
typedef struct td__moment {
    int64_t epoch;
    int64_t step;
    uint64_t serial;
} td__moment;

/* TD_INVALID with the text and a caret under the place. NULL on failure. */
td__condition *td__condition_parse(const char *text, td_error *error);
void td__condition_destroy(td__condition *condition);
const char *td__condition_text(const td__condition *condition);

/* A signal that there will be: one number, or a tensor that has statistics. */
typedef struct td__expected {
    const char *name;
    bool tensor;
    bool derived; /* its kind is TD_SIGNAL_DERIVED */
} td__expected;

/* Whether every name in the condition is one of these: TD_NOT_FOUND, with a caret and the nearest
 * of them, for the first that is none. A glob may match nothing: *idle (may be NULL) is then the
 * first such, or NULL. */
td_status td__condition_check(td__condition *condition, const td__expected *signals, size_t count,
                              const char **idle, td_error *error);
/* Returns true when the condition reads the signal of this name. */
bool td__condition_uses(td__condition *condition, const char *name, bool derived);

/* Returns true when the condition reads SOURCE.WORD, which is derived from a signal; word NULL: any. */
bool td__condition_derives(const td__condition *condition, const char *source, bool derived,
                           const char *word);

/* Registers a signal with the condition, once per signal. Sets *uses when it reads the signal and
 * *stats when it reads its statistics; otherwise leaves them. False when memory is exhausted. */
bool td__condition_meet(td__condition *condition, td_signal *signal, bool *uses, bool *stats);

/* Called at the end of every step, before asking: mean() and delta() take up new values. */
void td__condition_update(td__condition *condition, const td__moment *now);
/* Calls pass for each number of 8 bytes that mean() and delta() remember, which may write it. False when
 * the condition has no such state then. */
bool td__condition_pass_state(td__condition *condition, void (*pass)(void *context, void *value),
                              void *context);
bool td__condition_holds(const td__condition *condition, const td__moment *now);

/* ---- Of a whole run ------------------------------------------------------------------------- */

/* From now on nan() and inf() count what all steps brought, not what the last one did. */
void td__condition_keep_totals(td__condition *condition);

enum { TD__TERM_VALUES = 600 };
/* One of the terms that `and` joins, or all of the condition. */
typedef struct td__term {
    const char *text; /* length bytes of the condition's text */
    size_t length;
    bool holds;
    char values[TD__TERM_VALUES]; /* what it compared: "loss = 0.25, nan(*) = 0" */
} td__term;
/* Calls each for every term, in their order. */
void td__condition_terms(const td__condition *condition, const td__moment *now,
                         void (*each)(void *user, const td__term *term), void *user);

#endif
