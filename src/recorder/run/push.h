/* Writing a run where another program keeps its own: a target has a row in the table of push.c and a file. */
#ifndef TAPEDECK_RUN_PUSH_H
#define TAPEDECK_RUN_PUSH_H

#include "tapedeck/run.h"

#include <stdio.h>

enum { TD__PUSH_PATH = TD_EXPORT_PATH, TD__PUSH_ID = 33 };

typedef struct td__push {
    td_run *run;
    td_run_info info;
    const char *folder; /* that the target names */
    const char *title;
    td_run_query query;
    td_exported done;
    void (*problem)(void *user, const char *text); /* never NULL */
    void *user;
} td__push;

td_status td__push_mlflow(td__push *push, td_error *error);
td_status td__push_wandb(td__push *push, td_error *error);
/* Sends it to the database whose URL `folder` is. */
td_status td__push_database(td__push *push, td_error *error);

/* What is left out or changed, in a sentence. */
void td__push_say(const td__push *push, const char *format, ...) TD_PRINTF(2, 3);
/* `length` random hexadecimal digits and a zero. */
void td__push_id(char id[TD__PUSH_ID], int length);
/* Makes a folder and those above it. */
td_status td__push_folder(const char *path, td_error *error);
/* "FOLDER/NAME" in out; TD_INVALID when it is too long. */
td_status td__push_join(char out[TD__PUSH_PATH], const char *folder, const char *name,
                        td_error *error);
/* Closes a file that was written; path is for the message. */
td_status td__push_close(FILE *file, const char *path, td_error *error);

#endif
