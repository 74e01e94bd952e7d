#include "store/upload.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"
#include "store/batch.h"
#include "store/changes.h"
#include "store/send.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

/* Between two transactions, and after a failure at most; that a registration as the writer is renewed after, and that a
 * statement may take. */
static const double pause_seconds = 1, max_pause_seconds = 15, renew_seconds = 20,
                    statement_seconds = 20;

struct td__upload {
    td__sender sender; /* the thread's own */
    td__changes changes;
    char url[TD__URL_ROOM], folder[PATH_MAX], name[256], part[64], launch[TD__SENDER_TEXT];
    char id[TD__RUN_ID], real[PATH_MAX];
    td__store *store; /* run.db, read by the thread */
    pthread_t thread;
    double sent_at;
    bool connected;

    pthread_mutex_t lock; /* of all that follows */
    pthread_cond_t wake, done;
    bool pausing, paused, ending, ended;
    double until; /* when ending: the end of its patience, in td__seconds */
    bool failing, lasting, reported;
    td_error problem;
};

/* ---- One transaction ------------------------------------------------------------------------ */

static td_status open_store(td__upload *u, bool writing, td_error *error) {
    bool damaged;
    return u->store ? TD_OK : td__store_read(u->folder, writing, &u->store, &damaged, error);
}

static td_status send_changes(td__upload *u, bool live, td_error *error) {
    td__changes taken = {0};
    char *real = live ? NULL : realpath(u->folder, NULL); /* it may have been renamed */
    if (real) {
        (void)snprintf(u->real, sizeof u->real, "%s", real);
    }
    free(real); // NOLINT: realpath's own
    td__sent_run run = {.folder = u->real,
                        .name = u->name,
                        .part = u->part,
                        .launch = u->launch,
                        .id = u->id,
                        .bytes = live ? -1 : td__folder_bytes(u->real)};
    td_status status = open_store(u, live, error);
    if (!status && !u->connected) {
        status = td__sender_open(&u->sender, u->url, &run, error);
        u->connected = !status;
        if (u->sender.pg) {
            u->sender.pg->seconds = statement_seconds;
        }
    }
    if (status) {
        return status;
    }
    td__changes_take(&u->changes, &taken);
    status = td__sender_send(&u->sender, u->store, &taken, &run, live, error);
    if (status) {
        td__changes_return(&u->changes, &taken);
        u->connected = false;
    }
    for (int i = 0; i < TD__TABLES; i++) {
        td__free(taken.steps[i]);
    }
    u->sent_at = td__seconds();
    return status;
}

/* ---- The thread ----------------------------------------------------------------------------- */

static void note_outcome(td__upload *u, td_status status, const td_error *error) {
    pthread_mutex_lock(&u->lock);
    bool lasting = status && status != TD_IO; /* not a server that is away: it may come back */
    u->reported = u->failing && u->reported;
    u->lasting = lasting;
    u->failing = status != TD_OK;
    u->problem = status ? *error : (td_error){0};
    pthread_mutex_unlock(&u->lock);
}

/* Until the time, or until something is wanted of the thread. */
static void wait_for_work(td__upload *u, double seconds) {
    struct timespec until = td__deadline(seconds);
    pthread_mutex_lock(&u->lock);
    while (!u->ending && !u->pausing && pthread_cond_timedwait(&u->wake, &u->lock, &until) == 0) {
    }
    if (u->pausing && !u->paused) {
        td__store_close(u->store);
        u->store = NULL;
        u->paused = true;
        pthread_cond_broadcast(&u->done);
    }
    while (u->paused && !u->ending) {
        pthread_cond_wait(&u->wake, &u->lock);
    }
    pthread_mutex_unlock(&u->lock);
}

static bool is_ending(td__upload *u, double *until) {
    pthread_mutex_lock(&u->lock);
    bool ending = u->ending;
    *until = u->until;
    pthread_mutex_unlock(&u->lock);
    return ending;
}

/* The rest, until that has worked or the time is over. */
static void send_rest(td__upload *u, double until) {
    for (double pause = 0.1;; pause = fmin(2 * pause, 2)) {
        td_error error = {0};
        td_status status = send_changes(u, false, &error);
        note_outcome(u, status, &error);
        if (!status || td__seconds() + pause >= until) {
            return;
        }
        (void)usleep((useconds_t)(pause * 1e6));
    }
}

static void *run_upload(void *argument) {
    td__upload *u = argument;
    double pause = pause_seconds, until;
    while (!is_ending(u, &until)) {
        bool renew = u->connected && td__seconds() - u->sent_at >= renew_seconds;
        if (td__changes_any(&u->changes) || renew) {
            td_error error = {0};
            double started = td__seconds();
            td_status status = send_changes(u, true, &error);
            note_outcome(u, status, &error);
            pause = status ? fmin(2 * pause, max_pause_seconds)
                           : fmax(pause_seconds, 2 * (td__seconds() - started));
        }
        wait_for_work(u, pause);
    }
    send_rest(u, until);
    td__store_close(u->store);
    u->store = NULL;
    td__sender_close(&u->sender);
    pthread_mutex_lock(&u->lock);
    u->ended = true;
    pthread_cond_broadcast(&u->done);
    pthread_mutex_unlock(&u->lock);
    return NULL;
}

/* ---- For the writer of run.db --------------------------------------------------------------- */

