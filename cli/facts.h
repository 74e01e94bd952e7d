/* What is known of a run, as pairs of a key and a text: what `tapedeck runs` takes its columns, filters and order
 * from. Keys are "name", "state", "epoch", …; a metric's name, with ".best" and ".best_step"; notes ("tags"); and
 * settings ("train.epochs"). */
#ifndef TAPEDECK_CLI_FACTS_H
#define TAPEDECK_CLI_FACTS_H

#include "command.h"

#include "tapedeck/run.h"

typedef struct fact {
    char *key, *value;
    bool setting; /* of the training's settings */
} fact;

typedef struct facts {
    fact *items;
    size_t count, capacity;
} facts;

/* A copy; ends the program where memory ends. */
char *copy_text(const char *text);
/* Both texts are copied. A key that is there already stays as it is. */
void facts_add(facts *all, const char *key, const char *value);
void facts_release(facts *all);
/* NULL: there is none. */
const char *facts_get(const facts *all, const char *key);
td_status facts_collect(facts *all, const td_run_summary *summary, td_error *error);
/* Whether the text is a number, and nothing else. */
bool text_number(const char *text, double *number);

/* Whether KEY=TEXT (a glob; one of several texts that are separated by commas will do), or KEY < NUMBER and its
 * relatives, holds. 1 or 0; -1: it is neither, or there is no such key. */
int facts_match(const facts *all, const char *expression);
/* Whether the expression is KEY=TEXT, which no condition over recorded values is. */
bool facts_named(const char *expression);

/* Those that are equal in all settings but `varying` (globs), as one: how many they are ("runs"), numbers as
 * "mean ± standard deviation", texts that are not equal left out. */
facts facts_merge(const facts *const *group, size_t count, const char *varying);
bool facts_alike(const facts *a, const facts *b, const char *varying);

/* The keys of the union that a list of globs names, in the order of the list; "differing" is all settings that are
 * not the same in all runs. NULL, after printing why, when one of them names nothing. The array is the caller's. */
const char **choose_columns(const command *cmd, const char *list, const facts *runs, size_t count,
                            size_t *column_count);
/* A line for each of the runs, below a header. */
void print_csv(const facts *runs, size_t count, const char *const *columns, size_t column_count);
void print_columns(const facts *runs, size_t count, const char *const *columns,
                   size_t column_count);

#endif
