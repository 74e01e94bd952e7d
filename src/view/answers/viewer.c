/* A viewer: the run cache, the HTTP engine, and a thread that refreshes the runs and publishes
 * changes. */
#include "answers/answer.h"
#include "answers/token.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/options.h"
#include "base/plugin.h"
#include "tapedeck/view.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* The last RING messages are kept for slow clients; a client that is further behind gets a reset
 * message and reloads everything. */
enum { RING = 64, DEFAULT_PORT = 6464 };
static const double pause_seconds = 0.25, heartbeat_seconds = 15, awake_seconds = 20;

struct td_viewer {
    td__server_context context;
    td__http_engine engine;
    td__http_server *server;
    char url[512];
    char *program;
    pthread_t refresher;
    bool refresher_started;
    pthread_mutex_t lock;
    pthread_cond_t ending;
    bool ended;                /* lock */
    td__output messages[RING]; /* lock; message n is at n % RING, from 1 on */
    uint64_t message_count;    /* lock */
    _Atomic double last_asked;
};

/* ---- Messages ------------------------------------------------------------------------------- */

static void publish_changes(td_viewer *viewer, const void *text, size_t size) {
    pthread_mutex_lock(&viewer->lock);
    td__output *message = &viewer->messages[++viewer->message_count % RING];
    message->size = 0;
    message->failed = false;
    td__put(message, text, size);
    if (message->failed) {
        message->size = 0;
    }
    pthread_mutex_unlock(&viewer->lock);
    viewer->engine.wake(viewer->server);
}

static size_t next_message(void *user, uint64_t *sequence, char *text, size_t size) {
    static const char reset[] = "data: {\"reset\":true}\n\n";
    td_viewer *viewer = user;
    size_t length = 0;
    pthread_mutex_lock(&viewer->lock);
    if (*sequence == 0 || *sequence + RING <= viewer->message_count) {
        *sequence = viewer->message_count + 1;
        length = sizeof reset - 1;
        memcpy(text, reset, length < size ? length : size);
    } else if (*sequence <= viewer->message_count) {
        const td__output *message = &viewer->messages[*sequence % RING];
        length = message->size;
        if (length > size) {
            length = sizeof reset - 1;
            memcpy(text, reset, length);
        } else if (length) {
            memcpy(text, message->data, length);
        }
        ++*sequence;
    }
    pthread_mutex_unlock(&viewer->lock);
    return length;
}

static void answer(void *user, const td__http_request *request, td__response *response) {
    td_viewer *viewer = user;
    td__answer(&viewer->context, request, response);
    if (response->status < 400) {
        atomic_store(&viewer->last_asked, td__seconds());
    }
}

static void release(void *user, td__response *response) {
    (void)user;
    td__output_release(&response->body);
}

/* ---- The thread ----------------------------------------------------------------------------- */

static bool wait_for_next_refresh(td_viewer *viewer) {
    struct timespec until = td__deadline(pause_seconds);
    pthread_mutex_lock(&viewer->lock);
    if (!viewer->ended) {
        (void)pthread_cond_timedwait(&viewer->ending, &viewer->lock, &until);
    }
    bool going_on = !viewer->ended;
    pthread_mutex_unlock(&viewer->lock);
    return going_on;
}

/* Runs are refreshed only while a client asks or follows. */
static void *refresh_runs(void *user) {
    td_viewer *viewer = user;
    double last_message = td__seconds();
    do {
        double now = td__seconds();
        bool followed = viewer->engine.followed(viewer->server);
        bool awake = followed || now - atomic_load(&viewer->last_asked) < awake_seconds;
        td__output changes = {0}, message = {0};
        if (awake && td__run_cache_refresh(viewer->context.cache, &changes)) {
            td__put_text(&message, "data: ");
            td__put(&message, changes.data, changes.size);
            td__put_text(&message, "\n\n");
            message.failed |= changes.failed;
        } else if (now - last_message > heartbeat_seconds) {
            td__put_text(&message, ":\n\n"); /* a heartbeat: detects closed connections */
        }
        if (message.size && !message.failed) {
            publish_changes(viewer, message.data, message.size);
            last_message = now;
        }
        td__output_release(&message);
        td__output_release(&changes);
    } while (wait_for_next_refresh(viewer));
    return NULL;
}

/* ---- Opening -------------------------------------------------------------------------------- */

