#include "deck/heartbeat.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/thread.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The size never changes: a beat replaces the one before it in one write. */
enum { SIZE = 512 };
static const double every = 5, silent = 60; /* seconds */
static const char file_name[] = "heartbeat";

struct td__heartbeat {
    int folder;
    td__beat beat;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stopping; /* under lock */
};

/* ---- The text ------------------------------------------------------------------------------- */

/* The count stands at both ends: a text with two different ones was read while it was being written. */
static void format_beat(char text[SIZE], const td__beat *beat) {
    memset(text, ' ', SIZE);
    int length =
        snprintf(text, SIZE, "count %lld\ntime %.3f\nhost %s\nprocess %s\nstate %s\ncount %lld\n",
                 (long long)beat->count, beat->time, beat->host, beat->process, beat->state,
                 (long long)beat->count);
    text[length] = ' ';
    text[SIZE - 1] = '\n';
}

static bool parse_beat(const char *text, td__beat *beat) {
    long long first = 0, last = 1;
    *beat = (td__beat){0};
    int fields = sscanf(text, "count %lld time %lf host %63s process %127s state %15s count %lld",
                        &first, &beat->time, beat->host, beat->process, beat->state, &last);
    beat->count = first;
    return fields == 6 && first == last;
}

bool td__beat_read(int folder, td__beat *beat) {
    enum { TRIES = 20 };
    bool good = false;
    int file = td__file_open(folder, file_name, O_RDONLY | O_NOFOLLOW);
    for (int i = 0; file >= 0 && !good && i < TRIES; i++) {
        char text[SIZE + 1] = "";
        ssize_t got = pread(file, text, SIZE, 0);
        good = got > 0 && parse_beat(text, beat);
        if (!good) { /* it is being written */
            usleep(2000);
        }
    }
    if (file >= 0) {
        close(file);
    }
    return good;
}

/* ---- Processes ------------------------------------------------------------------------------ */

static bool read_line(const char *path, char *out, size_t size) {
    FILE *file = fopen(path, "re");
    bool good = file && fgets(out, (int)size, file);
    if (file) {
        (void)fclose(file);
    }
    out[good ? strcspn(out, "\n") : 0] = 0;
    return good;
}

/* What is the same for all processes that see each other's numbers: the start of the machine, and the space of
 * process numbers (containers have their own). */
static void format_machine(char *out, size_t size) {
    char boot[64] = "", space[40] = "";
    const char *wish = getenv("TAPEDECK_NODE");
    if (wish && *wish) {
        (void)snprintf(out, size, "%.40s/", wish);
        return;
    }
    (void)read_line("/proc/sys/kernel/random/boot_id", boot, sizeof boot);
    ssize_t length = readlink("/proc/self/ns/pid", space, sizeof space - 1);
    (void)snprintf(out, size, "%.40s/%.*s/", boot, (int)(length > 0 ? length : 0), space);
}

/* "NUMBER/START", the start in the kernel's ticks; false when there is no such process. */
static bool format_process(long long number, char *out, size_t size) {
    char path[64], line[1024];
    unsigned long long start = 0;
    (void)snprintf(path, sizeof path, "/proc/%lld/stat", number);
    bool good = read_line(path, line, sizeof line);
    const char *at =
        good ? strrchr(line, ')') : NULL; /* a program's name may have anything in it */
    static const char fields[] =
        " %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu";
    good = at && at[1] && sscanf(at + 1, fields, &start) == 1;
    bool zombie = good && at[2] == 'Z'; /* ended, and its parent has not asked yet */
    (void)snprintf(out, size, "%lld/%llu", number, start);
    return good && !zombie;
}

bool td__beat_is_live(const td__beat *beat) {
    char machine[100], process[64];
    if (strcmp(beat->state, "running") != 0) {
        return false;
    }
    format_machine(machine, sizeof machine);
    size_t length = strlen(machine);
    if (strncmp(beat->process, machine, length) != 0) {
        return fabs(td__wall_time() - beat->time) < silent;
    }
    const char *own = beat->process + length;
    return format_process(strtoll(own, NULL, 10), process, sizeof process) &&
           strcmp(process, own) == 0;
}

/* ---- Writing -------------------------------------------------------------------------------- */

static bool write_beat(const td__beat *beat, int file) {
    char text[SIZE];
    format_beat(text, beat);
    bool good = td__write_all(file, text, SIZE, 0) && td__sync(fdatasync, file);
    return close(file) == 0 && good;
}

/* Only while the file is this process's own: another one may have taken the run over, or removed it. */
static void beat_once(td__heartbeat *heartbeat) {
    td__beat found;
    bool own = td__beat_read(heartbeat->folder, &found) &&
               strcmp(found.process, heartbeat->beat.process) == 0;
    int file = own ? td__file_open(heartbeat->folder, file_name, O_WRONLY | O_NOFOLLOW) : -1;
    if (file >= 0) {
        heartbeat->beat.count++;
        heartbeat->beat.time = td__wall_time();
        (void)write_beat(&heartbeat->beat, file); /* the next one may succeed */
    }
}

