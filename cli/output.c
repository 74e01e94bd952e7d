#include "output.h"

#include "guard.h"

#include "tapedeck/apply.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PATH = OUTPUT_PATH, MAX_DEPTH = 8, MAX_REMOVED_DEPTH = 64 };

/* What a signal that ends the program removes: the draft of the redirected output, the temporary folder. */
static char target[PATH], draft[PATH], place[PATH], folder[PATH];
static bool is_refused, is_silent;

/* Removes a file, or a folder with everything in it. Signal handlers call it, so it uses system calls alone. */
static void remove_all(int below, const char *name, int depth) {
    _Alignas(struct dirent64) char entries[4096];
    int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    int inner = depth < MAX_REMOVED_DEPTH ? openat(below, name, flags) : -1;
    ssize_t size;
    while (inner >= 0 &&
           (size = getdents64(inner, entries, sizeof entries)) > 0) { // NOLINT: a system call
        for (ssize_t at = 0; at < size;) {
            const struct dirent64 *entry = (const void *)(entries + at);
            at += entry->d_reclen;
            if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
                remove_all(inner, entry->d_name, depth + 1);
            }
        }
    }
    if (inner >= 0) {
        (void)close(inner);
    }
    (void)unlinkat(below, name, inner >= 0 ? AT_REMOVEDIR : 0);
}

static void remove_folder(void) {
    if (*folder) {
        remove_all(AT_FDCWD, folder, 0);
    }
    *place = *folder = 0;
}

static void remove_drafts(int number) {
    if (*draft) {
        (void)unlink(draft);
    }
    remove_folder();
    (void)signal(number, SIG_DFL);
    (void)raise(number);
}

/* Commands that finish what they do handle these signals themselves. */
static void catch_signals(void) {
    static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
    for (size_t i = 0; i < sizeof ending / sizeof *ending; i++) {
        if (signal(ending[i], remove_drafts) == SIG_IGN) {
            (void)signal(ending[i], SIG_IGN); /* nohup */
        }
    }
}

static int refuse_with_reason(const char *path) {
    return fail(EXIT_BAD, "cannot write %s: %s", path, strerror(errno));
}

/* ---- What is printed ------------------------------------------------------------------------- */

/* A draft beside the file; of a device or a pipe, itself. -1, with errno, when it cannot be written. */
static int open_draft(const char *path) {
    struct stat about;
    char *real = realpath(path, NULL); /* a link stays one */
    int length = snprintf(target, PATH, "%s", real ? real : path), file = -1;
    free(real);
    if (stat(path, &about) == 0 && S_ISDIR(about.st_mode)) {
        errno = EISDIR;
    } else if (stat(path, &about) == 0 && !S_ISREG(about.st_mode)) {
        file = open(path, O_WRONLY | O_CLOEXEC);
    } else if (length < 0 || length >= PATH ||
               snprintf(draft, PATH, "%s.%ld.part", target, (long)getpid()) >= PATH) {
        errno = ENAMETOOLONG;
        *draft = 0;
    } else {
        catch_signals();
        file = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    }
    return file;
}

bool output_redirect(const char *path, bool force) {
    if (!strcmp(path, "-")) {
        return true;
    }
    is_refused = true;
    if (!force && !td_output_is_free(path)) {
        (void)fail(EXIT_BAD, "%s is there already; --force replaces it", path);
        return false;
    }
    int file = open_draft(path);
    bool good = file >= 0 && dup2(file, STDOUT_FILENO) >= 0;
    if (!good) {
        (void)refuse_with_reason(path);
    }
    if (file >= 0) {
        (void)close(file);
    }
    is_refused = !good;
    return good;
}

void output_silence(bool all) {
    int file = all ? open("/dev/null", O_WRONLY | O_CLOEXEC) : -1;
    is_silent = true;
    if (file >= 0) {
        (void)dup2(file, STDOUT_FILENO);
        (void)close(file);
    }
}

bool output_is_silent(void) {
    return is_silent;
}

