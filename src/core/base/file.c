/* Complete writes, atomic publishing and safe names; see file.h. */
#include "base/file.h"

#include "base/hash.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define ROOM "room"

static const int file_signals[] = {SIGXFSZ, SIGPIPE};

void td__block_file_signals(sigset_t *before) {
    sigset_t both;
    sigemptyset(&both);
    for (size_t i = 0; i < sizeof file_signals / sizeof *file_signals; i++) {
        sigaddset(&both, file_signals[i]);
    }
    pthread_sigmask(SIG_BLOCK, &both, before);
}

void td__unblock_file_signals(const sigset_t *before) {
    int reason = errno;
    for (size_t i = 0; i < sizeof file_signals / sizeof *file_signals; i++) {
        sigset_t one;
        sigemptyset(&one);
        sigaddset(&one, file_signals[i]);
        if (sigismember(before, file_signals[i]) == 0) { /* otherwise it waits, as it would have */
            (void)sigtimedwait(&one, NULL, &(struct timespec){0});
        }
    }
    pthread_sigmask(SIG_SETMASK, before, NULL);
    errno = reason;
}

static bool write_all(int file, const void *data, size_t size, off_t offset) {
    const char *bytes = data;
    while (size > 0) {
        ssize_t written = pwrite(file, bytes, size, offset);
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            errno = written == 0 ? ENOSPC : errno;
            return false;
        }
        bytes += written;
        offset += written;
        size -= (size_t)written;
    }
    return true;
}

bool td__write_all(int file, const void *data, size_t size, off_t offset) {
    sigset_t before;
    td__block_file_signals(&before);
    bool good = write_all(file, data, size, offset);
    td__unblock_file_signals(&before);
    return good;
}

bool td__read_all(int file, void *data, size_t size, off_t offset) {
    char *bytes = data;
    while (size > 0) {
        ssize_t got = pread(file, bytes, size, offset);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            errno = got == 0 ? EIO : errno;
            return false;
        }
        bytes += got;
        offset += got;
        size -= (size_t)got;
    }
    return true;
}

/* errno of what is no regular file. */
enum { NOT_REGULAR = EMEDIUMTYPE };

/* In English, whatever the program's locale is: glibc's "C" locale is static, so it is neither allocated nor
 * released. strerrordesc_np would do, but glibc 2.31 does not have it. */
const char *td__file_reason(int reason) {
    locale_t english = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    return reason == NOT_REGULAR ? "it is not a regular file"
           : reason == ELOOP     ? "it is a symbolic link, or a loop of them"
           : english             ? strerror_l(reason, english)
                                 : "for an unknown reason";
}

td_status td__file_error(td_error *error, const char *name, const char *verb) {
    return td_error_set(error, TD_IO, "%s: cannot %s: %s", name, verb, td__file_reason(errno));
}

int td__file_open(int folder, const char *name, int flags) {
    struct stat about;
    int file = openat(folder, name, flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (file >= 0 && (fstat(file, &about) != 0 || !S_ISREG(about.st_mode))) {
        close(file);
        errno = NOT_REGULAR;
        return -1;
    }
    return file;
}

td_status td__file_set_aside(int folder, const char *name, char aside[TD__ASIDE_SIZE],
                             td_error *error) {
    enum { MOST = 1000 };
    int failed = -1;
    for (int number = 1; number <= MOST && failed != 0; number++) {
        (void)snprintf(aside, TD__ASIDE_SIZE, number > 1 ? "%.255s.damaged-%d" : "%.255s.damaged",
                       name, number);
        failed = renameat2(folder, name, folder, aside, RENAME_NOREPLACE);
        if (failed && errno != EEXIST) {
            break;
        }
    }
    return failed ? td__file_error(error, name, "set aside") : TD_OK;
}

int td__folder_open(const char *path, td_error *error) {
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) {
        td__file_error(error, path, "open the folder");
    }
    return folder;
}

int td__folder_create(int folder, const char *name, td_error *error) {
    if (mkdirat(folder, name, 0777) != 0 && errno != EEXIST) {
        td__file_error(error, name, "create the folder");
        return -1;
    }
    int created = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (created < 0) {
        td__file_error(error, name, "open the folder");
    }
    return created;
}

