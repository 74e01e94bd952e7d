#include "output.h"

#include "guard.h"

#include "tapedeck/apply.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH = OUTPUT_PATH };

/* What a signal that ends the program removes: the draft of the redirected output, a temporary file, its folder. */
static char target[PATH], draft[PATH], place[PATH], folder[PATH];
static bool is_refused, is_silent;

static void remove_drafts(int number) {
    if (*draft) {
        (void)unlink(draft);
    }
    if (*place) {
        (void)unlink(place);
        (void)rmdir(folder);
    }
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

/* Sets folder to a new one below the folder at that path. */
static bool make_folder(const char *below) {
    int length = snprintf(folder, PATH, "%s/.tapedeck-XXXXXX", below);
    errno = ENAMETOOLONG;
    if (length < 0 || length >= PATH || !mkdtemp(folder)) {
        (void)refuse_with_reason(below);
        *folder = 0;
        return false;
    }
    catch_signals();
    return true;
}

const char *output_place(const char *to, const char *default_ending) {
    const char *temporary = getenv("TMPDIR");
    if (!output_is_stdout(to)) {
        return to;
    }
    *target = 0;
    if (!make_folder(temporary && *temporary ? temporary : "/tmp")) {
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
    const char *slash = strrchr(to, '/');
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

/* How many files a folder has, in folders too; the first is copied to path. With remove, they go. */
static int visit_files(const char *in, char *path, bool remove) {
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
            count += visit_files(inner, count ? NULL : path, remove);
            continue;
        }
        if (!count++ && path) {
            (void)snprintf(path, PATH, "%s", inner);
        }
        if (remove) {
            (void)unlink(inner);
        }
    }
    if (listing) {
        (void)closedir(listing);
    }
    if (remove) {
        (void)rmdir(in);
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
    int count = visit_files(folder, found, false);
    if (status == EXIT_GOOD && count != 1) {
        status = fail(EXIT_BAD, "%s is one file, and this makes %d: name a folder, or less",
                      *target ? target : "standard output", count);
    } else if (status == EXIT_GOOD && *target && rename(found, target) != 0) {
        status = refuse_with_reason(target);
    } else if (status == EXIT_GOOD && !*target && !copy_out(found)) {
        status = refuse_with_reason("standard output");
    }
    (void)visit_files(folder, NULL, true);
    *place = *folder = 0;
    return status;
}

/* ---- The end ---------------------------------------------------------------------------------- */

int output_finish(int status) {
    if (*folder) { /* of a command that ended early */
        (void)visit_files(folder, NULL, true);
        *folder = 0;
    }
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
    int length = snprintf(part, sizeof part, "%s.%ld.part", path, (long)getpid());
    errno = ENAMETOOLONG;
    FILE *stream = length > 0 && length < PATH ? fopen(part, "wxe") : NULL;
    bool good = stream && fwrite(bytes, 1, size, stream) == size;
    good = (!stream || fclose(stream) == 0) && good;
    if (good && rename(part, path) == 0) {
        return EXIT_GOOD;
    }
    int status = refuse_with_reason(path);
    if (stream) {
        (void)unlink(part);
    }
    return status;
}

/* ---- Replacing ------------------------------------------------------------------------------- */

enum { MAX_DEPTH = 8 };

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

bool output_set_aside(const char *path, char aside[OUTPUT_PATH]) {
    struct stat about;
    *aside = 0;
    if (lstat(path, &about) != 0) {
        return true;
    }
    if (S_ISDIR(about.st_mode) && holds_run(path, 0)) {
        (void)fail(EXIT_BAD, "%s holds a run; --force does not replace it: give another place",
                   path);
        return false;
    }
    if (snprintf(aside, OUTPUT_PATH, "%s.%ld.old", path, (long)getpid()) >= OUTPUT_PATH ||
        rename(path, aside) != 0) {
        *aside = 0;
        (void)refuse_with_reason(path);
        return false;
    }
    return true;
}

int output_put_back(const char *path, const char *aside, int status) {
    struct stat about;
    char other[PATH];
    bool was_folder = *aside && lstat(aside, &about) == 0 && S_ISDIR(about.st_mode);
    if (!status && was_folder && !is_replaced(aside, path, 0, other)) {
        status = fail(EXIT_BAD,
                      "%s%s is not a file of this export, and --force does not remove it: remove "
                      "it, or give another place",
                      path, other + strlen(aside));
        (void)visit_files(path, NULL, true);
    }
    if (*aside && status) {
        (void)rename(aside, path);
    } else if (was_folder) {
        (void)visit_files(aside, NULL, true);
    } else if (*aside) {
        (void)unlink(aside);
    }
    return status;
}
