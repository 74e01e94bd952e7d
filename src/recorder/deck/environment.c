/* Facts about the process and its machine, each from the system itself. What cannot be read is left out. */
#include "deck/environment.h"

#include "base/memory.h"

#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

bool td__environment_wanted(void) {
    const char *wish = getenv("TAPEDECK_ENVIRONMENT");
    return !wish || strcmp(wish, "off") != 0;
}

/* The first bytes of a file, ended by a zero; -1 when it cannot be read. */
static ssize_t read_start(const char *path, char *text, size_t size) {
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t length = file < 0 ? -1 : read(file, text, size - 1);
    if (file >= 0) {
        close(file);
    }
    text[length > 0 ? length : 0] = 0;
    return length;
}

/* ---- Source code ---------------------------------------------------------------------------- */

static bool join_path(char path[PATH_MAX], const char *folder, const char *name) {
    int length = snprintf(path, PATH_MAX, "%s/%s", folder, name);
    return length > 0 && length < PATH_MAX;
}

static void cut_line(char *text) {
    text[strcspn(text, "\r\n")] = 0;
}

/* The folder that .git is, or that the file .git names: of a worktree. */
static bool find_git_folder(const char *start, char git[PATH_MAX]) {
    char folder[PATH_MAX], path[PATH_MAX], text[PATH_MAX];
    if (!realpath(start, folder)) {
        return false;
    }
    for (struct stat about; join_path(path, folder, ".git");) {
        if (stat(path, &about) == 0 && S_ISDIR(about.st_mode)) {
            memcpy(git, path, PATH_MAX);
            return true;
        }
        if (read_start(path, text, sizeof text) > 0 && strncmp(text, "gitdir: ", 8) == 0) {
            cut_line(text);
            return text[8] == '/' ? snprintf(git, PATH_MAX, "%s", text + 8) < PATH_MAX
                                  : join_path(git, folder, text + 8);
        }
        char *slash = strrchr(folder, '/');
        if (!slash || slash == folder) {
            return false;
        }
        *slash = 0;
    }
    return false;
}

/* The line of packed-refs that ends in the branch's name. */
static bool find_packed(const char *git, const char *name, char commit[TD__GIT_TEXT]) {
    enum { MAX_LINES = 1 << 20 };
    char path[PATH_MAX], line[TD__GIT_TEXT + 64];
    FILE *file = join_path(path, git, "packed-refs") ? fopen(path, "re") : NULL;
    bool found = false;
    for (int i = 0; file && !found && i < MAX_LINES && fgets(line, sizeof line, file); i++) {
        cut_line(line);
        char *space = strchr(line, ' ');
        if (space && strcmp(space + 1, name) == 0) {
            *space = 0;
            found = snprintf(commit, TD__GIT_TEXT, "%s", line) < TD__GIT_TEXT;
        }
    }
    if (file) {
        (void)fclose(file);
    }
    return found;
}

static bool find_commit(const char *git, const char *name, char commit[TD__GIT_TEXT]) {
    char path[PATH_MAX];
    if (join_path(path, git, name) && read_start(path, commit, TD__GIT_TEXT) > 0) {
        cut_line(commit);
        return true;
    }
    return find_packed(git, name, commit);
}

bool td__git_head(const char *folder, char commit[TD__GIT_TEXT], char branch[TD__GIT_TEXT]) {
    char git[PATH_MAX], common[PATH_MAX], path[PATH_MAX], text[PATH_MAX];
    branch[0] = commit[0] = 0;
    if (!find_git_folder(folder, git) || !join_path(path, git, "HEAD") ||
        read_start(path, text, TD__GIT_TEXT) <= 0) {
        return false;
    }
    cut_line(text);
    if (strncmp(text, "ref: ", 5) != 0) {
        return snprintf(commit, TD__GIT_TEXT, "%s", text) < TD__GIT_TEXT;
    }
    char name[TD__GIT_TEXT];
    (void)snprintf(name, sizeof name, "%s", text + 5);
    const char *plain = strncmp(name, "refs/heads/", 11) == 0 ? name + 11 : name;
    (void)snprintf(branch, TD__GIT_TEXT, "%s", plain);
    if (find_commit(git, name, commit)) {
        return true;
    }
    if (!join_path(path, git, "commondir") || read_start(path, text, sizeof text) <= 0) {
        return false; /* a repository without a commit */
    }
    cut_line(text);
    bool known = text[0] == '/' ? snprintf(common, sizeof common, "%s", text) < PATH_MAX
                                : join_path(common, git, text);
    return known && find_commit(common, name, commit);
}

