/* Parses a condition by recursive descent. Depth and size are limited, so that hostile text can
 * exhaust neither the stack nor memory. The first error is kept, with its place; every rule returns
 * NO_NODE after it. */
#include "deck/condition_tree.h"

#include "base/memory.h"
#include "base/parse.h"
#include "deck/glob.h"

#include <ctype.h>
#include <string.h>

enum { MAX_NODES = 1000, MAX_DEPTH = 60, MAX_WINDOW = 1000000, MAX_TEXT = 10000 };

typedef struct parser {
    td__condition *condition;
    const char *text;
    const char *at;
    td_error *error;
    td_status status;
    int depth;
    int32_t glob; /* the one glob of the comparison being read, or -1 */
} parser;

/* ---- Errors --------------------------------------------------------------------------------- */

td_status td__condition_fail(const char *text, const char *at, td_status status,
                             const char *message, td_error *error) {
    enum { AROUND = 60 };
    const char *start = at - text > AROUND ? at - AROUND : text;
    char gap[AROUND + 1];
    size_t used = 0;
    for (const char *c = start; c < at; c++) {
        if (((unsigned char)*c & 0xC0) != 0x80) { /* a byte that begins a character */
            gap[used++] = *c == '\t' ? '\t' : ' ';
        }
    }
    gap[used] = 0;
    return td_error_set(error, status, "when: %s\n    %.*s\n    %s^", message, 2 * AROUND, start,
                        gap);
}

static int32_t parse_failed(parser *p, const char *at, const char *message) {
    if (p->status == TD_OK) {
        p->status = td__condition_fail(p->text, at, TD_INVALID, message, p->error);
    }
    return NO_NODE;
}

static int32_t fail_memory(parser *p) {
    if (p->status == TD_OK) {
        p->status = td_error_set(p->error, TD_MEMORY, "when: out of memory");
    }
    return NO_NODE;
}

static const char *const functions[] = {"nan", "inf", "mean", "delta", "abs", "min", "max"};

static int32_t fail_function(parser *p, const char *name, size_t length) {
    char word[32] = {0}, message[160];
    memcpy(word, name, length < sizeof word - 1 ? length : sizeof word - 1);
    const char *near = td_nearest_word(word, functions, sizeof functions / sizeof functions[0]);
    if (near) {
        snprintf(message, sizeof message, "there is no function %s; did you mean %s?", word, near);
    } else {
        snprintf(message, sizeof message,
                 "there is no function %s; there are nan, inf, mean, delta, abs, min and max",
                 word);
    }
    return parse_failed(p, name, message);
}

/* ---- Tree ----------------------------------------------------------------------------------- */

static int32_t add_node(parser *p, node_kind kind, int32_t left, int32_t right) {
    td__condition *c = p->condition;
    if (p->status != TD_OK) {
        return NO_NODE;
    }
    if (c->node_count == MAX_NODES) {
        return parse_failed(p, p->at, "the condition is too long");
    }
    if (!td__grow(&c->nodes, &c->node_capacity, c->node_count + 1, MAX_NODES, sizeof *c->nodes)) {
        return fail_memory(p);
    }
    c->nodes[c->node_count] =
        (node){.kind = kind, .left = left, .right = right, .operand = -1, .over = -1};
    return (int32_t)c->node_count++;
}

/* Takes pattern over. */
static int32_t add_operand(parser *p, node_kind kind, char *pattern, const char *start) {
    td__condition *c = p->condition;
    if (!pattern || !td__grow(&c->operands, &c->operand_capacity, c->operand_count + 1, MAX_NODES,
                              sizeof *c->operands)) {
        td__free(pattern);
        return fail_memory(p);
    }
    operand *o = &c->operands[c->operand_count];
    *o = (operand){.pattern = pattern,
                   .place = (size_t)(start - p->text),
                   .stem = strlen(pattern),
                   .statistic = NO_STAT};
    c->operand_count++;
    o->glob = td__glob_is_pattern(pattern);
    o->whole = kind != NODE_SIGNAL;
    const char *dot = strrchr(pattern, '.');
    for (int32_t i = 0; dot && !o->whole && i < td__statistic_count; i++) {
        if (strcmp(dot + 1, td__statistics[i].name) == 0) {
            o->statistic = i;
            o->stem = (size_t)(dot - pattern);
        }
    }
    int32_t added = add_node(p, kind, NO_NODE, NO_NODE);
    if (added != NO_NODE) {
        c->nodes[added].operand = (int32_t)c->operand_count - 1;
    }
    return added;
}

/* ---- Words ---------------------------------------------------------------------------------- */

static void skip_blanks(parser *p) {
    while (*p->at == ' ' || *p->at == '\t' || *p->at == '\n' || *p->at == '\r') {
        p->at++;
    }
}

