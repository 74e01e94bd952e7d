/* Dates and times as text, and the numbers they become. */
#ifndef TAPEDECK_DATA_DATE_H
#define TAPEDECK_DATA_DATE_H

#include "tapedeck/data.h"

typedef struct td__date {
    int64_t year;
    int month, day; /* from 1; with an order that is open, the first and the second number */
    int hour, minute;
    double second; /* with its fraction */
    int offset;    /* minutes east of UTC */
    bool has_time, has_offset;
    bool open; /* 1/5/2024: which of the two is the day, the order says */
} td__date;

/* False when text is no date. */
bool td__date_read(td__date *date, const char *text);
/* The first number of an open date becomes the day or the month, and the time is converted to UTC. False: there is no such
 * day. */
bool td__date_settle(td__date *date, td_date_order order);
/* Seconds since 1970-01-01, of a settled date. */
double td__date_seconds(const td__date *date);
/* The number of a part's name; -1 when there is none. */
int td__date_part(const char *name);
const char *td__date_part_name(int part); /* NULL behind the last */
/* since: seconds since 1970. */
double td__date_value(const td__date *date, int part, int64_t since);
/* Whether the part is one of those that a column gets by itself, where it has times or not. */
bool td__date_part_is_default(int part, bool has_time);

#endif
