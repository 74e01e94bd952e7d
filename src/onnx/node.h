/* Reading the nodes of a graph. */
#ifndef TAPEDECK_ONNX_NODE_H
#define TAPEDECK_ONNX_NODE_H

#include "onnx/names.h"

size_t td__onnx_count_outputs(td__proto message);
/* Fills node but for the numbers of its values, and defines its outputs. What it got before a
 * failure is in node. */
TD_NODISCARD td_status td__onnx_read_node(td__onnx_parser *parser, td__proto message, size_t index,
                                          td__onnx_node *node, td__onnx_names *names);
/* The numbers of its values. Inputs must be made by nodes before it. */
TD_NODISCARD td_status td__onnx_resolve_node(td__onnx_parser *parser, td__proto message,
                                             size_t index, const td__onnx_graph *graph,
                                             const td__onnx_names *names);

#endif
