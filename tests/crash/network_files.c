/* A file system as a machine of a cluster sees it, for test_network.py.
 *
 *     network_files FOLDER DELAY MOUNT_POINT -f [FUSE options]
 *
 * Shows FOLDER under MOUNT_POINT. Locks are refused and files cannot be mapped as shared memory. With a DELAY (in
 * milliseconds) a file that was opened once under a name is shown as it was for up to that long: with the length it had,
 * and under a name that was given to another file since, the file of before. Each name has a delay of its own,
 * drawn anew each time, so changes of different files become visible in any order. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef struct seen {
    char path[512];
    int file;
    off_t size;
    double until;
    struct seen *next;
} seen;

static int base;
static double delay;
static seen *names;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static const char *below(const char *path) {
    return path[1] ? path + 1 : ".";
}

static int result(int code) {
    return code < 0 ? -errno : code;
}

/* What a name shows now: a descriptor of its own, or -errno. The lock is held. */
static int look(const char *path, off_t *size) {
    seen *name = names;
    struct stat about;
    char opened[40];
    while (name && strcmp(name->path, path) != 0) {
        name = name->next;
    }
    if (!name || now() >= name->until) {
        int file = openat(base, below(path), O_RDONLY | O_CLOEXEC);
        if (file < 0 || fstat(file, &about) != 0) {
            int reason = errno;
            if (name) {
                name->until = 0;
            }
            return -reason;
        }
        if (!name) {
            name = calloc(1, sizeof *name);
            snprintf(name->path, sizeof name->path, "%s", path);
            name->next = names;
            names = name;
        } else {
            close(name->file);
        }
        name->file = file;
        name->size = about.st_size;
        name->until = now() + delay * drand48();
    }
    *size = name->size;
    snprintf(opened, sizeof opened, "/proc/self/fd/%d", name->file);
    return result(open(opened, O_RDONLY | O_CLOEXEC));
}

static int do_getattr(const char *path, struct stat *out, struct fuse_file_info *info) {
    if (info) {
        return result(fstat((int)(info->fh & 0xffffffff), out));
    }
    if (fstatat(base, below(path), out, AT_SYMLINK_NOFOLLOW) != 0) {
        return -errno;
    }
    if (delay > 0 && S_ISREG(out->st_mode)) {
        off_t size = 0;
        pthread_mutex_lock(&lock);
        int file = look(path, &size), code = file < 0 ? file : result(fstat(file, out));
        pthread_mutex_unlock(&lock);
        if (file >= 0) {
            close(file);
        }
        out->st_size = size;
        return code;
    }
    return 0;
}

static int do_open(const char *path, struct fuse_file_info *info) {
    off_t size = 0;
    int file;
    if (delay > 0) {
        pthread_mutex_lock(&lock);
        file = (info->flags & O_ACCMODE) == O_RDONLY ? look(path, &size) : -EROFS;
        pthread_mutex_unlock(&lock);
    } else {
        file = result(openat(base, below(path), (info->flags & ~O_DIRECT) | O_CLOEXEC));
    }
    if (file < 0) {
        return file;
    }
    info->fh = (uint64_t)file | (uint64_t)size << 32; /* files of the test are below 4 GiB */
    info->direct_io = 1; /* nothing is kept, nothing is shared memory */
    return 0;
}

static int do_create(const char *path, mode_t mode, struct fuse_file_info *info) {
    if (delay > 0) {
        return -EROFS;
    }
    int file = openat(base, below(path), info->flags | O_CREAT | O_CLOEXEC, mode);
    info->fh = (uint64_t)(uint32_t)file;
    info->direct_io = 1;
    return file < 0 ? -errno : 0;
}

static int do_read(const char *path, char *out, size_t size, off_t at,
                   struct fuse_file_info *info) {
    (void)path;
    off_t end = (off_t)(info->fh >> 32);
    if (delay > 0) {
        size = at >= end ? 0 : (off_t)size > end - at ? (size_t)(end - at) : size;
    }
    return result((int)pread((int)(info->fh & 0xffffffff), out, size, at));
}

static int do_write(const char *path, const char *data, size_t size, off_t at,
                    struct fuse_file_info *info) {
    (void)path;
    return result((int)pwrite((int)info->fh, data, size, at));
}

static int do_release(const char *path, struct fuse_file_info *info) {
    (void)path;
    return result(close((int)(info->fh & 0xffffffff)));
}

static int do_truncate(const char *path, off_t size, struct fuse_file_info *info) {
    if (info) {
        return result(ftruncate((int)info->fh, size));
    }
    int file = openat(base, below(path), O_WRONLY | O_CLOEXEC);
    int code = file < 0 ? -errno : result(ftruncate(file, size));
    if (file >= 0) {
        close(file);
    }
    return code;
}

static int do_fsync(const char *path, int data, struct fuse_file_info *info) {
    (void)path, (void)data, (void)info; /* processes are killed here, not machines */
    return 0;
}

static int do_mkdir(const char *path, mode_t mode) {
    return result(mkdirat(base, below(path), mode));
}

static int do_unlink(const char *path) {
    return result(unlinkat(base, below(path), 0));
}

static int do_rmdir(const char *path) {
    return result(unlinkat(base, below(path), AT_REMOVEDIR));
}

static int do_rename(const char *from, const char *to, unsigned flags) {
    return result(renameat2(base, below(from), base, below(to), flags));
}

static int do_readdir(const char *path, void *buffer, fuse_fill_dir_t fill, off_t at,
                      struct fuse_file_info *info, enum fuse_readdir_flags flags) {
    (void)at, (void)info, (void)flags;
    int folder = openat(base, below(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *entries = folder < 0 ? NULL : fdopendir(folder);
    if (!entries) {
        return -errno;
    }
    for (struct dirent *entry; (entry = readdir(entries));) {
        fill(buffer, entry->d_name, NULL, 0, 0);
    }
    closedir(entries);
    return 0;
}

static int do_lock(const char *path, struct fuse_file_info *info, int command,
                   struct flock *range) {
    (void)path, (void)info, (void)command, (void)range;
    return -ENOLCK;
}

static int do_flock(const char *path, struct fuse_file_info *info, int operation) {
    (void)path, (void)info, (void)operation;
    return -ENOLCK;
}

static void *do_init(struct fuse_conn_info *connection, struct fuse_config *config) {
    (void)connection;
    config->entry_timeout = config->attr_timeout = config->negative_timeout = 0;
    config->hard_remove = 1;
    config->use_ino = 1;
    return NULL;
}

static const struct fuse_operations operations = {
    .getattr = do_getattr,
    .open = do_open,
    .create = do_create,
    .read = do_read,
    .write = do_write,
    .release = do_release,
    .truncate = do_truncate,
    .fsync = do_fsync,
    .fsyncdir = do_fsync,
    .mkdir = do_mkdir,
    .unlink = do_unlink,
    .rmdir = do_rmdir,
    .rename = do_rename,
    .readdir = do_readdir,
    .lock = do_lock,
    .flock = do_flock,
    .init = do_init,
};

int main(int count, char **arguments) {
    if (count < 4) {
        fprintf(stderr, "usage: network_files FOLDER DELAY MOUNT_POINT [FUSE options]\n");
        return 2;
    }
    base = open(arguments[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    delay = atof(arguments[2]) / 1000;
    arguments[2] = arguments[0];
    return base < 0 ? 2 : fuse_main(count - 2, arguments + 2, &operations, NULL);
}
