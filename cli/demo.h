/* The files of `tapedeck demo`, which cmake/bytes.cmake puts into the program. */
#ifndef TAPEDECK_CLI_DEMO_H
#define TAPEDECK_CLI_DEMO_H

#include <stddef.h>

typedef struct demo_file {
    const char *name;
    const unsigned char *bytes;
    size_t size;
} demo_file;

enum { DEMO_FILES = 2 };
extern const demo_file demo_files[DEMO_FILES]; /* the first is the experiment */

#endif
