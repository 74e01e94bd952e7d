/* Preloaded into a recording program: kills it, or makes the system fail, at a chosen call.
 *
 * CRASH_MODE   count    only counts
 *              kill     SIGKILL before the call
 *              torn     a write stops at the last page boundary in it, then SIGKILL: as the kernel,
 *                       which looks for signals between two pages, and never within one
 *              ENOSPC, EIO     the call fails so; half of a write may have been made before
 *              short    a write is cut to half
 *              EINTR    the call is interrupted, nothing done
 * CRASH_AT     the first call it happens to, from 1
 * CRASH_EVERY  and every this many calls after it (default: only once)
 * CRASH_LAST   how many calls in a row each time (default 1)
 * CRASH_COUNT  a file that receives the number of calls when the program ends
 *
 * Calls are write, pwrite, rename, fsync, fdatasync, ftruncate and syncfs on regular files
 * and folders, and opening a file that may be made, by any thread, and by processes that share its
 * memory. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static atomic_long calls;
static long first, every, last;
static enum { COUNT, KILL, TORN, FAIL, SHORT, INTERRUPT } mode;
static int failure;
static pid_t program;
static const char *count_file;

static long number(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text ? atol(text) : otherwise;
}

__attribute__((constructor)) static void start(void) {
    const char *text = getenv("CRASH_MODE");
    text = text ? text : "count";
    program = getpid();
    first = number("CRASH_AT", 0);
    every = number("CRASH_EVERY", 0);
    last = number("CRASH_LAST", 1);
    count_file = getenv("CRASH_COUNT");
    failure = strcmp(text, "ENOSPC") == 0 ? ENOSPC : EIO;
    mode = strcmp(text, "count") == 0   ? COUNT
           : strcmp(text, "kill") == 0  ? KILL
           : strcmp(text, "torn") == 0  ? TORN
           : strcmp(text, "short") == 0 ? SHORT
           : strcmp(text, "EINTR") == 0 ? INTERRUPT
                                        : FAIL;
}

__attribute__((destructor)) static void finish(void) {
    FILE *file = count_file && getpid() == program ? fopen(count_file, "w") : NULL;
    if (file) {
        fprintf(file, "%ld\n", (long)calls);
        count_file = NULL;
        fclose(file);
    }
}

/* The program dies as by kill -9. A process of its own that writes for it is not hit,
 * and goes on. */
static void die(void) {
    kill(program, SIGKILL);
    while (getpid() == program) {
        pause();
    }
}

static int counts(int file) {
    struct stat stat;
    return fstat(file, &stat) == 0 && (S_ISREG(stat.st_mode) || S_ISDIR(stat.st_mode));
}

/* SQLite takes an interrupted sync for a failed one; Linux does not interrupt it. */
static int is_database(int file) {
    char link[64], path[512] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    return readlink(link, path, sizeof path - 1) > 0 && strstr(path, "run.db") != NULL;
}

