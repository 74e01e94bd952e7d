/* The machine: an argument is read as its instruction says, then a few lines move values. */
#include "torch/pickle.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_VALUES = 1 << 20,
    MAX_STACK = 1 << 20,
    MAX_MARKS = 1 << 16,
    MAX_ITEMS = 1 << 21, /* in all lists together */
    MAX_MEMO = 1 << 21
};

typedef struct machine {
    td__pickle *made;
    const uint8_t *start, *at, *end;
    const char *origin;
    td_error *error;
    uint32_t *stack; /* numbers of values */
    size_t stack_count, stack_capacity;
    uint32_t *marks; /* heights of the stack */
    size_t mark_count, mark_capacity;
    uint32_t *memo; /* number + 1; 0 is none */
    size_t memo_count, memo_capacity;
    size_t memoized, items;
    bool stopped;
} machine;

/* What stands behind an instruction. */
typedef struct argument {
    uint64_t number;
    const char *text, *second;
    size_t length, second_length;
} argument;

static td_status damaged(const machine *m, const char *what) {
    return td_error_set(m->error, TD_FORMAT, "%s: a damaged pickle: %s at byte %zu of it",
                        m->origin, what, (size_t)(m->at - m->start));
}

static td_status too_large(const machine *m, const char *what) {
    return td_error_set(m->error, TD_RANGE, "%s: its pickle has too many %s", m->origin, what);
}

/* ---- Values and the stack -------------------------------------------------------------------- */

static td_status push(machine *m, uint32_t value) {
    if (!td__grow(&m->stack, &m->stack_capacity, m->stack_count + 1, MAX_STACK, sizeof *m->stack)) {
        return too_large(m, "values at once");
    }
    m->stack[m->stack_count++] = value;
    return TD_OK;
}

static td_status push_value(machine *m, td__pickle_value value) {
    td__pickle *made = m->made;
    if (!td__grow(&made->values, &made->capacity, made->count + 1, MAX_VALUES,
                  sizeof *made->values)) {
        return too_large(m, "values");
    }
    made->values[made->count] = value;
    return push(m, (uint32_t)made->count++);
}

static size_t floor_of(const machine *m) {
    return m->mark_count ? m->marks[m->mark_count - 1] : 0;
}

/* Values above the last mark that can be taken. */
static bool has(const machine *m, size_t count) {
    return m->stack_count - floor_of(m) >= count;
}

static uint32_t pop(machine *m) {
    return m->stack[--m->stack_count];
}

static td_status append_items(machine *m, uint32_t to, const uint32_t *items, size_t count) {
    td__pickle_value *list = &m->made->values[to];
    size_t capacity = list->capacity;
    if (count > MAX_ITEMS - m->items ||
        !td__grow(&list->items, &capacity, list->count + count, MAX_ITEMS, sizeof *items)) {
        return too_large(m, "items");
    }
    if (count) {
        memcpy(list->items + list->count, items, count * sizeof *items);
    }
    list->capacity = (uint32_t)capacity;
    list->count += (uint32_t)count;
    m->items += count;
    return TD_OK;
}

/* Makes one list of the topmost values. */
static td_status gather_items(machine *m, td__pickle_kind kind, size_t count) {
    if (!has(m, count)) {
        return damaged(m, "too few values");
    }
    uint32_t *first = m->stack + m->stack_count - count;
    m->stack_count -= count;
    td__pickle *made = m->made;
    if (!td__grow(&made->values, &made->capacity, made->count + 1, MAX_VALUES,
                  sizeof *made->values)) {
        return too_large(m, "values");
    }
    made->values[made->count] = (td__pickle_value){.kind = kind};
    uint32_t list = (uint32_t)made->count++;
    td_status status = append_items(m, list, first, count);
    return status ? status : push(m, list);
}

/* How many values stand above the last mark, which is gone then. */
static td_status unmark(machine *m, size_t *count) {
    if (!m->mark_count) {
        return damaged(m, "no mark");
    }
    *count = m->stack_count - m->marks[--m->mark_count];
    return TD_OK;
}

/* ---- Instructions ---------------------------------------------------------------------------- */

typedef td_status instruction(machine *m, const argument *a);

static td_status do_nothing(machine *m, const argument *a) {
    (void)m;
    (void)a;
    return TD_OK;
}

static td_status stop(machine *m, const argument *a) {
    (void)a;
    if (m->mark_count || m->stack_count != 1) {
        return damaged(m, "it ends with other than one value");
    }
    m->made->root = pop(m);
    m->stopped = true;
    return TD_OK;
}

