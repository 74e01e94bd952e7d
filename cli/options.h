/* Options of a command: --name VALUE, --name=VALUE, and flags; everything else is an operand. */
#ifndef TAPEDECK_CLI_OPTIONS_H
#define TAPEDECK_CLI_OPTIONS_H

#include "command.h"

#include "tapedeck/apply.h"
#include "tapedeck/data.h"

#include <stdbool.h>

enum { MAX_VALUES = 64, MAX_OPTIONS = 40 };

/* A text option may be given several times where it has a list. */
typedef struct option {
    const char *name;  /* without the dashes */
    bool *flag;        /* set to true; or */
    const char **text; /* the value; or */
    const char **list; /* up to MAX_VALUES values */
    size_t *list_count;
    const char *help; /* only of those that every command has: its line of help */
} option;

/* Takes the options out of arguments, those of every command too (--to, --force, --quiet, as far as its table has none of
 * that name), and leaves count operands at its start; true when that went
 * well. Otherwise the mistake has been printed. "--" ends the options. A command calls it first of all.
 */
bool parse_options(const command *cmd, const option *own, size_t own_count, int *count,
                   char **arguments);

/* From now on parse_options hands its table to the visitor and fails, so that running a command with
 * it only lists its options; NULL ends that. */
typedef void option_visitor(const command *cmd, const option *options, size_t count);
void visit_options(option_visitor *visitor);
/* A command's help, with the lines of what every command has in front of its examples. */
void print_command_help(const command *cmd, void (*print)(const char *text));

/* EXIT_GOOD when a command may write to path: nothing is there, or what may be replaced. Otherwise the
 * mistake has been printed. */
int check_free(const char *path, bool replace);
/* EXIT_GOOD unless path is one of the files that the command reads: it may not be replaced by what is
 * made of it. Names may be NULL. */
int check_not_read(const char *path, const char *const *read, size_t count, bool force);
/* EXIT_GOOD unless the folder that runs go into is "-", standard output, which holds none. NULL is the default. */
int check_folder(const command *cmd, const char *path);
/* "s" unless there is one: printf("%lld step%s", n, plural(n)). */
const char *plural(int64_t count);
/* A number of at least 1; false when text is none. */
bool whole_number(const char *text, int64_t *number);
/* A finite number that is not 0; false when text is none. */
bool plain_number(const char *text, double *number);
/* true or false (yes, no); false when text is neither. */
bool header_word(const char *text, td_header *header);
/* channels_first or channels_last; false when text is neither. */
bool layout_word(const char *text, td_layout *layout);
/* Whether each word of "csv,png" is a sink; otherwise --to names a file or folder. */
bool are_sinks(const char *text);
/* "NAME=FILE" of each text, which is changed; misuse's answer, or EXIT_GOOD. */
int split_pairs(const command *cmd, const char *key, size_t count, const char **texts,
                td_named_file *pairs);

#endif
