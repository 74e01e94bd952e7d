/* Preloaded into a program: the power fails at a chosen call, and takes with it what was not synced.
 *
 * POWER_AT     the call before which it fails, from 1; 0: never
 * POWER_SEED   decides which unsynced writes are lost
 * POWER_COUNT  a file that receives the number of calls when the program ends
 *
 * Calls are write, pwrite, ftruncate, fsync, fdatasync and syncfs on regular files. Every write is
 * remembered with what was there before. When the power fails, each write that no sync came after is
 * kept, or lost sector by sector, the latest first; a file that grew by it may be cut again. Then the process and its helpers die. Renames and new names are kept, as by a journal.
 *
 * No lock and no malloc: a helper process that shares the memory may be the one that writes. */
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_WRITES = 1 << 20, MOST_FILES = 4096 };
static const size_t ROOM = (size_t)1 << 30; /* of what was there before; only touched pages cost */

typedef struct entry {
    int file;                        /* index in files */
    int64_t offset, size, file_size; /* file_size: before the write */
    const char *before;              /* as much of it as there was */
    int64_t before_size;
    _Atomic int synced;
} entry;

static struct {
    _Atomic uint64_t inode; /* 0: free */
    uint64_t device;
    _Atomic int handle; /* one of our own, whatever happens to the name; from 1 */
} files[MOST_FILES];
static entry *entries;
static char *room;
static atomic_long calls, entry_count;
static atomic_size_t used;
static atomic_int dead;
static long at;
static uint64_t seed;
static pid_t program;
static const char *count_file;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

__attribute__((constructor)) static void start(void) {
    const char *text = getenv("POWER_AT");
    at = text ? atol(text) : 0;
    text = getenv("POWER_SEED");
    seed = text ? (uint64_t)atol(text) : 1;
    count_file = getenv("POWER_COUNT");
    program = getpid();
    int flags = MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE;
    entries = mmap(NULL, MOST_WRITES * sizeof *entries, PROT_READ | PROT_WRITE, flags, -1, 0);
    room = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, flags, -1, 0);
}

__attribute__((destructor)) static void finish(void) {
    FILE *file = count_file && getpid() == program ? fopen(count_file, "w") : NULL;
    if (file) {
        fprintf(file, "%ld\n", (long)calls);
        count_file = NULL;
        fclose(file);
    }
}