/* ---- Files that pass through a temporary folder ---------------------------------------------- */

bool output_is_stdout(const char *to) {
    return to[0] == '-' && (!to[1] || (to[1] == '.' && !strchr(to, '/')));
}

static const char temporary[] = ".tapedeck-XXXXXX";

/* A temporary folder is locked by its process while that lives. Where locks do not work, none is abandoned. */
static bool is_abandoned(int below, const char *name) {
    enum { SECONDS = 60 }; /* a new one is not locked yet */
    struct stat about;
    size_t fixed = sizeof temporary - sizeof "XXXXXX";
    if (strlen(name) != sizeof temporary - 1 || strncmp(name, temporary, fixed) != 0) {
        return false;
    }
    int found = openat(below, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    bool abandoned = found >= 0 && fstat(found, &about) == 0 && about.st_uid == geteuid() &&
                     time(NULL) - about.st_mtime > SECONDS && flock(found, LOCK_EX | LOCK_NB) == 0;
    if (found >= 0) {
        (void)close(found);
    }
    return abandoned;
}

/* Temporary folders of processes that were killed. */
static void remove_abandoned(const char *below) {
    DIR *listing = opendir(below);
    for (const struct dirent *entry; listing && (entry = readdir(listing));) {
        if (is_abandoned(dirfd(listing), entry->d_name)) {
            remove_all(dirfd(listing), entry->d_name, 0);
        }
    }
    if (listing) {
        (void)closedir(listing);
    }
}

static void hold_signals(sigset_t *before) {
    sigset_t all;
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_BLOCK, &all, before);
}

/* Sets folder to a new one below the folder at that path. */
static bool make_folder(const char *below) {
    sigset_t before;
    remove_abandoned(below);
    catch_signals();
    hold_signals(&before); /* which remove what folder names */
    int length = snprintf(folder, PATH, "%s/%s", below, temporary);
    errno = ENAMETOOLONG;
    bool good = length > 0 && length < PATH && mkdtemp(folder);
    if (!good) {
        (void)refuse_with_reason(below);
        *folder = 0;
    }
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    if (!good) {
        return false;
    }
    int lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* until the process ends */
    if (lock >= 0) {
        (void)flock(lock, LOCK_EX | LOCK_NB);
    }
    return true;
}

const char *output_place(const char *to, const char *default_ending) {
    const char *below = getenv("TMPDIR");
    if (!output_is_stdout(to)) {
        return to;
    }
    *target = 0;
    if (!make_folder(below && *below ? below : "/tmp")) {
        return NULL;
    }
    (void)snprintf(place, PATH, "%s/output%s", folder, to[1] ? to + 1 : default_ending);
    return place;
}

const char *output_place_files(const char *to) {
    char below[PATH];
    if (output_is_stdout(to)) {
        return output_place("-", "");
    }
    struct stat about;
    const char *slash = strrchr(to, '/');
    if (stat(to, &about) == 0 && !S_ISREG(about.st_mode) && !S_ISDIR(about.st_mode)) {
        (void)fail(EXIT_BAD, "%s is neither a file nor a folder", to);
        return NULL;
    }
    if (snprintf(target, PATH, "%s", to) >= PATH) {
        errno = ENAMETOOLONG;
        (void)refuse_with_reason(to);
        return NULL;
    }
    (void)snprintf(below, PATH, "%.*s", slash ? (int)(slash - to) + 1 : 1, slash ? to : ".");
    if (!make_folder(below)) {
        return NULL;
    }
    (void)snprintf(place, PATH, "%s/output", folder);
    return place;
}

int output_place_formats(const command *cmd, const char **to, size_t count, const char **found,
                         bool *piped) {
    *piped = false;
    *found = NULL;
    for (size_t i = 0; i < count; i++) {
        if (!output_is_stdout(to[i])) {
            continue;
        }
        if (*piped) {
            return misuse(cmd, "--to %s: standard output takes one of them", to[i]);
        }
        *piped = true;
        if (to[i][1]) {
            to[i] = *found = output_place(to[i], "");
        }
        if (!to[i]) {
            return EXIT_BAD;
        }
    }
    return EXIT_GOOD;
}

