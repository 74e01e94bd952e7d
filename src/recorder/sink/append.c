/* Growing files; see append.h.
 *
 * Lines and kill -9. The kernel copies a write into the page cache page by page and gives up
 * between two pages when the writing process has been killed, so half a line would stay behind, and
 * a CSV reader would take "0.1" for the beginning of "0.123". A write that crosses a page is
 * therefore made by a process of its own (clone: the same memory, nothing to copy, about 50 us),
 * which the signal does not reach: it finishes the write and ends. Without a page boundary in it a
 * write is complete or absent anyway.
 */
#include "sink/append.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/network.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    PAGE = 4096,                   /* the smallest there is */
    BUFFER = 4 * TD__APPEND_PIECE, /* a buffer may get this full while writing fails */
    SET_BUFFERED = 16 << 20,       /* all buffers of a set */
    STACK = 64 << 10,
};
/* The thread sanitizer takes every clone for a fork, and stops watching the thread. */
#if defined(__SANITIZE_THREAD__)
#define CAN_WRITE_APART false
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CAN_WRITE_APART false
#endif
#endif
#ifndef CAN_WRITE_APART
#define CAN_WRITE_APART true
#endif

static const size_t buffer_maximum = (size_t)1 << 32; /* one row of a very long record */
static const double commit_seconds = 0.25, network_seconds = 1;

/* --- writing ---------------------------------------------------------------------------------- */

typedef struct piece {
    int file;
    const void *data;
    size_t size;
    off_t offset;
} piece;

/* Runs as a process: the exit code is errno. */
static int write_piece(void *argument) {
    const piece *p = argument;
    return td__write_all(p->file, p->data, p->size, p->offset) ? 0 : errno;
}

static bool write_apart(td__append_set *set, piece *p) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* the child runs none of our handlers */
    /* Exit signal 0: the host program neither gets a SIGCHLD nor finds the child in wait(). */
    pid_t child = clone(write_piece, (char *)set->stack + STACK, CLONE_VM | CLONE_VFORK, p);
    int status = 0;
    if (child >= 0) {
        while (waitpid(child, &status, (int)__WCLONE) < 0 && errno == EINTR) {
        }
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (child < 0) { /* no process could be created */
        return td__write_all(p->file, p->data, p->size, p->offset);
    }
    errno = WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
    return errno == 0;
}

static bool write_at_end(td__append *file, int fd, const void *data, size_t size) {
    bool one_page = file->end / PAGE == (file->end + (int64_t)size - 1) / PAGE;
    if (file->kind == TD__APPEND_FRAMED || one_page || !CAN_WRITE_APART) {
        return td__write_all(fd, data, size, file->end);
    }
    return write_apart(file->set, &(piece){fd, data, size, file->end});
}

static int open_file(const td__append *file) {
    return td__file_open(file->set->folder, file->name, O_WRONLY | O_NOFOLLOW);
}

static bool write_header(td__append *file, int fd) {
    char header[TD__HEADER_SIZE];
    if (file->header && file->stale) {
        size_t size = file->header(file, header);
        file->stale = !td__write_all(fd, header, size, 0);
    }
    return !file->header || !file->stale;
}

/* Truncates the file at `end`. The header is updated first, so that it never counts records that are
 * not there. */
static bool truncate_at_end(td__append *file, int fd) {
    int result = -1;
    if (write_header(file, fd)) {
        do {
            result = ftruncate(fd, file->end);
        } while (result != 0 && errno == EINTR);
    }
    file->torn = result != 0;
    return result == 0;
}

/* Appends data behind end; all of it, or the file stays as it was. */
static td_status append_bytes(td__append *file, const void *data, size_t size, bool header,
                              td_error *error) {
    int fd = open_file(file);
    if (fd < 0) {
        return td__file_error(error, file->name, "open");
    }
    bool good = (!file->torn || truncate_at_end(file, fd)) && write_at_end(file, fd, data, size);
    int reason = errno;
    if (good) {
        file->end += (int64_t)size;
        file->dirty = true;
        file->stale = true;
    } else {
        truncate_at_end(file, fd);
    }
    if (good && header) {
        bool ordered = !file->set->network || !file->header || td__sync(fdatasync, fd);
        good = ordered && write_header(file, fd);
        reason = errno;
    }
    if (close(fd) != 0 && good && errno != EINTR) {
        good = false;
        reason = errno;
    }
    errno = reason;
    return good ? TD_OK : td__file_error(error, file->name, "write");
}

/* Whether the file shows everything that is whole. */
static bool is_complete(const td__append *file) {
    return file->whole == 0 && !(file->header && file->stale);
}

td_status td__append_commit(td__append *file, td_error *error) {
    if (is_complete(file)) {
        return TD_OK;
    }
    size_t size = file->whole;
    int64_t end = file->end;
    td_status status = append_bytes(file, file->buffer, size, true, error);
    if (file->end != end) { /* the data is there, whatever became of the header */
        file->used -= size;
        file->whole = 0;
        memmove(file->buffer, file->buffer + size, file->used);
        file->set->buffered -= size;
    }
    if (is_complete(file)) {
        *file->set->held -= file->records;
        file->records = 0;
        file->part = 0;
    }
    return status;
}

