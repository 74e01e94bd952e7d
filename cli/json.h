/* JSON for programs, to stdout. */
#ifndef TAPEDECK_CLI_JSON_H
#define TAPEDECK_CLI_JSON_H

#include "tapedeck/stats.h"

/* In quotes. */
void print_json_text(const char *text);
/* null when it is not finite. */
void print_json_number(double number);
/* "shape": […], "count": …, "mean": …, … "inf": …: the members of an object. */
void print_json_stats(const td_shape *shape, const td_stats *stats);

#endif
