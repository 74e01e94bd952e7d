#include "store/problems.h"

#include "base/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void td__run_problem(td__problems *problems, const char *format, ...) {
    char text[TD_ERROR_TEXT_SIZE];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    for (size_t i = 0; i < problems->count; i++) {
        if (strcmp(problems->texts[i], text) == 0) {
            return;
        }
    }
    char *copy = problems->count < TD__MAX_PROBLEMS ? td__strdup(text) : NULL;
    if (copy) {
        problems->texts[problems->count++] = copy;
    } else {
        problems->more++;
    }
}

void td__problems_release(td__problems *problems) {
    for (size_t i = 0; i < problems->count; i++) {
        td__free(problems->texts[i]);
    }
    *problems = (td__problems){0};
}
