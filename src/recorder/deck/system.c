/* Load of the machine and of this process, from the files of /proc. A sample takes some ten system calls. */
#include "deck/environment.h"

#include "base/clock.h"

#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

enum { FILE_ROOM = 1 << 14 };

typedef struct sample {
    td__system_value *values;
    size_t count;
} sample;

static void add_value(sample *s, const char *name, double value) {
    td__system_value *v = &s->values[s->count++];
    (void)snprintf(v->name, sizeof v->name, "system.%s", name);
    v->value = value;
}

/* The file's first bytes; "" when it cannot be read. */
static char *read_file(const td__system *system, const char *name, char text[FILE_ROOM]) {
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/%s", system->root, name);
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t length = file < 0 ? 0 : read(file, text, FILE_ROOM - 1);
    if (file >= 0) {
        close(file);
    }
    text[length > 0 ? length : 0] = 0;
    return text;
}

/* The number behind a word at a line's beginning; -1: there is none. */
static double number_after(const char *text, const char *word) {
    for (const char *at = text; at; at = strchr(at, '\n')) {
        at += *at == '\n';
        if (strncmp(at, word, strlen(word)) == 0) {
            return strtod(at + strlen(word), NULL);
        }
    }
    return -1;
}

/* "cpu  user nice system idle iowait irq softirq steal …" */
static void count_processors(const td__system *system, td__system_counts *counts) {
    enum { COLUMNS = 8, IDLE = 3, WAITING = 4 };
    char text[FILE_ROOM], *at = read_file(system, "stat", text);
    if (strncmp(at, "cpu ", 4) != 0) {
        return;
    }
    at += 4;
    for (int i = 0; i < COLUMNS; i++) {
        double ticks = strtod(at, &at);
        counts->all += ticks;
        counts->busy += i == IDLE || i == WAITING ? 0 : ticks;
    }
}

/* Lines "name: received … (8 columns) sent …", all but the loopback's. */
static void count_network(const td__system *system, td__system_counts *counts) {
    enum { SENT = 8 };
    char text[FILE_ROOM];
    for (char *line = strtok(read_file(system, "net/dev", text), "\n"); line; // NOLINT: one thread
         line = strtok(NULL, "\n")) {                                         // NOLINT
        char *colon = strchr(line, ':');
        if (!colon || strncmp(line + strspn(line, " "), "lo:", 3) == 0) {
            continue;
        }
        char *at = colon + 1;
        for (int i = 0; i <= SENT; i++) {
            double bytes = strtod(at, &at);
            counts->received += i == 0 ? bytes : 0;
            counts->sent += i == SENT ? bytes : 0;
        }
    }
}

static td__system_counts count_all(const td__system *system) {
    td__system_counts counts = {.seconds = td__seconds()};
    char text[FILE_ROOM];
    struct timespec used;
    count_processors(system, &counts);
    count_network(system, &counts);
    read_file(system, "self/io", text);
    counts.read = number_after(text, "read_bytes:");
    counts.written = number_after(text, "write_bytes:");
    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) == 0) {
        counts.process = (double)used.tv_sec + 1e-9 * (double)used.tv_nsec;
    }
    return counts;
}

static void add_rates(sample *s, const td__system_counts *a, const td__system_counts *b) {
    double seconds = b->seconds - a->seconds;
    if (b->all > a->all) {
        add_value(s, "cpu", 100 * (b->busy - a->busy) / (b->all - a->all));
    }
    if (!(seconds > 0)) {
        return;
    }
    const struct {
        const char *name;
        double before, now, factor;
    } rates[] = {{"process.cpu", a->process, b->process, 100},
                 {"disk.read", a->read, b->read, 1},
                 {"disk.written", a->written, b->written, 1},
                 {"network.received", a->received, b->received, 1},
                 {"network.sent", a->sent, b->sent, 1}};
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        if (rates[i].before >= 0 && rates[i].now >= rates[i].before) {
            add_value(s, rates[i].name,
                      rates[i].factor * (rates[i].now - rates[i].before) / seconds);
        }
    }
}

static void add_memory(const td__system *system, sample *s) {
    char text[FILE_ROOM];
    read_file(system, "meminfo", text);
    double total = number_after(text, "MemTotal:"), left = number_after(text, "MemAvailable:");
    if (total > 0 && left >= 0) {
        add_value(s, "memory", 100 * (total - left) / total);
    }
    char *at = read_file(system, "self/statm", text);
    (void)strtod(at, &at);
    double pages = strtod(at, &at);
    if (pages > 0) {
        add_value(s, "process.memory", pages * (double)sysconf(_SC_PAGESIZE));
    }
}

static void add_disk(const td__system *system, sample *s) {
    struct statvfs about;
    if (system->folder >= 0 && fstatvfs(system->folder, &about) == 0 && about.f_blocks > 0) {
        add_value(s, "disk.used", 100 * (1 - (double)about.f_bavail / (double)about.f_blocks));
    }
}

void td__system_init(td__system *system, const char *root, int folder) {
    *system = (td__system){.root = root, .folder = folder};
    system->before = count_all(system);
    system->gpus = td__gpus_open();
}

size_t td__system_read(td__system *system, td__system_value values[TD__SYSTEM_VALUES]) {
    sample s = {.values = values};
    td__system_counts now = count_all(system);
    add_rates(&s, &system->before, &now);
    system->before = now;
    add_memory(system, &s);
    add_disk(system, &s);
    return s.count + td__gpus_read(system->gpus, values + s.count);
}

void td__system_release(td__system *system) {
    td__gpus_close(system->gpus);
    system->gpus = NULL;
}
