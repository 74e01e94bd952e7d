#include "answers/work.h"

#include "base/memory.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>

extern char **environ;

enum { MAX_OUTPUT = 4 << 20 };

void td__work_init(td__work *work, const char *program) {
    *work = (td__work){.program = program};
    pthread_mutex_init(&work->lock, NULL);
}

static void close_file(FILE *file) {
    if (file) {
        (void)fclose(file);
    }
}

static void drop_job(td__job *job) {
    close_file(job->output);
    close_file(job->errors);
    *job = (td__job){0};
}

/* Notices the end of a process. */
static void look_after(td__job *job, int how) {
    int status = 0;
    if (!job->running || waitpid(job->process, &status, how) != job->process) {
        return;
    }
    job->running = false;
    job->status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void td__work_release(td__work *work) {
    for (int i = 0; i < TD__MAX_JOBS; i++) {
        td__job *job = &work->jobs[i];
        if (job->running && kill(job->process, SIGTERM) == 0) {
            look_after(job, 0);
        }
        drop_job(job);
    }
    pthread_mutex_destroy(&work->lock);
}

/* A place for a job: an empty one, or that of the oldest that has ended. NULL when enough of them run. */
static td__job *find_place(td__work *work) {
    td__job *place = NULL;
    int running = 0;
    for (int i = 0; i < TD__MAX_JOBS; i++) {
        td__job *job = &work->jobs[i];
        look_after(job, WNOHANG);
        running += job->running;
        if (!job->running && (!place || job->id < place->id)) {
            place = job;
        }
    }
    return running < TD__MAX_RUNNING ? place : NULL;
}

/* The process has no terminal to read from, and the signals that the viewer's threads block. */
static int spawn(td__job *job, const char *program, const char *const *arguments) {
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none;
    sigemptyset(&none);
    int code = posix_spawn_file_actions_init(&files);
    if (code) {
        return code;
    }
    code = posix_spawnattr_init(&attributes);
    if (!code) {
        (void)posix_spawnattr_setsigmask(&attributes, &none);
        (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
        code = posix_spawn_file_actions_addopen(&files, 0, "/dev/null", 0, 0);
        code = code ? code : posix_spawn_file_actions_adddup2(&files, fileno(job->output), 1);
        code = code ? code : posix_spawn_file_actions_adddup2(&files, fileno(job->errors), 2);
        code = code ? code
                    : posix_spawn(&job->process, program, &files, &attributes,
                                  (char *const *)(uintptr_t)arguments, environ);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&files);
    return code;
}

static td_status start_job(td__work *work, td__job *job, const char *const *arguments,
                           td_error *error) {
    drop_job(job);
    job->output = tmpfile();
    job->errors = tmpfile();
    int code = job->output && job->errors ? spawn(job, work->program, arguments) : errno;
    if (code) {
        drop_job(job);
        return td_error_set(error, TD_IO, "%s cannot be started: %s", work->program,
                            strerror(code));
    }
    job->running = true;
    job->id = ++work->last;
    return TD_OK;
}

td_status td__work_start(td__work *work, const char *const *arguments, bool writes, int64_t *id,
                         td_error *error) {
    if (!work->program) {
        return td_error_set(error, TD_UNSUPPORTED,
                            "this viewer does not execute steps: `tapedeck view` does");
    }
    pthread_mutex_lock(&work->lock);
    td__job *job = find_place(work);
    td_status status = job ? start_job(work, job, arguments, error)
                           : td_error_set(error, TD_BUSY, "other steps are being executed");
    if (!status) {
        *id = job->id;
        job->writes = writes;
    }
    pthread_mutex_unlock(&work->lock);
    return status;
}

/* What a process wrote, as text; "" when it wrote nothing. */
static char *read_all(FILE *file, td_error *error) {
    long size = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    char *text = size >= 0 && size <= MAX_OUTPUT ? td__calloc((size_t)size + 1, 1) : NULL;
    if (!text) {
        td_error_set(error, TD_RANGE, "the output of the program is too large");
        return NULL;
    }
    rewind(file);
    if (fread(text, 1, (size_t)size, file) != (size_t)size) {
        td_error_set(error, TD_IO, "the output of the program cannot be read");
        td__free(text);
        return NULL;
    }
    return text;
}

/* "tapedeck: " is how the program begins its messages. */
static const char *message_of(const char *text) {
    static const char name[] = "tapedeck: ";
    return strncmp(text, name, sizeof name - 1) == 0 ? text + sizeof name - 1 : text;
}

static td_status put_result(const td__job *job, td__output *out, td_error *error) {
    char *output = read_all(job->output, error);
    char *errors = output ? read_all(job->errors, error) : NULL;
    if (errors) {
        errors[strcspn(errors, "\n")] = 0;
        td__put_format(out, "{\"running\":false,\"status\":%d,\"output\":", job->status);
        td__put_text(out, *output ? output : "null");
        td__put_text(out, ",\"error\":");
        td__put_json(out, job->status < 0 ? "it was ended by a signal" : message_of(errors));
        td__put_text(out, "}");
    }
    td_status status = errors ? TD_OK : error->status;
    td__free(output);
    td__free(errors);
    return status;
}

td_status td__work_put(td__work *work, int64_t id, td__output *out, bool *written,
                       td_error *error) {
    td_status status = TD_OK;
    const td__job *found = NULL;
    pthread_mutex_lock(&work->lock);
    for (int i = 0; i < TD__MAX_JOBS && id > 0; i++) {
        found = work->jobs[i].id == id ? &work->jobs[i] : found;
        look_after(&work->jobs[i], WNOHANG);
    }
    if (!found) {
        status = td_error_set(error, TD_INVALID, "its result is not kept any more: start it again");
    } else if (found->running) {
        td__put_text(out, "{\"running\":true}");
    } else {
        status = put_result(found, out, error);
        *written = !status && found->writes;
    }
    pthread_mutex_unlock(&work->lock);
    return status;
}
