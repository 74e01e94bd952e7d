/* Runs as folders: renamed and removed. Neither is done to a run that a process writes, nor to what another
 * program wrote. */
#include "base/memory.h"
#include "base/url.h"
#include "deck/folder.h"
#include "run/ranks.h"
#include "run/run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_NAME = 200 };

/* The folder of a whole run that Tapedeck wrote and nobody writes now; *folder is the caller's (td__free). */
static td_status find_folder(const char *path, char **folder, td_error *error) {
    td_run *run = td_run_open(path, error);
    if (!run) {
        return error->status;
    }
    td_run_info info = {.size = sizeof info};
    td_run_about(run, &info);
    struct stat about;
    char parent[4096];
    const char *slash = strrchr(info.folder, '/');
    (void)snprintf(parent, sizeof parent, "%.*s", slash ? (int)(slash - info.folder) : 1,
                   slash ? info.folder : ".");
    td_status status = TD_OK;
    if (info.events) {
        status = td_error_set(error, TD_UNSUPPORTED,
                              "%s was not written by Tapedeck: it is only read", info.folder);
    } else if (info.state == TD_RUN_RUNNING) {
        status = td_error_set(error, TD_BUSY, "%s is being written: stop its training first",
                              info.folder);
    } else if (td__ranks_are_in(parent)) {
        status = td_error_set(error, TD_INVALID, "%s is one rank of the run %s: name the run",
                              info.folder, parent);
    } else if (lstat(info.folder, &about) != 0 || !S_ISDIR(about.st_mode)) {
        status = td_error_set(error, TD_INVALID, "%s is a link: name the folder that it leads to",
                              info.folder);
    }
    *folder = status ? NULL : td__strdup(info.folder);
    td_run_close(run);
    return status || *folder ? status : td_error_set(error, TD_MEMORY, "out of memory");
}

/* NAME in the folder that `path` is in; *out is the caller's. */
static td_status path_beside(const char *path, const char *name, char **out, td_error *error) {
    const char *slash = strrchr(path, '/');
    size_t size = strlen(path) + strlen(name) + 2;
    *out = td__calloc(size, 1);
    if (!*out) {
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    (void)snprintf(*out, size, "%.*s%s", slash ? (int)(slash - path + 1) : 0, path, name);
    return TD_OK;
}

td_status td_run_remove(const char *path, td_error *error) {
    td_error own = {0};
    error = error ? error : &own;
    char *folder = NULL, *aside = NULL, name[64];
    if (td__url_is(path)) {
        return td__pg_remove(path, error);
    }
    td_status status = find_folder(path, &folder, error);
    /* A half removed run must not be listed, so it is hidden first. */
    (void)snprintf(name, sizeof name, ".removed-%ld", (long)getpid());
    status = status ? status : path_beside(folder, name, &aside, error);
    if (!status && rename(folder, aside) != 0) {
        status = td_error_set(error, TD_IO, "%s cannot be removed: %s", folder, strerror(errno));
    }
    if (!status && !td__folder_remove(aside)) {
        status = td_error_set(error, TD_IO, "%s, which was %s, cannot be removed whole: %s", aside,
                              folder, strerror(errno));
    }
    td__free(folder);
    td__free(aside);
    return status;
}

/* Never replaces what is there. */
static bool rename_exclusively(const char *from, const char *to) {
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0) {
        return true;
    }
    struct stat about;
    if (errno != EINVAL) { /* which a file system without the flag answers */
        return false;
    }
    if (lstat(to, &about) == 0) {
        errno = EEXIST;
        return false;
    }
    return rename(from, to) == 0;
}

typedef struct branches {
    const char *old, *name; /* of the parent */
} branches;

static void compare_parent(void *user, const char *key, const char *value) {
    const char **old = user;
    if (*old && strcmp(key, "parent") == 0 && strcmp(value, *old) == 0) {
        *old = NULL; /* found */
    }
}

static td_status rename_parent(void *user, const char *folder, td_error *error) {
    const branches *b = user;
    const char *old = b->old;
    td_run *run = td_run_open(folder, NULL);
    if (run) {
        (void)td_run_notes(run, "run", compare_parent, &old, NULL);
    }
    td_run_close(run);
    return run && !old ? td_run_write_note(folder, "parent", b->name, error) : TD_OK;
}

td_status td_run_rename(const char *path, const char *name, td_error *error) {
    td_error own = {0};
    error = error ? error : &own;
    if (!*name || *name == '.' || strchr(name, '/') || strlen(name) > MAX_NAME) {
        return td_error_set(
            error, TD_INVALID,
            "'%.40s' cannot be the name of a run: a name has 1 to %d bytes, no slash, "
            "and does not begin with a dot",
            name, MAX_NAME);
    }
    if (td__url_is(path)) {
        return td_error_set(error, TD_UNSUPPORTED,
                            "%s: a run in a database keeps the name that it was sent with", path);
    }
    char *folder = NULL, *target = NULL, *beside = NULL;
    td_status status = find_folder(path, &folder, error);
    status = status ? status : path_beside(folder, name, &target, error);
    status = status ? status : path_beside(folder, ".", &beside, error);
    if (!status && !rename_exclusively(folder, target)) {
        status =
            errno == EEXIST || errno == ENOTEMPTY
                ? td_error_set(error, TD_EXISTS, "there is a %s already", target)
                : td_error_set(error, TD_IO, "%s cannot be renamed: %s", folder, strerror(errno));
    }
    status = status ? status : td_run_write_note(target, "name", name, error);
    if (!status) {
        const char *slash = strrchr(folder, '/');
        branches b = {.old = slash ? slash + 1 : folder, .name = name};
        status = td_runs_find(beside, rename_parent, &b, error);
    }
    td__free(folder);
    td__free(target);
    td__free(beside);
    return status;
}
