/* Sending runs to a database, and bringing them back. */
#include "base/memory.h"
#include "base/options.h"
#include "base/url.h"
#include "run/push.h"
#include "run/ranks_store.h"
#include "run/run.h"
#include "store/send.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- There ---------------------------------------------------------------------------------- */

/* One run.db of a run; part: "" or "rank-00000". */
static td_status send_store(td__push *push, td__store *store, const char *part, const char *launch,
                            td_error *error) {
    char id[TD__RUN_ID], folder[TD__PUSH_PATH];
    char *full = realpath(push->info.folder, NULL);
    td__sender *sender = td__calloc(1, sizeof *sender);
    (void)snprintf(folder, sizeof folder, "%s%s%s", full ? full : push->info.folder,
                   *part ? "/" : "", part);
    free(full); // NOLINT: realpath's own
    td_status status = sender ? td__sender_id(store, push->info.events ? folder : "", id, error)
                              : td_error_set(error, TD_MEMORY, "out of memory");
    td__sent_run run = {.folder = folder,
                        .name = push->info.name,
                        .part = part,
                        .launch = launch ? launch : id,
                        .id = id,
                        .bytes = td__folder_bytes(folder)};
    status = status ? status : td__sender_open(sender, push->folder, &run, error);
    status = status ? status : td__sender_send(sender, store, NULL, &run, false, error);
    if (!status) {
        push->done.written += sender->rows;
        (void)snprintf(push->done.out, sizeof push->done.out, "%s#%s", sender->pg->url,
                       sender->name);
    }
    if (sender) {
        td__sender_close(sender);
    }
    td__free(sender);
    return status;
}

td_status td__push_database(td__push *push, td_error *error) {
    td_run *run = push->run;
    if (push->query.what || push->query.first_step || push->query.last_step) {
        return td_error_set(error, TD_INVALID, "a database takes whole runs, not parts of them");
    }
    if (run->remote) {
        return td_error_set(error, TD_INVALID, "%s is in a database already: pull it first",
                            push->info.folder);
    }
    if (!run->ranks) {
        return send_store(push, run->store, "", NULL, error);
    }
    const td__ranks_store *ranks = (td__ranks_store *)run->store;
    char id[TD__RUN_ID], launch[TD__SENDER_TEXT];
    td_status status = td__sender_id(ranks->sources[0].store, "", id, error);
    td__sender_launch(push->info.folder, id, launch);
    for (size_t i = 0; i < ranks->count && !status; i++) {
        status = send_store(push, ranks->sources[i].store, ranks->sources[i].folder, launch, error);
    }
    return status;
}

/* ---- And back ------------------------------------------------------------------------------- */

static td_status make_new_folder(const char *path, td_error *error) {
    td_status status = TD_OK;
    if (access(path, F_OK) == 0) {
        return td_error_set(error, TD_EXISTS, "%s exists already", path);
    }
    char above[TD__PUSH_PATH];
    (void)snprintf(above, sizeof above, "%s", path);
    char *slash = strrchr(above, '/');
    if (slash && slash != above) {
        *slash = 0;
        status = td__push_folder(above, error);
    }
    if (!status && mkdir(path, 0777) != 0) {
        status = td_error_set(error, TD_IO, "%s: %s", path, strerror(errno));
    }
    return status;
}

/* A file that the database has, into the run's folder. */
typedef struct bringing {
    td__store *from;
    const char *folder;
} bringing;

static td_status write_pieces(const bringing *b, const char *name, int file, int64_t size,
                              td_error *error) {
    enum { PIECE = 1 << 20 };
    uint8_t *bytes = td__calloc(PIECE, 1);
    td_status status = bytes ? TD_OK : td_error_set(error, TD_MEMORY, "out of memory for a file");
    for (int64_t at = 0; at < size && !status; at += PIECE) {
        size_t part = size - at < PIECE ? (size_t)(size - at) : PIECE;
        status = td__store_file_read(b->from, name, at, part, bytes, error);
        for (size_t done = 0; done < part && !status;) {
            ssize_t put = write(file, bytes + done, part - done);
            if (put < 0 && errno != EINTR) {
                status = td_error_set(error, TD_IO, "%s: %s", name, strerror(errno));
            }
            done += put > 0 ? (size_t)put : 0;
        }
    }
    td__free(bytes);
    return status;
}

static td_status bring_file(void *user, const char *name, td_error *error) {
    const bringing *b = user;
    char path[TD__PUSH_PATH];
    int64_t size = 0;
    if (!td__store_file_inside(name)) {
        return td_error_set(error, TD_FORMAT, "%s is no file of a run", name);
    }
    td_status status = td__push_join(path, b->folder, name, error);
    status = status ? status : td__store_file_size(b->from, name, &size, error);
    char *slash = strrchr(path, '/');
    if (!status) {
        *slash = 0;
        status = td__push_folder(path, error);
        *slash = '/';
    }
    int file = status ? -1 : open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (!status && file < 0) {
        return td_error_set(error, TD_IO, "%s: %s", path, strerror(errno));
    }
    status = status ? status : write_pieces(b, name, file, size, error);
    if (file >= 0 && close(file) != 0 && !status) {
        status = td_error_set(error, TD_IO, "%s: %s", path, strerror(errno));
    }
    return status;
}

static td_status bring_store(const char *place, const char *folder, td_error *error) {
    td__store *from = NULL, *to = NULL;
    bool damaged;
    td_status status = td__store_read(place, false, &from, &damaged, error);
    status = status ? status : make_new_folder(folder, error);
    status = status ? status : td__store_create(folder, &to, error);
    status = status ? status : td__store_copy(from, to, error);
    status = status ? status : td__store_files(from, bring_file, &(bringing){from, folder}, error);
    td__store_close(to);
    td__store_close(from);
    return status;
}

td_status td_run_pull(const char *from, const char *folder, td_exported *exported,
                      td_error *error) {
    td_error local = {0};
    td_exported done = {.size = sizeof done, .runs = 1};
    char **parts = NULL;
    size_t count = 0;
    if (!td__url_is(from)) {
        return td_error_set(error, TD_INVALID, "%s: expected URL#RUN, a run in a database", from);
    }
    td_run *run = td__run_begin(from, &local);
    td_status status = run ? TD_OK : local.status;
    if (!status) {
        (void)snprintf(done.out, sizeof done.out, "%s", folder ? folder : run->name);
        status = td__remote_parts(run->folder, &parts, &count, &local);
    }
    if (!status && count == 0) {
        status = bring_store(run->folder, done.out, &local);
    }
    for (size_t i = 0; i < count && !status; i++) {
        char place[TD__PUSH_PATH], to[TD__PUSH_PATH];
        (void)snprintf(place, sizeof place, "%s/%s", run->folder, parts[i]);
        bool fits = (size_t)snprintf(to, sizeof to, "%s/%s", done.out, parts[i]) < sizeof to;
        bool inside = !strstr(parts[i], "..") && parts[i][0] != '/';
        status = fits && inside ? bring_store(place, to, &local)
                                : td_error_set(&local, TD_INVALID, "%s is no rank", parts[i]);
    }
    td__remote_free(parts, count);
    td_run_close(run);
    if (!status && exported) {
        td__options_give(exported, &done, sizeof done);
    }
    if (status && error) {
        *error = local;
    }
    return status;
}