static td_status listen_at(td_viewer *viewer, const char *host, int port, td_error *error) {
    td__http_options options = {.host = host ? host : "127.0.0.1",
                                .port = port == TD_ANY_PORT ? 0
                                        : port              ? port
                                                            : DEFAULT_PORT,
                                .user = viewer,
                                .answer = answer,
                                .release = release,
                                .message = next_message};
    /* The port has to be known before the first request is answered: Host is checked against it. */
    viewer->context.port = options.port;
    td_status status =
        viewer->engine.start(&options, &viewer->server, &viewer->context.port, error);
    if (status && !port) {
        options.port = 0;
        status = viewer->engine.start(&options, &viewer->server, &viewer->context.port, error);
    }
    return status;
}

static td_status load_engine(td_viewer *viewer, td_error *error) {
    const td__http_engine *engine =
        td__plugin_symbol("http", "td_http_engine", "libmicrohttpd12", error);
    if (!engine) {
        return TD_UNSUPPORTED;
    }
    if (engine->size != sizeof *engine) {
        return td_error_set(error, TD_UNSUPPORTED,
                            "libtapedeck-http.so is of another version of tapedeck");
    }
    viewer->engine = *engine;
    return TD_OK;
}

static td_status start_viewer(td_viewer *viewer, const char *folder,
                              const td_viewer_options *options, td_error *error) {
    td_status status = load_engine(viewer, error);
    if (status) {
        return status;
    }
    const char *host = options->host;
    viewer->context.writable = options->write;
    if (options->program) {
        viewer->program = td__strdup(options->program);
        if (!viewer->program) {
            return td_error_set(error, TD_MEMORY, "out of memory");
        }
    }
    viewer->context.work.program = viewer->program;
    (void)snprintf(viewer->context.host, sizeof viewer->context.host, "%s", host ? host : "");
    viewer->context.cache = td__run_cache_create(folder, error);
    if (!viewer->context.cache) {
        return error && error->status ? error->status : TD_NOT_FOUND;
    }
    status = td__token_find(options->token_file, viewer->context.token, error);
    status = status ? status : listen_at(viewer, host, options->port, error);
    if (status) {
        return status;
    }
    bool any = host && (!strcmp(host, "0.0.0.0") || !strcmp(host, "::"));
    const char *shown = host && !any ? host : "127.0.0.1";
    bool six = strchr(shown, ':') != NULL;
    (void)snprintf(viewer->url, sizeof viewer->url, "http://%s%s%s:%d/?token=%s", six ? "[" : "",
                   shown, six ? "]" : "", viewer->context.port, viewer->context.token);
    if (pthread_create(&viewer->refresher, NULL, refresh_runs, viewer) != 0) {
        return td_error_set(error, TD_MEMORY, "no thread to look after the runs");
    }
    viewer->refresher_started = true;
    return TD_OK;
}

td_viewer *td_viewer_open(const char *folder, const td_viewer_options *options, td_error *error) {
    td_viewer_options full;
    (void)td__options(&full, sizeof full, options);
    td_viewer *viewer = td__calloc(1, sizeof *viewer);
    if (!viewer) {
        td_error_set(error, TD_MEMORY, "out of memory");
        return NULL;
    }
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&viewer->ending, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&viewer->lock, NULL);
    td__work_init(&viewer->context.work, NULL);
    atomic_store(&viewer->last_asked,
                 td__seconds()); /* the first refresh is before the first request */
    if (start_viewer(viewer, folder, &full, error)) {
        td_viewer_close(viewer);
        return NULL;
    }
    return viewer;
}

const char *td_viewer_url(const td_viewer *viewer) {
    return viewer->url;
}

void td_viewer_close(td_viewer *viewer) {
    if (!viewer) {
        return;
    }
    if (viewer->refresher_started) {
        pthread_mutex_lock(&viewer->lock);
        viewer->ended = true;
        pthread_cond_signal(&viewer->ending);
        pthread_mutex_unlock(&viewer->lock);
        pthread_join(viewer->refresher, NULL);
    }
    if (viewer->server) {
        viewer->engine.stop(viewer->server);
    }
    td__work_release(&viewer->context.work);
    td__free(viewer->program);
    td__run_cache_destroy(viewer->context.cache);
    for (int i = 0; i < RING; i++) {
        td__output_release(&viewer->messages[i]);
    }
    pthread_cond_destroy(&viewer->ending);
    pthread_mutex_destroy(&viewer->lock);
    td__free(viewer);
}
