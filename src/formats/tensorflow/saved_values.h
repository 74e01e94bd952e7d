/* Values of a SavedModel while it is converted: variables, constants, lists of tensors. */
#ifndef TAPEDECK_TENSORFLOW_SAVED_VALUES_H
#define TAPEDECK_TENSORFLOW_SAVED_VALUES_H

#include "tensorflow/saved.h"

enum { TD__SAVED_STEPS = 1024 /* of a loop */, TD__SAVED_MISSING = 400 };

static const td__saved_value td__saved_nothing = {.variable = -1, .list = -1};

typedef struct td__saved_list {
    const char **items; /* NULL: none is set */
    const char *stacked;
    size_t count;
} td__saved_list;

typedef struct td__saved_converter {
    td__saved_file file;
    const td__bundle *bundle;
    td__operators *to;
    json_t *read; /* by variable: the name of its value */
    td__saved_list *lists;
    size_t list_count, list_capacity, made, left;
    char missing[TD__SAVED_MISSING];
    bool refused;
    td_status status; /* of what is no refusal: memory, damage */
    td_error *error;
} td__saved_converter;

/* An operator that is not supported, for the reason of the list of operators. */
void td__saved_refuse(td__saved_converter *c, const char *op);
/* What ends the conversion. */
void td__saved_fail(td__saved_converter *c, td_status status, const char *what);
/* The value of a variable, as it is ('v'), or as a kernel ('k', of one by channels 'd'); NULL on failure. */
const char *td__saved_variable(td__saved_converter *c, int64_t variable, char form);
void td__saved_constant(td__saved_converter *c, const td__saved_node *node, td__saved_value *out);
/* Whether the node is one of lists; out is what it makes. */
bool td__saved_list_node(td__saved_converter *c, const td__saved_node *node,
                         const td__saved_value *in, size_t count, td__saved_value *out);

#endif