static bool is_letter(char c) {
    return isalpha((unsigned char)c) || c == '_';
}
static bool is_name(char c) {
    return is_letter(c) || isdigit((unsigned char)c) || c == '.';
}

static bool take_symbol(parser *p, const char *symbol) {
    skip_blanks(p);
    size_t length = strlen(symbol);
    if (strncmp(p->at, symbol, length) != 0) {
        return false;
    }
    if (is_letter(symbol[0]) && is_name(p->at[length])) {
        return false; /* "order" is not "or" */
    }
    p->at += length;
    return true;
}

/* Whether the * at c belongs to a name: at its beginning, or with a dot on either side. Elsewhere
 * it multiplies. */
static bool star_in_name(const char *start, const char *c) {
    return c == start || c[-1] == '.' || c[-1] == '*' || (c[1] == '.' && is_letter(c[2]));
}

static const char *name_end(const char *start) {
    const char *c = start;
    while (is_name(*c) || *c == '?' || (*c == '*' && star_in_name(start, c))) {
        c++;
    }
    return c;
}

static char *copy_range(const char *start, const char *end) {
    char *text = td__calloc((size_t)(end - start) + 1, 1);
    return text ? memcpy(text, start, (size_t)(end - start)) : NULL;
}

/* "…" or '…' at p->at, which is left behind it. NULL after an error. */
static char *parse_quoted(parser *p) {
    const char *start = p->at, *end = start + 1;
    while (*end && *end != *start) {
        end += *end == '\\' && end[1] ? 2 : 1;
    }
    if (!*end) {
        parse_failed(p, start, "this quotation mark has no other");
        return NULL;
    }
    p->at = end + 1;
    char *text = copy_range(start + 1, end);
    if (!text) {
        fail_memory(p);
    }
    return text;
}

/* ---- Grammar -------------------------------------------------------------------------------- */

static int32_t parse_expression(parser *p);

static int32_t signal_name(parser *p, node_kind kind) {
    skip_blanks(p);
    const char *start = p->at;
    char *pattern;
    if (*start == '"' || *start == '\'') {
        pattern = parse_quoted(p);
        if (!pattern) {
            return NO_NODE;
        }
    } else {
        const char *end = name_end(start);
        if (end == start) {
            return parse_failed(p, start, "the name of a signal is expected here");
        }
        p->at = end;
        pattern = copy_range(start, end);
    }
    int32_t added = add_operand(p, kind, pattern, start);
    if (added == NO_NODE || kind != NODE_SIGNAL) {
        return added;
    }
    int32_t index = p->condition->nodes[added].operand;
    if (p->condition->operands[index].glob) {
        if (p->glob >= 0) {
            return parse_failed(p, start,
                                "a comparison takes one glob; min() or max() make one of two");
        }
        p->glob = index;
    }
    return added;
}

static int32_t close_function(parser *p, int32_t result) {
    if (p->status == TD_OK && !take_symbol(p, ")")) {
        return parse_failed(p, p->at, "a ) is expected here");
    }
    return p->status == TD_OK ? result : NO_NODE;
}

static int32_t mean_window(parser *p, int32_t mean) {
    if (p->status == TD_OK && !take_symbol(p, ",")) {
        return parse_failed(p, p->at, "mean takes a number of values too: mean(loss, 50)");
    }
    skip_blanks(p);
    double size = 0;
    const char *end = isdigit((unsigned char)*p->at) ? td__parse_float64(p->at, &size) : NULL;
    if (!end || size < 1 || size > MAX_WINDOW || size != (double)(int64_t)size) {
        return parse_failed(p, p->at, "a whole number from 1 to 1000000 is expected here");
    }
    p->at = end;
    if (p->status != TD_OK) {
        return NO_NODE;
    }
    node *n = &p->condition->nodes[mean];
    n->size = (int64_t)size;
    n->window = td__calloc((size_t)n->size, sizeof *n->window);
    return n->window ? mean : fail_memory(p);
}

/* mean(x, N) and delta(x): of one signal, not of many. */
static int32_t parse_window_function(parser *p, node_kind kind) {
    int32_t outer = p->glob;
    p->glob = -1;
    const char *start = p->at;
    int32_t argument = parse_expression(p);
    if (p->glob >= 0) {
        return parse_failed(p, start, "mean and delta take one signal, not a glob");
    }
    p->glob = outer;
    int32_t added = add_node(p, kind, argument, NO_NODE);
    return added != NO_NODE && kind == NODE_MEAN ? mean_window(p, added) : added;
}

