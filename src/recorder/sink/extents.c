/* How far files reach; see extents.h. */
#include "sink/extents.h"

#include "base/folder.h"
#include "base/little.h"
#include "base/memory.h"
#include "sink/resume.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define STEPS ".steps.npy"

/* A file of the run, mapped for reading. */
typedef struct mapped {
    int folder, file;
    const char *name;
    char *text; /* NULL: it is empty */
    size_t size;
} mapped;

typedef td_status visit_function(void *context, const mapped *file, td_error *error);

static td_status visit_file(int folder, const char *name, visit_function *visit, void *context,
                            td_error *error) {
    struct stat about;
    mapped m = {folder, td__file_open(folder, name, O_RDWR | O_NOFOLLOW), name, NULL, 0};
    if (m.file < 0) {
        return TD_OK; /* somebody else's: a pipe, a folder, a link */
    }
    bool good = fstat(m.file, &about) == 0;
    m.size = good ? (size_t)about.st_size : 0;
    if (m.size) {
        m.text = mmap(NULL, m.size, PROT_READ, MAP_PRIVATE, m.file, 0);
        good = m.text != MAP_FAILED;
    }
    td_status status = good ? visit(context, &m, error) : td__file_error(error, name, "read");
    if (good && m.size) {
        munmap(m.text, m.size);
    }
    close(m.file);
    return status;
}

static td_status visit_files(int folder, visit_function *visit, void *context, td_error *error) {
    DIR *entries = td__folder_list(folder);
    if (!entries) {
        return td__file_error(error, "the run's folder", "read");
    }
    td_status status = TD_OK;
    for (struct dirent *entry; !status && (entry = readdir(entries));) {
        const char *name = entry->d_name;
        if (name[0] != '.' && !strchr(name, '\n') &&
            (td__ends_in(name, ".csv") || td__ends_in(name, ".npy"))) {
            status = visit_file(folder, name, visit, context, error);
        }
    }
    closedir(entries);
    return status;
}

/* metrics.csv is replaced by one with longer lines when a column is added: its extent is in lines. */
static bool is_counted_in_lines(const mapped *file) {
    return strcmp(file->name, "metrics.csv") == 0;
}

/* Where the first `count` lines end, or all there are; *lines is their number. */
static size_t end_of_lines(const mapped *file, int64_t count, int64_t *lines) {
    const char *end = file->text + file->size, *line = file->text;
    for (*lines = 0; line < end && *lines < count; ++*lines) {
        line = td__csv_line_end(line, end);
    }
    return (size_t)(line - file->text);
}

/* ---- Writing the list ------------------------------------------------------------------------ */

typedef struct extent_list {
    char *text;
    size_t size, capacity;
} extent_list;

static td_status add_extent(void *context, const mapped *file, td_error *error) {
    enum { NUMBER = 24, MOST = 1 << 26 };
    extent_list *list = context;
    size_t room = list->size + NUMBER + strlen(file->name) + 2;
    int64_t extent = (int64_t)file->size;
    if (is_counted_in_lines(file)) {
        (void)end_of_lines(file, INT64_MAX, &extent);
    }
    if (!td__grow(&list->text, &list->capacity, room, MOST, 1)) {
        return td_error_set(error, TD_MEMORY, "out of memory for the list of the run's files");
    }
    list->size += (size_t)snprintf(list->text + list->size, room - list->size, "%lld %s\n",
                                   (long long)extent, file->name);
    return TD_OK;
}

td_status td__extents_list(int folder, char **list, size_t *size, td_error *error) {
    extent_list made = {.text = td__calloc(1, 1), .capacity = 1};
    td_status status = made.text ? visit_files(folder, add_extent, &made, error)
                                 : td_error_set(error, TD_MEMORY, "out of memory");
    if (status) {
        td__free(made.text);
        return status;
    }
    *list = made.text;
    *size = made.size;
    return TD_OK;
}

/* ---- Going back to it ------------------------------------------------------------------------ */

typedef struct checkpoint_extents {
    const char *list, *end;
    int64_t step;
} checkpoint_extents;

/* The file's extent in the list; -1: it is not in it. */
static int64_t find_extent(const checkpoint_extents *at, const char *name) {
    size_t length = strlen(name);
    for (const char *line = at->list, *next; line < at->end; line = next) {
        const char *stop = memchr(line, '\n', (size_t)(at->end - line));
        next = stop ? stop + 1 : at->end;
        const char *space = memchr(line, ' ', (size_t)(next - line));
        if (stop && space && (size_t)(stop - space - 1) == length &&
            memcmp(space + 1, name, length) == 0) {
            return strtoll(line, NULL, 10);
        }
    }
    return -1;
}

/* The step of a file's last record; 0 where it is no file of records. */
static int64_t last_step(const mapped *file) {
    int64_t step = 0;
    if (td__ends_in(file->name, STEPS)) {
        if (file->size >= sizeof step) {
            td__little_copy(&step, file->text + file->size - sizeof step, sizeof step, sizeof step);
        }
        return step;
    }
    size_t start = file->size ? file->size - 1 : 0;
    if (!td__ends_in(file->name, ".csv") || !td__csv_has_steps(file->text, file->size)) {
        return 0;
    }
    while (start > 0 && file->text[start - 1] != '\n') {
        start--;
    }
    return td__csv_step(file->text + start, file->text + file->size);
}

/* An array loses its records, and so does the file; it is filled again. */
static td_status empty_array(int folder, const char *name, td_error *error) {
    uint8_t start[10]; /* of which the last two are the rest of the header's size */
    int file = td__file_open(folder, name, O_RDWR | O_NOFOLLOW);
    if (file < 0) {
        return errno == ENOENT ? TD_OK : td__file_error(error, name, "open");
    }
    bool good = td__read_all(file, start, sizeof start, 0) &&
                ftruncate(file, (off_t)sizeof start + start[8] + 256 * start[9]) == 0;
    close(file);
    return good ? TD_OK : td__file_error(error, name, "shorten");
}

/* A file that was begun after the checkpoint. Of an array the steps are emptied last: they say it. */
static td_status undo_file(const mapped *file, td_error *error) {
    static const char *const endings[] = {".npy", ".samples.npy", STEPS};
    if (!td__ends_in(file->name, STEPS)) {
        return unlinkat(file->folder, file->name, 0) == 0
                   ? TD_OK
                   : td__file_error(error, file->name, "remove");
    }
    int length = (int)(strlen(file->name) - strlen(STEPS));
    td_status status = TD_OK;
    for (size_t i = 0; i < TD__COUNT(endings) && !status; i++) {
        char name[NAME_MAX + 1];
        (void)snprintf(name, sizeof name, "%.*s%s", length, file->name, endings[i]);
        status = empty_array(file->folder, name, error);
    }
    return status;
}

static td_status cut_archive(void *context, const mapped *file, td_error *error) {
    const checkpoint_extents *at = context;
    int64_t extent = find_extent(at, file->name), lines;
    if (extent < 0) {
        return last_step(file) > at->step ? undo_file(file, error) : TD_OK;
    }
    if (is_counted_in_lines(file)) {
        extent = (int64_t)end_of_lines(file, extent, &lines);
    }
    return (int64_t)file->size <= extent || ftruncate(file->file, extent) == 0
               ? TD_OK
               : td__file_error(error, file->name, "shorten");
}

td_status td__extents_restore(int folder, const char *list, size_t size, int64_t step,
                              td_error *error) {
    checkpoint_extents at = {list, list + size, step};
    return visit_files(folder, cut_archive, &at, error);
}
