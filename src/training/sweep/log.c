#include "base/file.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/parse.h"
#include "sweep/sweep.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_LOG = 64 << 20, MAX_EPOCHS = 10000000 };

static void log_path(const td_sweep *sweep, const td__trial *trial, char path[TD__SWEEP_PATH]) {
    (void)snprintf(path, TD__SWEEP_PATH, "%s/%s.log", sweep->folder, trial->name);
}

/* A line without its end; false when it is none of ours. */
static bool take_line(td__trial *trial, const char *line) {
    char *end;
    double value = 0;
    if (!strncmp(line, "end ", 4)) {
        trial->end = !strcmp(line + 4, "diverged") ? TD__TRIAL_DIVERGED : TD__TRIAL_FINISHED;
        return trial->end == TD__TRIAL_DIVERGED || !strcmp(line + 4, "finished");
    }
    if (!strncmp(line, "pause ", 6)) {
        trial->paused = strtoll(line + 6, &end, 10);
        return end > line + 6 && !*end && trial->paused >= 1 && trial->paused <= trial->epochs;
    }
    errno = 0;
    long long epoch = strtoll(line, &end, 10);
    const char *rest = *end == ' ' ? td__parse_float64(end + 1, &value) : NULL;
    if (errno || !rest || *rest || epoch < 1 || epoch > trial->epochs + 1 || epoch > MAX_EPOCHS ||
        !td__grow(&trial->metric, &trial->room, (size_t)epoch, MAX_EPOCHS, sizeof(double))) {
        return false;
    }
    trial->metric[epoch - 1] = value;
    trial->epochs = epoch > trial->epochs ? epoch : trial->epochs;
    return true;
}

static td_status take_text(td__trial *trial, const char *path, char *text, td_error *error) {
    int64_t number = 1;
    for (char *line = text, *next; (next = strchr(line, '\n')); line = next + 1, number++) {
        *next = 0;
        if (!take_line(trial, line)) {
            return td_error_set(error, TD_FORMAT,
                                "%s:%lld: not a line of a sweep's log; remove the file and its "
                                "run's folder, and the trial is trained again",
                                path, (long long)number);
        }
    } /* what has no line end was being written when the process was killed */
    return TD_OK;
}

td_status td__trial_read(const td_sweep *sweep, td__trial *trial, td_error *error) {
    char path[TD__SWEEP_PATH];
    struct stat about;
    log_path(sweep, trial, path);
    trial->epochs = trial->paused = 0;
    trial->end = TD__TRIAL_OPEN;
    int file = td__file_open(AT_FDCWD, path, O_RDONLY);
    if (file < 0) {
        return errno == ENOENT ? TD_OK : td__file_error(error, path, "read");
    }
    td_status status = TD_OK;
    char *text = NULL;
    if (fstat(file, &about) != 0 || about.st_size > MAX_LOG) {
        status = td_error_set(error, TD_RANGE, "%s: too large for a sweep's log", path);
    } else if (!(text = td__calloc((size_t)about.st_size + 1, 1))) {
        status = td_error_set(error, TD_MEMORY, "out of memory");
    } else if (!td__read_all(file, text, (size_t)about.st_size, 0)) {
        status = td__file_error(error, path, "read");
    }
    status = status ? status : take_text(trial, path, text, error);
    td__free(text);
    close(file);
    return status;
}

/* Where the last whole line ends. */
static off_t whole_lines(int file, off_t size) {
    char byte;
    while (size > 0 && (pread(file, &byte, 1, size - 1) != 1 || byte != '\n')) {
        size--;
    }
    return size;
}

int td__trial_log(const td_sweep *sweep, const td__trial *trial, bool go_on, td_error *error) {
    char path[TD__SWEEP_PATH];
    struct stat about;
    log_path(sweep, trial, path);
    int file = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    bool good = file >= 0 && fstat(file, &about) == 0 &&
                ftruncate(file, go_on ? whole_lines(file, about.st_size) : 0) == 0;
    if (!good) {
        td__file_error(error, path, "write");
        if (file >= 0) {
            close(file);
        }
        return -1;
    }
    return file;
}

/* One write: of a process that is killed, a line is there or not. */
static bool append(int log, const char *line, int length) {
    return length > 0 && write(log, line, (size_t)length) == length;
}

bool td__trial_log_epoch(int log, int64_t epoch, double value) {
    char line[TD__NUMBER_ROOM + 32], number[TD__NUMBER_ROOM];
    number[td__format_double(number, value)] = 0;
    return append(log, line, snprintf(line, sizeof line, "%lld %s\n", (long long)epoch, number));
}

bool td__trial_log_pause(int log, int64_t epoch) {
    char line[64];
    return append(log, line, snprintf(line, sizeof line, "pause %lld\n", (long long)epoch));
}

bool td__trial_log_end(int log, td__trial_end end) {
    return end == TD__TRIAL_DIVERGED ? append(log, "end diverged\n", 13)
                                     : append(log, "end finished\n", 13);
}