/* min and max: of several values, or of all the signals of one glob. */
static int32_t parse_min_max(parser *p, node_kind kind) {
    int32_t outer = p->glob;
    p->glob = -1;
    int32_t first = parse_expression(p);
    int32_t over = p->glob;
    if (over < 0 || p->status != TD_OK) {
        p->glob = outer;
        while (p->status == TD_OK && take_symbol(p, ",")) {
            first = add_node(p, kind, first, parse_expression(p));
        }
        return first;
    }
    p->glob = outer;
    int32_t added = add_node(p, kind, first, NO_NODE);
    if (added != NO_NODE) {
        p->condition->nodes[added].over = over;
    }
    return added;
}

static int32_t parse_function(parser *p, const char *name, size_t length) {
    static const node_kind kinds[] = {NODE_NAN, NODE_INF, NODE_MEAN, NODE_DELTA,
                                      NODE_ABS, NODE_MIN, NODE_MAX};
    size_t which = 0, count = sizeof kinds / sizeof kinds[0];
    while (which < count &&
           (strlen(functions[which]) != length || strncmp(functions[which], name, length) != 0)) {
        which++;
    }
    if (which == count) {
        return fail_function(p, name, length);
    }
    switch (kinds[which]) {
    case NODE_NAN:
    case NODE_INF:
        return close_function(p, signal_name(p, kinds[which]));
    case NODE_MEAN:
    case NODE_DELTA:
        return close_function(p, parse_window_function(p, kinds[which]));
    case NODE_ABS:
        return close_function(p, add_node(p, NODE_ABS, parse_expression(p), NO_NODE));
    default:
        return close_function(p, parse_min_max(p, kinds[which]));
    }
}

static int32_t parse_number(parser *p) {
    double value;
    const char *end = td__parse_float64(p->at, &value);
    if (!end) {
        return parse_failed(p, p->at, "a number is expected here");
    }
    if (is_letter(*end)) {
        return parse_failed(p, end,
                            "a number ends here; a name cannot begin with a digit unless quoted");
    }
    p->at = end;
    int32_t added = add_node(p, NODE_NUMBER, NO_NODE, NO_NODE);
    if (added != NO_NODE) {
        p->condition->nodes[added].number = value;
    }
    return added;
}

static int32_t parse_unary(parser *p) {
    if (take_symbol(p, "-")) {
        if (++p->depth > MAX_DEPTH) {
            return parse_failed(p, p->at, "this is nested too deeply");
        }
        int32_t negated = add_node(p, NODE_NEGATE, parse_unary(p), NO_NODE);
        p->depth--;
        return negated;
    }
    if (take_symbol(p, "(")) {
        int32_t inside = parse_expression(p);
        return close_function(p, inside);
    }
    const char *start = p->at;
    if (isdigit((unsigned char)*start) || (*start == '.' && isdigit((unsigned char)start[1]))) {
        return parse_number(p);
    }
    if (take_symbol(p, "step")) {
        return add_node(p, NODE_STEP, NO_NODE, NO_NODE);
    }
    if (take_symbol(p, "epoch")) {
        return add_node(p, NODE_EPOCH, NO_NODE, NO_NODE);
    }
    const char *end = name_end(start);
    const char *next = end + strspn(end, " \t");
    if (is_letter(*start) && *next == '(') {
        p->at = next + 1;
        return parse_function(p, start, (size_t)(end - start));
    }
    if (end == start && *start != '"' && *start != '\'') {
        return parse_failed(p, start,
                            *start
                                ? "a number, a signal or ( is expected here"
                                : "the condition ends where a number, a signal or ( is expected");
    }
    return signal_name(p, NODE_SIGNAL);
}

/* Operators of one rank, longest first where one begins another. */
typedef struct binary {
    const char *symbol;
    node_kind kind;
} binary;

static const binary *take_binary(parser *p, const binary *operators) {
    for (; operators->symbol; operators++) {
        if (take_symbol(p, operators->symbol)) {
            return operators;
        }
    }
    return NULL;
}

/* Terms of `next` joined by these operators, from left to right. */
static int32_t parse_joined(parser *p, const binary *operators, int32_t (*next)(parser *p)) {
    int32_t left = next(p);
    const binary *found;
    while (p->status == TD_OK && (found = take_binary(p, operators))) {
        int32_t right = next(p);
        left = add_node(p, found->kind, left, right);
    }
    return left;
}

static int32_t parse_product(parser *p) {
    static const binary operators[] = {{"*", NODE_MULTIPLY}, {"/", NODE_DIVIDE}, {NULL, 0}};
    return parse_joined(p, operators, parse_unary);
}

static int32_t parse_sum(parser *p) {
    static const binary operators[] = {{"+", NODE_ADD}, {"-", NODE_SUBTRACT}, {NULL, 0}};
    return parse_joined(p, operators, parse_product);
}