/* --- records ---------------------------------------------------------------------------------- */

void td__append_begin(td__append *file) {
    file->record = file->end + (int64_t)file->used;
}

char *td__append_room(td__append *file, size_t size) {
    if (!td__grow(&file->buffer, &file->capacity, file->used + size + 1, buffer_maximum, 1)) {
        return NULL;
    }
    return file->buffer + file->used;
}

void td__append_advance(td__append *file, size_t size) {
    file->used += size;
    file->set->buffered += size;
}

td_status td__append_row(td__append *file, td_error *error) {
    if (file->used < TD__APPEND_PIECE) {
        return TD_OK;
    }
    file->whole = file->used;
    td_status status = td__append_commit(file, error);
    file->part = file->record < file->end ? file->record : file->part;
    return status;
}

td_status td__append_through(td__append *file, const void *data, size_t size, td_error *error) {
    file->whole = file->used;
    td_status status = td__append_commit(file, error);
    return status ? status : append_bytes(file, data, size, false, error);
}

static td_status commit_all(td__append_set *set, td_error *error) {
    td_status first = TD_OK;
    for (td__append *file = set->files; file; file = file->next) {
        td_status status = td__append_commit(file, first ? NULL : error);
        first = first ? first : status;
    }
    set->committed_at = td__seconds();
    set->failing = first != TD_OK;
    return first;
}

/* While writing fails the buffer takes what it can; the error is the next tick's or sync's. */
td_status td__append_end(td__append *file, int64_t records, td_error *error) {
    td__append_set *set = file->set;
    file->whole = file->used;
    if (is_complete(file)) { /* a large one: row by row, or past the buffer */
        file->part = 0;
        return TD_OK;
    }
    file->records += records;
    *set->held += records;
    bool full = file->used >= BUFFER || set->buffered >= 2 * SET_BUFFERED;
    bool due = file->used >= TD__APPEND_PIECE || set->buffered >= SET_BUFFERED;
    if (!full && (!due || (set->failing && td__seconds() - set->committed_at < commit_seconds))) {
        return TD_OK;
    }
    td_status status =
        file->used >= TD__APPEND_PIECE ? td__append_commit(file, error) : commit_all(set, error);
    set->failing = status != TD_OK;
    if (status && full) {
        int64_t unwritten = file->records < records ? file->records : records;
        file->records -= unwritten;
        *set->held -= unwritten;
        td__append_cancel(file);
        return status;
    }
    return TD_OK;
}

/* Cuts the file off at the beginning of a record. */
static void truncate_at_record(td__append *file, int64_t record) {
    file->end = record;
    file->part = 0;
    file->torn = file->stale = true;
    int fd = open_file(file);
    if (fd >= 0) {
        truncate_at_end(file, fd);
        close(fd);
    }
}

void td__append_cancel(td__append *file) {
    size_t keep = 0;
    if (file->record < file->end) { /* rows of it are in the file already */
        truncate_at_record(file, file->record);
    } else {
        keep = (size_t)(file->record - file->end);
    }
    file->set->buffered -= file->used - keep;
    file->used = keep;
    file->whole = file->whole < keep ? file->whole : keep;
}

td_status td__append_bytes(td__append *file, const void *data, size_t size, int64_t records,
                           td_error *error) {
    td__append_begin(file);
    char *room = td__append_room(file, size);
    if (!room) {
        return td_error_set(error, TD_MEMORY, "%s: out of memory for %zu bytes", file->name, size);
    }
    memcpy(room, data, size);
    td__append_advance(file, size);
    return td__append_end(file, records, error);
}

/* --- the set ---------------------------------------------------------------------------------- */

void td__append_report(const td__append_set *set, const td_error *problem) {
    if (set->report) {
        set->report(set->listener, problem);
    }
}

td_status td__append_set_open(td__append_set *set, const td_sink_options *options, bool resumed,
                              td_error *error) {
    int folder = td__folder_open(options->folder, error);
    return folder < 0 ? TD_IO : td__append_set_open_in(set, folder, options, resumed, error);
}

td_status td__append_set_open_in(td__append_set *set, int folder, const td_sink_options *options,
                                 bool resumed, td_error *error) {
    *set = (td__append_set){.folder = folder,
                            .resumed = resumed,
                            .committed_at = td__seconds(),
                            .report = options->report,
                            .listener = options->listener};
    set->held = options->held ? options->held : &set->own_count;
    set->network = td__folder_is_network(set->folder);
    set->stack = td__aligned_alloc(STACK);
    if (!set->stack) {
        close(set->folder);
        return td_error_set(error, TD_MEMORY, "out of memory for a sink");
    }
    return TD_OK;
}

td_status td__append_set_tick(td__append_set *set, td_error *error) {
    double wait = set->network ? network_seconds : commit_seconds;
    return set->buffered > 0 && td__seconds() - set->committed_at >= wait ? commit_all(set, error)
                                                                          : TD_OK;
}