static void release_upload(td__upload *u) {
    pthread_mutex_destroy(&u->lock);
    pthread_cond_destroy(&u->wake);
    pthread_cond_destroy(&u->done);
    td__changes_release(&u->changes);
    td__free(u);
}

/* "…/NAME" or "…/NAME/rank-00000" or "…/NAME/attempt-2/rank-00000". */
static void split_name(td__upload *u, const char *name) {
    (void)snprintf(u->name, sizeof u->name, "%s", name);
    (void)snprintf(u->launch, sizeof u->launch, "%s", u->id);
    if (strncmp(name, "rank-", 5) != 0) {
        return;
    }
    char above[PATH_MAX], *slash;
    (void)snprintf(above, sizeof above, "%s", u->real);
    (void)snprintf(u->part, sizeof u->part, "%.60s", name);
    slash = strrchr(above, '/');
    if (slash) {
        *slash = 0;
        slash = strrchr(above, '/');
    }
    if (slash && strncmp(slash + 1, "attempt-", 8) == 0) {
        (void)snprintf(u->part, sizeof u->part, "%.20s/%.40s", slash + 1, name);
        *slash = 0;
        slash = strrchr(above, '/');
    }
    if (slash) {
        (void)snprintf(u->name, sizeof u->name, "%.255s", slash + 1);
        td__sender_launch(above, u->id, u->launch);
    }
}

static td_status note_id(td__store *store, char id[TD__RUN_ID], td_error *error) {
    td__rows *notes = store->class->select(store, &(td__query){.source = TD__RUN_NOTES}, error);
    bool there = false;
    if (!notes) {
        return TD_FORMAT;
    }
    td__rows_bind(notes, 0, 0, 0, -1);
    while (!there && td__rows_next(notes, NULL) > 0) {
        const char *key = td__rows_text(notes, 0, NULL), *value = td__rows_text(notes, 1, NULL);
        if (key && value && strcmp(key, "store.id") == 0) {
            (void)snprintf(id, TD__RUN_ID, "%s", value);
            there = true;
        }
    }
    td__rows_end(notes);
    if (there) {
        return TD_OK;
    }
    uint64_t random[2];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random) {
        return td_error_set(error, TD_IO, "there are no random numbers for the id of a run");
    }
    (void)snprintf(id, TD__RUN_ID, "%016llx%016llx", (unsigned long long)random[0],
                   (unsigned long long)random[1]);
    td__batch batch = {.store = store};
    td__batch_begin(&batch, TD__RUN_ROW);
    td__batch_words(&batch, "store.id");
    td__batch_words(&batch, id);
    td_status status = td__batch_end(&batch, error);
    status = status ? status : td__batch_commit(&batch, error);
    td__batch_release(&batch);
    return status;
}

td_status td__upload_start(td__store *store, const char *url, const char *folder, const char *name,
                           td__upload **upload, td_error *error) {
    td__upload *u = td__calloc(1, sizeof *u);
    if (!u) {
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    td__changes_init(&u->changes);
    pthread_mutex_init(&u->lock, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&u->wake, &attributes);
    pthread_cond_init(&u->done, &attributes);
    pthread_condattr_destroy(&attributes);
    (void)snprintf(u->folder, sizeof u->folder, "%s", folder);
    char plain[TD__URL_ROOM];
    bool tensors;
    td_status status = td__pg_available(error);
    status = status ? status : td__url_tensors(url, plain, &tensors, error);
    status =
        status ? status
        : td__url_is(url)
            ? td__url_take(url, u->url, NULL, error)
            : td_error_set(error, TD_INVALID,
                           "store: expected the URL of a database, postgresql://HOST/DATABASE");
    status = status ? status : note_id(store, u->id, error);
    if (!status) {
        char *real = realpath(folder, NULL);
        (void)snprintf(u->real, sizeof u->real, "%s", real ? real : folder);
        free(real); // NOLINT: realpath's own
        split_name(u, name);
        store->changes = &u->changes;
        if (td__thread_start(&u->thread, run_upload, u) != 0) {
            store->changes = NULL;
            status = td_error_set(error, TD_MEMORY, "cannot start a thread");
        }
    }
    if (status) {
        release_upload(u);
        return status;
    }
    *upload = u;
    return TD_OK;
}

bool td__upload_problem(td__upload *u, td_error *problem) {
    pthread_mutex_lock(&u->lock);
    bool new = u->lasting && !u->reported;
    if (new) {
        *problem = u->problem;
        u->reported = true;
    }
    pthread_mutex_unlock(&u->lock);
    return new;
}

void td__upload_pause(td__upload *u) {
    pthread_mutex_lock(&u->lock);
    u->pausing = true;
    pthread_cond_broadcast(&u->wake);
    while (!u->paused) {
        pthread_cond_wait(&u->done, &u->lock);
    }
    pthread_mutex_unlock(&u->lock);
}

bool td__upload_finish(td__upload *u, double seconds, td_error *problem) {
    if (!u) {
        return true;
    }
    pthread_mutex_lock(&u->lock);
    u->until = td__seconds() + seconds;
    u->ending = true;
    pthread_cond_broadcast(&u->wake);
    pthread_mutex_unlock(&u->lock);
    pthread_join(u->thread, NULL);
    bool good = !u->failing;
    if (!good) {
        *problem = u->problem;
    }
    release_upload(u);
    return good;
}
