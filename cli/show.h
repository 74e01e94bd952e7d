/* What `tapedeck show` puts on a page. */
#ifndef TAPEDECK_CLI_SHOW_H
#define TAPEDECK_CLI_SHOW_H

#include "plot.h"

enum { MAX_RUNS = 8 };

typedef struct page {
    td_run *runs[MAX_RUNS]; /* the first is the one that signals are taken from */
    size_t run_count;
    const char *what;      /* globs, or NULL: the overview */
    const char *statistic; /* or NULL */
    int64_t first, last;   /* steps */
    int64_t at;            /* the step of a tensor; INT64_MAX: its last */
    bool has_at, picture;
    bool spread; /* low and high are those of the ranks */
    bool plain;  /* no terminal: numbers instead of pictures */
    canvas canvas;
} page;

void show_overview(const page *page);
/* False when no signal matches. */
bool show_signals(const page *page);
bool show_json(const page *page);

/* The rows of a signal at the page's step, or the last before it. */
void show_rows(const page *page, const td_run_signal *signal);
void print_heading(const page *page, const char *text);

/* A signal's points in one run, empty when it has none there; free its points. */
series load_series(td_run *run, const char *signal, const char *statistic, const page *page,
                   size_t max);

#endif