int td__folder_of(const char *path, const char **name, td_error *error) {
    const char *slash = strrchr(path, '/');
    *name = slash ? slash + 1 : path;
    char *folder = td__strdup(slash ? path : ".");
    if (!folder) {
        (void)td_error_set(error, TD_MEMORY, "%s: out of memory", path);
        return -1;
    }
    if (slash) {
        folder[slash == path ? 1 : slash - path] = 0;
    }
    int opened = td__folder_open(folder, error);
    td__free(folder);
    return opened;
}

bool td__folder_follow(int folder, char out[TD__FOLDER_PATH]) {
    (void)snprintf(out, TD__FOLDER_PATH, "/proc/self/fd/%d", folder);
    return access(out, X_OK) == 0;
}

char *td__folder_whereabouts(int folder) {
    enum { MOST = 4096 };
    char path[TD__FOLDER_PATH];
    struct stat opened, named;
    char *name = td__folder_follow(folder, path) ? td__calloc(MOST, 1) : NULL;
    bool found = name && readlink(path, name, MOST - 1) > 0 && fstat(folder, &opened) == 0 &&
                 stat(name, &named) == 0 && named.st_dev == opened.st_dev &&
                 named.st_ino == opened.st_ino;
    if (!found) {
        td__free(name);
    }
    return found ? name : NULL;
}

bool td__sync(int (*sync)(int file), int file) {
    int result;
    do {
        result = sync(file);
    } while (result != 0 && errno == EINTR);
    return result == 0;
}

void td__mapped_release(const void *data, size_t size) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)data;
    uintptr_t first = (from + page - 1) & ~(page - 1), last = (from + size) & ~(page - 1);
    if (first < last) {
        (void)madvise((void *)first, last - first, MADV_DONTNEED);
    }
}

/* ".NAME.ENDING": hidden, and never a signal's file name, which begins with no '.'. */
static td_status make_hidden_name(char out[TD__HIDDEN_SIZE], const char *name, const char *ending,
                                  td_error *error) {
    return (size_t)snprintf(out, TD__HIDDEN_SIZE, ".%s.%s", name, ending) < TD__HIDDEN_SIZE
               ? TD_OK
               : td_error_set(error, TD_INVALID, "%s: the name is too long", name);
}

