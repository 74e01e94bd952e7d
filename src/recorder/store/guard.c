#include "store/guard.h"

#include "base/memory.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILES = 2, PATH_SIZE = 4096 };

/* What SQLite locks while a connection is open in WAL mode: pages' shared lock, and the dead man's
 * switch of the index (os_unix.c; part of its file format). */
static const struct {
    const char *ending;
    off_t start, length;
} locked[FILES] = {{"", 0x40000000 + 2, 510}, {"-shm", 128, 1}};

struct td__guard {
    dev_t device;
    ino_t number;
    int connections, holders;
    int files[FILES]; /* -1: not open */
    td__guard *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static td__guard *guards; /* under lock, as is all that is in them */

td__guard *td__guard_enter(const char *path) {
    struct stat about;
    if (stat(path, &about) != 0) {
        return NULL;
    }
    pthread_mutex_lock(&lock);
    td__guard *guard = guards;
    while (guard && (guard->device != about.st_dev || guard->number != about.st_ino)) {
        guard = guard->next;
    }
    if (!guard && (guard = td__calloc(1, sizeof *guard))) {
        *guard = (td__guard){
            .device = about.st_dev, .number = about.st_ino, .files = {-1, -1}, .next = guards};
        guards = guard;
    }
    if (guard) {
        guard->connections++;
    }
    pthread_mutex_unlock(&lock);
    return guard;
}

static void set_lock(int file, short type, int i) {
    struct flock range = {.l_type = type,
                          .l_whence = SEEK_SET,
                          .l_start = locked[i].start,
                          .l_len = locked[i].length};
    (void)fcntl(file, F_OFD_SETLK, &range);
}

/* Opens what is under the name now: an index is another file when all had closed it meanwhile. */
static void reopen_file(int *file, const char *name) {
    struct stat now, then;
    bool same = *file >= 0 && stat(name, &now) == 0 && fstat(*file, &then) == 0 &&
                now.st_dev == then.st_dev && now.st_ino == then.st_ino;
    if (!same && *file >= 0) {
        close(*file);
    }
    *file = same ? *file : open(name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
}

void td__guard_hold(td__guard *guard, const char *path) {
    char name[PATH_SIZE];
    pthread_mutex_lock(&lock);
    for (int i = 0; i < FILES; i++) {
        (void)snprintf(name, sizeof name, "%s%s", path, locked[i].ending);
        reopen_file(&guard->files[i], name);
        if (guard->files[i] >= 0) {
            set_lock(guard->files[i], F_RDLCK, i);
        }
    }
    guard->holders++;
    pthread_mutex_unlock(&lock);
}

void td__guard_drop(td__guard *guard) {
    pthread_mutex_lock(&lock);
    guard->holders--;
    for (int i = 0; i < FILES && !guard->holders; i++) {
        if (guard->files[i] >= 0) {
            set_lock(guard->files[i], F_UNLCK, i);
        }
    }
    pthread_mutex_unlock(&lock);
}

static void destroy_guard(td__guard *guard) {
    td__guard **at = &guards;
    while (*at != guard) {
        at = &(*at)->next;
    }
    *at = guard->next;
    for (int i = 0; i < FILES; i++) {
        if (guard->files[i] >= 0) {
            close(guard->files[i]);
        }
    }
    td__free(guard);
}

void td__guard_leave(td__guard *guard) {
    if (!guard) {
        return;
    }
    pthread_mutex_lock(&lock);
    if (--guard->connections == 0) {
        destroy_guard(guard);
    }
    pthread_mutex_unlock(&lock);
}
