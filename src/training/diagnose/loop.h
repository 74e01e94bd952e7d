/* What the program that trained did, step by step: facts that the Python package records of a loop (the
 * note `loop`, a JSON object; docs/python.md has its members). A run of an experiment has none. */
#ifndef TAPEDECK_DIAGNOSE_LOOP_H
#define TAPEDECK_DIAGNOSE_LOOP_H

#include "diagnose/rule.h"

/* Reads the facts of the case's run. Notes what cannot be read. */
void td__loop_read(td__case *c);
void td__loop_release(td__case *c);

/* Updates that were seen; 0: nothing is known of the loop. */
int64_t td__loop_updates(const td__case *c);
/* Whether the fact was seen at all. */
bool td__loop_has(const td__case *c, const char *fact);
/* Whether the program ended with an error that has this text; "": with any. */
bool td__loop_failed(const td__case *c, const char *text);
bool td__loop_has_member(const td__case *c, const char *fact, const char *member);
/* A number of a fact: ("clipping", "limit"). member NULL: the fact is a number itself. 0: none. */
double td__loop_number(const td__case *c, const char *fact, const char *member);
bool td__loop_is(const td__case *c, const char *fact, const char *member);
/* Never NULL: "" where there is none. */
const char *td__loop_text(const td__case *c, const char *fact, const char *member);
/* A list of names as a text: "a, b, c and 4 others"; pairs of names as "a and b". */
const char *td__loop_names(td__case *c, const char *fact, const char *member);
/* The layer that the loss is computed from. NULL: not known. */
const char *td__loop_head_layer(td__case *c);
/* "outputs of (8, 1) give a loss of (8, 8)"; NULL: nothing is broadcast. */
const char *td__loop_shapes(td__case *c);
/* "(8, 20, 5) is reshaped to (20, 8, 5)"; "" when nothing is. */
const char *td__loop_reshaped(td__case *c);
/* The share by which the loss fell from its beginning to its end; NaN: too few points. */
double td__loop_fall(const td__case *c);
/* Whether the loss falls at the end about as fast as at the beginning: a training that has hardly
 * begun. */
bool td__loop_falls_on(const td__case *c);
/* Whether the loss ends above where it began. */
bool td__loop_ends_above(const td__case *c);
/* Whether the network knew its task when training began, or does at its end: nothing is left to
 * fall. */
bool td__loop_knows(const td__case *c);
/* Whether a loss that is written by hand ends where choosing by chance has it, of as many as its logsumexp compares. */
bool td__loop_chooses_by_chance(const td__case *c);
/* Whether the first loss is far below that of a guess, of the shares of the classes, or of the mean of the targets. */
bool td__loop_starts_trained(const td__case *c);
/* Whether a cross-entropy ends where a guess among the classes has it. */
bool td__loop_guesses(const td__case *c);
/* Whether classes have other names from episode to episode. */
bool td__loop_has_episodes(const td__case *c);
/* Whether losses need not fall: several optimizers take turns, as of a generator and its
 * adversary, something else sets weights between updates, as Reptile does, or there are
 * episodes. */
bool td__loop_is_adversarial(const td__case *c);
/* The layer of the first of these names, which are parameters: "conv1" of "conv1.weight". NULL:
 * none. */
const char *td__loop_layer(td__case *c, const char *fact);

/* What the ranks of a run recorded (FOLDER/rank-00001, …) of a fact that has a fingerprint for
 * each of some steps. */
typedef struct td__ranks {
    int64_t common; /* fingerprints of other ranks that were compared with those of rank 0 */
    int64_t parted; /* the first step in which one differs; 0: none does */
    int rank;       /* of that one */
    /* Fingerprints of the first two ranks that have all, at least two, in common; 0: none do. */
    int64_t same;
    int pair[2]; /* those ranks */
} td__ranks;
td__ranks td__loop_ranks(const td__case *c, const char *fact);

/* What was not finite before everything else: "input" or "label" of a row, of a batch or of all
 * data. */
void td__loop_nonfinite(td__case *c, const char *what, const char *a, const char *remedy);

/* The operation that made the first number that is not finite, as a sentence; NULL: not known. */
const char *td__loop_operation(td__case *c);
/* Whether that is a quotient, a logarithm or the like: infinite at some number. */
bool td__loop_is_division(const td__case *c);
/* Whether a backward pass made it although its loss was finite: a function whose gradient is
 * infinite somewhere. */
bool td__loop_is_singular(const td__case *c);
/* Where the first loss that is not finite came from, as far as the graph of that loss shows;
 * NULL: not known. */
const td__origin *td__loop_origin(td__case *c);

/* An error in the program: nothing can be tried out, what was seen stands by itself. layer may be NULL.
 * NULL when there are too many. */
td__suspicion *td__loop_error(td__case *c, td_confidence confidence, const char *layer,
                              int64_t since, const char *remedy);

#endif
