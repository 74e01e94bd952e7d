/* The interface between the viewer and the HTTP engine, which is a plugin: the library itself needs
 * no web server. The engine handles connections, the viewer their content. */
#ifndef TAPEDECK_VIEW_HTTP_H
#define TAPEDECK_VIEW_HTTP_H

#include "answers/output.h"

/* Texts as the client sent them, NULL where it did not; host is NULL too when it sent several. Borrowed. */
typedef struct td__http_request {
    const char *method;
    const char *target; /* "/path?query", nothing decoded */
    const char *host, *origin, *cookie;
    bool gzip; /* is accepted */
} td__http_request;

/* All zero at first. */
typedef struct td__response {
    int status;
    const char *type;
    td__output body;
    char cookie[128]; /* for Set-Cookie; "": none */
    bool gzip;        /* so the body is encoded */
    bool allowed;     /* the client has the token */
    bool follow;      /* instead of a body: `message` is asked for more until it ends */
} td__response;

typedef struct td__http_options {
    const char *host; /* an address or a name to listen at */
    int port;         /* 0: any */
    void *user;
    void (*answer)(void *user, const td__http_request *request, td__response *response);
    void (*release)(void *user, td__response *response);
    /* The message after number *sequence, of at most size bytes, into text; its length, 0 when there
     * is none yet. Sets *sequence. */
    size_t (*message)(void *user, uint64_t *sequence, char *text, size_t size);
} td__http_options;

typedef struct td__http_server td__http_server;

/* What the plugin exports, as td_http_engine. */
typedef struct td__http_engine {
    size_t size; /* sizeof(td__http_engine): an engine of another version is refused */
    /* Serves from threads of its own; *port is the one it listens at. options is copied. */
    td_status (*start)(const td__http_options *options, td__http_server **server, int *port,
                       td_error *error);
    /* There are new messages. */
    void (*wake)(td__http_server *server);
    /* Whether somebody waits for messages. Called a few times a second: the engine also does here what has to
     * be done now and then. */
    bool (*followed)(td__http_server *server);
    void (*stop)(td__http_server *server);
} td__http_engine;

#endif