/* ---- Process and machine -------------------------------------------------------------------- */

/* The arguments as a shell would take them: one with other characters than these is quoted. */
static void give_command(td__fact_function *each, void *user) {
    enum { MAX_COMMAND = 1 << 14 };
    char *text = td__calloc(MAX_COMMAND, 1), *shown = td__calloc(4, MAX_COMMAND);
    ssize_t length = text && shown ? read_start("/proc/self/cmdline", text, MAX_COMMAND) : 0;
    size_t used = 0;
    if (length > 0) {
        td__hide_in_words(text, (size_t)length);
    }
    for (ssize_t next, at = 0; at < length; at = next) {
        next = at + (ssize_t)strlen(text + at) + 1;
        static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                    "_-./=:,+@%";
        (void)td_url_hide_password(text + at);
        const char *word = text + at;
        bool quoted = !*word || word[strspn(word, plain)] != 0;
        used += (size_t)sprintf(shown + used, "%s%s", at ? " " : "", quoted ? "'" : ""); // NOLINT
        for (; *word && used + 8 < 4 * (size_t)MAX_COMMAND; word++) {
            used += (size_t)sprintf(shown + used, *word == '\'' ? "'\\''" : "%c", *word); // NOLINT
        }
        shown[used] = quoted ? '\'' : 0;
        used += quoted;
    }
    if (used) {
        each(user, "environment.command", shown);
    }
    td__free(text);
    td__free(shown);
}

static void give_user(td__fact_function *each, void *user) {
    char room[4096];
    struct passwd entry, *found = NULL;
    if (getpwuid_r(geteuid(), &entry, room, sizeof room, &found) == 0 && found) {
        each(user, "environment.user", found->pw_name);
    }
}

static void give_machine(td__fact_function *each, void *user) {
    struct utsname name;
    char text[sizeof name.sysname + sizeof name.release + sizeof name.machine + 3];
    if (uname(&name) == 0) {
        each(user, "environment.host", name.nodename);
        (void)snprintf(text, sizeof text, "%s %s %s", name.sysname, name.release, name.machine);
        each(user, "environment.system", text);
    }
    (void)snprintf(text, sizeof text, "%ld", sysconf(_SC_NPROCESSORS_ONLN));
    each(user, "environment.processors", text);
    (void)snprintf(text, sizeof text, "%lld",
                   (long long)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE));
    each(user, "environment.memory", text);
}

/* These decide how a program computes or which job it is, and hold no secrets. */
static void give_variables(td__fact_function *each, void *user) {
    static const char *const allowed[] = {"CUDA_VISIBLE_DEVICES", "CUBLAS_WORKSPACE_CONFIG",
                                          "OMP_NUM_THREADS",      "MKL_NUM_THREADS",
                                          "TF_DETERMINISTIC_OPS", "PYTHONHASHSEED",
                                          "WORLD_SIZE",           "RANK",
                                          "LOCAL_RANK",           "SLURM_JOB_ID",
                                          "SLURM_JOB_NAME",       "SLURM_NNODES",
                                          "TAPEDECK_CPU"};
    for (size_t i = 0; i < TD__COUNT(allowed); i++) {
        const char *value = getenv(allowed[i]);
        char key[64];
        if (value) {
            (void)snprintf(key, sizeof key, "environment.variable.%s", allowed[i]);
            each(user, key, value);
        }
    }
}

void td__environment_facts(td__fact_function *each, void *user) {
    char folder[PATH_MAX], commit[TD__GIT_TEXT], branch[TD__GIT_TEXT];
    give_command(each, user);
    give_machine(each, user);
    give_user(each, user);
    give_variables(each, user);
    if (!getcwd(folder, sizeof folder)) {
        return;
    }
    each(user, "environment.folder", folder);
    if (td__git_head(folder, commit, branch)) {
        each(user, "environment.git.commit", commit);
        if (branch[0]) {
            each(user, "environment.git.branch", branch);
        }
    }
}
