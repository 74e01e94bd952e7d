/* The page: the files of web/, put into the library by the build, compressed. */
#ifndef TAPEDECK_VIEW_PAGE_H
#define TAPEDECK_VIEW_PAGE_H

#include "answers/output.h"

typedef struct td__page_file {
    const char *path; /* "/app.js" */
    const char *type;
    const uint8_t *data; /* gzip */
    size_t size, plain_size;
} td__page_file;

/* Generated (cmake/embed.c). */
extern const td__page_file td__page_files[];
extern const size_t td__page_file_count;

/* NULL when there is none. */
const td__page_file *td__page_find(const char *path);
/* Its text; false when memory is exhausted. */
bool td__page_text(const td__page_file *file, td__output *out);

#endif
