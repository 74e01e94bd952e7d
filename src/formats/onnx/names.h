/* The values of a graph by name, while it is read.
 *
 * A value is defined once: as an input, an initialiser (or both: an input with a default), or the
 * output of a node. Sorting the definitions by name finds duplicates and makes every lookup
 * logarithmic, whatever the names are. In a graph inside a node, every use is a definition too, which
 * gives way to any other: what is left of them is defined by the graph around it.
 */
#ifndef TAPEDECK_ONNX_NAMES_H
#define TAPEDECK_ONNX_NAMES_H

#include "onnx/parse.h"

/* Where a definition comes from: a node's number, or one of these. */
enum {
    TD__FROM_NOWHERE = -4,
    TD__FROM_AROUND = -3,
    TD__FROM_INPUT = -2,
    TD__FROM_INITIALISER = -1
};

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

/* The graph around the one that is read: what the node that has it, which is index there, may use. */
typedef struct td__onnx_scope {
    const td__onnx_names *names; /* numbered */
    size_t index;
    int64_t opset;
    int depth; /* of graphs within graphs: the outermost is at 0 */
} td__onnx_scope;

void td__onnx_define(td__onnx_names *names, const char *name, int64_t from);
/* Refuses what is defined twice, numbers the rest and makes the graph's values. */
TD_NODISCARD td_status td__onnx_number(td__onnx_parser *parser, td__onnx_names *names,
                                       td__graph *graph);
/* NULL when there is none of that name. */
const td__onnx_definition *td__onnx_find_value(const td__onnx_names *names,
                                               const td__proto_field *name);
/* Looks for what is defined around the graph: graph->captures, and in *outer (as many) what each is
 * there. What the node cannot use there comes from nowhere. */
TD_NODISCARD td_status td__onnx_capture(td__onnx_parser *parser, td__onnx_names *names,
                                        const td__onnx_scope *scope, td__graph *graph,
                                        int32_t **outer);
/* "node 7 (Conv)", "an input": for messages. */
const char *td__onnx_origin_text(char text[64], const td__graph *graph, int64_t from);

#endif
