/* Printing an operation of a step that was executed again. */
#ifndef TAPEDECK_CLI_OPERATION_H
#define TAPEDECK_CLI_OPERATION_H

#include "tapedeck/replay.h"

enum { ELEMENT_TEXT = 256 };
/* "[3, 0, 12]"; of a scalar "". */
const char *element_text(const td_shape *shape, int64_t element, char out[ELEMENT_TEXT]);
/* "  softmax of layer attention, backward (operation 31 of the step)" */
void print_operation(const td_operation *operation);
/* "  reads NAME SHAPE min … max …", a line each. */
void print_operands(const td_operation *operation);
/* An object, or null. */
void print_json_operation(const td_operation *operation);

#endif
