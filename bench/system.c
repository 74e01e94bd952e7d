/* What sampling the machine's load costs: processor time per sample, and its share of a core at the default interval.
 *
 *   system [SAMPLES]     (default 200)
 *
 * `read` reads the files of /proc, and the GPUs where there are any. `record` is the whole: a run that samples every
 * 20 ms beside one that does not, with as many steps, which also writes the values into run.db. Both pause between
 * samples, so that caches are cold. Processor time of the process, of all its threads: other programs do not matter. */
#include "deck/environment.h"
#include "deck/folder.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { PAUSE_MILLISECONDS = 20, DEFAULT_INTERVAL = 5 };

static const struct timespec pause_between = {.tv_nsec = PAUSE_MILLISECONDS * 1000000};

static double used_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void print_cost(const char *what, double seconds, double samples, double values) {
    double each = seconds / samples;
    printf("%-8s %7.1f us of processor time for each of %.0f samples of %.0f values: %.5f %% of a "
           "core every %d s\n",
           what, 1e6 * each, samples, values, 100 * each / DEFAULT_INTERVAL, DEFAULT_INTERVAL);
}

static double measure_reading(long samples) {
    td__system_value values[TD__SYSTEM_VALUES];
    td__system machine;
    size_t count = 0;
    int folder = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    td__system_init(&machine, "/proc", folder);
    double start = used_seconds();
    for (long i = 0; i < samples; i++) {
        nanosleep(&pause_between, NULL);
        count = td__system_read(&machine, values);
    }
    double used = used_seconds() - start;
    td__system_release(&machine);
    close(folder);
    print_cost("read", used, (double)samples, (double)count);
    return (double)count;
}

/* Processor time of a run of that many steps; interval: between samples, negative for none. *records: what it wrote. */
static double measure_run(long steps, double interval, int64_t *records) {
    td_deck_options options = {.size = sizeof options, .system_seconds = interval};
    td_deck_counters counters = {.size = sizeof counters};
    td_error error = {0};
    double start = used_seconds();
    td_deck *deck = td_deck_open_with("/tmp/tapedeck-system", &options, &error);
    bool good = deck != NULL;
    for (long i = 1; good && i <= steps; i++) {
        good = td_deck_step(deck, 1, i) == TD_OK;
        nanosleep(&pause_between, NULL);
    }
    if (deck) {
        char folder[4096];
        (void)snprintf(folder, sizeof folder, "%s", td_deck_folder(deck));
        good = td_deck_close_with(deck, &counters, &error) == TD_OK && good;
        (void)td__folder_remove(folder);
    }
    if (!good) {
        fprintf(stderr, "system: %s\n", error.text);
        exit(1);
    }
    *records = counters.written;
    return used_seconds() - start;
}

int main(int count, char **arguments) {
    long samples = count > 1 ? strtol(arguments[1], NULL, 10) : 200;
    if (samples < 1) {
        fprintf(stderr, "system: expected a number of samples\n");
        return 2;
    }
    int64_t bare, sampled;
    double values = measure_reading(samples);
    double without = measure_run(samples, -1, &bare);
    double with = measure_run(samples, 1e-3 * PAUSE_MILLISECONDS, &sampled);
    print_cost("record", with - without, (double)(sampled - bare) / values, values);
    return 0;
}
