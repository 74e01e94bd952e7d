/* Globs over signal names: * any run of bytes (dots included), ? one byte, [a-z] or [!a-z] one of a
 * set; \ takes the next byte as it is. Bytes, not characters: names may be anything. */
#ifndef TAPEDECK_DECK_GLOB_H
#define TAPEDECK_DECK_GLOB_H

#include "tapedeck/base.h"

bool td__glob_match(const char *pattern, const char *name);
/* Whether the pattern matches the name and names its last word: "*.moment1" and "conv1.*.mom*" do so for
 * "conv1.kernel.moment1"; "*", "conv1.*" and "conv*" do not. For signals of the kind TD_SIGNAL_DERIVED. */
bool td__glob_match_named(const char *pattern, const char *name);
/* td__glob_match, or for what is derived td__glob_match_named. */
bool td__glob_match_signal(const char *pattern, const char *name, bool derived);
/* Whether the pattern means SOURCE.WORD, where source is a signal (derived: of that kind itself). */
bool td__glob_derives(const char *pattern, const char *source, bool derived, const char *word);
/* The last dot of a pattern or name, without those that a \ precedes; NULL: none. */
const char *td__glob_last_dot(const char *pattern);
/* Whether the pattern can match more than one name. */
bool td__glob_is_pattern(const char *pattern);
/* Takes the \ out of a pattern that is a plain name, in place. */
void td__glob_unescape(char *pattern);

/* Splits "a, b.*, c\,d" at commas; blanks around items are dropped, escapes are kept. Returns
 * count copied items in one block that td__free releases, or NULL when memory is exhausted. */
char **td__glob_split(const char *list, size_t *count);

#endif
