/* What the program draws with, for terminals that only have ASCII. */
#ifndef TAPEDECK_CLI_ASCII_H
#define TAPEDECK_CLI_ASCII_H

#include <stddef.h>

/* Puts ASCII in the place of blocks, boxes, dots, arrows and dashes, where they stand; what else is
 * not ASCII (somebody's names) stays. text is sound UTF-8. Returns the new length, which is not
 * longer. */
size_t ascii_form(char *text, size_t length);

#endif
