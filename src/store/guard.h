/* Locks on run.db that nothing the process does with the file can drop.
 *
 * SQLite's locks are POSIX locks: a process loses all it has on a file when it closes any descriptor
 * of it, be it of a copy that a notebook makes. Another program's SQLite then believes itself alone,
 * and removes the log that a deck goes on writing. So who writes also holds, for as long as run.db is
 * open, SQLite's shared locks on the database and on the log's index as open file description locks,
 * which only their own descriptor drops.
 *
 * That descriptor must not be closed while a connection of this process is open, for the same
 * reason: every connection enters and leaves. */
#ifndef TAPEDECK_STORE_GUARD_H
#define TAPEDECK_STORE_GUARD_H

#include "tapedeck/base.h"

typedef struct td__guard td__guard; /* one for each file that is open */

/* A connection to path is to be opened; NULL when memory is exhausted or there is no such file. */
td__guard *td__guard_enter(const char *path);
/* Holds the locks, from now until as many calls of td__guard_drop. Where the file system has none of
 * this kind there is no guard. */
void td__guard_hold(td__guard *guard, const char *path);
/* Before a connection that holds is closed: SQLite then is the last, and tidies up. */
void td__guard_drop(td__guard *guard);
/* The connection is closed. Accepts NULL. */
void td__guard_leave(td__guard *guard);

#endif