static uint64_t mixed(uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* The index of an open regular file; -1 for anything else. */
static int file_index(int fd) {
    struct stat status;
    if (fstat(fd, &status) || !S_ISREG(status.st_mode)) {
        return -1;
    }
    for (int i = 0; i < MOST_FILES; i++) {
        uint64_t found = files[i].inode, free_slot = 0;
        if (found == 0 &&
            atomic_compare_exchange_strong(&files[i].inode, &free_slot, status.st_ino)) {
            char path[64];
            snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
            files[i].device = status.st_dev;
            files[i].handle = 1 + open(path, O_RDWR | O_CLOEXEC);
            return i;
        }
        if (files[i].inode == status.st_ino && files[i].device == status.st_dev) {
            return i;
        }
    }
    return -1;
}

static int64_t size_of(int fd) {
    struct stat status;
    return fstat(fd, &status) ? 0 : status.st_size;
}

/* Sectors of what was overwritten are old or new; of what was added, there, zeros, or gone with the
 * size. */
static void undo(const entry *e, uint64_t luck) {
    int handle = files[e->file].handle - 1;
    if (handle < 0 || luck % 3 == 0) {
        return; /* it reached the disk */
    }
    if (e->size < 0) { /* a truncation */
        (void)!REAL(ftruncate64)(handle, e->file_size);
        (void)!REAL(pwrite64)(handle, e->before, (size_t)e->before_size, e->offset);
        return;
    }
    int64_t end = e->offset + e->size;
    if (luck % 3 == 1 && end > e->file_size && size_of(handle) <= end) {
        (void)!REAL(ftruncate64)(handle, e->file_size);
        end = e->file_size;
    }
    for (int64_t sector = e->offset; sector < end;) {
        int64_t next = sector / 512 * 512 + 512, size = (next < end ? next : end) - sector;
        int64_t old = e->offset + e->before_size - sector; /* bytes of it that were there before */
        char text[512] = {0};
        luck = mixed(luck);
        if (old > 0) {
            memcpy(text, e->before + (sector - e->offset), (size_t)(old < size ? old : size));
        }
        if (luck % 2) {
            (void)!REAL(pwrite64)(handle, text, (size_t)size, sector);
        }
        sector += size;
    }
}

/* Never returns. */
static void fail(void) {
    if (!atomic_exchange(&dead, 1)) {
        for (long i = entry_count < MOST_WRITES ? entry_count : MOST_WRITES; i-- > 0;) {
            if (!entries[i].synced) {
                undo(&entries[i], mixed(seed * 1000003 + (uint64_t)i));
            }
        }
        kill(program, SIGKILL);
    }
    if (getpid() != program) {
        _exit(0); /* a helper */
    }
    for (;;) {
        pause();
    }
}

static void count(void) {
    if (dead || (++calls == at && at)) {
        fail();
    }
}

/* Remembers what is at offset, before size bytes are written there (size < 0: before the file is cut
 * at offset). */
static void remember(int fd, int64_t offset, int64_t size) {
    int file = file_index(fd);
    long i = file < 0 || !entries || !room ? MOST_WRITES : entry_count++;
    if (i >= MOST_WRITES || files[file].handle < 1) {
        return;
    }
    entry *e = &entries[i];
    int64_t file_size = size_of(fd), end = size < 0 ? file_size : offset + size;
    end = end < file_size ? end : file_size;
    *e = (entry){.file = file, .offset = offset, .size = size, .file_size = file_size};
    if (end > offset) {
        size_t place = atomic_fetch_add(&used, (size_t)(end - offset));
        if (place + (size_t)(end - offset) <= ROOM) {
            ssize_t got =
                pread64(files[file].handle - 1, room + place, (size_t)(end - offset), offset);
            e->before = room + place;
            e->before_size = got > 0 ? got : 0;
        }
    }
}

static void synced(int fd, int all) {
    int file = all ? -1 : file_index(fd);
    for (long i = 0; i < entry_count && i < MOST_WRITES; i++) {
        if (all || entries[i].file == file) {
            entries[i].synced = 1;
        }
    }
}

ssize_t write(int file, const void *data, size_t size) {
    struct stat status;
    if (fstat(file, &status) == 0 && S_ISREG(status.st_mode)) {
        count();
        int appends = fcntl(file, F_GETFL) & O_APPEND;
        remember(file, appends ? status.st_size : lseek64(file, 0, SEEK_CUR), (int64_t)size);
    }
    return REAL(write)(file, data, size);
}

ssize_t pwrite64(int file, const void *data, size_t size, off64_t offset) {
    count();
    remember(file, offset, (int64_t)size);
    return REAL(pwrite64)(file, data, size, offset);
}
ssize_t pwrite(int file, const void *data, size_t size, off_t offset) {
    return pwrite64(file, data, size, offset);
}

int ftruncate64(int file, off64_t size) {
    count();
    if (size < size_of(file)) {
        remember(file, size, -1);
    }
    return REAL(ftruncate64)(file, size);
}
int ftruncate(int file, off_t size) {
    return ftruncate64(file, size);
}

int fsync(int file) {
    count();
    int result = REAL(fsync)(file);
    synced(file, 0);
    return result;
}
int fdatasync(int file) {
    count();
    int result = REAL(fdatasync)(file);
    synced(file, 0);
    return result;
}
int syncfs(int file) {
    count();
    int result = REAL(syncfs)(file);
    synced(file, 1);
    return result;
}