/* How many files a folder has, in folders too; the first is copied to path. */
static int count_files(const char *in, char *path) {
    DIR *listing = opendir(in);
    int count = 0;
    for (const struct dirent *entry; listing && (entry = readdir(listing));) {
        char inner[PATH];
        struct stat about;
        int length = snprintf(inner, sizeof inner, "%s/%s", in, entry->d_name);
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..") || length >= PATH ||
            lstat(inner, &about) != 0) {
            continue;
        }
        if (S_ISDIR(about.st_mode)) {
            count += count_files(inner, count ? NULL : path);
        } else if (!count++ && path) {
            (void)snprintf(path, PATH, "%s", inner);
        }
    }
    if (listing) {
        (void)closedir(listing);
    }
    return count;
}

/* Past the guard, which is for text. */
static bool copy_out(const char *path) {
    static char piece[1 << 16];
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = -1;
    bool good = file >= 0 && guard_flush();
    while (good && (got = read(file, piece, sizeof piece)) > 0) {
        for (ssize_t at = 0, wrote; good && at < got; at += wrote) {
            wrote = write(STDOUT_FILENO, piece + at, (size_t)(got - at));
            good = wrote > 0;
        }
    }
    good = good && got == 0;
    if (file >= 0) {
        (void)close(file);
    }
    return good;
}

int output_pass(const char *path, int status) {
    char found[PATH] = "";
    if (path != place) {
        return status;
    }
    int count = count_files(folder, found);
    if (status == EXIT_GOOD && count != 1) {
        status = fail(EXIT_BAD, "%s is one file, and this makes %d: name a folder, or less",
                      *target ? target : "standard output", count);
    } else if (status == EXIT_GOOD && *target && rename(found, target) != 0) {
        status = refuse_with_reason(target);
    } else if (status == EXIT_GOOD && !*target && !copy_out(found)) {
        status = refuse_with_reason("standard output");
    }
    remove_folder();
    return status;
}

/* ---- The end ---------------------------------------------------------------------------------- */

int output_finish(int status) {
    remove_folder(); /* of a command that ended early */
    if (*draft) {
        bool keep = status != EXIT_USAGE && !has_failed();
        if (keep && (close(STDOUT_FILENO) != 0 || rename(draft, target) != 0)) {
            keep = false;
            status = refuse_with_reason(target);
        }
        if (!keep) {
            (void)unlink(draft);
        }
        *draft = 0;
    }
    return is_refused ? EXIT_BAD : status;
}

/* ---- Whole files ----------------------------------------------------------------------------- */

int output_write(const char *path, const void *bytes, size_t size) {
    char part[PATH];
    if (!strcmp(path, "-")) {
        return fwrite(bytes, 1, size, stdout) == size ? EXIT_GOOD : EXIT_BAD;
    }
    struct stat about;
    bool direct = stat(path, &about) == 0 && !S_ISREG(about.st_mode) && !S_ISDIR(about.st_mode);
    int length = direct ? snprintf(part, sizeof part, "%s", path)
                        : snprintf(part, sizeof part, "%s.%ld.part", path, (long)getpid());
    errno = ENAMETOOLONG;
    FILE *stream = length > 0 && length < PATH ? fopen(part, direct ? "we" : "wxe") : NULL;
    bool good = stream && fwrite(bytes, 1, size, stream) == size;
    good = (!stream || fclose(stream) == 0) && good;
    if (good && (direct || rename(part, path) == 0)) {
        return EXIT_GOOD;
    }
    int status = refuse_with_reason(path);
    if (stream && !direct) {
        (void)unlink(part);
    }
    return status;
}

/* ---- Replacing ------------------------------------------------------------------------------- */