static td_status sync_file(td__append *file, td_error *error) {
    td_status status = td__append_commit(file, error);
    if (status || !file->dirty) {
        return status;
    }
    int fd = open_file(file);
    if (fd < 0) {
        return td__file_error(error, file->name, "open");
    }
    if (!td__sync(fdatasync, fd)) {
        status = td__file_error(error, file->name, "sync");
    }
    close(fd);
    file->dirty = status != TD_OK;
    return status;
}

td_status td__append_set_sync(td__append_set *set, td_error *error) {
    td_status first = TD_OK;
    for (td__append *file = set->files; file; file = file->next) {
        td_status status = sync_file(file, first ? NULL : error);
        first = first ? first : status;
    }
    if (!first && set->created) {
        if (!td__sync(fsync, set->folder)) {
            return td__file_error(error, "the run's folder", "sync");
        }
        set->created = false;
    }
    return first;
}

td_status td__append_set_close(td__append_set *set, td_error *error) {
    td_status status = td__append_set_sync(set, error);
    while (set->files) {
        td__append *file = set->files;
        set->files = file->next;
        if (file->part) { /* the rest of it is lost with the buffer */
            truncate_at_record(file, file->part);
        }
        td__free(file->buffer);
        td__free(file->name);
        td__free(file);
    }
    td__aligned_free(set->stack);
    close(set->folder);
    return status;
}

/* A file of the set that has its first end bytes; NULL when memory is exhausted. */
static td__append *add_file(td__append_set *set, const char *name, td__append_kind kind,
                            int64_t end, td_error *error) {
    td__append *file = td__calloc(1, sizeof *file);
    char *copy = td__strdup(name);
    if (!file || !copy) {
        td__free(copy);
        td__free(file);
        td_error_set(error, TD_MEMORY, "out of memory for the file %s", name);
        return NULL;
    }
    *file = (td__append){
        .set = set, .next = set->files, .name = copy, .kind = kind, .end = end, .dirty = true};
    set->files = file;
    return file;
}

static void remove_newest(td__append_set *set) {
    td__append *file = set->files;
    set->files = file->next;
    td__free(file->name);
    td__free(file);
}

static td_status name_taken(const char *name, td_error *error) {
    return td_error_set(error, TD_EXISTS, "%s exists already; files are never overwritten", name);
}

td_status td__append_create(td__append_set *set, const char *name, td__append_kind kind,
                            const void *header, size_t size, td__append **file, td_error *error) {
    if (faccessat(set->folder, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
        return name_taken(name, error);
    }
    td__append *created = add_file(set, name, kind, (int64_t)size, error);
    if (!created) {
        return TD_MEMORY;
    }
    td_status status = td__file_publish(set->folder, name, header, size, false, error);
    if (status) {
        remove_newest(set);
        return status;
    }
    set->created = true;
    *file = created;
    return TD_OK;
}

/* Whether the file begins with these bytes, and how long it is. */
static bool begins_with(int fd, const void *header, size_t size, int64_t *end) {
    struct stat stat;
    char *text = td__calloc(size, 1);
    bool good = text && fstat(fd, &stat) == 0 && td__read_all(fd, text, size, 0) &&
                memcmp(text, header, size) == 0;
    td__free(text);
    if (good) {
        *end = stat.st_size;
    }
    return good;
}

td_status td__append_adopt(td__append_set *set, const char *name, td__append_kind kind,
                           const void *header, size_t size, td__append **file, td_error *error) {
    for (const td__append *other = set->files; other; other = other->next) {
        if (strcmp(other->name, name) == 0) {
            return name_taken(name, error);
        }
    }
    int fd = td__file_open(set->folder, name, O_RDONLY | O_NOFOLLOW);
    if (fd < 0) {
        td__file_error(error, name, "open");
        return errno == ENOENT ? TD_NOT_FOUND : TD_IO;
    }
    int64_t end = 0;
    bool same = begins_with(fd, header, size, &end);
    close(fd);
    if (!same) {
        return name_taken(name, error);
    }
    td__append *adopted = add_file(set, name, kind, end, error);
    if (!adopted) {
        return TD_MEMORY;
    }
    *file = adopted;
    return TD_OK;
}

td_status td__append_open(td__append_set *set, const char *name, td__append_kind kind,
                          const void *header, size_t size, td__append **file, td_error *error) {
    td_status status =
        set->resumed ? td__append_adopt(set, name, kind, header, size, file, error) : TD_NOT_FOUND;
    return status == TD_NOT_FOUND ? td__append_create(set, name, kind, header, size, file, error)
                                  : status;
}

void td__append_forget(td__append *file) {
    td__append **link = &file->set->files;
    while (*link != file) {
        link = &(*link)->next;
    }
    *link = file->next;
    file->set->buffered -= file->used;
    td__free(file->buffer);
    td__free(file->name);
    td__free(file);
}

td_status td__append_replace(td__append *file, const void *data, size_t size, td_error *error) {
    td_status status = td__file_publish(file->set->folder, file->name, data, size, true, error);
    if (!status) {
        file->end = (int64_t)size;
        file->torn = false;
        file->dirty = true;
        file->set->created = true;
    }
    return status;
}
