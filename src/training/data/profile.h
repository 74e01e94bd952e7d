/* What the columns of a CSV file hold, found by reading it once: for guessing what each is for. */
#ifndef TAPEDECK_DATA_PROFILE_H
#define TAPEDECK_DATA_PROFILE_H

#include "data/table.h"

enum { TD__PROFILE_VALUES = 1000 }; /* different texts that are counted in a column */

typedef struct td__column_profile {
    char *name;                  /* from the header, or the column's number */
    int64_t missing;             /* cells */
    int64_t numbers;             /* cells that are finite numbers */
    int64_t whole;               /* numbers without a fraction */
    int64_t counted;             /* numbers that are the one above plus 1 */
    int64_t dates;               /* texts that are dates */
    bool dates_open;             /* some do not show whether day or month comes first: … */
    bool day_above, month_above; /* … unless a number above 12 does */
    int64_t words;               /* in all texts, separated by blanks */
    int64_t images;              /* texts that end as the names of images do */
    int64_t commas;              /* texts that are numbers with commas */
    bool cut;                    /* some text is longer than a name can be */
    char *first;                 /* text of the first cell that is not missing */
    char *text;                  /* of the first cell that is not missing and no number */
    double min, max, last;
    td__names values; /* different texts of all cells that are not missing */
    bool many;        /* there are more than are in values */
} td__column_profile;

typedef struct td__profile {
    td__column_profile *columns;
    int64_t column_count, rows;
    bool has_header;
} td__profile;

/* label: a column, which helps to find the header; may be NULL. A first line of text above text is a
 * header when no row repeats it. td__profile_release whatever happened. */
TD_NODISCARD td_status td__profile_csv(td__profile *profile, td__input *input, const char *label,
                                       td_error *error);
void td__profile_release(td__profile *profile);

#endif
