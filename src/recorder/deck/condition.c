/* Evaluates conditions. Truth is a number that is neither 0 nor NaN. */
#include "deck/condition_tree.h"
#include "deck/derived.h"

#include "base/memory.h"
#include "deck/glob.h"

#include <math.h>
#include <string.h>

#define STATISTIC(name)                                                                            \
    static double stat_##name(const td_stats *s) {                                                 \
        return (double)s->name;                                                                    \
    }
STATISTIC(count)
STATISTIC(mean)
STATISTIC(std)
STATISTIC(min)
STATISTIC(max)
STATISTIC(norm)
STATISTIC(zeros)
STATISTIC(nan)
STATISTIC(inf)
#undef STATISTIC

const statistic td__statistics[] = {
    {"count", stat_count}, {"mean", stat_mean}, {"std", stat_std},
    {"min", stat_min},     {"max", stat_max},   {"norm", stat_norm},
    {"zeros", stat_zeros}, {"nan", stat_nan},   {"inf", stat_inf},
};
const int32_t td__statistic_count = (int32_t)(sizeof td__statistics / sizeof td__statistics[0]);

/* ---- Signals -------------------------------------------------------------------------------- */

static bool add_match(operand *o, const td_signal *signal, bool scalar) {
    enum { MOST = 1 << 24 };
    if (!td__grow(&o->matches, &o->match_capacity, o->match_count + 1, MOST, sizeof *o->matches)) {
        return false;
    }
    o->matches[o->match_count++] = (match){signal, scalar};
    return true;
}

bool td__operand_matches(operand *o, size_t length, const char *name, bool derived) {
    char after = o->pattern[length];
    o->pattern[length] = 0;
    bool matched = td__glob_match_signal(o->pattern, name, derived);
    o->pattern[length] = after;
    return matched;
}

bool td__condition_meet(td__condition *condition, td_signal *signal, bool *uses, bool *stats) {
    bool derived = td__signal_is_derived(signal);
    for (size_t i = 0; i < condition->operand_count; i++) {
        operand *o = &condition->operands[i];
        bool whole = td__operand_matches(o, strlen(o->pattern), signal->name, derived);
        bool stem =
            o->statistic != NO_STAT && td__operand_matches(o, o->stem, signal->name, derived);
        if ((whole && !add_match(o, signal, true)) || (stem && !add_match(o, signal, false))) {
            return false;
        }
        *uses = *uses || whole || stem;
        *stats = *stats || stem || (whole && o->whole);
    }
    return true;
}

bool td__condition_uses(td__condition *condition, const char *name, bool derived) {
    for (size_t i = 0; i < condition->operand_count; i++) {
        operand *o = &condition->operands[i];
        if (td__operand_matches(o, strlen(o->pattern), name, derived) ||
            (o->statistic != NO_STAT && td__operand_matches(o, o->stem, name, derived))) {
            return true;
        }
    }
    return false;
}

bool td__condition_derives(const td__condition *condition, const char *source, bool derived,
                           const char *word) {
    for (size_t i = 0; i < condition->operand_count; i++) {
        const char *pattern = condition->operands[i].pattern;
        if (word ? td__glob_derives(pattern, source, derived, word)
                 : td__pattern_derives(pattern, source, derived)) {
            return true;
        }
    }
    return false;
}

double td__match_value(const operand *o, const match *m) {
    const td_signal *s = m->signal;
    if (m->scalar) {
        return s->value_serial ? s->value : (double)NAN;
    }
    return s->stats_serial ? td__statistics[o->statistic].value(&s->stats) : (double)NAN;
}

/* Of an operand that is no glob: a scalar of just that name goes before a statistic. */
static double operand_value(const operand *o) {
    double value = (double)NAN;
    for (size_t i = 0; i < o->match_count; i++) {
        const match *m = &o->matches[i];
        if (!m->scalar || m->signal->value_serial) {
            value = td__match_value(o, m);
            if (m->scalar) {
                break;
            }
        }
    }
    return value;
}