static const binary comparisons[] = {
    {"<=", NODE_LESS_EQUAL}, {">=", NODE_GREATER_EQUAL}, {"==", NODE_EQUAL}, {"!=", NODE_NOT_EQUAL},
    {"<", NODE_LESS},        {">", NODE_GREATER},        {NULL, 0},
};

static int32_t parse_comparison(parser *p) {
    int32_t outer = p->glob;
    p->glob = -1;
    const char *start = p->at;
    int32_t left = parse_sum(p);
    const binary *found = p->status == TD_OK ? take_binary(p, comparisons) : NULL;
    if (!found) {
        if (outer >= 0 && p->glob >= 0) {
            return parse_failed(p, start,
                                "a comparison takes one glob; min() or max() make one of two");
        }
        p->glob = p->glob >= 0 ? p->glob : outer;
        return left;
    }
    int32_t right = parse_sum(p);
    skip_blanks(p);
    const char *again = p->at;
    if (p->status == TD_OK && take_binary(p, comparisons)) {
        return parse_failed(p, again, "comparisons do not chain: write a < b and b < c");
    }
    int32_t added = add_node(p, found->kind, left, right);
    if (added != NO_NODE) {
        p->condition->nodes[added].over = p->glob;
    }
    p->glob = outer;
    return added;
}

static int32_t not_term(parser *p) {
    if (++p->depth > MAX_DEPTH) {
        return parse_failed(p, p->at, "this is nested too deeply");
    }
    skip_blanks(p);
    const char *start = p->at;
    int32_t result =
        take_symbol(p, "not") ? add_node(p, NODE_NOT, not_term(p), NO_NODE) : parse_comparison(p);
    p->depth--;
    if (result != NO_NODE) {
        const char *end = p->at;
        while (end > start &&
               (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\n' || end[-1] == '\r')) {
            end--;
        }
        p->condition->nodes[result].begin = (size_t)(start - p->text);
        p->condition->nodes[result].end = (size_t)(end - p->text);
    }
    return result;
}

static int32_t and_term(parser *p) {
    int32_t left = not_term(p);
    while (p->status == TD_OK && take_symbol(p, "and")) {
        int32_t right = not_term(p);
        left = add_node(p, NODE_AND, left, right);
    }
    return left;
}

static int32_t parse_expression(parser *p) {
    int32_t left = and_term(p);
    while (p->status == TD_OK && take_symbol(p, "or")) {
        int32_t right = and_term(p);
        left = add_node(p, NODE_OR, left, right);
    }
    return left;
}

static const char *leftover(const char *at) {
    static const struct {
        const char *symbol, *message;
    } hints[] = {
        {"=", "to compare, write =="},
        {"&", "write and"},
        {"|", "write or"},
        {"!", "write not"},
        {")", "there is no ( for this )"},
    };
    for (size_t i = 0; i < sizeof hints / sizeof hints[0]; i++) {
        if (*at == *hints[i].symbol) {
            return hints[i].message;
        }
    }
    return "an operator or the end is expected here";
}

td__condition *td__condition_parse(const char *text, td_error *error) {
    if (strlen(text) > MAX_TEXT) {
        td_error_set(error, TD_INVALID, "when: the condition is longer than %d bytes", MAX_TEXT);
        return NULL;
    }
    td__condition *condition = td__calloc(1, sizeof *condition);
    char *kept = condition ? td__strdup(text) : NULL;
    if (!kept) {
        td__free(condition);
        td_error_set(error, TD_MEMORY, "when: out of memory");
        return NULL;
    }
    condition->text = kept;
    parser p = {.condition = condition, .text = kept, .at = kept, .error = error, .glob = -1};
    parse_expression(&p);
    skip_blanks(&p);
    if (p.status == TD_OK && *p.at) {
        parse_failed(&p, p.at, leftover(p.at));
    }
    if (p.status == TD_OK && p.glob >= 0) {
        parse_failed(&p, kept, "a glob needs a comparison, min(), max(), nan() or inf()");
    }
    if (p.status != TD_OK) {
        td__condition_destroy(condition);
        return NULL;
    }
    return condition;
}

void td__condition_destroy(td__condition *condition) {
    if (!condition) {
        return;
    }
    for (size_t i = 0; i < condition->node_count; i++) {
        td__free(condition->nodes[i].window);
    }
    for (size_t i = 0; i < condition->operand_count; i++) {
        td__free(condition->operands[i].pattern);
        td__free(condition->operands[i].matches);
    }
    td__free(condition->nodes);
    td__free(condition->operands);
    td__free(condition->text);
    td__free(condition);
}

const char *td__condition_text(const td__condition *condition) {
    return condition->text;
}
