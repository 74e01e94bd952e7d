/* The terms of a condition one by one: which hold, and the numbers that they compared. */
#include "deck/condition_tree.h"

#include "base/number.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void append_text(td__term *term, const char *format, ...) TD_PRINTF(2, 3);
static void append_text(td__term *term, const char *format, ...) {
    size_t used = strlen(term->values);
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(term->values + used, sizeof term->values - used, format, arguments);
    va_end(arguments);
}

static const char *number_text(char out[TD__NUMBER_ROOM], double value) {
    out[isnan(value) ? (size_t)snprintf(out, TD__NUMBER_ROOM, "nan")
                     : td__format_rounded(out, value, 7)] = 0;
    return out;
}

/* The signals of a glob: how many, and from where to where they reach. */
static void describe_glob(td__term *term, const operand *o) {
    char low[TD__NUMBER_ROOM], high[TD__NUMBER_ROOM];
    const match *min = NULL, *max = NULL;
    size_t count = 0;
    for (size_t i = 0; i < o->match_count; i++) {
        const match *m = &o->matches[i];
        double value = td__match_value(o, m);
        if (isnan(value)) {
            continue;
        }
        count++;
        min = !min || value < td__match_value(o, min) ? m : min;
        max = !max || value > td__match_value(o, max) ? m : max;
    }
    if (count == 0) {
        append_text(term, "%s: no values", o->pattern);
        return;
    }
    append_text(term, "%s: %s (%s)", o->pattern, number_text(low, td__match_value(o, min)),
                min->signal->name);
    if (count > 1) {
        append_text(term, " to %s (%s) over %zu signals",
                    number_text(high, td__match_value(o, max)), max->signal->name, count);
    }
}

static void describe_total(td__term *term, const td__condition *condition, const node *n,
                           double value) {
    char text[TD__NUMBER_ROOM];
    append_text(term, "%s(%s) = %s", n->kind == NODE_NAN ? "nan" : "inf",
                condition->operands[n->operand].pattern, number_text(text, value));
    if (n->first) {
        append_text(term, " (first: %s, step %lld)", n->first->name, (long long)n->first_step);
    }
}

/* What is below a node that is not a constant. */
static void describe_term(td__term *term, const td__condition *condition, int32_t index,
                          const td__moment *now) {
    const node *n = &condition->nodes[index];
    char text[TD__NUMBER_ROOM];
    const char *name = NULL;
    switch (n->kind) {
    case NODE_NUMBER:
        return;
    case NODE_SIGNAL:
        name = condition->operands[n->operand].pattern;
        break;
    case NODE_STEP:
    case NODE_EPOCH:
        name = n->kind == NODE_STEP ? "step" : "epoch";
        break;
    case NODE_MEAN:
    case NODE_DELTA:
        name = n->kind == NODE_MEAN ? "mean(…)" : "delta(…)";
        break;
    case NODE_NAN:
    case NODE_INF:
        append_text(term, "%s", *term->values ? ", " : "");
        describe_total(term, condition, n, td__condition_value(condition, index, now));
        return;
    default:
        break;
    }
    if (name) {
        append_text(term, "%s", *term->values ? ", " : "");
        if (n->kind == NODE_SIGNAL && condition->operands[n->operand].glob) {
            describe_glob(term, &condition->operands[n->operand]);
        } else {
            append_text(term, "%s = %s", name,
                        number_text(text, td__condition_value(condition, index, now)));
        }
        return;
    }
    if (n->left != NO_NODE) {
        describe_term(term, condition, n->left, now);
    }
    if (n->right != NO_NODE) {
        describe_term(term, condition, n->right, now);
    }
}

/* Depth is that of the parser, which is limited. */
static void walk_terms(const td__condition *condition, int32_t index, const td__moment *now,
                       void (*each)(void *user, const td__term *term), void *user) {
    const node *n = &condition->nodes[index];
    if (n->kind == NODE_AND && n->end == 0) { /* joined here, not inside of parentheses */
        walk_terms(condition, n->left, now, each, user);
        walk_terms(condition, n->right, now, each, user);
        return;
    }
    td__term term = {.text = condition->text, .length = strlen(condition->text)};
    if (n->end) {
        term.text = condition->text + n->begin;
        term.length = n->end - n->begin;
    }
    double value = td__condition_value(condition, index, now);
    term.holds = value != 0 && !isnan(value);
    describe_term(&term, condition, index, now);
    each(user, &term);
}

void td__condition_terms(const td__condition *condition, const td__moment *now,
                         void (*each)(void *user, const td__term *term), void *user) {
    walk_terms(condition, (int32_t)condition->node_count - 1, now, each, user);
}