static void *beat_until_stopped(void *argument) {
    td__heartbeat *heartbeat = argument;
    pthread_mutex_lock(&heartbeat->lock);
    while (!heartbeat->stopping) {
        struct timespec until = td__deadline(every);
        if (pthread_cond_timedwait(&heartbeat->wake, &heartbeat->lock, &until) == ETIMEDOUT) {
            pthread_mutex_unlock(&heartbeat->lock);
            beat_once(heartbeat);
            pthread_mutex_lock(&heartbeat->lock);
        }
    }
    pthread_mutex_unlock(&heartbeat->lock);
    return NULL;
}

/* ---- Claiming ------------------------------------------------------------------------------- */

static td_status report_writer(const td__beat *beat, td_error *error) {
    return td_error_set(error, TD_BUSY, "another process on %s is writing into this run's folder",
                        beat->host);
}

/* Takes a dead process's file away: of several that try, the one whose rename succeeds. */
static td_status clear_dead_beat(int folder, const td__beat *own, td_error *error) {
    td__beat seen, taken;
    char aside[160];
    if (!td__beat_read(folder, &seen)) {
        (void)unlinkat(folder, file_name, 0); /* not there, or no heartbeat */
        return TD_OK;
    }
    if (td__beat_is_live(&seen)) {
        return report_writer(&seen, error);
    }
    const char *slash = strchr(own->process, '/');
    (void)snprintf(aside, sizeof aside, ".%s-%s", file_name, slash ? slash + 1 : "");
    for (char *at = aside; (at = strchr(at, '/'));) {
        *at = '-';
    }
    if (renameat(folder, file_name, folder, aside) != 0) {
        return TD_OK; /* another one was faster: the creation decides */
    }
    int file = td__file_open(folder, aside, O_RDONLY | O_NOFOLLOW);
    char text[SIZE + 1] = "";
    bool same = file >= 0 && pread(file, text, SIZE, 0) > 0 && parse_beat(text, &taken) &&
                strcmp(taken.process, seen.process) == 0 && taken.count == seen.count;
    if (file >= 0) {
        close(file);
    }
    if (!same && renameat2(folder, aside, folder, file_name, RENAME_NOREPLACE) == 0) {
        return report_writer(&seen, error);
    }
    (void)unlinkat(folder, aside, 0);
    return TD_OK;
}

static td_status create_beat(td__heartbeat *heartbeat, td_error *error) {
    td_status status = clear_dead_beat(heartbeat->folder, &heartbeat->beat, error);
    if (status) {
        return status;
    }
    int file = openat(heartbeat->folder, file_name,
                      O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (file < 0) {
        return errno == EEXIST ? td_error_set(error, TD_BUSY,
                                              "another process is writing into this run's folder")
                               : td__file_error(error, file_name, "create");
    }
    heartbeat->beat.time = td__wall_time();
    return write_beat(&heartbeat->beat, file) ? TD_OK : td__file_error(error, file_name, "write");
}

static bool init_waiting(td__heartbeat *heartbeat) {
    pthread_condattr_t monotonic;
    if (pthread_mutex_init(&heartbeat->lock, NULL) != 0 || pthread_condattr_init(&monotonic) != 0) {
        return false;
    }
    bool ready = pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) == 0 &&
                 pthread_cond_init(&heartbeat->wake, &monotonic) == 0;
    pthread_condattr_destroy(&monotonic);
    return ready;
}

td_status td__heartbeat_start(int folder, td__heartbeat **started, td_error *error) {
    td__heartbeat *heartbeat = td__calloc(1, sizeof *heartbeat);
    char machine[100], process[64];
    if (!heartbeat || !init_waiting(heartbeat)) {
        td__free(heartbeat);
        return td_error_set(error, TD_MEMORY, "out of memory for a heartbeat");
    }
    td__beat *beat = &heartbeat->beat;
    heartbeat->folder = folder;
    format_machine(machine, sizeof machine);
    (void)format_process((long long)getpid(), process, sizeof process);
    (void)snprintf(beat->process, sizeof beat->process, "%s%s", machine, process);
    (void)snprintf(beat->state, sizeof beat->state, "running");
    if (gethostname(beat->host, sizeof beat->host - 1) != 0 || !*beat->host) {
        (void)snprintf(beat->host, sizeof beat->host, "unknown");
    }
    td_status status = create_beat(heartbeat, error);
    if (!status && td__thread_start(&heartbeat->thread, beat_until_stopped, heartbeat) != 0) {
        status = td_error_set(error, TD_MEMORY, "the heartbeat's thread does not start");
    }
    if (status) {
        pthread_cond_destroy(&heartbeat->wake);
        pthread_mutex_destroy(&heartbeat->lock);
        td__free(heartbeat);
        return status;
    }
    *started = heartbeat;
    return TD_OK;
}

void td__heartbeat_stop(td__heartbeat *heartbeat, const char *state) {
    if (!heartbeat) {
        return;
    }
    pthread_mutex_lock(&heartbeat->lock);
    heartbeat->stopping = true;
    pthread_cond_signal(&heartbeat->wake);
    pthread_mutex_unlock(&heartbeat->lock);
    pthread_join(heartbeat->thread, NULL);
    (void)snprintf(heartbeat->beat.state, sizeof heartbeat->beat.state, "%.*s",
                   (int)strcspn(state, " \n"), state);
    beat_once(heartbeat);
    pthread_cond_destroy(&heartbeat->wake);
    pthread_mutex_destroy(&heartbeat->lock);
    td__free(heartbeat);
}

void td__heartbeat_remove(int folder) {
    (void)unlinkat(folder, file_name, 0);
}
