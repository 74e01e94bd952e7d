/* The values of a graph by name, while it is read.
 *
 * A value is defined once: as an input, an initialiser (or both: an input with a default), or the
 * output of a node. Sorting the definitions by name finds duplicates and makes every lookup
 * logarithmic, whatever the names are.
 */
#ifndef TAPEDECK_ONNX_NAMES_H
#define TAPEDECK_ONNX_NAMES_H

#include "onnx/parse.h"

/* Where a definition comes from: a node's number, or one of these. */
enum { TD__FROM_INPUT = -2, TD__FROM_INITIALISER = -1 };

typedef struct td__onnx_definition {
    const char *name;
    size_t order;  /* among all definitions */
    int64_t from;  /* as above */
    int32_t value; /* its number: values are numbered in the order of their definitions */
} td__onnx_definition;

typedef struct td__onnx_names {
    td__onnx_definition *items; /* has room; sorted by name once numbered */
    size_t count;
} td__onnx_names;

void td__onnx_define(td__onnx_names *names, const char *name, int64_t from);
/* Refuses what is defined twice, numbers the rest and makes the graph's values. */
TD_NODISCARD td_status td__onnx_number(td__onnx_parser *parser, td__onnx_names *names,
                                       td__onnx_graph *graph);
/* NULL when there is none of that name. */
const td__onnx_definition *td__onnx_find_value(const td__onnx_names *names,
                                               const td__proto_field *name);
/* "node 7 (Conv)", "an input": for messages. */
const char *td__onnx_source(char text[64], const td__onnx_graph *graph, int64_t from);

#endif
