/* YAML as an experiment file needs it: one document as a tree whose nodes know where they stand.
 *
 * Strict: anchors, aliases, tags, several documents, keys that are not plain text, the same key
 * twice and bytes that are not UTF-8 are refused; size, depth and number of nodes are capped. A
 * document can be edited before it is checked (--set) and written back.
 */
#ifndef TAPEDECK_EXPERIMENT_YAML_H
#define TAPEDECK_EXPERIMENT_YAML_H

#include "tapedeck/base.h"

#define TD__YAML_MAX_BYTES (4u << 20)
#define TD__YAML_MAX_DEPTH 32
#define TD__YAML_MAX_NODES 200000
#define TD__YAML_MAX_KEYS 1000 /* of one map: keys are compared one by one */

typedef enum td__yaml_kind { TD__YAML_SCALAR, TD__YAML_LIST, TD__YAML_MAP } td__yaml_kind;

typedef struct td__yaml_node td__yaml_node;
struct td__yaml_node {
    td__yaml_kind kind;
    const char *file; /* as it was given to the reader, or the --set argument; never NULL */
    int line, column; /* from 1; line 0 when it did not come from a file */
    const char *text; /* a scalar's, without NUL bytes; "" for lists and maps */
    bool quoted;      /* a scalar that is text whatever it looks like */
    size_t count;     /* items of a list, entries of a map */
    size_t capacity;
    const td__yaml_node **keys; /* of a map: scalars; NULL for a list */
    td__yaml_node **items;      /* of a list or map */
};

typedef struct td__yaml td__yaml;

/* file is used in messages only. NULL on failure; the text begins with "FILE:LINE: ". An empty
 * document is an empty map. */
td__yaml *td__yaml_parse(const char *file, const char *text, size_t size, td_error *error);
td__yaml *td__yaml_read(const char *path, td_error *error);
void td__yaml_destroy(td__yaml *yaml); /* accepts NULL; all its nodes are gone */

td__yaml_node *td__yaml_root(td__yaml *yaml);
/* The value under key; NULL when there is none or node is no map. */
td__yaml_node *td__yaml_get(const td__yaml_node *node, const char *key);
/* Null as YAML has it: nothing at all, ~, null. */
bool td__yaml_is_null(const td__yaml_node *node);

/* New nodes of this document; NULL when memory is exhausted. */
td__yaml_node *td__yaml_scalar(td__yaml *yaml, const char *text, bool quoted);
td__yaml_node *td__yaml_list(td__yaml *yaml);
td__yaml_node *td__yaml_map(td__yaml *yaml);
/* Appends to a list, or adds to or replaces in a map. Value NULL fails. */
TD_NODISCARD td_status td__yaml_append(td__yaml *yaml, td__yaml_node *list, td__yaml_node *value);
TD_NODISCARD td_status td__yaml_put(td__yaml *yaml, td__yaml_node *map, const char *key,
                                    td__yaml_node *value);
/* Zero-filled memory that lives as long as the document; NULL when there is none. */
void *td__yaml_alloc(td__yaml *yaml, size_t bytes);
/* A copy of other's node, which may belong to another document. */
td__yaml_node *td__yaml_copy(td__yaml *yaml, const td__yaml_node *other);

/* "train.epochs=3": the value is YAML ("[1, 2]", "{adam: {}}"). Maps that are missing on the way
 * are made; in a list a part of the path is an index, and the number of items appends. Null removes a
 * section or a key of a section. TD_INVALID, with the text, when that cannot be. */
TD_NODISCARD td_status td__yaml_set(td__yaml *yaml, const char *assignment, td_error *error);

/* The document as YAML, in memory from td__calloc; NULL when memory is exhausted. */
char *td__yaml_write(const td__yaml *yaml, size_t *size);

#endif
