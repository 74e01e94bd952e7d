/* Finding runs below a folder. */
#include "base/memory.h"
#include "base/url.h"
#include "run/events.h"
#include "run/foreign.h"
#include "run/ranks.h"
#include "tapedeck/run.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEEPEST = 16 };

/* A folder on the way down: a link back to one of them would show its runs over and over. */
typedef struct level {
    const struct level *above;
    dev_t device;
    ino_t number;
    int depth;
} level;

static int is_visible(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

/* Whether path is a folder that is not above. */
static bool enter_folder(const char *path, const level *above, level *entered) {
    struct stat about;
    if (stat(path, &about) != 0 || !S_ISDIR(about.st_mode)) {
        return false;
    }
    for (const level *at = above; at; at = at->above) {
        if (at->device == about.st_dev && at->number == about.st_ino) {
            return false;
        }
    }
    *entered = (level){above, about.st_dev, about.st_ino, above ? above->depth + 1 : 0};
    return true;
}

/* A link to what stands beside it, as wandb's latest-run: that is found anyway. */
static bool is_alias(const char *path) {
    char target[256];
    ssize_t length = readlink(path, target, sizeof target);
    return length > 0 && !memchr(target, '/', (size_t)length) && target[0] != '.';
}

static td_status find_runs(const char *folder, const level *here, td_folder_function *each,
                           void *user, td_error *error);

/* What has event files may have more runs below it; what has a run.db, or is foreign, is a run and nothing else. */
static td_status look_into(const char *folder, struct dirent **entries, int count,
                           const level *here, td_folder_function *each, void *user,
                           td_error *error) {
    bool events = false, ranks = false, foreign = false;
    for (int i = 0; i < count; i++) {
        if (strcmp(entries[i]->d_name, "run.db") == 0) {
            return each(user, folder, error);
        }
        events |= td__events_is_name(entries[i]->d_name);
        foreign |= td__foreign_marks(entries[i]->d_name);
        ranks |= strncmp(entries[i]->d_name, "rank-", 5) == 0;
    }
    if (ranks && td__ranks_are_in(folder)) {
        return each(user, folder, error);
    }
    if (foreign && !events && td__foreign_of(folder)) {
        return each(user, folder, error);
    }
    td_status status = events ? each(user, folder, error) : TD_OK;
    for (int i = 0; i < count && here->depth < DEEPEST && !status; i++) {
        size_t size = strlen(folder) + strlen(entries[i]->d_name) + 2;
        char *path = td__calloc(size, 1);
        if (!path) {
            return td_error_set(error, TD_MEMORY, "out of memory for a folder's name");
        }
        (void)snprintf(path, size, "%s/%s", folder, entries[i]->d_name);
        level inside;
        status = is_alias(path)                      ? TD_OK
                 : enter_folder(path, here, &inside) ? find_runs(path, &inside, each, user, error)
                                                     : td__foreign_find(path, each, user, error);
        td__free(path);
    }
    return status;
}

static td_status find_runs(const char *folder, const level *here, td_folder_function *each,
                           void *user, td_error *error) {
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, is_visible, versionsort);
    if (count < 0) {
        return here->depth ? TD_OK
                           : td_error_set(error, errno == ENOENT ? TD_NOT_FOUND : TD_IO, "%s: %s",
                                          folder, strerror(errno));
    }
    td_status status = look_into(folder, entries, count, here, each, user, error);
    for (int i = 0; i < count; i++) {
        free(entries[i]); // NOLINT: scandir's own
    }
    free(entries); // NOLINT
    return status;
}

static td_status note_run(void *user, const char *folder, td_error *error) {
    (void)folder;
    (void)error;
    *(bool *)user = true;
    return TD_OK;
}

td_status td_runs_find(const char *folder, td_folder_function *each, void *user, td_error *error) {
    if (td__url_is(folder)) {
        return td__remote_find(folder, each, user, error);
    }
    level top = {0};
    struct stat about;
    bool file = stat(folder, &about) != 0 || S_ISREG(about.st_mode);
    if (file && td__foreign_of(folder)) { /* FILE, or FILE/RUN of a file with several */
        bool found = false;
        td_status status = td__foreign_find(folder, note_run, &found, error);
        return status  ? status
               : found ? td__foreign_find(folder, each, user, error)
                       : each(user, folder, error);
    }
    (void)enter_folder(folder, NULL, &top); /* find_runs reports why a path cannot be listed */
    return find_runs(folder, &top, each, user, error);
}
