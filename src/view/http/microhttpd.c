/* The engine that speaks HTTP, on libmicrohttpd: a plugin of its own (libtapedeck-http.so).
 *
 * Four threads share the connections (epoll); an idle connection is closed after a
 * while and takes a few kilobytes until then. A connection without an allowed request is closed after
 * STRANGER_SECONDS, however slowly it sends, so that strangers cannot occupy all of them. Followers are suspended
 * while there is nothing new.
 * Lock: a server's, of its followers and clients; MHD's functions for suspending may be called under it. */
#include "answers/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>

enum {
    THREADS = 4,
    MAX_CONNECTIONS = 2048,
    MAX_FOLLOWERS = 256,
    IDLE_SECONDS = 30,
    STRANGER_SECONDS = 5,
    HEADER_BYTES = 48 << 10,
    MESSAGE_BYTES = 64 << 10,
    LONGEST_TARGET = 24 << 10
};

typedef struct follower {
    struct td__http_server *server;
    struct MHD_Connection *connection;
    uint64_t sequence;
    bool suspended;
    struct follower *next;
} follower;

/* A connection. */
typedef struct client {
    int socket;
    struct timespec since;
    bool allowed; /* it has sent the token */
    struct client *next, *previous;
} client;

struct td__http_server {
    td__http_options options;
    struct MHD_Daemon *daemon;
    pthread_mutex_t lock;
    follower *followers;   /* lock */
    size_t follower_count; /* lock */
    client *clients;       /* lock; the newest first */
    bool stopping;         /* lock */
};

/* ---- Followers ------------------------------------------------------------------------------ */

static ssize_t read_messages(void *user, uint64_t position, char *buffer, size_t size) {
    (void)position;
    follower *f = user;
    struct td__http_server *server = f->server;
    /* Asked under the lock: a message that comes now wakes a connection that is suspended. */
    pthread_mutex_lock(&server->lock);
    ssize_t length = MHD_CONTENT_READER_END_OF_STREAM;
    if (!server->stopping) {
        length = (ssize_t)server->options.message(server->options.user, &f->sequence, buffer, size);
        if (length == 0) {
            f->suspended = true;
            MHD_suspend_connection(f->connection);
        }
    }
    pthread_mutex_unlock(&server->lock);
    return length;
}

static void remove_follower(void *user) {
    follower *f = user;
    struct td__http_server *server = f->server;
    pthread_mutex_lock(&server->lock);
    for (follower **at = &server->followers; *at; at = &(*at)->next) {
        if (*at == f) {
            *at = f->next;
            server->follower_count--;
            break;
        }
    }
    pthread_mutex_unlock(&server->lock);
    free(f);
}

static struct MHD_Response *follow_changes(struct td__http_server *server,
                                           struct MHD_Connection *connection) {
    follower *f = calloc(1, sizeof *f);
    if (!f) {
        return NULL;
    }
    *f = (follower){.server = server, .connection = connection};
    pthread_mutex_lock(&server->lock);
    bool room = server->follower_count < MAX_FOLLOWERS;
    if (room) {
        f->next = server->followers;
        server->followers = f;
        server->follower_count++;
    }
    pthread_mutex_unlock(&server->lock);
    struct MHD_Response *made =
        room ? MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, MESSAGE_BYTES, read_messages, f,
                                                 remove_follower)
             : NULL;
    if (!made) {
        remove_follower(f);
    }
    return made;
}

static void resume_all(struct td__http_server *server, bool stopping) {
    pthread_mutex_lock(&server->lock);
    server->stopping |= stopping;
    for (follower *f = server->followers; f; f = f->next) {
        if (f->suspended) {
            f->suspended = false;
            MHD_resume_connection(f->connection);
        }
    }
    pthread_mutex_unlock(&server->lock);
}

/* ---- Clients -------------------------------------------------------------------------------- */

