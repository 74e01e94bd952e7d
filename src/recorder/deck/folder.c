/* Claims a run's folder with mkdir, which either creates or fails. */
#include "deck/folder.h"

#include "base/memory.h"
#include "base/network.h"
#include "deck/heartbeat.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_RUNS = 1000000 };

static td_status folder_failed(td_error *error, const char *folder) {
    td_status status = errno == ENOMEM ? TD_MEMORY : TD_IO;
    return td_error_set(error, status, "cannot create the folder %s: %s", folder, strerror(errno));
}

/* Creates the folders above path, which is changed meanwhile and restored. */
static td_status create_parents(char *path, td_error *error) {
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        bool failed = mkdir(path, 0777) != 0 && errno != EEXIST;
        td_status status = failed ? folder_failed(error, path) : TD_OK;
        *slash = '/';
        if (failed) {
            return status;
        }
    }
    return TD_OK;
}

td_status td__folder_claim(const char *folder, bool exact, char **claimed, td_error *error) {
    size_t length = strlen(folder), room = length + 16;
    char *path = td__calloc(room, 1);
    if (!path) {
        return td_error_set(error, TD_MEMORY, "out of memory for a folder's name");
    }
    memcpy(path, folder, length);
    while (length > 1 && path[length - 1] == '/') {
        path[--length] = 0;
    }
    td_status status = length ? create_parents(path, error)
                              : td_error_set(error, TD_INVALID, "the run's folder has no name");
    for (int number = 2; status == TD_OK; number++) {
        if (mkdir(path, 0777) == 0) {
            *claimed = path;
            return TD_OK;
        }
        if (errno != EEXIST) {
            status = folder_failed(error, path);
        } else if (exact || number > MAX_RUNS) {
            status = td_error_set(error, TD_EXISTS, "the folder %s exists already", path);
        } else {
            (void)snprintf(path + length, room - length, "-%d", number);
        }
    }
    td__free(path);
    return status;
}

td_status td__folder_find(const char *folder, char **found, td_error *error) {
    struct stat about;
    if (stat(folder, &about) != 0 || !S_ISDIR(about.st_mode)) {
        return td_error_set(error, TD_NOT_FOUND, "there is no run %s to go on with", folder);
    }
    char *path = td__strdup(folder);
    if (!path) {
        return td_error_set(error, TD_MEMORY, "out of memory for a folder's name");
    }
    for (size_t length = strlen(path); length > 1 && path[length - 1] == '/';) {
        path[--length] = 0;
    }
    *found = path;
    return TD_OK;
}

td_status td__folder_lock(const char *folder, int *lock, td_error *error) {
    enum { TRIES = 50 }; /* a reader that looks whether the run is live holds it for an instant */
    int opened = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), failed = 0;
    td__beat beat;
    if (opened >= 0 && td__beat_read(opened, &beat) && td__beat_is_live(&beat)) {
        close(opened);
        return td_error_set(error, TD_BUSY, "another process on %s is writing into %s", beat.host,
                            folder);
    }
    bool lockable = opened >= 0 && !td__folder_is_network(opened);
    for (int i = 0; lockable && i < TRIES; i++) {
        failed = flock(opened, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
        if (failed != EWOULDBLOCK && failed != EINTR) {
            break;
        }
        usleep(2000);
    }
    if (failed == EWOULDBLOCK) {
        close(opened);
        return td_error_set(error, TD_BUSY, "another process is writing into %s", folder);
    }
    *lock = opened;
    return TD_OK;
}

static int remove_entry(const char *path, const struct stat *about, int type, struct FTW *place) {
    (void)about;
    (void)type;
    (void)place;
    return remove(path);
}

bool td__folder_remove(const char *folder) {
    enum { OPEN_FOLDERS = 16 };
    return nftw(folder, remove_entry, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS) == 0;
}
