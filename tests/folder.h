/* A folder of its own for a test program: made before the tests, removed with all in it after them. */
#ifndef TAPEDECK_TESTS_FOLDER_H
#define TAPEDECK_TESTS_FOLDER_H

#include "test.h"

#include <unistd.h>

static char folder[64];

static int make_folder(void **state) {
    (void)state;
    strcpy(folder, "/tmp/tapedeck-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

#endif
