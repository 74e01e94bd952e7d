/* `git diff HEAD`, read from a pipe that never blocks. The child is killed when it takes too long or prints
 * more than is wanted. */
#include "deck/environment.h"

#include "base/clock.h"
#include "base/memory.h"
#include "deck/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const double MAX_SECONDS = 20;

static bool spawn_git(pid_t *process, int out) {
    /* No locks are taken, and nothing that a repository's settings name is started. */
    static char *const words[] = {"git",
                                  "--no-optional-locks",
                                  "-c",
                                  "core.fsmonitor=false",
                                  "diff",
                                  "HEAD",
                                  "--no-color",
                                  "--no-ext-diff",
                                  "--no-textconv",
                                  "--", /* all but files that are there to hold secrets */
                                  ":(exclude,top,glob)**/.env*",
                                  ":(exclude,top,glob)**/.netrc",
                                  ":(exclude,top,glob)**/*.key",
                                  ":(exclude,top,glob)**/*.pem",
                                  ":(exclude,top,glob)**/*credentials*",
                                  NULL};
    return td__child_start(words, -1, out, false, process) == 0;
}

void td__git_diff_start(td__git_diff *diff, size_t limit) {
    char commit[TD__GIT_TEXT], branch[TD__GIT_TEXT];
    int ends[2];
    *diff = (td__git_diff){.limit = limit, .until = td__seconds() + MAX_SECONDS};
    if (limit == 0 || !td__git_head(".", commit, branch) || pipe2(ends, O_CLOEXEC) != 0) {
        return;
    }
    diff->text = td__calloc(limit + 1, 1);
    diff->pipe = ends[0];
    if (!diff->text || fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0 ||
        !spawn_git(&diff->process, ends[1])) {
        diff->process = 0;
        close(ends[0]);
    }
    close(ends[1]);
}

/* The child has printed all it will, or is not to go on. */
static bool end_child(td__git_diff *diff, bool whole) {
    int how = 0;
    if (!whole) {
        (void)kill(diff->process, SIGKILL);
    }
    close(diff->pipe);
    pid_t ended = waitpid(diff->process, &how, 0); /* it has closed its output: this is short */
    diff->process = 0;
    diff->complete = whole && ended > 0 && WIFEXITED(how) && WEXITSTATUS(how) == 0;
    diff->text[diff->length] = 0;
    return true;
}

bool td__git_diff_poll(td__git_diff *diff) {
    while (diff->process) {
        char more;
        bool full = diff->length == diff->limit;
        ssize_t got = full
                          ? read(diff->pipe, &more, 1)
                          : read(diff->pipe, diff->text + diff->length, diff->limit - diff->length);
        if (got == 0) {
            return end_child(diff, true);
        }
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0 && errno == EAGAIN && td__seconds() < diff->until) {
            return false;
        }
        if (got < 0 || full) {
            return end_child(diff, false);
        }
        diff->length += (size_t)got;
    }
    return false;
}

void td__git_diff_release(td__git_diff *diff) {
    if (diff->process) {
        (void)end_child(diff, false);
    }
    td__free(diff->text);
    *diff = (td__git_diff){0};
}