static void add_client(struct td__http_server *server, struct MHD_Connection *connection,
                       void **context) {
    client *c = calloc(1, sizeof *c);
    *context = c;
    if (!c) {
        return;
    }
    c->socket = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    (void)clock_gettime(CLOCK_MONOTONIC, &c->since);
    pthread_mutex_lock(&server->lock);
    c->next = server->clients;
    if (c->next) {
        c->next->previous = c;
    }
    server->clients = c;
    pthread_mutex_unlock(&server->lock);
}

static void remove_client(struct td__http_server *server, client *c) {
    pthread_mutex_lock(&server->lock);
    *(c->previous ? &c->previous->next : &server->clients) = c->next;
    if (c->next) {
        c->next->previous = c->previous;
    }
    pthread_mutex_unlock(&server->lock);
    free(c);
}

static void watch_connection(void *user, struct MHD_Connection *connection, void **context,
                             enum MHD_ConnectionNotificationCode code) {
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        add_client(user, connection, context);
    } else if (*context) {
        remove_client(user, *context);
    }
}

static void allow_client(struct td__http_server *server, struct MHD_Connection *connection) {
    client *c =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    pthread_mutex_lock(&server->lock);
    if (c) {
        c->allowed = true;
    }
    pthread_mutex_unlock(&server->lock);
}

/* Ends connections that have been open for STRANGER_SECONDS without an allowed request. A socket is in the
 * list only while MHD has it open. The caller has the lock. */
static void end_strangers(struct td__http_server *server) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    for (client *c = server->clients; c; c = c->next) {
        if (!c->allowed && now.tv_sec - c->since.tv_sec > STRANGER_SECONDS) {
            (void)shutdown(c->socket, SHUT_RDWR);
        }
    }
}

/* ---- Requests ------------------------------------------------------------------------------- */

static void *keep_target(void *user, const char *target, struct MHD_Connection *connection) {
    (void)user;
    (void)connection;
    return strlen(target) <= LONGEST_TARGET ? strdup(target) : NULL;
}

static void drop_target(void *user, struct MHD_Connection *connection, void **state,
                        enum MHD_RequestTerminationCode code) {
    (void)user;
    (void)connection;
    (void)code;
    free(*state);
    *state = NULL;
}

static void add_headers(struct MHD_Response *made, const td__response *response) {
    static const char *const headers[][2] = {
        {"Content-Security-Policy", "default-src 'self'; base-uri 'none'; form-action 'none'; "
                                    "frame-ancestors 'none'"},
        {"X-Content-Type-Options", "nosniff"},
        {"Referrer-Policy", "no-referrer"},
        {"Cross-Origin-Resource-Policy", "same-origin"},
        {"Cross-Origin-Opener-Policy", "same-origin"},
        {"Cache-Control", "no-store"},
    };
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        (void)MHD_add_response_header(made, headers[i][0], headers[i][1]);
    }
    (void)MHD_add_response_header(made, "Content-Type", response->type);
    if (response->gzip) {
        (void)MHD_add_response_header(made, "Content-Encoding", "gzip");
    }
    if (*response->cookie) {
        (void)MHD_add_response_header(made, "Set-Cookie", response->cookie);
    }
}

static enum MHD_Result count_host(void *user, enum MHD_ValueKind kind, const char *key,
                                  const char *value) {
    (void)kind;
    (void)value;
    *(int *)user += strcasecmp(key, "Host") == 0;
    return MHD_YES;
}