static bool operand_fresh(const operand *o, uint64_t serial) {
    for (size_t i = 0; i < o->match_count; i++) {
        const match *m = &o->matches[i];
        if ((m->scalar ? m->signal->value_serial : m->signal->stats_serial) == serial) {
            return true;
        }
    }
    return false;
}

/* NaN elements (or infinities) that this step brought. */
static double bad_elements(const operand *o, node_kind kind, uint64_t serial) {
    double count = 0;
    for (size_t i = 0; i < o->match_count; i++) {
        const td_signal *s = o->matches[i].signal;
        if (s->stats_serial == serial) {
            count += (double)(kind == NODE_NAN ? s->stats.nan : s->stats.inf);
        }
        if (s->value_serial == serial) {
            count += kind == NODE_NAN ? isnan(s->value) : isinf(s->value) != 0;
        }
    }
    return count;
}

/* ---- Nodes ---------------------------------------------------------------------------------- */

/* The glob that is being walked stands for one signal at a time. */
typedef struct binding {
    const td__condition *condition;
    const td__moment *now;
    int32_t operand;
    const match *match;
} binding;

static double value_of(const binding *b, int32_t index);

static bool is_true(double value) {
    return value != 0 && !isnan(value);
}

static double apply_operator(node_kind kind, double left, double right) {
    switch (kind) {
    case NODE_ABS:
        return fabs(left);
    case NODE_NEGATE:
        return -left;
    case NODE_NOT:
        return !is_true(left);
    case NODE_MIN:
        return isnan(left) || isnan(right) ? left + right : fmin(left, right);
    case NODE_MAX:
        return isnan(left) || isnan(right) ? left + right : fmax(left, right);
    case NODE_LESS:
        return left < right;
    case NODE_LESS_EQUAL:
        return left <= right;
    case NODE_GREATER:
        return left > right;
    case NODE_GREATER_EQUAL:
        return left >= right;
    case NODE_EQUAL:
        return left == right;
    case NODE_NOT_EQUAL:
        return left != right;
    case NODE_ADD:
        return left + right;
    case NODE_SUBTRACT:
        return left - right;
    case NODE_MULTIPLY:
        return left * right;
    default:
        return left / right;
    }
}

/* A comparison: does it hold for some signal of the glob; min and max: the extreme over them. */
static double walk_glob(const binding *b, const node *n) {
    const operand *o = &b->condition->operands[n->over];
    binding inner = *b;
    inner.operand = n->over;
    double extreme = (double)NAN;
    for (size_t i = 0; i < o->match_count; i++) {
        inner.match = &o->matches[i];
        double left = value_of(&inner, n->left);
        if (n->kind == NODE_MIN || n->kind == NODE_MAX) {
            extreme = isnan(extreme) ? left
                      : isnan(left)  ? extreme
                                     : apply_operator(n->kind, extreme, left);
        } else if (is_true(apply_operator(n->kind, left, value_of(&inner, n->right)))) {
            return 1;
        }
    }
    return n->kind == NODE_MIN || n->kind == NODE_MAX ? extreme : 0;
}

static double value_of(const binding *b, int32_t index) {
    const node *n = &b->condition->nodes[index];
    switch (n->kind) {
    case NODE_NUMBER:
        return n->number;
    case NODE_STEP:
        return (double)b->now->step;
    case NODE_EPOCH:
        return (double)b->now->epoch;
    case NODE_SIGNAL: {
        const operand *o = &b->condition->operands[n->operand];
        return n->operand == b->operand ? td__match_value(o, b->match) : operand_value(o);
    }
    case NODE_NAN:
    case NODE_INF:
        return b->condition->keeps_totals
                   ? n->total
                   : bad_elements(&b->condition->operands[n->operand], n->kind, b->now->serial);
    case NODE_MEAN:
        return n->filled ? n->sum / (double)(n->filled < n->size ? n->filled : n->size)
                         : (double)NAN;
    case NODE_DELTA:
        return n->filled > 1 ? n->last - n->before : (double)NAN;
    case NODE_AND:
        return is_true(value_of(b, n->left)) && is_true(value_of(b, n->right));
    case NODE_OR:
        return is_true(value_of(b, n->left)) || is_true(value_of(b, n->right));
    default:
        break;
    }
    if (n->over >= 0) {
        return walk_glob(b, n);
    }
    double left = value_of(b, n->left);
    return apply_operator(n->kind, left, n->right == NO_NODE ? 0 : value_of(b, n->right));
}

