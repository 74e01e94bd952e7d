/* Status codes, error texts and what every other header needs.
 *
 * Functions that can fail return a td_status (0 is success) or a pointer (NULL is failure). Both
 * take an optional td_error, owned by the caller, which receives the status and one sentence that
 * says what was wrong, where, and what to do. On failure outputs are untouched.
 */
#ifndef TAPEDECK_BASE_H
#define TAPEDECK_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tapedeck/literal.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TD_API __attribute__((visibility("default")))
#define TD_NODISCARD __attribute__((warn_unused_result))
#define TD_PRINTF(text, arguments) __attribute__((format(printf, text, arguments)))
#else
#define TD_API
#define TD_NODISCARD
#define TD_PRINTF(text, arguments)
#endif

/* Values are part of the binary interface: only ever append. */
#define TD_STATUS_LIST(X)                                                                          \
    X(OK, "ok")                                                                                    \
    X(INVALID, "invalid argument")                                                                 \
    X(BAD_SHAPE, "shapes do not fit")                                                              \
    X(DTYPE, "wrong element type")                                                                 \
    X(NOT_FOUND, "not found")                                                                      \
    X(EXISTS, "already exists")                                                                    \
    X(MEMORY, "out of memory")                                                                     \
    X(IO, "input/output error")                                                                    \
    X(FORMAT, "malformed file")                                                                    \
    X(UNSUPPORTED, "not supported")                                                                \
    X(RANGE, "out of range")                                                                       \
    X(BUSY, "in use")                                                                              \
    X(STATE, "not possible now")                                                                   \
    X(INTERRUPTED, "interrupted")                                                                  \
    X(INCOMPLETE, "done, but not all of it was recorded")                                          \
    X(NO_MODEL, "weights alone, no model")

typedef enum td_status {
#define TD_STATUS_MEMBER(name, text) TD_##name,
    TD_STATUS_LIST(TD_STATUS_MEMBER)
#undef TD_STATUS_MEMBER
} td_status;

#define TD_ERROR_TEXT_SIZE 1024

/* Owned by the caller; initialise with {0}. */
typedef struct td_error {
    td_status status;
    char text[TD_ERROR_TEXT_SIZE];
} td_error;

/* The status's short English text, never NULL. */
TD_API const char *td_status_text(td_status status);

/* Fills error (may be NULL) and returns status, so that `return td_error_set(error, …)` works.
 * A text longer than the buffer is cut and ends in "…". */
TD_API td_status td_error_set(td_error *error, td_status status, const char *format, ...)
    TD_PRINTF(3, 4);

/* Text of others as a terminal may show it: control characters (with lines: but for line ends and
 * tabs), characters that turn the direction of writing or end a line, and bytes that are no UTF-8
 * become \x1b, \u202e, …. out has room for TD_VISIBLE_SIZE(length); how many bytes were written, a
 * 0 behind them not counted. */
#define TD_VISIBLE_SIZE(length) (4 * (length) + 1)
TD_API size_t td_visible(char *out, const char *text, size_t length, bool lines);

/* The candidate that word was most likely meant to be: the fewest letters inserted, left out,
 * replaced or swapped with their neighbour, the first of equals, ignoring case. NULL when none is
 * near enough (a third of the letters at most) to be worth suggesting. */
TD_API const char *td_nearest_word(const char *word, const char *const *candidates, size_t count);

/* A size in bytes as people write it, in any case: 2000, 50MB, 50 MB and kB, GB, TB in powers of
 * 1000; 64 KiB, MiB, GiB, TiB, and for short K, M, G, T, in powers of 1024. False, with bytes
 * untouched, for anything else and for less than 1 or 2^62 and more. */
TD_API bool td_parse_bytes(const char *text, int64_t *bytes);

/* Removes the password from the URL of a database (postgresql://…) in text, in place, and keeps
 * it for connecting until the process ends. Returns true when something was removed. */
TD_API bool td_url_hide_password(char *text);

/* "MAJOR.MINOR.PATCH" of the library that is running. */
TD_API const char *td_version(void);

#ifdef __cplusplus
}
#endif
#endif
