/* What a run was made with: command, folder, machine, source code, and what the machine does meanwhile. */
#ifndef TAPEDECK_DECK_ENVIRONMENT_H
#define TAPEDECK_DECK_ENVIRONMENT_H

#include "tapedeck/deck.h"

#include <sys/types.h>

/* False when the variable TAPEDECK_ENVIRONMENT is "off": nothing of this is recorded. */
bool td__environment_wanted(void);

typedef void td__fact_function(void *user, const char *key, const char *value);
/* Facts that cost a few small files: environment.command, .folder, .host, .user, .system, .processors,
 * .memory, .git.commit, .git.branch, and .variable.NAME of an allow-list. No process is started. */
void td__environment_facts(td__fact_function *each, void *user);

/* Puts '*' in place of what a name such as password, api_key or token says is a secret: in a text, and in the
 * words of a command line, each ended by a zero. */
void td__hide_in_text(char *text);
void td__hide_in_words(char *words, size_t length);

/* The commit that is checked out in the folder or one above it, and the branch ("" when HEAD is detached).
 * False when there is no repository. */
enum { TD__GIT_TEXT = 256 };
bool td__git_head(const char *folder, char commit[TD__GIT_TEXT], char branch[TD__GIT_TEXT]);

/* ---- Changes that are not committed (git_diff.c) -------------------------------------------- */

/* `git diff HEAD` of the working folder, by a child process that is never waited for. Zero is none. */
typedef struct td__git_diff {
    pid_t process; /* 0: none runs */
    int pipe;
    char *text; /* what came so far */
    size_t length, limit;
    double until; /* td__seconds */
    bool complete;
} td__git_diff;

/* Starts it, for up to limit bytes; where that is not possible, there is no diff. */
void td__git_diff_start(td__git_diff *diff, size_t limit);
/* Takes what has come. True once: it has ended, and the text (ended by a zero) can be used. */
bool td__git_diff_poll(td__git_diff *diff);
void td__git_diff_release(td__git_diff *diff);

/* ---- What the machine does (system.c, gpu.c) ------------------------------------------------ */

enum { TD__GPUS = 16, TD__SYSTEM_VALUES = 16 + 4 * TD__GPUS, TD__SYSTEM_NAME = 48 };

typedef struct td__system_value {
    char name[TD__SYSTEM_NAME]; /* "system.cpu" */
    double value;
} td__system_value;

/* Counts that only go up, of which rates are made. */
typedef struct td__system_counts {
    double seconds;
    double busy, all; /* of the processors, in ticks */
    double process;   /* seconds of processor time */
    double read, written;
    double received, sent;
} td__system_counts;

typedef struct td__gpus td__gpus;

typedef struct td__system {
    const char *root; /* "/proc" */
    int folder;       /* the run's, of whose disk the room is; -1: none */
    td__system_counts before;
    td__gpus *gpus;
} td__system;

void td__system_init(td__system *system, const char *root, int folder);
/* Reads all there is; rates since the last call. Returns the number of values. */
size_t td__system_read(td__system *system, td__system_value values[TD__SYSTEM_VALUES]);
void td__system_release(td__system *system);

/* NULL where there is no driver. */
td__gpus *td__gpus_open(void);
/* load and memory in percent, power in watts, temperature in degrees Celsius. */
size_t td__gpus_read(const td__gpus *gpus, td__system_value values[4 * TD__GPUS]);
void td__gpus_close(td__gpus *gpus);

#endif