static td_status mark(machine *m, const argument *a) {
    (void)a;
    if (!td__grow(&m->marks, &m->mark_capacity, m->mark_count + 1, MAX_MARKS, sizeof *m->marks)) {
        return too_large(m, "marks");
    }
    m->marks[m->mark_count++] = (uint32_t)m->stack_count;
    return TD_OK;
}

static td_status drop_top(machine *m, const argument *a) {
    (void)a;
    if (has(m, 1)) {
        m->stack_count--;
        return TD_OK;
    }
    size_t none;
    return unmark(m, &none); /* Python drops a mark so, too */
}

static td_status drop_marked(machine *m, const argument *a) {
    (void)a;
    size_t count = 0;
    td_status status = unmark(m, &count);
    m->stack_count -= status ? 0 : count;
    return status;
}

static td_status double_top(machine *m, const argument *a) {
    (void)a;
    return has(m, 1) ? push(m, m->stack[m->stack_count - 1]) : damaged(m, "nothing to double");
}

static td_status push_none(machine *m, const argument *a) {
    (void)a;
    return push_value(m, (td__pickle_value){.kind = TD__PICKLE_NONE});
}

static td_status push_bool(machine *m, const argument *a) {
    return push_value(m, (td__pickle_value){.kind = TD__PICKLE_BOOL, .number = a->number != 0});
}

static td_status push_number(machine *m, const argument *a) {
    return push_value(m,
                      (td__pickle_value){.kind = TD__PICKLE_NUMBER, .number = (int64_t)a->number});
}

static td_status push_signed(machine *m, const argument *a) {
    return push_value(
        m, (td__pickle_value){.kind = TD__PICKLE_NUMBER, .number = (int32_t)(uint32_t)a->number});
}

/* Little-endian, in two's complement. */
static td_status push_long(machine *m, const argument *a) {
    if (a->length > 8) {
        return push_value(m, (td__pickle_value){.kind = TD__PICKLE_OTHER});
    }
    bool negative = a->length && (uint8_t)a->text[a->length - 1] >= 0x80;
    uint64_t bits = negative ? UINT64_MAX : 0;
    for (size_t i = a->length; i-- > 0;) {
        bits = bits << 8 | (uint8_t)a->text[i];
    }
    return push_value(m, (td__pickle_value){.kind = TD__PICKLE_NUMBER, .number = (int64_t)bits});
}

static td_status push_real(machine *m, const argument *a) {
    uint64_t bits = __builtin_bswap64(a->number);
    double real;
    memcpy(&real, &bits, sizeof real);
    return push_value(m, (td__pickle_value){.kind = TD__PICKLE_REAL, .real = real});
}

static td_status push_text(machine *m, const argument *a) {
    return push_value(m, (td__pickle_value){.kind = TD__PICKLE_TEXT,
                                            .text = a->text,
                                            .length = (uint32_t)a->length});
}

/* A text of the first protocol, in quotes. */
static td_status push_quoted(machine *m, const argument *a) {
    if (a->length < 2 || a->text[0] != a->text[a->length - 1]) {
        return damaged(m, "a text");
    }
    return push_text(m, &(argument){.text = a->text + 1, .length = a->length - 2});
}

/* A number of the first protocol, as text: "12", "12L"; "00" and "01" are false and true. */
static td_status push_decimal(machine *m, const argument *a) {
    char text[32], *end;
    if (a->length == 2 && a->text[0] == '0' && (a->text[1] == '0' || a->text[1] == '1')) {
        return push_bool(m, &(argument){.number = a->text[1] == '1'});
    }
    if (a->length >= sizeof text || !a->length) {
        return push_value(m, (td__pickle_value){.kind = TD__PICKLE_OTHER});
    }
    memcpy(text, a->text, a->length);
    text[a->length] = 0;
    long long number = strtoll(text, &end, 10);
    if (end == text || (*end && strcmp(end, "L") != 0)) {
        return damaged(m, "a number");
    }
    return push_value(m, (td__pickle_value){.kind = TD__PICKLE_NUMBER, .number = number});
}

static td_status push_float_text(machine *m, const argument *a) {
    (void)a;
    return push_value(m, (td__pickle_value){.kind = TD__PICKLE_OTHER});
}

static td_status push_name(machine *m, const argument *a) {
    return push_value(m, (td__pickle_value){.kind = TD__PICKLE_NAME,
                                            .text = a->second,
                                            .length = (uint32_t)a->second_length,
                                            .module = a->text,
                                            .module_length = (uint32_t)a->length});
}

