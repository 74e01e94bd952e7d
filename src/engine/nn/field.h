/* Structs described by tables of their fields, so that one piece of code fills in defaults, reads
 * keys and values, checks ranges and writes keys and values back: for layers, losses, optimizers and
 * schedules, and for the sections of an experiment file. */
#ifndef TAPEDECK_NN_FIELD_H
#define TAPEDECK_NN_FIELD_H

#include "base/words.h"
#include "tapedeck/nn.h"

typedef enum td__field_type {
    TD__FIELD_INTEGER,    /* int64_t */
    TD__FIELD_PAIR,       /* int64_t[2]; a second of 0 is as the first */
    TD__FIELD_TRIPLE,     /* int64_t[3]; a second and third of 0 are as the first */
    TD__FIELD_NUMBER,     /* double */
    TD__FIELD_SHARE,      /* double: 0.05 or 5% */
    TD__FIELD_BYTES,      /* int64_t, more than 0: 1000, 64 KiB, 256 MiB, 1 GiB */
    TD__FIELD_BOOL,       /* bool */
    TD__FIELD_NOT,        /* bool; the key says the opposite */
    TD__FIELD_WORD,       /* an enumeration */
    TD__FIELD_TEXT,       /* const char *, borrowed */
    TD__FIELD_TEXTS,      /* const char *[TD_MAX_FROM], ending in NULL unless full, borrowed */
    TD__FIELD_SHAPE,      /* td_shape */
    TD__FIELD_NUMBERS,    /* double[room] */
    TD__FIELD_INITIALIZER /* td_initializer; by_default is its kind */
} td__field_type;

#define TD__FIELD_MANY 1e15 /* a maximum that means: none */

typedef struct td__field {
    const char *key;
    const char *alias; /* another key that is understood, or NULL */
    td__field_type type;
    size_t offset;
    double by_default;      /* the default */
    double minimum;         /* of all that is a number */
    double maximum;         /* likewise; 0: none, of integers and pairs 2^31 - 1 */
    const td__words *words; /* WORD */
    size_t count_offset;    /* NUMBERS: of an int64_t with how many are used */
    size_t room;            /* NUMBERS: how many fit */
    bool number;            /* its storage is a td_number, or as many as the field is wide */
    bool no_default;        /* number: stays unset when it is left out */
    bool quiet;             /* not written back when it is zero or unset */
} td__field;

/* A row of a table of fields: for a member, under its own name or another. More members of the row may
 * follow: TD__FIELD(INTEGER, td_dense_layer, units, .minimum = 1). */
#define TD__FIELD_CALLED(kind, struct_type, member, key_, ...)                                     \
    {                                                                                              \
        .key = (key_), .type = TD__FIELD_##kind, .offset = offsetof(struct_type, member),          \
        __VA_ARGS__                                                                                \
    }
#define TD__FIELD(kind, struct_type, member, ...)                                                  \
    TD__FIELD_CALLED(kind, struct_type, member, #member, __VA_ARGS__)

extern const td__words td__activation_words, td__initializer_words, td__padding_words,
    td__interpolation_words, td__merge_mode_words;

/* The four that a field with an initialiser needs (initializer.c). */
void td__initializer_fill(td_initializer *initializer, td_initializer_kind by_default, bool always);
/* From a word or a choice. */
td_status td__initializer_set(td_initializer *initializer, const td_value *value, td_error *error);
td_status td__initializer_check(const td_initializer *initializer, td_error *error);
/* A word when all its options are the defaults; otherwise a choice with its settings at room. */
enum { TD__INITIALIZER_MAX_SETTINGS = 4 };
td_value td__initializer_value(const td_initializer *initializer,
                               td_setting room[TD__INITIALIZER_MAX_SETTINGS]);

/* The options of a kind; NULL, 0 when it has none. */
const td__field *td__initializer_fields(td_initializer_kind kind, size_t *count);

/* The options of a loss; returns how many. */
enum { TD__LOSS_MAX_FIELDS = 8 };
size_t td__loss_fields(td_loss loss, const td__field *of_loss[TD__LOSS_MAX_FIELDS]);
/* Tensors of a parameter's size that an optimizer keeps for each of them. */
size_t td__optimizer_states(const td_optimizer_options *options);
const td__field *td__optimizer_fields(td_optimizer_kind kind, size_t *count);

/* Gives each field its default: where it is left out, or everywhere. */
void td__fields_fill(const td__field *fields, size_t count, void *options, bool everywhere);
/* NULL when there is none of that key. */
const td_setting *td__setting_find(const td_setting *settings, size_t count, const char *key);
bool td__values_equal(const td_value *a, const td_value *b);
/* How many integers a field of them has. */
size_t td__field_width(const td__field *field);
/* The i-th number of a field of integers, a number or a word, whatever its storage. */
double td__field_number(const td__field *field, const void *options, size_t i);
void td__field_set_number(const td__field *field, void *options, size_t i, double value);
/* Whether one of the fields has this key, or understands it. */
bool td__fields_have(const td__field *fields, size_t count, const char *key);
/* The field with this key; NULL, and the error, which names the nearest, when there is none. */
const td__field *td__field_find(const td__field *fields, size_t count, const char *key,
                                const char *where, td_error *error);
/* Sets one field. When the value is none for it, the error says "must be a whole number, not 'ten'",
 * or, with TD_NOT_FOUND, "there is no activation 'rleu'; did you mean 'relu'?". */
td_status td__field_set(const td__field *field, void *options, const td_value *value,
                        td_error *error);
/* Sets fields from keys and values. */
td_status td__fields_set(const td__field *fields, size_t count, void *options,
                         const td_setting *settings, size_t setting_count, const char *where,
                         td_error *error);
/* Whether the field is in its range. */
td_status td__field_check(const td__field *field, const void *options, td_error *error);
/* Fills error with what these two say, the field's name in front. */
td_status td__field_explain(const td__field *field, const char *where, const td_error *reason,
                            td_error *error);
/* Reports the first field that was not given but must be, is out of its range, or no word. */
td_status td__fields_check(const td__field *fields, size_t count, const void *options,
                           const char *where, td_error *error);
/* The value of a field; lists of numbers are put at numbers (NULL for fields that are none). */
td_value td__field_value(const td__field *field, const void *options, double *numbers);
/* Keys and values with their storage in one block, freed by td__free(*settings); texts are
 * borrowed from options. */
td_status td__fields_write(const td__field *fields, size_t count, const void *options,
                           td_setting **settings, size_t *setting_count, td_error *error);

#endif
