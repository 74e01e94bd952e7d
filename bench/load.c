/* How fast a saved model loads, beside reading its file into memory that is as fresh.
 *
 *   load [MEBIBYTES [.safetensors | .keras]]     (default 500 .safetensors)
 *
 * A dense model of that size is saved once, then loaded and read in turns, from the page cache; the
 * medians and their ratio are shown, and the most memory the process has had. */
#include "tapedeck/model.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 7, UNITS = 2048 };

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void check(bool good, const char *what) {
    if (!good) {
        (void)fprintf(stderr, "load: %s\n", what);
        exit(1);
    }
}

static int by_value(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double median(double times[ROUNDS]) {
    qsort(times, ROUNDS, sizeof *times, by_value);
    return times[ROUNDS / 2];
}

/* In a process of its own, whose memory does not count. */
static void save(const char *path, long mebibytes) {
    pid_t child = fork();
    if (child != 0) {
        int status = 1;
        check(child > 0 && waitpid(child, &status, 0) == child && status == 0, "cannot save");
        return;
    }
    td_error error = {0};
    td_model *model = td_model_create("large", TD_SHAPE(UNITS));
    for (long i = 0; i * UNITS * UNITS * 4 < mebibytes << 20; i++) {
        td_add_dense(model, .units = UNITS, .kernel_initializer = {.kind = TD_ZEROS});
    }
    check(!td_model_build(model, 1, &error) && !td_model_save(model, path, 0, NULL, &error),
          error.text);
    _exit(0);
}

static double time_read(const char *path) {
    double began = seconds();
    struct stat about;
    int file = open(path, O_RDONLY);
    check(file >= 0 && !fstat(file, &about), "cannot open the file");
    char *bytes = malloc((size_t)about.st_size);
    check(bytes, "no memory");
    for (off_t at = 0; at < about.st_size;) {
        ssize_t got = read(file, bytes + at, (size_t)(about.st_size - at));
        check(got > 0, "cannot read the file");
        at += got;
    }
    double took = seconds() - began;
    check(bytes[about.st_size - 1] == 0, "the file is not what was written");
    free(bytes);
    close(file);
    return took;
}

static double time_load(const char *path) {
    td_error error = {0};
    double began = seconds();
    td_model *model = td_model_load(path, &error);
    double took = seconds() - began;
    check(model, error.text);
    td_model_destroy(model);
    return took;
}

static long most_memory(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss >> 10;
}

int main(int count, char **arguments) {
    long mebibytes = count > 1 ? strtol(arguments[1], NULL, 10) : 500;
    const char *ending = count > 2 ? arguments[2] : ".safetensors";
    char path[64];
    (void)snprintf(path, sizeof path, "/tmp/td_load_XXXXXX%s", ending);
    int file = mkstemps(path, (int)strlen(ending));
    check(file >= 0 && mebibytes > 0, "expected a size in mebibytes, and a /tmp to write to");
    close(file);
    save(path, mebibytes);
    double read_times[ROUNDS], load_times[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        read_times[i] = time_read(path);
        load_times[i] = time_load(path);
    }
    (void)unlink(path);
    double reading = median(read_times), loading = median(load_times);
    printf("%ld MiB of %s: read() %.0f ms, td_model_load %.0f ms, ratio %.2f; at most %ld MiB of "
           "memory\n",
           mebibytes, ending, reading * 1e3, loading * 1e3, loading / reading, most_memory());
    return 0;
}
