/* A growing buffer for an answer: text, JSON, numbers. When it exceeds its maximum size, `failed` is
 * set and the bytes must not be used. */
#ifndef TAPEDECK_VIEW_OUTPUT_H
#define TAPEDECK_VIEW_OUTPUT_H

#include "tapedeck/base.h"

/* All zero at first. */
typedef struct td__output {
    uint8_t *data;
    size_t size, capacity;
    bool failed;
} td__output;

void td__put(td__output *out, const void *data, size_t size);
void td__put_text(td__output *out, const char *text);
void td__put_format(td__output *out, const char *format, ...) TD_PRINTF(2, 3);
/* A JSON string; bytes that are not UTF-8 become U+FFFD. */
void td__put_json(td__output *out, const char *text);
/* A JSON number: null for NaN, ±1e999 (which reads as infinity) for infinities. */
void td__put_number(td__output *out, double number);
void td__put_double(td__output *out, double number);

/* Compresses plain by gzip, level 1 (fast) to 9; false when memory is exhausted. */
bool td__output_gzip(const td__output *plain, int level, td__output *packed);
void td__output_release(td__output *out);

#endif
