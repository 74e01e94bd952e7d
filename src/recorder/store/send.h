/* Sending a run to PostgreSQL: the server is made to have what a store has. What is sent in one go is one transaction,
 * so a failure leaves the server as it was, and sending it again changes nothing. */
#ifndef TAPEDECK_STORE_SEND_H
#define TAPEDECK_STORE_SEND_H

#include "store/changes.h"
#include "store/copy.h"

enum { TD__SENDER_TEXT = 512 };

typedef struct td__sender {
    td__pg *pg;
    char run[TD__PG_NUMBER];    /* its number there */
    char name[TD__SENDER_TEXT]; /* what it is called there */
    char writer[160];           /* this process: "HOST PID START RANDOM" */
    bool ours;                  /* it is registered as the one that writes the run */
    bool known;                 /* everything was compared since the connection was made */
    int64_t digests[TD__PG_TABLES];
    bool has_digest[TD__PG_TABLES];
    int64_t rows;                /* sent, of all tables */
    struct td__sent_file *files; /* pg_files.c's: what of each file has been sent, by name */
    size_t file_count, file_capacity;
    /* Being built. */
    td__pg_bytes columns[10], steps, out;
} td__sender;

/* What a sender sends. */
typedef struct td__sent_run {
    const char *folder; /* its real path */
    const char *name;   /* that it should have; NAME-2 … where another run has it */
    const char *part;   /* "rank-00000"; "": one process wrote it */
    const char *launch; /* the same for all parts of a run, and for no other run */
    const char *id;     /* the run's own */
    int64_t bytes;      /* of its folder; negative: as before */
} td__sent_run;

/* Connects and finds the run there, or registers it. */
TD_NODISCARD td_status td__sender_open(td__sender *sender, const char *url, const td__sent_run *run,
                                       td_error *error);
/* Sends what has changed; NULL: whatever differs. live: this process goes on writing the run. TD_BUSY when another process
 * writes it. */
TD_NODISCARD td_status td__sender_send(td__sender *sender, td__store *from, td__changes *changes,
                                       const td__sent_run *run, bool live, td_error *error);
/* Registers nothing more as the run's writer, where there is a connection. */
void td__sender_close(td__sender *sender);

/* An id for the run in a store: what its deck noted, or what follows from when and where it began. place: "", or the
 * folder of a run that does not say. */
enum { TD__RUN_ID = 33 };
TD_NODISCARD td_status td__sender_id(td__store *from, const char *place, char id[TD__RUN_ID],
                                     td_error *error);
/* What is the same for all ranks of a run: the mark that they left in its folder, or else the id of one. */
void td__sender_launch(const char *folder, const char *id, char launch[TD__SENDER_TEXT]);

#endif
