#include "run/push.h"

#include "base/memory.h"
#include "base/options.h"
#include "base/url.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>

static const struct {
    const char *scheme;
    td_status (*push)(td__push *push, td_error *error); /* NULL: an export */
    bool url;                                           /* all of it names the target */
} targets[] = {{"mlflow:", td__push_mlflow, false},
               {"wandb-offline:", td__push_wandb, false},
               {"tensorboard:", NULL, false},
               {"postgresql:", td__push_database, true},
               {"postgres:", td__push_database, true}};

/* ---- What targets use ----------------------------------------------------------------------- */

void td__push_say(const td__push *push, const char *format, ...) {
    char text[TD_ERROR_TEXT_SIZE];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    push->problem(push->user, text);
}

void td__push_id(char id[TD__PUSH_ID], int length) {
    static const char digits[] = "0123456789abcdef";
    uint8_t bytes[TD__PUSH_ID] = {0};
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        memcpy(bytes, &now, sizeof now < sizeof bytes ? sizeof now : sizeof bytes);
    }
    for (int i = 0; i < length; i++) {
        id[i] = digits[bytes[i] & 15];
    }
    id[length] = 0;
}

td_status td__push_folder(const char *path, td_error *error) {
    char copy[TD__PUSH_PATH];
    (void)snprintf(copy, sizeof copy, "%s", path);
    for (char *slash = copy + 1;; slash++) {
        slash = strchr(slash, '/');
        if (slash) {
            *slash = 0;
        }
        if (mkdir(copy, 0777) != 0 && errno != EEXIST) {
            return td_error_set(error, TD_IO, "%s: %s", copy, strerror(errno));
        }
        if (!slash) {
            return TD_OK;
        }
        *slash = '/';
    }
}

td_status td__push_join(char out[TD__PUSH_PATH], const char *folder, const char *name,
                        td_error *error) {
    int length = snprintf(out, TD__PUSH_PATH, "%s/%s", folder, name);
    return length > 0 && length < TD__PUSH_PATH
               ? TD_OK
               : td_error_set(error, TD_INVALID, "%s: the name is too long", name);
}

td_status td__push_close(FILE *file, const char *path, td_error *error) {
    bool good = fflush(file) == 0 && !ferror(file);
    good = fclose(file) == 0 && good;
    return good ? TD_OK : td_error_set(error, TD_IO, "%s: %s", path, strerror(errno));
}

/* ---- The run -------------------------------------------------------------------------------- */

static void ignore(void *user, const char *text) {
    (void)user;
    (void)text;
}

static void keep_title(void *user, const char *key, const char *value) {
    char *title = user;
    if (strcmp(key, "title") == 0) {
        (void)snprintf(title, TD__PUSH_PATH, "%s", value);
    }
}

static td_status push_run(td__push *push, const char *from,
                          td_status (*to)(td__push *push, td_error *error), td_error *error) {
    char title[TD__PUSH_PATH] = "";
    push->run = td_run_open(from, error);
    td_status status = push->run ? TD_OK : error->status;
    push->info.size = sizeof push->info;
    if (!status) {
        td_run_about(push->run, &push->info);
        status = push->info.events ? td_run_refresh(push->run, error) : TD_OK;
    }
    if (!status) {
        td_run_about(push->run, &push->info);
        (void)snprintf(title, sizeof title, "%s", push->info.name);
        (void)td_run_notes(push->run, "run", keep_title, title, NULL);
        push->title = title;
        status = to(push, error);
        const char *const *problems;
        size_t count = td_run_problems(push->run, &problems);
        for (size_t i = 0; i < count; i++) {
            push->problem(push->user, problems[i]);
        }
    }
    td_run_close(push->run);
    return status;
}

/* An event file in FOLDER/NAME. */
static td_status push_events(td__push *push, const char *from, td_error *error) {
    td_run *run = td_run_open(from, error);
    if (!run) {
        return error->status;
    }
    td_run_info info = {.size = sizeof info};
    td_run_about(run, &info);
    char out[TD__PUSH_PATH];
    td_status status = td__push_folder(push->folder, error);
    status = status ? status : td__push_join(out, push->folder, info.name, error);
    td_run_close(run);
    td_export_options options = {.size = sizeof options,
                                 .to = "tensorboard",
                                 .out = out,
                                 .what = push->query.what,
                                 .first_step = push->query.first_step,
                                 .last_step = push->query.last_step,
                                 .problem = push->problem,
                                 .user = push->user};
    push->done.size = sizeof push->done;
    return status ? status : td_run_export(from, &options, &push->done, error);
}

td_status td_run_push(const char *from, const char *to, const td_export_options *options,
                      td_exported *exported, td_error *error) {
    td_error local = {0};
    td_export_options full = {0};
    td__push *push = td__calloc(1, sizeof *push);
    if (options) {
        (void)td__options(&full, sizeof full, options);
    }
    td_status status = push ? TD_INVALID : TD_MEMORY;
    for (size_t i = 0; push && i < sizeof targets / sizeof *targets; i++) {
        size_t length = strlen(targets[i].scheme);
        if (strncmp(to, targets[i].scheme, length) != 0) {
            continue;
        }
        push->folder = targets[i].url ? to : to + length;
        push->folder += strncmp(push->folder, "file://", 7) == 0 ? 7 : 0;
        push->problem = full.problem ? full.problem : ignore;
        push->user = full.user;
        push->query = (td_run_query){.size = sizeof push->query,
                                     .what = full.what,
                                     .first_step = full.first_step,
                                     .last_step = full.last_step,
                                     .places = true};
        push->done = (td_exported){.size = sizeof push->done, .runs = 1};
        if (!targets[i].url && (!*push->folder || strstr(push->folder, "://"))) {
            status = td_error_set(&local, TD_INVALID,
                                  "%s: a folder is expected after %s; servers are not written to",
                                  to, targets[i].scheme);
        } else {
            status = targets[i].push ? push_run(push, from, targets[i].push, &local)
                                     : push_events(push, from, &local);
        }
        break;
    }
    if (status && !local.status) {
        status =
            td_error_set(&local, status,
                         status == TD_MEMORY ? "out of memory"
                                             : "%s: expected mlflow:FOLDER, wandb-offline:FOLDER, "
                                               "tensorboard:FOLDER or the URL of a database",
                         to);
    }
    if (!status && exported) {
        td__options_give(exported, &push->done, sizeof push->done);
    }
    if (status && error) {
        *error = local;
    }
    td__free(push);
    return status;
}