static td_status name_from_stack(machine *m, const argument *a) {
    (void)a;
    if (!has(m, 2)) {
        return damaged(m, "too few values");
    }
    td__pickle_value name = m->made->values[pop(m)], module = m->made->values[pop(m)];
    if (name.kind != TD__PICKLE_TEXT || module.kind != TD__PICKLE_TEXT) {
        return damaged(m, "a name that is no text");
    }
    return push_name(m, &(argument){.text = module.text,
                                    .length = module.length,
                                    .second = name.text,
                                    .second_length = name.length});
}

static td_status empty_dict(machine *m, const argument *a) {
    (void)a;
    return gather_items(m, TD__PICKLE_DICT, 0);
}

/* A tuple, or an empty list. */
static td_status tuple_of(machine *m, const argument *a) {
    return gather_items(m, TD__PICKLE_LIST, (size_t)a->number);
}

static td_status marked_list(machine *m, const argument *a) {
    (void)a;
    size_t count = 0;
    td_status status = unmark(m, &count);
    return status ? status : tuple_of(m, &(argument){.number = count});
}

static td_status marked_dict(machine *m, const argument *a) {
    (void)a;
    size_t count = 0;
    td_status status = unmark(m, &count);
    return status      ? status
           : count % 2 ? damaged(m, "a key without a value")
                       : gather_items(m, TD__PICKLE_DICT, count);
}

/* Puts the topmost values into what is below them; pairs where it is no list. */
static td_status put_into(machine *m, size_t count, bool pairs) {
    if (!has(m, count + 1)) {
        return damaged(m, "too few values");
    }
    m->stack_count -= count;
    uint32_t to = m->stack[m->stack_count - 1];
    td__pickle_kind kind = m->made->values[to].kind;
    bool fits = kind == TD__PICKLE_CALL || kind == (pairs ? TD__PICKLE_DICT : TD__PICKLE_LIST);
    if (!fits || (pairs && count % 2)) {
        return damaged(m, "something is put into what holds nothing");
    }
    if (kind == TD__PICKLE_CALL && !pairs) {
        return TD_OK; /* an object that behaves like a list: what is in it is not looked at */
    }
    return append_items(m, to, m->stack + m->stack_count, count);
}

static td_status append_one(machine *m, const argument *a) {
    (void)a;
    return put_into(m, 1, false);
}

static td_status append_marked(machine *m, const argument *a) {
    (void)a;
    size_t count = 0;
    td_status status = unmark(m, &count);
    return status ? status : put_into(m, count, false);
}

static td_status set_one(machine *m, const argument *a) {
    (void)a;
    return put_into(m, 2, true);
}

static td_status set_marked(machine *m, const argument *a) {
    (void)a;
    size_t count = 0;
    td_status status = unmark(m, &count);
    return status ? status : put_into(m, count, true);
}

static td_status memo_put(machine *m, const argument *a) {
    if (!has(m, 1)) {
        return damaged(m, "nothing to remember");
    }
    /* Each costs an instruction: a number far beyond the pickle's size is not one of Python's. */
    size_t max = (size_t)(m->end - m->start) + 1;
    max = max < MAX_MEMO ? max : MAX_MEMO;
    if (a->number >= max ||
        !td__grow(&m->memo, &m->memo_capacity, (size_t)a->number + 1, max, sizeof *m->memo)) {
        return too_large(m, "remembered values");
    }
    if (m->memo_count <= a->number) {
        memset(m->memo + m->memo_count, 0,
               ((size_t)a->number + 1 - m->memo_count) * sizeof *m->memo);
        m->memo_count = (size_t)a->number + 1;
    }
    m->memo[a->number] = m->stack[m->stack_count - 1] + 1;
    m->memoized++;
    return TD_OK;
}

static td_status memoize(machine *m, const argument *a) {
    (void)a;
    return memo_put(m, &(argument){.number = m->memoized});
}

static td_status memo_get(machine *m, const argument *a) {
    if (a->number >= m->memo_count || !m->memo[a->number]) {
        return damaged(m, "a value that was never remembered");
    }
    return push(m, m->memo[a->number] - 1);
}

/* A number as text: of the first protocol. */
static bool decimal(const argument *a, argument *out) {
    out->number = 0;
    for (size_t i = 0; i < a->length; i++) {
        if (a->text[i] < '0' || a->text[i] > '9' || i > 8) {
            return false;
        }
        out->number = out->number * 10 + (uint64_t)(a->text[i] - '0');
    }
    return a->length;
}

