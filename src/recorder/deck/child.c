#include "deck/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>

extern char **environ;

static int redirect(posix_spawn_file_actions_t *files, int from, int to, int mode) {
    return from < 0 ? posix_spawn_file_actions_addopen(files, to, "/dev/null", mode, 0)
                    : posix_spawn_file_actions_adddup2(files, from, to);
}

int td__child_start(char *const words[], int in, int out, _Bool loud, pid_t *process) {
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    sigset_t none, pipe_signal;
    sigemptyset(&none);
    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    int failed = posix_spawn_file_actions_init(&files);
    if (failed) {
        return failed;
    }
    failed = posix_spawnattr_init(&how);
    if (!failed) {
        failed = posix_spawnattr_setsigmask(&how, &none);
        failed = failed ? failed : posix_spawnattr_setsigdefault(&how, &pipe_signal);
        failed =
            failed ? failed
                   : posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
        failed = failed ? failed : redirect(&files, in, 0, O_RDONLY);
        failed = failed ? failed : redirect(&files, out, 1, O_WRONLY);
        failed = failed || loud ? failed : redirect(&files, -1, 2, O_WRONLY);
        failed = failed ? failed : posix_spawnp(process, words[0], &files, &how, words, environ);
        posix_spawnattr_destroy(&how);
    }
    posix_spawn_file_actions_destroy(&files);
    return failed;
}