static enum MHD_Result handle(void *user, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *data,
                              size_t *data_size, void **state) {
    (void)url;
    (void)version;
    (void)data;
    (void)data_size;
    struct td__http_server *server = user;
    td__http_request request = {
        .method = method,
        .target = *state ? *state : "/too-long",
        .origin = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Origin"),
        .cookie = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Cookie")};
    int hosts = 0;
    (void)MHD_get_connection_values(connection, MHD_HEADER_KIND, count_host, &hosts);
    request.host =
        hosts == 1 ? MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Host") : NULL;
    const char *accepted =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Accept-Encoding");
    request.gzip = accepted && strstr(accepted, "gzip");
    td__response response = {0};
    server->options.answer(server->options.user, &request, &response);
    if (response.allowed) {
        allow_client(server, connection);
    }
    struct MHD_Response *made =
        response.follow ? follow_changes(server, connection)
                        : MHD_create_response_from_buffer(response.body.size, response.body.data,
                                                          MHD_RESPMEM_MUST_COPY);
    server->options.release(server->options.user, &response);
    if (!made) {
        return MHD_NO; /* the connection is closed */
    }
    add_headers(made, &response);
    enum MHD_Result queued = MHD_queue_response(connection, (unsigned)response.status, made);
    MHD_destroy_response(made);
    return queued;
}

/* ---- Starting ------------------------------------------------------------------------------- */

static td_status find_address(const char *host, int port, struct sockaddr_storage *address,
                              td_error *error) {
    char service[16];
    (void)snprintf(service, sizeof service, "%d", port);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found = NULL;
    int code = getaddrinfo(host, service, &hints, &found);
    if (code != 0) {
        return td_error_set(error, TD_INVALID, "%s is no address to listen at: %s", host,
                            gai_strerror(code));
    }
    memcpy(address, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return TD_OK;
}

static struct MHD_Daemon *start_daemon(struct td__http_server *server, struct sockaddr *address) {
    unsigned flags = MHD_USE_AUTO | MHD_USE_INTERNAL_POLLING_THREAD | MHD_ALLOW_SUSPEND_RESUME |
                     (address->sa_family == AF_INET6 ? MHD_USE_IPv6 : 0U);
    return MHD_start_daemon(
        flags, 0, NULL, NULL, handle, server, MHD_OPTION_SOCK_ADDR, address,
        MHD_OPTION_THREAD_POOL_SIZE, (unsigned)THREADS, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)MAX_CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_SECONDS,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEADER_BYTES, MHD_OPTION_STRICT_FOR_CLIENT, 1,
        MHD_OPTION_NOTIFY_CONNECTION, watch_connection, server, MHD_OPTION_URI_LOG_CALLBACK,
        keep_target, NULL, MHD_OPTION_NOTIFY_COMPLETED, drop_target, NULL, MHD_OPTION_END);
}

static td_status start_server(const td__http_options *options, td__http_server **result, int *port,
                              td_error *error) {
    struct sockaddr_storage address;
    td_status status = find_address(options->host, options->port, &address, error);
    if (status) {
        return status;
    }
    struct td__http_server *server = calloc(1, sizeof *server);
    if (!server) {
        return td_error_set(error, TD_MEMORY, "out of memory");
    }
    server->options = *options;
    pthread_mutex_init(&server->lock, NULL);
    errno = 0;
    server->daemon = start_daemon(server, (struct sockaddr *)&address);
    if (!server->daemon) {
        int reason = errno;
        pthread_mutex_destroy(&server->lock);
        free(server);
        return td_error_set(error, TD_IO, "cannot listen at %s, port %d: %s", options->host,
                            options->port, reason ? strerror(reason) : "it is taken");
    }
    *port = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
    *result = server;
    return TD_OK;
}

static void wake(td__http_server *server) {
    resume_all(server, false);
}

static bool followed(td__http_server *server) {
    pthread_mutex_lock(&server->lock);
    bool any = server->followers != NULL;
    end_strangers(server);
    pthread_mutex_unlock(&server->lock);
    return any;
}

static void stop(td__http_server *server) {
    resume_all(server, true);
    MHD_stop_daemon(server->daemon);
    pthread_mutex_destroy(&server->lock);
    free(server);
}

extern const td__http_engine td_http_engine;
__attribute__((visibility("default"))) const td__http_engine td_http_engine = {
    .size = sizeof(td__http_engine),
    .start = start_server,
    .wake = wake,
    .followed = followed,
    .stop = stop,
};
