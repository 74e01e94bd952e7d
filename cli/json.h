/* JSON and CSV for programs, to stdout. */
#ifndef TAPEDECK_CLI_JSON_H
#define TAPEDECK_CLI_JSON_H

#include "tapedeck/stats.h"

/* In quotes. */
void print_json_text(const char *text);
/* null when it is not finite. */
void print_json_number(double number);
/* Whether a text is a number, true, false or null, as JSON writes them. */
bool is_json_word(const char *text);
/* "shape": […], "count": …, "mean": …, … "inf": …: the members of an object. */
void print_json_stats(const td_shape *shape, const td_stats *stats);
/* In quotes where RFC 4180 asks for them. */
void print_csv_field(const char *text);

#endif
