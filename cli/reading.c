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

void report_problems(const td_run *run, size_t *reported) {
    const char *const *texts;
    size_t count = td_run_problems(run, &texts);
    for (; *reported < count; ++*reported) {
        (void)fail(EXIT_BAD, "%s", texts[*reported]);
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
