/* Reading the nodes of a graph. */
#ifndef TAPEDECK_ONNX_NODE_H
#define TAPEDECK_ONNX_NODE_H

#include "onnx/names.h"

size_t td__onnx_count_outputs(td__proto message);
/* Fills node but for the numbers of its values, and defines its outputs. What it got before a
 * failure is in node. */
TD_NODISCARD td_status td__onnx_read_node(td__onnx_parser *parser, td__proto message, size_t index,
                                          td__graph_node *node, td__onnx_names *names);
/* The numbers of its values, and the graphs inside it. Inputs must be made by nodes before it. */
TD_NODISCARD td_status td__onnx_resolve_node(td__onnx_parser *parser, td__proto message,
                                             const td__onnx_scope *scope, td__graph *graph);
/* A graph inside a node (graph.c), and what its captures are in the graph around it. What it got
 * before a failure is in *made. */
TD_NODISCARD td_status td__onnx_read_inner(td__onnx_parser *parser, td__proto message,
                                           const td__onnx_scope *scope, td__graph **made,
                                           int32_t **outer);
/* Defines the values that a node, or the graphs inside it, use. */
TD_NODISCARD td_status td__onnx_define_uses(td__onnx_parser *parser, td__proto message, int depth,
                                            td__onnx_names *names);
size_t td__onnx_count_uses(td__proto message, int depth);
/* The same of the nodes and outputs of a graph (graph.c). */
TD_NODISCARD td_status td__onnx_define_graph_uses(td__onnx_parser *parser, td__proto message,
                                                  int depth, td__onnx_names *names);
size_t td__onnx_count_graph_uses(td__proto message, int depth);

enum { TD__ONNX_MAX_DEPTH = 16 }; /* of graphs within graphs */

#endif