static td_status memo_put_text(machine *m, const argument *a) {
    argument number = {0};
    return decimal(a, &number) ? memo_put(m, &number) : damaged(m, "a number");
}

static td_status memo_get_text(machine *m, const argument *a) {
    argument number = {0};
    return decimal(a, &number) ? memo_get(m, &number) : damaged(m, "a number");
}

static td_status call(machine *m, const argument *a) {
    (void)a;
    if (!has(m, 2)) {
        return damaged(m, "too few values");
    }
    uint32_t arguments = pop(m), called = pop(m);
    if (m->made->values[arguments].kind != TD__PICKLE_LIST) {
        return damaged(m, "a call without arguments");
    }
    return push_value(
        m, (td__pickle_value){.kind = TD__PICKLE_CALL, .called = called, .arguments = arguments});
}

static td_status call_with_words(machine *m, const argument *a) {
    if (!has(m, 3)) {
        return damaged(m, "too few values");
    }
    m->stack_count--; /* its named arguments */
    return call(m, a);
}

/* An object's state: attributes, which no tensor is kept in. */
static td_status build(machine *m, const argument *a) {
    (void)a;
    if (!has(m, 2)) {
        return damaged(m, "too few values");
    }
    m->stack_count--;
    return TD_OK;
}

static td_status persistent(machine *m, const argument *a) {
    (void)a;
    if (!has(m, 1)) {
        return damaged(m, "too few values");
    }
    uint32_t id = pop(m);
    return push_value(m, (td__pickle_value){.kind = TD__PICKLE_PERSISTENT, .arguments = id});
}

/* ---- The table ------------------------------------------------------------------------------- */

/* How an argument is written. */
typedef enum form {
    PLAIN = 0,
    BYTE = 1, /* whole numbers of this many bytes, little-endian */
    SHORT = 2,
    WORD = 4,
    LONG = 8,
    LINE, /* a text up to the line's end */
    TWO_LINES,
    COUNTED_1, /* a text behind its length, which takes this many bytes */
    COUNTED_4,
    COUNTED_8
} form;

typedef struct operation {
    instruction *run;
    form form;
    unsigned fixed; /* a number that the instruction says by itself */
} operation;

static const operation operations[256] = {
    ['('] = {mark, PLAIN, 0},
    ['.'] = {stop, PLAIN, 0},
    ['0'] = {drop_top, PLAIN, 0},
    ['1'] = {drop_marked, PLAIN, 0},
    ['2'] = {double_top, PLAIN, 0},
    ['F'] = {push_float_text, LINE, 0},
    ['I'] = {push_decimal, LINE, 0},
    ['J'] = {push_signed, WORD, 0},
    ['K'] = {push_number, BYTE, 0},
    ['L'] = {push_decimal, LINE, 0},
    ['M'] = {push_number, SHORT, 0},
    ['N'] = {push_none, PLAIN, 0},
    ['Q'] = {persistent, PLAIN, 0},
    ['R'] = {call, PLAIN, 0},
    ['S'] = {push_quoted, LINE, 0},
    ['T'] = {push_text, COUNTED_4, 0},
    ['U'] = {push_text, COUNTED_1, 0},
    ['V'] = {push_text, LINE, 0},
    ['X'] = {push_text, COUNTED_4, 0},
    ['a'] = {append_one, PLAIN, 0},
    ['b'] = {build, PLAIN, 0},
    ['c'] = {push_name, TWO_LINES, 0},
    ['d'] = {marked_dict, PLAIN, 0},
    ['}'] = {empty_dict, PLAIN, 0},
    ['e'] = {append_marked, PLAIN, 0},
    ['g'] = {memo_get_text, LINE, 0},
    ['h'] = {memo_get, BYTE, 0},
    ['j'] = {memo_get, WORD, 0},
    ['l'] = {marked_list, PLAIN, 0},
    [']'] = {tuple_of, PLAIN, 0},
    ['p'] = {memo_put_text, LINE, 0},
    ['q'] = {memo_put, BYTE, 0},
    ['r'] = {memo_put, WORD, 0},
    ['s'] = {set_one, PLAIN, 0},
    ['t'] = {marked_list, PLAIN, 0},
    [')'] = {tuple_of, PLAIN, 0},
    ['u'] = {set_marked, PLAIN, 0},
    ['G'] = {push_real, LONG, 0},
    ['B'] = {push_text, COUNTED_4, 0},
    ['C'] = {push_text, COUNTED_1, 0},
    [0x80] = {do_nothing, BYTE, 0}, /* the protocol */
    [0x81] = {call, PLAIN, 0},
    [0x85] = {tuple_of, PLAIN, 1},
    [0x86] = {tuple_of, PLAIN, 2},
    [0x87] = {tuple_of, PLAIN, 3},
    [0x88] = {push_bool, PLAIN, 1},
    [0x89] = {push_bool, PLAIN, 0},
    [0x8a] = {push_long, COUNTED_1, 0},
    [0x8b] = {push_long, COUNTED_4, 0},
    [0x8c] = {push_text, COUNTED_1, 0},
    [0x8d] = {push_text, COUNTED_8, 0},
    [0x8e] = {push_text, COUNTED_8, 0},
    [0x8f] = {tuple_of, PLAIN, 0}, /* a set */
    [0x90] = {append_marked, PLAIN, 0},
    [0x91] = {marked_list, PLAIN, 0},
    [0x92] = {call_with_words, PLAIN, 0},
    [0x93] = {name_from_stack, PLAIN, 0},
    [0x94] = {memoize, PLAIN, 0},
    [0x95] = {do_nothing, LONG, 0}, /* a frame */
    [0x96] = {push_text, COUNTED_8, 0},
};