static bool is_fresh_value(const binding *b, int32_t index) {
    const node *n = &b->condition->nodes[index];
    if (n->operand >= 0) {
        return operand_fresh(&b->condition->operands[n->operand], b->now->serial);
    }
    return n->kind == NODE_STEP || (n->left != NO_NODE && is_fresh_value(b, n->left)) ||
           (n->right != NO_NODE && is_fresh_value(b, n->right));
}

/* Adds what this step brought to a total, and keeps where the first of it was. */
static void add_total(const td__condition *condition, node *n, const td__moment *now) {
    const operand *o = &condition->operands[n->operand];
    double brought = bad_elements(o, n->kind, now->serial);
    for (size_t i = 0; brought > 0 && !n->first && i < o->match_count; i++) {
        operand one = {.matches = &o->matches[i], .match_count = 1};
        n->first = bad_elements(&one, n->kind, now->serial) > 0 ? o->matches[i].signal : NULL;
        n->first_step = now->step;
    }
    n->total += brought;
}

static void take_mean(node *n, double value) {
    if (!isfinite(value)) {
        return; /* one NaN would hide everything after it */
    }
    int64_t place = n->filled % n->size;
    n->sum += value - n->window[place];
    n->window[place] = value;
    n->filled++;
    if (place == n->size - 1) { /* start over, so that rounding does not build up */
        n->sum = 0;
        for (int64_t i = 0; i < n->size; i++) {
            n->sum += n->window[i];
        }
    }
}

void td__condition_update(td__condition *condition, const td__moment *now) {
    binding b = {.condition = condition, .now = now, .operand = -1};
    for (size_t i = 0; i < condition->node_count; i++) {
        node *n = &condition->nodes[i];
        if (condition->keeps_totals && (n->kind == NODE_NAN || n->kind == NODE_INF)) {
            add_total(condition, n, now);
        }
        if ((n->kind != NODE_MEAN && n->kind != NODE_DELTA) || !is_fresh_value(&b, n->left)) {
            continue;
        }
        double value = value_of(&b, n->left);
        if (n->kind == NODE_MEAN) {
            take_mean(n, value);
        } else {
            n->before = n->last;
            n->last = value;
            n->filled++;
        }
    }
}

bool td__condition_pass_state(td__condition *condition, void (*pass)(void *context, void *value),
                              void *context) {
    bool good = true;
    for (size_t i = 0; i < condition->node_count; i++) {
        node *n = &condition->nodes[i];
        if (n->kind != NODE_MEAN && n->kind != NODE_DELTA) {
            continue;
        }
        pass(context, &n->filled);
        pass(context, &n->sum);
        pass(context, &n->before);
        pass(context, &n->last);
        for (int64_t k = 0; k < n->size; k++) {
            pass(context, &n->window[k]);
        }
        good = good && n->filled >= 0 && n->filled < INT64_MAX / 2;
    }
    return good;
}

bool td__condition_holds(const td__condition *condition, const td__moment *now) {
    binding b = {.condition = condition, .now = now, .operand = -1};
    return is_true(value_of(&b, (int32_t)condition->node_count - 1));
}

double td__condition_value(const td__condition *condition, int32_t index, const td__moment *now) {
    binding b = {.condition = condition, .now = now, .operand = -1};
    return value_of(&b, index);
}

void td__condition_keep_totals(td__condition *condition) {
    condition->keeps_totals = true;
}
