/* Reads JSON from untrusted files within a memory budget. */
#ifndef TAPEDECK_BASE_JSON_H
#define TAPEDECK_BASE_JSON_H

#include "tapedeck/base.h"

#include <jansson.h>

/* The value of a text, which may have any bytes; duplicate keys are an error. A tree takes up to 45
 * times its text ("[[],[],…"), so its size is estimated before it is built. TD_RANGE when
 * that is more than budget bytes. path is for messages. NULL on failure; json_decref. */
json_t *td__json_read(const char *path, const char *text, size_t length, size_t budget,
                      td_error *error);
/* The same, but texts (not keys) may hold the character \u0000, which ends them for json_string_value. */
json_t *td__json_read_zeros(const char *path, const char *text, size_t length, size_t budget,
                            td_error *error);
/* Whether a text holds that character. */
bool td__json_has_zero(const json_t *text);
/* Whole numbers as integers, so that another reader takes `units: 10` for one. */
json_t *td__json_number(double number);
/* The budget for a file of this size: with its other uses a load stays below 64 MiB + 4 times it. */
size_t td__json_budget(size_t file_size);

#endif
