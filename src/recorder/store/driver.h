/* What libtapedeck-postgresql.so does: libpq, wrapped so that the library needs neither libpq nor its headers. The
 * plugin calls nothing of the library. A connection belongs to one thread at a time. */
#ifndef TAPEDECK_STORE_DRIVER_H
#define TAPEDECK_STORE_DRIVER_H

#include <stdbool.h>
#include <stddef.h>

typedef struct td__pg_cell {
    const char *data; /* in PostgreSQL's binary format */
    int length;       /* -1: NULL */
} td__pg_cell;

/* A row of an answer, valid during the call only. False ends the reading: the connection is then of no more use. */
typedef bool td__pg_row_function(void *user, const td__pg_cell *cells, int count);

typedef struct td__pg_problem {
    char code[6];   /* SQLSTATE, or "" where the connection failed */
    char text[480]; /* one line, without a password */
} td__pg_problem;

typedef struct td__pg_driver {
    const char *version; /* td_version(): a plugin of another version is refused */
    /* password: NULL: what libpq finds by itself (environment, .pgpass, service file). seconds: until it gives up. NULL
     * with a problem. */
    void *(*open)(const char *url, const char *password, double seconds, td__pg_problem *problem);
    void (*close)(void *connection);
    /* One statement with `count` parameters as text, or with count -1 a script without any. After a COPY … FROM STDIN
     * put and finish follow. False with a problem. */
    bool (*run)(void *connection, const char *sql, int count, const char *const *values,
                double seconds, td__pg_row_function *each, void *user, td__pg_problem *problem);
    bool (*put)(void *connection, const void *bytes, size_t size, double seconds,
                td__pg_problem *problem);
    bool (*finish)(void *connection, double seconds, td__pg_problem *problem);
    /* Gives the payload of each notification that has arrived (after LISTEN), as a row, without waiting for more. False
     * with a problem. */
    bool (*notified)(void *connection, td__pg_row_function *each, void *user,
                     td__pg_problem *problem);
    /* False once nothing more can be done with it. */
    bool (*usable)(const void *connection);
} td__pg_driver;

#endif
