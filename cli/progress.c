#include "progress.h"

#include "terminal.h"

#include <signal.h>

static volatile sig_atomic_t stopped;

static void handle_interrupt(int number) {
    stopped = 1;
    signal(number, SIG_DFL);
}

progress progress_begin(bool quiet) {
    struct sigaction action = {.sa_handler = handle_interrupt};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    double now = seconds_now();
    return (progress){.began = now, .shown = now, .live = !quiet && terminal_is_live()};
}

/* Ten times a second; nothing for what is done before one could read it. */
bool show_progress(void *user, int64_t done, int64_t examples) {
    enum { EVERY = 10 };
    progress *p = user;
    double now = seconds_now();
    if (p->live && now - p->shown >= 1.0 / EVERY && done < examples) {
        char line[256], cells[128], left[32];
        double share = (double)done / (double)examples;
        (void)snprintf(line, sizeof line, "%s %3.0f %%  %lld of %lld examples  %.0f/s  %s left",
                       terminal_bar(cells, share), 100 * share, (long long)done,
                       (long long)examples, (double)done / (now - p->began),
                       terminal_time(left, (now - p->began) * (1 - share) / share));
        terminal_show(line);
        p->shown = now;
    }
    return !stopped;
}