static bool read_number(machine *m, size_t bytes, uint64_t *number) {
    if ((size_t)(m->end - m->at) < bytes) {
        return false;
    }
    *number = 0;
    for (size_t i = bytes; i-- > 0;) {
        *number = *number << 8 | m->at[i];
    }
    m->at += bytes;
    return true;
}

static bool read_line(machine *m, const char **text, size_t *length) {
    const uint8_t *end = memchr(m->at, '\n', (size_t)(m->end - m->at));
    if (!end) {
        return false;
    }
    *text = (const char *)m->at;
    *length = (size_t)(end - m->at);
    m->at = end + 1;
    return *length < UINT32_MAX;
}

static bool read_counted(machine *m, size_t bytes, argument *a) {
    uint64_t length;
    if (!read_number(m, bytes, &length) || length > (uint64_t)(m->end - m->at) ||
        length >= UINT32_MAX) {
        return false;
    }
    a->text = (const char *)m->at;
    a->length = (size_t)length;
    m->at += length;
    return true;
}

static bool read_argument(machine *m, form written, argument *a) {
    switch (written) {
    case PLAIN:
        return true;
    case BYTE:
    case SHORT:
    case WORD:
    case LONG:
        return read_number(m, (size_t)written, &a->number);
    case LINE:
        return read_line(m, &a->text, &a->length);
    case TWO_LINES:
        return read_line(m, &a->text, &a->length) && read_line(m, &a->second, &a->second_length);
    case COUNTED_1:
        return read_counted(m, 1, a);
    case COUNTED_4:
        return read_counted(m, 4, a);
    case COUNTED_8:
        return read_counted(m, 8, a);
    }
    return false;
}

td_status td__pickle_read(td__pickle *pickle, const void *bytes, size_t size, const char *origin,
                          td_error *error) {
    const uint8_t *start = bytes;
    machine m = {.made = pickle,
                 .start = start,
                 .at = start,
                 .end = size ? start + size : start,
                 .origin = origin,
                 .error = error};
    *pickle = (td__pickle){0};
    td_status status = TD_OK;
    while (!status && !m.stopped) {
        if (m.at == m.end) {
            status = damaged(&m, "it is cut short");
            break;
        }
        unsigned code = *m.at++;
        const operation *todo = &operations[code];
        argument a = {.number = todo->fixed};
        if (!todo->run) {
            status = td_error_set(error, TD_UNSUPPORTED,
                                  "%s: a pickle with instruction 0x%02x at byte %zu, which "
                                  "torch.save does not write",
                                  origin, code, (size_t)(m.at - m.start) - 1);
        } else if (!read_argument(&m, todo->form, &a)) {
            status = damaged(&m, "it is cut short");
        } else {
            status = todo->run(&m, &a);
        }
    }
    pickle->size = (size_t)(m.at - m.start);
    td__free(m.stack);
    td__free(m.marks);
    td__free(m.memo);
    return status;
}

void td__pickle_release(td__pickle *pickle) {
    for (size_t i = 0; i < pickle->count; i++) {
        td__free(pickle->values[i].items);
    }
    td__free(pickle->values);
    *pickle = (td__pickle){0};
}

bool td__pickle_is(const td__pickle_value *value, const char *text) {
    return value->kind == TD__PICKLE_TEXT && value->length == strlen(text) &&
           !memcmp(value->text, text, value->length);
}
