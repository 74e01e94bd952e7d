/* Text of others: made valid for files, and visible for people. */
#ifndef TAPEDECK_BASE_TEXT_H
#define TAPEDECK_BASE_TEXT_H

#include "tapedeck/base.h"

#include <stdio.h>

/* Bytes of the UTF-8 character at text, 0 when there is none or it is a zero. */
size_t td__character(const char *text, size_t length);

/* Valid UTF-8: other bytes, and zeros, become %XX. Writes at most 3 * length bytes (no terminating
 * zero) and returns how many. */
size_t td__clean_text(char *out, const char *text, size_t length);
/* A copy of a cleaned C string, to be freed with td__free; NULL when memory is exhausted. */
char *td__clean_copy(const char *text);

/* Writes a JSON string with its quotes. Bytes that are not UTF-8 become U+FFFD, and `<` is escaped so
 * that the string can stand inside an HTML page. Writes at most TD__JSON_STRING_SIZE(strlen(text))
 * bytes (no terminating zero) and returns how many. */
#define TD__JSON_STRING_SIZE(length) (6 * (length) + 2)
size_t td__json_string(char *out, const char *text);

/* "340 B", "1.2 MiB", "120 GiB"; returns out. */
#define TD__BYTES_ROOM 32
const char *td__bytes_text(char out[TD__BYTES_ROOM], double bytes);

/* For qsort and bsearch: compares the texts that two elements, or their first members, point to. */
int td__compare_texts(const void *a, const void *b);

/* td_visible, printed. */
void td__print_visible(FILE *stream, const char *text, size_t length);

#endif
