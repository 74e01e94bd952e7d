/* The secret that a viewer's address has. */
#ifndef TAPEDECK_VIEW_TOKEN_H
#define TAPEDECK_VIEW_TOKEN_H

#include "tapedeck/base.h"

enum { TD__TOKEN_SIZE = 41 }; /* 20 random bytes in hexadecimal, and a 0 */

/* file NULL: a new one. Otherwise that of the file, which is made when there is none, and which nobody else may
 * read. */
TD_NODISCARD td_status td__token_find(const char *file, char token[TD__TOKEN_SIZE],
                                      td_error *error);

#endif
