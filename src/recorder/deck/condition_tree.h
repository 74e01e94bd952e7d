/* What the parser makes of a condition and the evaluator walks. */
#ifndef TAPEDECK_DECK_CONDITION_TREE_H
#define TAPEDECK_DECK_CONDITION_TREE_H

#include "deck/condition.h"

typedef enum node_kind {
    NODE_NUMBER,
    NODE_STEP,
    NODE_EPOCH,
    NODE_SIGNAL,
    NODE_NAN,
    NODE_INF,
    NODE_MEAN,
    NODE_DELTA,
    NODE_ABS,
    NODE_MIN,
    NODE_MAX,
    NODE_NEGATE,
    NODE_NOT,
    NODE_AND,
    NODE_OR,
    NODE_LESS,
    NODE_LESS_EQUAL,
    NODE_GREATER,
    NODE_GREATER_EQUAL,
    NODE_EQUAL,
    NODE_NOT_EQUAL,
    NODE_ADD,
    NODE_SUBTRACT,
    NODE_MULTIPLY,
    NODE_DIVIDE,
} node_kind;

enum { NO_NODE = -1, NO_STAT = -1 };

typedef struct node {
    node_kind kind;
    int32_t left, right; /* nodes, or NO_NODE; always smaller than the node's own index */
    int32_t operand;     /* SIGNAL, NAN, INF: which */
    int32_t over;        /* comparisons, and MIN and MAX of one glob: the operand to walk, or -1 */
    double number;       /* NUMBER */
    double *window;      /* MEAN: the last values; owned */
    int64_t size;        /* MEAN: room in window */
    int64_t filled;      /* MEAN, DELTA: values taken so far */
    double sum;          /* MEAN: of the window */
    double before, last; /* DELTA */
    double total;        /* NAN, INF: of all steps, where the condition keeps totals */
    const td_signal *first; /* NAN, INF: the signal that had one first, and its step */
    int64_t first_step;
    size_t begin, end; /* a term that and, or and not join: its place in the text; else both 0 */
} node;

/* A signal that an operand means: its scalar value, or a statistic of its tensor. */
typedef struct match {
    const td_signal *signal;
    bool scalar;
} match;

typedef struct operand {
    char *pattern;     /* as written, the statistic included */
    size_t place;      /* where it stands in the text */
    size_t stem;       /* length of the pattern without ".STAT" */
    int32_t statistic; /* index into td__statistics, or NO_STAT */
    bool glob;
    bool whole; /* of nan() and inf(): the argument is the tensor itself */
    match *matches;
    size_t match_count, match_capacity;
} operand;

struct td__condition {
    char *text;
    node *nodes; /* children before parents; the last is the root */
    size_t node_count, node_capacity;
    operand *operands;
    size_t operand_count, operand_capacity;
    bool keeps_totals;
};

typedef struct statistic {
    const char *name;
    double (*value)(const td_stats *stats);
} statistic;
extern const statistic td__statistics[];
extern const int32_t td__statistic_count;

/* Fills error: the message, the text around the place on a line of its own, a caret below it. */
td_status td__condition_fail(const char *text, const char *at, td_status status,
                             const char *message, td_error *error);
/* What a node is at that moment. */
double td__condition_value(const td__condition *condition, int32_t index, const td__moment *now);
/* What one signal of an operand is. */
double td__match_value(const operand *o, const match *m);
/* Whether the first length bytes of the operand's pattern match the signal's name. */
bool td__operand_matches(operand *o, size_t length, const char *name, bool derived);

#endif
