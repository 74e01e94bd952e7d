#include "reading.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

td_run *open_run(const char *path) {
    td_error error = {0};
    td_run *run = td_run_open(path, &error);
    td_run_info info = {.size = sizeof info};
    if (run) {
        td_run_about(run, &info);
    }
    if (run && info.events && td_run_refresh(run, &error) != TD_OK) {
        td_run_close(run);
        run = NULL;
    }
    if (!run) {
        (void)fail(EXIT_BAD, "%s", error.text);
    }
    return run;
}

/* Paths that live as long as the program. */
typedef struct chosen {
    struct chosen *before;
    char path[];
} chosen;
static chosen *all_chosen;

bool choose_rank(const command *cmd, const char *rank, int count, const char **paths) {
    char *end = NULL;
    long long number = rank ? strtoll(rank, &end, 10) : 0;
    if (rank && (end == rank || *end || number < 0)) {
        misuse(cmd, "--rank is the number of a process, from 0 on, not '%s'", rank);
        return false;
    }
    for (int i = 0; rank && i < count; i++) {
        td_error error = {0};
        size_t size = strlen(paths[i]) + 32;
        chosen *path = malloc(sizeof *path + size);
        td_run *run = td_run_open(paths[i], &error);
        bool several = run && td_run_rank_count(run) > 0;
        td_run_close(run);
        if (!path || !several) {
            free(path);
            (void)fail(EXIT_BAD, "%s%s", error.text[0] ? error.text : paths[i],
                       error.text[0] ? "" : " has no ranks: one process wrote it");
            return false;
        }
        (void)snprintf(path->path, size, "%s/rank-%05lld", paths[i], number);
        path->before = all_chosen;
        all_chosen = path;
        paths[i] = path->path;
    }
    return true;
}

void report_problems(const td_run *run, size_t *reported) {
    const char *const *texts;
    size_t count = td_run_problems(run, &texts);
    for (; *reported < count; ++*reported) {
        complain("%s", texts[*reported]);
    }
}

bool parse_steps(const char *text, int64_t *first, int64_t *last) {
    const char *dots = strstr(text, "..");
    char *end = NULL;
    *first = INT64_MIN;
    *last = INT64_MAX;
    if (!dots) {
        *first = *last = strtoll(text, &end, 10);
        return end != text && !*end;
    }
    if (dots != text) {
        *first = strtoll(text, &end, 10);
        if (end != dots) {
            return false;
        }
    }
    if (dots[2]) {
        *last = strtoll(dots + 2, &end, 10);
        if (*end) {
            return false;
        }
    }
    return *first <= *last;
}

const char *format_when(char *out, double seconds) {
    time_t whole = (time_t)seconds;
    struct tm local;
    if (seconds <= 0 || !localtime_r(&whole, &local)) {
        return strcpy(out, "-");
    }
    (void)strftime(out, 32, "%Y-%m-%d %H:%M", &local);
    return out;
}

const char *format_number(char *out, double value) {
    double magnitude = fabs(value);
    bool plain = magnitude == 0 || (magnitude >= 1e-3 && magnitude < 1e6);
    (void)snprintf(out, 32, plain ? "%.4g" : "%.3e", value);
    if (magnitude >= 1e4 && plain) {
        (void)snprintf(out, 32, "%.0f", value);
    }
    return out;
}