static int is_due(void) {
    long call = ++calls;
    if (mode == COUNT || first == 0 || call < first) {
        return 0;
    }
    return (every ? (call - first) % every : call - first) < last;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* How much of a write the kernel may have made when the process is killed in it. */
static size_t torn_size(off64_t offset, size_t size) {
    size_t last = (size_t)(offset + (off64_t)size) % 4096;
    return last < size ? size - last : 0;
}

/* call(size) writes that much. */
#define WRITE(file, size, offset, call)                                                            \
    if (!counts(file) || !is_due()) {                                                              \
        return call(size);                                                                         \
    }                                                                                              \
    switch (mode) {                                                                                \
    case SHORT:                                                                                    \
        return call(size > 1 ? size / 2 : size);                                                   \
    case INTERRUPT:                                                                                \
        errno = EINTR;                                                                             \
        return -1;                                                                                 \
    case FAIL:                                                                                     \
        if (size > 1) {                                                                            \
            (void)!call(size / 2);                                                                 \
        }                                                                                          \
        errno = failure;                                                                           \
        return -1;                                                                                 \
    case TORN:                                                                                     \
        if (getpid() == program && torn_size(offset, size) > 0) {                                  \
            (void)!call(torn_size(offset, size));                                                  \
        }                                                                                          \
        die();                                                                                     \
        return call(size);                                                                         \
    default:                                                                                       \
        die();                                                                                     \
        return call(size);                                                                         \
    }

#define OTHER(file, call)                                                                          \
    if (!counts(file) || !is_due() || mode == SHORT || (mode == INTERRUPT && is_database(file))) { \
        return call;                                                                               \
    }                                                                                              \
    if (mode == INTERRUPT || mode == FAIL) {                                                       \
        errno = mode == FAIL ? failure : EINTR;                                                    \
        return -1;                                                                                 \
    }                                                                                              \
    die();                                                                                         \
    return call;

ssize_t write(int file, const void *data, size_t size){
#define CALL(n) REAL(write)(file, data, n)
    WRITE(file, size, lseek64(file, 0, SEEK_CUR), CALL)
#undef CALL
}

ssize_t pwrite(int file, const void *data, size_t size, off_t offset){
#define CALL(n) REAL(pwrite)(file, data, n, offset)
    WRITE(file, size, offset, CALL)
#undef CALL
}

ssize_t pwrite64(int file, const void *data, size_t size, off64_t offset) {
#define CALL(n) REAL(pwrite64)(file, data, n, offset)
    WRITE(file, size, offset, CALL)
#undef CALL
}

int fsync(int file) {
    OTHER(file, REAL(fsync)(file))
}
int fdatasync(int file) {
    OTHER(file, REAL(fdatasync)(file))
}
int syncfs(int file) {
    OTHER(file, REAL(syncfs)(file))
}
/* A full disk still takes space back. */
static int is_spared(void) {
    return mode == FAIL && failure == ENOSPC;
}

int ftruncate(int file, off_t size) {
    if (is_spared()) {
        return REAL(ftruncate)(file, size);
    }
    OTHER(file, REAL(ftruncate)(file, size))
}

int ftruncate64(int file, off64_t size) {
    if (is_spared()) {
        return REAL(ftruncate64)(file, size);
    }
    OTHER(file, REAL(ftruncate64)(file, size))
}

int renameat(int from_folder, const char *from, int to_folder, const char *to) {
    OTHER(to_folder, REAL(renameat)(from_folder, from, to_folder, to))
}

int rename(const char *from, const char *to) {
    if (is_due() && mode != SHORT) {
        if (mode == INTERRUPT || mode == FAIL) {
            errno = mode == FAIL ? failure : EINTR;
            return -1;
        }
        die();
    }
    return REAL(rename)(from, to);
}

/* Making a file: never interrupted, which Linux does to slow devices only. */
#define OPEN(flags, path, call)                                                                    \
    int made = (flags)&O_CREAT && strncmp(path, "/dev/", 5) != 0;                                  \
    if (made && is_due() && mode != SHORT && mode != INTERRUPT) {                                  \
        if (mode == FAIL) {                                                                        \
            errno = failure;                                                                       \
            return -1;                                                                             \
        }                                                                                          \
        die();                                                                                     \
    }                                                                                              \
    va_list arguments;                                                                             \
    va_start(arguments, flags);                                                                    \
    mode_t rights = made ? (mode_t)va_arg(arguments, int) : 0;                                     \
    va_end(arguments);                                                                             \
    return call;

int open(const char *path, int flags, ...) {
    OPEN(flags, path, REAL(open)(path, flags, rights))
}
int open64(const char *path, int flags, ...) {
    OPEN(flags, path, REAL(open64)(path, flags, rights))
}
int openat(int folder, const char *path, int flags, ...) {
    OPEN(flags, path, REAL(openat)(folder, path, flags, rights))
}
int openat64(int folder, const char *path, int flags, ...) {
    OPEN(flags, path, REAL(openat64)(folder, path, flags, rights))
}