/* Whether each file of the old folder is in the new one, too; else its path is put into other. */
static bool is_replaced(const char *old, const char *new, int depth, char other[PATH]) {
    DIR *listing = opendir(old);
    bool good = listing && depth < MAX_DEPTH;
    (void)snprintf(other, PATH, "%s", old);
    for (const struct dirent *entry; good && (entry = readdir(listing));) {
        char before[PATH], after[PATH];
        struct stat was, is;
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) {
            continue;
        }
        int length = snprintf(before, sizeof before, "%s/%s", old, entry->d_name);
        good = length > 0 && length < PATH && lstat(before, &was) == 0;
        length = snprintf(after, sizeof after, "%s/%s", new, entry->d_name);
        good = good && length > 0 && length < PATH && lstat(after, &is) == 0 &&
               (was.st_mode & S_IFMT) == (is.st_mode & S_IFMT);
        if (!good) {
            (void)snprintf(other, PATH, "%s", before);
        } else if (S_ISDIR(was.st_mode)) {
            good = is_replaced(before, after, depth + 1, other);
        }
    }
    if (listing) {
        (void)closedir(listing);
    }
    return good;
}

/* Whether there is a run in a folder, which may be written at this moment: its checkpoints or its experiment. */
static bool holds_run(const char *path, int depth) {
    static const char *const names[] = {"checkpoints", "experiment.yaml", "run.db"};
    DIR *listing = opendir(path);
    bool found = listing && depth >= MAX_DEPTH;
    for (const struct dirent *entry; listing && !found && (entry = readdir(listing));) {
        char inner[PATH];
        struct stat about;
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            found = found || !strcmp(entry->d_name, names[i]);
        }
        int length = snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 && length > 0 &&
            length < PATH && lstat(inner, &about) == 0 && S_ISDIR(about.st_mode)) {
            found = found || holds_run(inner, depth + 1);
        }
    }
    if (listing) {
        (void)closedir(listing);
    }
    return found;
}

const char *output_place_beside(const char *path) {
    struct stat about;
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    if (lstat(path, &about) != 0) {
        return path;
    }
    if (S_ISDIR(about.st_mode) && holds_run(path, 0)) {
        (void)fail(EXIT_BAD, "%s holds a run; --force does not replace it: give another place",
                   path);
        return NULL;
    }
    if (!*name || !strcmp(name, ".") || !strcmp(name, "..")) {
        (void)fail(EXIT_BAD, "%s cannot be replaced: give another place", path);
        return NULL;
    }
    return output_place_files(path);
}

/* Puts the new one at path and the old one at its place. At any moment one of them is at path, except for a moment on
 * file systems that cannot exchange names. */
static bool exchange(const char *new, const char *path) {
    char aside[PATH];
    sigset_t before;
    if (renameat2(AT_FDCWD, new, AT_FDCWD, path, RENAME_EXCHANGE) == 0) {
        return true;
    }
    if (snprintf(aside, PATH, "%s.%ld.old", path, (long)getpid()) >= PATH) {
        errno = ENAMETOOLONG;
        return false;
    }
    hold_signals(&before);
    bool good = rename(path, aside) == 0;
    if (good && rename(new, path) != 0) {
        int reason = errno;
        (void)rename(aside, path);
        errno = reason;
        good = false;
    }
    if (good && rename(aside, new) != 0) {
        (void)fail(EXIT_BAD, "%s was replaced, but the earlier one is still there as %s", path,
                   aside);
    }
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    return good;
}

int output_replace(const char *path, int status) {
    struct stat about;
    char other[PATH];
    bool was_folder = lstat(path, &about) == 0 && S_ISDIR(about.st_mode);
    if (!status && was_folder && !is_replaced(path, place, 0, other)) {
        status = fail(EXIT_BAD,
                      "%s is not a file of this export, and --force does not remove it: remove "
                      "it, or give another place",
                      other);
    } else if (!status && !exchange(place, path)) {
        status = refuse_with_reason(path);
    }
    remove_folder();
    return status;
}
