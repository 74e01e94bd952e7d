/* Alerts: somebody is notified, once for each cause, by a program or a web address.
 *
 * Under the deck's lock an alert is raised, which queues a message. The writer thread delivers it: it starts
 * the alert's program, or curl for its address, with what happened as JSON on its standard input, and looks
 * now and then whether that has ended. Nobody waits for it but the end of the run, and that not for long. */
#ifndef TAPEDECK_DECK_ALERT_H
#define TAPEDECK_DECK_ALERT_H

#include "tapedeck/deck.h"

#include <sys/types.h>

enum { TD__ALERTS = 64, TD__ALERT_CAUSES = 256, TD__ALERT_CHILDREN = 32 };

typedef struct td__alert {
    char **run;       /* NULL at the end; NULL: none */
    char *webhook;    /* NULL: none */
    bool conditional; /* not for td_deck_raise */
    bool raised;      /* its condition held; the deck's lock */
} td__alert;

/* A program that was started; the writer thread's. process 0: none. */
typedef struct td__alert_child {
    pid_t process;
    const char *what; /* its name */
    double until;     /* td__seconds; 0: it was killed */
} td__alert_child;

typedef struct td__alerts {
    td__alert *items[TD__ALERTS]; /* complete before a message names them */
    int32_t count;
    uint64_t causes[TD__ALERT_CAUSES]; /* hashes of those that td_deck_raise was given */
    int32_t cause_count;
    td__alert_child children[TD__ALERT_CHILDREN]; /* the writer thread's */
} td__alerts;

/* A condition of that alert holds; the lock is held. */
void td__alert_raise(td_deck *deck, td__alert *alert, const char *cause);
/* Starts what alert number `index` asks for; the writer thread, without the lock. */
void td__alert_deliver(td_deck *deck, int32_t index, const td_event *event);
/* Reports programs that have ended; the writer thread, without the lock. */
void td__alert_look(td_deck *deck);
/* The run ends: gives them a few seconds. */
void td__alert_finish(td_deck *deck);
void td__alerts_release(td__alerts *alerts);

#endif
