/* The folder of a run: created, or there already for a run that goes on. */
#ifndef TAPEDECK_DECK_FOLDER_H
#define TAPEDECK_DECK_FOLDER_H

#include "tapedeck/deck.h"

enum { TD__MAX_RANKS = 99999 };

/* Creates folder, or folder-2, folder-3, … when that exists (TD_EXISTS instead when exact), and
 * missing folders above it. Creating is what claims it: of two processes, one creates and the
 * other goes on to the next name. *claimed is the caller's (td__free). */
td_status td__folder_claim(const char *folder, bool exact, char **claimed, td_error *error);
/* FOLDER/rank-00003 of a launch, created; FOLDER-2, … where FOLDER is another launch's, or has this rank
 * already. Of an attempt above 1: FOLDER/attempt-2/rank-00003. All processes of a launch come to the same
 * FOLDER without waiting for each other: it comes into being by rename(), with the launch's name in it. */
td_status td__folder_claim_rank(const char *folder, const td_rank *rank, char **claimed,
                                td_error *error);
/* The folder of a run that goes on: TD_NOT_FOUND when it is not there. *found is the caller's. */
td_status td__folder_find(const char *folder, char **found, td_error *error);
/* Opens the folder and locks it for as long as the descriptor is open, whatever ends the process:
 * that a run is being written is seen by this lock, and on a network file system, where there is none that
 * could be relied on, by the run's heartbeat. *lock is -1 when the folder cannot be opened. TD_BUSY when another
 * process writes into it. */
td_status td__folder_lock(const char *folder, int *lock, td_error *error);
/* Removes a folder and all that is in it; does not follow links. False, with errno, when something stays. */
bool td__folder_remove(const char *folder);

#endif
