/* Reads a YAML tree into structs by tables of fields, and collects every problem it meets.
 *
 * A field that is absent and has a fallback is added to the document and read like any other, so
 * that the document written back says everything that was in effect. Texts that end up in structs
 * belong to the document.
 */
#ifndef TAPEDECK_EXPERIMENT_CHECK_H
#define TAPEDECK_EXPERIMENT_CHECK_H

#include "experiment/yaml.h"
#include "tapedeck/data.h"

typedef struct td__checker {
    td__yaml *yaml;
    const char *folder; /* that relative paths start from; "" or ends in '/' */
    void (*problem)(void *user, const char *text); /* may be NULL */
    void *user;
    size_t problems;
    td_error first;      /* the first problem */
    char path[512];      /* of the node being read: "train.optimizer" */
    td_status exhausted; /* TD_MEMORY when memory ran out; what was read is then incomplete */
} td__checker;

typedef enum td__map_field_kind {
    TD__TEXT,   /* const char * */
    TD__PATH,   /* const char *: relative to the file, must exist; absolute in the document */
    TD__BOOL,   /* bool */
    TD__INT,    /* int64_t */
    TD__SEED,   /* uint64_t */
    TD__NUMBER, /* double */
    TD__FLOAT,  /* float */
    TD__SHARE,  /* double: 0.05 or 5% */
    TD__BYTES,  /* int64_t: 1000, 64 KiB, 256 MiB, 1 GiB */
    TD__SHAPE,  /* td_shape: 8 or [8, 8, 1] */
    TD__PAIR,   /* int64_t[2]: 3 is [3, 3] */
    TD__NAMES,  /* td_names: a word or a list of them */
    TD__WORD,   /* int: the index in .words */
    TD__CUSTOM, /* .read does it */
} td__map_field_kind;

typedef struct td__map_field {
    const char *key;
    td__map_field_kind kind;
    size_t offset; /* of the member in the struct */
    /* Of INT, NUMBER, FLOAT, SHARE and each of SHAPE, PAIR; both 0: any. Of BYTES the minimum. */
    double minimum, maximum;
    const char *fallback;     /* as YAML has it; NULL: the member is left alone */
    const char *const *words; /* of WORD; ends in NULL */
    void (*read)(td__checker *checker, td__yaml_node *node, void *member);
    bool required;
} td__map_field;

/* Reads node, which should be a map (or nothing: all fallbacks), into the struct at into. */
void td__check_map(td__checker *checker, td__yaml_node *node, const td__map_field *fields,
                   size_t count, void *into);
/* One value. */
void td__check_field(td__checker *checker, td__yaml_node *node, const td__map_field *field,
                     void *into);

/* Reports a problem with node: "FILE:LINE: PATH: " and the text. */
void td__problem(td__checker *checker, const td__yaml_node *node, const char *format, ...)
    TD_PRINTF(3, 4);
/* Reports that word is none of words (until NULL), with the nearest: "PATH: no loss 'msee'; did you
 * mean 'mse'?", or all of them when none is near. */
void td__problem_word(td__checker *checker, const td__yaml_node *node, const char *noun,
                      const char *word, const char *const *words);

/* Enters a part of the path while its value is read; leave with what enter returned. */
size_t td__path_enter(td__checker *checker, const char *part);
size_t td__path_enter_index(td__checker *checker, size_t index);
void td__path_leave(td__checker *checker, size_t mark);

/* A choice is NAME, or {NAME: {FIELD: …}}: an optimizer, a schedule, a generator, a layer. Sets
 * name and the map of its fields (may be a null scalar; NULL for a bare NAME). False, with the
 * problem reported, when node is neither. */
bool td__check_choice(td__checker *checker, const td__yaml_node *node, const char *noun,
                      const td__yaml_node **name, td__yaml_node **fields);
/* A null for a bare NAME's fields becomes an empty map in the document, so that fallbacks can be
 * put there. NULL when memory is exhausted. */
td__yaml_node *td__choice_fields(td__checker *checker, td__yaml_node *choice);

/* Numbers as YAML has them; false when text is none. */
bool td__text_int(const char *text, int64_t *value);
bool td__text_number(const char *text, double *value);

/* Memory that lives as long as the document; NULL (and checker->exhausted) when there is none. */
void *td__check_alloc(td__checker *checker, size_t count, size_t size);

#endif
