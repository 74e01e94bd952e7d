/* The examples of a step, as a signal in form rows has them; the losses of rows with the largest first and each one's
 * share of the sum, which answers which rows caused a spike. */
#include "command.h"
#include "reading.h"
#include "show.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_ROWS = 20, SHOWN_VALUES = 8 };

typedef struct example {
    int64_t sample;
    double label;
    size_t count; /* of its values; `values` has the first of them */
    double values[SHOWN_VALUES];
} example;

typedef struct examples {
    example *all;
    size_t count, capacity;
    int64_t step;
    bool single; /* one number each */
} examples;

static td_status keep_example(void *user, const td_example *given, td_error *error) {
    examples *e = user;
    if (e->count == e->capacity) {
        size_t capacity = e->capacity ? 2 * e->capacity : 64;
        example *all = realloc(e->all, capacity * sizeof *all);
        if (!all) {
            return td_error_set(error, TD_MEMORY, "out of memory for the rows of a step");
        }
        e->all = all;
        e->capacity = capacity;
    }
    example *kept = &e->all[e->count++];
    *kept = (example){.sample = given->sample, .label = given->label, .count = given->count};
    size_t count = given->count < SHOWN_VALUES ? given->count : SHOWN_VALUES;
    memcpy(kept->values, given->values, count * sizeof *kept->values);
    e->step = given->step;
    e->single = (e->count == 1 || e->single) && given->count == 1;
    return TD_OK;
}

/* What is not finite is worse than any number. */
static double badness(const example *e) {
    return isfinite(e->values[0]) ? e->values[0] : INFINITY;
}

static int compare_badness(const void *a, const void *b) {
    const example *x = a, *y = b;
    double p = badness(x), q = badness(y);
    return p != q ? (p < q) - (p > q) : (x->sample > y->sample) - (x->sample < y->sample);
}

static double sum_of(const examples *e) {
    double sum = 0;
    for (size_t i = 0; i < e->count; i++) {
        sum += isfinite(e->all[i].values[0]) ? fabs(e->all[i].values[0]) : 0;
    }
    return sum;
}

static void print_cell(const char *separator, double value) {
    char number[32];
    printf("%s%s", separator, isnan(value) ? "nan" : format_number(number, value));
}

static void print_rows(const page *p, const examples *e) {
    size_t max = p->plain || e->count < SHOWN_ROWS ? e->count : SHOWN_ROWS;
    double sum = e->single ? sum_of(e) : 0;
    printf(e->single ? "row\tlabel\tvalue\tshare\n" : "row\tlabel\tvalues\n");
    for (size_t i = 0; i < max; i++) {
        const example *each = &e->all[i];
        printf("%lld\t", (long long)each->sample);
        if (isnan(each->label)) {
            putchar('-');
        } else {
            print_cell("", each->label);
        }
        for (size_t k = 0; k < each->count && k < SHOWN_VALUES; k++) {
            print_cell(k ? " " : "\t", each->values[k]);
        }
        if (e->single && isfinite(each->values[0]) && sum > 0) {
            printf("\t%.1f %%", 100 * fabs(each->values[0]) / sum);
        }
        puts(each->count > SHOWN_VALUES ? " …" : "");
    }
    if (max < e->count) {
        printf("(%zu more rows; all of them without a terminal, or with `tapedeck sql`)\n",
               e->count - max);
    }
}

void show_rows(const page *p, const td_run_signal *signal) {
    examples e = {0};
    td_error error = {0};
    td_status status = td_run_examples(p->runs[0], signal, p->at, keep_example, &e, &error);
    if (status == TD_NOT_FOUND) {
        (void)fail(EXIT_BAD, "%s has no rows in run.db at or before step %lld", signal->name,
                   (long long)p->at);
    } else if (status) {
        (void)fail(EXIT_BAD, "%s", error.text);
    } else {
        e.single = e.single && td_run_matches("*.rows", signal->name);
        if (e.single) {
            qsort(e.all, e.count, sizeof *e.all, compare_badness);
        }
        char title[512];
        (void)snprintf(title, sizeof title, "%.400s at step %lld: %zu rows of the data%s",
                       signal->name, (long long)e.step, e.count,
                       e.single ? ", the largest first" : "");
        print_heading(p, title);
        print_rows(p, &e);
    }
    free(e.all);
}