/* Replaces a file that a crash or another program left behind. */
static int create_hidden(int folder, const char *hidden) {
    (void)unlinkat(folder, hidden, 0);
    return openat(folder, hidden, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
}

td_status td__file_reserve(int folder, const char *name, int64_t size, td_error *error) {
    char hidden[TD__HIDDEN_SIZE];
    td_status status = make_hidden_name(hidden, name, ROOM, error);
    int file = status ? -1 : create_hidden(folder, hidden), failed;
    if (file < 0) {
        return status ? status : td__file_error(error, name, "reserve room");
    }
    do { /* its size stays 0: who copies the folder copies nothing */
        failed = fallocate(file, FALLOC_FL_KEEP_SIZE, 0, size) == 0 ? 0 : errno;
    } while (failed == EINTR);
    close(file);
    if (failed) {
        (void)unlinkat(folder, hidden, 0);
    }
    errno = failed;
    return !failed || failed == EOPNOTSUPP || failed == ENOSYS
               ? TD_OK
               : td__file_error(error, name, "reserve room");
}

bool td__file_reserved_for(int folder, const char *name, const char *other) {
    char from[TD__HIDDEN_SIZE], to[TD__HIDDEN_SIZE];
    return !make_hidden_name(from, name, ROOM, NULL) && !make_hidden_name(to, other, ROOM, NULL) &&
           renameat(folder, from, folder, to) == 0;
}

bool td__file_recycle(int folder, const char *file, const char *name) {
    char hidden[TD__HIDDEN_SIZE];
    return !make_hidden_name(hidden, name, ROOM, NULL) &&
           renameat(folder, file, folder, hidden) == 0;
}

void td__file_unreserve(int folder, const char *name) {
    char hidden[TD__HIDDEN_SIZE];
    if (!make_hidden_name(hidden, name, ROOM, NULL)) {
        (void)unlinkat(folder, hidden, 0);
    }
}

td_status td__draft_create(td__draft *draft, int folder, const char *name, td_error *error) {
    struct stat about;
    *draft = (td__draft){.folder = folder, .name = name};
    td_status status = make_hidden_name(draft->hidden, name, "new", error);
    if (status) {
        return status;
    }
    draft->device = fstatat(folder, name, &about, 0) == 0 && S_ISCHR(about.st_mode);
    draft->file = draft->device ? openat(folder, name, O_WRONLY | O_CLOEXEC)
                                : create_hidden(folder, draft->hidden);
    return draft->file < 0 ? td__file_error(error, name, "create") : TD_OK;
}

td_status td__draft_create_sized(td__draft *draft, int folder, const char *name, int64_t size,
                                 td_error *error) {
    char room[TD__HIDDEN_SIZE];
    *draft = (td__draft){.folder = folder, .name = name, .size = size};
    if (!make_hidden_name(draft->hidden, name, "new", NULL) &&
        !make_hidden_name(room, name, ROOM, NULL) &&
        renameat(folder, room, folder, draft->hidden) == 0) {
        draft->file = td__file_open(folder, draft->hidden, O_WRONLY | O_NOFOLLOW);
        if (draft->file >= 0) {
            return TD_OK;
        }
    }
    return td__draft_create(draft, folder, name, error);
}

td_status td__draft_end(td__draft *draft, bool good, bool durable, td_error *error) {
    if (good && draft->size) { /* gives back what was reserved and is not needed */
        good = ftruncate(draft->file, draft->size) == 0;
    }
    good = good && (!durable || draft->device || td__sync(fdatasync, draft->file));
    int reason = errno;
    if (close(draft->file) != 0 && good) {
        good = false;
        reason = errno;
    }
    while (good && !draft->device &&
           renameat(draft->folder, draft->hidden, draft->folder, draft->name) != 0) {
        good = errno == EINTR;
        reason = errno;
    }
    if (good) {
        return TD_OK;
    }
    if (!draft->device) {
        unlinkat(draft->folder, draft->hidden, 0);
    }
    errno = reason;
    return td__file_error(error, draft->name, "write");
}

td_status td__file_publish(int folder, const char *name, const void *data, size_t size,
                           bool durable, td_error *error) {
    td__draft draft;
    td_status status = td__draft_create(&draft, folder, name, error);
    return status ? status
                  : td__draft_end(&draft, td__write_all(draft.file, data, size, 0), durable, error);
}

FILE *td__draft_open(td__draft *draft, const char *path, td_error *error) {
    const char *name;
    int folder = td__folder_of(path, &name, error);
    td_error reason = {0};
    if (folder < 0) {
        return NULL;
    }
    if (td__draft_create(draft, folder, name, &reason)) { /* the reason names the file alone */
        (void)td_error_set(error, reason.status, "%.*s%s", (int)(name - path), path, reason.text);
        close(folder);
        return NULL;
    }
    int file = fcntl(draft->file, F_DUPFD_CLOEXEC, 0);
    FILE *stream = file >= 0 ? fdopen(file, "wb") : NULL;
    if (!stream) {
        (void)td__file_error(error, path, "create");
        if (file >= 0) {
            close(file);
        }
        (void)!td__draft_end(draft, false, false, NULL);
        close(folder);
    }
    return stream;
}

bool td__draft_close(td__draft *draft, FILE *stream, bool good) {
    good = !ferror(stream) && good; /* of a write before: what is left may be written */
    good = fclose(stream) == 0 && good;
    good = !td__draft_end(draft, good, false, NULL);
    int reason = errno;
    close(draft->folder);
    errno = reason;
    return good;
}

/* Mixed once more so that every bit of the name reaches every digit. */
static uint64_t hash_name(const char *name) {
    uint64_t hash = td__hash_text(name);
    hash ^= hash >> 32;
    hash *= 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

static bool is_plain(char c, bool first) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || (c == '.' && !first);
}

char *td__file_name(char out[TD__FILE_NAME_SIZE], const char *signal) {
    enum { SUFFIX = 17 };
    static const char hex[] = "0123456789ABCDEF";
    if (!*signal) {
        return memcpy(out, "%00", 4);
    }
    size_t length = 0, cut = 0; /* cut: how much stays when a suffix must fit */
    for (const char *at = signal; *at; at++) {
        bool plain = is_plain(*at, at == signal);
        size_t size = plain ? 1 : 3;
        if (length + size > TD__FILE_NAME_LENGTH) {
            snprintf(out + cut, SUFFIX + 1, "~%016llx", (unsigned long long)hash_name(signal));
            return out;
        }
        if (plain) {
            out[length] = *at;
        } else {
            out[length] = '%';
            out[length + 1] = hex[(uint8_t)*at >> 4];
            out[length + 2] = hex[(uint8_t)*at & 15];
        }
        length += size;
        cut = length <= TD__FILE_NAME_LENGTH - SUFFIX ? length : cut;
    }
    out[length] = 0;
    return out;
}
