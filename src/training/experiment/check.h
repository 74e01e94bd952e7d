/* Reads a YAML tree into structs by tables of keys, and collects every problem it meets.
 *
 * A field that is absent and has a fallback is added to the document and read like any other, so
 * that the document written back says everything that was in effect. Texts that end up in structs
 * belong to the document.
 */
#ifndef TAPEDECK_EXPERIMENT_CHECK_H
#define TAPEDECK_EXPERIMENT_CHECK_H

#include "experiment/yaml.h"
#include "nn/field.h"
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

/* Reads a node into what is at member, and reports what is wrong with it. */
typedef void td__key_reader(td__checker *checker, td__yaml_node *node, void *member);

/* A key of a map: a field, and what a document has of it. */
typedef struct td__key {
    td__field field;
    td__key_reader *read; /* reads what no type of field can: the type is not looked at */
    const char *fallback; /* as YAML has it; NULL: the member is left alone */
    bool required;
    const char *elsewhere; /* there is no such key: where the intended one stands */
} td__key;

/* A key that a field reads; fallback may be NULL. More members of the field may follow. */
#define TD__KEY(kind, struct_type, member, key_, fallback_, ...)                                   \
    {                                                                                              \
        .field = TD__FIELD_CALLED(kind, struct_type, member, key_, __VA_ARGS__),                   \
        .fallback = fallback_                                                                      \
    }

/* Reads node, which should be a map, into the struct at into. */
void td__check_map(td__checker *checker, td__yaml_node *node, const td__key *keys, size_t count,
                   void *into);
td__key_reader
    td__read_path; /* const char *: relative to the file, must exist; absolute in the document */
td__key_reader td__read_names; /* td_names: a word or a list of them */
/* Where the i-th of the names stands. */
const td__yaml_node *td__name_node(const td__yaml_node *node, size_t i);

/* Reports a problem with node: "FILE:LINE: PATH: " and the text. */
void td__problem(td__checker *checker, const td__yaml_node *node, const char *format, ...)
    TD_PRINTF(3, 4);
/* Enters a part of the path while its value is read; leave with what enter returned. */
size_t td__path_enter(td__checker *checker, const char *part);
size_t td__path_enter_index(td__checker *checker, size_t index);
void td__path_leave(td__checker *checker, size_t mark);

/* A choice is NAME, or {NAME: {FIELD: …}}: an optimizer, a schedule, a generator, a layer. Sets
 * name and the map of its fields (may be a null scalar; NULL for a bare NAME). False, with the
 * problem reported, when node is neither. */
bool td__check_choice(td__checker *checker, const td__yaml_node *node, const char *noun,
                      const td__yaml_node **name, td__yaml_node **fields);
/* A scalar or a list as a value; false, with the problem reported, when node is neither. */
bool td__check_value(td__checker *checker, const td__yaml_node *node, td_value *value);
/* Whether a scalar is text: not a number, a truth value or nothing. */
bool td__is_text(const td__yaml_node *node);

/* Numbers as YAML has them; false when text is none. */
bool td__text_int(const char *text, int64_t *value);
bool td__text_number(const char *text, double *value);

/* Memory that lives as long as the document; NULL (and checker->exhausted) when there is none. */
void *td__check_alloc(td__checker *checker, size_t count, size_t size);

#endif
