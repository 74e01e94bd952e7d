/* Python's pickles, taken apart without running anything: values, and what would have been called
 * with what, as a description.
 *
 * A pickle is a program for a machine with a stack. Here it builds values and nothing else: the name
 * of a function is a value, a call is a value that holds the name and its arguments. What a pickle may
 * make is bounded, whatever it claims.
 */
#ifndef TAPEDECK_TORCH_PICKLE_H
#define TAPEDECK_TORCH_PICKLE_H

#include "tapedeck/base.h"

typedef enum td__pickle_kind {
    TD__PICKLE_NONE,
    TD__PICKLE_BOOL,
    TD__PICKLE_NUMBER,
    TD__PICKLE_REAL,
    TD__PICKLE_TEXT, /* or bytes */
    TD__PICKLE_LIST, /* or a tuple, or a set */
    TD__PICKLE_DICT,
    TD__PICKLE_NAME,       /* of a class or function: text, and the module it is in */
    TD__PICKLE_CALL,       /* of a name; items may have been put into the result */
    TD__PICKLE_PERSISTENT, /* something outside of the pickle, by an id */
    TD__PICKLE_OTHER       /* a number of more than 64 bits */
} td__pickle_kind;

/* Texts are borrowed from the pickle, not ended by 0. Values refer to others by number. */
typedef struct td__pickle_value {
    td__pickle_kind kind;
    union {
        int64_t number; /* BOOL, NUMBER */
        double real;
        struct {
            const char *text; /* TEXT, NAME */
            uint32_t length;
        };
        struct {
            uint32_t called, arguments; /* CALL; PERSISTENT has its id as arguments */
        };
    };
    const char *module; /* NAME */
    uint32_t module_length;
    uint32_t count, capacity; /* LIST: its items; DICT, CALL: keys and values in turns */
    uint32_t *items;
} td__pickle_value;

typedef struct td__pickle {
    td__pickle_value *values;
    size_t count, capacity;
    uint32_t root;
    size_t size; /* bytes of the file that it took */
} td__pickle;

/* Takes the pickle that bytes begin with apart; more may follow it. origin is for messages. What
 * was made is the caller's to release, also on failure. TD_FORMAT, TD_UNSUPPORTED, TD_RANGE when it is
 * too large, TD_MEMORY. */
TD_NODISCARD td_status td__pickle_read(td__pickle *pickle, const void *bytes, size_t size,
                                       const char *origin, td_error *error);
void td__pickle_release(td__pickle *pickle);

/* Whether a value is this text. */
bool td__pickle_is(const td__pickle_value *value, const char *text);

#endif
